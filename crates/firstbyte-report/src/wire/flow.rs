//! `--flow`: everything known about one connection, with its sequence diagram.
//!
//! Input: an [`Observed`]. Output: text. Unknown facts have no line.

use firstbyte_core::sequence::Sequence;
use firstbyte_core::split::Split;
use firstbyte_core::timeline::SessionMechanism;
use firstbyte_passive::model;
use firstbyte_passive::{Carrier, Exchange, Observed, QuicSeen, TlsSeen, Traffic, names};

use super::connections::session;
use super::{count, counted, fit, time};
use crate::chart::{self, Figure};
use crate::equation::Ledger;
use crate::style::{Ink, Style, wrap};
use crate::{dates, sequence, units};

const LABEL: usize = 12;

/// A connection as a page of text.
pub fn flow(observed: &Observed, style: &Style) -> String {
    let connection = model::connection(observed);
    let split = Split::attribute(&connection);
    let mut text = format!("{}\n", style.paint(Ink::Strong, &style.safe(&title(observed))));
    for (label, words) in facts(observed) {
        let words: Vec<String> = words.iter().map(|word| style.safe(&style.plain(word))).collect();
        let separated = separate(&words, style);
        for line in wrap(&format!("  {label:<LABEL$}"), &separated, style.columns()) {
            text += &format!("{line}\n");
        }
    }
    let drawn = Sequence::lay_out(&connection);
    if !drawn.arrows.is_empty() {
        text.push('\n');
        text += &sequence::diagram(&drawn, style);
        let equation = Ledger::from_split(&split).lines(style);
        if !equation.is_empty() {
            text.push('\n');
            equation.iter().for_each(|line| text += &format!("{}\n", line.trim_end()));
        }
    }
    text += &exchanges(observed, style);
    text
}

/// The diagrams of several connections, each with its number.
pub fn figure(flows: &[Observed]) -> Figure {
    let named: Vec<(String, Sequence)> = flows
        .iter()
        .map(|observed| (label(observed), Sequence::lay_out(&model::connection(observed))))
        .collect();
    let columns: Vec<(&str, Sequence)> =
        named.iter().map(|(name, drawn)| (name.as_str(), drawn.clone())).collect();
    let title = match flows {
        [one] => title(one),
        many => format!("{} connections", many.len()),
    };
    chart::sequences(&title, &columns)
}

/// Label above a diagram: "7, shop.example, resumed, TLSv1.3".
pub(super) fn label(observed: &Observed) -> String {
    let tls = observed.tls.as_deref();
    let version = tls.and_then(|tls| tls.version).and_then(names::version);
    let name = fit(tls.and_then(|tls| tls.sni.as_deref()).unwrap_or_default(), 28);
    let words = [&name, session(observed), version.unwrap_or_default()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    format!("{}, {}", observed.number, words.join(", ")).trim_end_matches(", ").to_owned()
}

fn title(observed: &Observed) -> String {
    let sni = observed.tls.as_ref().and_then(|tls| tls.sni.as_deref()).unwrap_or_default();
    let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
    let carrier = observed.carrier.name();
    let title = format!("Connection {}  {sni}  {client} to {server}  {carrier}", observed.number);
    title.replace("    ", "  ")
}

/// Words with separators between them.
fn separate(words: &[String], style: &Style) -> Vec<String> {
    let last = words.len().saturating_sub(1);
    let dot = style.glyph(" ·", ",");
    let each = words.iter().enumerate();
    each.map(|(i, word)| if i < last { format!("{word}{dot}") } else { word.clone() }).collect()
}

type Line = (&'static str, Vec<String>);

fn facts(observed: &Observed) -> Vec<Line> {
    let mut lines = vec![("began", began(observed))];
    lines.push(("round trip", round_trips(observed)));
    if let Some(tls) = observed.tls.as_deref() {
        lines.extend(tls_lines(tls));
    }
    lines.push(("handshake", handshake(observed)));
    if let Some(quic) = observed.quic.as_deref() {
        lines.extend(quic_lines(quic));
    }
    lines.push(("client sent", traffic(&observed.sent, observed.carrier)));
    lines.push(("server sent", traffic(&observed.received, observed.carrier)));
    lines.push(("held back", held_back(observed)));
    lines.push(("in doubt", observed.doubts.names().map(str::to_owned).collect()));
    lines.retain(|(_, words)| !words.is_empty());
    lines
}

fn began(observed: &Observed) -> Vec<String> {
    let started = u64::try_from(observed.started.unix_ns()).ok();
    let mut words: Vec<String> = started.and_then(dates::rfc3339_micros).into_iter().collect();
    words.push(format!("{} to the last packet", time(observed.last.since(observed.started))));
    words.push(observed.ending.name().replace('-', " "));
    words.extend(observed.longest_idle.map(|idle| format!("longest silence {}", time(idle))));
    if observed.roles.name() != "opening" {
        words.push(format!("client known by: {}", observed.roles.name()));
    }
    words
}

fn round_trips(observed: &Observed) -> Vec<String> {
    let trips = &observed.round_trips;
    let mut words = Vec::new();
    words.extend(trips.path().map(time));
    words.extend(trips.client_min.map(|rtt| format!("tap to client {}", time(rtt))));
    words.extend(trips.server_min.map(|rtt| format!("tap to server {}", time(rtt))));
    words.extend(trips.tap_position().map(|place| format!("tap at {:.0} %", place * 100.0)));
    words
}

fn tls_lines(tls: &TlsSeen) -> Vec<Line> {
    let version = |number: u16| {
        names::version(number).map_or_else(|| format!("0x{number:04x}"), str::to_owned)
    };
    let size = |what: &str, bytes: u64| format!("{what} {} bytes", count(bytes));
    let mut chosen: Vec<String> = tls.version.map(version).into_iter().collect();
    chosen.extend(tls.cipher_suite.map(names::cipher_suite));
    chosen.extend(tls.group.map(names::group));
    if let (Some(client), Some(server)) =
        (tls.client_key_exchange_bytes, tls.server_key_exchange_bytes)
    {
        chosen.push(format!(
            "public values {} and {} bytes",
            count(client.into()),
            count(server.into())
        ));
    }
    chosen.extend(tls.alpn.as_ref().map(|alpn| format!("ALPN {alpn}")));
    let mut offered: Vec<String> = Vec::new();
    offered.extend(tls.version_offered.map(version));
    offered.extend(tls.alpn_offered.as_ref().map(|alpn| format!("ALPN {alpn}")));
    if tls.ech_offered {
        offered.push("Encrypted ClientHello, or GREASE".into());
    }
    offered.extend(tls.client_hello_bytes.map(|n| size("ClientHello", n.into())));
    let mut server: Vec<String> = Vec::new();
    server.extend(tls.server_flight_bytes.map(|n| size("first flight", n)));
    if let Some(chain) = tls.certificates {
        let certificates = units::count(chain.count.into(), "certificate");
        server.push(format!("{certificates}, {} bytes", count(chain.chain_bytes)));
        server.extend(chain.key.map(|key| key.name()));
    }
    if tls.client_certificate_requested {
        server.push("asks for a client certificate".into());
    }
    vec![
        ("TLS", chosen),
        ("offered", offered),
        ("server", server),
        ("session", session_words(tls)),
        ("alert", alert(tls)),
    ]
}

fn session_words(tls: &TlsSeen) -> Vec<String> {
    let resumption = &tls.resumption;
    let mut words: Vec<String> = Vec::new();
    words.extend(tls.handshake.map(|handshake| match handshake.name() {
        "full-hello-retry-request" => "full, after a HelloRetryRequest".to_owned(),
        name => name.to_owned(),
    }));
    match (resumption.offered, resumption.offered_size) {
        (Some(SessionMechanism::Psk), Some(identities)) => {
            let noun = if identities == 1 { "identity" } else { "identities" };
            words.push(format!("offered psk, {identities} {noun}"));
        }
        (Some(offered), Some(size)) => {
            words.push(format!("offered {}, {size} bytes", offered.name()));
        }
        (Some(offered), None) => words.push(format!("offered {}", offered.name())),
        (None, _) if tls.offer_is_unknown() && resumption.id_sent.is_some() => {
            words.push(
                "offer unknown: a session ID, either of an earlier session or \
                        random"
                    .into(),
            );
        }
        (None, _) if tls.offer_is_unknown() => {}
        (None, _) if tls.client_hello => words.push("none offered".into()),
        (None, _) => {}
    }
    words.extend(resumption.accepted.map(|mechanism| format!("resumed by {}", mechanism.name())));
    if resumption.declined {
        words.push("declined".into());
    }
    if let Some(early) = tls.early_data {
        let fate = match (early.bytes, early.accepted, early.inferred) {
            (0, ..) => "early data offered, none sent".to_owned(),
            (n, Some(true), true) => {
                format!("{} bytes of early data, accepted (inferred)", count(n))
            }
            (n, Some(true), false) => format!("{} bytes of early data, accepted", count(n)),
            (n, Some(false), _) => format!("{} bytes of early data, rejected", count(n)),
            (n, None, _) => format!("{} bytes of early data, outcome unknown", count(n)),
        };
        words.push(fate);
    }
    words.extend(tls.tickets.map(|n| units::count(n.into(), "ticket")));
    words.extend(
        tls.tickets_inferred.map(|n| format!("{} (inferred)", units::count(n.into(), "ticket"))),
    );
    words
}

fn alert(tls: &TlsSeen) -> Vec<String> {
    let Some(alert) = tls.alert else { return Vec::new() };
    let name = match alert.description {
        Some(number) => names::alert(number).map_or_else(|| number.to_string(), str::to_owned),
        None => "encrypted".into(),
    };
    let by = if alert.by_client { "client" } else { "server" };
    vec![format!("{name}, by the {by}")]
}

fn handshake(observed: &Observed) -> Vec<String> {
    let Some(split) = observed.handshake_time else { return Vec::new() };
    let mut words = vec![
        format!("{} =", time(split.total())),
        format!("network {} +", time(split.network)),
        format!("server {} +", time(split.server)),
        format!("client {}", time(split.client)),
    ];
    let doubt = if split.confident { "" } else { ", parts in doubt" };
    words.push(format!("({}{doubt})", units::count(split.round_trips.into(), "round trip")));
    vec![words.join(" ")]
}

fn held_back(observed: &Observed) -> Vec<String> {
    let Some(held) = observed.held_back else { return Vec::new() };
    let segments = counted(held.segments.into(), "segment");
    vec![format!(
        "the server waits for delayed acknowledgements (Nagle's algorithm): {segments}, up to {}",
        time(held.time)
    )]
}

fn quic_lines(quic: &QuicSeen) -> Vec<Line> {
    let mut words: Vec<String> = Vec::new();
    words.extend(quic.version.map(|version| format!("version {}", names::quic_version(version))));
    let first = quic.first_version;
    words.extend(first.map(|version| format!("began with {}", names::quic_version(version))));
    for (number, what) in [
        (quic.version_negotiations, "Version Negotiation"),
        (quic.retries, "Retry"),
        (quic.migrations, "changed addresses"),
    ] {
        if number > 0 {
            words.push(format!("{number} {what}"));
        }
    }
    words.extend(quic.token_bytes.map(|bytes| format!("token of {bytes} bytes")));
    if let (Some(sent), Some(limit)) = (quic.unvalidated_bytes, quic.unvalidated_limit) {
        let (sent, limit) = (count(sent), count(limit));
        words.push(format!("{sent} of {limit} bytes before the client's address was validated"));
    }
    words
        .extend(quic.limit_stall.map(|stall| format!("stopped at that limit for {}", time(stall))));
    words.extend(quic.spin_round_trip.map(|rtt| format!("spin bit {}", time(rtt))));
    vec![("QUIC", words)]
}

fn traffic(traffic: &Traffic, carrier: Carrier) -> Vec<String> {
    let unit = match carrier {
        Carrier::Tcp => "segment",
        Carrier::Quic => "datagram",
    };
    let packets = counted(traffic.packets.into(), unit);
    let mut words = vec![format!("{packets}, {}", counted(traffic.bytes, "byte"))];
    for (number, what) in [
        (u64::from(traffic.retransmitted), "sent again"),
        (u64::from(traffic.reordered), "out of order"),
        (u64::from(traffic.duplicates), "copies by the capture removed"),
        (traffic.missing_bytes, "bytes missing"),
    ] {
        if number > 0 {
            words.push(format!("{} {what}", count(number)));
        }
    }
    words
}

/// The recorded exchanges, and the number of all.
fn exchanges(observed: &Observed, style: &Style) -> String {
    let exchanges = &observed.exchanges;
    let Some(all) = exchanges.count.filter(|all| *all > 0) else { return String::new() };
    let about = if exchanges.approximate { "about " } else { "" };
    let mut text = format!(
        "\n{about}{}, {} answered",
        units::count(all.into(), "exchange"),
        count(exchanges.answered.into()),
    );
    match exchanges.time {
        Some(all) => text += &format!(", {} in total, at the tap\n", time(all)),
        None => return text + "\n",
    }
    let heading = format!(
        "  {:>4} {:>9} {:>12} {:>9} {:>12} {:>9}",
        "#", "at", "request", "waited", "response", "took"
    );
    text += &format!("{}\n", style.paint(Ink::Faint, &heading));
    for (index, exchange) in exchanges.first.iter().enumerate() {
        text += &row(index + 1, exchange, observed);
    }
    let left = (all as usize).saturating_sub(exchanges.first.len());
    if left > 0 {
        text += &format!("  and {} more that were not kept individually\n", count(left as u64));
    }
    style.plain(&text).into_owned()
}

fn row(number: usize, exchange: &Exchange, observed: &Observed) -> String {
    let waited = exchange.response_start().map(|start| time(start.since(exchange.request_end)));
    let took = exchange.response_end.map(|end| time(end.since(exchange.request_start)));
    let answer =
        exchange.response_first_packet.map(|_| format!("{} B", count(exchange.response_bytes)));
    let line = format!(
        "  {number:>4} {:>9} {:>12} {:>9} {:>12} {:>9}",
        time(exchange.request_start.since(observed.started)),
        format!("{} B", count(exchange.request_bytes)),
        waited.unwrap_or_default(),
        answer.unwrap_or_default(),
        took.unwrap_or_default(),
    );
    format!("{}\n", line.trim_end())
}
