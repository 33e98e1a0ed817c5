//! What each program means by what it writes: one table. `docs/har.md` has it for people, with the sources.

use std::time::Duration;

use super::entry::{HarArchive, HarSpan};

/// What the field `connection` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// An identifier of the connection.
    Identity,
    /// The server's port: connections have the name that stands in a field of the creator's own, or none.
    Port,
    /// Nothing that is known to tell connections apart.
    Unclear,
}

/// Where the time of the TLS handshake is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPlace {
    /// `ssl` is a part of `connect`, as HAR 1.2 has it.
    WithinConnect,
    /// `connect` is TCP alone, `ssl` comes behind it.
    BesideConnect,
}

/// What `time` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeField {
    /// The sum of the timings without `ssl`, as HAR 1.2 has it.
    SumWithoutTls,
    /// The sum of all timings; of older versions perhaps without `ssl`.
    SumWithTls,
    /// Nothing that the timings can be held against.
    Unclear,
}

/// What 0 says in `dns`, `connect` and `ssl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMeans {
    /// It was done, and took no time that the clock shows.
    NoTime,
    /// It was not done, or took less than half of the clock's step.
    NotDone,
    /// Either.
    Unclear,
}

/// How a creator's entries are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HarRules {
    /// The creator, as people call it.
    pub creator: &'static str,
    /// What it calls itself in `creator.name`, in lower case.
    names: &'static [&'static str],
    /// The version whose own exports this was proven on; absent where the shape is from its documentation or source alone.
    pub proven: Option<&'static str>,
    /// What the field `connection` is.
    pub connection: ConnectionField,
    /// Where TLS is.
    pub tls: TlsPlace,
    /// What `time` is.
    pub time: TimeField,
    /// What 0 says of the set-up.
    pub zero: ZeroMeans,
    /// Whether `send` is measured, and no constant.
    pub send: bool,
    /// Whether the time of the TCP handshake is a round trip: it begins and ends with the packets, and not with the
    /// request's waiting for them.
    pub tcp_is_round_trip: bool,
    /// The steps of its times; absent where nobody says.
    pub resolution: Option<Duration>,
}

const MICROSECOND: Option<Duration> = Some(Duration::from_micros(1));
const MILLISECOND: Option<Duration> = Some(Duration::from_millis(1));

/// HAR 1.2 as its text has it: what an unknown creator is taken to mean.
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

/// Creators, and what they mean.
pub(super) const RULES: [HarRules; 8] = [
    // DevTools `Log.ts`. `connect` begins where the name was known, and is what the request was blocked for it: less than
    // the wire's where the connection had been begun ahead. The version is WebKit's, and says nothing.
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
    // DevTools `NetworkTimings.sys.mjs`, `har-builder.js`: whole milliseconds; 0 for what was not done, and all 0 for what
    // came out of a cache.
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
    // WebInspectorUI `HARBuilder.js`. What it writes as `send` on open connections was in `blocked` already.
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
    // chrome-har `entryFromResponse.js`: DevTools' times, without the gap between name and TCP in `connect`.
    HarRules {
        creator: "browsertime, chrome-har",
        names: &["browsertime", "sitespeed.io", "chrome-har"],
        connection: ConnectionField::Identity,
        zero: ZeroMeans::NoTime,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    // `harTracer.ts`: `send` is always 0, `time` sums `ssl` on top of the `connect` that it is in.
    HarRules {
        creator: "Playwright",
        names: &["playwright"],
        send: false,
        resolution: MICROSECOND,
        ..AS_SPECIFIED
    },
    // Ours: `docs/formats.md`.
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

/// How entries of this creator are read.
pub fn rules_for(creator: Option<&HarSpan>) -> &'static HarRules {
    let name = creator.map(|creator| creator.name.trim().to_ascii_lowercase()).unwrap_or_default();
    let known = RULES.iter().find(|rules| rules.names.contains(&&*name));
    known.unwrap_or(&RULES[RULES.len() - 1])
}

impl HarArchive {
    /// How its entries are read.
    pub fn rules(&self) -> &'static HarRules {
        rules_for(self.creator.as_ref())
    }
}
