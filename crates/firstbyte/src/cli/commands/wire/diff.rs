//! `firstbyte wire diff BEFORE AFTER`: finds what changed and what that costs.

use std::io;
use std::path::Path;
use std::time::Duration;

use firstbyte_passive::diff::{MOST_CONNECTIONS, Pair, Servers, beside, changes_projected};
use firstbyte_passive::document::DifferenceRecord;
use firstbyte_passive::{Analyzer, Observed};

use super::live::{self, Control, Taker, Window};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, sink, whole};
use crate::cli::files::{Files, cannot_write};
use crate::cli::signals;
use crate::cli::terminal;
use crate::plans::{
    ComparedCaptures, DiffCapture, LiveCapture, PacketFilter, ServerGroup, WireDiffPlan,
};
use firstbyte_capture;
use firstbyte_capture::live::{Live, Options};
use firstbyte_report::units::grouped;
use firstbyte_report::wire;
use firstbyte_report::wire::diff::{self as report, Read};

/// The pairs of server groups to compare.
struct Compared {
    pairs: Vec<Pair>,
    /// Servers that occur on one side only.
    only: [Vec<String>; 2],
}

pub(in crate::cli) fn run(plan: &WireDiffPlan) -> Result<u8, Problem> {
    let opened = Files::default().reads(plan.files()).exports(&plan.outputs).open()?;
    let mut code = Ok(exit::OK);
    let mut read = Vec::new();
    let compared = compared(plan, &mut code, &mut read)?;
    let found = changes_projected(&compared.pairs, &plan.project_rtt);
    let [only_before, only_after] = &compared.only;
    let only: [&[String]; 2] = [only_before, only_after];
    let pairs = &compared.pairs;
    let sides = beside(pairs);
    let page = report::Page { read: &read, changes: &found, beside: &sides, pairs, only };
    write(plan, &page)?;
    opened.keep();
    code
}

/// Reads the captures and pairs their servers.
fn compared(
    plan: &WireDiffPlan,
    code: &mut Result<u8, Problem>,
    read: &mut Vec<Read>,
) -> Result<Compared, Problem> {
    let mut captures = Captures::begin(plan)?;
    let mut servers = |capture: &DiffCapture| captures.servers(capture, code, read);
    match &plan.compared {
        ComparedCaptures::Captures { before, after } => {
            let before = servers(before)?;
            let after = servers(after)?;
            let (pairs, only) = Servers::pairs(&before, &after);
            Ok(Compared { pairs, only })
        }
        ComparedCaptures::Groups { capture, groups: [base, other] } => {
            let pairs = vec![held(&servers(capture)?, base, other)?];
            Ok(Compared { pairs, only: Default::default() })
        }
        ComparedCaptures::EachServer(capture) => {
            let (pairs, servers) = servers(capture)?.each_against_others();
            if servers > pairs.len() && !pairs.is_empty() {
                let [most, all] = [pairs.len(), servers].map(|n| grouped(n as u64));
                terminal::note(&format!(
                    "  comparing the {most} servers with the most connections, of {all}"
                ));
            }
            Ok(Compared { pairs, only: Default::default() })
        }
    }
}

/// Writes the requested outputs, and a table if standard output is free.
fn write(plan: &WireDiffPlan, page: &report::Page<'_>) -> Result<(), Problem> {
    let (found, pairs, only) = (page.changes, page.pairs, page.only);
    let outputs = &plan.outputs;
    let record = || DifferenceRecord::from_changes(found, page.beside, pairs, only);
    if let Some(to) = &outputs.csv {
        let written = sink(to).and_then(|out| report::csv(&record(), out));
        written.map_err(|error| cannot_write(to.path(), &error))?;
    }
    if let Some(to) = &outputs.html {
        whole(to, report::page(page).as_bytes())?;
    }
    if let Some(to) = &outputs.json {
        let written = serde_json::to_vec(&record()).map_err(io::Error::from);
        let json = written.map_err(|error| cannot_write(to.path(), &error))?;
        whole(to, &[&json[..], b"\n"].concat())?;
    }
    if outputs.use_stdout() {
        return Ok(());
    }
    let style = terminal::style(plan.colors);
    let text = report::diff(found, pairs, only, &style);
    print(&(text + &report::beside(page.beside, pairs, &style)))
}

/// The captures of a comparison, one after the other.
struct Captures<'a> {
    plan: &'a WireDiffPlan,
    /// The interface, if one of the captures is live.
    live: Option<OnInterface<'a>>,
}

/// An interface to capture on.
struct OnInterface<'a> {
    capture: &'a LiveCapture,
    options: Options,
    control: Control,
    /// Present once the first capture has begun.
    opened: Option<Live>,
}

impl<'a> Captures<'a> {
    fn begin(plan: &'a WireDiffPlan) -> Result<Self, Problem> {
        let is_live = plan.compared.captures().any(|one| matches!(one, DiffCapture::Live { .. }));
        let live = match &plan.live {
            Some(capture) if is_live => {
                let options = live::options(capture, &plan.filter)?;
                let control = Control::start(None)?;
                if plan.files().next().is_some() {
                    // Fail early if capturing is not possible, before spending time on files.
                    drop(Live::open(&options).map_err(|error| live::problem(&error, exit::USAGE))?);
                }
                Some(OnInterface { capture, options, control, opened: None })
            }
            None if is_live => {
                let text = "no interface to capture on";
                return Err(Problem::new(exit::USAGE, text));
            }
            _ => None,
        };
        Ok(Self { plan, live })
    }

    /// The connections of one capture, by server.
    fn servers(
        &mut self,
        capture: &DiffCapture,
        code: &mut Result<u8, Problem>,
        read: &mut Vec<Read>,
    ) -> Result<Servers, Problem> {
        match (capture, &mut self.live) {
            (DiffCapture::File(path), _) => servers(path, &self.plan.filter, code, read),
            (DiffCapture::Live { length }, Some(live)) => {
                if live.opened.is_some() && live.control.is_asked() {
                    let text = "interrupted before there was anything to compare with";
                    return Err(Problem::new(signals::exit_code(), text));
                }
                live.servers(*length, &self.plan.filter, code, read)
            }
            // Already reported at the start.
            (DiffCapture::Live { .. }, None) => Ok(Servers::default()),
        }
    }
}

impl OnInterface<'_> {
    /// The connections of a live capture, by server.
    fn servers(
        &mut self,
        length: Option<Duration>,
        filter: &PacketFilter,
        code: &mut Result<u8, Problem>,
        read: &mut Vec<Read>,
    ) -> Result<Servers, Problem> {
        let Self { capture, options, control, opened } = self;
        let live = match opened {
            Some(live) => live,
            None => opened.insert(live::open(options)?),
        };
        let mut analyzer = super::analyzer(filter)?;
        let mut servers = Servers::default();
        let window = Window { length, control };
        match live::follow(live, &mut analyzer, &window, &mut servers) {
            Ok(exit::OK) => {}
            Ok(interrupted) => *code = Ok(interrupted),
            Err(problem) => *code = Err(problem),
        }
        read.push(told(capture.interface.clone(), &analyzer, &servers));
        Ok(servers)
    }
}

impl Taker for Servers {
    fn connection(&mut self, observed: &Observed) {
        self.add(observed);
    }
}

/// Compares one group of servers with another.
pub(in crate::cli) fn held(
    servers: &Servers,
    base: &ServerGroup,
    other: &ServerGroup,
) -> Result<Pair, Problem> {
    let side = |ServerGroup { name, servers: patterns }: &ServerGroup| {
        let names: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let side = servers.group(&names);
        match side.connections() {
            0 => Err(Problem::new(
                exit::USAGE,
                format!("group {name}: the capture has no connection to {}", patterns.join(", ")),
            )
            .hint("list its servers with: firstbyte wire FILE")),
            _ => Ok(side),
        }
    };
    Ok(Pair {
        name: other.name.clone(),
        against: Some(base.name.clone()),
        before: side(base)?,
        after: side(other)?,
    })
}

/// Reports what was read, before the results.
fn told(name: String, analyzer: &Analyzer, servers: &Servers) -> Read {
    let (hygiene, left_out) = (*analyzer.hygiene(), servers.left_out());
    terminal::note(&format!("{name}\n{}", wire::hygiene(&hygiene).trim_end()));
    if left_out > 0 {
        let [most, more] = [MOST_CONNECTIONS as u64, left_out].map(grouped);
        terminal::note(&format!("  at most {most} connections are compared; {more} are left out"));
    }
    Read { name, hygiene, left_out }
}

/// The connections of a capture, by server. What could be read counts; later errors are reported in `code`.
pub(in crate::cli) fn servers(
    path: &Path,
    filter: &PacketFilter,
    code: &mut Result<u8, Problem>,
    read: &mut Vec<Read>,
) -> Result<Servers, Problem> {
    let mut analyzer = super::analyzer(filter)?;
    let mut servers = Servers::default();
    let mut emit = |observed: &Observed| servers.add(observed);
    let ended = firstbyte_capture::read(path, &mut analyzer, &mut emit)
        .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    firstbyte_capture::finish_on(firstbyte_capture::threads(), &mut analyzer, &mut emit);
    super::note_end(path, ended, code);
    // The page may be shared, so it must not reveal the file's directory.
    let name = firstbyte_capture::name(path.file_name().map_or(path, Path::new));
    read.push(told(name, &analyzer, &servers));
    Ok(servers)
}
