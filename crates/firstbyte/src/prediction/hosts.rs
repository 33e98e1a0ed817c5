//! How long hosts take for a handshake, derived from measurements.
//!
//! Input: measured connections. Output: a [`Setup`] whose handshakes take as long as theirs.

use std::collections::HashMap;
use std::time::Duration;

use firstbyte_core::split::{Parts, Split};
use firstbyte_core::timeline::{Connection, PhaseName};
use firstbyte_predict::{HandshakeTime, Http, Path, Reuse, Session, Setup, Way, predict};

use super::middle;
use firstbyte_clock::timer_now;

/// Median times that server and client took in the handshakes of one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// The way.
    pub way: Way,
    /// The server's part.
    pub server: Duration,
    /// The client's part.
    pub client: Duration,
    /// The whole handshake, including the network's part.
    pub whole: Duration,
}

/// Groups `connections` over one path by way. Connections without their own handshake are skipped.
///
/// Connections with early data are skipped too, because their handshake continues after the request.
pub fn handshakes<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Vec<Handshakes> {
    let mut by_way: HashMap<Way, Vec<Parts>> = HashMap::new();
    for connection in connections {
        let Some(way) = Way::from_connection(connection) else { continue };
        if way.reuse == Reuse::New
            && way.session != Session::ZeroRtt
            && let Some(parts) = handshake(connection)
        {
            by_way.entry(way).or_default().push(parts);
        }
    }
    let mut found: Vec<Handshakes> = by_way
        .into_iter()
        .filter_map(|(way, parts)| {
            let of = |part: fn(&Parts) -> Duration| middle(parts.iter().map(part));
            let (server, client) = (of(|parts| parts.server)?, of(|parts| parts.client)?);
            Some(Handshakes { way, server, client, whole: of(Parts::sum)? })
        })
        .collect();
    found.sort_by_key(|handshakes| handshakes.way.label());
    found
}

fn handshake(connection: &Connection) -> Option<Parts> {
    let split = Split::attribute(connection);
    let phase = [PhaseName::Tls, PhaseName::Quic].into_iter().find_map(|name| split.phase(name))?;
    phase.phase.complete.then_some(phase.parts)
}

/// Adjusts the times of `setup`'s hosts to the measured handshakes.
///
/// Each time changes by the difference between the measured handshakes and those predicted for their round-trip time:
/// the median over ways, separately for full and for resumed handshakes. Times that no way showed stay as they are.
///
/// Over TCP, the kernel's round-trip time includes nothing of the hosts, so the parts are theirs. A QUIC stack's
/// round-trip time includes the time that both hosts take to read a datagram. The remaining difference between whole
/// handshakes is then attributed to the client before its first packet.
pub fn calibrate(setup: &mut Setup, measured: &[Handshakes], rtt: Duration) {
    let (quic, tcp): (Vec<Handshakes>, Vec<Handshakes>) =
        measured.iter().partition(|handshakes| handshakes.way.http == Http::V3);
    let hosts = if tcp.is_empty() { &quic } else { &tcp };
    for session in [Session::Full, Session::Resumed] {
        let of_session = |pairs: Vec<(Handshakes, Parts)>| -> Vec<(Handshakes, Parts)> {
            pairs.into_iter().filter(|(seen, _)| seen.way.session == session).collect()
        };
        let pairs = of_session(predicted(setup, rtt, hosts));
        if let Some(more) = beyond(&pairs, |seen, expected| (seen.server, expected.server)) {
            shift(time_of_session(&mut setup.server.hello_time, session), more);
        }
        if let Some(more) = beyond(&pairs, |seen, expected| (seen.client, expected.client)) {
            shift(time_of_session(&mut setup.client.finish_time, session), more);
        }
    }
    let pairs = predicted(setup, rtt, &quic);
    if let Some(more) = beyond(&pairs, |seen, expected| (seen.whole, expected.sum())) {
        shift(&mut setup.client.key_share_time, more);
    }
}

/// Predicted times of the same handshakes over a path without losses or rate limits.
fn predicted(setup: &Setup, rtt: Duration, measured: &[Handshakes]) -> Vec<(Handshakes, Parts)> {
    let quiet = Setup { path: Path::with_rtt(rtt), ..setup.clone() };
    let base = timer_now().into_std();
    let parts = |way: &Way| handshake(&predict(&quiet, way, base).ok()?);
    measured.iter().filter_map(|seen| Some((*seen, parts(&seen.way)?))).collect()
}

/// Median of the measured minus the expected times, in seconds; negative if the hosts were faster.
fn beyond(
    pairs: &[(Handshakes, Parts)],
    of: impl Fn(&Handshakes, &Parts) -> (Duration, Duration),
) -> Option<f64> {
    let difference = |(seen, expected): &(Handshakes, Parts)| {
        let (seen, expected) = of(seen, expected);
        seen.as_secs_f64() - expected.as_secs_f64()
    };
    let mut values: Vec<f64> = pairs.iter().map(difference).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn time_of_session(time: &mut HandshakeTime, session: Session) -> &mut Duration {
    if session == Session::Full { &mut time.full } else { &mut time.resumed }
}

fn shift(time: &mut Duration, more: f64) {
    *time = Duration::from_secs_f64((time.as_secs_f64() + more).max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::setup::chain;

    const MICRO: Duration = Duration::from_micros(1);

    /// Connections over another path, to hosts with other times, from which the times are derived.
    #[test]
    fn the_times_of_measured_hosts_are_found() {
        let setup = |rtt| Setup::new(rtt, chain(2_000).unwrap());
        let rtt = Duration::from_millis(70);
        let mut real = setup(rtt);
        real.server.hello_time = HandshakeTime { full: MICRO * 2_500, resumed: MICRO * 100 };
        real.client.key_share_time = MICRO * 800;
        real.client.finish_time = HandshakeTime { full: MICRO * 200, resumed: MICRO * 900 };
        let base = timer_now().into_std();
        let ways: Vec<Way> = Way::all().into_iter().filter(|way| way.reuse == Reuse::New).collect();
        let connections: Vec<Connection> =
            ways.iter().map(|way| predict(&real, way, base).unwrap()).collect();
        for (way, connection) in ways.iter().zip(&connections) {
            assert_eq!(Way::from_connection(connection).as_ref(), Some(way));
        }
        let mut setup = setup(Duration::from_millis(20));
        calibrate(&mut setup, &handshakes(&connections), rtt);
        let close = |found: Duration, real: Duration| {
            assert!(found.abs_diff(real) <= 50 * MICRO, "{found:?} for {real:?}");
        };
        close(setup.server.hello_time.full, real.server.hello_time.full);
        close(setup.server.hello_time.resumed, real.server.hello_time.resumed);
        close(setup.client.finish_time.full, real.client.finish_time.full);
        close(setup.client.finish_time.resumed, real.client.finish_time.resumed);
        close(setup.client.key_share_time, real.client.key_share_time);
    }

    #[test]
    fn what_was_not_measured_stays() {
        let mut setup = Setup::new(Duration::from_millis(20), chain(2_000).unwrap());
        let (server, client) = (setup.server.hello_time, setup.client.finish_time);
        calibrate(&mut setup, &handshakes([]), Duration::from_millis(20));
        assert_eq!((setup.server.hello_time, setup.client.finish_time), (server, client));
    }
}
