use std::time::Duration;

use firstbyte_core::timeline::{Handshake, SessionMechanism};
use firstbyte_passive::layers::Endpoint;
use firstbyte_passive::{
    Carrier, Doubts, Ending, Exchanges, HandshakeTime, Hygiene, Observed, Resumption, Roles,
    RoundTrips, Time, TlsSeen, Traffic,
};

use super::{MOST_SERVERS, Metrics};

fn observed(sni: &str, handshake: Handshake) -> Observed {
    let ms = Duration::from_millis;
    let at = |ms: i64| Time::from_unix_ns(ms * 1_000_000);
    let offered = (handshake == Handshake::Resumed).then_some(SessionMechanism::Psk);
    Observed {
        number: 1,
        carrier: Carrier::Tcp,
        client: Endpoint::new([192, 0, 2, 1].into(), 40_000),
        server: Endpoint::new([198, 51, 100, 1].into(), 443),
        roles: Roles::Opening,
        started: at(0),
        last: at(90),
        opening: [Some(at(0)), Some(at(9)), Some(at(10))],
        ending: Ending::Closed,
        closing: None,
        sent: Traffic { packets: 5, bytes: 700, retransmitted: 1, ..Traffic::default() },
        received: Traffic { packets: 5, bytes: 5_000, ..Traffic::default() },
        round_trips: RoundTrips {
            server_min: Some(ms(9)),
            client_min: Some(Duration::from_micros(100)),
            ..RoundTrips::default()
        },
        tls: Some(Box::new(TlsSeen {
            sni: Some(sni.into()),
            handshake: Some(handshake),
            resumption: Resumption { offered, accepted: offered, ..Resumption::default() },
            complete: true,
            ..TlsSeen::default()
        })),
        quic: None,
        held_back: None,
        handshake_time: Some(HandshakeTime {
            network: ms(10),
            server: ms(2),
            client: ms(1),
            round_trips: 1,
            confident: true,
        }),
        flights: Vec::new(),
        exchanges: Exchanges::default(),
        longest_idle: Some(ms(1)),
        doubts: Doubts::NONE,
    }
}

#[test]
fn two_connections_as_text() {
    let mut metrics = Metrics::default();
    metrics.add(&observed("shop.example", Handshake::Full));
    metrics.add(&observed("shop.example", Handshake::Resumed));
    let hygiene = Hygiene { frames: 20, tcp_packets: 20, dropped: Some(3), ..Hygiene::default() };
    metrics.update(hygiene, 4);
    let text = metrics.text();
    let server = r#"carrier="tcp",server="198.51.100.1:443",sni="shop.example""#;
    for line in [
        "firstbyte_wire_frames_dropped_total 3".to_owned(),
        "firstbyte_wire_open_connections 4".to_owned(),
        format!("firstbyte_wire_connections_total{{{server}}} 2"),
        format!("firstbyte_wire_handshakes_total{{{server},session=\"resumed\"}} 1"),
        format!("firstbyte_wire_sessions_offered_total{{{server}}} 1"),
        format!(
            "firstbyte_wire_handshake_seconds_bucket{{{server},session=\"full\",le=\"0.01\"}} 0"
        ),
        format!(
            "firstbyte_wire_handshake_seconds_bucket{{{server},session=\"full\",le=\"0.025\"}} 1"
        ),
        format!("firstbyte_wire_handshake_seconds_sum{{{server},session=\"full\"}} 0.013000000"),
        // A bucket includes its bound.
        format!(
            "firstbyte_wire_round_trip_seconds_bucket{{{server},side=\"client\",le=\"0.0001\"}} 2"
        ),
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
    insta::assert_snapshot!("two_connections", text);
}

#[test]
fn every_line_belongs_to_the_metric_that_was_headed() {
    let mut metrics = Metrics::default();
    metrics.add(&observed("shop.example", Handshake::FullWithHelloRetryRequest));
    let mut name = String::new();
    for line in metrics.text().lines() {
        if let Some(head) = line.strip_prefix("# TYPE ") {
            name = head.split(' ').next().unwrap().to_owned();
        } else if !line.starts_with('#') {
            let metric = line.split(['{', ' ']).next().unwrap();
            let of = metric.strip_prefix(name.as_str());
            assert!(
                of.is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest)),
                "{line} under {name}"
            );
        }
    }
}

#[test]
fn names_that_clients_choose_are_bounded_and_escaped() {
    let mut metrics = Metrics::default();
    for number in 0..2 * MOST_SERVERS {
        metrics.add(&observed(&format!("s{number}.example"), Handshake::Full));
    }
    let text = metrics.text();
    let series = text.lines().filter(|l| l.starts_with("firstbyte_wire_connections_total{"));
    assert_eq!(series.count(), MOST_SERVERS + 1);
    let others = r#"firstbyte_wire_connections_total{carrier="other",server="other",sni=""}"#;
    assert!(text.contains(&format!("{others} {MOST_SERVERS}\n")), "{text}");
    let mut metrics = Metrics::default();
    metrics.add(&observed("a\"b\\c\nd", Handshake::Full));
    assert!(metrics.text().contains(r#"sni="a\"b\\c\nd""#));
}
