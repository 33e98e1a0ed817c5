//! How long hosts take over a handshake, by what was measured.
//!
//! Input: measured connections. Output: a [`Setup`] whose handshakes take as long as theirs.

use std::collections::HashMap;
use std::time::Duration;

use firstbyte_core::predict::{HandshakeTime, Reuse, Session, Setup, Way, predict};
use firstbyte_core::split::{Parts, Split};
use firstbyte_core::timeline::{Connection, PhaseName};

use super::middle;
use crate::clock::timer_now;

/// What server and client took of the handshakes of one way, medians.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshakes {
    /// The way.
    pub way: Way,
    /// The server's part.
    pub server: Duration,
    /// The client's part.
    pub client: Duration,
}

/// Sorts `connections` by their ways. One without a handshake of its own, or with early data, whose
/// handshake goes on behind the request, says nothing of this.
pub fn handshakes<'a>(connections: impl IntoIterator<Item = &'a Connection>) -> Vec<Handshakes> {
    let mut by_way: HashMap<Way, Vec<Parts>> = HashMap::new();
    for connection in connections {
        let Some(way) = Way::of(connection) else { continue };
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
            let server = middle(parts.iter().map(|parts| parts.server))?;
            Some(Handshakes {
                way,
                server,
                client: middle(parts.iter().map(|parts| parts.client))?,
            })
        })
        .collect();
    found.sort_by_key(|handshakes| handshakes.way.label());
    found
}

fn handshake(connection: &Connection) -> Option<Parts> {
    let split = Split::of(connection);
    let phase = [PhaseName::Tls, PhaseName::Quic].into_iter().find_map(|name| split.phase(name))?;
    phase.phase.complete.then_some(phase.parts)
}

/// Moves the times of `setup`'s hosts by what measured handshakes took more, or less, than predicted
/// ones: the median over ways, for full handshakes and for resumed ones. What no way showed stays.
pub fn calibrate(setup: &mut Setup, measured: &[Handshakes]) {
    // Losses and rates are the path's.
    let mut quiet = setup.clone();
    quiet.path.lose(0.0);
    (quiet.path.up.rate, quiet.path.down.rate) = (None, None);
    let base = timer_now().into_std();
    let predicted = |way: &Way| handshake(&predict(&quiet, way, base).ok()?);
    for session in [Session::Full, Session::Resumed] {
        let pairs: Vec<(Handshakes, Parts)> = measured
            .iter()
            .filter(|handshakes| handshakes.way.session == session)
            .filter_map(|handshakes| Some((*handshakes, predicted(&handshakes.way)?)))
            .collect();
        let server = pairs.iter().map(|(seen, expected)| beyond(seen.server, expected.server));
        if let Some(more) = median(server.collect()) {
            shift(&mut setup.server.hello_time, session, more);
        }
        let client = pairs.iter().map(|(seen, expected)| beyond(seen.client, expected.client));
        if let Some(more) = median(client.collect()) {
            shift(&mut setup.client.finish_time, session, more);
        }
    }
}

/// Seconds, below zero where it was faster.
fn beyond(seen: Duration, expected: Duration) -> f64 {
    seen.as_secs_f64() - expected.as_secs_f64()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn shift(time: &mut HandshakeTime, session: Session, more: f64) {
    let time = if session == Session::Full { &mut time.full } else { &mut time.resumed };
    *time = Duration::from_secs_f64((time.as_secs_f64() + more).max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prediction::setup::chain;

    const MICRO: Duration = Duration::from_micros(1);

    /// Connections over another path, to hosts that take other times: from these the times are found.
    #[test]
    fn the_times_of_measured_hosts_are_found() {
        let full = |rtt_ms| Setup::new(Duration::from_millis(rtt_ms), chain(2_000).unwrap());
        let mut real = full(70);
        real.server.hello_time = HandshakeTime { full: MICRO * 2_500, resumed: MICRO * 100 };
        real.client.finish_time = HandshakeTime { full: MICRO * 200, resumed: MICRO * 900 };
        let base = timer_now().into_std();
        let ways: Vec<Way> = Way::all().into_iter().filter(|way| way.reuse == Reuse::New).collect();
        let connections: Vec<Connection> =
            ways.iter().map(|way| predict(&real, way, base).unwrap()).collect();
        for (way, connection) in ways.iter().zip(&connections) {
            assert_eq!(Way::of(connection).as_ref(), Some(way));
        }
        let mut setup = full(20);
        calibrate(&mut setup, &handshakes(&connections));
        let close = |found: Duration, real: Duration| {
            assert!(found.abs_diff(real) <= 50 * MICRO, "{found:?} for {real:?}");
        };
        close(setup.server.hello_time.full, real.server.hello_time.full);
        close(setup.server.hello_time.resumed, real.server.hello_time.resumed);
        close(setup.client.finish_time.full, real.client.finish_time.full);
        close(setup.client.finish_time.resumed, real.client.finish_time.resumed);
    }

    #[test]
    fn what_was_not_measured_stays() {
        let mut setup = Setup::new(Duration::from_millis(20), chain(2_000).unwrap());
        let (server, client) = (setup.server.hello_time, setup.client.finish_time);
        calibrate(&mut setup, &handshakes([]));
        assert_eq!((setup.server.hello_time, setup.client.finish_time), (server, client));
    }
}
