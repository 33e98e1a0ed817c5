//! QUIC over real links: its round trips, and what makes it take more of them.

use firstbyte_core::document::SampleRecord;

use crate::support::{RTT_V4, Scene, alone, fastest};

/// Three visits to a server with these settings, over IPv4.
fn visits(server: &str) -> Vec<SampleRecord> {
    let links = r#"up = { delay = "10ms" }
down = { delay = "10ms" }"#;
    let scene = Scene::new(links);
    let source = std::fs::read_to_string(scene.file()).unwrap();
    let server =
        format!("server = {{ kind = \"builtin\", page_bytes = 2000, http3 = true{server} }}");
    let source = source.replace("server = { page_bytes = 2000 }", &server);
    std::fs::write(scene.file(), source).unwrap();
    scene.measure(&[], &["--http3-only", "-4", "-n", "3", "https://server.test/"])
}

fn first_byte(samples: &[SampleRecord]) -> u64 {
    let after_lookup = |sample: &SampleRecord| {
        let at = |mark: &str| sample.connection.marks[mark].at_ns;
        u64::try_from(at("response_start") - at("domain_lookup_end")).unwrap()
    };
    u64::try_from(fastest(samples, after_lookup).as_nanos()).unwrap()
}

/// Counted with less than a round trip of slack.
#[track_caller]
fn assert_round_trips(samples: &[SampleRecord], round_trips: u32) {
    let rtt = u64::try_from(RTT_V4.as_nanos()).unwrap();
    let took = first_byte(samples);
    assert_eq!(took / rtt, u64::from(round_trips), "{took} ns");
    assert!(samples.iter().all(|s| s.connection.split.round_trips == round_trips));
}

#[test]
fn a_handshake_and_an_exchange_are_two_round_trips() {
    let _alone = alone();
    let samples = visits("");
    assert_round_trips(&samples, 2);
    for sample in &samples {
        let quic = sample.connection.quic.as_ref().unwrap();
        assert!(!quic.retry && quic.amplification_stall_ns.is_none(), "{quic:?}");
    }
}

#[test]
fn a_retry_costs_one_more() {
    let _alone = alone();
    let samples = visits(", retry = true");
    assert_round_trips(&samples, 3);
    assert!(samples.iter().all(|sample| sample.connection.quic.as_ref().unwrap().retry));
}

#[test]
fn a_chain_over_three_times_the_clients_bytes_stalls_the_server() {
    let _alone = alone();
    let samples = visits(", chain_bytes = 12000");
    assert_round_trips(&samples, 3);
    for sample in &samples {
        let quic = sample.connection.quic.as_ref().unwrap();
        // Two datagrams of 1,200 bytes carry a post-quantum ClientHello. The server begins another
        // datagram while there is any room left: it has acknowledged the first one if the second was late.
        assert!((6_000..8_400).contains(&quic.bytes_before_validation.unwrap()), "{quic:?}");
        let stall = quic.amplification_stall_ns.unwrap();
        assert!(stall >= u64::try_from(RTT_V4.as_nanos()).unwrap() / 2, "{stall}");
    }
}
