//! TCP's delayed acknowledgements and retransmission timeouts, which a scenario sets for each host.

use std::io::{Read, Write};
use std::net::TcpStream;

use firstbyte_lab::{LabOptions, ServerChoice};

use crate::support::{SERVER_V4, SERVER_V6, in_lab, median, read_capture, scenario};

const OUTBOUND: u32 = 2;
const CONNECTIONS: usize = 5;
/// Linux's minimum delay of an acknowledgement (`TCP_ATO_MIN`).
const DELAYED_MS: u64 = 40;

/// A segment that needs no response is acknowledged when Linux's timer expires, or at once.
pub(crate) fn delayed_or_quick() {
    for ipv6 in [false, true] {
        let linux = delay_ms("", ipv6);
        assert!((DELAYED_MS - 8..DELAYED_MS + 12).contains(&linux), "{linux} ms");
        let quick = delay_ms("quick_acks = true", ipv6);
        assert!(quick < 5, "{quick} ms");
    }
}

/// Median time from the arrival of the last response until its acknowledgement leaves the client.
///
/// A request had followed a response at once, so TCP takes the connection for interactive and hopes to
/// acknowledge together with the next request.
fn delay_ms(client: &str, ipv6: bool) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let options = LabOptions {
        capture: Some(directory.path().to_owned()),
        server: ServerChoice::Builtin,
        ..LabOptions::default()
    };
    in_lab(&scenario(client, ""), &options, |_| {
        let address = if ipv6 { SERVER_V6 } else { SERVER_V4 };
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect((address, 80)).unwrap();
            for _ in 0..2 {
                stream.write_all(b"GET /bytes/10 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
                let mut answer = [0; 1_000];
                assert!(stream.read(&mut answer).unwrap() > 10);
            }
            // Longer than any acknowledgement is delayed.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let (packets, dropped) = read_capture(&directory.path().join("client.pcapng"));
    assert_eq!(dropped, 0);
    let tcp: Vec<_> = packets.iter().filter(|packet| packet.tcp().is_some()).collect();
    let responses = |at: usize| tcp[at].direction != OUTBOUND && tcp[at].tcp_payload() > Some(0);
    let last = (0..tcp.len()).filter(|at| responses(*at)).skip(1).step_by(2);
    let delays: Vec<u64> = last
        .map(|at| {
            let left = tcp[at..].iter().find(|packet| packet.direction == OUTBOUND).unwrap();
            left.realtime_ns - tcp[at].realtime_ns
        })
        .collect();
    assert_eq!(delays.len(), CONNECTIONS);
    let delay = median(delays);
    println!("  {client:?}: acknowledged after {:.1} ms", delay as f64 / 1e6);
    delay / 1_000_000
}

/// The server retransmits after its own minimum timeout, not after the kernel's 200 ms.
pub(crate) fn retransmission_timeout() {
    for (settings, least_ms, most_ms) in [("", 190, 300), (r#"rto_min = "60ms""#, 55, 110)] {
        for address in [SERVER_V4, SERVER_V6] {
            let again = sent_again_after_ms(settings, address);
            assert!((least_ms..most_ms).contains(&again), "{settings:?}: {again} ms");
        }
    }
}

/// Time between the first and the second transmission of a lost response.
fn sent_again_after_ms(server: &str, address: &str) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let options = LabOptions {
        capture: Some(directory.path().to_owned()),
        server: ServerChoice::Builtin,
        ..LabOptions::default()
    };
    let lossy = format!("{server}\nup = {{ delay = \"5ms\", drop_data = 1 }}");
    in_lab(&scenario("", &lossy), &options, |_| {
        for _ in 0..3 {
            let mut stream = TcpStream::connect((address, 80)).unwrap();
            // The first response is a tail: no later segment shows that it was lost. A tail loss probe (TLP)
            // is not sent for the first segment of a connection without a sample of the path.
            stream.write_all(b"GET /bytes/10 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            let mut answer = [0; 1_000];
            assert!(stream.read(&mut answer).unwrap() > 10);
        }
    });
    let (packets, _) = read_capture(&directory.path().join("server-server.pcapng"));
    let sent: Vec<(u16, u64)> = packets
        .iter()
        .filter(|packet| packet.direction == OUTBOUND && packet.tcp_payload() > Some(0))
        .filter_map(|packet| Some((packet.tcp()?.2, packet.realtime_ns)))
        .collect();
    // Only the second transmission of each connection counts: on a busy machine there may be a third.
    let is_first = |at: &usize| sent[..*at].iter().all(|(port, _)| *port != sent[*at].0);
    let again: Vec<u64> = (0..sent.len())
        .filter(is_first)
        .filter_map(|at| {
            let (_, second) = sent[at + 1..].iter().find(|(port, _)| *port == sent[at].0)?;
            Some(second - sent[at].1)
        })
        .collect();
    assert_eq!(again.len(), 3, "one of each connection");
    let again = median(again) / 1_000_000;
    println!("  {server:?}: sent again after {again} ms");
    again
}
