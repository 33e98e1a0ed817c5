//! Stored forms of the results from captures. The core's `document` has those of samples.

mod beside;
mod capacity;
mod capture;
mod difference;
mod observed;

pub use beside::{BesideRecord, TableRecord, ThroughputRecord, ValueRecord};
pub use capacity::{
    AtOnceRecord, CapacityRecord, SlotRecord, SustainedRecord, WIRE_CAPACITY_FORMAT,
    WIRE_CAPACITY_VERSION,
};
pub use capture::{CaptureRecord, WIRE_CAPTURE_FORMAT, WIRE_CAPTURE_VERSION};
pub use difference::{
    ChangeRecord, CostRecord, DifferenceRecord, FigureRecord, ProjectedRecord, ReplacedRecord,
    ShareRecord, SumRecord, TotalRecord, WIRE_DIFF_FORMAT, WIRE_DIFF_VERSION, value_name,
};
pub use observed::{
    ExchangeRecord, ExchangesRecord, FlightSeenRecord, HandshakeTimeRecord, ObservedRecord,
    TlsSeenRecord, TrafficRecord, WIRE_FORMAT, WIRE_VERSION,
};
