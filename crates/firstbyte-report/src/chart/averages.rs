//! Daily averages over time: one dot per day, the level as a line, and labelled changes.

use firstbyte_core::stats::Pace;
use firstbyte_sources::averages::date_of_day;

use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row};
use crate::averages::{AveragesView, date, ms, range, sentences, signed, without_season};
use crate::svg::{Anchor, Canvas};

const WIDE: f64 = 900.0;
const HIGH: f64 = 300.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 30.0;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The picture. It has no panel if there are no analysed days.
pub fn averages(view: &AveragesView<'_>) -> Figure {
    let [first, last] = view.averages.span();
    let note = view.found.map_or(String::new(), |found| {
        sentences(view.averages, found).join(" ")
            + " Dots are days, without what their weekday adds."
    });
    Figure {
        folded: false,
        name: "averages",
        title: format!(
            "Daily averages of {}, {} to {}",
            view.averages.time.name(),
            date(first),
            date(last)
        ),
        note,
        keys: vec![
            Key::symbol("●", "v2", "a day"),
            Key::symbol("━", "ux", "the level"),
            Key::area("b", "when it can have changed (95 %)"),
        ],
        rows: vec![Row { heading: String::new(), panels: panel(view).into_iter().collect() }],
    }
}

fn panel(view: &AveragesView<'_>) -> Option<Panel> {
    let found = view.found?;
    let days = &view.averages.days;
    let [first, last] = view.averages.span();
    let values = without_season(view.averages, found);
    let [low, high] = range(&values, &found.levels);
    let axis = TimeAxis::new(low, high);
    let x = |day: f64| {
        LEFT + (day - first as f64) / (last - first).max(1) as f64 * (WIDE - LEFT - 14.0)
    };
    let y = |ns: f64| TOP + (1.0 - axis.share(ns)) * HIGH;
    let mut canvas = Canvas::default();
    for change in &found.changes {
        let [from, until] = change.between.map(|day| day as f64);
        let (from, until) = (x(from - 0.5), x(until + 0.5));
        canvas.rect([from, TOP, until - from, HIGH], "b", None);
    }
    for (at, text) in axis.ticks(6.0) {
        canvas.line([LEFT, y(at)], [WIDE - 14.0, y(at)], "g");
        canvas.text(LEFT - 8.0, y(at) + 4.0, Anchor::End, "n", &text);
    }
    canvas.text(LEFT - 8.0, TOP - 14.0, Anchor::End, "n", axis.unit());
    for day in first..=last {
        let (year, month, number) = date_of_day(day);
        if number == 1 && x(day as f64) + 70.0 < WIDE {
            let at = x(day as f64);
            canvas.line([at, TOP + HIGH], [at, TOP + HIGH + 5.0], "ax");
            let name = MONTHS[month as usize - 1];
            let name = if month == 1 || day < first + 31 {
                format!("{name} {year}")
            } else {
                name.to_owned()
            };
            canvas.text(at + 3.0, TOP + HIGH + 16.0, Anchor::Start, "n", &name);
        }
    }
    canvas.line([LEFT, TOP + HIGH], [WIDE - 14.0, TOP + HIGH], "ax");
    for (day, value) in days.iter().zip(&values) {
        // Values beyond the range are drawn at its ends, hollow.
        let class = if (low..=high).contains(value) { "v2" } else { "v3" };
        let (at, up) = (x(day.day as f64), y(*value));
        let hover = format!("{}: {} ms", date(day.day), ms(day.average_ns));
        canvas.0 += &format!(
            "<circle class=\"{class}\" cx=\"{at:.1}\" cy=\"{up:.1}\" r=\"2.4\"><title>{hover}</title></circle>\n"
        );
    }
    let mut path = String::new();
    for (index, (day, level)) in days.iter().zip(&found.levels).enumerate() {
        let (at, up) = (x(day.day as f64), y(*level));
        let step = found.changes.iter().any(|c| c.pace != Pace::Slow && c.form.begins() == day.day);
        match index {
            0 => path += &format!("M{at:.1} {up:.1}"),
            _ if step => path += &format!("H{at:.1}V{up:.1}"),
            _ => path += &format!("L{at:.1} {up:.1}"),
        }
    }
    canvas.path("s0", &path);
    for change in &found.changes {
        let (low, high) = (change.interval.low, change.interval.high);
        let [size, low, high] =
            [change.difference, low, high].map(|ns| signed(ns).replace('-', "−"));
        let text = format!("{size} ms ({low} to {high})");
        let middle = (change.between[0] + change.between[1]) as f64 / 2.0;
        let at = x(middle).clamp(LEFT + 90.0, WIDE - 104.0);
        canvas.text(at, TOP - 14.0, Anchor::Middle, "pt", &text);
        canvas.line([x(middle), TOP - 8.0], [x(middle), TOP], "ax");
    }
    Some(Panel {
        title: "Days and levels".into(),
        description: sentences(view.averages, found).join(" "),
        width: WIDE,
        height: TOP + HIGH + 24.0,
        body: canvas.0,
        ..Panel::default()
    })
}
