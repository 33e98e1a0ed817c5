//! QUIC over real links: its round trips, and conditions that add some.

use firstbyte_core::document::SampleRecord;

use crate::support::{Permits, RTT_V4, SERVER_V4, Scene, fastest, middle, phase};

/// Nine visits to a server with these settings, over IPv4: enough that other work on the machine hardly disturbs at
/// least one of them.
fn visits(server: &str) -> Vec<SampleRecord> {
    let links = r#"up = { delay = "10ms" }
down = { delay = "10ms" }"#;
    visits_over(links, server, &["-4", "-n", "9"])
}

fn visits_over(links: &str, server: &str, flags: &[&str]) -> Vec<SampleRecord> {
    let scene = Scene::new(links);
    let source = std::fs::read_to_string(scene.file()).unwrap();
    let server =
        format!("server = {{ kind = \"builtin\", page_bytes = 2000, http3 = true{server} }}");
    let source = source.replace("server = { page_bytes = 2000 }", &server);
    std::fs::write(scene.file(), source).unwrap();
    let words = [&["--http3-only"], flags, &["https://server.test/"]].concat();
    scene.measure(&[], &words)
}

/// QUIC's attempts are made one after the other. The time of the first is not client work, and the other family's
/// address was known long before it was needed.
#[test]
fn an_address_that_does_not_answer_is_fallback() {
    let _permits = Permits::one();
    let links = r#"up = { delay = "10ms" }
down = { delay = "10ms", ipv6 = { loss = "100%" } }"#;
    let samples = visits_over(links, "", &["-n", "3"]);
    for SampleRecord { connection, .. } in &samples {
        let outcomes: Vec<&str> = connection.attempts.iter().map(|a| a.outcome.as_str()).collect();
        assert_eq!(outcomes.len(), 2, "{outcomes:?}");
        assert_eq!(outcomes[1], "won");
        for lookup in &connection.lookups {
            let end = lookup.end_ns.unwrap();
            assert!(end < 500_000_000, "{} {end}", lookup.record_type);
        }
    }
    let second = std::time::Duration::from_secs(1);
    let fallback = fastest(&samples, |sample| phase(sample, "quic").unwrap().parts.fallback_ns);
    assert!(fallback >= second && fallback < second + second / 20, "{fallback:?}");
    let client = fastest(&samples, |sample| phase(sample, "quic").unwrap().parts.client_ns);
    assert!(client < second / 2, "{client:?}");
}

/// An ICMP message reports immediately that nobody listens, without waiting for the next datagram.
#[test]
fn a_refusal_takes_a_round_trip() {
    let _permits = Permits::one();
    let links = r#"up = { delay = "10ms" }
down = { delay = "10ms" }"#;
    // Nothing listens on this port of the resolver's host.
    let addresses = format!("server.test:443:192.0.2.53,{SERVER_V4}");
    let samples = visits_over(links, "", &["--resolve", &addresses]);
    let attempts = &samples[0].connection.attempts;
    let outcomes: Vec<&str> = attempts.iter().map(|a| a.outcome.as_str()).collect();
    assert_eq!(outcomes, ["failed", "won"]);
    assert!(attempts[0].error.as_ref().unwrap().starts_with("connection refused"));
    let took = attempts[0].end_ns.unwrap() - attempts[0].start_ns;
    assert!(took < 200_000_000, "{took} ns");
}

fn first_byte(samples: &[SampleRecord]) -> u64 {
    let after_lookup = |sample: &SampleRecord| {
        let at = |mark: &str| sample.connection.marks[mark].at_ns;
        u64::try_from(at("response_start") - at("domain_lookup_end")).unwrap()
    };
    u64::try_from(fastest(samples, after_lookup).as_nanos()).unwrap()
}

/// Asserts the number of round trips, with less than a round trip of slack.
#[track_caller]
fn assert_round_trips(samples: &[SampleRecord], round_trips: u32) {
    let rtt = u64::try_from(RTT_V4.as_nanos()).unwrap();
    let took = first_byte(samples);
    assert_eq!(took / rtt, u64::from(round_trips), "{took} ns");
    // A pause of the machine of half a round trip looks like a round trip.
    let undisturbed = samples.iter().min_by_key(|sample| sample.connection.total_ns).unwrap();
    assert_eq!(undisturbed.connection.split.round_trips, round_trips);
}

#[test]
fn a_handshake_and_an_exchange_are_two_round_trips() {
    let _permits = Permits::one();
    let samples = visits("");
    assert_round_trips(&samples, 2);
    for sample in &samples {
        let quic = sample.connection.quic.as_ref().unwrap();
        assert!(!quic.retry && quic.amplification_stall_ns.is_none(), "{quic:?}");
    }
}

#[test]
fn a_retry_costs_one_more() {
    let _permits = Permits::one();
    let samples = visits(", retry = true");
    assert_round_trips(&samples, 3);
    assert!(samples.iter().all(|sample| sample.connection.quic.as_ref().unwrap().retry));
}

#[test]
fn a_chain_over_three_times_the_clients_bytes_stalls_the_server() {
    let _permits = Permits::one();
    let samples = visits(", chain_bytes = 12000");
    assert_round_trips(&samples, 3);
    let mut stalls = Vec::new();
    for sample in &samples {
        let quic = sample.connection.quic.as_ref().unwrap();
        // A post-quantum ClientHello takes two datagrams of 1,200 bytes. The server begins another datagram while it
        // has any budget left: if the second datagram was late, it has already acknowledged the first.
        assert!((6_000..8_400).contains(&quic.bytes_before_validation.unwrap()), "{quic:?}");
        stalls.push(quic.amplification_stall_ns.unwrap());
    }
    assert!(middle(stalls.clone()) >= RTT_V4 / 2, "{stalls:?}");
}
