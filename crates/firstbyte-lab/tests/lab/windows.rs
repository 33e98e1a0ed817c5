//! How much TCP sends before the first acknowledgement, and which end decides that.

use std::io::{Read, Write};
use std::net::TcpStream;

use firstbyte_lab::{LabOptions, ServerChoice};
use nix::sys::socket::{getsockopt, sockopt};

use crate::support::{SERVER_V4, SERVER_V6, in_lab, on_host, read_capture, scenario};

const OUTBOUND: u32 = 2;
const RTT_NS: u64 = 40_000_000;
const DELAYS: &str = r#"up = { delay = "20ms", ipv6 = { initial_window = 4 }, initial_window = 2 }
down = { delay = "20ms" }"#;

/// The window is set at the server, for each family. A second connection has learnt nothing from the first.
pub(crate) fn of_the_sender() {
    assert_eq!(first_flights("", DELAYS), [2, 4, 2, 4]);
}

/// The window is set at the client, for all who send to it; the smaller one applies.
pub(crate) fn of_the_receiver() {
    let client = "down = { initial_window = 3 }";
    assert_eq!(first_flights(client, DELAYS), [2, 3, 2, 3]);
    let delay = r#"up = { delay = "40ms" }"#;
    assert_eq!(first_flights(client, delay), [3, 3, 3, 3]);
}

/// The default is ten segments (RFC 6928).
pub(crate) fn default() {
    assert_eq!(first_flights("", r#"up = { delay = "40ms" }"#), [10, 10, 10, 10]);
}

/// Number of data segments that the server sends within half a round trip of the first one, for downloads
/// over IPv4, IPv6, IPv4, IPv6.
fn first_flights(client: &str, server: &str) -> [usize; 4] {
    let directory = tempfile::tempdir().unwrap();
    let options = LabOptions {
        capture: Some(directory.path().to_owned()),
        server: ServerChoice::Builtin,
        ..LabOptions::default()
    };
    in_lab(&scenario(client, server), &options, |_| {
        for address in [SERVER_V4, SERVER_V6, SERVER_V4, SERVER_V6] {
            let mut stream = TcpStream::connect((address, 80)).unwrap();
            let request = "GET /bytes/60000 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            assert!(answer.len() > 60_000);
        }
    });
    let (packets, dropped) = read_capture(&directory.path().join("server-server.pcapng"));
    assert_eq!(dropped, 0);
    // The client's port and the time of every segment with data.
    let data: Vec<(u16, u64)> = packets
        .iter()
        .filter(|packet| packet.direction == OUTBOUND && packet.tcp_payload() > Some(0))
        .filter_map(|packet| Some((packet.tcp()?.2, packet.realtime_ns)))
        .collect();
    let mut connections: Vec<(u16, u64)> = Vec::new();
    for (port, time) in &data {
        if connections.iter().all(|(known, _)| known != port) {
            connections.push((*port, *time));
        }
    }
    let first = |(port, begun): (u16, u64)| {
        let within = |time: u64| time - begun < RTT_NS / 2;
        data.iter().filter(|(of, time)| *of == port && within(*time)).count()
    };
    let flights: Vec<usize> = connections.into_iter().map(first).collect();
    println!("  segments before the first acknowledgement: {flights:?}");
    flights.try_into().unwrap()
}

/// Both ends use the lab's congestion control, whatever the machine's is, unless the scenario sets another.
pub(crate) fn congestion_control() {
    let reno = r#"congestion_control = "reno""#;
    for (server, expected) in [("", "cubic"), (reno, "reno")] {
        in_lab(&scenario("", server), &LabOptions::default(), |lab| {
            assert_eq!(lab.warnings(), []);
            for address in [SERVER_V4, SERVER_V6] {
                let stream = TcpStream::connect((address, 443)).unwrap();
                let name = getsockopt(&stream, sockopt::TcpCongestion).unwrap();
                assert_eq!(name.to_string_lossy().trim_end_matches('\0'), "cubic");
            }
            let client = "192.0.2.10";
            let listener = std::net::TcpListener::bind((client, 5_000)).unwrap();
            let name = on_host(lab, "server", || {
                let stream = TcpStream::connect((client, 5_000)).unwrap();
                getsockopt(&stream, sockopt::TcpCongestion).unwrap()
            });
            drop(listener);
            assert_eq!(name.to_string_lossy().trim_end_matches('\0'), expected);
            let kept = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_no_metrics_save").unwrap();
            assert_eq!(kept, "1\n");
            // A window large enough for everything that a response of a megabyte has in flight.
            let room = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem").unwrap();
            for room in [room(), on_host(lab, "server", room)] {
                let at_first = room.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
                assert!(at_first >= 4 << 20, "{room}");
            }
        });
    }
}
