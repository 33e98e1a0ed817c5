//! QUIC: a mix compared with its client's log, and captures of other projects compared with tshark 4.0.17.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::{Carrier, Observed, QuicSeen, TlsSeen};

use super::{Table, by_client, read, resumed, rows};

fn tls(observed: &Observed) -> TlsSeen {
    observed.tls.as_deref().cloned().unwrap_or_default()
}

fn quic(observed: &Observed) -> QuicSeen {
    observed.quic.as_deref().cloned().unwrap_or_default()
}

pub(super) fn every_connection_is_what_its_client_logged(root: &Path) {
    let own = root.join("own");
    let (all, _, _) = read(&own.join("quic-mix.pcap")).unwrap();
    let mut table = Table::default();
    table.compare("connections", all.len(), 80, None);
    let count = |is: &dyn Fn(&Observed) -> bool| all.iter().filter(|o| is(o)).count();
    let zero_rtt = |o: &Observed| quic(o).sent.zero_rtt > 0;
    table.compare("full", count(&|o| resumed(o) == Some(false)), 24, None);
    let plain = count(&|o| resumed(o) == Some(true) && !zero_rtt(o));
    table.compare("resumed without 0-RTT", plain, 19, None);
    table.compare("0-RTT packets", count(&zero_rtt), 37, None);
    let offered = count(&|o| tls(o).early_data.is_some_and(|early| early.offered));
    table.compare("early_data extension", offered, 56, None);
    let map = by_client(&all);
    let (mut off, mut known) = (Vec::new(), 0);
    for row in rows(&own.join("quic-mix.client-groundtruth.tsv")) {
        let [port, was_resumed, taken, attempted, handshake_us, exchanges] = &row[..] else {
            panic!("{row:?}")
        };
        let place = format!("client {port}");
        let [observed] = map.get(&format!("10.78.0.2:{port}")).map(Vec::as_slice).unwrap() else {
            panic!("{place}: not one connection")
        };
        let is = |text: &str| text == "True";
        table.compare(&format!("{place} resumed"), resumed(observed), Some(is(was_resumed)), None);
        table.compare(&format!("{place} 0-RTT"), zero_rtt(observed), is(attempted), None);
        if is(attempted) {
            let accepted = tls(observed).early_data.and_then(|early| early.accepted);
            table.compare(&format!("{place} 0-RTT taken"), accepted, Some(is(taken)), None);
        }
        let theirs: Vec<u64> = exchanges
            .split(';')
            .map(|one| one.split_once(':').unwrap().1.parse().unwrap())
            .collect();
        let seen = &observed.exchanges;
        table.compare(&format!("{place} exchanges"), seen.count, Some(theirs.len() as u32), None);
        let time = observed.handshake_time.unwrap();
        // The client's figure includes its own processing time, which is not visible on the wire.
        let handshake = Duration::from_micros(handshake_us.parse().unwrap());
        let added = handshake.as_secs_f64() - time.total().as_secs_f64();
        table.compare(&format!("{place} handshake"), added.abs() < 0.012, true, None);
        // The client sends its acknowledgements with its Finished, so the path's round trip may not show.
        let Some(path) = observed.round_trips.client_min else { continue };
        known += 1;
        // The first request of a connection also waits for the client.
        for (ours, theirs) in seen.first.iter().zip(&theirs).skip(1) {
            let whole = ours.response_end.unwrap().since(ours.request_start) + path;
            off.push(*theirs as f64 / 1e3 - whole.as_secs_f64() * 1e3);
        }
    }
    off.sort_by(f64::total_cmp);
    let (median, least, most) = (off[off.len() / 2], off[0], off[off.len() - 1]);
    println!("exchanges: n {}, off by {median:.3} ms ({least:.3} to {most:.3})", off.len());
    println!("round trip to the client: known of {known} connections");
    table.compare("round trips known of most", known > 60, true, None);
    table.compare("exchanges' median within 1 ms", median.abs() < 1.0, true, None);
    table.end("quic-mix");
}

/// Files where firstbyte differs from the index, and why.
const KNOWN: &[(&str, &str)] = &[
    (
        "EricssonResearch+spindump/trace_quic_v23_picoquic_1k_versneg.pcap",
        "a version that is reserved to force negotiation has no packet types (RFC 8999 §5.1); tshark \
         reads one all the same",
    ),
    (
        "EricssonResearch+spindump/trace_quic_v23_picoquic_25k_cidchange.pcap",
        "draft 23: another salt, its Initials are not opened",
    ),
    (
        "EricssonResearch+spindump/trace_quic_v23_picoquic_25k_keyupd.pcap",
        "draft 23: another salt, its Initials are not opened",
    ),
    (
        "EricssonResearch+spindump/trace_quic_v25_f5.pcap",
        "draft 25: another salt, its Initials are not opened; Version Negotiation is part of the \
         connection that follows it",
    ),
    (
        "the-tcpdump-group+tcpdump/quic_handshake_truncated.pcap",
        "Initials cut by the snap length cannot be proven by their tags, and are not opened",
    ),
];

pub(super) fn handshakes_are_those_that_tshark_finds(root: &Path) {
    let public = root.join("public");
    let mut table = Table::default();
    for row in rows(&public.join("INDEX.tsv")) {
        let (path, facts) = (&row[0], &row[7]);
        let why = KNOWN.iter().find(|(known, _)| known == path).map(|(_, why)| *why);
        // The table for TCP already lists files that cannot be read.
        let Ok((all, _, _)) = read(&public.join(path)) else { continue };
        let all: Vec<_> = all.into_iter().filter(|o| o.carrier == Carrier::Quic).collect();
        if !all.is_empty() || facts.contains("x QUIC") {
            table.compare(path, found(&all), indexed(facts), why);
        }
    }
    table.end("public QUIC");
}

fn found(all: &[Observed]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for observed in all {
        let tls = tls(observed);
        let kind = match (tls.client_hello, tls.server_hello, tls.handshake) {
            (false, false, _) => "no-hello",
            (_, false, _) => "ch-only",
            (_, true, Some(Handshake::Resumed)) => "TLS1.3 psk",
            (_, true, _) => "TLS1.3 full",
        };
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    let mut flag = |name: &str, is: bool| {
        if is {
            kinds.insert(name.to_owned(), 1);
        }
    };
    flag("QUIC-Retry", all.iter().any(|o| quic(o).retries > 0));
    flag("Version-Negotiation", all.iter().any(|o| quic(o).version_negotiations > 0));
    flag("0-RTT-packets", all.iter().any(|o| quic(o).sent.zero_rtt > 0));
    kinds
}

fn indexed(facts: &str) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for fact in facts.split("; ") {
        if let Some((many, kind)) = fact.split_once("x QUIC ") {
            let kind = kind.trim_start_matches("- ").to_owned();
            *kinds.entry(kind).or_default() += many.parse::<usize>().unwrap();
        } else if ["QUIC-Retry", "Version-Negotiation", "0-RTT-packets"].contains(&fact) {
            kinds.insert(fact.to_owned(), 1);
        }
    }
    kinds
}
