//! A connection over QUIC: quinn-proto on both sides, datagrams over a simulated path, virtual time.
//!
//! Unlike with TCP, the data that QUIC sends depends on arrival times, so the state machines run over the path
//! itself. Streams with the right number of bytes stand for HTTP/3.

mod host;
mod record;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, ConnectionError, EndpointConfig, ServerConfig, TimeSource, TokenLog,
    TokenReuseError, TransportConfig, ValidationTokenConfig, VarInt,
};

use super::tls::Machines;
use super::{Path, PredictError, Session, Setup, Way};
use firstbyte_core::simulation::GaveUp;
use firstbyte_core::simulation::seed::{Stream, derived, random};
use firstbyte_core::simulation::tcp::{Nanos, Wire, nanos};
use firstbyte_core::timeline::Connection;
use host::{Client, Server};
pub(super) use record::Record;

/// Headers of IPv4 and UDP.
const HEADERS: u64 = 28;
/// The same windows as browsers and curl, so that no response waits for flow control.
const STREAM_WINDOW: u32 = 6 * 1024 * 1024;
const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;
/// Address validation tokens (NEW_TOKEN) per connection.
const ADDRESS_TOKENS: u32 = 2;
/// Processing times of the hosts, as observed in the lab.
///
/// The client processes and answers each datagram before it
/// reads the next; a server reads all that are available. Both sleep when idle, and the client's caches are then
/// cold. These times matter because the server's window grows depending on which acknowledgements it processes
/// together.
const CLIENT_DATAGRAM: Nanos = 4_000;
const CLIENT_WAKE: Nanos = 50_000;
const CLIENT_REST: Nanos = 30_000;
const CLIENT_COLD: u32 = 4;
const CLIENT_COLD_DATAGRAM: Nanos = 12_000;
const SERVER_WAKE: Nanos = 65_000;
/// Timers of servers as quinn drives them (through tokio) expire at whole milliseconds of the server's clock. A
/// sleep lasts whole milliseconds, counted from whenever it began.
const TIMER_TICK: Nanos = 1_000_000;
/// Number of clock offsets within a millisecond to try, because the duration of pacing depends on the offset.
const CLOCKS: u64 = 5;
/// Longer than any useful prediction.
const LIMIT: Nanos = 600_000_000_000;
/// How long to keep the first connection, which provides the session, so that its tickets can arrive.
const FAREWELL: Nanos = 2_000_000_000;

const CLIENT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 10)), 50_000);
const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443);

/// The connection made this way.
pub(super) fn connection(
    setup: &Setup,
    way: &Way,
    base: Instant,
) -> Result<Connection, PredictError> {
    Ok(played(setup, way, base)?.connection(setup, way))
}

/// The same, as the raw simulation result.
pub(super) fn played(setup: &Setup, way: &Way, base: Instant) -> Result<Played, PredictError> {
    let Path { up, down, seed, .. } = &setup.path;
    if up.loss > 0.0 || down.loss > 0.0 {
        // One of many connections, each with its own random state.
        play(setup, way, base, Chance { clock: server_clock(*seed), fate: None })
    } else {
        Ok(middling(setup, way, base)?.0)
    }
}

/// The random parts of a connection, besides its path's losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chance {
    /// Offset of the server's clock within a millisecond when the connection begins.
    pub clock: Nanos,
    /// Losses decided in advance, in addition to those of the path.
    pub fate: Option<Fate>,
}

/// Offset of the server's clock within a millisecond, for a connection with this seed.
pub(super) fn server_clock(seed: u64) -> Nanos {
    random(seed, Stream::ServerClock).u64(0..TIMER_TICK)
}

/// Which datagrams of a connection are lost: at least one of those it sends without losses, each other at random.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fate {
    seed: u64,
    loss: f64,
    /// Number of datagrams up and down in the absence of losses.
    datagrams: [usize; 2],
    /// Index of the first lost datagram, counting those up before those down.
    first: usize,
}

impl Fate {
    /// `place`, from 0 up to 1, selects which datagram is lost first.
    pub(super) fn new(seed: u64, loss: f64, datagrams: [usize; 2], place: f64) -> Self {
        let all = datagrams[0] + datagrams[1];
        // Datagram n is the first with probability (1 − p)^n p, given that at least one is lost.
        let kept = (-loss).ln_1p();
        let any = -(kept * all as f64).exp_m1();
        let first = ((-place * any).ln_1p() / kept) as usize;
        Self { seed, loss, datagrams, first: first.min(all.saturating_sub(1)) }
    }

    fn loses(&self, up: bool, index: usize) -> bool {
        let [ups, downs] = self.datagrams;
        let place = if up { index } else { ups + index };
        let anyway = index < if up { ups } else { downs };
        if anyway && place <= self.first {
            return place == self.first;
        }
        let number = index as u64 * 2 + u64::from(up);
        random(derived(self.seed, number), Stream::Fate).f64() < self.loss
    }
}

/// The result of simulating a connection.
pub(super) struct Played {
    pub record: Record,
    /// When each datagram left; below, those down.
    pub up: Vec<Nanos>,
    pub down: Vec<Nanos>,
    /// Set if losses kept it from completing.
    pub gave_up: Option<GaveUp>,
}

impl Played {
    /// The result as an ordinary connection.
    pub(super) fn connection(&self, setup: &Setup, way: &Way) -> Connection {
        self.record.finish(setup, way, self.gave_up.clone())
    }
}

/// The connection with the median time over the server's clock offsets, and its random state.
pub(super) fn middling(
    setup: &Setup,
    way: &Way,
    base: Instant,
) -> Result<(Played, Chance), PredictError> {
    let played = |n: u64| {
        let chance = Chance { clock: (2 * n + 1) * TIMER_TICK / (2 * CLOCKS), fate: None };
        Ok((play(setup, way, base, chance)?, chance))
    };
    let mut all = (0..CLOCKS).map(played).collect::<Result<Vec<_>, PredictError>>()?;
    all.sort_by_key(|(played, _)| played.record.end());
    Ok(all.swap_remove(all.len() / 2))
}

/// Simulates a connection.
pub(super) fn play(
    setup: &Setup,
    way: &Way,
    base: Instant,
    chance: Chance,
) -> Result<Played, PredictError> {
    let machines = Machines::new(setup, way)?;
    let configs = Configs::new(&machines, way, setup.path.seed)?;
    if way.session != Session::Full {
        // An earlier connection provides the session and the address validation. It has no losses, and its response
        // does not matter.
        let mut calm = setup.clone();
        calm.path.lose(0.0);
        calm.exchange.response_bytes = 0;
        let full = Way { session: Session::Full, several: None, ..*way };
        let before = Flow::new(&calm, &full, &configs, base, chance.clock)?.run(FAREWELL)?;
        if let Some(GaveUp { message, .. }) = before.gave_up {
            return Err(PredictError::Quic { detail: message });
        }
    }
    let mut flow = Flow::new(setup, way, &configs, base, chance.clock)?;
    flow.up.fate = chance.fate.map(|fate| (fate, true));
    flow.down.fate = chance.fate.map(|fate| (fate, false));
    flow.run(0)
}

struct Configs {
    endpoint: Arc<EndpointConfig>,
    client: ClientConfig,
    server: Arc<ServerConfig>,
}

impl Configs {
    fn new(machines: &Machines, way: &Way, seed: u64) -> Result<Self, PredictError> {
        let refused =
            |error: &dyn std::fmt::Display| PredictError::Quic { detail: error.to_string() };
        let early = way.session == Session::ZeroRtt;
        let client = QuicClientConfig::try_from(machines.client(early)).map_err(|e| refused(&e))?;
        let server =
            QuicServerConfig::try_from(Arc::clone(&machines.server)).map_err(|e| refused(&e))?;
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
            .receive_window(VarInt::from_u32(CONNECTION_WINDOW))
            .mtu_discovery_config(None)
            .enable_segmentation_offload(false);
        let mut client = ClientConfig::new(Arc::new(client));
        client.transport_config(Arc::new(transport));
        let mut transport = TransportConfig::default();
        transport.enable_segmentation_offload(false);
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(ADDRESS_TOKENS).log(Arc::new(TrustingLog));
        let mut server = ServerConfig::with_crypto(Arc::new(server));
        server
            .transport_config(Arc::new(transport))
            .validation_token_config(tokens)
            .time_source(Arc::new(Still));
        let mut endpoint = EndpointConfig::default();
        let mut bytes = [0; 32];
        random(seed, Stream::Identifiers).fill(&mut bytes);
        endpoint.rng_seed(Some(bytes));
        Ok(Self { endpoint: Arc::new(endpoint), client, server: Arc::new(server) })
    }
}

/// A clock that stands still at 2026-01-01, so that no token expires.
struct Still;

impl TimeSource for Still {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_767_225_600)
    }
}

/// Accepts every token: the only client is ours, and it does not reuse tokens.
struct TrustingLog;

impl TokenLog for TrustingLog {
    fn check_and_insert(&self, _: u128, _: SystemTime, _: Duration) -> Result<(), TokenReuseError> {
        Ok(())
    }
}

/// A datagram and its arrival time.
type Arriving = (Nanos, BytesMut);

/// One direction: the path and the datagrams on it.
struct Lane {
    wire: Wire,
    datagrams: VecDeque<Arriving>,
    /// When each datagram left.
    sent: Vec<Nanos>,
    /// Losses decided in advance, and whether this is the direction up.
    fate: Option<(Fate, bool)>,
}

impl Lane {
    fn new(link: &super::Link, random: fastrand::Rng) -> Self {
        let (datagrams, sent) = (VecDeque::new(), Vec::new());
        Self { wire: Wire::new(link, random), datagrams, sent, fate: None }
    }

    fn send(&mut self, now: Nanos, datagram: &[u8]) {
        let index = self.sent.len();
        let lost = self.fate.is_some_and(|(fate, up)| fate.loses(up, index));
        self.sent.push(now);
        let arrives = self.wire.carry(now, datagram.len() as u64 + HEADERS);
        if let Some(at) = arrives.filter(|_| !lost) {
            self.datagrams.push_back((at, BytesMut::from(datagram)));
        }
    }

    fn next(&self) -> Nanos {
        self.datagrams.front().map_or(Nanos::MAX, |(at, _)| *at)
    }
}

struct Flow<'a> {
    base: Instant,
    up: Lane,
    down: Lane,
    client: Client<'a>,
    server: Server<'a>,
}

impl<'a> Flow<'a> {
    fn new(
        setup: &'a Setup,
        way: &'a Way,
        configs: &Configs,
        base: Instant,
        clock: Nanos,
    ) -> Result<Self, PredictError> {
        let seed = setup.path.seed;
        Ok(Self {
            base,
            up: Lane::new(&setup.path.up, random(seed, Stream::Up)),
            down: Lane::new(&setup.path.down, random(seed, Stream::Down)),
            client: Client::new(setup, way, configs, base)?,
            server: Server::new(setup, way, configs, clock),
        })
    }

    /// Runs until the response is complete, and for `after` longer.
    fn run(mut self, after: Nanos) -> Result<Played, PredictError> {
        let mut now = 0;
        let mut until = None;
        self.client.act(self.at(0), 0, &mut self.up);
        loop {
            if let Some(done) = self.client.done_at() {
                until.get_or_insert(done + after);
            }
            // A busy host processes datagrams only when it has finished its work.
            let arrivals = [
                self.client.sees(self.down.next()),
                self.up.next().saturating_add(SERVER_WAKE).max(self.server.busy_until),
            ];
            let timers = [self.client.next(self.base), self.server.next(self.base)];
            let next = arrivals.into_iter().chain(timers).min().unwrap_or(LIMIT);
            if until.is_some_and(|until| next > until || after == 0) {
                return Ok(self.played(None));
            }
            if next >= LIMIT {
                let message = "losses kept the connection from finishing within ten minutes".into();
                return Ok(self.played(Some(GaveUp { at: LIMIT, name: "timed-out", message })));
            }
            now = next.max(now);
            if arrivals[0] == next {
                let done = self.client.look(now);
                if let Some((_, datagram)) = self.down.datagrams.pop_front() {
                    self.client.receive(self.at(now), now, datagram);
                }
                self.client.act(self.at(now), now, &mut self.up);
                self.client.busy_until = self.client.busy_until.max(done);
            } else if arrivals[1] == next {
                // A server reads all available datagrams before it sends.
                while self.up.next() <= now
                    && let Some((_, datagram)) = self.up.datagrams.pop_front()
                {
                    self.server.receive(self.at(now), now, datagram, &mut self.down);
                }
                self.server.act(self.at(now), now, &mut self.down);
            } else if timers[0] == next {
                self.client.act(self.at(now), now, &mut self.up);
            } else {
                self.server.act(self.at(now), now, &mut self.down);
            }
            match self.client.lost() {
                None => {}
                // Nothing arrived for too long, or the peer no longer knows the connection.
                Some(reason @ (ConnectionError::TimedOut | ConnectionError::Reset)) => {
                    let message = reason.to_string();
                    return Ok(self.played(Some(GaveUp { at: now, name: "quic", message })));
                }
                Some(reason) => {
                    return Err(PredictError::Quic { detail: reason.to_string() });
                }
            }
        }
    }

    fn played(self, gave_up: Option<GaveUp>) -> Played {
        let (up, down) = (self.up.sent, self.down.sent);
        Played { record: self.client.record, up, down, gave_up }
    }

    fn at(&self, now: Nanos) -> Instant {
        self.base + Duration::from_nanos(now)
    }
}

/// Time since `base`, rounded up so that a timer is never checked before it is due.
fn since(base: Instant, at: Instant) -> Nanos {
    nanos(at.saturating_duration_since(base))
}
