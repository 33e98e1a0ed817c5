//! `firstbyte wire diff BEFORE AFTER`: what changed, and what it costs.

use std::io::{self, Write};
use std::path::Path;

use firstbyte_core::document::DifferenceRecord;
use firstbyte_core::passive::Observed;
use firstbyte_core::passive::diff::{Pair, Servers, changes};

use super::live::{self, Control, Window};
use crate::capture;
use crate::capture::live::Live;
use crate::cli::args::{FilterArgs, WireDiffArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use crate::report::wire;

/// What is compared with what.
struct Compared {
    pairs: Vec<Pair>,
    /// Servers that are on one side only.
    only: [Vec<String>; 2],
}

pub(in crate::cli) fn run(args: &WireDiffArgs) -> Result<u8, Problem> {
    let groups = groups(&args.group)?;
    let mut code = Ok(exit::OK);
    let (before, after) = sides(args, groups.is_some(), &mut code)?;
    let compared = match (after, groups) {
        (Some(after), _) => {
            let (pairs, only) = Servers::pairs(&before, &after);
            Compared { pairs, only }
        }
        (None, Some([base, other])) => {
            Compared { pairs: vec![held(&before, base, other)?], only: Default::default() }
        }
        (None, None) => Compared { pairs: before.each_against_others(), only: Default::default() },
    };
    let found = changes(&compared.pairs);
    let [only_before, only_after] = &compared.only;
    let only: [&[String]; 2] = [only_before, only_after];
    let mut out = io::stdout().lock();
    if args.json {
        let record = DifferenceRecord::of(&found, &compared.pairs, only);
        serde_json::to_writer(&mut out, &record)
            .map_err(io::Error::from)
            .and_then(|()| out.write_all(b"\n"))
            .map_err(|e| Problem::output(&e))?;
    } else {
        let style = terminal::style(args.color);
        let text = wire::diff(&found, &compared.pairs, only, &style);
        out.write_all(text.as_bytes()).map_err(|e| Problem::output(&e))?;
    }
    code
}

/// What is compared: captures, live or not; one only, where its servers are compared with each other.
fn sides(
    args: &WireDiffArgs,
    grouped: bool,
    code: &mut Result<u8, Problem>,
) -> Result<(Servers, Option<Servers>), Problem> {
    let one = args.by.is_some() || grouped;
    let filter = &args.filter;
    let Some(options) = live::options(&args.live, filter)? else {
        let Some(before) = &args.before else {
            return Err(Problem::new(exit::USAGE, "there is no capture to compare"));
        };
        let before = servers(before, filter, code)?;
        let after = args.after.as_ref().map(|after| servers(after, filter, code)).transpose()?;
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
            Some(servers(file, filter, code)?)
        }
    };
    let mut capture = live::open(&options)?;
    let mut windows = args.windows.iter().copied().map(Some).chain([None]);
    let mut next = |code: &mut Result<u8, Problem>| {
        let window = Window { length: windows.next().flatten(), control: &control };
        live_servers(args, &mut capture, &window, code)
    };
    match before {
        Some(before) => Ok((before, Some(next(code)?))),
        None if one => Ok((next(code)?, None)),
        None => {
            let before = next(code)?;
            if control.is_asked() {
                let text = "interrupted before there was anything to compare with";
                return Err(Problem::new(exit::INTERRUPTED, text));
            }
            Ok((before, Some(next(code)?)))
        }
    }
}

/// The connections of a live capture, by server.
fn live_servers(
    args: &WireDiffArgs,
    capture: &mut Live,
    window: &Window<'_>,
    code: &mut Result<u8, Problem>,
) -> Result<Servers, Problem> {
    let mut analyzer = super::analyzer(&args.filter)?;
    let mut servers = Servers::default();
    let mut emit = |observed: Observed| servers.add(&observed);
    match live::follow(capture, &mut analyzer, window, &mut emit, &mut |_| true) {
        Ok(exit::OK) => {}
        Ok(interrupted) => *code = Ok(interrupted),
        Err(problem) => *code = Err(problem),
    }
    let name = args.live.interface.as_deref().unwrap_or_default();
    terminal::note(&format!("{name}\n{}", wire::hygiene(analyzer.hygiene()).trim_end()));
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

/// The connections of a capture, by server. What could be read counts, whatever comes after; `code` tells.
pub(in crate::cli) fn servers(
    path: &Path,
    filter: &FilterArgs,
    code: &mut Result<u8, Problem>,
) -> Result<Servers, Problem> {
    let mut analyzer = super::analyzer(filter)?;
    let mut servers = Servers::default();
    let ended = capture::read(path, &mut analyzer, &mut |observed| servers.add(&observed))
        .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    analyzer.finish(&mut |observed| servers.add(&observed));
    super::note_end(path, ended, code);
    let hygiene = wire::hygiene(analyzer.hygiene());
    terminal::note(&format!("{}\n{}", capture::name(path), hygiene.trim_end()));
    Ok(servers)
}
