//! The client's estimate of the server's time, held against the server's own word.

use std::time::Duration;

use super::server_log::ServerLogWitness;
use firstbyte_core::stats::Interval;
use firstbyte_core::timeline::{Connection, HttpFacts};

/// Who says how long the server took.
#[derive(Clone, Debug, PartialEq)]
pub enum Witness {
    /// The server's log, as told by the user.
    Log,
    /// The server's access log, in which the connections were found.
    ServerLog(Box<ServerLogWitness>),
    /// The response's Server-Timing field, with the metrics that were added up.
    ServerTiming(Vec<String>),
    /// Packets captured.
    Capture,
}

/// The outcome for one witness.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// Who.
    pub witness: Witness,
    /// What it says.
    pub said: Duration,
    /// What the client estimates.
    pub estimated: Duration,
    /// How far the estimate may be off, either way.
    pub tolerance: Duration,
}

impl Reconciled {
    /// Whether both agree.
    pub fn verdict(&self) -> Verdict {
        let larger = self.said.max(self.estimated);
        if self.said.abs_diff(self.estimated) > self.tolerance {
            Verdict::Differ
        } else if self.tolerance > LITTLE && self.tolerance * 2 > larger {
            Verdict::CannotTell
        } else {
            Verdict::Agree
        }
    }
}

/// What comes of holding one time against another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both are the same within the tolerance.
    Agree,
    /// They are not.
    Differ,
    /// The tolerance is more than half of both: much else would have agreed too.
    CannotTell,
}

/// Two times within this are both short.
const LITTLE: Duration = Duration::from_millis(1);

/// Half a millisecond, or 5 %: what the estimate is good for on a quiet link.
fn at_least(estimated: Duration) -> Duration {
    Duration::from_micros(500).max(estimated / 20)
}

/// Holds `said` against the estimate, which is uncertain by `uncertainty` besides its interval
/// (nanoseconds).
pub fn reconcile(
    witness: Witness,
    said: Duration,
    estimated: Duration,
    interval: Option<Interval>,
    uncertainty: Option<Duration>,
) -> Reconciled {
    let half = interval.map(|i| Duration::from_nanos(i.half_width().max(0.0) as u64));
    let tolerance =
        at_least(estimated).max(half.unwrap_or_default()).max(uncertainty.unwrap_or_default());
    Reconciled { witness, said, estimated, tolerance }
}

/// What a response's Server-Timing fields say the server took, with the names of what was counted
/// (W3C Server Timing §2). A metric called `total` counts alone; others are added up, because nothing
/// says that they overlap. Metrics without a duration say nothing.
pub fn server_timing(connection: &Connection) -> Option<(Duration, Vec<String>)> {
    let http: &HttpFacts = connection.facts.http.as_ref()?;
    let fields = http.headers.iter().filter(|h| h.name.eq_ignore_ascii_case("server-timing"));
    let mut metrics: Vec<(String, f64)> = Vec::new();
    for metric in fields.flat_map(|field| field.value.split(',')) {
        let mut parts = metric.split(';').map(str::trim);
        let Some(name) = parts.next().filter(|name| !name.is_empty()) else { continue };
        let duration = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            let value = value.trim().trim_matches('"');
            key.trim().eq_ignore_ascii_case("dur").then(|| value.parse::<f64>().ok())?
        });
        if let Some(ms) = duration.filter(|ms| ms.is_finite() && (0.0..1e9).contains(ms)) {
            metrics.push((name.to_owned(), ms));
        }
    }
    if let Some(total) = metrics.iter().position(|(name, _)| name.eq_ignore_ascii_case("total")) {
        metrics = vec![metrics.swap_remove(total)];
    }
    if metrics.is_empty() {
        return None;
    }
    let sum: f64 = metrics.iter().map(|(_, ms)| ms).sum();
    let names = metrics.into_iter().map(|(name, _)| name).collect();
    Some((Duration::from_secs_f64(sum / 1e3), names))
}
