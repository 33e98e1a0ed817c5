//! Compares the client's estimate of the server's time with the server's own report.

use std::time::Duration;

use super::server_log::ServerLogWitness;
use firstbyte_core::stats::Interval;
use firstbyte_core::timeline::{Connection, HttpFacts};

/// The source that reports the server's time.
#[derive(Clone, Debug, PartialEq)]
pub enum Witness {
    /// A time from the server's log, given by the user.
    Log,
    /// The server's access log in which the connections were found.
    ServerLog(Box<ServerLogWitness>),
    /// The response's Server-Timing field, with the metrics that were summed.
    ServerTiming(Vec<String>),
    /// A packet capture.
    Capture,
}

/// The comparison with one witness.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// The witness.
    pub witness: Witness,
    /// The time it reports.
    pub said: Duration,
    /// The client's estimate.
    pub estimated: Duration,
    /// How far the estimate may be off, either way.
    pub tolerance: Duration,
}

impl Reconciled {
    /// Whether the two agree.
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

/// Result of comparing two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The times are equal within the tolerance.
    Agree,
    /// The times differ by more than the tolerance.
    Differ,
    /// The tolerance exceeds half of both times, so many other values would have agreed too.
    CannotTell,
}

/// Times below this count as short, and two short times agree.
const LITTLE: Duration = Duration::from_millis(1);

/// Smallest tolerance: half a millisecond, or 5 %. The estimate is this good on a quiet link.
fn at_least(estimated: Duration) -> Duration {
    Duration::from_micros(500).max(estimated / 20)
}

/// Compares `said` with the estimate, within a tolerance of at least half of `interval` (nanoseconds) and at least
/// `uncertainty`.
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

/// The server's time according to a response's Server-Timing fields, with the names of the metrics used (W3C Server
/// Timing §2).
///
/// A metric called `total` counts alone. Otherwise metrics are summed, because nothing says that they overlap.
/// Metrics without a duration are ignored.
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
