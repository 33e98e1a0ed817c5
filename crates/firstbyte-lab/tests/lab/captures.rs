//! What captures hold.

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use firstbyte_lab::{LabError, LabOptions, ServerChoice};

use crate::support::{SERVER_V4, in_lab, read_capture, scenario};

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
        drop(TcpStream::connect((SERVER_V4, 443)).unwrap());
    });
    let syn_at = |file: &str| {
        let (packets, dropped) = read_capture(&directory.path().join(file));
        assert_eq!(dropped, 0, "{file}");
        let syn = packets.into_iter().find(|packet| {
            packet.tcp().is_some_and(|(flags, _, port)| flags == 0x02 && port == 443)
        });
        let syn = syn.unwrap_or_else(|| panic!("no SYN in {file}"));
        (syn.realtime_ns, syn.direction)
    };
    let (client, at_client) = syn_at("client.pcapng");
    let (middle, _) = syn_at("middle.pcapng");
    let (server, at_server) = syn_at("server-server.pcapng");
    assert_eq!((at_client, at_server), (OUTBOUND, INBOUND));
    let close = |late_ns: u64| late_ns < 500_000;
    assert!(close(middle - client), "{} ns", middle - client);
    assert!(close(server - middle - 5_000_000), "{} ns", server - middle);
}

/// Asks libpcap, by which nearly everyone reads captures.
pub(crate) fn readable_by_others() {
    let directory = tempfile::tempdir().unwrap();
    in_lab(&scenario("", ""), &options(directory.path()), |_| {
        drop(TcpStream::connect((SERVER_V4, 443)).unwrap());
    });
    let file = directory.path().join("client.pcapng");
    // From its standard input: it gives up the right to open other people's files.
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
