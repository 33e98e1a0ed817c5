//! One entry of Navigation or Resource Timing: its class, decided before anything is subtracted, and the phases of a
//! new connection.
//!
//! Browsers write zero, or repeat `fetchStart`, when they have nothing to report: for reused connections, cached
//! responses, and cross-origin servers that do not allow timing (no `Timing-Allow-Origin`). Differences of such numbers
//! are not durations. (W3C Resource Timing, 2026-04-20, §4.4 and §4.5; Fetch, "clamp and coarsen connection timing
//! info".)

use serde::{Deserialize, Serialize};

/// Latest credible time, microseconds: a page is open for at most ten days.
const LATEST_US: f64 = 10.0 * 86_400e6;

/// Class of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryClass {
    /// Over a TLS connection that was opened for it: the only class with phases.
    New,
    /// Over an existing connection.
    Reused,
    /// Over a connection that may have been started before it was needed (a preconnect), or within the same clock step:
    /// the start of its phases is unknown.
    BegunBefore,
    /// From a cache, or prefetched.
    Cached,
    /// From another origin that hides its times (no `Timing-Allow-Origin`), or without a response.
    Opaque,
    /// Over plain HTTP.
    PlainHttp,
    /// Loaded before the page was shown.
    Prerendered,
    /// The document of a page reached by going back or forward.
    BackForward,
    /// Through a service worker, whose own times are included.
    ServiceWorker,
    /// With impossible times: negative, out of order, or too large.
    Impossible,
}

impl EntryClass {
    /// Every class, in display order.
    pub const ALL: [Self; 10] = [
        Self::New,
        Self::Reused,
        Self::BegunBefore,
        Self::Cached,
        Self::Opaque,
        Self::PlainHttp,
        Self::Prerendered,
        Self::BackForward,
        Self::ServiceWorker,
        Self::Impossible,
    ];

    /// Name used in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Reused => "reused",
            Self::BegunBefore => "begun-before",
            Self::Cached => "cached",
            Self::Opaque => "opaque",
            Self::PlainHttp => "plain-http",
            Self::Prerendered => "prerendered",
            Self::BackForward => "back-forward",
            Self::ServiceWorker => "service-worker",
            Self::Impossible => "impossible",
        }
    }
}

/// Why the times of an entry are impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTimes {
    /// Not a number, negative, or longer than a page stays open.
    OutOfRange,
    /// A step ends before it begins, or before the previous one.
    OutOfOrder,
}

/// Times of an entry in milliseconds since the page's time origin, as the beacon has them. Zero if the browser reports
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct EntryTimes {
    pub(super) start: f64,
    pub(super) worker: f64,
    pub(super) fetch: f64,
    pub(super) lookup_start: f64,
    pub(super) lookup_end: f64,
    pub(super) connect_start: f64,
    pub(super) secure_start: f64,
    pub(super) connect_end: f64,
    pub(super) request_start: f64,
    pub(super) interim: f64,
    pub(super) final_headers: f64,
    pub(super) response_start: f64,
    pub(super) response_end: f64,
}

impl EntryTimes {
    /// Number of times in a beacon's entry.
    pub(super) const COUNT: usize = 13;

    pub(super) const fn from_array(times: [f64; Self::COUNT]) -> Self {
        let [
            start,
            worker,
            fetch,
            lookup_start,
            lookup_end,
            connect_start,
            secure_start,
            connect_end,
            request_start,
            interim,
            final_headers,
            response_start,
            response_end,
        ] = times;
        Self {
            start,
            worker,
            fetch,
            lookup_start,
            lookup_end,
            connect_start,
            secure_start,
            connect_end,
            request_start,
            interim,
            final_headers,
            response_start,
            response_end,
        }
    }

    const fn all(&self) -> [f64; Self::COUNT] {
        [
            self.start,
            self.worker,
            self.fetch,
            self.lookup_start,
            self.lookup_end,
            self.connect_start,
            self.secure_start,
            self.connect_end,
            self.request_start,
            self.interim,
            self.final_headers,
            self.response_start,
            self.response_end,
        ]
    }

    /// Whether these can be times at all.
    fn check(&self) -> Result<(), BadTimes> {
        let is_time = |ms: &f64| (0.0..=LATEST_US / 1e3).contains(ms);
        if !self.all().iter().all(is_time) {
            return Err(BadTimes::OutOfRange);
        }
        Ok(())
    }

    /// Whether the steps of a connection are in order. Unreported times (zero) have no place in the order.
    ///
    /// A request may leave before the handshake is over: as early data, or over QUIC as soon as keys are available.
    fn check_order(&self) -> Result<(), BadTimes> {
        let connecting = [
            self.fetch,
            self.lookup_start,
            self.lookup_end,
            self.connect_start,
            self.secure_start,
            self.connect_end,
        ];
        let exchange = [
            self.connect_start,
            self.request_start,
            self.interim,
            self.final_headers,
            self.response_end,
        ];
        let with_start = [self.request_start, self.response_start, self.response_end];
        let in_order = |steps: &[f64]| {
            let said: Vec<f64> = steps.iter().copied().filter(|at| *at > 0.0).collect();
            said.is_sorted()
        };
        let all = in_order(&connecting) && in_order(&exchange) && in_order(&with_start);
        all.then_some(()).ok_or(BadTimes::OutOfOrder)
    }
}

/// Facts about an entry other than its times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EntryFacts<'a> {
    /// Type of a navigation (`navigate`, `reload`, `back_forward`, `prerender`); empty for a resource.
    pub(super) navigation: &'a str,
    pub(super) is_https: bool,
    /// The protocol, by its stored name.
    pub(super) protocol: &'static str,
    pub(super) delivery: &'a str,
    /// Size class from `transferSize`, see [`parse_beacon`](super::parse_beacon).
    pub(super) size: u8,
    /// When a prerendered page was activated, milliseconds; zero for other pages.
    pub(super) activation: f64,
    /// Whether the browser is Firefox, or uses its engine.
    pub(super) is_gecko: bool,
}

/// `size` of a response whose body came from a cache.
pub(super) const SIZE_FROM_CACHE: u8 = 2;

/// Classifies an entry. The order of the checks matters: each one relies on those before it.
pub(super) fn classify(facts: &EntryFacts<'_>, times: &EntryTimes) -> EntryClass {
    if times.check().is_err() {
        return EntryClass::Impossible;
    }
    if facts.navigation == "back_forward" {
        return EntryClass::BackForward;
    }
    if facts.navigation == "prerender" || times.start < facts.activation || {
        facts.activation > 0.0 && !facts.navigation.is_empty()
    } {
        return EntryClass::Prerendered;
    }
    if facts.delivery == "cache"
        || facts.delivery.ends_with("prefetch")
        || facts.size == SIZE_FROM_CACHE
    {
        return EntryClass::Cached;
    }
    // All times in between are zero, whatever the scheme.
    if times.request_start == 0.0 || times.fetch == 0.0 && times.connect_end == 0.0 {
        return EntryClass::Opaque;
    }
    if times.check_order().is_err() {
        return EntryClass::Impossible;
    }
    if times.worker > 0.0 {
        return EntryClass::ServiceWorker;
    }
    if !facts.is_https {
        return EntryClass::PlainHttp;
    }
    let took_none = times.connect_end <= times.connect_start;
    // The standard repeats fetchStart; some browsers leave out the times of steps that did not happen.
    if took_none && (times.connect_end <= times.fetch) {
        return EntryClass::Reused;
    }
    // Browsers report a connection that started before the fetch as starting with it.
    if times.connect_start <= times.fetch {
        return EntryClass::BegunBefore;
    }
    EntryClass::New
}

/// A phase of a fetch, between two of the browser's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldPhase {
    /// From the fetch to the lookup: the browser was busy, or had no connection to spare.
    Queue,
    /// Name lookup.
    Resolve,
    /// TCP handshake.
    Connect,
    /// TLS handshake over TCP.
    Tls,
    /// QUIC handshake, including TLS.
    Quic,
    /// From the request to the first byte of the final response.
    Wait,
    /// From the first byte to the last.
    Receive,
    /// From the fetch to the first byte.
    FirstByte,
}

impl FieldPhase {
    /// Every phase, in display order.
    pub const ALL: [Self; 8] = [
        Self::Queue,
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Quic,
        Self::Wait,
        Self::Receive,
        Self::FirstByte,
    ];

    /// Name used in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Quic => "quic",
            Self::Wait => "wait",
            Self::Receive => "receive",
            Self::FirstByte => "first-byte",
        }
    }
}

/// A duration in microseconds, as measured by a clock with steps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRange {
    /// Minimum of the true duration, not below zero.
    pub least_us: f64,
    /// Difference of the two readings.
    pub seen_us: f64,
    /// Maximum of the true duration.
    pub most_us: f64,
}

impl TimeRange {
    /// The time between two readings of a clock with this step.
    ///
    /// Browsers round a time down or up to a step, unpredictably (Chromium's `TimeClamper`, Firefox's `nsRFPService`):
    /// each reading is off by less than a step in either direction, and a difference by less than two steps.
    pub fn between(from_us: u64, to_us: u64, step_us: f64) -> Self {
        let seen_us = to_us.saturating_sub(from_us) as f64;
        let off = 2.0 * step_us;
        Self { least_us: (seen_us - off).max(0.0), seen_us, most_us: seen_us + off }
    }

    /// Middle of the possible range: the measured difference, unless that is close to zero.
    pub fn middle_us(&self) -> f64 {
        f64::midpoint(self.least_us, self.most_us)
    }
}

/// A connection that was opened for a fetch, with its marks in microseconds from `fetchStart`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct NewConnection {
    pub origin: String,
    pub protocol: String,
    /// Whether it is for the document rather than for something in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub navigation: bool,
    /// Number of decimal digits of the transferred size: 4 means 1,000 to 9,999 bytes, counting the header as 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_digits: Option<u8>,
    pub lookup_start_us: u64,
    pub lookup_end_us: u64,
    pub connect_start_us: u64,
    /// Over QUIC, equal to `connect_start_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_start_us: Option<u64>,
    pub connect_end_us: u64,
    pub request_start_us: u64,
    /// First interim response (103).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_us: Option<u64>,
    /// First byte of the final response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_end_us: Option<u64>,
}

impl NewConnection {
    /// The marks of an entry that was [classified](classify) as new.
    pub(super) fn from_entry(origin: String, facts: &EntryFacts<'_>, times: &EntryTimes) -> Self {
        // Bounded by `EntryTimes::check`, and not before `fetchStart`.
        let us = |ms: f64| ((ms - times.fetch) * 1e3).round().max(0.0) as u64;
        let said = |ms: f64| (ms > 0.0).then(|| us(ms));
        // After a 103, `responseStart` is that of the 103: then only the mark of the final response counts.
        let first_byte = match (times.final_headers > 0.0, times.interim > 0.0) {
            // Gecko sets it when anything arrives after the request, such as a new connection's session tickets.
            _ if facts.is_gecko && facts.protocol == "h1" => None,
            (true, _) => said(times.final_headers),
            (false, true) => None,
            (false, false) => said(times.response_start),
        };
        Self {
            origin,
            protocol: facts.protocol.to_owned(),
            navigation: !facts.navigation.is_empty(),
            size_digits: (facts.size > SIZE_FROM_CACHE).then_some(facts.size),
            lookup_start_us: us(times.lookup_start.max(times.fetch)),
            lookup_end_us: us(times.lookup_end.max(times.fetch)),
            connect_start_us: us(times.connect_start),
            secure_start_us: said(times.secure_start),
            connect_end_us: us(times.connect_end),
            request_start_us: us(times.request_start),
            interim_us: said(times.interim),
            first_byte_us: first_byte,
            response_end_us: said(times.response_end),
        }
    }

    /// Whether it is a QUIC connection, whose set-up is not divided into phases.
    pub fn is_quic(&self) -> bool {
        self.protocol == "h3"
    }

    /// The range of a phase; absent if the phase did not happen or its marks are unknown.
    pub fn phase(&self, phase: FieldPhase, step_us: f64) -> Option<TimeRange> {
        let over_tcp = || self.secure_start_us.filter(|_| !self.is_quic());
        let (from, to) = match phase {
            FieldPhase::Queue => (0, self.lookup_start_us),
            FieldPhase::Resolve => (self.lookup_start_us, self.lookup_end_us),
            FieldPhase::Connect => (self.connect_start_us, over_tcp()?),
            FieldPhase::Tls => (over_tcp()?, self.connect_end_us),
            FieldPhase::Quic if self.is_quic() => (self.connect_start_us, self.connect_end_us),
            FieldPhase::Quic => return None,
            FieldPhase::Wait => (self.request_start_us, self.first_byte_us?),
            FieldPhase::Receive => (self.first_byte_us?, self.response_end_us?),
            FieldPhase::FirstByte => (0, self.first_byte_us?),
        };
        // A stored line may contain anything.
        (from <= to).then(|| TimeRange::between(from, to, step_us))
    }

    /// One round trip: the TCP handshake, or the QUIC handshake including the server's work.
    pub fn round_trip(&self, step_us: f64) -> Option<TimeRange> {
        let phase = if self.is_quic() { FieldPhase::Quic } else { FieldPhase::Connect };
        self.phase(phase, step_us)
    }
}
