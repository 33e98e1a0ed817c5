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

/// Asks Wireshark's own reader, where it is installed.
pub(crate) fn readable_by_others() {
    let directory = tempfile::tempdir().unwrap();
    in_lab(&scenario("", ""), &options(directory.path()), |_| {
        drop(TcpStream::connect((SERVER_V4, 443)).unwrap());
    });
    let file = directory.path().join("client.pcapng");
    let Ok(output) = Command::new("capinfos").args(["-t", "-c", "-M"]).arg(&file).output() else {
        println!("  not run: capinfos is not installed (apt-get install wireshark-common)");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let (packets, _) = read_capture(&file);
    assert!(text.contains("pcapng"), "{text}");
    assert!(text.contains(&format!("Number of packets:   {}", packets.len())), "{text}");
}

pub(crate) fn not_writable() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = firstbyte_lab::run(&scenario("", ""), &options(&file), |_| 0).unwrap_err();
    let LabError::Capture { file: named, .. } = &error else { panic!("{error}") };
    assert_eq!(named, &file.display().to_string());
}
