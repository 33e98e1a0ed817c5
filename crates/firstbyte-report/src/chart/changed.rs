//! Changes, before and after: times as distributions, shares as bars.
//!
//! Input: the data behind a difference, on both sides. Output: a [`Figure`] with one panel per difference. Before
//! is grey and dashed, after is blue; both are also labelled in words.

use firstbyte_passive::diff::{Figure as Seen, Spread, What};
use firstbyte_passive::document::value_name;

use super::captured::{Times, shares};
use super::figure::{Figure, Key, Panel, Row, panel_title};
use super::{SMALL, WIDTH};
use crate::svg::{Anchor, Canvas, fit};
use crate::units::grouped;

const BEFORE: &str = "v2";
const AFTER: &str = "v0";
/// Classes of the lines: dashed dark, and solid blue.
const LINES: [&str; 2] = ["s14", "s0"];
/// Number of versions, keys, groups or cipher suites with their own bars.
const VALUES: usize = 5;

/// The panels, with a note on how to read them.
pub(crate) fn figure(panels: Vec<Panel>, note: &str) -> Figure {
    Figure {
        name: "pictures",
        title: "Before and after".into(),
        note: format!(
            "Times: share of connections that ended within a time, through the quantiles at every percent; \
             further left is faster. Shares: of the connections for which it is known. Both sides have the \
             same mix of versions, handshakes and first connections of clients. \
             Below each the 95 % interval of the change (pp: percentage points).{note}"
        ),
        keys: vec![
            Key::area(BEFORE, "before, or the baseline"),
            Key::area(AFTER, "after, or compared with it"),
        ],
        rows: vec![Row { heading: String::new(), panels }],
        folded: false,
    }
}

/// The picture of a change between two named sides; absent if there are no connections.
pub(crate) fn panel(
    title: &str,
    sides: [String; 2],
    spread: &Spread,
    interval: &str,
) -> Option<Panel> {
    let (mut panel, of) = match spread {
        Spread::Times(times) => (distributions(title, sides, times)?, "the median's change"),
        Spread::Shares(values) => (bars(title, &sides, values), "change"),
    };
    let mut canvas = Canvas(std::mem::take(&mut panel.body));
    let text = format!("{of}: {interval} (95 %)");
    canvas.text(0.0, panel.height + 14.0, Anchor::Start, "l", &fit(&text, SMALL, WIDTH));
    panel.body = canvas.0;
    panel.height += 20.0;
    panel.description = format!("{}; {text}", panel.description);
    Some(panel)
}

fn distributions(title: &str, sides: [String; 2], times: &[Vec<f64>; 2]) -> Option<Panel> {
    let mut kinds = Vec::new();
    for ((name, class), seconds) in sides.into_iter().zip(LINES).zip(times) {
        let sorted: Vec<u64> = seconds.iter().map(|s| (s * 1e9).round().max(0.0) as u64).collect();
        kinds.push(Times { name, class, count: sorted.len() as u64, sorted });
    }
    shares(title, &kinds)
}

fn bars(title: &str, sides: &[String; 2], values: &[(What, [Seen; 2])]) -> Panel {
    const BEGIN: f64 = 82.0;
    const BAR: f64 = 14.0;
    const GAP: f64 = 4.0;
    let largest =
        values.iter().flat_map(|(_, sides)| sides).map(|side| side.value).fold(0.0, f64::max);
    // If all shares are small, a scale up to 100 % would hide them.
    let (whole, is_whole) = if largest > 0.2 { (1.0, true) } else { (largest.max(1e-9), false) };
    let mut canvas = Canvas::default();
    let mut y = panel_title(&mut canvas, title, WIDTH) - 2.0;
    let room = WIDTH - BEGIN - 148.0;
    let mut described = Vec::new();
    for (value, figures) in values.iter().take(VALUES) {
        if let Some(name) = value_name(*value) {
            canvas.text(0.0, y + 11.0, Anchor::Start, "n", &fit(&name, SMALL, WIDTH));
            described.push(name);
            y += 16.0;
        }
        for (side, class) in [BEFORE, AFTER].into_iter().enumerate() {
            let name = fit(&sides[side], SMALL, BEGIN - 8.0);
            canvas.text(BEGIN - 6.0, y + 11.0, Anchor::End, "n", &name);
            if is_whole {
                canvas.rect([BEGIN, y, room, BAR], "b", None);
            }
            let (count, part) = (figures[side].count.unwrap_or(0), figures[side].value);
            if part > 0.0 {
                canvas.rect([BEGIN, y, (room * part / whole).max(1.0), BAR], class, None);
            }
            let [n, all] = [count, figures[side].of].map(|n| grouped(n as u64));
            let label = format!("{:.1} % ({n} of {all})", 100.0 * part);
            let at = BEGIN + if is_whole { room } else { room * part / whole } + 6.0;
            canvas.text(at, y + 11.0, Anchor::Start, "l", &fit(&label, SMALL, WIDTH - at));
            described.push(format!("{} {label}", sides[side]));
            y += BAR + GAP;
        }
        y += 6.0;
    }
    if let Some(more) = values.len().checked_sub(VALUES).filter(|more| *more > 0) {
        let count = |side: &Seen| side.count.unwrap_or(0);
        let left: [usize; 2] =
            [0, 1].map(|n| values[VALUES..].iter().map(|(_, sides)| count(&sides[n])).sum());
        let [before, after] = left.map(|n| grouped(n as u64));
        let text = format!("{more} more values: {before} → {after} connections");
        canvas.text(0.0, y + 11.0, Anchor::Start, "n", &fit(&text, SMALL, WIDTH));
        y += 16.0;
    }
    Panel {
        title: title.to_owned(),
        description: described.join(", "),
        width: WIDTH,
        height: y,
        body: canvas.0,
        ..Panel::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bars_with_their_counts() {
        let sides = || ["before".to_owned(), "after".to_owned()];
        let share = |counts: [usize; 2]| {
            let share =
                |count, of| Seen { value: count as f64 / of as f64, count: Some(count), of };
            [share(counts[0], 640), share(counts[1], 655)]
        };
        let spread = Spread::Shares(vec![
            (What::Version(0x0303), share([518, 0])),
            (What::Version(0x0304), share([122, 655])),
        ]);
        let panel = panel("1. TLS 1.2", sides(), &spread, "−85 to −77 pp").unwrap();
        for part in ["80.9 % (518 of 640)", "0.0 % (0 of 655)", "TLS 1.3", "−85 to −77 pp"] {
            assert!(panel.body.contains(part), "{part}\n{}", panel.body);
        }
        let times = Spread::Times([vec![0.001, 0.002, 0.003], vec![0.004, 0.005]]);
        let panel = super::panel("2. server", sides(), &times, "+2.00 ms to +3.00 ms").unwrap();
        assert!(panel.body.contains("before: half within 2.000 ms (n 3)"), "{}", panel.body);
        assert!(super::panel("3.", sides(), &Spread::Times([vec![], vec![]]), "").is_none());
    }
}
