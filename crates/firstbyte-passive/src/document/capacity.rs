//! A server's capacity, as one line of JSON. The fields are in `docs/formats.md`.

use std::net::SocketAddr;

use firstbyte_core::stats::Interval;
use serde::Serialize;

use crate::capacity::{AtOnce, Demand, ServerCapacity, Slot, Standing};

/// Name of the format.
pub const WIRE_CAPACITY_FORMAT: &str = "firstbyte/wire-capacity";
/// The version that is written.
pub const WIRE_CAPACITY_VERSION: u32 = 1;

/// One server.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct CapacityRecord {
    pub format: &'static str,
    pub version: u32,
    pub carrier: &'static str,
    pub server: SocketAddr,
    pub sni: Option<String>,
    pub full: u64,
    pub resumed: u64,
    pub untimed: u64,
    pub standing: &'static str,
    pub in_order: Option<bool>,
    pub full_sustained: Option<SustainedRecord>,
    pub resumed_sustained: Option<SustainedRecord>,
    pub mixed_sustained: Option<SustainedRecord>,
    pub mixed_resumed_share: Option<f64>,
    pub full_alone_seconds: Option<f64>,
    pub resumed_alone_seconds: Option<f64>,
    pub most_per_second: Option<u64>,
    pub most_at_once: u32,
    pub busy_periods: u64,
    pub busy_share: Option<f64>,
    pub at_once: Vec<AtOnceRecord>,
    pub slot_seconds: f64,
    pub slots: Vec<SlotRecord>,
}

/// Connections per second, and the cost of one.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct SustainedRecord {
    pub per_second: f64,
    pub low: f64,
    pub high: f64,
    pub demand_seconds: f64,
    pub handshakes: u64,
}

/// Handshakes that found about the same number of others.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct AtOnceRecord {
    pub others_least: u32,
    pub others_most: u32,
    pub visits: u64,
    pub server_p50_seconds: f64,
    pub between_departures_seconds: f64,
}

/// Handshakes that ended in one time slot.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct SlotRecord {
    pub full: u64,
    pub resumed: u64,
    pub server_mean_seconds: Option<f64>,
}

impl CapacityRecord {
    /// The stored form.
    pub fn from_capacity(server: &ServerCapacity) -> Self {
        let capacity = &server.capacity;
        let [full, resumed] = server.handshakes;
        let [full_demand, resumed_demand] = capacity.demands;
        let [full_alone, resumed_alone] =
            capacity.alone.map(|demand| demand.map(|demand| demand.seconds));
        let in_order = match capacity.standing {
            Standing::Queueing { in_order, .. } => Some(in_order),
            _ => None,
        };
        Self {
            format: WIRE_CAPACITY_FORMAT,
            version: WIRE_CAPACITY_VERSION,
            carrier: server.carrier.name(),
            server: server.server.socket_addr(),
            sni: server.sni.as_deref().map(str::to_owned),
            full,
            resumed,
            untimed: server.untimed,
            standing: capacity.standing.name(),
            in_order,
            full_sustained: full_demand.as_ref().map(SustainedRecord::from_demand),
            resumed_sustained: resumed_demand.as_ref().map(SustainedRecord::from_demand),
            mixed_sustained: capacity
                .mixed
                .map(|(demand, _)| SustainedRecord::from_demand(&demand)),
            mixed_resumed_share: capacity.mixed.map(|(_, share)| share),
            full_alone_seconds: full_alone,
            resumed_alone_seconds: resumed_alone,
            most_per_second: server.most_per_second,
            most_at_once: capacity.most_at_once,
            busy_periods: capacity.busy_periods,
            busy_share: capacity.busy_share,
            at_once: capacity.at_once.iter().map(AtOnceRecord::from_class).collect(),
            slot_seconds: server.slots.0.as_secs_f64(),
            slots: server.slots.1.iter().map(SlotRecord::from_slot).collect(),
        }
    }
}

impl SustainedRecord {
    fn from_demand(demand: &Demand) -> Self {
        let (per_second, Interval { low, high }) = demand.rate();
        let Demand { seconds, handshakes, .. } = *demand;
        Self { per_second, low, high, demand_seconds: seconds, handshakes }
    }
}

impl AtOnceRecord {
    const fn from_class(class: &AtOnce) -> Self {
        Self {
            others_least: class.others.0,
            others_most: class.others.1,
            visits: class.visits,
            server_p50_seconds: class.stayed_seconds,
            between_departures_seconds: class.spent_seconds,
        }
    }
}

impl SlotRecord {
    const fn from_slot(slot: &Slot) -> Self {
        let [full, resumed] = slot.handshakes;
        Self { full, resumed, server_mean_seconds: slot.server_seconds }
    }
}
