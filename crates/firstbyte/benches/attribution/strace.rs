//! The third witness: the server application's writes and their times, by `strace -f -ttt -T -yy`.

use std::collections::HashMap;
use std::path::Path;

use firstbyte_core::timeline::Connection;
use firstbyte_truth::{Truth, Written, witnessed};
use serde::{Deserialize, Serialize};

use crate::score::ms;

/// The third witness's result for a sample, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Witness {
    /// There is no trace; the reason.
    Untraced(String),
    /// Server and pause according to the packets, how much larger they may be, and the same according to the writes.
    Traced { packets: f64, open: f64, writes: f64, off: f64 },
}

/// Writes in order, keyed by the client's port.
#[derive(Debug, Default)]
pub(crate) struct Writes(HashMap<u16, Vec<Written>>);

impl Writes {
    /// Reads the output file of `strace`; times are since the Unix epoch.
    pub(crate) fn read(file: &Path) -> Result<Self, String> {
        let text = std::fs::read(file).map_err(|_| "strace wrote nothing".to_owned())?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Parses the output of `strace`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut writes = Self::default();
        let mut begun: HashMap<&str, (u16, i64)> = HashMap::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Some((at, call)) = rest.trim_start().split_once(' ') else { continue };
            let Some(at) = nanoseconds(at) else { continue };
            let opened = match call.starts_with("<...") {
                true => begun.remove(thread),
                false => client_port(call).map(|port| (port, at)),
            };
            let Some((port, at)) = opened else { continue };
            if call.ends_with("<unfinished ...>") {
                begun.insert(thread, (port, at));
                continue;
            }
            let Some((bytes, took)) = returned(call) else { continue };
            let of = writes.0.entry(port).or_default();
            let end = of.last().map_or(0, |write| write.end) + bytes.unsigned_abs();
            of.push(Written { began: at, ended: at + took, end });
        }
        match writes.0.is_empty() {
            true => Err("strace saw no write to a client".into()),
            false => Ok(writes),
        }
    }

    /// The writes of the connection from this port, starting at its origin.
    pub(crate) fn of_port(&self, port: u16, origin: i64) -> Vec<Written> {
        let of = self.0.get(&port).into_iter().flatten();
        of.map(|write| {
            let [began, ended] = [write.began, write.ended].map(|at| at - origin);
            Written { began, ended, ..*write }
        })
        .collect()
    }
}

/// Compares the writes of a connection with its truth.
pub(crate) fn witness(truth: &Truth, connection: &Connection, writes: &Writes) -> Witness {
    let port = connection.facts.local.map(|local| local.port());
    let origin = connection.started_unix_ns.and_then(|ns| i64::try_from(ns).ok());
    let writes = port.zip(origin).map(|(port, origin)| writes.of_port(port, origin));
    match writes.and_then(|writes| witnessed(truth, &writes)) {
        Some(seen) => Witness::Traced {
            packets: ms(seen.packets),
            open: ms(seen.open),
            writes: ms(seen.writes),
            off: seen.off() as f64 / 1e6,
        },
        None => Witness::Untraced("not all of its writes were seen".into()),
    }
}

fn nanoseconds(text: &str) -> Option<i64> {
    let (seconds, micros) = text.split_once('.')?;
    Some((seconds.parse::<i64>().ok()? * 1_000_000 + micros.parse::<i64>().ok()?) * 1_000)
}

/// The bytes written and the duration of the call: ` = 100 <0.000045>`.
fn returned(call: &str) -> Option<(i64, i64)> {
    let mut words = call.rsplit_once(" = ")?.1.split(' ');
    let bytes = words.next()?.parse().ok().filter(|bytes| *bytes > 0)?;
    let took = words.next()?.strip_prefix('<')?.strip_suffix('>')?;
    Some((bytes, nanoseconds(took)?))
}

/// The port after `:443->` in the first argument: `write(7<TCP:[198.51.100.1:443->192.0.2.10:40000]>, …`.
fn client_port(call: &str) -> Option<u16> {
    let (_, address) = call.split_once('<')?;
    let (socket, _) = address.split_once("]>")?;
    let (_, client) = socket.split_once(":443->")?;
    client.rsplit_once(':')?.1.parse().ok()
}
