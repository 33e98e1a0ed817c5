//! Effects of links, measured from the outside.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use firstbyte_lab::{Lab, LabOptions, ServerChoice};

use crate::support::{self, SERVER_V4, SERVER_V6, in_lab, median, on_host, read_capture, scenario};

const CONNECTIONS: usize = 100;
/// Tolerated excess of an idle link's round trip, if nothing else on the machine delays it.
const TOLERANCE_US: u64 = 100;

fn builtin() -> LabOptions {
    LabOptions { server: ServerChoice::Builtin, ..LabOptions::default() }
}

/// Time from the client's SYN to the SYN-ACK, by the kernel's timestamps on the client's interface.
pub(crate) fn round_trip() {
    let directory = tempfile::tempdir().unwrap();
    let options = LabOptions { capture: Some(directory.path().to_owned()), ..builtin() };
    let delay = r#"up = { delay = "10ms" }
down = { delay = "10ms" }"#;
    in_lab(&scenario("", delay), &options, |_| {
        for address in [SERVER_V4, SERVER_V6] {
            for _ in 0..CONNECTIONS {
                TcpStream::connect((address, 443)).unwrap();
            }
        }
    });
    let (packets, dropped) = read_capture(&directory.path().join("client.pcapng"));
    assert_eq!(dropped, 0);
    for ipv6 in [false, true] {
        let round_trips = syn_round_trips(&packets, ipv6);
        assert_eq!(round_trips.len(), CONNECTIONS);
        // Timestamps are from the wall clock, which may be slewed by 500 ppm; the lab waits by another clock.
        let least = round_trips.iter().copied().min().unwrap();
        assert!(least >= 20_000_000 - 20_000, "faster than configured: {least} ns");
        let above = |ns: u64| ns.saturating_sub(20_000_000) / 1_000;
        let least_us = above(round_trips.iter().copied().min().unwrap());
        let median_us = above(median(round_trips));
        println!(
            "  idle round trip, ipv6 {ipv6}: {least_us} µs above 20 ms, {median_us} at the median"
        );
        assert!(least_us <= TOLERANCE_US, "{least_us} µs");
        // A busy machine may add delay, but not as much as another path would.
        assert!(median_us <= 50 * TOLERANCE_US, "{median_us} µs");
    }
}

fn syn_round_trips(packets: &[support::Packet], ipv6: bool) -> Vec<u64> {
    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;
    let of = |wanted: u8| {
        packets.iter().filter(move |packet| packet.is_ipv6() == ipv6).filter_map(move |packet| {
            let (flags, source, destination) = packet.tcp()?;
            (flags & (SYN | ACK) == wanted).then_some((packet.realtime_ns, source, destination))
        })
    };
    of(SYN | ACK)
        .filter_map(|(answered, _, port)| {
            let (asked, ..) = of(SYN).find(|(_, source, _)| *source == port)?;
            Some(answered - asked)
        })
        .collect()
}

pub(crate) fn loss() {
    const SENT: usize = 2_000;
    const BURST: usize = 100;
    let lossy = r#"up = { loss = "10%" }"#;
    in_lab(&scenario(lossy, ""), &builtin(), |lab| {
        let server = udp_server(lab, SERVER_V4);
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Sent in bursts that fit into the socket's buffer, because losses there would not be the link's.
        // The link counts its losses, so the test knows when a whole burst has passed.
        let lost_so_far = || lab.forwarder_stats().lost as usize;
        let mut received = 0;
        for sent in (0..SENT).step_by(BURST).map(|before| before + BURST) {
            for _ in 0..BURST {
                client.send_to(b"x", (SERVER_V4, 9)).unwrap();
            }
            for _ in 0..100 {
                received += received_within(&server, Duration::from_millis(30));
                if received + lost_so_far() >= sent {
                    break;
                }
            }
        }
        let lost = SENT - received;
        // 200 expected, standard deviation 13.
        assert!((140..260).contains(&lost), "{lost}");
        assert_eq!(lab.forwarder_stats().lost, lost as u64);
        assert_eq!(lab.forwarder_stats().ring_full, 0);
    });
}

pub(crate) fn mtu() {
    // IPv6 has its own MTU here; 1,400 bytes are too many for both families.
    in_lab(&scenario("", "down = { mtu = 1420, ipv6 = { mtu = 1300 } }"), &builtin(), |lab| {
        let mut too_big = 0;
        for (address, any) in [(SERVER_V4, "0.0.0.0:0"), (SERVER_V6, "[::]:0")] {
            let server = udp_server(lab, address);
            let client = UdpSocket::bind(any).unwrap();
            client.connect((address, 9)).unwrap();
            client.send(&[0; 1_200]).unwrap();
            client.send(&[0; 1_400]).unwrap();
            too_big += 1;
            let silence = Duration::from_millis(100);
            let received = (0..20).map(|_| received_within(&server, silence)).find(|n| *n > 0);
            assert_eq!(received, Some(1));
            // Unless the machine is busy, the router's reply is known by now, and the host refuses to send
            // the next datagram whole.
            let refused = (0..20).find_map(|_| {
                let refused = client.send(&[0; 1_400]).err();
                if refused.is_none() {
                    too_big += 1;
                    std::thread::sleep(silence);
                }
                refused
            });
            let refused = refused.expect("the router's answer");
            assert_eq!(
                refused.raw_os_error(),
                Some(nix::errno::Errno::EMSGSIZE as i32),
                "{refused}"
            );
        }
        assert_eq!(lab.forwarder_stats().too_big, too_big);
    });
}

pub(crate) fn rate() {
    // 500 kB at 8 Mbit/s take half a second.
    in_lab(&scenario(r#"down = { rate = "8mbit" }"#, ""), &builtin(), |lab| {
        let versions = [&rustls::version::TLS13];
        let took_ms = support::fastest((0..3).map(|_| {
            let begun = support::now_ms();
            let answer = support::get(lab, false, "/bytes/500000", &versions);
            assert_eq!(answer.body.len(), 500_000);
            support::now_ms() - begun
        }));
        assert!((500.0..1_000.0).contains(&took_ms), "{took_ms} ms");
    });
}

pub(crate) fn families() {
    let directory = tempfile::tempdir().unwrap();
    let options = LabOptions { capture: Some(directory.path().to_owned()), ..builtin() };
    let delay = r#"up = { delay = "5ms", ipv6 = { delay = "8ms" } }"#;
    in_lab(&scenario("", delay), &options, |_| {
        for address in [SERVER_V4, SERVER_V6] {
            (0..20).for_each(|_| drop(TcpStream::connect((address, 443)).unwrap()));
        }
    });
    let (packets, _) = read_capture(&directory.path().join("client.pcapng"));
    for (ipv6, configured_ms) in [(false, 5), (true, 8)] {
        let least = syn_round_trips(&packets, ipv6).into_iter().min().unwrap();
        assert_eq!(least / 1_000_000, configured_ms);
    }
}

/// Loses the request, over IPv4 only: the kernel retransmits it after its timeout of at least 200 ms. Later
/// packets of the connection, and other connections, are not delayed.
pub(crate) fn opening_loss() {
    const TRIES: u64 = 3;
    let lossy = r#"down = { delay = "10ms", drop_data = 1, ipv6 = { drop_data = 0 } }"#;
    in_lab(&scenario("", lossy), &builtin(), |lab| {
        let took = |address: &str| {
            let begun = support::now_ms();
            let mut stream = TcpStream::connect((address, 80)).unwrap();
            for _ in 0..2 {
                stream.write_all(b"GET /bytes/10 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
                let mut answer = [0; 1_000];
                assert!(stream.read(&mut answer).unwrap() > 10);
            }
            support::now_ms() - begun
        };
        for (address, lost, least_ms, most_ms) in
            [(SERVER_V6, 0, 20.0, 100.0), (SERVER_V4, TRIES, 220.0, 500.0)]
        {
            let fastest = support::fastest((0..TRIES).map(|_| took(address)));
            println!("  {address}: {fastest:.1} ms");
            assert!((least_ms..most_ms).contains(&fastest), "{fastest} ms");
            assert_eq!(lab.forwarder_stats().lost, lost);
        }
    });
}

fn udp_server(lab: &Lab, address: &str) -> UdpSocket {
    on_host(lab, "server", || {
        // The discard port. Binding a listener first shows that the address is this host's.
        drop(TcpListener::bind((address, 0)).unwrap());
        UdpSocket::bind((address, 9)).unwrap()
    })
}

/// Counts datagrams until none has arrived for `silence`.
fn received_within(server: &UdpSocket, silence: Duration) -> usize {
    server.set_read_timeout(Some(silence)).unwrap();
    let mut buffer = [0; 2_000];
    (0..)
        .take_while(|_| match server.recv(&mut buffer) {
            Ok(_) => true,
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("{error}"),
        })
        .count()
}
