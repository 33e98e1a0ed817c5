//! Field data (reports from users' browsers) as text, as one JSON object, and new connections as rows.
//!
//! Input: a [`FieldSummary`], or the beacons of a file. Output: text for the style's width; JSON; CSV whose columns
//! `rtt_ms` and `weight` form an audience (`predict --population`).

use std::collections::BTreeMap;
use std::io::{self, Write};

use firstbyte_sources::field_data::{
    BeaconRecord, EntryClass, FieldGroup, FieldPhase, FieldSummary, PhaseFigures, RangeQuantile,
    TimeRange, WeightedCount,
};
use serde_json::{Value, json};

use super::columns::{ColumnValue, delimited};
use super::dates;
use super::style::{Ink, Style, wrap};
use super::units::{count, grouped};

/// Maximum number of groups whose phases are shown; JSON has all.
const MOST_GROUPS: usize = 8;
/// Maximum number of groups whose counts are shown.
const MOST_COUNTED: usize = 16;

/// The summary as text.
pub fn field_data(summary: &FieldSummary, style: &Style) -> String {
    let view = View { summary, style };
    let blocks = [view.header(), view.counts(), view.phases(), view.failures(), view.doubts()];
    let blocks: Vec<String> =
        blocks.into_iter().filter(|b| !b.is_empty()).map(|b| b.join("\n") + "\n").collect();
    blocks.join("\n")
}

struct View<'a> {
    summary: &'a FieldSummary,
    style: &'a Style,
}

/// Cells of a table row: the first is left-aligned, the others right-aligned.
type Line = Vec<(String, Ink)>;

impl View<'_> {
    fn header(&self) -> Vec<String> {
        let pages = &self.summary.pages;
        let dot = self.style.glyph(" · ", ", ");
        let mut words = vec![count(pages.seen, "page view")];
        if pages.estimate > pages.seen as f64 {
            words.push(format!("for {}", grouped(pages.estimate.round() as u64)));
        }
        let mut parts = vec![format!("Field data: {}", words.join(" "))];
        if let Some((first, last)) = self.summary.received_unix_s {
            let minute = |seconds: u64| {
                let mut text = Vec::new();
                dates::write_rfc3339_micros(&mut text, seconds.saturating_mul(1_000_000_000));
                let text = String::from_utf8_lossy(&text).into_owned();
                text.get(..16).unwrap_or(&text).replace('T', " ")
            };
            parts.push(format!("{} to {} UTC", minute(first), minute(last)));
        }
        let line = parts.join(dot);
        let lines = wrap("", &[line.to_owned()], self.style.columns());
        lines.iter().map(|line| self.style.paint(Ink::Strong, line)).collect()
    }

    /// Groups, those with the most entries first.
    fn by_entries(&self) -> Vec<&FieldGroup> {
        let mut groups: Vec<&FieldGroup> = self.summary.groups.iter().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.all_entries()));
        groups
    }

    fn counts(&self) -> Vec<String> {
        let groups = self.by_entries();
        if groups.is_empty() {
            return Vec::new();
        }
        let used: Vec<EntryClass> = EntryClass::ALL
            .into_iter()
            .filter(|class| groups.iter().any(|group| group.entries(*class) > 0))
            .collect();
        let mut head: Line = vec![("Entries received".into(), Ink::Faint)];
        head.extend(used.iter().map(|class| (heading(*class).to_owned(), Ink::Faint)));
        let mut table = vec![head];
        for group in groups.iter().take(MOST_COUNTED) {
            table.push(self.counted(name(group), &used, |class| group.entries(class)));
        }
        let others = groups.get(MOST_COUNTED..).unwrap_or_default();
        if !others.is_empty() {
            let entries = |class| others.iter().map(|group| group.entries(class)).sum();
            table.push(self.counted(count(others.len() as u64, "other"), &used, entries));
        }
        let mut lines = self.laid_out(&table);
        let explained: Vec<String> = used.iter().filter_map(|class| meaning(*class)).collect();
        if !explained.is_empty() {
            lines.push(String::new());
            let text = self.wrapped("", &explained.join("; "));
            lines.extend(text.iter().map(|line| self.style.paint(Ink::Faint, line)));
        }
        lines
    }

    fn counted(
        &self,
        name: String,
        used: &[EntryClass],
        entries: impl Fn(EntryClass) -> u64,
    ) -> Line {
        let mut line: Line = vec![(name, Ink::Plain)];
        line.extend(used.iter().map(|class| match entries(*class) {
            0 => (self.style.glyph("–", "-").to_owned(), Ink::Faint),
            n if *class == EntryClass::New => (grouped(n), Ink::Strong),
            n => (grouped(n), Ink::Plain),
        }));
        line
    }

    /// New connections: one block per group that has any.
    fn phases(&self) -> Vec<String> {
        let mut groups: Vec<&FieldGroup> =
            self.summary.groups.iter().filter(|group| !group.phases.is_empty()).collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.entries(EntryClass::New)));
        let mut lines = Vec::new();
        let mut has_few = false;
        for group in groups.iter().take(MOST_GROUPS) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let title = format!(
                "{}, {}",
                name(group),
                count(group.entries(EntryClass::New), "new connection")
            );
            let mut table: Vec<Line> = vec![
                ["ms", "median", "95 %", "p75", "p95"]
                    .map(|word| (word.to_owned(), Ink::Faint))
                    .to_vec(),
            ];
            for figures in &group.phases {
                table.push(self.phase(figures, &mut has_few));
            }
            let title = self.style.safe(&title);
            lines.push(self.style.paint(Ink::Strong, &self.cut(&title, self.style.columns())));
            lines.extend(self.laid_out(&table));
        }
        if groups.len() > MOST_GROUPS {
            lines.push(String::new());
            lines.push(format!("and {} more with new connections", groups.len() - MOST_GROUPS));
        }
        if has_few {
            lines.push(String::new());
            let words =
                "too few pages for an interval: only the uncertainty from the clocks' steps";
            lines.extend(self.wrapped("* ", words));
        }
        lines
    }

    fn phase(&self, figures: &PhaseFigures, has_few: &mut bool) -> Line {
        let none = || (self.style.glyph("–", "-").to_owned(), Ink::Faint);
        let at = |q: f64| figures.quantiles.iter().find(|quantile| quantile.q == q);
        let median = at(0.5);
        let interval = |quantile: &RangeQuantile| {
            let (low, high, mark) = match quantile.interval {
                Some(interval) => (interval.low, interval.high, ""),
                None => (quantile.range.least_us, quantile.range.most_us, "*"),
            };
            let to = self.style.glyph("–", "-");
            (format!("{}{to}{}{mark}", ms(low), ms(high)), !mark.is_empty())
        };
        let mut line: Line = vec![(phase_heading(figures.phase).to_owned(), ink(figures.phase))];
        line.push(median.map_or_else(none, |quantile| (shown(&quantile.range), Ink::Strong)));
        line.push(median.map_or_else(none, |quantile| {
            let (text, is_few) = interval(quantile);
            *has_few |= is_few;
            (text, Ink::Faint)
        }));
        for q in [0.75, 0.95] {
            line.push(at(q).map_or_else(none, |quantile| (shown(&quantile.range), Ink::Plain)));
        }
        line
    }

    fn failures(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let to = self.style.glyph("–", "-");
        for share in &self.summary.shares {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let said = match share.share() {
                Some((share, interval)) => {
                    let [share, low, high] = [share, interval.low, interval.high].map(percent);
                    format!("{share} % of requests failed (95 %: {low} to {high} %)")
                }
                None => "no successes reported: the total is unknown".to_owned(),
            };
            let title = format!("{}: {said}", share.origin);
            lines.extend(
                self.wrapped("", &title).iter().map(|line| self.style.paint(Ink::Strong, line)),
            );
            let of_it: Vec<_> =
                self.summary.failures.iter().filter(|one| one.origin == share.origin).collect();
            if of_it.is_empty() {
                continue;
            }
            let mut table: Vec<Line> = vec![
                ["failure", "reports", "represent", "95 %"]
                    .map(|word| (word.to_owned(), Ink::Faint))
                    .to_vec(),
            ];
            for one in of_it {
                let interval = one.count.interval();
                let whole = |value: f64| grouped(value.round().max(0.0) as u64);
                table.push(vec![
                    (one.failure.to_string(), Ink::Loss),
                    (grouped(one.count.seen), Ink::Plain),
                    (whole(one.count.estimate), Ink::Strong),
                    (format!("{}{to}{}", whole(interval.low), whole(interval.high)), Ink::Faint),
                ]);
            }
            lines.extend(self.laid_out(&table));
        }
        let downgraded = self.summary.downgraded.seen;
        if downgraded > 0 {
            lines.push(String::new());
            let words = format!(
                "{} from an address other than the policy's (dns.address_changed) left out: they \
                 do not say whether the request failed, nor anything about DNS",
                count(downgraded, "report")
            );
            lines.extend(self.wrapped("", &words));
        }
        lines
    }

    fn doubts(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((finest, coarsest)) = self.summary.steps_us {
            let [finest, coarsest] = [finest, coarsest].map(|us| format!("{}", us / 1e3));
            let steps = match finest == coarsest {
                true => format!("{finest} ms"),
                false => format!("{finest} to {coarsest} ms"),
            };
            let words = format!(
                "Browsers' clocks have steps of {steps}: a duration is off by less than two steps."
            );
            lines.extend(self.wrapped("", &words));
        }
        let impossible = self.summary.impossible;
        if impossible > 0 {
            let words = format!("Left out: {} with impossible times.", entries_noun(impossible));
            lines.extend(self.wrapped("", &words));
        }
        if self.summary.left_out > 0 {
            let words = format!(
                "Not sent: {} of pages with more than 200.",
                entries_noun(self.summary.left_out)
            );
            lines.extend(self.wrapped("", &words));
        }
        if !self.summary.refused.is_empty() {
            let each: Vec<String> = self
                .summary
                .refused
                .iter()
                .map(|(why, times)| format!("{} {}", self.style.safe(why), grouped(*times)))
                .collect();
            lines.extend(self.wrapped("", &format!("The server refused: {}.", each.join(", "))));
        }
        lines
    }

    fn wrapped(&self, first: &str, words: &str) -> Vec<String> {
        let words: Vec<String> = self.style.safe(words).split(' ').map(String::from).collect();
        wrap(first, &words, self.style.columns())
    }

    /// Aligns a table: columns are as wide as needed, the first as wide as possible.
    fn laid_out(&self, table: &[Line]) -> Vec<String> {
        let columns = table.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = table.iter().filter_map(|line| line.get(column));
            cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let others: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        let room = self.style.columns().saturating_sub(others).max(12);
        let first = widths.first().copied().unwrap_or(0).min(room);
        let line = |line: &Line| {
            let mut text = String::new();
            for (column, (cell, ink)) in line.iter().enumerate() {
                if column == 0 {
                    let cell = self.cut(&self.style.safe(cell), first);
                    let padding = " ".repeat(first - cell.chars().count());
                    text += &format!("{}{padding}", self.style.paint(*ink, &cell));
                } else {
                    let padding = " ".repeat(widths[column] + 2 - cell.chars().count());
                    text += &format!("{padding}{}", self.style.paint(*ink, cell));
                }
            }
            text
        };
        table.iter().map(line).collect()
    }

    /// Shortens text in the middle, because origins differ at both ends.
    fn cut(&self, text: &str, width: usize) -> String {
        let length = text.chars().count();
        if length <= width {
            return text.to_owned();
        }
        let gap = self.style.glyph("…", "~");
        let kept = width.saturating_sub(1);
        let end = kept / 2;
        let begin: String = text.chars().take(kept - end).collect();
        let end: String = text.chars().skip(length - end).collect();
        format!("{begin}{gap}{end}")
    }
}

fn entries_noun(n: u64) -> String {
    format!("{} {}", grouped(n), if n == 1 { "entry" } else { "entries" })
}

fn name(group: &FieldGroup) -> String {
    let origin = group.origin.strip_prefix("https://").unwrap_or(&group.origin);
    match group.protocol.as_str() {
        "unknown" => origin.to_owned(),
        protocol => format!("{origin} {protocol}"),
    }
}

const fn heading(class: EntryClass) -> &'static str {
    match class {
        EntryClass::New => "new",
        EntryClass::Reused => "reused",
        EntryClass::BegunBefore => "begun",
        EntryClass::Cached => "cached",
        EntryClass::Opaque => "opaque",
        EntryClass::PlainHttp => "plain",
        EntryClass::Prerendered => "ahead",
        EntryClass::BackForward => "back",
        EntryClass::ServiceWorker => "worker",
        EntryClass::Impossible => "bad",
    }
}

/// The full meaning of an abbreviated heading.
fn meaning(class: EntryClass) -> Option<String> {
    let words = match class {
        EntryClass::BegunBefore => "the connection was opened earlier, or this is unknown",
        EntryClass::Opaque => "no Timing-Allow-Origin, or no response",
        EntryClass::PlainHttp => "without TLS",
        EntryClass::Prerendered => "prerendered",
        EntryClass::BackForward => "back or forward navigation",
        EntryClass::ServiceWorker => "through a service worker",
        EntryClass::New | EntryClass::Reused | EntryClass::Cached | EntryClass::Impossible => {
            return None;
        }
    };
    Some(format!("{}: {words}", heading(class)))
}

const fn phase_heading(phase: FieldPhase) -> &'static str {
    match phase {
        FieldPhase::Queue => "queue",
        FieldPhase::Resolve => "DNS",
        FieldPhase::Connect => "TCP",
        FieldPhase::Tls => "TLS",
        FieldPhase::Quic => "QUIC",
        FieldPhase::Wait => "wait",
        FieldPhase::Receive => "receive",
        FieldPhase::FirstByte => "first byte",
    }
}

const fn ink(phase: FieldPhase) -> Ink {
    match phase {
        FieldPhase::Queue => Ink::Client,
        FieldPhase::Resolve => Ink::Resolver,
        FieldPhase::Connect | FieldPhase::Tls | FieldPhase::Quic => Ink::Network,
        FieldPhase::Wait => Ink::Server,
        FieldPhase::Receive => Ink::Transfer,
        FieldPhase::FirstByte => Ink::FirstByte,
    }
}

fn ms(us: f64) -> String {
    format!("{:.1}", us / 1e3)
}

/// A time, or an upper bound if no clock showed the time itself.
fn shown(range: &TimeRange) -> String {
    match range.seen_us > 0.0 {
        true => ms(range.seen_us),
        false => format!("<{}", ms(range.most_us)),
    }
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 9.95 { format!("{percent:.0}") } else { format!("{percent:.2}") }
}

/// The summary as one JSON object on a line.
pub fn field_json(summary: &FieldSummary) -> String {
    let groups: Vec<Value> = summary.groups.iter().map(group_json).collect();
    let failures: Vec<Value> = summary
        .failures
        .iter()
        .map(|one| {
            let mut value = count_json(&one.count);
            value["origin"] = json!(one.origin);
            value["type"] = json!(one.failure.as_str());
            value
        })
        .collect();
    let shares: Vec<Value> = summary
        .shares
        .iter()
        .map(|one| {
            let share = one.share();
            json!({
                "origin": one.origin,
                "failed": count_json(&one.failed),
                "succeeded": count_json(&one.succeeded),
                "share": share.map(|(share, _)| share),
                "share_interval": share.map(|(_, interval)| [interval.low, interval.high]),
            })
        })
        .collect();
    let object = json!({
        "format": "firstbyte/field-summary",
        "version": 1,
        "page_views": count_json(&summary.pages),
        "received_unix_s": summary.received_unix_s.map(|(first, last)| [first, last]),
        "clock_steps_us": summary.steps_us.map(|(finest, coarsest)| [finest, coarsest]),
        "groups": groups,
        "failures": failures,
        "shares": shares,
        "downgraded": count_json(&summary.downgraded),
        "impossible": summary.impossible,
        "left_out": summary.left_out,
        "refused": summary.refused,
    });
    format!("{object}\n")
}

fn count_json(count: &WeightedCount) -> Value {
    let interval = count.interval();
    json!({
        "seen": count.seen,
        "estimate": count.estimate,
        "interval": [interval.low, interval.high],
    })
}

fn group_json(group: &FieldGroup) -> Value {
    let entries: BTreeMap<&str, u64> =
        group.counts.iter().map(|one| (one.class.as_str(), one.count.seen)).collect();
    let phases: serde_json::Map<String, Value> = group
        .phases
        .iter()
        .map(|figures| {
            let quantiles: Vec<Value> = figures
                .quantiles
                .iter()
                .map(|one| {
                    json!({
                        "q": one.q,
                        "seen_us": one.range.seen_us,
                        "least_us": one.range.least_us,
                        "most_us": one.range.most_us,
                        "interval_us": one.interval.map(|interval| [interval.low, interval.high]),
                    })
                })
                .collect();
            let value = json!({"connections": figures.connections, "quantiles": quantiles});
            (figures.phase.as_str().to_owned(), value)
        })
        .collect();
    json!({
        "origin": group.origin,
        "protocol": group.protocol,
        "entries": entries,
        "phases": phases,
    })
}

/// The shortest round trip allowed in an audience, milliseconds.
const SHORTEST_RTT_MS: f64 = 0.01;

/// Writes the header row of [`field_rows`].
///
/// # Errors
/// Returns errors of the writer.
pub fn field_rows_header(out: &mut dyn Write) -> io::Result<()> {
    let mut line = Vec::new();
    let of_phases = FieldPhase::ALL.map(|phase| format!("{}_us", phase.as_str().replace('-', "_")));
    let first = ["origin", "protocol", "navigation", "weight", "clock_step_us"].map(str::to_owned);
    let last = ["rtt_ms", "rtt_least_ms", "rtt_most_ms"].map(str::to_owned);
    delimited::header(&mut line, first.into_iter().chain(of_phases).chain(last));
    out.write_all(&line)
}

/// Writes one row per new connection of a beacon whose round trip (of the TCP or QUIC handshake) is known.
///
/// # Errors
/// Returns errors of the writer.
pub fn field_rows(beacon: &BeaconRecord, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    for new in &beacon.new {
        let Some(round_trip) = new.round_trip(beacon.step_us) else { continue };
        let text = |text: &str| Some(ColumnValue::Text(text.to_owned().into()));
        let number = |number: f64| Some(ColumnValue::Number(number));
        let first = [
            text(&new.origin),
            text(&new.protocol),
            Some(ColumnValue::Boolean(new.navigation)),
            number(1.0 / beacon.sampling),
            number(beacon.step_us),
        ];
        let phases = FieldPhase::ALL.map(|phase| {
            let range = new.phase(phase, beacon.step_us)?;
            number(range.seen_us)
        });
        let last = [round_trip.middle_us(), round_trip.least_us, round_trip.most_us]
            .map(|us| number((us / 1e3).max(SHORTEST_RTT_MS)));
        delimited::row(&mut lines, first.into_iter().chain(phases).chain(last));
    }
    out.write_all(&lines)
}

#[cfg(test)]
mod tests;
