//! Reads and validates beacons, which the snippet sends.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

use super::entry::{EntryClass, EntryFacts, EntryTimes, NewConnection, classify};
use super::line::{BeaconRecord, CountedEntries};
use super::origin::{page_origin, protocol_name};
use super::sampling;

/// Maximum size of a beacon: what `sendBeacon` lets a page send (64 KiB).
pub const BEACON_BYTES: usize = 64 * 1024;
/// Maximum number of entries in a beacon. The snippet sends fewer, and reports how many it left out.
pub const MOST_ENTRIES: usize = 400;
/// Finest clock step of any browser, microseconds.
const FINEST_STEP_US: f64 = 5.0;
/// Coarsest clock step accepted, microseconds: ten times Firefox's step when it resists fingerprinting.
const COARSEST_STEP_US: f64 = 1e6;

/// Why a beacon is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BadBeacon {
    /// Larger than [`BEACON_BYTES`].
    TooLarge,
    /// Not JSON, or cut short.
    NotJson,
    /// JSON, but not a beacon of a known version.
    NotBeacon,
    /// The page is not an http or https page.
    Page,
    /// The sampling fraction is not a fraction, or is too small to be credible.
    Sampling,
    /// The clock step is not positive, or is too coarse.
    Step,
    /// More than [`MOST_ENTRIES`].
    TooManyEntries,
    /// Every entry is impossible.
    NoEntries,
}

impl BadBeacon {
    /// Name used in counts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TooLarge => "too-large",
            Self::NotJson => "not-json",
            Self::NotBeacon => "not-a-beacon",
            Self::Page => "bad-page",
            Self::Sampling => "bad-sampling",
            Self::Step => "bad-clock-step",
            Self::TooManyEntries => "too-many-entries",
            Self::NoEntries => "no-entries",
        }
    }
}

impl fmt::Display for BadBeacon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "larger than 64 KiB",
            Self::NotJson => "not JSON, or cut short",
            Self::NotBeacon => "not a beacon of version 1",
            Self::Page => "the page's origin is not an http or https origin",
            Self::Sampling => "the sampling fraction is not from 0.0001 to 1",
            Self::Step => "the clock's step is not above 0 and at most 1 s",
            Self::TooManyEntries => "more than 400 entries",
            Self::NoEntries => "no valid entry",
        })
    }
}

impl std::error::Error for BadBeacon {}

/// A beacon as it is sent; see `docs/field-data.md`.
#[derive(Deserialize)]
struct Sent {
    v: u64,
    page: String,
    part: f64,
    step: f64,
    #[serde(default)]
    isolated: bool,
    #[serde(default)]
    gecko: bool,
    #[serde(default)]
    activation: f64,
    #[serde(default)]
    left: u64,
    entries: Vec<Value>,
}

/// Reads an entry as it is sent: navigation type, origin, `nextHopProtocol`, `deliveryType`, size, then times.
fn entry(value: &Value) -> Option<(&str, &str, &str, &str, u8, EntryTimes)> {
    let parts = value.as_array()?;
    let [navigation, origin, protocol, delivery, size, times @ ..] = &parts[..] else {
        return None;
    };
    let mut all = [0.0; EntryTimes::COUNT];
    if times.len() != all.len() {
        return None;
    }
    for (slot, time) in all.iter_mut().zip(times) {
        *slot = time.as_f64()?;
    }
    let size = u8::try_from(size.as_u64()?).ok().filter(|digits| *digits <= 15)?;
    let text = [navigation, origin, protocol, delivery].map(Value::as_str);
    let [Some(navigation), Some(origin), Some(protocol), Some(delivery)] = text else {
        return None;
    };
    Some((navigation, origin, protocol, delivery, size, EntryTimes::from_array(all)))
}

/// Reads a beacon received at `received_unix_s`, which is stored to the minute.
///
/// # Errors
/// If nothing in the beacon can be kept. Impossible entries are counted and do not invalidate the others.
pub fn parse_beacon(bytes: &[u8], received_unix_s: u64) -> Result<BeaconRecord, BadBeacon> {
    if bytes.len() > BEACON_BYTES {
        return Err(BadBeacon::TooLarge);
    }
    let value: Value = serde_json::from_slice(bytes).map_err(|_| BadBeacon::NotJson)?;
    let sent = Sent::deserialize(value).map_err(|_| BadBeacon::NotBeacon)?;
    if sent.v != 1 {
        return Err(BadBeacon::NotBeacon);
    }
    let page = page_origin(&sent.page).ok_or(BadBeacon::Page)?;
    let sampling = sampling(sent.part).ok_or(BadBeacon::Sampling)?;
    let step_us = sent.step * 1e3;
    if !(step_us > 0.0 && step_us <= COARSEST_STEP_US) {
        return Err(BadBeacon::Step);
    }
    if sent.entries.len() > MOST_ENTRIES {
        return Err(BadBeacon::TooManyEntries);
    }
    let mut new = Vec::new();
    let mut counted: BTreeMap<(String, &str, EntryClass), u64> = BTreeMap::new();
    let mut impossible = 0;
    for value in &sent.entries {
        let known =
            entry(value).and_then(|(navigation, origin, protocol, delivery, size, times)| {
                let origin = match origin {
                    "" => page.clone(),
                    other => page_origin(other)?,
                };
                let facts = EntryFacts {
                    navigation,
                    is_https: origin.starts_with("https:"),
                    protocol: protocol_name(protocol),
                    delivery,
                    size,
                    activation: sent.activation,
                    is_gecko: sent.gecko,
                };
                match classify(&facts, &times) {
                    EntryClass::Impossible => None,
                    EntryClass::New => {
                        new.push(NewConnection::from_entry(origin, &facts, &times));
                        Some(())
                    }
                    class => {
                        *counted.entry((origin, facts.protocol, class)).or_default() += 1;
                        Some(())
                    }
                }
            });
        impossible += u64::from(known.is_none());
    }
    if new.is_empty() && counted.is_empty() {
        return Err(BadBeacon::NoEntries);
    }
    let counted = counted.into_iter().map(|((origin, protocol, class), entries)| CountedEntries {
        origin,
        protocol: protocol.to_owned(),
        class,
        entries,
    });
    Ok(BeaconRecord {
        received_unix_s: received_unix_s / 60 * 60,
        page,
        sampling,
        step_us: step_us.max(FINEST_STEP_US).round(),
        isolated: sent.isolated,
        counted: counted.collect(),
        new,
        impossible,
        left_out: sent.left.min(1_000_000),
    })
}
