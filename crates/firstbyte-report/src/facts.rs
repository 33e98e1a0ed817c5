//! The facts of a sample: negotiated, proven and counted properties, each on a labelled line.

use std::time::Duration;

use firstbyte_core::split::Split;
use firstbyte_core::timeline::{
    Attempt, AttemptOutcome, Connection, DnsTransport, EarlyData, Handshake, Lookup, LookupTry,
    Mark, Offset, Sample, Stamp, TlsFacts,
};

use super::dates;
use super::study::panel_time;
use super::style::{Ink, Style, wrap};
use super::units::{Scale, bytes, count};
use firstbyte_core::shown_url::shown_url;

/// Maximum number of characters shown of a header field.
const LONGEST_VALUE: usize = 60;
const LABEL_WIDTH: usize = 12;
/// Shorter times do not get a clause.
const WHILE: Duration = Duration::from_millis(1);

/// All known facts, as lines.
pub(crate) fn lines(sample: &Sample, split: &Split, style: &Style) -> Vec<String> {
    let connection = &sample.connection;
    let mut facts = Facts { style, lines: Vec::new() };
    facts.redirects(sample);
    facts.client(connection);
    facts.proxy(connection);
    facts.address(connection);
    facts.round_trip(connection, split);
    if let Some(tls) = &connection.facts.tls {
        facts.tls(tls, connection.started_unix_ns);
    }
    facts.tcp(connection);
    facts.quic(connection);
    facts.first_byte(connection, split);
    facts.sizes(connection);
    facts.lookups(&connection.lookups);
    facts.attempts(&connection.attempts);
    facts.clocks(connection);
    facts.lines
}

struct Facts<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Facts<'_> {
    /// Adds one labelled line of `words`, wrapped after the label. The words are sanitised here.
    fn put(&mut self, label: &str, words: &[String]) {
        let words: Vec<String> = words
            .iter()
            .filter(|word| !word.is_empty())
            .map(|word| self.style.safe(word))
            .collect();
        if words.is_empty() {
            return;
        }
        let label = format!("{label:<LABEL_WIDTH$}");
        for line in wrap(&label, &words, self.style.columns()) {
            let (head, tail) = line.split_at(LABEL_WIDTH);
            self.lines.push(format!("{}{tail}", self.style.paint(Ink::Faint, head)));
        }
    }

    /// Adds clauses with separators between them.
    fn clauses(&mut self, label: &str, clauses: Vec<String>) {
        let separator = self.style.glyph(" ·", ",");
        let clauses: Vec<String> = clauses.into_iter().filter(|c| !c.is_empty()).collect();
        let last = clauses.len().saturating_sub(1);
        let words: Vec<String> = clauses
            .into_iter()
            .enumerate()
            .map(|(i, clause)| if i == last { clause } else { clause + separator })
            .collect();
        self.put(label, &words);
    }

    fn redirects(&mut self, sample: &Sample) {
        for (i, hop) in sample.redirects.iter().enumerate() {
            let split = Split::attribute(hop);
            let http = hop.facts.http.as_ref();
            let status = http.and_then(|h| h.status).map(|s| s.to_string()).unwrap_or_default();
            let mut words = vec![
                time(split.total(), self.style),
                format!("({})", count(u64::from(split.round_trips), "round trip")),
                status,
                shown_url(&hop.url),
            ];
            if let Some(to) = http.and_then(|h| h.header("location")) {
                let to = shown_url(to);
                words.push(format!("{} {to}", self.style.glyph("→", "->")));
            }
            self.put(if i == 0 { "redirects" } else { "" }, &words);
        }
    }

    /// Names the client, if it is not ours.
    fn client(&mut self, connection: &Connection) {
        let Some(client) = &connection.facts.client else { return };
        let version = client.version.as_deref().unwrap_or_default();
        let library = client.tls_library.clone().unwrap_or_default();
        self.clauses("client", vec![format!("{} {version}", client.name), library]);
        let panel = connection.facts.panel.iter();
        self.clauses("panel", panel.map(|time| panel_time(&time.label, time.took)).collect());
    }

    fn proxy(&mut self, connection: &Connection) {
        const NOTE: &str =
            "round trips are those to the proxy; all time behind it counts as server";
        let Some(proxy) = &connection.facts.proxy else { return };
        let tunnel = match (proxy.tunnel, proxy.kind.is_http(), proxy.status) {
            (false, ..) => "no tunnel: it forwards the request".to_owned(),
            (true, true, Some(status)) => format!("tunnel by CONNECT: {status}"),
            (true, true, None) => "tunnel by CONNECT".to_owned(),
            (true, false, _) => "tunnel by SOCKS".to_owned(),
        };
        self.clauses("proxy", vec![proxy.to_string(), tunnel]);
        self.put("", &NOTE.split(' ').map(String::from).collect::<Vec<_>>());
    }

    fn address(&mut self, connection: &Connection) {
        let Some(remote) = connection.facts.remote else { return };
        let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
        let local = connection.facts.local.map(|a| format!("from {a}")).unwrap_or_default();
        self.clauses("address", vec![format!("{remote} ({family})"), local]);
    }

    fn round_trip(&mut self, connection: &Connection, split: &Split) {
        let Some(rtt) = split.rtt else { return };
        let tcp = connection.facts.tcp.as_ref();
        let syn = tcp.and_then(|t| t.syn_rtt);
        let min = tcp.and_then(|t| t.min_rtt);
        let source = if syn == Some(rtt) {
            "SYN exchange"
        } else if min == Some(rtt) {
            "kernel's minimum"
        } else {
            "shortest exchange seen"
        };
        let also = |name: &str, value: Option<Duration>| match value {
            Some(value) if value != rtt => format!("{name} {}", time(value, self.style)),
            _ => String::new(),
        };
        let spread = split.rtt_spread.filter(|s| !s.is_zero());
        let clauses = vec![
            format!("{} ({source})", time(rtt, self.style)),
            also("SYN exchange", syn),
            also("kernel's minimum", min),
            spread.map(|s| format!("varied by {}", time(s, self.style))).unwrap_or_default(),
        ];
        self.clauses("round trip", clauses);
    }

    /// The interim response, the first packet and the end of the head, if they came 1 ms or more before or after
    /// the head's first byte could be read; and a note if the response came too early to be an answer.
    fn first_byte(&mut self, connection: &Connection, split: &Split) {
        let at = |mark| connection.marks.at(mark);
        let Some(readable) = at(Mark::ResponseStart) else { return };
        let earlier = |name: &str, mark| {
            let before = at(mark).filter(|before| readable.since(*before) >= WHILE);
            before.map(|at| format!("{name} at {}", time(at.since(Offset::ZERO), self.style)))
        };
        let interim = earlier("interim response", Mark::InterimResponseStart);
        let packet = earlier("first packet", Mark::ResponseFirstPacket);
        let head = format!("head readable at {}", time(readable.since(Offset::ZERO), self.style));
        let http = connection.facts.http.as_ref();
        let took = http.and_then(|http| http.head_took).filter(|took| *took >= WHILE);
        let complete = took.map(|took| {
            let at = time((readable + took).since(Offset::ZERO), self.style);
            format!("head complete at {at}")
        });
        let mut clauses: Vec<String> = interim.into_iter().chain(packet).collect();
        if !clauses.is_empty() || complete.is_some() {
            clauses.push(head);
        }
        clauses.extend(complete);
        let exchange = connection.marks.first_packet_of_response().zip(at(Mark::RequestStart));
        let came_unasked = exchange.zip(split.rtt).is_some_and(|((came, asked), round_trip)| {
            // Allow for variation: the round trip was measured at another time.
            connection.facts.client.is_none() && came <= asked + round_trip * 3 / 4
        });
        if came_unasked {
            clauses.push("answered before it was asked".to_owned());
        }
        self.clauses("first byte", clauses);
    }

    fn tls(&mut self, tls: &TlsFacts, started_unix_ns: Option<u64>) {
        let handshake = tls.handshake.map(|h| match h {
            Handshake::Full => "full handshake".to_owned(),
            Handshake::FullWithHelloRetryRequest => {
                "full handshake with HelloRetryRequest".to_owned()
            }
            Handshake::Resumed => "resumed".to_owned(),
        });
        let tickets = tls.tickets_received.filter(|n| *n > 0);
        let clauses = [
            tls.version.clone(),
            tls.cipher_suite.clone(),
            tls.group.clone(),
            handshake,
            tls.early_data.map(|early| early_data(&early)),
            (tls.early_data_allowed == Some(false))
                .then(|| "the session does not allow early data".to_owned()),
            tls.alpn.as_ref().map(|alpn| format!("ALPN {alpn}")),
            tickets.map(|n| count(u64::from(n), "session ticket")),
        ];
        self.clauses("tls", clauses.into_iter().flatten().collect());
        let (Some(leaf), Some(chain)) = (tls.certificates.first(), tls.certificate_chain_bytes())
        else {
            return;
        };
        let verified = match tls.verified {
            Some(true) => "verified",
            Some(false) => "not verified",
            None => "",
        };
        let n = tls.certificates.len() as u64;
        let clauses = vec![count(n, "certificate"), bytes(chain), verified.into()];
        self.clauses("chain", clauses);
        let expiry = leaf.not_after_unix.map(|at| expiry(at, started_unix_ns)).unwrap_or_default();
        self.clauses("leaf", vec![leaf.subject.clone(), leaf.key.clone(), expiry]);
        self.put("issuer", std::slice::from_ref(&leaf.issuer));
    }

    /// QUIC features beyond the exchange itself, and stalls by name.
    fn quic(&mut self, connection: &Connection) {
        let Some(quic) = &connection.facts.quic else { return };
        let stall = quic.amplification_stall.map(|stall| {
            let stood = time(stall, self.style);
            format!("server stopped for {stood} at 3 times the bytes it had received")
        });
        let lost = quic.lost_packets.filter(|lost| *lost > 0);
        self.clauses(
            "quic",
            vec![
                quic.version.as_ref().map(|v| format!("version {v}")).unwrap_or_default(),
                quic.datagrams_sent.zip(quic.datagrams_received).map_or_else(
                    String::new,
                    |(sent, received)| {
                        let sent = count(u64::from(sent), "datagram");
                        format!("{sent} sent, {received} received")
                    },
                ),
                lost.map(|lost| format!("{} lost", count(lost, "packet"))).unwrap_or_default(),
                if quic.retry { "address validated by Retry".into() } else { String::new() },
                stall.unwrap_or_default(),
            ],
        );
    }

    fn tcp(&mut self, connection: &Connection) {
        let Some(tcp) = &connection.facts.tcp else { return };
        let clauses = [
            tcp.retransmits.map(|n| count(u64::from(n), "retransmit")),
            tcp.congestion_control.clone(),
            tcp.send_mss.map(|mss| format!("segments of {}", bytes(u64::from(mss)))),
            tcp.receive_window_limited.filter(|limited| *limited >= WHILE).map(|limited| {
                let ms = limited.as_millis();
                format!("the server's receive window was full for about {ms} ms")
            }),
        ];
        self.clauses("tcp", clauses.into_iter().flatten().collect());
    }

    fn sizes(&mut self, connection: &Connection) {
        let Some(http) = &connection.facts.http else { return };
        let clauses = [
            http.request_bytes.map(|n| format!("request {}", bytes(n))),
            http.header_bytes.map(|n| format!("response headers {}", bytes(n))),
            http.body_bytes.map(|n| format!("body {}", bytes(n))),
            http.decoded_bytes.map(|n| format!("decoded {}", bytes(n))),
            http.undecoded_bytes.map(|n| format!("{} behind the coded body ignored", bytes(n))),
            http.upload_sent_bytes.zip(http.upload_bytes).map(|(sent, all)| {
                format!("answered before the upload ended: {} of {} sent", bytes(sent), bytes(all))
            }),
            http.may_be_cut_short.then(|| {
                "ended without close_notify and without an announced length; it may be cut short"
                    .to_owned()
            }),
        ];
        self.clauses("http", clauses.into_iter().flatten().collect());
        let told = ["age", "x-cache", "server-timing"].into_iter().filter_map(|name| {
            let value: String = http.header(name)?.chars().take(LONGEST_VALUE).collect();
            Some(format!("{name} {}", self.style.safe(&value)))
        });
        self.clauses("response", told.collect());
    }

    fn lookups(&mut self, lookups: &[Lookup]) {
        for (i, lookup) in lookups.iter().enumerate() {
            let took = lookup.end.map(|end| time(end.since(lookup.start), self.style));
            let mut words = vec![
                format!("{:<4}", lookup.record_type.name()),
                took.unwrap_or_else(|| "not waited for".into()),
            ];
            if lookup.end.is_some() {
                words.push(self.style.glyph("→", "->").into());
            }
            match &lookup.error {
                Some(error) => words.push(error.clone()),
                None if lookup.end.is_none() => {}
                None if lookup.addresses.is_empty() => words.push("no address".into()),
                None => words.extend(lookup.addresses.iter().map(ToString::to_string)),
            }
            let only = match &lookup.tries[..] {
                [only] if only.end.is_some() => Some(only),
                _ => None,
            };
            words.extend(only.map(|only| format!("from {}", only.server)));
            self.put(if i == 0 { "dns" } else { "" }, &words);
            if only.is_none() {
                self.tries(&lookup.tries);
            }
        }
    }

    /// Adds one line per query sent.
    fn tries(&mut self, tries: &[LookupTry]) {
        for one in tries {
            let transport = match one.transport {
                DnsTransport::Udp => "",
                DnsTransport::Tcp => " over TCP",
            };
            let took = one.end.map(|end| time(end.since(one.start), self.style));
            let outcome = match (&one.error, took) {
                (_, None) => "had not answered".to_owned(),
                (None, Some(took)) => format!("answered after {took}"),
                (Some(error), Some(took)) => format!("{error} after {took}"),
            };
            self.put("", &[" ".repeat(4), format!("{}{transport}", one.server), outcome]);
        }
    }

    /// Address attempts, shown only if there was more than the successful one.
    fn attempts(&mut self, attempts: &[Attempt]) {
        if let [only] = attempts
            && only.outcome == AttemptOutcome::Won
        {
            return;
        }
        let first = attempts.first().map_or(Offset::ZERO, |a| a.start);
        for (i, attempt) in attempts.iter().enumerate() {
            let took = attempt.end.map(|end| time(end.since(attempt.start), self.style));
            let after = took.map(|t| format!("after {t}")).unwrap_or_default();
            let outcome = match &attempt.outcome {
                AttemptOutcome::Won => format!("connected {after}"),
                AttemptOutcome::Lost => format!("given up {after}"),
                AttemptOutcome::Failed { error } => format!("failed {after}: {error}"),
            };
            let begun = match i {
                0 => String::new(),
                _ => format!("begun {} later", time(attempt.start.since(first), self.style)),
            };
            self.clauses(
                if i == 0 { "attempts" } else { "" },
                vec![attempt.remote.to_string(), begun, outcome],
            );
        }
    }

    fn clocks(&mut self, connection: &Connection) {
        use firstbyte_core::timeline::Clock::{Kernel, KernelDerived, Simulated, User};
        let stamps: Vec<Stamp> =
            connection.flights.iter().flat_map(|f| &f.chunks).map(|c| c.stamp).collect();
        let stamped = |clock| stamps.iter().filter(|s| s.clock == clock).count();
        let flights = count(connection.flights.len() as u64, "flight");
        let (kernel, user) = (stamped(Kernel) + stamped(KernelDerived), stamped(User));
        let words = match (kernel, user) {
            (0, 0) if stamped(Simulated) > 0 => format!("{flights}, simulated"),
            (0, 0) => match stamps.iter().filter_map(|stamp| stamp.clock.resolution()).max() {
                Some(steps) => {
                    format!(
                        "{flights}, as reported by the client, in steps of {}",
                        time(steps, self.style)
                    )
                }
                None => return,
            },
            (_, 0) => format!("{flights}, all stamped by the kernel"),
            (0, _) => format!("{flights}, all timed in user space"),
            (k, u) => {
                format!("{flights}: {k} stamps by the kernel, {u} taken in user space")
            }
        };
        self.put("clock", &[words]);
    }
}

/// "expires 2026-12-31, 41 days later": relative to the sample's time, so that the output is reproducible.
fn expiry(not_after_unix: i64, started_unix_ns: Option<u64>) -> String {
    let Some(date) = dates::date(not_after_unix) else { return String::new() };
    let Some(started) = started_unix_ns.and_then(|ns| i64::try_from(ns / 1_000_000_000).ok())
    else {
        return format!("expires {date}");
    };
    let days = (not_after_unix - started).div_euclid(86_400);
    match u64::try_from(days) {
        Ok(days) => format!("expires {date} (in {})", count(days, "day")),
        Err(_) => format!("expired {date}"),
    }
}

/// A single time, in a suitable unit.
fn time(duration: Duration, style: &Style) -> String {
    Scale::for_largest(duration).time(duration, style)
}

/// "early data 312 bytes, accepted"
fn early_data(early: &EarlyData) -> String {
    let outcome = match early.accepted {
        Some(true) => ", accepted",
        Some(false) => ", rejected",
        None => "",
    };
    let bytes = early.bytes_before_server_hello;
    let bytes = bytes.map_or_else(String::new, |bytes| format!(" {bytes} bytes"));
    format!("early data{bytes}{outcome}")
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn a_full_receive_window_is_told_in_whole_milliseconds() {
        let mut sample = fixtures::plain_http();
        let tcp = sample.connection.facts.tcp.as_mut().unwrap();
        tcp.receive_window_limited = Some(Duration::from_micros(12_345));
        let split = Split::attribute(&sample.connection);
        let text = lines(&sample, &split, &Style::default()).join("\n");
        assert!(text.contains("the server's receive window was full for about 12 ms"), "{text}");
    }

    #[test]
    fn an_answer_that_nobody_asked_for_yet_is_told() {
        const SAID: &str = "first byte  answered before it was asked";
        for (came_us, expected) in [(20_590, true), (41_100, false)] {
            let mut sample = fixtures::plain_http();
            let came = fixtures::kernel(came_us);
            for mark in [Mark::ResponseStart, Mark::ResponseEnd] {
                sample.connection.marks.set(mark, came);
            }
            sample.connection.flights[1].chunks[0].stamp = came;
            let split = Split::attribute(&sample.connection);
            let lines = lines(&sample, &split, &Style::default());
            assert_eq!(lines.iter().any(|line| line == SAID), expected, "{came_us}: {lines:?}");
        }
    }
}
