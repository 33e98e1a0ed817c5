//! Whole audiences: one way to connect, simulated for many visitors who each have their own round trip and losses.
//!
//! Over TCP the dialogue is made once, and every visitor's packets are simulated: the result equals that of
//! [`predict`](super::predict) at a fraction of the cost. Over QUIC, the data sent depends on arrival times, so the
//! state machines run for a row of round trips and, if packets get lost, for a pool of connections with different
//! losses. A visitor's time is read from these.

mod table;

use std::time::{Duration, Instant};

use table::Table;

use super::{Http, Path, PredictError, Setup, Way, tls};
use firstbyte_core::simulation::dialogue::Dialogue;
use firstbyte_core::simulation::tcp::{self, Nanos, Observer};

/// The result for one visitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// From the origin to the first byte of the response.
    pub first_byte: Duration,
    /// From the origin to its last byte.
    pub total: Duration,
}

/// Simulates one way to connect.
pub struct Player {
    setup: Setup,
    /// Time before the first packet leaves.
    before: Duration,
    kind: Kind,
}

enum Kind {
    Dialogue(Box<Dialogue>),
    Table(Box<Table>),
}

/// The range of visitors to simulate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The shortest round-trip time.
    pub shortest: Duration,
    /// The longest round-trip time.
    pub longest: Duration,
    /// The smallest and the largest loss rate of visitors with losses.
    pub losses: Option<[f64; 2]>,
    /// Number of QUIC connections with losses simulated at each of a few round trips; fewer for large responses.
    pub members: usize,
}

/// Runs independent pieces of work, given by number and possibly in parallel, and returns their results in order.
pub type Workers<'a> =
    &'a dyn Fn(usize, &(dyn Fn(usize) -> Option<[f64; 2]> + Sync)) -> Vec<Option<[f64; 2]>>;

impl Player {
    /// Prepares to simulate `way` for visitors within `range`. Everything but the path's delay and loss is taken
    /// from `setup`.
    ///
    /// # Errors
    /// The same as for [`predict`](super::predict).
    pub fn new(
        setup: &Setup,
        way: &Way,
        range: &Range,
        base: Instant,
        workers: Workers<'_>,
    ) -> Result<Self, PredictError> {
        way.check()?;
        let kind = if way.http == Http::V3 {
            Kind::Table(Box::new(Table::new(setup, way, range, base, workers)?))
        } else {
            Kind::Dialogue(Box::new(tls::dialogue(setup, way)?))
        };
        let reused = way.reuse == super::Reuse::Reused;
        let name = setup.client.resolver_time.filter(|_| !reused).unwrap_or_default();
        Ok(Self { setup: setup.clone(), before: setup.client.start_time + name, kind })
    }

    /// The outcome for a visitor with round trip `rtt` and loss rate `loss` in each direction.
    ///
    /// `None` if the connection fails. The same seed gives the same losses.
    pub fn play(&self, rtt: Duration, loss: f64, seed: u64) -> Option<Outcome> {
        match &self.kind {
            Kind::Table(table) => table.play(rtt, loss, seed),
            Kind::Dialogue(dialogue) => {
                let path = path(&self.setup.path, rtt, loss, seed);
                let mut times = Times::from_dialogue(dialogue);
                tcp::play(dialogue, &self.setup.habits(), &path, &mut times).ok()?;
                Some(Outcome {
                    first_byte: self.before + Duration::from_nanos(times.first_byte - times.origin),
                    total: self.before + Duration::from_nanos(times.total - times.origin),
                })
            }
        }
    }
}

/// `path` with the visitor's round trip and losses.
fn path(path: &Path, rtt: Duration, loss: f64, seed: u64) -> Path {
    let mut path = Path { seed, ..path.clone() };
    (path.up.delay, path.down.delay) = (rtt / 2, rtt - rtt / 2);
    path.lose(loss);
    path
}

/// The times extracted from a visitor's connection.
struct Times {
    response_start: u64,
    response_end: u64,
    origin_step: Option<usize>,
    origin: Nanos,
    first_byte: Nanos,
    total: Nanos,
}

impl Times {
    fn from_dialogue(dialogue: &Dialogue) -> Self {
        Self {
            response_start: dialogue.places.response_start,
            response_end: dialogue.places.response_end,
            origin_step: dialogue.origin_step,
            origin: 0,
            first_byte: 0,
            total: 0,
        }
    }
}

impl Observer for Times {
    fn connected(&mut self, _: Nanos, _: Nanos, _: u32) {}

    fn sent(&mut self, _: Nanos, _: u64, _: u64, _: bool) {}

    fn received(&mut self, at: Nanos, start: u64, end: u64) {
        if start < self.response_start && self.response_start <= end {
            self.first_byte = at;
        }
        if start < self.response_end && self.response_end <= end {
            self.total = at;
        }
    }

    fn acknowledged(&mut self, _: Nanos, _: u64) {}

    fn wrote(&mut self, at: Nanos, step: usize) {
        if self.origin_step == Some(step) {
            self.origin = at;
        }
    }
}
