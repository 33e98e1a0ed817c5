//! A comparison in the terminal: findings, phases of each cell, differences, proofs.
//!
//! Input: a [`Study`]. Output: text laid out for the style's width. It contains the same figures as the page, which
//! adds pictures.

use std::time::Duration;

use firstbyte_core::compare::{Role, describe_answers};
use firstbyte_core::run::{Cell, Metric};
use firstbyte_core::shown_url::shown_urls_within;
use firstbyte_core::timeline::ProxyFacts;

use super::Style;
use super::chart::{metric_title, phase_label};
use super::study::{
    Digest, EffectView, Estimate, Group, Grouping, PHASES, ProcessorView, Study, SummaryView,
    TestimonyFigures, Verdict, examined_figures, held, pair_names, panel_time, quantile_name,
};
use super::style::{Ink, wrap};
use super::units::{Scale, count, grouped};

/// The comparison as text.
pub fn table(study: &Study<'_>, style: &Style) -> String {
    let view = View::from_study(study, style);
    // On a terminal the last block is the visible one.
    let blocks = [
        view.phases(),
        view.answers(),
        view.differences(),
        view.others(),
        view.proofs(),
        view.doubts(),
        view.panels(),
        view.processors(),
        view.examined(),
        view.findings(),
    ];
    let blocks: Vec<String> =
        blocks.into_iter().filter(|b| !b.is_empty()).map(|b| b.join("\n") + "\n").collect();
    blocks.join("\n")
}

/// The medians of all variants in one table, whose first line is the header, and their unit.
pub(crate) fn medians_of_all(study: &Study<'_>, style: &Style) -> (Vec<Vec<String>>, &'static str) {
    let view = View::from_study(study, style);
    let groups = view.grouping.groups.iter();
    let cells: Vec<usize> = groups.flat_map(|group| group.cells.iter().copied()).collect();
    let (mut table, scale) = view.medians(&cells);
    for (line, cell) in table.iter_mut().skip(1).zip(&cells) {
        let heading = view.grouping.of_cell(*cell).map_or("", |group| group.heading.as_str());
        if !heading.is_empty() {
            line[0].0 = format!("{}, {}", style.safe(heading), line[0].0);
        }
    }
    let texts = |line: Line| line.into_iter().map(|(text, _)| text).collect::<Vec<String>>();
    (table.into_iter().map(texts).collect(), scale.name(style))
}

/// With more differences than this, only those of the total are shown; the page has all.
const MANY: usize = 12;

/// With more ways to connect than this, each client gets one line for all of its ways.
const MANY_WAYS: usize = 8;

struct View<'a> {
    study: &'a Study<'a>,
    digest: Digest,
    grouping: Grouping,
    style: &'a Style,
}

/// Cells of a table, right-aligned except the first, each with its ink.
type Line = Vec<(String, Ink)>;

impl<'a> View<'a> {
    fn from_study(study: &'a Study<'a>, style: &'a Style) -> Self {
        let digest = Digest::from_rows(study.cells.len(), study.rows);
        Self { study, digest, grouping: Grouping::from_study(study), style }
    }
}

impl View<'_> {
    fn findings(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for sentence in &self.study.sentences {
            let verdict = sentence.verdict;
            let first = format!("{} ", self.style.glyph(verdict.symbol(), verdict.ascii()));
            let text = self.style.safe(&sentence.text);
            let words: Vec<String> = text.split(' ').map(String::from).collect();
            for line in wrap(&first, &words, self.style.columns()) {
                lines.push(match line.strip_prefix(&first) {
                    Some(rest) => {
                        let symbol = self.style.paint(ink(verdict), &first);
                        symbol + &self.style.paint(Ink::Strong, rest)
                    }
                    None => self.style.paint(Ink::Strong, &line),
                });
            }
        }
        lines
    }

    /// One table per group: medians of phases, quantiles of the total.
    fn phases(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for group in &self.grouping.groups {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            lines.extend(self.phases_of(group));
        }
        lines
    }

    fn phases_of(&self, group: &Group) -> Vec<String> {
        let (table, scale) = self.medians(&group.cells);
        let unit = scale.name(self.style);
        let heading = match group.heading.as_str() {
            "" => format!("Medians, {unit}"),
            heading => format!("{}: medians, {unit}", self.style.safe(heading)),
        };
        let mut lines = vec![self.style.paint(Ink::Strong, &heading)];
        // The name lookup is the least informative column, and p95 lies between the median and p99.
        let p95 = table[0].len() - 2;
        let no_p99 = group.cells.iter().all(|c| self.quantile(*c, Metric::Total, 0.99).is_none());
        let first = no_p99.then_some(p95 + 1);
        let dispensable: Vec<usize> = first.into_iter().chain([p95, 2, 1]).collect();
        lines.extend(self.align(table, &dispensable));
        if let Some(proxy) = self.proxy(&group.cells) {
            let text = format!("through the proxy {proxy}: set-up includes its TLS and its tunnel");
            self.wrapped(&mut lines, &text, Ink::Faint);
        }
        lines
    }

    fn proxy(&self, cells: &[usize]) -> Option<&ProxyFacts> {
        cells.iter().find_map(|cell| {
            let middle = self.study.medians.get(*cell)?.as_ref()?;
            middle.connection.facts.proxy.as_ref()
        })
    }

    fn quantile(&self, cell: usize, metric: Metric, q: f64) -> Option<f64> {
        let summary = self.study.summary(cell, metric);
        summary.and_then(|s| s.quantile(q)).map(|estimate| estimate.value)
    }

    /// Medians of phases and quantiles of the total: a header, and one line per cell.
    fn medians(&self, cells: &[usize]) -> (Vec<Line>, Scale) {
        let is_used =
            |cell: &usize, metric| self.study.summary(*cell, metric).is_some_and(|s| s.samples > 0);
        let mut used: Vec<Metric> = PHASES
            .into_iter()
            .filter(|m| *m != Metric::Send)
            .filter(|m| cells.iter().any(|c| is_used(c, *m)))
            .collect();
        used.extend(self.proxy(cells).map(|_| Metric::Setup));
        let total = |cell: &usize, q| self.quantile(*cell, Metric::Total, q);
        let largest = cells.iter().filter_map(|c| total(c, 0.95).or_else(|| total(c, 0.5)));
        let scale = scale(largest.fold(0.0, f64::max));
        let quantiles = [0.95, 0.99];
        let mut head: Line = vec![(String::new(), Ink::Faint), ("n".into(), Ink::Faint)];
        head.extend(used.iter().map(|m| (phase_label(*m).to_owned(), Ink::Faint)));
        head.push(("total".into(), Ink::Strong));
        head.extend(quantiles.iter().map(|q| (quantile_name(*q), Ink::Faint)));
        let mut table = vec![head];
        for cell in cells {
            let figure = |metric, q| match self.quantile(*cell, metric, q) {
                Some(ns) => print(ns, scale),
                None => self.style.glyph("–", "-").to_owned(),
            };
            let proven = self.digest.cells.get(*cell).map_or(0, |s| s.proven);
            let mut line: Line = vec![
                (self.style.safe(&self.grouping.labels[*cell]), Ink::Plain),
                (proven.to_string(), Ink::Faint),
            ];
            line.extend(used.iter().map(|m| (figure(*m, 0.5), Ink::Plain)));
            line.push((figure(Metric::Total, 0.5), Ink::Strong));
            line.extend(quantiles.iter().map(|q| (figure(Metric::Total, *q), Ink::Faint)));
            table.push(line);
        }
        (table, scale)
    }

    /// Statuses and sizes of each cell's answers, if they differ or some are errors.
    fn answers(&self) -> Vec<String> {
        if !self.digest.shows_answers() {
            return Vec::new();
        }
        let mut lines = vec![self.style.paint(Ink::Strong, "Answers")];
        let cells = self.study.cells.iter().zip(&self.digest.cells);
        for (cell, series) in cells.take(MANY) {
            let name = shown_urls_within(&cell.name());
            let text = format!("{name}: {}", describe_answers(&series.answers));
            self.wrapped(&mut lines, &text, Ink::Plain);
        }
        if let Some(more) = self.study.cells.len().checked_sub(MANY).filter(|more| *more > 0) {
            let text = format!("{}: --html FILE shows them", count(more as u64, "other variant"));
            self.wrapped(&mut lines, &text, Ink::Faint);
        }
        lines
    }

    /// One table for each metric in the headlines.
    fn differences(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for metric in [Metric::Total, Metric::Ttfb, Metric::Setup] {
            let mut effects: Vec<&EffectView> =
                self.primary().filter(|e| e.metric == metric).collect();
            if effects.is_empty() || (metric != Metric::Total && effects.len() > MANY) {
                continue;
            }
            effects.sort_by_key(|effect| self.group_index(effect.variant));
            if !lines.is_empty() {
                lines.push(String::new());
            }
            let scale = scale_of(&effects);
            let heading = format!(
                "{}, {}: {}, 95 % interval of the median",
                metric_title(metric),
                scale.name(self.style),
                self.contrast(&effects)
            );
            let mut words = Vec::new();
            words.extend(self.style.safe(&heading).split(' ').map(String::from));
            let wrapped = wrap("", &words, self.style.columns());
            lines.extend(wrapped.iter().map(|line| self.style.paint(Ink::Strong, line)));
            let mut table = vec![HEAD.map(|text| (text.to_owned(), Ink::Faint)).to_vec()];
            let one_each = self.one_each(&effects);
            let mut last = None;
            for effect in effects {
                let group = self.grouping.of_cell(effect.variant);
                let heading = group.map_or("", |g| g.heading.as_str());
                if !one_each && !heading.is_empty() && last != Some(heading) {
                    table.push(vec![(self.style.safe(heading), Ink::Plain)]);
                    last = Some(heading);
                }
                let name = if one_each && !heading.is_empty() {
                    heading
                } else {
                    self.label(effect.variant)
                };
                table.push(self.effect(effect, name, scale));
            }
            lines.extend(self.align(table, &[4, 5]));
        }
        lines
    }

    fn primary(&self) -> impl Iterator<Item = &EffectView> {
        self.study.effects.iter().filter(|e| e.role == Role::Primary)
    }

    /// The total along the other axes.
    fn others(&self) -> Vec<String> {
        let others = self.study.effects.iter().filter(|e| e.role == Role::Secondary);
        let effects: Vec<&EffectView> = others.filter(|e| e.metric == Metric::Total).collect();
        if effects.is_empty() {
            return Vec::new();
        }
        if effects.len() > MANY {
            let number = effects.len();
            return vec![format!(
                "{number} comparisons along the other axes: in the page that --html writes"
            )];
        }
        let scale = scale_of(&effects);
        let unit = scale.name(self.style);
        let heading = format!("Total time, {unit}, along the other axes");
        let mut table = vec![HEAD.map(|text| (text.to_owned(), Ink::Faint)).to_vec()];
        let mut last = String::new();
        for effect in effects {
            let (pair, place) = pair_names(self.study.cells, effect.base, effect.variant);
            if pair != last {
                table.push(vec![(self.style.safe(&pair), Ink::Plain)]);
                last = pair;
            }
            table.push(self.effect(effect, if place.is_empty() { "" } else { &place }, scale));
        }
        let mut lines = vec![self.style.paint(Ink::Strong, &heading)];
        lines.extend(self.align(table, &[4, 5]));
        lines
    }

    fn group_index(&self, cell: usize) -> usize {
        let groups = &self.grouping.groups;
        groups.iter().position(|group| group.cells.contains(&cell)).unwrap_or(groups.len())
    }

    fn label(&self, cell: usize) -> &str {
        self.grouping.labels.get(cell).map_or("", String::as_str)
    }

    /// Whether every group has one variant, so that the paths distinguish the lines.
    fn one_each(&self, effects: &[&EffectView]) -> bool {
        effects.iter().all(|e| self.label(e.variant) == self.label(effects[0].variant))
    }

    /// "TLS 1.3 minus TLS 1.2"
    fn contrast(&self, effects: &[&EffectView]) -> String {
        let one_base = effects.iter().all(|e| self.label(e.base) == self.label(effects[0].base));
        let base = if one_base { self.label(effects[0].base) } else { "base" };
        let one = self.one_each(effects);
        let variant = if one { self.label(effects[0].variant) } else { "variant" };
        format!("{variant} minus {base}")
    }

    fn effect(&self, effect: &EffectView, name: &str, scale: Scale) -> Line {
        let signed = |ns: f64| {
            let sign = if ns < 0.0 { self.style.glyph("−", "-") } else { "+" };
            format!("{sign}{}", print(ns.abs(), scale))
        };
        let quantile = |q: f64| {
            let found = effect.quantiles.iter().find(|(p, _)| (p - q).abs() < 1e-9);
            found.map_or((self.style.glyph("–", "-").to_owned(), Ink::Faint), |(_, e)| {
                (signed(e.value), estimate_ink(e))
            })
        };
        let interval = effect.difference.interval.map_or("too few rounds".into(), |i| {
            format!("[{}, {}]", signed(i.low), signed(i.high))
        });
        let share = effect.relative.map_or(String::new(), |share| {
            format!("{:+.1} %", share * 100.0).replace('-', self.style.glyph("−", "-"))
        });
        let symbol = self.style.glyph(effect.verdict.symbol(), effect.verdict.ascii());
        vec![
            (format!("{symbol} {}", self.style.safe(name)), ink(effect.verdict)),
            (signed(effect.difference.value), ink(effect.verdict)),
            (share, Ink::Plain),
            (interval, Ink::Faint),
            quantile(0.95),
            quantile(0.99),
        ]
    }

    /// One line for each cell that fell short of the request, and one for all others.
    fn proofs(&self) -> Vec<String> {
        let cells = || self.study.cells.iter().zip(&self.digest.cells);
        let asked: u64 = cells().map(|(_, s)| s.asked).sum();
        if asked == 0 {
            return Vec::new();
        }
        let (heading, verified) = self.study.proof_words();
        let full = cells().filter(|(_, s)| s.asked == s.proven).count();
        if full == self.study.cells.len() {
            let but = match self.digest.has_unlike_answers() {
                true => ", but their answers differ",
                false => "",
            };
            let samples = match asked {
                1 => "The sample was".to_owned(),
                _ => format!("All {} were", count(asked, "sample")),
            };
            let how = heading.strip_prefix("Samples verified").unwrap_or_default();
            return vec![format!("{samples} {verified}{how}{but}.")];
        }
        let mut lines = vec![self.style.paint(Ink::Strong, heading)];
        for (cell, series) in cells().filter(|(_, s)| s.asked != s.proven) {
            self.wrapped(
                &mut lines,
                &format!("{}: {}", cell.name(), series.proof(verified)),
                Ink::Plain,
            );
        }
        if full > 0 {
            let text = format!("{}: all samples {verified}", count(full as u64, "other variant"));
            self.wrapped(&mut lines, &text, Ink::Faint);
        }
        let mut causes: Vec<(&str, u64)> = Vec::new();
        for failure in &self.study.failures {
            match causes.iter_mut().find(|(cause, _)| *cause == failure.cause) {
                Some((_, count)) => *count += failure.count,
                None => causes.push((&failure.cause, failure.count)),
            }
        }
        for (cause, count) in causes {
            self.wrapped(&mut lines, &format!("{count} failed: {cause}"), Ink::Loss);
        }
        lines
    }

    /// Times from browsers' network panels.
    fn panels(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for panel in self.study.panels {
            if lines.is_empty() {
                lines
                    .push(self.style.paint(Ink::Strong, "Medians in the browsers' network panels"));
            }
            let shown = panel.medians.iter().map(|time| panel_time(&time.label, time.took));
            let shown = shown.collect::<Vec<_>>().join("; ");
            let text = self.style.safe(&format!("{}: {shown}", panel.way));
            self.wrapped(&mut lines, &text, Ink::Plain);
        }
        lines
    }

    /// Client processor time per visit.
    fn processors(&self) -> Vec<String> {
        let mut lines = Vec::new();
        // If there are more ways, only the page shows them.
        let shown = self.study.processors.iter().filter(|_| self.study.cells.len() <= MANY_WAYS);
        for processor in shown {
            if lines.is_empty() {
                let heading = "Median processor time of the client per sample";
                lines.push(self.style.paint(Ink::Strong, heading));
            }
            let ms = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
            let ProcessorView { way, samples, sum, parts } = processor;
            let text = format!(
                "{way}: {} ({} user, {} system; n = {})",
                ms(*sum),
                ms(parts.user),
                ms(parts.system),
                grouped(*samples as u64)
            );
            self.wrapped(&mut lines, &self.style.safe(&text), Ink::Plain);
        }
        lines
    }

    /// Clients' reports about their connections, compared with a capture.
    fn examined(&self) -> Vec<String> {
        let Some(examined) = self.study.examined else { return Vec::new() };
        let heading = "The clients' own times minus the capture's";
        let mut lines = vec![self.style.paint(Ink::Strong, heading)];
        let pooled = examined.ways.len() > MANY_WAYS;
        for (name, way) in if pooled { &examined.clients } else { &examined.ways } {
            self.wrapped(&mut lines, &self.style.safe(&held(name, way)), Ink::Plain);
            let mut rows = examined_figures(way).peekable();
            let [mark, n, median, p99, meaning] = TestimonyFigures::HEADINGS;
            if rows.peek().is_some() {
                let heading = format!("  {mark:<18} {n:>4} {median:>11} {p99:>9}  {meaning}");
                lines.push(self.style.paint(Ink::Faint, &heading));
            }
            for TestimonyFigures { mark, count, median, p99, meaning } in rows {
                lines.push(format!("  {mark:<18} {count:>4} {median:>11} {p99:>9}  {meaning}"));
            }
        }
        if pooled {
            let variants = count(examined.ways.len() as u64, "variant");
            let text = format!("--html FILE shows each of {variants}");
            lines.push(self.style.paint(Ink::Faint, &text));
        }
        lines
    }

    /// Caveats: excluded rounds, comparisons without data, outliers, and correlated rounds.
    fn doubts(&self) -> Vec<String> {
        const NAMED: usize = 3;
        let mut lines = Vec::new();
        let mut unpaired: Vec<(String, usize)> = Vec::new();
        for effect in &self.study.effects {
            let (pair, place) = pair_names(self.study.cells, effect.base, effect.variant);
            let name = if place.is_empty() { pair } else { format!("{pair}, {place}") };
            if effect.unpaired > 0 && unpaired.iter().all(|(other, _)| *other != name) {
                unpaired.push((name, effect.unpaired));
            }
        }
        let totals = |of: fn(&SummaryView) -> Option<String>| -> Vec<(String, String)> {
            let summaries = self.study.summaries.iter().filter(|s| s.metric == Metric::Total);
            let name = |s: &SummaryView| self.study.cells.get(s.cell).map(Cell::name);
            summaries.filter_map(|s| Some((name(s)?, of(s)?))).collect()
        };
        let unpaired: Vec<(String, String)> =
            unpaired.into_iter().map(|(name, rounds)| (name, rounds.to_string())).collect();
        let outliers =
            totals(|s| (s.outliers > 0).then(|| format!("{} of {}", s.outliers, s.samples)));
        let alike = totals(|s| s.autocorrelation.filter(|_| s.notable).map(|r| format!("{r:.2}")));
        for (what, named) in [
            ("Rounds left out of a comparison, because only one sample was verified", unpaired),
            ("Outliers of the total time (included in every figure)", outliers),
            ("Consecutive rounds are correlated (autocorrelation of the total time)", alike),
        ] {
            if named.is_empty() {
                continue;
            }
            let mut parts: Vec<String> =
                named.iter().take(NAMED).map(|(name, n)| format!("{name}: {n}")).collect();
            parts.extend(named.len().checked_sub(NAMED + 1).map(|n| format!("{} more", n + 1)));
            self.wrapped(&mut lines, &format!("{what}: {}", parts.join("; ")), Ink::Faint);
        }
        for sentence in self.study.missing.iter().take(NAMED) {
            self.wrapped(&mut lines, sentence, Ink::Faint);
        }
        if let Some(more) = self.study.missing.len().checked_sub(NAMED).filter(|more| *more > 0) {
            self.wrapped(&mut lines, &format!("{more} more variants have no baseline"), Ink::Faint);
        }
        lines
    }

    fn wrapped(&self, lines: &mut Vec<String>, text: &str, ink: Ink) {
        let text = self.style.safe(text);
        let words: Vec<String> = text.split(' ').map(String::from).collect();
        let wrapped = wrap("", &words, self.style.columns());
        lines.extend(wrapped.iter().map(|line| self.style.paint(ink, line)));
    }

    /// Aligns columns by their widest cell. If a line is too long, removes the columns in `dispensable`, in that
    /// order, and then cuts the end of the first column. A line with one cell is a heading.
    fn align(&self, mut table: Vec<Line>, dispensable: &[usize]) -> Vec<String> {
        let mut gone: Vec<usize> = Vec::new();
        let widths = loop {
            let widths = widths(&table);
            let rest: usize = widths.iter().skip(1).map(|w| w + 2).sum();
            let first = widths.first().copied().unwrap_or(0);
            let room = self.style.columns().saturating_sub(rest);
            let Some(next) = dispensable.get(gone.len()).filter(|_| room < first.min(18)) else {
                break [&[first.min(room.max(6))], widths.get(1..).unwrap_or_default()].concat();
            };
            let at = next - gone.iter().filter(|g| *g < next).count();
            for line in table.iter_mut().filter(|l| l.len() > at) {
                line.remove(at);
            }
            gone.push(*next);
        };
        table.iter().map(|line| self.line(line, &widths)).collect()
    }

    fn line(&self, line: &Line, widths: &[usize]) -> String {
        if let [(heading, ink)] = line.as_slice() {
            return self.style.paint(*ink, &shorten(heading, self.style.columns(), self.style));
        }
        let mut out = String::new();
        for (at, ((text, ink), width)) in line.iter().zip(widths).enumerate() {
            if at == 0 {
                let text = shorten(text, *width, self.style);
                out += &self.style.paint(*ink, &format!("{text:<width$}"));
            } else {
                out += "  ";
                out += &self.style.paint(*ink, &format!("{text:>width$}"));
            }
        }
        out.trim_end().to_owned()
    }
}

/// Header of a table of differences.
const HEAD: [&str; 6] = ["", "median", "", "", "p95", "p99"];

/// The scale for the medians and their intervals.
fn scale_of(effects: &[&EffectView]) -> Scale {
    let ends = |e: &&EffectView| {
        let interval = e.difference.interval.map(|i| i.low.abs().max(i.high.abs()));
        interval.unwrap_or(0.0).max(e.difference.value.abs())
    };
    scale(effects.iter().map(ends).fold(0.0, f64::max))
}

fn widths(table: &[Line]) -> Vec<usize> {
    let mut widths = vec![0; table.iter().map(Vec::len).max().unwrap_or(0)];
    for line in table.iter().filter(|l| l.len() > 1) {
        for (width, (text, _)) in widths.iter_mut().zip(line) {
            *width = (*width).max(text.chars().count());
        }
    }
    widths
}

fn shorten(text: &str, width: usize, style: &Style) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width.saturating_sub(1)).collect();
    out += style.glyph("…", "~");
    out
}

const fn ink(verdict: Verdict) -> Ink {
    match verdict {
        Verdict::Faster => Ink::Transfer,
        Verdict::Slower => Ink::Loss,
        Verdict::Same => Ink::Plain,
        Verdict::Unlike | Verdict::Open => Ink::Faint,
    }
}

fn estimate_ink(estimate: &Estimate) -> Ink {
    match estimate.interval {
        Some(i) if i.low > 0.0 || i.high < 0.0 => Ink::Plain,
        _ => Ink::Faint,
    }
}

fn scale(ns: f64) -> Scale {
    Scale::for_largest(Duration::from_nanos(ns as u64))
}

fn print(ns: f64, scale: Scale) -> String {
    scale.figure(scale.steps(Duration::from_nanos(ns as u64)))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::undressed;
    use super::super::study::fixtures::made;
    use super::*;

    #[test]
    fn two_variants_on_six_paths() {
        let made = made(2, 3, 2, 50);
        let text = table(&made.study(), &Style::default());
        assert!(text.contains("TLS 1.3 cut the median total time"));
        assert!(text.contains("of 50 verified"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn six_variants_in_ascii() {
        let made = made(6, 1, 1, 12);
        let style = Style { unicode: false, ..Style::default() };
        let text = table(&made.study(), &style);
        assert!(text.is_ascii(), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn fits_eighty_columns_and_colours_only_dress() {
        for (ways, edges, families, rounds) in [(2, 1, 1, 5), (6, 3, 2, 12), (2, 3, 2, 300)] {
            let made = made(ways, edges, families, rounds);
            let study = made.study();
            let plain = table(&study, &Style::default());
            for line in plain.lines() {
                assert!(line.chars().count() <= 80, "{line}");
            }
            let colored = table(&study, &Style { color: true, ..Style::default() });
            let undressed: Vec<String> =
                undressed(&colored).lines().map(|l| l.trim_end().to_owned()).collect();
            assert_eq!(undressed.join("\n"), plain.trim_end());
        }
    }

    #[test]
    fn nothing_measured_is_no_panic() {
        assert_eq!(table(&Study::default(), &Style::default()), "");
    }
}
