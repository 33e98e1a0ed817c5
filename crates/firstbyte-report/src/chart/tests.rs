//! Rules that every picture has to follow, and a gallery of pictures.

use firstbyte_core::run::{Cell, Factor};
use resvg::usvg::roxmltree::{Document, Node};

use super::*;
use crate::study::fixtures::{Made, made};

fn drawn(made: &Made) -> Vec<Figure> {
    figures(&made.study())
}

/// Small and large studies, with few and many cells.
fn sizes() -> Vec<Made> {
    vec![made(2, 1, 1, 1), made(2, 1, 1, 5), made(2, 3, 2, 40), made(6, 3, 2, 12)]
}

#[test]
fn there_is_a_picture_for_every_question() {
    let names: Vec<&str> = drawn(&made(2, 1, 1, 30)).iter().map(|f| f.name).collect();
    assert_eq!(
        names,
        ["phases", "medians", "distributions", "differences", "waterfalls", "sequences"]
    );
}

#[test]
fn sheets_are_xml_and_everything_is_named() {
    for made in sizes() {
        for figure in drawn(&made) {
            let svg = figure.svg();
            let document = Document::parse(&svg).unwrap();
            let root = document.root_element();
            assert!(
                root.children().any(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "title")))
            );
            assert!(!svg.contains("NaN") && !svg.contains("inf "), "{}", figure.name);
            for panel in figure.panels() {
                assert!(!panel.title.is_empty() && !panel.description.is_empty());
                Document::parse(&panel.inline("x")).unwrap();
            }
        }
    }
}

/// An attribute of `node` or of an enclosing group.
pub(super) fn looked_up<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.attribute(name).or_else(|| node.parent_element()?.attribute(name))
}

#[test]
fn texts_stay_on_their_sheet() {
    for made in sizes() {
        for figure in drawn(&made) {
            for panel in figure.panels() {
                let xml = panel.inline("x");
                let document = Document::parse(&xml).unwrap();
                for text in document.descendants().filter(|n| n.has_tag_name("text")) {
                    let x: f64 = text.attribute("x").unwrap().parse().unwrap();
                    let y: f64 = text.attribute("y").unwrap().parse().unwrap();
                    let said = text.text().unwrap_or("");
                    let size =
                        if looked_up(text, "class") == Some("pt") { TITLE * 1.13 } else { SMALL };
                    let wide = crate::svg::width(said, size);
                    let left = match looked_up(text, "text-anchor") {
                        Some("end") => x - wide,
                        Some("middle") => x - wide / 2.0,
                        _ => x,
                    };
                    let name = figure.name;
                    assert!(left > -16.0, "{name}: {said:?} begins at {left}");
                    assert!(left + wide < panel.width + 16.0, "{name}: {said:?} ends beyond");
                    assert!(y > 0.0 && y <= panel.height, "{name}: {said:?} at {y}");
                }
            }
        }
    }
}

#[test]
fn hostile_names_stay_text() {
    let hostile = "</text></svg><script>alert(1)</script>\"'&\u{0}\u{202e}";
    let mut made = made(2, 1, 1, 5);
    for (index, cell) in made.cells.iter_mut().enumerate() {
        *cell = Cell {
            factors: vec![Factor {
                axis: "variant".into(),
                value: index.to_string(),
                label: format!("{index}{hostile}"),
            }],
            ..cell.clone()
        };
    }
    for figure in drawn(&made) {
        let svg = figure.svg();
        Document::parse(&svg).unwrap();
        assert!(!svg.contains("<script"));
    }
}

#[test]
fn pixels_have_no_media_queries_and_twice_the_size() {
    let made = made(2, 1, 1, 5);
    for figure in drawn(&made) {
        assert!(!figure.sheet(super::dress::Theme::Light).contains("@media"));
    }
    let png = drawn(&made)[1].png().unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
    assert_eq!(width, 1280);
}

#[test]
fn nothing_measured_is_no_picture() {
    assert!(figures(&Study::default()).is_empty());
}

#[test]
fn phases_of_five_rounds() {
    let svg = drawn(&made(2, 1, 1, 5))[0].svg();
    insta::assert_snapshot!(svg);
}

#[test]
fn differences_of_two_ways() {
    let svg = drawn(&made(2, 1, 1, 30))[3].svg();
    assert!(svg.contains("TLS 1.3 vs. TLS 1.2: faster"));
    insta::assert_snapshot!(svg);
}

/// Writes pages and pictures for visual inspection: `FIRSTBYTE_GALLERY=DIR cargo test -p firstbyte-report gallery
/// -- --ignored`.
#[test]
#[ignore = "writes files to look at"]
fn gallery() {
    let dir = std::path::PathBuf::from(std::env::var_os("FIRSTBYTE_GALLERY").unwrap());
    for (name, [ways, edges, families], rounds) in [
        ("two-5", [2, 1, 1], 5),
        ("twelve-50", [2, 3, 2], 50),
        ("twelve-833", [2, 3, 2], 833),
        ("many-278", [6, 3, 2], 278),
        ("four-100000", [2, 1, 2], 100_000),
        ("long-names", [6, 1, 1], 40),
    ] {
        let mut made = made(ways, edges, families, rounds);
        if name == "long-names" {
            for factor in made.cells.iter_mut().map(|c| &mut c.factors[0]) {
                factor.label += " with X25519MLKEM768 and a long certificate chain, over IPv6";
            }
        }
        let study = made.study();
        std::fs::write(dir.join(format!("{name}.html")), crate::html::page(&study)).unwrap();
        for figure in figures(&study) {
            let file = dir.join(format!("{name}-{}", figure.name));
            std::fs::write(file.with_extension("svg"), figure.svg()).unwrap();
            std::fs::write(file.with_extension("png"), figure.png().unwrap()).unwrap();
        }
    }
}
