//! Metrics of a live capture for Prometheus (text exposition format 0.0.4).
//!
//! Input: [`Observed`] connections and [`Hygiene`]. Output: text. Names and meanings are in `docs/formats.md`. The
//! number of servers with their own labels is bounded, because clients choose the names in hellos.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::stats::ExponentialHistogram;
use firstbyte_core::timeline::FailureType;
use firstbyte_core::timeline::Handshake;
use firstbyte_passive::{Failed, Hygiene, Observed, Roles};

/// Maximum number of servers with their own labels; later ones are counted together.
pub const MOST_SERVERS: usize = 100;
/// Upper bounds of the exported buckets, in microseconds and as text in seconds.
///
/// They are round, because users ask for shares such as "below 100 ms". Counts include the histogram's whole bucket
/// around a bound, up to 0.54 % above it.
const BOUNDS: [(u64, &str); 16] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];
const SESSIONS: [&str; 3] = ["full", "full-hello-retry-request", "resumed"];
const SIDES: [&str; 2] = ["client", "server"];

/// Counts and histograms since the capture began.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    hygiene: Hygiene,
    live: usize,
    servers: HashMap<String, usize>,
    series: Vec<Server>,
}

/// Data about one server.
#[derive(Clone, Debug, Default)]
struct Server {
    /// Its labels in the output format.
    labels: String,
    connections: u64,
    doubtful: u64,
    handshakes: [u64; 3],
    offered: u64,
    declined: u64,
    early_data: u64,
    early_data_accepted: u64,
    /// Indexed like [`Failed::TYPES`].
    failures: [u64; Failed::TYPES.len()],
    retransmitted: [u64; 2],
    bytes: [u64; 2],
    exchanges: u64,
    handshake: [ExponentialHistogram; 3],
    server_time: [ExponentialHistogram; 3],
    round_trip: [ExponentialHistogram; 2],
    exchange: ExponentialHistogram,
}

impl Metrics {
    /// Updates the totals read so far, and the number of connections in progress.
    pub const fn update(&mut self, hygiene: Hygiene, live: usize) {
        self.hygiene = hygiene;
        self.live = live;
    }

    /// Adds a finished connection.
    pub fn add(&mut self, observed: &Observed) {
        let labels = labels(observed);
        let place = match self.servers.get(&labels) {
            Some(place) => *place,
            None => self.place(labels),
        };
        if let Some(server) = self.series.get_mut(place) {
            server.add(observed);
        }
    }

    /// Index for a new server: its own, or the shared one for the rest.
    fn place(&mut self, labels: String) -> usize {
        let other = r#"carrier="other",server="other",sni="""#;
        let full = self.servers.len() >= MOST_SERVERS;
        let labels = if full { other.to_owned() } else { labels };
        if let Some(place) = self.servers.get(&labels) {
            return *place;
        }
        self.series.push(Server { labels: labels.clone(), ..Server::default() });
        self.servers.insert(labels, self.series.len() - 1);
        self.series.len() - 1
    }

    /// All metrics as text.
    pub fn text(&self) -> String {
        let mut text = Text::default();
        self.capture(&mut text);
        self.counters(&mut text);
        self.histograms(&mut text);
        text.0
    }

    fn capture(&self, text: &mut Text) {
        let hygiene = &self.hygiene;
        text.counter("frames", "Frames captured that pass the filter.");
        text.value("frames_total", "", hygiene.frames);
        text.counter(
            "frames_dropped",
            "Frames that the kernel dropped because the buffer was \
                                        full.",
        );
        text.value("frames_dropped_total", "", hygiene.dropped.unwrap_or(0));
        text.counter("frame_bytes", "Bytes of frames on the wire.");
        text.value("frame_bytes_total", "", hygiene.wire_bytes);
        text.counter("packets", "Packets by transport.");
        text.value("packets_total", r#"transport="tcp""#, hygiene.tcp_packets);
        text.value("packets_total", r#"transport="udp""#, hygiene.udp_packets);
        text.counter("duplicates", "Copies of packets made by the capture, removed.");
        text.value("duplicates_total", "", hygiene.duplicates);
        text.counter("evictions", "Connections dropped before their end.");
        for (reason, number) in [
            ("too-many", hygiene.evicted),
            ("half-open", hygiene.half_open_evicted),
            ("idle", hygiene.idle),
        ] {
            text.value("evictions_total", &format!("reason=\"{reason}\""), number);
        }
        text.head("open_connections", "gauge", "Open connections.");
        text.value("open_connections", "", self.live as u64);
    }

    fn counters(&self, text: &mut Text) {
        let mut plain = |name: &str, help, of: fn(&Server) -> u64| {
            text.counter(name, help);
            for server in &self.series {
                text.value(&format!("{name}_total"), &server.labels, of(server));
            }
        };
        plain("connections", "Finished connections.", |s| s.connections);
        plain("doubtful_connections", "Finished connections with a doubtful figure.", |s| {
            s.doubtful
        });
        plain("sessions_offered", "ClientHellos that offered a session.", |s| s.offered);
        plain(
            "sessions_declined",
            "Sessions offered and declined: a full handshake \
                                    followed.",
            |s| s.declined,
        );
        plain("early_data_sent", "Connections that sent early data.", |s| s.early_data);
        plain("early_data_accepted", "Connections whose early data was accepted.", |s| {
            s.early_data_accepted
        });
        plain("exchanges", "Answered exchanges.", |s| s.exchanges);
        let mut parted = |name: &str, help, label: &str, values: &[&str], of: Parted| {
            text.counter(name, help);
            for server in &self.series {
                for (value, number) in values.iter().zip(of(server)) {
                    let labels = format!("{},{label}=\"{value}\"", server.labels);
                    text.value(&format!("{name}_total"), &labels, *number);
                }
            }
        };
        parted("handshakes", "Handshakes by session.", "session", &SESSIONS, |s| &s.handshakes);
        let types = Failed::TYPES.map(FailureType::as_str);
        let failures = "Failed connections, by Network Error Logging type.";
        parted("errors", failures, "error", &types, |s| &s.failures);
        let retransmitted = "Retransmitted segments, by sender.";
        parted("retransmitted_segments", retransmitted, "by", &SIDES, |s| &s.retransmitted);
        parted("payload_bytes", "Payload bytes, by sender.", "by", &SIDES, |s| &s.bytes);
    }

    fn histograms(&self, text: &mut Text) {
        let of_sessions: [(&str, &str, BySession); 2] = [
            ("handshake_seconds", "Duration of handshakes whose parts are certain.", |s| {
                &s.handshake
            }),
            ("handshake_server_seconds", "The server's part of these handshakes.", |s| {
                &s.server_time
            }),
        ];
        for (name, help, of) in of_sessions {
            text.head(name, "histogram", help);
            for server in &self.series {
                for (session, histogram) in SESSIONS.iter().zip(of(server)) {
                    let labels = format!("{},session=\"{session}\"", server.labels);
                    text.histogram(name, &labels, histogram);
                }
            }
        }
        let help = "Smallest round trip between the tap and the client or server.";
        text.head("round_trip_seconds", "histogram", help);
        for server in &self.series {
            for (side, histogram) in SIDES.iter().zip(&server.round_trip) {
                let labels = format!("{},side=\"{side}\"", server.labels);
                text.histogram("round_trip_seconds", &labels, histogram);
            }
        }
        let help = "From a request's first byte to its response's last byte.";
        text.head("exchange_seconds", "histogram", help);
        for server in &self.series {
            text.histogram("exchange_seconds", &server.labels, &server.exchange);
        }
    }
}

type Parted = fn(&Server) -> &[u64];
type BySession = fn(&Server) -> &[ExponentialHistogram; 3];

impl Server {
    fn add(&mut self, observed: &Observed) {
        self.connections += 1;
        self.doubtful += u64::from(!observed.doubts.is_empty());
        self.exchanges += u64::from(observed.exchanges.answered);
        for (side, traffic) in [observed.sent, observed.received].into_iter().enumerate() {
            self.retransmitted[side] += u64::from(traffic.retransmitted);
            self.bytes[side] += traffic.bytes;
        }
        if let Some(failed) = Failed::judge(observed) {
            let failure_type = failed.failure_type(observed);
            if let Some(place) = Failed::TYPES.iter().position(|known| *known == failure_type) {
                self.failures[place] += 1;
            }
        }
        let sides = [observed.round_trips.client_min, observed.round_trips.server_min];
        for (histogram, time) in self.round_trip.iter_mut().zip(sides) {
            time.into_iter().for_each(|time| histogram.add(time));
        }
        for exchange in &observed.exchanges.first {
            if let Some(end) = exchange.response_end {
                self.exchange.add(end.since(exchange.request_start));
            }
        }
        let Some(tls) = &observed.tls else { return };
        self.offered += u64::from(tls.resumption.offered.is_some());
        self.declined += u64::from(tls.resumption.declined);
        if let Some(early) = &tls.early_data {
            self.early_data += u64::from(early.bytes > 0);
            self.early_data_accepted += u64::from(early.accepted == Some(true));
        }
        let session = match tls.handshake {
            Some(Handshake::Full) => 0,
            Some(Handshake::FullWithHelloRetryRequest) => 1,
            Some(Handshake::Resumed) => 2,
            None => return,
        };
        self.handshakes[session] += 1;
        if let Some(time) = observed.handshake_time.filter(|time| time.confident) {
            self.handshake[session].add(time.total());
            self.server_time[session].add(time.server);
        }
    }
}

/// Labels of a connection's server.
fn labels(observed: &Observed) -> String {
    let carrier = observed.carrier.name();
    let server = match observed.roles {
        Roles::Unknown => "unknown".to_owned(),
        Roles::Opening | Roles::Hello => observed.server.socket_addr().to_string(),
    };
    let sni = observed.tls.as_ref().and_then(|tls| tls.sni.as_deref()).unwrap_or_default();
    let sni: String = match observed.roles {
        Roles::Unknown => String::new(),
        Roles::Opening | Roles::Hello => escaped(sni),
    };
    format!("carrier=\"{carrier}\",server=\"{server}\",sni=\"{sni}\"")
}

/// Escapes a label's value: backslashes, quotes and line feeds.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Lines in the exposition format.
#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP firstbyte_wire_{name} {help}");
        let _ = writeln!(self.0, "# TYPE firstbyte_wire_{name} {kind}");
    }

    /// Writes the header of a counter, whose name ends in `_total`.
    fn counter(&mut self, name: &str, help: &str) {
        self.head(&format!("{name}_total"), "counter", help);
    }

    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ = match labels {
            "" => writeln!(self.0, "firstbyte_wire_{name} {value}"),
            _ => writeln!(self.0, "firstbyte_wire_{name}{{{labels}}} {value}"),
        };
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &ExponentialHistogram) {
        if histogram.count() == 0 {
            return;
        }
        for (bound, written) in BOUNDS {
            let bucket = format!("{labels},le=\"{written}\"");
            let number = histogram.count_up_to(Duration::from_micros(bound));
            self.value(&format!("{name}_bucket"), &bucket, number);
        }
        let (all, sum) = (histogram.count(), histogram.sum_ns());
        self.value(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), all);
        let (whole, part) = (sum / 1_000_000_000, sum % 1_000_000_000);
        let _ = writeln!(self.0, "firstbyte_wire_{name}_sum{{{labels}}} {whole}.{part:09}");
        self.value(&format!("{name}_count"), labels, all);
    }
}

#[cfg(test)]
mod tests;
