//! Connections seen in captures: first the cleaning results, then servers, then connections.
//!
//! Input: [`Observed`] connections and [`Hygiene`]. Output: text, rows of JSON, CSV, Parquet or Zeek's log, one
//! connection in detail, a page. Columns are defined in `docs/wire.md`.

mod capacity;
mod columns;
mod connections;
mod csv;
pub mod diff;
mod flow;
mod gathered;
mod hygiene;
pub mod metrics;
pub mod page;
#[cfg(test)]
mod page_rules;
mod parquet;
mod servers;
mod verdict;
mod zeek;

use std::io::{self, Write};
use std::time::Duration;

use firstbyte_passive::capacity::ServerCapacity;
use firstbyte_passive::document::{CapacityRecord, CaptureRecord, ObservedRecord};
use firstbyte_passive::{Hygiene, Observed};

pub use capacity::capacities;
pub use connections::connections;
pub use csv::CsvWriter;
pub use flow::{figure, flow};
pub use gathered::Gathered;
pub use hygiene::{hygiene, live_line};
pub use parquet::ParquetWriter;
pub use servers::{findings, left_out, servers};
pub use zeek::ZeekWriter;

use crate::units::{count as counted, grouped as count};

/// Writes a connection as one line of JSON.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn line(observed: &Observed, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &ObservedRecord::from_observed(observed))?;
    out.write_all(b"\n")
}

/// Writes what a live capture read and lost, as one line of JSON.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn capture_line(
    interface: &str,
    connections: u64,
    hygiene: &Hygiene,
    out: &mut dyn Write,
) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &CaptureRecord::new(interface, connections, hygiene))?;
    out.write_all(b"\n")
}

/// Writes the known data about a server's capacity as one line of JSON.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn capacity_line(server: &ServerCapacity, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &CapacityRecord::from_capacity(server))?;
    out.write_all(b"\n")
}

/// A time with three significant digits and its unit.
fn time(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    match micros {
        _ if micros < 999.5 => format!("{micros:.0} µs"),
        _ if micros < 9_995.0 => format!("{:.2} ms", micros / 1e3),
        _ if micros < 99_950.0 => format!("{:.1} ms", micros / 1e3),
        _ if micros < 9_999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.1} s", micros / 1e6),
    }
}

fn time_or_blank(duration: Option<Duration>) -> String {
    duration.map(time).unwrap_or_default()
}

/// `text` at most `width` characters wide.
fn fit(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
