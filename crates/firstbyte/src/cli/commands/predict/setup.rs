//! Builds a setup from a plan and the measurements of a run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_predict::Setup;

use crate::cli::exit::{self, Problem};
use crate::cli::read_run;
use crate::cli::terminal::note;
use crate::plans::PredictionPlan;
use crate::prediction::hosts::calibrate;
use crate::prediction::setup::{Measured, chain};
use crate::prediction::ways::Requests;
use firstbyte_report::units::count;

const DEFAULT_RTT: Duration = Duration::from_millis(80);
const DEFAULT_CHAIN: u64 = 3_000;

/// The setup to predict, and its requests if there are several.
pub(super) fn setup_for(plan: &PredictionPlan) -> Result<(Setup, Option<Requests>), Problem> {
    let PredictionPlan { path, server, exchange, .. } = plan;
    let measured = plan.from.as_deref().map(measured).transpose()?.unwrap_or_default();
    let requests = requests(plan, &measured);
    let rtt = path.rtt.or(measured.rtt).unwrap_or(DEFAULT_RTT);
    let chain_bytes = server.chain_bytes.or(measured.chain_bytes).unwrap_or(DEFAULT_CHAIN);
    let chain = chain(usize::try_from(chain_bytes).unwrap_or(usize::MAX))
        .map_err(|why| Problem::new(exit::USAGE, format!("--chain {chain_bytes}: {why}")))?;
    let mut setup = Setup::new(rtt, chain);
    setup.path.down.rate = path.down_bits_per_second;
    setup.path.up.rate = path.up_bits_per_second;
    setup.path.lose(path.loss);
    if let Some(mss) = path.mss_bytes {
        setup.path.mss = mss;
    }
    if let Some(window) = server.initial_window {
        setup.server.initial_window = window;
    }
    setup.server.congestion_control = server.congestion_control;
    setup.server.retry = server.retry;
    // What a client measures includes the server's wake-up time, so subtract that.
    let beyond_a_round_trip =
        measured.exchange_excess.map(|excess| excess.saturating_sub(setup.server.wake_time));
    setup.server.think_time = server.think_time.or(beyond_a_round_trip).unwrap_or_default();
    setup.client.resolver_time = exchange.resolver_time.or(measured.resolver_time);
    if let Some(time) = measured.next_time {
        setup.client.next_time = time.saturating_sub(setup.client.wake_time);
    }
    if let Some(groups) = &exchange.groups {
        setup.client.groups.clone_from(groups);
    }
    if let Some(response) = exchange.response_bytes.or(measured.response_bytes) {
        setup.exchange.response_bytes = response;
    }
    let upload = exchange.upload_bytes.or(measured.upload_bytes);
    setup.exchange.upload_bytes = upload.unwrap_or(0);
    if !measured.url.is_empty() {
        setup.exchange.url.clone_from(&measured.url);
    }
    if let Some(rtt) = measured.rtt {
        let seen = as_measured(&setup, rtt, &measured);
        setup.server.hello_time = seen.server.hello_time;
        setup.client.finish_time = seen.client.finish_time;
        setup.client.key_share_time = seen.client.key_share_time;
        if server.initial_window.is_none()
            && let Some(window) = measured.initial_window
            && window != setup.server.initial_window
        {
            note(&format!(
                "taken from the run: an initial window of {}",
                count(window.into(), "segment")
            ));
            setup.server.initial_window = window;
        }
    }
    Ok((setup, requests))
}

/// The setup that the run was measured with, whatever is asked for now, with the times that its hosts took.
fn as_measured(setup: &Setup, rtt: Duration, measured: &Measured) -> Setup {
    let mut seen = setup.clone();
    // A chain too short to be generated here is replaced by that of the prediction.
    let bytes = measured.chain_bytes.and_then(|bytes| usize::try_from(bytes).ok());
    if let Some(Ok(certified)) = bytes.map(chain) {
        seen.server.certified = certified;
    }
    let usual = Setup::new(rtt, Arc::clone(&seen.server.certified));
    seen.server.initial_window = usual.server.initial_window;
    let excess = measured.exchange_excess.unwrap_or_default();
    seen.server.think_time = excess.saturating_sub(seen.server.wake_time);
    let sizes = &mut seen.exchange;
    sizes.response_bytes = measured.response_bytes.unwrap_or(sizes.response_bytes);
    sizes.upload_bytes = measured.upload_bytes.unwrap_or(0);
    calibrate(&mut seen, &measured.handshakes, rtt);
    seen
}

/// The requested number of requests, else the run's; in the requested ways, else the run's, else all.
fn requests(plan: &PredictionPlan, measured: &Measured) -> Option<Requests> {
    let measured = measured.requests.clone().filter(|_| plan.audience.is_none());
    let (count, ways) = match (&plan.requests, measured) {
        (Some(asked), measured) => {
            let ways = measured.map(|(_, ways)| ways).filter(|_| asked.parallel.is_none());
            (asked.count, ways.or(asked.parallel.map(|parallel| vec![parallel])))
        }
        (None, Some((count, ways))) => (count, Some(ways)),
        (None, None) => return None,
    };
    let mut requests = Requests::every_way(count);
    if let Some(ways) = ways {
        requests.parallel = ways;
    }
    Some(requests)
}

fn measured(file: &Path) -> Result<Measured, Problem> {
    let run = read_run(file)?;
    let why = |why| Problem::new(exit::READ, format!("--from {}: {why}", file.display()));
    Measured::from_run(&run).map_err(why)
}
