//! What each program means by its fields: one table. `docs/har.md` has it in prose, with the sources.

use std::time::Duration;

use super::entry::{HarArchive, HarSpan};

/// Meaning of the `connection` field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// An identifier of the connection.
    Identity,
    /// The server's port. Only a field of the creator's own, if any, names the connection.
    Port,
    /// Nothing that is known to distinguish connections.
    Unclear,
}

/// Where the time of the TLS handshake is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPlace {
    /// `ssl` is a part of `connect`, as HAR 1.2 specifies.
    WithinConnect,
    /// `connect` is TCP alone, `ssl` follows it.
    BesideConnect,
}

/// Meaning of `time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeField {
    /// The sum of the timings without `ssl`, as HAR 1.2 specifies.
    SumWithoutTls,
    /// The sum of all timings; in older versions perhaps without `ssl`.
    SumWithTls,
    /// Nothing that can be compared with the timings.
    Unclear,
}

/// Meaning of 0 in `dns`, `connect` and `ssl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMeans {
    /// The phase happened, and took less time than the clock shows.
    NoTime,
    /// The phase did not happen, or took less than half a clock step.
    NotDone,
    /// Either of these.
    Unclear,
}

/// How a creator's entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarRules {
    /// Common name of the creator.
    pub creator: &'static str,
    /// Its names in `creator.name`, in lower case.
    names: &'static [&'static str],
    /// The version whose own exports this was verified with; absent if only its documentation or source was read.
    pub proven: Option<&'static str>,
    /// Meaning of the `connection` field.
    pub connection: ConnectionField,
    /// Where TLS is counted.
    pub tls: TlsPlace,
    /// Meaning of `time`.
    pub time: TimeField,
    /// Meaning of 0 in the set-up phases.
    pub zero: ZeroMeans,
    /// Whether `send` is measured rather than constant.
    pub send: bool,
    /// Whether the TCP handshake's time is a round trip: measured from packet to packet, rather than as the time that
    /// the request waited for it.
    pub tcp_is_round_trip: bool,
    /// Resolution of its times; absent if unknown.
    pub resolution: Option<Duration>,
}

const MICROSECOND: Option<Duration> = Some(Duration::from_micros(1));
const MILLISECOND: Option<Duration> = Some(Duration::from_millis(1));

/// HAR 1.2 as specified: assumed for unknown creators.
const AS_SPECIFIED: HarRules = HarRules {
    creator: "unknown",
    names: &[],
    proven: None,
    connection: ConnectionField::Unclear,
    tls: TlsPlace::WithinConnect,
    time: TimeField::Unclear,
    zero: ZeroMeans::Unclear,
    send: true,
    tcp_is_round_trip: false,
    resolution: None,
};

pub(super) const RULES: [HarRules; 8] = [
    // DevTools `Log.ts`. `connect` starts when the name is resolved, and counts only the time that the request was
    // blocked: less than on the wire if the connection was started in advance. The version is WebKit's, and says
    // nothing.
    HarRules {
        creator: "Chrome's DevTools",
        names: &["webinspector"],
        proven: Some("Chromium 156"),
        connection: ConnectionField::Port,
        time: TimeField::SumWithoutTls,
        zero: ZeroMeans::NoTime,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    // DevTools `NetworkTimings.sys.mjs`, `har-builder.js`: whole milliseconds; 0 for phases that did not happen, and
    // all 0 for responses from a cache.
    HarRules {
        creator: "Firefox's DevTools",
        names: &["firefox"],
        proven: Some("Firefox 153"),
        connection: ConnectionField::Port,
        tls: TlsPlace::BesideConnect,
        time: TimeField::SumWithTls,
        zero: ZeroMeans::NotDone,
        tcp_is_round_trip: true,
        resolution: MILLISECOND,
        ..AS_SPECIFIED
    },
    // WebInspectorUI `HARBuilder.js`. On open connections, `send` repeats time that is already in `blocked`.
    HarRules {
        creator: "Safari's Web Inspector",
        names: &["webkit web inspector"],
        connection: ConnectionField::Identity,
        send: false,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    HarRules {
        creator: "WebPageTest",
        names: &["webpagetest"],
        resolution: MILLISECOND,
        ..AS_SPECIFIED
    },
    // chrome-har `entryFromResponse.js`: DevTools' times, but `connect` excludes the gap between name lookup and TCP.
    HarRules {
        creator: "browsertime, chrome-har",
        names: &["browsertime", "sitespeed.io", "chrome-har"],
        connection: ConnectionField::Identity,
        zero: ZeroMeans::NoTime,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    // `harTracer.ts`: `send` is always 0, `time` adds `ssl` although `connect` contains it.
    HarRules {
        creator: "Playwright",
        names: &["playwright"],
        send: false,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    // Our own: `docs/formats.md`.
    HarRules {
        creator: "firstbyte",
        names: &["firstbyte"],
        proven: Some("firstbyte 0.1"),
        connection: ConnectionField::Identity,
        zero: ZeroMeans::NoTime,
        tcp_is_round_trip: true,
        resolution: Some(Duration::from_nanos(1)),
        ..AS_SPECIFIED
    },
    AS_SPECIFIED,
];

/// The rules for entries of this creator.
pub fn rules_for(creator: Option<&HarSpan>) -> &'static HarRules {
    let name = creator.map(|creator| creator.name.trim().to_ascii_lowercase()).unwrap_or_default();
    let known = RULES.iter().find(|rules| rules.names.contains(&&*name));
    known.unwrap_or(&RULES[RULES.len() - 1])
}

impl HarArchive {
    /// The rules for its entries.
    pub fn rules(&self) -> &'static HarRules {
        rules_for(self.creator.as_ref())
    }
}
