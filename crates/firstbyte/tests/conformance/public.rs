//! Captures of other projects, compared with tshark 4.0.17.

use std::collections::BTreeMap;
use std::path::Path;

use firstbyte_core::timeline::{Handshake, SessionMechanism};
use firstbyte_passive::{Carrier, Observed, names};

use super::{Table, read, rows};

/// Files where firstbyte differs from the index and is right, or where the two are not comparable.
const KNOWN: &[(&str, &str)] = &[
    (
        "CESNET+ipfixprobe/tls.pcap",
        "two connections are in the file twice: two more; and three handshakes with gaps show a \
         ServerKeyExchange: full",
    ),
    (
        "ntop+nDPI/tls_multiple_synack_different_seq.pcapng",
        "the server's data follow its first SYN/ACK, tshark its last: it misses the ServerHello",
    ),
    (
        "princeb612+hotplace/tls13_TLS_AES_256_GCM_SHA384.pcapng",
        "tshark takes it for another protocol by its port",
    ),
    (
        "princeb612+hotplace/tlsserver-mldsa.pcapng",
        "two connections alike; tshark takes the second for another protocol by its port",
    ),
    ("zeek+zeek/ssl-v2.pcap", "SSL 2.0: the index names no version"),
];

pub(super) fn handshakes_are_those_that_tshark_finds(root: &Path) {
    let public = root.join("public");
    let mut table = Table::default();
    for row in rows(&public.join("INDEX.tsv")) {
        let (path, facts) = (&row[0], &row[7]);
        let why = KNOWN.iter().find(|(known, _)| known == path).map(|(_, why)| *why);
        match read(&public.join(path)) {
            Ok((all, _, _)) => {
                table.compare(path, found(&all), indexed(facts), why);
            }
            Err(error) => table.compare(path, error.to_string(), String::new(), why),
        }
    }
    table.end("public");
}

/// Number of TLS connections by kind, in the words of the index.
fn found(all: &[Observed]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for observed in all.iter().filter(|o| o.carrier == Carrier::Tcp) {
        let Some(tls) = &observed.tls else { continue };
        let kind = match (tls.client_hello, tls.server_hello, tls.handshake) {
            (false, false, _) => continue,
            (_, false, _) => "ch-only".to_owned(),
            (_, true, handshake) => {
                let version = tls.version.and_then(names::version).unwrap_or("?");
                let version = version.replace("TLSv", "TLS").replace(" draft", "d");
                let how = match (handshake, tls.resumption.accepted) {
                    (None, _) => "full?",
                    (Some(Handshake::Resumed), Some(SessionMechanism::Psk)) => "psk",
                    (Some(Handshake::Resumed), _) => "resumed",
                    (Some(_), _) => "full",
                };
                format!("{version} {how}")
            }
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn indexed(facts: &str) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for fact in facts.split("; ") {
        let Some((many, rest)) = fact.split_once("x TLS ") else { continue };
        let Ok(many) = many.parse::<usize>() else { continue };
        let kind = match rest {
            "- ch-only" => "ch-only".to_owned(),
            "- no-hello" => continue,
            other => other.replace("resumed-sid", "resumed").replace("resumed-ticket", "resumed"),
        };
        *kinds.entry(kind).or_default() += many;
    }
    kinds
}
