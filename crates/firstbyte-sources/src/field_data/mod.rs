//! Field data: what people's own browsers say about their connections.
//!
//! In: the bytes of a beacon ([`parse_beacon`]) or of Network Error Logging reports ([`parse_reports`]), from anybody.
//! Out: lines of a file ([`FieldLine`]), and what all of them say together ([`FieldSummary`]). Whatever comes in is checked
//! before it is kept, entries are told apart before anything is subtracted ([`EntryClass`]), and what could tell
//! who somebody is (paths, addresses, names of users) is not in any type here.

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

/// The least sampling fraction that is believed: one report may stand for ten thousand. A forged fraction would
/// else drown all others.
pub const LEAST_SAMPLING: f64 = 0.000_1;

/// A sampling fraction that may be undone.
fn sampling(fraction: f64) -> Option<f64> {
    (LEAST_SAMPLING..=1.0).contains(&fraction).then_some(fraction)
}
