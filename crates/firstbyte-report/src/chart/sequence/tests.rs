use firstbyte_core::sequence::Sequence;
use firstbyte_core::timeline::Sample;
use resvg::usvg::roxmltree::Document;

use super::*;
use crate::Style;
use crate::chart::tests::looked_up;
use crate::fixtures as samples;
use crate::sequence::fixtures;
use crate::sequence::story::{Step, tell};
use crate::svg::width;

fn sequence_of(sample: &Sample) -> Sequence {
    Sequence::lay_out(&sample.connection)
}

fn alone(sample: &Sample) -> Figure {
    sequences("A connection", &[(sample.connection.url.as_str(), sequence_of(sample))])
}

fn whiteboard() -> Figure {
    let (http, https) = (sequence_of(&samples::plain_http()), sequence_of(&samples::tls13_http2()));
    let ping = http.ping_like().unwrap();
    sequences("Why it takes so long", &[("ping-like", ping), ("http", http), ("https", https)])
}

/// Boxes of the drawn texts: left, top, right, bottom.
fn boxes(panel: &Panel) -> Vec<(String, [f64; 4])> {
    let xml = panel.inline("x");
    let document = Document::parse(&xml).unwrap();
    let texts = document.descendants().filter(|n| n.has_tag_name("text"));
    texts
        .map(|text| {
            let x: f64 = text.attribute("x").unwrap().parse().unwrap();
            let y: f64 = text.attribute("y").unwrap().parse().unwrap();
            let said = text.text().unwrap_or("").to_owned();
            let wide = width(&said, 11.5);
            let left = match looked_up(text, "text-anchor") {
                Some("end") => x - wide,
                Some("middle") => x - wide / 2.0,
                _ => x,
            };
            (said, [left, y - 8.5, left + wide, y + 1.5])
        })
        .collect()
}

#[test]
fn no_text_touches_another_or_leaves_its_panel() {
    let mut figures: Vec<Figure> = fixtures::all().iter().map(alone).collect();
    figures.push(whiteboard());
    for figure in &figures {
        for panel in figure.panels() {
            let boxes = boxes(panel);
            for (index, (said, [left, top, right, bottom])) in boxes.iter().enumerate() {
                assert!(*left > -8.0 && *right < panel.width + 8.0, "{}: {said}", panel.title);
                assert!(*top > 0.0 && *bottom <= panel.height, "{}: {said}", panel.title);
                for (other, [l, t, r, b]) in &boxes[index + 1..] {
                    let apart = right <= l || r <= left || bottom <= t || b <= top;
                    assert!(apart, "{}: {said:?} on {other:?}", panel.title);
                }
            }
        }
    }
}

#[test]
fn panels_of_a_row_share_one_scale() {
    let figure = whiteboard();
    let heights: Vec<f64> = figure.panels().map(|p| p.height).collect();
    assert_eq!(heights.len(), 3);
    assert!(heights.windows(2).all(|pair| pair[0] == pair[1]));
    let totals: Vec<&str> = figure.panels().map(|p| p.description.as_str()).collect();
    assert!(totals[0].ends_with("1 round trip, total 20.42 ms"), "{totals:?}");
    assert!(totals[1].ends_with("total 49.13 ms"), "{totals:?}");
    insta::assert_snapshot!(figure.svg());
}

#[test]
fn every_wait_that_counts_is_said() {
    let figure = alone(&samples::tls12_sydney());
    let said: Vec<String> = figure.panels().flat_map(boxes).map(|(said, _)| said).collect();
    assert_eq!(said.iter().filter(|s| *s == "round trip 81.1 ms").count(), 4, "{said:?}");
    assert!(said.iter().any(|s| s == "server 8.3 ms"), "{said:?}");
    // Between the response's two flights there is space only for the time.
    assert!(said.iter().any(|s| s == "~306.5") && said.iter().any(|s| s == "347.0"), "{said:?}");
    assert!(said.iter().any(|s| s == "~290.3") && said.iter().any(|s| s == "339.1"), "{said:?}");
}

/// The server's time is labelled, whatever else is sent in the meantime.
#[test]
fn the_servers_time_finds_its_place() {
    for sample in fixtures::all() {
        let figure = alone(&sample);
        let scale = Scale::for_largest(sequence_of(&sample).total);
        let said: Vec<String> = figure.panels().flat_map(boxes).map(|(said, _)| said).collect();
        for step in tell(&sequence_of(&sample), &Style::default()) {
            let Step::Wait(wait) = step else { continue };
            if wait.part != Part::Server || !wait.counts(&sequence_of(&sample), scale) {
                continue;
            }
            let time = scale.time(wait.time, &Style::default());
            assert!(said.iter().any(|s| s.ends_with(&time)), "{}: {time}: {said:?}", figure.title);
        }
    }
}

#[test]
fn what_servers_send_stays_text() {
    let mut sample = samples::plain_http();
    sample.connection.flights[1].messages = vec!["</text><script>alert(1)</script>".into()];
    let svg = alone(&sample).svg();
    Document::parse(&svg).unwrap();
    assert!(!svg.contains("<script"));
}

/// `FIRSTBYTE_GALLERY=DIR cargo test -p firstbyte-report sequence_gallery -- --ignored`.
#[test]
#[ignore = "writes files to look at"]
fn sequence_gallery() {
    let dir = std::path::PathBuf::from(std::env::var_os("FIRSTBYTE_GALLERY").unwrap());
    let mut figures = vec![("whiteboard".to_owned(), whiteboard())];
    for (number, sample) in fixtures::all().iter().enumerate() {
        figures.push((format!("{number:02}"), alone(sample)));
    }
    for (name, figure) in figures {
        let file = dir.join(format!("sequence-{name}"));
        std::fs::write(file.with_extension("svg"), figure.svg()).unwrap();
        std::fs::write(file.with_extension("png"), figure.png().unwrap()).unwrap();
    }
}
