//! Cross-examination: compares a client's reported times with a capture of the same connections.
//!
//! Input: the captured connections as their client saw them, then each client's reported connections, one at a time,
//! each with its way of connecting. Output: for each way and mark, how much later or earlier than the wire the client
//! reports it. Definitions: `docs/measurement.md`, "Cross-examination".

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::stats::quantile;
use crate::timeline::{Connection, Direction, Mark};

/// Marks that a capture shows.
pub const MARKS: [Mark; 7] = [
    Mark::ConnectStart,
    Mark::TcpConnected,
    Mark::HandshakeComplete,
    Mark::RequestStart,
    Mark::RequestEnd,
    Mark::ResponseStart,
    Mark::ResponseEnd,
];

/// Marks that a capture shows over QUIC: encryption hides which packets carry the request or the response.
const SHOWN_OF_QUIC: [Mark; 2] = [Mark::ConnectStart, Mark::HandshakeComplete];

/// Data that arrives this long after a response began may belong to the connection's end.
const LONG: Duration = Duration::from_secs(1);

/// Whether a mark belongs to sent or to received data.
pub const fn direction(mark: Mark) -> Direction {
    match mark {
        Mark::ConnectStart | Mark::RequestStart | Mark::RequestEnd => Direction::Sent,
        _ => Direction::Received,
    }
}

/// Connections match if their endpoints and carrier match. A client does not always know its own address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Ends {
    client_port: u16,
    server: SocketAddr,
    quic: bool,
}

impl Ends {
    fn from_connection(connection: &Connection) -> Option<Self> {
        let facts = &connection.facts;
        let client_port = facts.local.map(|local| local.port()).filter(|port| *port != 0)?;
        Some(Self { client_port, server: facts.remote?, quic: facts.quic.is_some() })
    }
}

/// A port is not reused for the same server within this time, and two clocks of one machine differ by less.
const SAME_NS: i64 = 20_000_000_000;

#[derive(Clone, Debug)]
struct Captured {
    /// When its first packet left, nanoseconds since the Unix epoch.
    unix_ns: i64,
    /// Time of each of [`MARKS`], nanoseconds since the Unix epoch.
    marks: [Option<i64>; MARKS.len()],
    taken: bool,
}

/// Why a client's connection is not compared with the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unheld {
    /// The connection failed.
    Failed,
    /// The connection was already open: its exchange is not the first one, and only that is kept from a capture.
    Kept,
    /// The client does not report the connection's endpoints.
    Unknown,
    /// The capture does not contain the connection.
    NotCaptured,
}

impl Unheld {
    /// Description for people.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Kept => "on a reused connection",
            Self::Unknown => "the client does not report its port",
            Self::NotCaptured => "not in the capture",
        }
    }
}

/// Comparison of one mark for one way of connecting.
#[derive(Clone, Debug, PartialEq)]
pub struct Testimony {
    /// The mark.
    pub mark: Mark,
    /// Connections for which both client and wire have the mark.
    pub count: usize,
    /// Connections for which the wire has the mark but the client does not report it.
    pub unsaid: usize,
    /// Median of the client's time minus the wire's, seconds.
    pub median: Option<f64>,
    /// 99th percentile of the absolute difference, seconds.
    pub p99: Option<f64>,
    /// Interpretation of the difference.
    pub meaning: Meaning,
}

/// Interpretation of a client's errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The client does not report the mark.
    Unsaid,
    /// The capture does not show the mark.
    Unseen,
    /// The client agrees with the wire.
    Agrees,
    /// The median agrees with the wire, but the client is late now and then.
    AgreesMostly,
    /// The client read the bytes some time after they arrived.
    ReadLate,
    /// The client reports the mark before the bytes arrived: it uses the name for another event.
    BeforeArrival,
    /// The client reports the bytes as sent before they left.
    BeforeDeparture,
    /// The client reports the bytes as sent after they had left.
    AfterDeparture,
}

impl Meaning {
    /// Description for people.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Unsaid => "not reported by the client",
            Self::Unseen => "not visible in the capture",
            Self::Agrees => "as on the wire",
            Self::AgreesMostly => "as on the wire, sometimes late",
            Self::ReadLate => "had already arrived; the client read it later",
            Self::BeforeArrival => "had not arrived; the client means another event",
            Self::BeforeDeparture => "had not left yet",
            Self::AfterDeparture => "had left before",
        }
    }

    fn judge(mark: Mark, median: f64, p99: f64) -> Self {
        /// Largest usual difference between a packet's timestamp and a process's reading of the clock, seconds.
        const AGREES: f64 = 100e-6;
        const SELDOM: f64 = 1e-3;
        if median.abs() <= AGREES {
            return if p99 <= SELDOM { Self::Agrees } else { Self::AgreesMostly };
        }
        match (direction(mark), median > 0.0) {
            (Direction::Received, true) => Self::ReadLate,
            (Direction::Received, false) => Self::BeforeArrival,
            (Direction::Sent, true) => Self::AfterDeparture,
            (Direction::Sent, false) => Self::BeforeDeparture,
        }
    }
}

/// Result for one way of connecting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WayExamined {
    /// Connections compared with the capture.
    pub held: usize,
    /// Connections not compared, by reason.
    pub unheld: Vec<(Unheld, usize)>,
    /// The client does not report wall-clock times, so its times were aligned with the start of the captured
    /// connection.
    pub from_its_begin: bool,
    /// Comparison of each mark, in order.
    pub testimonies: Vec<Testimony>,
}

#[derive(Clone, Debug, Default)]
struct WayHeard {
    held: usize,
    unheld: HashMap<Unheld, usize>,
    from_its_begin: bool,
    errors: [Vec<f64>; MARKS.len()],
    unsaid: [usize; MARKS.len()],
}

/// Compares clients' reports with a capture.
#[derive(Debug, Default)]
pub struct CrossExamination {
    captured: HashMap<Ends, Vec<Captured>>,
    ways: Vec<WayHeard>,
}

impl CrossExamination {
    /// Adds a connection from the capture.
    pub fn captured(&mut self, connection: &Connection) {
        let ends = Ends::from_connection(connection);
        let (Some(ends), Some(unix_ns)) = (ends, unix_ns(connection)) else { return };
        let at = |mark| connection.marks.at(mark);
        let lasted = at(Mark::ResponseStart).zip(at(Mark::ResponseEnd));
        let lasted = lasted.map_or(Duration::ZERO, |(start, end)| end.since(start));
        let early = connection.facts.tls.as_ref().is_some_and(|tls| tls.early_data.is_some());
        let shown = |mark| match mark {
            // Session tickets follow an answer to early data, and the connection's end comes long after any answer.
            // Both are encrypted, so they look like the response.
            Mark::ResponseEnd if early || lasted > LONG => false,
            mark => !ends.quic || SHOWN_OF_QUIC.contains(&mark),
        };
        let marks = MARKS.map(|mark| Some(unix_ns + at(mark).filter(|_| shown(mark))?.as_nanos()));
        self.captured.entry(ends).or_default().push(Captured { unix_ns, marks, taken: false });
    }

    /// Number of captured connections.
    pub fn captured_count(&self) -> usize {
        self.captured.values().map(Vec::len).sum()
    }

    /// Adds a client's report of a connection, made in the way with this number.
    pub fn hear(&mut self, way: usize, said: &Connection) {
        if self.ways.len() <= way {
            self.ways.resize_with(way + 1, WayHeard::default);
        }
        match hold(&mut self.captured, said) {
            Ok((wire, from_its_begin)) => self.ways[way].hold(said, &wire, from_its_begin),
            Err(why) => *self.ways[way].unheld.entry(why).or_default() += 1,
        }
    }

    /// Result for the ways with these numbers, combined.
    pub fn examined(&self, ways: &[usize]) -> WayExamined {
        let mut together = WayHeard::default();
        ways.iter().filter_map(|way| self.ways.get(*way)).for_each(|way| together.add(way));
        together.examined()
    }
}

fn unix_ns(connection: &Connection) -> Option<i64> {
    i64::try_from(connection.started_unix_ns?).ok()
}

/// Finds the captured times of the connection that `said` describes, on its own time axis; and whether they were
/// aligned by the connection's start.
fn hold(
    captured: &mut HashMap<Ends, Vec<Captured>>,
    said: &Connection,
) -> Result<([Option<i64>; MARKS.len()], bool), Unheld> {
    if said.failure.is_some() {
        return Err(Unheld::Failed);
    }
    if said.facts.reused {
        return Err(Unheld::Kept);
    }
    let ends = Ends::from_connection(said).ok_or(Unheld::Unknown)?;
    let candidates = captured.get_mut(&ends).ok_or(Unheld::NotCaptured)?;
    let begun = unix_ns(said);
    let far = |captured: &Captured| begun.map_or(0, |ns| (captured.unix_ns - ns).abs());
    let free = candidates.iter_mut().filter(|captured| !captured.taken);
    let nearest = free.min_by_key(|captured| far(captured));
    let nearest = nearest.filter(|captured| far(captured) < SAME_NS);
    let wire = nearest.ok_or(Unheld::NotCaptured)?;
    // A client that reports no wall-clock time is assumed to connect as soon as it knew the address.
    let marks = [Mark::ConnectStart, Mark::DomainLookupEnd];
    let connected = marks.into_iter().find_map(|mark| said.marks.at(mark)).map(|at| at.as_nanos());
    let origin = match (begun, connected) {
        (Some(origin), _) => origin,
        (None, Some(at)) => wire.unix_ns - at,
        (None, None) => return Err(Unheld::Unknown),
    };
    wire.taken = true;
    Ok((wire.marks.map(|at| Some(at? - origin)), begun.is_none()))
}

impl WayHeard {
    fn hold(&mut self, said: &Connection, wire: &[Option<i64>], from_its_begin: bool) {
        self.held += 1;
        self.from_its_begin |= from_its_begin;
        for (index, mark) in MARKS.into_iter().enumerate() {
            let Some(wire) = wire[index] else { continue };
            match said.marks.at(mark) {
                Some(at) => self.errors[index].push((at.as_nanos() - wire) as f64 / 1e9),
                None => self.unsaid[index] += 1,
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.held += other.held;
        self.from_its_begin |= other.from_its_begin;
        for (why, count) in &other.unheld {
            *self.unheld.entry(*why).or_default() += count;
        }
        for index in 0..MARKS.len() {
            self.errors[index].extend_from_slice(&other.errors[index]);
            self.unsaid[index] += other.unsaid[index];
        }
    }

    fn examined(&self) -> WayExamined {
        let mut unheld: Vec<(Unheld, usize)> =
            self.unheld.iter().map(|(why, count)| (*why, *count)).collect();
        unheld.sort_unstable();
        let testimonies = MARKS.into_iter().enumerate().map(|(index, mark)| {
            let unsaid = self.unsaid[index];
            let mut errors = self.errors[index].clone();
            errors.sort_by(f64::total_cmp);
            let median = quantile(&errors, 0.5);
            let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
            sizes.sort_by(f64::total_cmp);
            let p99 = quantile(&sizes, 0.99);
            let meaning = match median.zip(p99) {
                Some((median, p99)) => Meaning::judge(mark, median, p99),
                None if unsaid > 0 => Meaning::Unsaid,
                None => Meaning::Unseen,
            };
            Testimony { mark, count: errors.len(), unsaid, median, p99, meaning }
        });
        WayExamined {
            held: self.held,
            unheld,
            from_its_begin: self.from_its_begin,
            testimonies: testimonies.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::{Cause, Failure, Offset, PhaseName, Stamp};

    const START: u64 = 1_800_000_000_000_000_000;

    fn connection(port: u16, started: Option<u64>, marks: &[(Mark, i64)]) -> Connection {
        let mut connection = Connection { started_unix_ns: started, ..Connection::default() };
        connection.facts.local = Some(([10, 0, 0, 1], port).into());
        connection.facts.remote = Some(([10, 0, 0, 2], 443).into());
        for (mark, us) in marks {
            connection.marks.set(*mark, Stamp::user(Offset::from_nanos(us * 1_000)));
        }
        connection
    }

    const WIRE: [(Mark, i64); 4] = [
        (Mark::ConnectStart, 0),
        (Mark::TcpConnected, 20_000),
        (Mark::RequestStart, 41_000),
        (Mark::ResponseStart, 80_000),
    ];

    fn testimony(examination: &CrossExamination, mark: Mark) -> Testimony {
        let way = examination.examined(&[0]);
        way.testimonies.iter().find(|testimony| testimony.mark == mark).unwrap().clone()
    }

    #[test]
    fn a_clients_times_are_held_against_those_of_its_own_connection() {
        let mut examination = CrossExamination::default();
        examination.captured(&connection(4_000, Some(START), &WIRE));
        // The same ports, much later.
        examination.captured(&connection(4_000, Some(START + 60_000_000_000), &WIRE));
        // The client reports the start 5 ms before its SYN left, and read the response 3 ms late.
        let said = [
            (Mark::ConnectStart, 5_010),
            (Mark::TcpConnected, 25_020),
            (Mark::ResponseStart, 88_000),
        ];
        examination.hear(0, &connection(4_000, Some(START - 5_000_000), &said));
        assert_eq!(examination.examined(&[0]).held, 1);
        let first = testimony(&examination, Mark::ConnectStart);
        assert_eq!((first.count, first.meaning), (1, Meaning::Agrees));
        assert!((first.median.unwrap() - 10e-6).abs() < 1e-9);
        let late = testimony(&examination, Mark::ResponseStart);
        assert_eq!(late.meaning, Meaning::ReadLate);
        assert!((late.median.unwrap() - 3e-3).abs() < 1e-9);
        let unsaid = testimony(&examination, Mark::RequestStart);
        assert_eq!((unsaid.count, unsaid.unsaid, unsaid.meaning), (0, 1, Meaning::Unsaid));
        assert_eq!(testimony(&examination, Mark::ResponseEnd).meaning, Meaning::Unseen);
    }

    #[test]
    fn without_a_time_of_day_times_count_from_the_connections_begin() {
        let mut examination = CrossExamination::default();
        examination.captured(&connection(4_000, Some(START), &WIRE));
        let said = [(Mark::ConnectStart, 700), (Mark::TcpConnected, 20_650)];
        examination.hear(0, &connection(4_000, None, &said));
        assert!(examination.examined(&[0]).from_its_begin);
        let open = testimony(&examination, Mark::TcpConnected);
        assert!((open.median.unwrap() + 50e-6).abs() < 1e-9, "{open:?}");
    }

    #[test]
    fn what_cannot_be_held_is_counted_by_its_reason() {
        let mut examination = CrossExamination::default();
        examination.captured(&connection(4_000, Some(START), &WIRE));
        let mut failed = connection(4_000, Some(START), &WIRE);
        let (phase, cause) = (PhaseName::Wait, Cause::Interrupted);
        failed.failure = Some(Failure { phase, cause, at: None });
        let mut kept = connection(4_000, Some(START), &WIRE);
        kept.facts.reused = true;
        let mut portless = connection(0, Some(START), &WIRE);
        portless.facts.quic = None;
        let twice = connection(4_000, Some(START), &WIRE);
        let elsewhere = connection(4_001, Some(START), &WIRE);
        for said in [&failed, &kept, &portless, &twice, &twice, &elsewhere] {
            examination.hear(2, said);
        }
        let way = examination.examined(&[2]);
        assert_eq!(way.held, 1);
        let why = [
            (Unheld::Failed, 1),
            (Unheld::Kept, 1),
            (Unheld::Unknown, 1),
            (Unheld::NotCaptured, 2),
        ];
        assert_eq!(way.unheld, why);
        assert_eq!(examination.examined(&[0, 2]), way);
        assert_eq!(examination.examined(&[0, 1, 7]).held, 0);
    }
}
