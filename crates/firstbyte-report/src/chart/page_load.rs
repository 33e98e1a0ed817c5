//! A page load: connections and requests on one time axis.

use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{Navigation, Offset};
use firstbyte_pages::page_load::PageLoad;

use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row};
use super::{SMALL, time};
use crate::page_load::{PageRow, Piece, rows};
use crate::svg::{Anchor, BOLD, Canvas, fit};
use crate::units::count;

const WIDE: f64 = 900.0;
const LEFT: f64 = 250.0;
const BAR: f64 = 12.0;
const LINE: f64 = 19.0;

/// The picture of `page`.
pub fn page_load(page: &Navigation) -> Figure {
    page_load_laid_out(page, &PageLoad::from_navigation(page))
}

/// The picture of `page` with a given layout, from a caller who knows more about its source.
pub fn page_load_laid_out(page: &Navigation, load: &PageLoad) -> Figure {
    let rows = rows(page, load);
    let seen = |piece: &Piece| rows.iter().any(|row| row.bar.iter().any(|(.., of)| of == piece));
    let keys = Piece::ALL.into_iter().filter(seen);
    let mut note = count(load.requests.len() as u64, "request");
    if let Some(loaded) = page.loaded {
        note += &format!(", loaded in {}", time(loaded.at.as_nanos() as f64));
    }
    if let Some(share) = load.set_up_share() {
        let waited = time(load.set_up_waited.as_nanos() as f64);
        note += &format!(", waiting for set-up {waited} ({:.0} %)", share * 100.0);
    }
    Figure {
        folded: false,
        name: "page",
        title: shown_url(&page.main.requested_url),
        note: note + ". Each connection is followed by its requests.",
        keys: keys.map(|piece| Key::area(class(piece), piece.label())).collect(),
        rows: vec![Row {
            heading: String::new(),
            panels: panel(&rows, load.end).into_iter().collect(),
        }],
    }
}

const fn class(piece: Piece) -> &'static str {
    match piece {
        Piece::Name => "p0",
        Piece::Tcp => "p1",
        Piece::Handshake => "p2",
        Piece::InVain => "p3",
        Piece::Unsent => "b",
        Piece::Waiting => "p5",
        Piece::Receiving => "p6",
    }
}

fn panel(rows: &[PageRow], end: Offset) -> Option<Panel> {
    let longest = rows.iter().flat_map(|row| &row.bar).map(|(_, to, _)| *to).chain([end]).max()?;
    if longest <= Offset::ZERO {
        return None;
    }
    let axis = TimeAxis::new(0.0, longest.as_nanos() as f64);
    let scale = (WIDE - LEFT - 30.0) / axis.high;
    let x = |at: Offset| LEFT + at.as_nanos().max(0) as f64 * scale;
    let bottom = rows.len() as f64 * LINE + 4.0;
    let mut canvas = Canvas::default();
    for (at, text) in axis.ticks(8.0) {
        let at = LEFT + at * scale;
        canvas.line([at, 0.0], [at, bottom], "g");
        canvas.text(at, bottom + 14.0, Anchor::Middle, "n", &text);
    }
    canvas.text(LEFT - 12.0, bottom + 14.0, Anchor::End, "n", axis.unit());
    let mut sentences = Vec::new();
    for (line, row) in (0u32..).zip(rows) {
        let y = f64::from(line) * LINE + 2.0;
        let name = match &row.end {
            Some(end) => format!("{} {end}", row.name),
            None => row.name.clone(),
        };
        let indent = if row.is_connection { 0.0 } else { 12.0 };
        let class_of_name = if row.is_connection { "l" } else { "n" };
        let size = if row.is_connection { SMALL * BOLD } else { SMALL };
        let shown = fit(&name, size, LEFT - indent - 14.0);
        canvas.text(indent, y + 11.0, Anchor::Start, class_of_name, &shown);
        let mut told = Vec::new();
        for (from, to, piece) in &row.bar {
            let took = format!("{} {}", piece.label(), time(to.since(*from).as_nanos() as f64));
            let bar = [x(*from), y, (x(*to) - x(*from)).max(1.0), BAR];
            canvas.rect(bar, class(*piece), Some(&format!("{name}: {took}")));
            told.push(took);
        }
        sentences.push(format!("{name}: {}", told.join(", ")));
    }
    let title = "Connections and requests".to_owned();
    let height = bottom + 20.0;
    let description = sentences.join("; ");
    Some(Panel { title, description, width: WIDE, height, body: canvas.0, ..Panel::default() })
}

#[cfg(test)]
mod tests {
    use firstbyte_core::document::navigation;

    use super::*;

    #[test]
    fn every_request_has_a_bar_and_a_name() {
        let line = include_str!("../../../firstbyte-core/fixtures/navigation/chromium.ndjson");
        let page = navigation(line.trim_end().as_bytes()).unwrap();
        let figure = page_load(&page);
        let svg = figure.svg();
        for name in ["/style.css", "/app.js", "fonts.test", "/hit failed"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.contains("in vain") && svg.contains("coalesced"));
        assert!(figure.png().unwrap().len() > 1_000);
    }

    #[test]
    fn a_page_that_did_not_come_has_no_panel() {
        assert_eq!(page_load(&Navigation::default()).panels().count(), 0);
    }
}
