//! Simulates visits of a network of series, changes in it, and decoys. Shared by the detector's tests.

use std::collections::BTreeMap;
use std::time::Duration;

use firstbyte_core::run::Metric;
use firstbyte_core::timeline::FailureType;
use firstbyte_monitor::detect::SeriesLabels;
use firstbyte_monitor::rollup::{Measure, MonitoredFact as Fact, MonitoredPart, Rollup};

pub(crate) const MINUTE: i64 = 60_000;
/// 1 April 2026.
pub(crate) const START: i64 = 1_775_001_600_000;

#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub(crate) rtt: f64,
    pub(crate) resolver: f64,
    pub(crate) tls13: f64,
    pub(crate) resumed: f64,
    pub(crate) chain_trips: f64,
    pub(crate) chain_bytes: u32,
    pub(crate) certificate: &'static str,
    pub(crate) group: &'static str,
    pub(crate) http: &'static str,
    pub(crate) status: &'static str,
    pub(crate) address: &'static str,
    pub(crate) handshake_server: f64,
    pub(crate) server: f64,
    pub(crate) failing: f64,
}

impl Way {
    pub(crate) fn usual() -> Self {
        Self {
            rtt: 40.0,
            resolver: 2.0,
            tls13: 0.0,
            resumed: 0.0,
            chain_trips: 0.0,
            chain_bytes: 3_000,
            certificate: "EC P-256, issued by Lab CA, until 2026-06-01",
            group: "x25519",
            http: "2",
            status: "200",
            address: "192.0.2.1",
            handshake_server: 2.0,
            server: 8.0,
            failing: 0.0,
        }
    }

    pub(crate) fn visit(&self, random: &mut fastrand::Rng) -> Rollup {
        let mut rollup = Rollup::from_count(1);
        if random.f64() < self.failing {
            rollup.failures.insert(FailureType::TcpRefused, 1);
            return rollup;
        }
        let mut vary = |ms: f64| ms * (1.0 + 0.01 * (random.f64() - 0.5)) + 0.1 * random.f64();
        let (rtt, resolver) = (vary(self.rtt), vary(self.resolver));
        let (handshake_server, server, client) =
            (vary(self.handshake_server), vary(self.server), vary(1.0));
        let new = random.f64() < self.tls13;
        let resumed = random.f64() < self.resumed;
        let mut trips = if new || resumed { 1.0 } else { 2.0 };
        trips += if resumed { 0.0 } else { self.chain_trips };
        let working = handshake_server * if resumed { 0.2 } else { 1.0 };
        let late = if random.f64() < 0.02 { 10.0 + 400.0 * random.f64() } else { 0.0 };
        let tls = trips * rtt + working + client;
        let wait = rtt + server + late;
        let mut time =
            |measure, ms: f64| rollup.add_time(measure, Duration::from_secs_f64(ms / 1e3));
        for (metric, ms) in [
            (Metric::Resolve, resolver),
            (Metric::Connect, rtt),
            (Metric::Tls, tls),
            (Metric::Wait, wait),
            (Metric::Ttfb, resolver + rtt + tls + wait),
            (Metric::Total, resolver + rtt + tls + wait),
        ] {
            time(Measure::Metric(metric), ms);
        }
        for (part, ms) in [
            (MonitoredPart::Network, (trips + 2.0) * rtt),
            (MonitoredPart::Server, working + server + late),
            (MonitoredPart::Client, client),
        ] {
            time(Measure::Part(part), ms);
        }
        time(Measure::Rtt, rtt);
        let version = if new { "TLSv1.3" } else { "TLSv1.2" };
        for (fact, value) in [
            (Fact::Address, self.address),
            (Fact::TlsVersion, version),
            (Fact::Group, self.group),
            (Fact::Handshake, if resumed { "resumed" } else { "full" }),
            (Fact::Certificate, self.certificate),
            (Fact::HttpVersion, self.http),
            (Fact::HttpStatus, self.status),
            (Fact::ChainBytes, &self.chain_bytes.to_string()),
            (Fact::RoundTrips, &(trips + 2.0).to_string()),
        ] {
            rollup.add_fact(fact, value, 1);
        }
        rollup
    }
}

/// Simulated changes, each with the fact that the event must name first.
pub(crate) const CAUSES: [(&str, &str); 8] = [
    ("version", "tls.version"),
    ("tickets", "tls.handshake"),
    ("chain", "tls.chain_bytes"),
    ("rtt", "rtt"),
    ("server", "server"),
    ("resolver", "resolver"),
    ("refused", "failure"),
    ("address", "address"),
];

/// Facts that change at the same time without affecting any time.
pub(crate) const DECOYS: [&str; 6] = ["group", "renewal", "http", "cipher", "version", "chain"];

pub(crate) fn cause(name: &str, way: &mut Way) {
    match name {
        "version" => way.tls13 = 1.0,
        "tickets" => way.resumed = 0.0,
        "chain" => (way.chain_bytes, way.chain_trips) = (19_000, 1.0),
        "rtt" => way.rtt += 20.0,
        "server" => way.server += 20.0,
        "resolver" => way.resolver += 20.0,
        "refused" => way.failing = 1.0,
        "address" => (way.address, way.rtt) = ("192.0.2.77", way.rtt + 25.0),
        _ => {}
    }
}

/// Applies a decoy that can be distinguished from `cause`: one that cannot have moved the parts that moved.
pub(crate) fn decoy(name: &str, cause: &str, way: &mut Way) -> &'static str {
    match (name, cause) {
        ("renewal", _) => {
            way.certificate = "EC P-256, issued by Lab CA, until 2026-09-01";
            "tls.certificate"
        }
        ("http", "rtt" | "resolver" | "refused" | "address") => {
            way.http = "1.1";
            "http.version"
        }
        // A longer chain that still fits into the window.
        ("chain", "rtt" | "server" | "resolver" | "refused" | "address") => {
            way.chain_bytes = 4_100;
            "tls.chain_bytes"
        }
        _ => {
            way.group = "X25519MLKEM768";
            "tls.group"
        }
    }
}

/// Two targets with four places × two address families × two variants each.
pub(crate) fn network() -> Vec<SeriesLabels> {
    let mut all = Vec::new();
    for target in ["shop", "other"] {
        for place in ["fra", "syd", "nyc", "gru"] {
            for family in ["4", "6"] {
                let tags = [("place", place), ("family", family)];
                let tags = tags.map(|(tag, value)| (tag.to_owned(), value.to_owned()));
                let id = all.len() as u64 + 1;
                all.push(SeriesLabels {
                    id,
                    target: target.to_owned(),
                    tags: BTreeMap::from(tags),
                });
            }
        }
    }
    all
}
