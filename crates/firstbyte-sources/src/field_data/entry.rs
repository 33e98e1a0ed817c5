//! One entry of Navigation or Resource Timing: what it is, told before anything is subtracted, and the phases of a
//! connection that was new.
//!
//! Where a browser has nothing to say it writes zero, or repeats `fetchStart`: for connections that were reused, responses
//! out of a cache, servers of other origins that do not allow it (no `Timing-Allow-Origin`). Differences of such numbers
//! are no times. (W3C Resource Timing, 2026-04-20, §4.4 and §4.5; Fetch, "clamp and coarsen connection timing info".)

use serde::{Deserialize, Serialize};

/// Microseconds: as long as a page may be open before its times are not believed, ten days.
const LATEST_US: f64 = 10.0 * 86_400e6;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryClass {
    /// Over a connection that was opened for it, over TLS: the only one that has phases.
    New,
    /// Over a connection that was there.
    Reused,
    /// Over a connection that may have been begun before it was asked for (a preconnect), or within the same step of the
    /// clock: the beginning of its phases is not known.
    BegunBefore,
    /// Out of a cache, or fetched ahead.
    Cached,
    /// Of another origin that does not allow its times to be seen (no `Timing-Allow-Origin`), or without a response.
    Opaque,
    /// Over plain HTTP.
    PlainHttp,
    /// Loaded before anybody looked at the page.
    Prerendered,
    /// The document of a page that was gone back or forward to.
    BackForward,
    /// Through a service worker, whose times are in between.
    ServiceWorker,
    /// Its times are no times: negative, out of order, too large.
    Impossible,
}

impl EntryClass {
    /// Every class, in the order in which they are shown.
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

    /// The name used in every output.
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

/// Why the times of an entry cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTimes {
    /// Not a number, negative, or longer than a page is open.
    OutOfRange,
    /// A step ends before it begins, or before the one before it.
    OutOfOrder,
}

/// The times of an entry, milliseconds since the page's time origin, as the beacon has them. Zero where the browser says
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
    /// How many there are in a beacon's entry.
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

    /// Whether these are times at all.
    fn check(&self) -> Result<(), BadTimes> {
        let is_time = |ms: &f64| (0.0..=LATEST_US / 1e3).contains(ms);
        if !self.all().iter().all(is_time) {
            return Err(BadTimes::OutOfRange);
        }
        Ok(())
    }

    /// Whether the steps of a connection are in order. A request may leave before the handshake is over: as early data, or
    /// over QUIC as soon as keys are there. What is not said (zero) has no place in the order.
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

/// What an entry says of itself besides times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct EntryFacts<'a> {
    /// Of a navigation its type (`navigate`, `reload`, `back_forward`, `prerender`); empty for a resource.
    pub(super) navigation: &'a str,
    /// Whether its origin is of `https:`.
    pub(super) is_https: bool,
    /// The protocol, as it is kept.
    pub(super) protocol: &'static str,
    /// `deliveryType`.
    pub(super) delivery: &'a str,
    /// What `transferSize` says, see [`parse_beacon`](super::parse_beacon).
    pub(super) size: u8,
    /// When the page was activated that was prerendered, milliseconds; zero for others.
    pub(super) activation: f64,
    /// Whether the browser is Firefox, or of its engine.
    pub(super) is_gecko: bool,
}

/// `size` of a response whose body was there already.
pub(super) const SIZE_FROM_CACHE: u8 = 2;

/// Tells what an entry is. The order of questions is the point: what is asked later can only be asked of what is left.
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
    // All that lies between is zero, whatever the scheme.
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
    // The standard repeats fetchStart; there are browsers that leave the times of what did not happen out.
    if took_none && (times.connect_end <= times.fetch) {
        return EntryClass::Reused;
    }
    // What began before the fetch is said to have begun with it.
    if times.connect_start <= times.fetch {
        return EntryClass::BegunBefore;
    }
    EntryClass::New
}

/// A phase, as browsers' marks divide a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldPhase {
    /// From the fetch to the lookup: the browser had other things to do, or no connection to spare.
    Queue,
    /// The lookup.
    Resolve,
    /// TCP's handshake.
    Connect,
    /// TLS over TCP.
    Tls,
    /// QUIC's handshake, with TLS in it.
    Quic,
    /// From the request to the first byte of the answer.
    Wait,
    /// From the first byte to the last.
    Receive,
    /// From the fetch to the first byte.
    FirstByte,
}

impl FieldPhase {
    /// Every phase, in the order in which they are shown.
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

    /// The name used in every output.
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

/// A length of time as a clock with steps shows it, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRange {
    /// The least that it can have been, not below zero.
    pub least_us: f64,
    /// The difference of the two readings.
    pub seen_us: f64,
    /// The most that it can have been.
    pub most_us: f64,
}

impl TimeRange {
    /// The time between two readings of a clock with this step.
    ///
    /// Browsers write a time down as the step before it or the one behind it, by chance that cannot be guessed (Chromium's
    /// `TimeClamper`, Firefox' `nsRFPService`): each reading is off by less than a step, either way, and a
    /// difference by less than two.
    pub fn between(from_us: u64, to_us: u64, step_us: f64) -> Self {
        let seen_us = to_us.saturating_sub(from_us) as f64;
        let off = 2.0 * step_us;
        Self { least_us: (seen_us - off).max(0.0), seen_us, most_us: seen_us + off }
    }

    /// The middle of what it can have been: the difference that was seen, but where that is next to nothing.
    pub fn middle_us(&self) -> f64 {
        f64::midpoint(self.least_us, self.most_us)
    }
}

/// A connection that was opened for a fetch: its marks, microseconds from `fetchStart`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct NewConnection {
    pub origin: String,
    pub protocol: String,
    /// The document, and not something in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub navigation: bool,
    /// What was transferred, by its number of decimal digits: 4 is 1,000 to 9,999 bytes, with the head as 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_digits: Option<u8>,
    pub lookup_start_us: u64,
    pub lookup_end_us: u64,
    pub connect_start_us: u64,
    /// Over QUIC it is `connect_start_us`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_start_us: Option<u64>,
    pub connect_end_us: u64,
    pub request_start_us: u64,
    /// The first interim response (103).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interim_us: Option<u64>,
    /// The first byte of the answer itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_end_us: Option<u64>,
}

impl NewConnection {
    /// The marks of an entry that was [told](classify) to be new.
    pub(super) fn from_entry(origin: String, facts: &EntryFacts<'_>, times: &EntryTimes) -> Self {
        // Bounded by `EntryTimes::check`, and not before `fetchStart`.
        let us = |ms: f64| ((ms - times.fetch) * 1e3).round().max(0.0) as u64;
        let said = |ms: f64| (ms > 0.0).then(|| us(ms));
        // `responseStart` is that of the 103, where there was one: then only what names the answer itself will do.
        let first_byte = match (times.final_headers > 0.0, times.interim > 0.0) {
            // Gecko's is when anything came behind the request: the session tickets of a new connection.
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

    /// Whether it is one of QUIC: its set-up is not divided.
    pub fn is_quic(&self) -> bool {
        self.protocol == "h3"
    }

    /// A phase, as the clock shows it; absent where there is none, or its marks are not known.
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
        // A line of a file may say anything.
        (from <= to).then(|| TimeRange::between(from, to, step_us))
    }

    /// A round trip: TCP's handshake, or QUIC's with the server's work in it.
    pub fn round_trip(&self, step_us: f64) -> Option<TimeRange> {
        let phase = if self.is_quic() { FieldPhase::Quic } else { FieldPhase::Connect };
        self.phase(phase, step_us)
    }
}
