//! Contents of captures.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use firstbyte_lab::{LabError, LabOptions, ServerChoice};

use crate::support::{SERVER_V4, in_lab, read_capture, scenario};

const CONNECTIONS: usize = 9;
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

fn options(directory: &Path) -> LabOptions {
    LabOptions {
        capture: Some(directory.to_owned()),
        server: ServerChoice::Builtin,
        ..LabOptions::default()
    }
}

pub(crate) fn three_places() {
    let directory = tempfile::tempdir().unwrap();
    let delay = r#"up = { delay = "3ms" }
down = { delay = "5ms" }"#;
    in_lab(&scenario("", delay), &options(directory.path()), |_| {
        (0..CONNECTIONS).for_each(|_| drop(TcpStream::connect((SERVER_V4, 443)).unwrap()));
    });
    // Times of the SYNs, by the client's port.
    let syns_at = |file: &str, direction: Option<u32>| {
        let (packets, dropped) = read_capture(&directory.path().join(file));
        assert_eq!(dropped, 0, "{file}");
        let mut syns = BTreeMap::new();
        for packet in &packets {
            if let Some((0x02, port, 443)) = packet.tcp() {
                assert!(direction.is_none_or(|direction| direction == packet.direction), "{file}");
                syns.entry(port).or_insert(packet.realtime_ns);
            }
        }
        assert_eq!(syns.len(), CONNECTIONS, "{file}");
        syns
    };
    let client = syns_at("client.pcapng", Some(OUTBOUND));
    let middle = syns_at("middle.pcapng", None);
    let server = syns_at("server-server.pcapng", Some(INBOUND));
    // Delay of the SYN that the forwarder held up least.
    let least = |from: &BTreeMap<u16, u64>, to: &BTreeMap<u16, u64>| {
        from.iter().map(|(port, at)| to[port] - at).min().unwrap()
    };
    let (up, down) = (least(&client, &middle), least(&middle, &server));
    assert!(up < 500_000, "{up} ns");
    assert!((5_000_000..5_500_000).contains(&down), "{down} ns");
}

/// Reads captures with libpcap, which nearly everyone uses.
pub(crate) fn readable_by_others() {
    let directory = tempfile::tempdir().unwrap();
    in_lab(&scenario("", ""), &options(directory.path()), |_| {
        drop(TcpStream::connect((SERVER_V4, 443)).unwrap());
    });
    let file = directory.path().join("client.pcapng");
    // From its standard input, because it drops the right to open other people's files.
    let tcpdump = Command::new("tcpdump")
        .args(["-n", "-r", "-"])
        .env("PATH", format!("{}:/usr/sbin:/usr/bin", std::env::var("PATH").unwrap_or_default()))
        .stdin(std::fs::File::open(&file).unwrap())
        .output();
    let output = tcpdump.expect("tcpdump is needed (apt-get install tcpdump)");
    let text = String::from_utf8_lossy(&output.stdout);
    let (packets, _) = read_capture(&file);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count(), packets.len(), "{text}");
    assert!(text.contains("Flags [S]"), "{text}");
}

pub(crate) fn not_writable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = firstbyte_lab::run(&scenario("", ""), &options(&file), |_| 0).unwrap_err();
    let LabError::Capture { file: named, .. } = &error else { panic!("{error}") };
    assert_eq!(named, &file.display().to_string());
}
