//! Invariants of any capture, however it was made.

use std::collections::HashSet;
use std::time::Duration;

use firstbyte_passive::{Doubts, Failed, Hygiene, Limits, Observed, Time};

/// Checks all connections of a capture against the counters.
pub fn hold(all: &[Observed], hygiene: &Hygiene, limits: &Limits) {
    let read = hygiene.tcp_packets
        + hygiene.udp_packets
        + hygiene.not_ip
        + hygiene.other_transports
        + hygiene.malformed
        + hygiene.cut_headers
        + hygiene.unknown_links;
    assert_eq!(read + hygiene.fragments, hygiene.frames + hygiene.reassembled, "{hygiene:?}");
    let halves = || all.iter().flat_map(|observed| [observed.sent, observed.received]);
    let packets: u64 = halves().map(|h| u64::from(h.packets) + u64::from(h.duplicates)).sum();
    assert!(packets <= hygiene.tcp_packets + hygiene.udp_packets, "{packets} packets, {hygiene:?}");
    let bytes: u64 = halves().map(|half| half.bytes).sum();
    assert!(bytes <= hygiene.wire_bytes, "{bytes} bytes of {}", hygiene.wire_bytes);
    let numbers: HashSet<u64> = all.iter().map(|observed| observed.number).collect();
    assert_eq!(numbers.len(), all.len(), "a number twice");
    for observed in all {
        one(observed, hygiene, limits);
    }
}

fn one(observed: &Observed, hygiene: &Hygiene, limits: &Limits) {
    let Some((first, last)) = hygiene.span else { panic!("a connection without a frame") };
    let within = |at: Time, what: &str| {
        assert!(at >= first && at <= last, "{what} is outside the capture: {observed:?}");
    };
    within(observed.started, "began");
    within(observed.last, "last");
    observed.opening.iter().flatten().for_each(|at| within(*at, "opening"));
    for flight in &observed.flights {
        within(flight.start, "a flight's start");
        within(flight.end, "a flight's end");
    }
    let exchanges = &observed.exchanges;
    for exchange in &exchanges.first {
        within(exchange.request_start, "request_start");
        within(exchange.request_end, "request_end");
        exchange.response_start().iter().for_each(|at| within(*at, "response_start"));
        exchange.response_end.iter().for_each(|at| within(*at, "response_end"));
    }
    if let Some(closing) = observed.closing {
        within(closing.at, "closing");
    }
    if observed.doubts.any(Doubts::UNTIMED) {
        assert!(observed.handshake_time.is_none() && exchanges.first.is_empty(), "{observed:?}");
    }
    if let Some(alert) = observed.tls.as_ref().and_then(|tls| tls.alert) {
        within(alert.at, "alert");
    }
    assert!(exchanges.first.len() <= limits.exchanges);
    if let Some(count) = exchanges.count {
        assert!(exchanges.answered <= count, "{exchanges:?}");
        assert!(exchanges.first.len() <= count as usize, "{exchanges:?}");
    }
    let span = last.since(first);
    let quic = observed.quic.as_deref();
    let trips = observed.round_trips;
    let times = [
        ("longest_idle", observed.longest_idle),
        ("server_syn", trips.server_syn),
        ("client_syn", trips.client_syn),
        ("server_min", trips.server_min),
        ("client_min", trips.client_min),
        ("limit_stall", quic.and_then(|quic| quic.limit_stall)),
        ("spin", quic.and_then(|quic| quic.spin_round_trip)),
    ];
    for (what, time) in times {
        assert!(time.unwrap_or_default() <= span, "{what} in {span:?}: {observed:?}");
    }
    if hygiene.clock_steps == 0 && hygiene.out_of_order_times == 0 {
        let most = span * exchanges.answered.max(1);
        assert!(exchanges.time <= Some(most), "exchanges of {:?}: {exchanges:?}", exchanges.time);
        // Half of the round trip lies outside of the tap's view, before and after.
        let whole = observed.handshake_time.map_or(Duration::ZERO, |time| time.total());
        assert!(whole <= span * 2, "a handshake of {whole:?} in {span:?}: {observed:?}");
    }
    if let Some(tls) = &observed.tls {
        let texts = [&tls.sni, &tls.alpn, &tls.alpn_offered];
        assert!(texts.iter().all(|text| text.as_ref().is_none_or(|text| text.len() <= 1 << 11)));
        assert!(!tls.complete || Failed::judge(observed).is_none_or(|way| way == Failed::Refused));
        assert!(!tls.resumption.declined || tls.resumption.offered.is_some(), "{observed:?}");
    }
}
