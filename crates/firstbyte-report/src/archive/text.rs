//! An archive as text for the terminal.

use std::time::Duration;

use firstbyte_core::timeline::Navigation;
use firstbyte_pages::page_load::PageLoad;
use firstbyte_sources::har::{
    HarArchive, HarEnd, HarOrigin, HarOutcome, HarPhaseOf, HarRules, HarSummary, ZeroMeans,
};

use crate::page_load::page_load_laid_out;
use crate::style::{Ink, Style, wrap};
use crate::units::{Scale, Unit, count, grouped};

/// Maximum number of origins shown.
const MOST_ORIGINS: usize = 30;
/// Maximum number of flaws shown.
const MOST_FLAWS: usize = 8;

/// Input of the text view.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveShown<'a> {
    /// The file's name.
    pub file: &'a str,
    /// The parsed archive.
    pub archive: &'a HarArchive,
    /// The archive's requests, classified and counted.
    pub summary: &'a HarSummary,
    /// The page to draw.
    pub page: Option<&'a (Navigation, PageLoad)>,
}

/// The archive as text.
pub fn archive(shown: &ArchiveShown<'_>, style: &Style) -> String {
    let view = View { shown, rules: shown.archive.rules(), style };
    let mut blocks = vec![view.head(), view.requests(), view.opened()];
    blocks.push(shown.page.map(|page| view.page(page)).unwrap_or_default());
    blocks.push(view.notes());
    let mut text = String::new();
    for block in blocks.iter().filter(|block| !block.is_empty()) {
        if !text.is_empty() {
            text.push('\n');
        }
        for line in block {
            text += line.trim_end();
            text.push('\n');
        }
    }
    text
}

struct View<'a> {
    shown: &'a ArchiveShown<'a>,
    rules: &'static HarRules,
    style: &'a Style,
}

/// A phase and its column heading.
const PHASES: [(&str, HarPhaseOf); 7] = [
    ("dns", |phases| phases.dns),
    ("connect", |phases| phases.connect),
    ("TLS", |phases| phases.tls),
    ("QUIC", |phases| phases.quic),
    ("send", |phases| phases.send),
    ("wait", |phases| phases.wait),
    ("receive", |phases| phases.receive),
];

/// Outcomes that are excluded from the times, with their labels.
const LEFT_OUT: [(HarOutcome, &str); 6] = [
    (HarOutcome::Cached, "from a cache"),
    (HarOutcome::Worker, "by a service worker"),
    (HarOutcome::Failed, "failed"),
    (HarOutcome::Untimed, "without times"),
    (HarOutcome::Local, "to no server (data:, blob:)"),
    (HarOutcome::Flawed, "with impossible times"),
];

impl View<'_> {
    fn head(&self) -> Vec<String> {
        let HarArchive { creator, pages, entries, entries_beyond, end, .. } = self.shown.archive;
        let mut by = match creator {
            Some(span) if !span.name.is_empty() => {
                let said = format!("{} {}", span.name, span.version);
                let said = self.style.safe(said.trim());
                match self.rules.creator {
                    "unknown" => said,
                    known if said.to_lowercase().starts_with(&known.to_lowercase()) => said,
                    known => format!("{known} ({said})"),
                }
            }
            _ => "an unknown program".to_owned(),
        };
        if self.rules.proven.is_none() {
            by += ", unproven";
        }
        let mut words = vec![format!("by {by}")];
        words.push(count(entries.len() as u64 + entries_beyond, "request"));
        words.push(count(pages.len() as u64, "page"));
        words.retain(|word| !word.starts_with("0 page"));
        let mut lines = vec![self.style.paint(Ink::Strong, &self.style.safe(self.shown.file))];
        lines.extend(self.joined("", &words));
        let counts = &self.shown.summary.counts;
        let left = LEFT_OUT.map(|(outcome, words)| (counts.with(outcome), words));
        let left: Vec<String> = left
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, words)| format!("{} {words}", grouped(*n)))
            .collect();
        if !left.is_empty() {
            lines.extend(self.joined("not included in times: ", &left));
        }
        match end {
            HarEnd::Whole => {}
            HarEnd::Cut { offset } => lines.push(self.style.paint(
                Ink::Loss,
                &format!(
                    "cut: the file ends at byte {}; everything complete before it is shown",
                    grouped(*offset)
                ),
            )),
            HarEnd::Damaged { detail } => {
                let words =
                    [format!("damaged: {detail};"), "everything before it is shown".to_owned()];
                lines.extend(wrap("", &words, self.style.columns()));
            }
        }
        lines
    }

    /// `words` with separators, wrapped over as many lines as they need.
    fn joined(&self, first: &str, words: &[String]) -> Vec<String> {
        let dot = self.style.glyph(" ·", ",");
        let last = words.len().saturating_sub(1);
        let words: Vec<String> = words
            .iter()
            .enumerate()
            .map(|(n, word)| if n < last { format!("{word}{dot}") } else { word.clone() })
            .collect();
        wrap(first, &words, self.style.columns())
    }

    fn origins(&self) -> (Vec<&HarOrigin>, usize) {
        let all = &self.shown.summary.origins;
        if all.len() <= MOST_ORIGINS {
            return (all.iter().collect(), 0);
        }
        // Select the origins with the most requests, and keep them in order of first request.
        let mut most: Vec<u64> = all.iter().map(|origin| origin.counts.all()).collect();
        most.sort_unstable_by(|a, b| b.cmp(a));
        let (least, mut shown) = (most[MOST_ORIGINS - 1], Vec::new());
        let at_least = all.iter().filter(|origin| origin.counts.all() > least).count();
        let mut equal = MOST_ORIGINS - at_least;
        for origin in all {
            let requests = origin.counts.all();
            if requests > least || requests == least && equal > 0 {
                equal -= usize::from(requests == least);
                shown.push(origin);
            }
        }
        let hidden = all.len() - shown.len();
        (shown, hidden)
    }

    fn none(&self) -> &'static str {
        self.style.glyph("–", "-")
    }

    fn name(&self, name: &str, width: usize) -> String {
        let name = self.style.safe(name.trim_end_matches(":443"));
        if name.chars().count() <= width {
            return format!("{name:<width$}");
        }
        // Hosts of one site differ at the beginning, so cut there.
        let ellipsis = self.style.glyph("…", "..");
        let kept = width - ellipsis.chars().count();
        name.chars().take(kept).chain(ellipsis.chars()).collect()
    }

    fn requests(&self) -> Vec<String> {
        let (origins, hidden) = self.origins();
        if origins.is_empty() {
            return Vec::new();
        }
        let counts = &self.shown.summary.counts;
        let has_unsaid = counts.with(HarOutcome::Unsaid) > 0;
        let has_names = origins.iter().any(|origin| origin.connections.is_some());
        let mut heads = vec!["requests"];
        heads.extend(has_names.then_some("connections"));
        heads.extend(["opened", "reused"]);
        heads.extend(has_unsaid.then_some("not said"));
        heads.push("other");
        let widths: Vec<usize> = heads.iter().map(|head| head.len() + 3).collect();
        let width = self.style.columns().saturating_sub(widths.iter().sum()).min(40);
        let row = |name: String, cells: &[String]| {
            let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
            name + &cells.collect::<String>()
        };
        let heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
        let head = row(self.name("origin", width), &heads);
        let mut lines = vec![self.style.paint(Ink::Faint, &head)];
        for origin in origins {
            let with = |outcome| origin.counts.with(outcome);
            let timed: u64 = HarOutcome::ALL.into_iter().filter(|o| o.is_timed()).map(with).sum();
            let mut cells = vec![grouped(origin.counts.all())];
            let names = origin.connections.map_or_else(|| self.none().to_owned(), grouped);
            cells.extend(has_names.then_some(names));
            cells.extend([HarOutcome::Opened, HarOutcome::Reused].map(|o| grouped(with(o))));
            cells.extend(has_unsaid.then(|| grouped(with(HarOutcome::Unsaid))));
            cells.push(grouped(origin.counts.all() - timed));
            lines.push(row(self.name(&origin.authority, width), &cells));
        }
        if hidden > 0 {
            lines.push(format!("and {}, listed by --csv", count(hidden as u64, "more origin")));
        }
        lines
    }

    /// The cost of opening connections.
    fn opened(&self) -> Vec<String> {
        let (origins, _) = self.origins();
        let origins: Vec<&HarOrigin> =
            origins.into_iter().filter(|o| o.counts.with(HarOutcome::Opened) > 0).collect();
        let largest = origins.iter().flat_map(|origin| {
            PHASES.iter().flat_map(|(_, get)| [origin.median(*get), origin.p95(*get)])
        });
        let Some(largest) = largest.flatten().max() else { return Vec::new() };
        let scale = self.scale(largest);
        let phases: Vec<_> = PHASES
            .iter()
            .filter(|(name, get)| {
                *name != "QUIC" || origins.iter().any(|o| o.median(*get).is_some())
            })
            .collect();
        let cell_width = 9;
        let width = self.style.columns().saturating_sub(phases.len() * cell_width).min(34);
        let row = |name: String, cells: Vec<String>| {
            let cells = cells.iter().map(|cell| format!("{cell:>cell_width$}"));
            name + &cells.collect::<String>()
        };
        let unit = scale.name(self.style);
        let heads = phases.iter().map(|(name, _)| (*name).to_owned()).collect();
        let title = format!("opened, {unit}");
        let mut lines = vec![self.style.paint(Ink::Faint, &row(self.name(&title, width), heads))];
        for origin in origins {
            let figures = |time: &dyn Fn(HarPhaseOf) -> Option<Duration>| {
                let time = |get: HarPhaseOf| time(get).map(|time| scale.time_figure(time));
                let cells = phases.iter().map(|(_, get)| time(*get));
                cells.map(|time| time.unwrap_or_else(|| self.none().to_owned())).collect()
            };
            let name = self.name(&origin.authority, width);
            lines.push(row(name, figures(&|get| origin.median(get))));
            if PHASES.iter().any(|(_, get)| origin.p95(*get).is_some()) {
                lines.push(row(self.name("  p95", width), figures(&|get| origin.p95(get))));
            }
        }
        lines.push(String::new());
        let of = "Medians of the requests that opened their connection; p95 with 20 or more of \
                  them.";
        lines.extend(self.sentence(of));
        lines
    }

    /// A scale no finer than the clock of the archive's creator.
    fn scale(&self, largest: Duration) -> Scale {
        let scale = Scale::for_largest(largest);
        let is_whole = self.rules.resolution.is_none_or(|r| r >= Duration::from_millis(1));
        match scale.unit {
            Unit::Millis if is_whole => Scale { decimals: 0, ..scale },
            Unit::Micros if is_whole => Scale { unit: Unit::Millis, decimals: 0 },
            Unit::Millis => Scale { decimals: scale.decimals.min(1), ..scale },
            _ => scale,
        }
    }

    fn page(&self, (page, load): &(Navigation, PageLoad)) -> Vec<String> {
        page_load_laid_out(page, load, false, self.style).lines().map(str::to_owned).collect()
    }

    fn sentence(&self, text: &str) -> Vec<String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        let lines = wrap("", &words, self.style.columns());
        lines.iter().map(|line| self.style.paint(Ink::Faint, line)).collect()
    }

    /// Caveats about the numbers, and flaws found in them.
    fn notes(&self) -> Vec<String> {
        let HarSummary { flaws, flaw_count, counts, .. } = self.shown.summary;
        let mut lines = Vec::new();
        for flaw in flaws.iter().take(MOST_FLAWS) {
            let entry = flaw.entry.map_or_else(|| "a page".to_owned(), |n| format!("entry {n}"));
            let says = self.style.safe(&flaw.says);
            lines.push(format!("not used: {entry}, {}: {says}", flaw.field));
        }
        let more = flaw_count.saturating_sub(lines.len() as u64);
        if more > 0 {
            lines.push(format!("and {} more like these", grouped(more)));
        }
        let beyond = self.shown.archive.entries_beyond;
        if beyond > 0 {
            lines.push(format!("{} were not read: over the limit", count(beyond, "more request")));
        }
        let opened = counts.with(HarOutcome::Opened);
        if self.rules.creator == "Chrome's DevTools" && opened > 0 {
            lines.extend(self.sentence(
                "Chrome reports how long a request was blocked on a step: less than on the wire if \
                 the connection was opened in advance.",
            ));
        }
        if self.rules.zero == ZeroMeans::NotDone && counts.with(HarOutcome::Reused) > 0 {
            lines.extend(self.sentence(
                "Whole milliseconds, and 0 for steps that did not happen: a step shorter than half \
                 a millisecond counts as not done.",
            ));
        }
        if self.rules.proven.is_none() {
            lines.extend(self.sentence(
                "Unverified: files of this program have not been checked against a known network. \
                 They are read as its documentation says.",
            ));
        }
        lines
    }
}
