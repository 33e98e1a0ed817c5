//! Cross-examination: what a client says of its connections, held against a capture of the same connections.
//!
//! Input: the connections of a capture, as their client saw them; then what clients say, one connection at a time, each
//! of a way to connect. Output: by way and mark, how much later (or sooner) the client has it than the wire. Definitions:
//! `docs/measurement.md`, "Cross-examination".

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::stats::quantile;
use crate::timeline::{Connection, Direction, Mark};

/// The marks that a capture shows.
pub const MARKS: [Mark; 7] = [
    Mark::ConnectStart,
    Mark::TcpConnected,
    Mark::HandshakeComplete,
    Mark::RequestStart,
    Mark::RequestEnd,
    Mark::ResponseStart,
    Mark::ResponseEnd,
];

/// Those of them that it shows over QUIC: which packets have the request, or the response, is encrypted.
const SHOWN_OF_QUIC: [Mark; 2] = [Mark::ConnectStart, Mark::HandshakeComplete];

/// What comes so long after a response began may be the end of the connection.
const LONG: Duration = Duration::from_secs(1);

/// Whether a mark is of what the client sends, or of what arrives.
pub const fn direction(mark: Mark) -> Direction {
    match mark {
        Mark::ConnectStart | Mark::RequestStart | Mark::RequestEnd => Direction::Sent,
        _ => Direction::Received,
    }
}

/// Two connections are the same where their ends are, and the carrier. A client does not always know its own address.
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

/// A port is not used again for the same server so soon: two clocks of one machine differ by less.
const SAME_NS: i64 = 20_000_000_000;

/// A connection that was captured.
#[derive(Clone, Debug)]
struct Captured {
    /// When its first packet left, nanoseconds since the Unix epoch.
    unix_ns: i64,
    /// The same, for each of [`MARKS`].
    marks: [Option<i64>; MARKS.len()],
    taken: bool,
}

/// Why a connection that a client speaks of is not held against the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unheld {
    /// It failed.
    Failed,
    /// It was open before: its exchange is not the first, which is all that is kept of a capture.
    Kept,
    /// The client does not say from where to where it went.
    Unknown,
    /// The capture does not have it.
    NotCaptured,
}

impl Unheld {
    /// In words.
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Kept => "on a reused connection",
            Self::Unknown => "the client does not report its port",
            Self::NotCaptured => "not in the capture",
        }
    }
}

/// What is said of one mark by one way to connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Testimony {
    /// Which.
    pub mark: Mark,
    /// Of how many connections both know it.
    pub count: usize,
    /// How many of them the client does not say it of, though the wire has it.
    pub unsaid: usize,
    /// The client's time less the wire's, in the middle, seconds.
    pub median: Option<f64>,
    /// What ninety-nine of a hundred are off by at most, either way, seconds.
    pub p99: Option<f64>,
    /// What that means.
    pub meaning: Meaning,
}

/// What a client's errors mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// The client does not say it.
    Unsaid,
    /// The capture does not show it.
    Unseen,
    /// As on the wire.
    Agrees,
    /// In the middle as on the wire, and late now and then.
    AgreesMostly,
    /// The bytes had arrived; the client got to them later.
    ReadLate,
    /// The client has it before the bytes came: it calls another event so.
    BeforeArrival,
    /// The client calls it sent before the bytes left.
    BeforeDeparture,
    /// The client calls it sent after the bytes had left.
    AfterDeparture,
}

impl Meaning {
    /// In words.
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
        /// A packet's stamp and a process's clock read differ by so much.
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

/// What a way to connect says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WayExamined {
    /// Connections that were held against the capture.
    pub held: usize,
    /// The others, and why.
    pub unheld: Vec<(Unheld, usize)>,
    /// Its times were laid on the capture's by the begin of the connection: the client does not say what time it was.
    pub from_its_begin: bool,
    /// Of each mark, in order.
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

/// Holds what clients say against a capture.
#[derive(Debug, Default)]
pub struct CrossExamination {
    captured: HashMap<Ends, Vec<Captured>>,
    ways: Vec<WayHeard>,
}

impl CrossExamination {
    /// Takes a connection of the capture.
    pub fn captured(&mut self, connection: &Connection) {
        let ends = Ends::from_connection(connection);
        let (Some(ends), Some(unix_ns)) = (ends, unix_ns(connection)) else { return };
        let at = |mark| connection.marks.at(mark);
        let lasted = at(Mark::ResponseStart).zip(at(Mark::ResponseEnd));
        let lasted = lasted.map_or(Duration::ZERO, |(start, end)| end.since(start));
        let early = connection.facts.tls.as_ref().is_some_and(|tls| tls.early_data.is_some());
        let shown = |mark| match mark {
            // Behind an answer to early data come session tickets, and long behind any answer the end of the
            // connection: encrypted as it is.
            Mark::ResponseEnd if early || lasted > LONG => false,
            mark => !ends.quic || SHOWN_OF_QUIC.contains(&mark),
        };
        let marks = MARKS.map(|mark| Some(unix_ns + at(mark).filter(|_| shown(mark))?.as_nanos()));
        self.captured.entry(ends).or_default().push(Captured { unix_ns, marks, taken: false });
    }

    /// How many connections of the capture there are.
    pub fn captured_count(&self) -> usize {
        self.captured.values().map(Vec::len).sum()
    }

    /// Hears what a client says of a connection that it made by the way of that number.
    pub fn hear(&mut self, way: usize, said: &Connection) {
        if self.ways.len() <= way {
            self.ways.resize_with(way + 1, WayHeard::default);
        }
        match hold(&mut self.captured, said) {
            Ok((wire, from_its_begin)) => self.ways[way].hold(said, &wire, from_its_begin),
            Err(why) => *self.ways[way].unheld.entry(why).or_default() += 1,
        }
    }

    /// What came out of the ways of these numbers, taken together.
    pub fn examined(&self, ways: &[usize]) -> WayExamined {
        let mut together = WayHeard::default();
        ways.iter().filter_map(|way| self.ways.get(*way)).for_each(|way| together.add(way));
        together.examined()
    }
}

fn unix_ns(connection: &Connection) -> Option<i64> {
    i64::try_from(connection.started_unix_ns?).ok()
}

/// The captured times of the connection that `said` speaks of, on its own axis; and whether they were laid on it by the
/// begin.
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
    // Of who does not say the time it is believed when it connected: as soon as it knew where to.
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
        // It began 5 ms before its SYN left, and read the response 3 ms late.
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
