//! The other end's record of each visit: the servers' access logs, and the capture for Caddy.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use firstbyte_lab::access_log::Entry;
use serde_json::Value;

use crate::lab::SECRETS;
use crate::ways::SERVERS;

/// One request as the server saw it.
#[derive(Debug)]
pub(crate) struct Truth {
    /// "1.1", "2", "3".
    pub(crate) protocol: String,
    pub(crate) resumed: Option<bool>,
    pub(crate) early: Option<bool>,
    pub(crate) reused: bool,
}

/// Truths by path. If a path was requested more than once, for example to get a session, the last request counts.
pub(crate) fn read(directory: &Path) -> Result<BTreeMap<String, Truth>, String> {
    let mut truth = BTreeMap::new();
    let quic = QuicTruth::read(directory)?;
    for (server, _) in SERVERS {
        let file = directory.join(format!("server-{server}.log"));
        let said = |error: std::io::Error| format!("{}: {error}", file.display());
        let mut seen = HashSet::new();
        for line in fs::read_to_string(&file).map_err(said)?.lines() {
            let strange = || format!("{}: {line}", file.display());
            let entry = Entry::parse(line).ok_or_else(strange)?;
            // Caddy does not number connections, but logs the client's port. The lab is too short for a port to be
            // reused; if that happened, it would show up as a contradicted claim.
            let port = caddys_port(line);
            let number = entry.connection.or(port.map(u64::from)).ok_or_else(strange)?;
            let (resumed, early) = match port {
                Some(port) => {
                    (Some(quic.resumed.contains(&port)), Some(quic.early.contains(&port)))
                }
                None => (entry.resumed, entry.early),
            };
            let reused = !seen.insert(number);
            let protocol = number_of(&entry.protocol);
            truth.insert(entry.path, Truth { protocol, resumed, early, reused });
        }
    }
    Ok(truth)
}

fn caddys_port(line: &str) -> Option<u16> {
    let entry: Value = serde_json::from_str(line).ok()?;
    entry["request"]["remote_port"].as_str()?.parse().ok()
}

/// Extracts "2" from "HTTP/2.0".
fn number_of(protocol: &str) -> String {
    let number = protocol.trim_start_matches("HTTP/");
    number.strip_suffix(".0").unwrap_or(number).to_owned()
}

/// QUIC connections by the client's port, from the capture: Caddy 2.6 does not log their TLS state.
struct QuicTruth {
    /// The ServerHello accepted the offered session (`pre_shared_key`, RFC 8446 §4.2.11).
    resumed: BTreeSet<u16>,
    /// 0-RTT packets were sent, and the server accepted them (`early_data` in EncryptedExtensions, §4.2.10).
    early: BTreeSet<u16>,
}

impl QuicTruth {
    fn read(directory: &Path) -> Result<Self, String> {
        let in_servers = |message: u8, extension: u8| {
            let filter = format!(
                "tls.handshake.type == {message} && tls.handshake.extension.type == {extension}"
            );
            ports(directory, &filter, "udp.dstport")
        };
        let sent = ports(directory, "quic.long.packet_type == 1", "udp.srcport")?;
        let taken = in_servers(8, 42)?;
        Ok(Self {
            resumed: in_servers(2, 41)?,
            early: taken.intersection(&sent).copied().collect(),
        })
    }
}

fn ports(directory: &Path, filter: &str, field: &str) -> Result<BTreeSet<u16>, String> {
    let mut tshark = Command::new("tshark");
    tshark.arg("-o").arg(format!("tls.keylog_file:{}", directory.join(SECRETS).display()));
    tshark.arg("-r").arg(directory.join("server-caddy.pcapng"));
    tshark.args(["-Y", filter, "-T", "fields", "-e", field]);
    let output = tshark.output().map_err(|error| format!("tshark (package tshark): {error}"))?;
    if !output.status.success() {
        return Err(format!("tshark: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.split_whitespace().filter_map(|port| port.parse().ok()).collect())
}
