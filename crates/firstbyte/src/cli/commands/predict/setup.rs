//! From flags, and what a run has measured, to a setup.

use std::path::Path;
use std::time::Duration;

use firstbyte_predict::{CongestionControl, KexGroup, Setup};

use crate::cli::args::PredictArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::plan::quantities::{bytes, rate, share, time};
use crate::cli::run_problem;
use crate::cli::terminal::note;
use crate::prediction::hosts::calibrate;
use crate::prediction::setup::{Measured, chain};
use crate::prediction::window::initial_window;
use crate::runs::Run;
use firstbyte_report::units::count;

const DEFAULT_RTT: Duration = Duration::from_millis(80);
const DEFAULT_CHAIN: u64 = 3_000;
const MOST_CHAIN: u64 = 60_000;
/// What has to be kept in memory, several times.
const MOST_BODY: u64 = 100_000_000;

pub(super) fn of(args: &PredictArgs) -> Result<Setup, Problem> {
    let measured = args.from.as_deref().map(measured).transpose()?.unwrap_or_default();
    let given = |flag: &str, text: &Option<String>| {
        text.as_deref().map(|text| time(flag, text)).transpose()
    };
    let size = |flag: &str, text: &Option<String>, most: u64| {
        text.as_deref().map(|text| bytes(flag, text, most)).transpose()
    };
    let rtt = given("--rtt", &args.rtt)?.or(measured.rtt).unwrap_or(DEFAULT_RTT);
    let chain_bytes = size("--chain", &args.chain, MOST_CHAIN)?;
    let chain_bytes = chain_bytes.or(measured.chain_bytes).unwrap_or(DEFAULT_CHAIN);
    let chain = chain(usize::try_from(chain_bytes).unwrap_or(usize::MAX))
        .map_err(|why| usage(format!("--chain {chain_bytes}: {why}")))?;
    let mut setup = Setup::new(rtt, chain);
    let rates = |flag: &str, text: &Option<String>| {
        text.as_deref().map(|text| rate(flag, text)).transpose()
    };
    setup.path.down.rate = rates("--rate", &args.rate)?;
    setup.path.up.rate = rates("--up-rate", &args.up_rate)?;
    setup.path.lose(args.loss.as_deref().map_or(Ok(0.0), |text| share("--loss", text))?);
    if let Some(mss) = size("--mss", &args.mss, 65_000)? {
        let smallest = 88;
        let mss = u32::try_from(mss).ok().filter(|mss| *mss >= smallest);
        setup.path.mss = mss.ok_or_else(|| usage(format!("--mss: {smallest} bytes at least")))?;
    }
    if let Some(window) = args.initial_window {
        setup.server.initial_window = window;
    }
    setup.server.congestion_control = CongestionControl::named(&args.congestion_control)
        .ok_or_else(|| {
            usage(format!("--congestion-control {:?}: not known", args.congestion_control))
                .hint("one of cubic, reno, bbr")
        })?;
    setup.server.retry = args.retry;
    // What a client sees of the server holds its waking up as well.
    let beyond_a_round_trip =
        measured.exchange_excess.map(|excess| excess.saturating_sub(setup.server.wake_time));
    setup.server.think_time =
        given("--think", &args.think)?.or(beyond_a_round_trip).unwrap_or_default();
    setup.client.resolver_time = given("--dns", &args.dns)?.or(measured.resolver_time);
    if let Some(groups) = &args.curves {
        setup.client.groups = groups.split(':').map(group).collect::<Result<_, _>>()?;
    }
    if let Some(response) =
        size("--response", &args.response, MOST_BODY)?.or(measured.response_bytes)
    {
        setup.exchange.response_bytes = response;
    }
    let upload = size("--upload", &args.upload, MOST_BODY)?.or(measured.upload_bytes);
    setup.exchange.upload_bytes = upload.unwrap_or(0);
    if !measured.url.is_empty() {
        setup.exchange.url = measured.url;
    }
    if let Some(rtt) = measured.rtt {
        calibrate(&mut setup, &measured.handshakes, rtt);
        if args.initial_window.is_none()
            && let Some(window) = initial_window(&setup, &measured.usual, rtt)
        {
            note(&format!(
                "as the run shows: an initial window of {}",
                count(window.into(), "segment")
            ));
            setup.server.initial_window = window;
        }
    }
    Ok(setup)
}

fn measured(file: &Path) -> Result<Measured, Problem> {
    let run = Run::read(file).map_err(run_problem)?;
    let why = |why| Problem::new(exit::READ, format!("--from {}: {why}", file.display()));
    Measured::of(&run).map_err(why)
}

fn group(name: &str) -> Result<KexGroup, Problem> {
    KexGroup::named(name).ok_or_else(|| {
        usage(format!("unknown group {name:?} in --curves"))
            .hint("choose from X25519, P-256, P-384, X25519MLKEM768")
    })
}

fn usage(message: String) -> Problem {
    Problem::new(exit::USAGE, message)
}
