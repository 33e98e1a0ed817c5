//! Turns the arguments of `wire` into plans.

use std::num::NonZeroU8;
use std::path::PathBuf;

use super::usage;
use crate::cli::args::{FilterArgs, LiveArgs, WireArgs, WireDiffArgs};
use crate::cli::exit::Problem;
use crate::plans::{
    ComparedCaptures, ConnectionChoice, DiffCapture, LiveCapture, LivePlan, Outputs, PacketFilter,
    PacketSource, ServerGroup, WireDiffPlan, WirePlan,
};

pub(super) fn wire(args: &WireArgs) -> Result<WirePlan, Problem> {
    let paths: Vec<PathBuf> = args.read_file.iter().chain(&args.files).cloned().collect();
    let source = match live_capture(&args.live) {
        Some(_) if !paths.is_empty() => return Err(usage("give files or -i, not both")),
        Some(capture) => PacketSource::Live(LivePlan {
            capture,
            length: args.window,
            metrics: args.metrics,
            spool_bytes: args.spool,
        }),
        None => PacketSource::Files { paths, threads: args.threads.and_then(NonZeroU8::new) },
    };
    Ok(WirePlan {
        source,
        filter: filter(&args.filter),
        choice: ConnectionChoice {
            servers: args.server.clone(),
            sessions: args.session.clone(),
            flows: args.flow.clone(),
        },
        shown_servers: args.servers,
        shown_connections: args.connections,
        capacity: args.capacity,
        outputs: Outputs {
            json: args.rows.json(),
            csv: args.rows.csv.clone(),
            parquet: args.parquet.clone(),
            zeek: args.zeek.clone(),
            html: args.html.clone(),
            packets: args.pcap_out.clone(),
            svg: args.svg.clone(),
            ..Outputs::default()
        },
        colors: args.color,
    })
}

fn filter(args: &FilterArgs) -> PacketFilter {
    PacketFilter { hosts: args.hosts.clone(), ports: args.ports.clone() }
}

fn live_capture(args: &LiveArgs) -> Option<LiveCapture> {
    Some(LiveCapture {
        interface: args.interface.clone()?,
        snaplen_bytes: args.snaplen,
        buffer_bytes: args.buffer,
        promiscuous: !args.no_promiscuous_mode,
    })
}

/// Most round-trip times that costs are projected to; that many columns fit next to each other.
const MOST_PROJECTED: usize = 4;

pub(super) fn wire_diff(args: &WireDiffArgs) -> Result<WireDiffPlan, Problem> {
    let live = live_capture(&args.live);
    if args.project_rtt.len() > MOST_PROJECTED {
        return Err(usage("--project-rtt takes up to four round trips")
            .hint("for example: --project-rtt 20ms,80ms,200ms"));
    }
    let compared = match groups(&args.group)? {
        Some(groups) => ComparedCaptures::Groups { capture: only(args)?, groups },
        None if args.by.is_some() => ComparedCaptures::EachServer(only(args)?),
        None => {
            let (before, after) = both(args)?;
            ComparedCaptures::Captures { before, after }
        }
    };
    Ok(WireDiffPlan {
        compared,
        live,
        project_rtt: args.project_rtt.clone(),
        filter: filter(&args.filter),
        outputs: Outputs {
            json: args.rows.json(),
            csv: args.rows.csv.clone(),
            html: args.html.clone(),
            ..Outputs::default()
        },
        colors: args.color,
    })
}

/// The capture whose servers are compared with each other.
fn only(args: &WireDiffArgs) -> Result<DiffCapture, Problem> {
    match (&args.before, &args.live.interface, args.windows.as_slice()) {
        (Some(_), Some(_), _) => Err(usage("with --by or --group, give a file or -i, not both")),
        (Some(file), None, _) => Ok(DiffCapture::File(file.clone())),
        (None, Some(_), []) => Ok(DiffCapture::Live { length: None }),
        (None, Some(_), [length]) => Ok(DiffCapture::Live { length: Some(*length) }),
        (None, Some(_), _) => Err(too_often()),
        (None, None, _) => Err(usage("no capture to compare")),
    }
}

/// The two captures to compare.
fn both(args: &WireDiffArgs) -> Result<(DiffCapture, DiffCapture), Problem> {
    let live = |length| DiffCapture::Live { length };
    let file = DiffCapture::File;
    let before = args.before.clone();
    match (before, &args.after, &args.live.interface, args.windows.as_slice()) {
        (Some(before), Some(after), ..) => Ok((file(before), file(after.clone()))),
        (Some(before), None, Some(_), []) => Ok((file(before), live(None))),
        (Some(before), None, Some(_), [length]) => Ok((file(before), live(Some(*length)))),
        (Some(_), None, Some(_), _) => Err(too_often()),
        (None, _, Some(_), [first, second]) => Ok((live(Some(*first)), live(Some(*second)))),
        (None, _, Some(_), _) => {
            Err(usage("two live captures need two durations: give --for twice")
                .hint("or give an earlier capture: firstbyte wire diff BEFORE -i IFACE"))
        }
        (_, _, None, _) => Err(usage("no capture to compare")),
    }
}

fn too_often() -> Problem {
    usage("--for given too often")
}

/// The two groups of `--group`, or `None` without it.
fn groups(given: &[String]) -> Result<Option<[ServerGroup; 2]>, Problem> {
    match given {
        [] => Ok(None),
        [base, other] => Ok(Some([group(base)?, group(other)?])),
        _ => Err(usage(
            "--group must be given twice: first the reference, then the group to compare with it",
        )),
    }
}

fn group(text: &str) -> Result<ServerGroup, Problem> {
    text.split_once('=')
        .map(|(name, servers)| ServerGroup {
            name: name.to_owned(),
            servers: servers.split(',').map(str::to_owned).collect(),
        })
        .filter(|group| {
            !group.name.is_empty() && group.servers.iter().all(|server| !server.is_empty())
        })
        .ok_or_else(|| {
            usage(format!("--group {text}: expected NAME=SERVER,…"))
                .hint("for example: --group 'a=node1*,10.0.0.2'")
        })
}
