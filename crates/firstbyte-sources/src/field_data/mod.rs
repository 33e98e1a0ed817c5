//! Field data: what browsers of real users report about their connections.
//!
//! Input: the bytes of a beacon ([`parse_beacon`]) or of Network Error Logging reports ([`parse_reports`]), from
//! untrusted senders. Output: lines of a file ([`FieldLine`]), and a summary of all of them ([`FieldSummary`]). All
//! input is checked before it is kept, entries are classified before anything is subtracted ([`EntryClass`]), and no
//! type here holds anything that could identify a person (paths, addresses, user names).

mod beacon;
mod entry;
mod line;
mod origin;
mod reports;
mod summary;
#[cfg(test)]
mod tests;
mod weighted;

pub use beacon::{BEACON_BYTES, BadBeacon, MOST_ENTRIES, parse_beacon};
pub use entry::{BadTimes, EntryClass, FieldPhase, NewConnection, TimeRange};
pub use line::{
    BeaconRecord, CountedEntries, FIELD_FORMAT, FIELD_VERSION, FieldHeader, FieldLine,
    FieldLineError, ReportRecord, begins_field_data,
};
pub use origin::{page_origin, protocol_name};
pub use reports::{BadReports, MOST_REPORTS, ReadReports, parse_reports};
pub use summary::{
    EntryCount, FailureShare, FieldGroup, FieldLines, FieldSummary, PhaseFigures, RangeQuantile,
    ReportCount,
};
pub use weighted::{WeightedCount, weighted_share};

/// Smallest sampling fraction that is accepted: one report may stand for ten thousand. Otherwise a forged fraction
/// could outweigh all other reports.
pub const LEAST_SAMPLING: f64 = 0.000_1;

/// The sampling fraction, if it is acceptable.
fn sampling(fraction: f64) -> Option<f64> {
    (LEAST_SAMPLING..=1.0).contains(&fraction).then_some(fraction)
}
