//! `firstbyte wire diff BEFORE AFTER`: what changed, and what it costs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use firstbyte_passive::diff::{MOST_CONNECTIONS, Pair, Servers, changes};
use firstbyte_passive::document::DifferenceRecord;
use firstbyte_passive::{Analyzer, Observed};

use super::live::{self, Control, Taker, Window};
use crate::cli::args::{FilterArgs, WireDiffArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::files::{Files, cannot_write};
use crate::cli::render;
use crate::cli::signals;
use crate::cli::terminal;
use firstbyte_capture::live::Live;
use firstbyte_report::units::grouped;
use firstbyte_report::wire;
use firstbyte_report::wire::diff::{self as report, Read};

const STDOUT: &str = "-";

/// What is compared with what.
struct Compared {
    pairs: Vec<Pair>,
    /// Servers that are on one side only.
    only: [Vec<String>; 2],
}

pub(in crate::cli) fn run(args: &WireDiffArgs) -> Result<u8, Problem> {
    let groups = groups(&args.group)?;
    let outputs: Vec<PathBuf> = outputs(args).map(Path::to_owned).collect();
    Files::default().reads(args.before.iter().chain(&args.after)).writes(&outputs).open()?;
    let mut code = Ok(exit::OK);
    let mut read = Vec::new();
    let (before, after) = sides(args, groups.is_some(), &mut code, &mut read)?;
    let compared = match (after, groups) {
        (Some(after), _) => {
            let (pairs, only) = Servers::pairs(&before, &after);
            Compared { pairs, only }
        }
        (None, Some([base, other])) => {
            Compared { pairs: vec![held(&before, base, other)?], only: Default::default() }
        }
        (None, None) => {
            let (pairs, servers) = before.each_against_others();
            if servers > pairs.len() && !pairs.is_empty() {
                let [most, all] = [pairs.len(), servers].map(|n| grouped(n as u64));
                terminal::note(&format!(
                    "  of {all} servers the {most} with most connections are compared"
                ));
            }
            Compared { pairs, only: Default::default() }
        }
    };
    let found = changes(&compared.pairs);
    let [only_before, only_after] = &compared.only;
    let only: [&[String]; 2] = [only_before, only_after];
    let page = report::Page { read: &read, changes: &found, pairs: &compared.pairs, only };
    write(args, &page)?;
    code
}

/// Files that are written, in the order in which they are named.
fn outputs(args: &WireDiffArgs) -> impl Iterator<Item = &Path> {
    [&args.json, &args.csv, &args.html].into_iter().filter_map(Option::as_deref)
}

/// Writes what was asked for; a table where standard output is free.
fn write(args: &WireDiffArgs, page: &report::Page<'_>) -> Result<(), Problem> {
    let (found, pairs, only) = (page.changes, page.pairs, page.only);
    let record = || DifferenceRecord::of(found, pairs, only);
    if let Some(path) = &args.csv {
        let written = super::outputs::sink(path).and_then(|out| report::csv(&record(), out));
        written.map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(path) = &args.html {
        render::whole(path, report::page(page).as_bytes())?;
    }
    if let Some(path) = &args.json {
        let written = serde_json::to_vec(&record()).map_err(io::Error::from);
        let json = written.map_err(|error| cannot_write(path, &error))?;
        render::whole(path, &[&json[..], b"\n"].concat())?;
    }
    if outputs(args).any(|path| path == Path::new(STDOUT)) {
        return Ok(());
    }
    let text = report::diff(found, pairs, only, &terminal::style(args.color));
    io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Problem::output(&e))
}

/// What is compared: captures, live or not; one only, where its servers are compared with each other.
fn sides(
    args: &WireDiffArgs,
    grouped: bool,
    code: &mut Result<u8, Problem>,
    read: &mut Vec<Read>,
) -> Result<(Servers, Option<Servers>), Problem> {
    let one = args.by.is_some() || grouped;
    let filter = &args.filter;
    let Some(options) = live::options(&args.live, filter)? else {
        let Some(before) = &args.before else {
            return Err(Problem::new(exit::USAGE, "there is no capture to compare"));
        };
        let before = servers(before, filter, code, read)?;
        let after =
            args.after.as_ref().map(|after| servers(after, filter, code, read)).transpose()?;
        return Ok((before, after));
    };
    let many = args.windows.len();
    let file = match (&args.before, one, many) {
        (Some(_), true, _) => {
            return Err(Problem::new(
                exit::USAGE,
                "with --by or --group, give a file or -i, not both",
            ));
        }
        (Some(file), false, 0 | 1) => Some(file),
        (None, true, 0 | 1) | (None, false, 2) => None,
        (None, false, _) => {
            let text = "two live captures need their lengths: give --for twice";
            return Err(Problem::new(exit::USAGE, text)
                .hint("or give a capture of how it was: firstbyte wire diff BEFORE -i IFACE"));
        }
        _ => return Err(Problem::new(exit::USAGE, "--for is given too often")),
    };
    let control = Control::start(None)?;
    let before = match file {
        None => None,
        Some(file) => {
            // That it cannot be captured is told before a file is read for long.
            drop(Live::open(&options).map_err(|error| live::problem(&error, exit::USAGE))?);
            Some(servers(file, filter, code, read)?)
        }
    };
    let mut capture = live::open(&options)?;
    let mut windows = args.windows.iter().copied().map(Some).chain([None]);
    let mut next = |code: &mut Result<u8, Problem>, read: &mut Vec<Read>| {
        let window = Window { length: windows.next().flatten(), control: &control };
        live_servers(args, &mut capture, &window, code, read)
    };
    match before {
        Some(before) => Ok((before, Some(next(code, read)?))),
        None if one => Ok((next(code, read)?, None)),
        None => {
            let before = next(code, read)?;
            if control.is_asked() {
                let text = "interrupted before there was anything to compare with";
                return Err(Problem::new(signals::exit_code(), text));
            }
            Ok((before, Some(next(code, read)?)))
        }
    }
}

impl Taker for Servers {
    fn connection(&mut self, observed: &Observed) {
        self.add(observed);
    }
}

/// The connections of a live capture, by server.
fn live_servers(
    args: &WireDiffArgs,
    capture: &mut Live,
    window: &Window<'_>,
    code: &mut Result<u8, Problem>,
    read: &mut Vec<Read>,
) -> Result<Servers, Problem> {
    let mut analyzer = super::analyzer(&args.filter)?;
    let mut servers = Servers::default();
    match live::follow(capture, &mut analyzer, window, &mut servers) {
        Ok(exit::OK) => {}
        Ok(interrupted) => *code = Ok(interrupted),
        Err(problem) => *code = Err(problem),
    }
    let name = args.live.interface.clone().unwrap_or_default();
    read.push(told(name, &analyzer, &servers));
    Ok(servers)
}

/// A group of servers: what it is called, and patterns.
type Group<'a> = (&'a str, Vec<&'a str>);

/// The two groups of `--group`; `None` without.
fn groups(given: &[String]) -> Result<Option<[Group<'_>; 2]>, Problem> {
    match given {
        [] => Ok(None),
        [base, other] => Ok(Some([group(base)?, group(other)?])),
        _ => Err(Problem::new(
            exit::USAGE,
            "--group has to be given twice: what it should be like, and what is held against that",
        )),
    }
}

fn group(text: &str) -> Result<Group<'_>, Problem> {
    text.split_once('=')
        .map(|(name, servers)| (name, servers.split(',').collect::<Vec<_>>()))
        .filter(|(name, servers)| !name.is_empty() && servers.iter().all(|one| !one.is_empty()))
        .ok_or_else(|| {
            Problem::new(exit::USAGE, format!("--group {text}: is not NAME=SERVER,…"))
                .hint("for example: --group 'a=node1*,10.0.0.2'")
        })
}

/// One group of servers held against another.
pub(in crate::cli) fn held(
    servers: &Servers,
    (base, base_patterns): Group<'_>,
    (other, other_patterns): Group<'_>,
) -> Result<Pair, Problem> {
    let side = |name: &str, patterns: &[&str]| {
        let side = servers.group(patterns);
        match side.connections() {
            0 => Err(Problem::new(
                exit::USAGE,
                format!("group {name}: the capture has no connection to {}", patterns.join(", ")),
            )
            .hint("see its servers with: firstbyte wire FILE")),
            _ => Ok(side),
        }
    };
    Ok(Pair {
        name: other.to_owned(),
        against: Some(base.to_owned()),
        before: side(base, &base_patterns)?,
        after: side(other, &other_patterns)?,
    })
}

/// Says what was read, before results.
fn told(name: String, analyzer: &Analyzer, servers: &Servers) -> Read {
    let (hygiene, left_out) = (*analyzer.hygiene(), servers.left_out());
    terminal::note(&format!("{name}\n{}", wire::hygiene(&hygiene).trim_end()));
    if left_out > 0 {
        let [most, more] = [MOST_CONNECTIONS as u64, left_out].map(grouped);
        terminal::note(&format!("  no more than {most} are compared: {more} connections are not"));
    }
    Read { name, hygiene, left_out }
}

/// The connections of a capture, by server. What could be read counts, whatever comes after; `code` tells.
pub(in crate::cli) fn servers(
    path: &Path,
    filter: &FilterArgs,
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
    // Where a file lies is nobody's business whom the page is shown.
    let name = firstbyte_capture::name(path.file_name().map_or(path, Path::new));
    read.push(told(name, &analyzer, &servers));
    Ok(servers)
}
