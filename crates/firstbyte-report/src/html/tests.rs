//! Rules that the page has to follow.

use firstbyte_core::run::{Cell, Factor};
use resvg::usvg::roxmltree::{Document, ParsingOptions};

use super::*;
use crate::study::Verdict;
use crate::study::fixtures::{Made, made};

fn page_of(made: &Made) -> String {
    page(&made.study())
}

/// The page without its script and document type declaration, which are not XML.
fn as_xml(page: &str) -> String {
    let (before, rest) = page.split_once("<script>").unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    format!("{before}{after}").replace("<!DOCTYPE html>", "")
}

fn parse(xml: &str) -> Document<'_> {
    Document::parse_with_options(xml, ParsingOptions::default()).unwrap()
}

#[test]
fn it_is_well_formed_and_ids_are_unique() {
    for made in [made(2, 1, 1, 5), made(6, 3, 2, 12)] {
        let xml = as_xml(&page_of(&made));
        let document = parse(&xml);
        let mut ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
        for node in document.descendants() {
            for id in node.attribute("aria-labelledby").unwrap_or("").split_whitespace() {
                assert!(ids.binary_search(&id).is_ok(), "{id}");
            }
        }
        for table in document.descendants().filter(|n| n.has_tag_name("table")) {
            assert!(table.descendants().any(|n| n.has_tag_name("caption")));
            let heads = table.descendants().filter(|n| n.has_tag_name("th"));
            assert!(heads.into_iter().all(|th| th.has_attribute("scope")));
        }
    }
}

#[test]
fn it_loads_nothing() {
    let page = page_of(&made(2, 1, 1, 5));
    assert!(page.contains("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"));
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for load in ["http://", "https://", "src=", "@import", "url(", "<link", "<img", "<iframe"] {
        assert!(!without_namespace.contains(load), "{load}");
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains(" onload") && !page.contains("javascript:"));
}

/// The information in the page's drawings and tables is available without the script.
#[test]
fn it_reads_without_its_script() {
    let page = page_of(&made(2, 3, 2, 50));
    let found = page.find("TLS 1.3 cut the median total time").unwrap();
    let first_picture = page.find("<svg class=\"panel\"").unwrap();
    let tables = page.find("<caption><span>").unwrap();
    let command = page.find("firstbyte compare --vary").unwrap();
    assert!(found < first_picture && first_picture < tables && tables < command);
    assert!(page.contains("median sample: 45"));
    assert!(page.contains("8 ") && page.contains("no address answered within 5 s"));
}

#[test]
fn what_comes_from_outside_is_text() {
    let hostile = "\"><script>alert('x')</script><b onclick=x>&amp;\u{0}\u{202e}";
    let mut made = made(2, 1, 1, 5);
    for (index, cell) in made.cells.iter_mut().enumerate() {
        *cell = Cell {
            factors: vec![Factor {
                axis: hostile.into(),
                value: hostile.into(),
                label: format!("{index}{hostile}"),
            }],
            url: format!("https://{hostile}/"),
            twin_of: None,
        };
    }
    made.environment.push((hostile.into(), hostile.into()));
    made.sentences.push(Sentence { text: hostile.into(), verdict: Verdict::Slower });
    made.failures.push(crate::study::FailureView { cell: 0, cause: hostile.into(), count: 1 });
    let study = Study { title: hostile, date: hostile, command: hostile, ..made.study() };
    let page = page(&study);
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<b ") && !page.contains('\u{202e}') && !page.contains('\u{0}'));
    let xml = as_xml(&page);
    let document = parse(&xml);
    assert!(!document.descendants().any(|n| n.has_attribute("onclick")));
}

/// Ten thousand samples in twelve or in thirty-six cells take less than a megabyte, and with more samples the page
/// stays below two.
#[test]
fn it_stays_small() {
    for (made, most) in [
        (made(2, 3, 2, 834), 1_000_000),
        (made(6, 3, 2, 278), 1_000_000),
        (made(2, 3, 2, 6_000), 1_000_000),
        (made(6, 3, 2, 2_000), 2_000_000),
    ] {
        let page = page_of(&made);
        assert!(page.len() < most, "{} cells: {} bytes", made.cells.len(), page.len());
    }
}

#[test]
fn nothing_measured_is_no_panic() {
    let page = page(&Study::default());
    parse(&as_xml(&page));
}

/// The values that the script reads from a drawing equal the measured ones.
#[test]
fn drawings_hold_the_values() {
    let made = made(2, 1, 1, 5);
    let xml = as_xml(&page_of(&made));
    let document = parse(&xml);
    let panel =
        document.descendants().find(|n| n.attribute("data-kind") == Some("rounds")).unwrap();
    let plot = panel.descendants().find(|n| n.attribute("class") == Some("pl")).unwrap();
    let whole = plot.children().find(|n| n.has_tag_name("path")).unwrap();
    let d = whole.attribute("d").unwrap();
    let first: i64 = d.split(['h', 'v']).nth(1).unwrap().parse().unwrap();
    let row = made.rows.iter().find(|r| r.cell == 0 && r.counts()).unwrap();
    let total = row.metric(firstbyte_core::run::Metric::Total).unwrap();
    let decimals: u32 = panel.attribute("data-dec").unwrap().parse().unwrap();
    let step = 1_000_000 / 10u64.pow(decimals);
    assert_eq!(-first, ((total + step / 2) / step).cast_signed());
}
