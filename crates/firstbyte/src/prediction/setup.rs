//! Inputs of predictions: certificate chains of a given size, and what a run measured.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::run::Standing;
use firstbyte_core::split::Split;
use firstbyte_core::split::server_model::ServerFit;
use firstbyte_core::timeline::{Connection, Parallel, PhaseName, Requests, Sample};
use firstbyte_lab::ca::{Ca, LeafOptions};
use firstbyte_predict::certified;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::hosts::{Handshakes, handshakes};
use super::middle;
use crate::runs::Run;

/// Creates a leaf and an intermediate certificate of `bytes` in total, with a key, for a test name.
///
/// # Errors
/// Why the chain cannot be created.
pub fn chain(bytes: usize) -> Result<Arc<CertifiedKey>, String> {
    let options = LeafOptions { chain_bytes: Some(bytes), ..LeafOptions::default() };
    let ca = Ca::new().map_err(|e| e.to_string())?;
    let names = ["server.test".to_owned()];
    let certificate = ca.issue_with(&names, &options).map_err(|e| e.to_string())?;
    let chain = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes());
    let chain: Vec<_> = chain.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes());
    certified(chain, key.map_err(|e| e.to_string())?).map_err(|e| e.to_string())
}

/// What a run shows about path, server and exchange. Unknown values are absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// URL of the way that the values come from.
    pub url: String,
    /// Median of the connections' smallest round-trip times.
    pub rtt: Option<Duration>,
    /// Median time of the exchanges beyond one round trip.
    pub exchange_excess: Option<Duration>,
    /// Median time of the name lookup.
    pub resolver_time: Option<Duration>,
    /// Bytes of the certificates, if the server sent them.
    pub chain_bytes: Option<u64>,
    /// Bytes of the response's body.
    pub response_bytes: Option<u64>,
    /// Bytes of the request's body.
    pub upload_bytes: Option<u64>,
    /// Handshake times of server and client, for all ways to the same address.
    pub handshakes: Vec<Handshakes>,
    /// Packets in the server's initial window, if its connections show that the window fills.
    pub initial_window: Option<u32>,
    /// For several requests: their number and the ways in which they were made.
    pub requests: Option<(u32, Vec<Parallel>)>,
    /// Median time of the client from the end of a response to the next request on the same connection, if there was
    /// only one connection.
    pub next_time: Option<Duration>,
}

impl Measured {
    /// Reads what the first way of `run` shows, and the rest from the other ways.
    ///
    /// For example, the first way shows no certificate chain if it resumed sessions.
    ///
    /// # Errors
    /// If a sample cannot be read, or none has proven what it was measured for.
    pub fn from_run(run: &Run) -> Result<Self, String> {
        let mut connections: Vec<(u16, Connection)> = Vec::new();
        let mut alone: Vec<bool> = Vec::new();
        let (mut requests, mut next_times) = (None, Vec::new());
        // In the order of the run's cells, not of its rounds.
        let in_order = |(count, mut ways): (u32, Vec<(u16, Parallel)>)| {
            ways.sort_by_key(|(cell, _)| *cell);
            (count, ways.into_iter().map(|(_, way)| way).collect())
        };
        for (index, row) in run.rows.iter().enumerate() {
            if !row.warmup && row.standing == Standing::Proven {
                let taken = run.taken(index).map_err(|e| e.to_string())?;
                let sample = taken.sample;
                alone.push(is_alone(&sample));
                if let Some(several) = &sample.requests {
                    note_way(several, row.cell, &mut requests);
                    next_times.extend(next_times_of(several));
                }
                connections.push((row.cell, sample.connection));
            }
        }
        let Some(first_cell) = connections.iter().map(|(cell, _)| *cell).min() else {
            return Err("no sample of the run was verified on the wire".into());
        };
        let of_first =
            || connections.iter().filter(|(cell, _)| *cell == first_cell).map(|(_, c)| c);
        if of_first().any(|c| c.facts.proxy.is_some()) {
            return Err("the run went through a proxy, which predictions do not model".into());
        }
        let remote = of_first().find_map(|c| c.facts.remote).map(|remote| remote.ip());
        // With several connections or responses at once, hosts also work for the others.
        let of_same_path = || {
            let alone = connections.iter().zip(&alone).filter(|(_, alone)| **alone);
            let all = alone.map(|((_, connection), _)| connection);
            all.filter(move |c| c.facts.remote.map(|other| other.ip()) == remote)
        };
        let anywhere = |get: &dyn Fn(&Connection) -> Option<u64>| {
            of_first().find_map(get).or_else(|| connections.iter().find_map(|(_, c)| get(c)))
        };
        let splits: Vec<Split> = of_first().map(Split::attribute).collect();
        let excess = |split: &Split| {
            let wait = split.phase(PhaseName::Wait).filter(|wait| wait.phase.complete)?;
            let duration = wait.phase.duration();
            Some(duration.saturating_sub(split.rtt? * wait.round_trips))
        };
        let resolve = |split: &Split| Some(split.phase(PhaseName::Resolve)?.phase.duration());
        Ok(Self {
            url: of_first().next().map(|c| c.url.clone()).unwrap_or_default(),
            rtt: middle(splits.iter().filter_map(|split| split.rtt)),
            exchange_excess: middle(splits.iter().filter_map(excess)),
            resolver_time: middle(splits.iter().filter_map(resolve)),
            chain_bytes: anywhere(&|c| c.facts.tls.as_ref()?.certificate_chain_bytes()),
            response_bytes: anywhere(&|c| c.facts.http.as_ref()?.body_bytes),
            upload_bytes: anywhere(&|c| c.facts.http.as_ref()?.upload_bytes),
            handshakes: handshakes(of_same_path()),
            initial_window: initial_window(of_same_path()),
            requests: requests.map(in_order),
            next_time: middle(next_times.into_iter()),
        })
    }
}

/// The most likely initial window, if every model that fits has a window that fills.
fn initial_window<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Option<u32> {
    let fit = ServerFit::from_connections(connections, None);
    fit.initial_windows().and_then(|_| fit.best()?.initial_window)
}

/// Whether the sample used a single connection and one response at a time.
fn is_alone(sample: &Sample) -> bool {
    sample.requests.as_ref().is_none_or(|several| several.parallel == Parallel::Connections(1))
}

fn note_way(several: &Requests, cell: u16, noted: &mut Option<(u32, Vec<(u16, Parallel)>)>) {
    let (_, ways) = noted.get_or_insert_with(|| (several.asked, Vec::new()));
    match ways.iter_mut().find(|(_, way)| *way == several.parallel) {
        Some((first, _)) => *first = cell.min(*first),
        None => ways.push((cell, several.parallel)),
    }
}

/// Times from the end of each response to the next request, if there was a single connection.
fn next_times_of(several: &Requests) -> Vec<Duration> {
    if several.parallel != Parallel::Connections(1) {
        return Vec::new();
    }
    let pairs = several.exchanges.windows(2);
    let between = |pair: &[firstbyte_core::timeline::Exchange]| {
        let [before, after] = pair else { return None };
        Some(after.request_start?.at.since(before.response_end?.at))
    };
    pairs.filter_map(between).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_clock::timer_now;
    use firstbyte_predict::{Reuse, Setup, Way, predict};

    const RTT: Duration = Duration::from_millis(60);

    /// Connections in every way to a server with this initial window and a think time.
    fn made(window: u32, response_bytes: u64) -> Vec<Connection> {
        let mut setup = Setup::new(RTT, chain(6_000).unwrap());
        setup.exchange.response_bytes = response_bytes;
        setup.server.initial_window = window;
        setup.server.think_time = Duration::from_millis(35);
        setup.server.hello_time.full = Duration::from_millis(12);
        let base = timer_now().into_std();
        let new = Way::all().into_iter().filter(|way| way.reuse == Reuse::New);
        new.map(|way| predict(&setup, &way, base).unwrap()).collect()
    }

    #[test]
    fn the_window_is_found_that_connections_were_made_with() {
        for window in [1, 2, 3, 4, 6, 7, 10, 14, 20] {
            assert_eq!(initial_window(&made(window, 70_000)), Some(window));
        }
    }

    #[test]
    fn a_window_that_is_never_filled_is_not_known() {
        for (window, response) in [(10, 1_000), (20, 1_000), (30, 20_000)] {
            assert_eq!(initial_window(&made(window, response)), None, "{window}, {response}");
        }
    }
}
