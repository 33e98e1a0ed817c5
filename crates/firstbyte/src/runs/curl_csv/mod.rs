//! Reads tables of curl's timers, one line per visit, from existing measurements.
//!
//! The columns are curl's cumulative times (`time_namelookup`, `time_connect`, `time_appconnect`,
//! `time_pretransfer`, `time_starttransfer`, `time_total`) under the names `DNS`, `Connect`, `SSL`,
//! `Wait`, `TTFB` and `Total Time`, or curl's own. They become marks, and phases follow from the marks as for every
//! other source. curl prints zero for steps that it did not perform; these are absent here.

mod table;
#[cfg(test)]
mod tests;

use firstbyte_report::warning::Warning;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_core::run::{Row, Standing, Taken};
use firstbyte_core::timeline::{
    Cause, Connection, Failure, FailureType, Fault, Mark, Offset, PhaseName, Sample, Stamp,
};

use super::RunError;
use firstbyte_probe::probe::read_all;

/// Bytes at the start of a file that are checked first.
const BEGIN: u64 = 4_096;
/// Maximum size of a table in bytes, because it is held in memory.
const MOST_TABLE: u64 = 256 << 20;

/// A column: one of curl's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Dns,
    Connect,
    Ssl,
    Wait,
    Ttfb,
    Total,
}

const TIMERS: [Timer; 6] =
    [Timer::Dns, Timer::Connect, Timer::Ssl, Timer::Wait, Timer::Ttfb, Timer::Total];

impl Timer {
    /// Names of the column; curl's name is the first.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::Dns => &["time_namelookup", "dns", "namelookup", "dns lookup"],
            Self::Connect => &["time_connect", "connect", "tcp", "tcp connect"],
            Self::Ssl => &["time_appconnect", "ssl", "tls", "appconnect"],
            Self::Wait => &["time_pretransfer", "wait", "pretransfer"],
            Self::Ttfb => &["time_starttransfer", "ttfb", "starttransfer"],
            Self::Total => &["time_total", "total time", "total"],
        }
    }

    /// Whether a table must have this column.
    const fn is_needed(self) -> bool {
        matches!(self, Self::Connect | Self::Ttfb | Self::Total)
    }
}

/// Cumulative nanoseconds by timer; absent if the table does not have it or curl did not perform the step.
type Times = [Option<u64>; TIMERS.len()];

/// A table of curl's timers.
#[derive(Debug)]
pub struct CurlTable {
    path: PathBuf,
    visits: Vec<Times>,
    /// Line number of each visit below the header, from 0, including skipped lines, because tables are compared line by
    /// line.
    lines: Vec<u32>,
    /// Skipped lines, with reasons.
    pub warnings: Vec<Warning>,
    has_tls: bool,
}

impl CurlTable {
    /// Reads the table at `path`.
    ///
    /// # Errors
    /// If it cannot be read, its columns are unknown, or it has no usable line.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        let failed = |error| RunError::io(path, "read")(error);
        let mut file = File::open(path).map_err(failed)?;
        // The beginning shows whether the file is binary; such files may have no end.
        let mut begin = Vec::new();
        file.by_ref().take(BEGIN).read_to_end(&mut begin).map_err(failed)?;
        if begin.contains(&0) {
            return Self::parse(path, &begin);
        }
        let bytes = read_all((&begin[..]).chain(file), MOST_TABLE).map_err(failed)?;
        Self::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RunError> {
        let refused =
            |line, detail: String| RunError::Table { path: path.to_owned(), line, detail };
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return Err(refused(1, "the text is UTF-16; save it as UTF-8".into()));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        if bytes.iter().take(BEGIN as usize).any(|b| *b == 0) {
            return Err(refused(1, "neither a run file nor a table of curl's timers".into()));
        }
        let text = String::from_utf8_lossy(bytes);
        let mut rows = table::rows(&text);
        let Some((line, head)) = rows.next() else {
            return Err(refused(1, "the file is empty".into()));
        };
        let head = head.map_err(|detail| refused(line, detail))?;
        let columns = Columns::from_head(&head).map_err(|detail| refused(line, detail))?;
        let mut table = Self {
            path: path.to_owned(),
            visits: Vec::new(),
            lines: Vec::new(),
            warnings: Vec::new(),
            has_tls: false,
        };
        let mut place: u32 = 0;
        for (line, fields) in rows {
            let fields = match fields {
                // A repeated header, from concatenated tables.
                Ok(fields) if fields == head => continue,
                Ok(fields) => columns.times(&fields),
                Err(detail) => Err(detail),
            };
            match fields {
                Ok(times) => {
                    table.has_tls |= times[Timer::Ssl as usize].is_some();
                    table.visits.push(times);
                    table.lines.push(place);
                }
                Err(detail) => {
                    table.warnings.push(Warning::UnreadLine {
                        file: path.to_owned(),
                        line,
                        detail,
                    });
                }
            }
            place = place.saturating_add(1);
        }
        if table.visits.is_empty() {
            let first = table.warnings.first();
            let first = first.map_or("no lines after it".into(), ToString::to_string);
            return Err(refused(line, format!("no usable visit under this header: {first}")));
        }
        Ok(table)
    }

    /// Path of the table.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of visits.
    pub fn len(&self) -> usize {
        self.visits.len()
    }

    /// Whether there are no visits.
    pub fn is_empty(&self) -> bool {
        self.visits.is_empty()
    }

    /// All visits, reduced to rows.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        (0..self.visits.len()).map(|index| self.taken(index).row())
    }

    /// The visit with number `index` as a sample.
    pub fn taken(&self, index: usize) -> Taken {
        let times = self.visits.get(index).copied().unwrap_or_default();
        let at = |timer: Timer| times[timer as usize];
        let mut connection = Connection::default();
        let mut mark = |mark, at: Option<u64>| {
            if let Some(ns) = at {
                let offset = Offset::from_nanos(i64::try_from(ns).unwrap_or(i64::MAX));
                connection.marks.set(mark, Stamp::user(offset));
            }
        };
        let failed = at(Timer::Ttfb).is_none();
        mark(Mark::DomainLookupEnd, at(Timer::Dns));
        mark(Mark::TcpConnected, at(Timer::Connect));
        mark(Mark::HandshakeComplete, at(Timer::Ssl));
        if at(Timer::Ssl).is_some() {
            mark(Mark::SecureConnectionStart, at(Timer::Connect));
        }
        mark(Mark::RequestEnd, at(Timer::Wait));
        mark(Mark::ResponseStart, at(Timer::Ttfb));
        if !failed {
            mark(Mark::ResponseEnd, at(Timer::Total));
        }
        connection.facts.reused = !failed && at(Timer::Connect).is_none();
        if failed {
            connection.failure = Some(self.failure(&times));
        }
        Taken {
            stands_for: None,
            cell: 0,
            standing: if failed { Standing::Failed } else { Standing::Proven },
            lateness: Duration::ZERO,
            sample: Sample {
                sequence: self.lines.get(index).copied().unwrap_or(u32::MAX),
                connection,
                ..Sample::default()
            },
        }
    }

    fn failure(&self, times: &Times) -> Failure {
        let at = |timer: Timer| times[timer as usize];
        let phase = if at(Timer::Wait).is_some() {
            PhaseName::Wait
        } else if at(Timer::Ssl).is_some() {
            PhaseName::Send
        } else if at(Timer::Connect).is_some() {
            if self.has_tls { PhaseName::Tls } else { PhaseName::Send }
        } else if at(Timer::Dns).is_some() {
            PhaseName::Connect
        } else {
            PhaseName::Resolve
        };
        let end = at(Timer::Total).and_then(|ns| i64::try_from(ns).ok());
        Failure {
            phase,
            cause: Cause::Recorded {
                name: "unknown".into(),
                failure_type: FailureType::Unknown,
                fault: Fault::Network,
                message: "curl got no response; the table does not say why".into(),
                advice: None,
            },
            at: end.map(Offset::from_nanos),
        }
    }
}

/// Text from a file made safe for a terminal: shortened, and without control characters.
fn shown(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut letters = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let mut shown: String = letters.by_ref().take(SHOWN).collect();
    if letters.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// Column and unit of each timer.
#[derive(Debug)]
struct Columns {
    /// Position, nanoseconds per unit, and the name in the file.
    of: [Option<(usize, f64, String)>; TIMERS.len()],
    count: usize,
}

impl Columns {
    fn from_head(head: &[String]) -> Result<Self, String> {
        // Its columns have the names of curl's timers, but contain lengths of phases.
        let has = |name: &str| head.iter().any(|field| field == name);
        if has("sequence") || has("wait_us") && has("round_trips") {
            return Err("this is firstbyte's own CSV; give the run file that it came from \
                        (firstbyte compare --run FILE)"
                .into());
        }
        let mut of: [Option<(usize, f64, String)>; TIMERS.len()] = Default::default();
        for (position, name) in head.iter().enumerate() {
            let (plain, unit_ns) = unit(name)?;
            if let Some(timer) = TIMERS.into_iter().find(|t| t.names().contains(&plain.as_str())) {
                let column = &mut of[timer as usize];
                if column.is_some() {
                    return Err(format!("the column \"{}\" is given twice", shown(name)));
                }
                *column = Some((position, unit_ns, name.clone()));
            }
        }
        let missing = TIMERS.into_iter().find(|t| t.is_needed() && of[*t as usize].is_none());
        if missing.is_none() {
            return Ok(Self { of, count: head.len() });
        }
        if head.iter().all(|field| table::number(field).is_some()) {
            return Err(
                "the first line must name the columns: DNS,Connect,SSL,Wait,TTFB,Total Time".into(),
            );
        }
        let missing = missing.map_or("", |timer| timer.names()[1]);
        Err(format!(
            "not a file that firstbyte reads: neither a run, a HAR file, a log nor curl's timers \
             (no column \"{missing}\" among \"{}\")",
            shown(&head.join("\", \""))
        ))
    }

    /// Parses and checks the times of a line.
    fn times(&self, fields: &[String]) -> Result<Times, String> {
        if fields.len() != self.count {
            let hint = if fields.len() == 2 * self.count {
                "; with decimal commas, separate columns by semicolons"
            } else {
                ""
            };
            return Err(format!("{} columns instead of {}{hint}", fields.len(), self.count));
        }
        let mut times = Times::default();
        let mut before: Option<(u64, &str)> = None;
        for (time, column) in times.iter_mut().zip(&self.of) {
            let Some((position, unit_ns, name)) = column else { continue };
            let field = &fields[*position];
            let refused = |why: &str| format!("column {}: \"{}\" {why}", shown(name), shown(field));
            let value = table::number(field).ok_or_else(|| refused("is not a number"))?;
            if value < 0.0 {
                return Err(refused("is negative"));
            }
            if !value.is_finite() || value * unit_ns >= 1e18 {
                return Err(refused("is not a time"));
            }
            let ns = (value * unit_ns).round() as u64;
            // curl prints zero for steps that did not happen.
            if ns == 0 {
                continue;
            }
            if let Some((earlier, earlier_name)) = before
                && ns < earlier
            {
                return Err(refused(&format!(
                    "is before {}: these are not curl's cumulative times",
                    shown(earlier_name)
                )));
            }
            before = Some((ns, name));
            *time = Some(ns);
        }
        if times[Timer::Total as usize].is_none() {
            return Err("nothing was measured".into());
        }
        Ok(times)
    }
}

/// The name of a column without its unit, in lower case, and the unit in nanoseconds. The default unit is seconds, as
/// curl prints them.
fn unit(name: &str) -> Result<(String, f64), String> {
    let lower = name.trim().to_lowercase();
    for open in [" (", "(", " [", "["] {
        let Some((plain, rest)) = lower.split_once(open) else { continue };
        let unit = rest.trim_end_matches([')', ']']).trim();
        let ns = match unit {
            "s" | "sec" | "seconds" => 1e9,
            "ms" | "milliseconds" => 1e6,
            "us" | "µs" | "μs" | "microseconds" => 1e3,
            "ns" | "nanoseconds" => 1.0,
            _ => {
                let (name, unit) = (shown(name), shown(unit));
                return Err(format!("column {name}: unknown unit \"{unit}\" (s, ms, us, ns)"));
            }
        };
        return Ok((plain.trim().to_owned(), ns));
    }
    for (suffix, ns) in [("_ms", 1e6), (" ms", 1e6), ("_us", 1e3), (" us", 1e3), ("_ns", 1.0)] {
        if let Some(plain) = lower.strip_suffix(suffix) {
            return Ok((plain.to_owned(), ns));
        }
    }
    Ok((lower, 1e9))
}
