//! Times to the first byte over a monitor's period: one panel per series, with failures below and changes marked.

use std::fmt::Write as _;
use std::time::Duration;

use time::OffsetDateTime;

use super::axis::TimeAxis;
use super::figure::{Figure, Key, Panel, Row, panel_title};
use crate::monitor_period::{MonitorPeriod, PeriodPoint, SeriesPeriod};
use crate::svg::{Anchor, Canvas};
use crate::units::grouped;

const WIDE: f64 = 900.0;
const HIGH: f64 = 180.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 14.0;
/// Height of the strip of failures below the times.
const STRIP: f64 = 16.0;
/// Marks closer together than this would overlap.
const CLOSE: f64 = 20.0;
const DAY: i64 = 86_400;
/// Possible steps between dates on the axis, seconds.
const STEPS: [i64; 15] = [
    60,
    300,
    900,
    3_600,
    3 * 3_600,
    6 * 3_600,
    12 * 3_600,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    91 * DAY,
    182 * DAY,
    364 * DAY,
];
/// Maximum number of dates on the axis.
const MOST_DATES: i64 = 9;

/// One panel for each series with points.
pub fn monitor_period(view: &MonitorPeriod) -> Figure {
    let panels = view.series.iter().filter(|series| !series.points.is_empty());
    let panels: Vec<Panel> = panels.map(|series| panel(view, series)).collect();
    let left_out = view.series.len() - panels.len();
    let mut note = "Numbers mark changes and annotations, in their order.".to_owned();
    if left_out > 0 {
        let (series, them) = match left_out {
            1 => ("1 series is".to_owned(), "it"),
            number => (format!("{} series are", grouped(number as u64)), "them"),
        };
        let _ = write!(note, " {series} without a picture: --target draws {them}.");
    }
    Figure {
        folded: false,
        name: "course",
        title: "Time to first byte".to_owned(),
        note,
        keys: vec![
            Key::symbol("━", "ux", "median"),
            Key::symbol("━", "fx", "p90"),
            Key::area("b", "outage"),
            Key::area("fx", "below: share of time that failed"),
        ],
        rows: vec![Row { heading: String::new(), panels }],
    }
}

fn panel(view: &MonitorPeriod, series: &SeriesPeriod) -> Panel {
    let [from, until] = view.period;
    let x = |at: i64| {
        let share = (at - from) as f64 / (until - from).max(1) as f64;
        LEFT + share.clamp(0.0, 1.0) * (WIDE - LEFT - RIGHT)
    };
    let highest = highest(&series.points);
    let axis = TimeAxis::new(0.0, highest.unwrap_or_default());
    // Nothing is known after the last sample.
    let measured = series.points.iter().rev().find(|point| point.failed.is_some());
    let last = measured.map_or(from, |point| point.between[1]);
    let mut canvas = Canvas::default();
    let top = panel_title(&mut canvas, &series.name, WIDE) + 15.0;
    let (y, bottom) = (|share: f64| top + (1.0 - share) * HIGH, top + HIGH);
    let entries = || {
        let all = view.entries.iter().zip(1..);
        all.filter(|(entry, _)| {
            entry.series.as_ref().is_none_or(|those| those.contains(&series.number))
        })
    };
    for (entry, number) in entries() {
        if let Some(end) = entry.until {
            let wide = (x(end.min(last)) - x(entry.at)).max(2.0);
            let hover = format!("{number}: {}", entry.text);
            canvas.rect([x(entry.at), top, wide, HIGH], "b", Some(&hover));
        }
    }
    if highest.is_none() {
        canvas.text(LEFT + 8.0, y(0.5), Anchor::Start, "n", "no verified sample");
    }
    for (at, text) in axis.ticks(4.0).into_iter().filter(|_| highest.is_some()) {
        let level = y(axis.share(at));
        canvas.line([LEFT, level], [WIDE - RIGHT, level], "g");
        canvas.text(LEFT - 8.0, level + 4.0, Anchor::End, "n", &text);
    }
    if highest.is_some() {
        canvas.text(LEFT - 8.0, top - 8.0, Anchor::End, "n", axis.unit());
    }
    for (at, text) in dates(from, until) {
        canvas.line([x(at), bottom], [x(at), bottom + STRIP + 5.0], "ax");
        canvas.text(x(at) + 3.0, bottom + STRIP + 14.0, Anchor::Start, "n", &text);
    }
    canvas.line([LEFT, bottom], [WIDE - RIGHT, bottom], "ax");
    for point in &series.points {
        let Some(share) = point.failed.filter(|share| *share > 0.0) else { continue };
        let [left, right] = point.between.map(x);
        let high = (share * STRIP).max(1.5);
        let hover = format!("{}: {:.1} % failed", moment(point.between[0]), share * 100.0);
        canvas.rect([left, bottom, (right - left).max(1.0), high], "fx", Some(&hover));
    }
    let middle = |point: &PeriodPoint| x(point.between[0].midpoint(point.between[1]));
    let line = |quantile: fn(&PeriodPoint) -> Option<Duration>| {
        let (mut path, mut is_open) = (String::new(), false);
        for point in &series.points {
            let time = quantile(point);
            if let Some(time) = time {
                let command = if is_open { 'L' } else { 'M' };
                let _ = write!(
                    path,
                    "{command}{:.1} {:.1}",
                    middle(point),
                    y(axis.share(time.as_nanos() as f64))
                );
            }
            is_open = time.is_some();
        }
        path
    };
    canvas.path("s1", &line(|point| point.p90));
    canvas.path("s0", &line(|point| point.median));
    let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    for point in &series.points {
        let Some(median) = point.median else { continue };
        let p90 = point.p90.map_or(String::new(), |p90| format!(", p90 {}", ms(p90)));
        let _ = writeln!(
            canvas.0,
            "<circle class=\"v0\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"1.8\"><title>{}: median {}{p90}</title></circle>",
            middle(point),
            y(axis.share(median.as_nanos() as f64)),
            moment(point.between[0]),
            ms(median),
        );
    }
    let marks: Vec<(f64, usize)> = entries().map(|(entry, number)| (x(entry.at), number)).collect();
    // Marks that are close together share one label.
    for close in marks.chunk_by(|one, next| next.0 - one.0 < CLOSE) {
        let numbers = match close {
            [(_, only)] => only.to_string(),
            [(_, first), .., (_, last)] if close.len() == last - first + 1 => {
                format!("{first}–{last}")
            }
            several => {
                let texts: Vec<String> = several.iter().map(|(_, n)| n.to_string()).collect();
                texts.join(", ")
            }
        };
        for (at, _) in close {
            canvas.line([*at, top - 4.0], [*at, bottom], "tr");
        }
        let middle = close.iter().map(|(at, _)| at).sum::<f64>() / close.len() as f64;
        canvas.text(middle.max(LEFT + 4.0), top - 8.0, Anchor::Middle, "pt", &numbers);
    }
    Panel {
        title: series.name.clone(),
        description: format!("Median and p90 of the time to first byte, {}", view.period_text),
        width: WIDE,
        height: bottom + STRIP + 22.0,
        body: canvas.0,
        ..Panel::default()
    }
}

/// The end of the scale, nanoseconds, if there are times. It cuts off a few outliers that would flatten the rest.
fn highest(points: &[PeriodPoint]) -> Option<f64> {
    let times = points.iter().flat_map(|point| [point.median, point.p90]).flatten();
    let mut times: Vec<f64> = times.map(|time| time.as_nanos() as f64).collect();
    times.sort_unstable_by(f64::total_cmp);
    let cut = times.len() / 50;
    let last = times.len().checked_sub(cut + 1).and_then(|last| times.get(last));
    last.map(|last| last * 1.15)
}

/// Round times between both ends, with their labels.
fn dates(from: i64, until: i64) -> Vec<(i64, String)> {
    let step = STEPS.into_iter().find(|step| (until - from) / step <= MOST_DATES);
    let step = step.unwrap_or(364 * DAY);
    let first = (from + step - 1).div_euclid(step);
    let texts = (first..).map(|number| number * step).take_while(|at| *at < until).map(|at| {
        let Ok(t) = OffsetDateTime::from_unix_timestamp(at) else { return (at, String::new()) };
        let text = match (step >= DAY, at.rem_euclid(DAY) == 0) {
            (false, false) => format!("{:02}:{:02}", t.hour(), t.minute()),
            _ => format!("{} {}", t.day(), t.month().to_string().get(..3).unwrap_or_default()),
        };
        (at, text)
    });
    texts.collect()
}

/// Formats a time, such as `23 Nov 14:05`.
fn moment(at: i64) -> String {
    let Ok(t) = OffsetDateTime::from_unix_timestamp(at) else { return String::new() };
    let month = t.month().to_string();
    let month = month.get(..3).unwrap_or_default();
    format!("{} {month} {:02}:{:02}", t.day(), t.hour(), t.minute())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i64 = 1_795_392_000;

    #[test]
    fn dates_are_few_and_round() {
        let texts = |length: i64| -> Vec<String> {
            dates(AT + 100, AT + length).into_iter().map(|(_, text)| text).collect()
        };
        assert_eq!(texts(DAY), ["03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00"]);
        assert_eq!(texts(2 * DAY)[..4], ["06:00", "12:00", "18:00", "24 Nov"]);
        assert_eq!(texts(8 * DAY)[..3], ["24 Nov", "25 Nov", "26 Nov"]);
        assert!((5..=10).contains(&texts(700 * DAY).len()));
    }
}
