//! The same connections, captured at three places of a path with known delays.

use std::collections::HashMap;
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TcpSlice, TransportSlice};
use firstbyte_core::pcap::{CaptureReader, Read};
use firstbyte_passive::{HandshakeTime, Observed};

use super::{Table, by_client, read, resumed, rows};

/// Delay of the links: one round trip over the whole path, ms.
const PATH_MS: f64 = 46.0;
/// Extra delay of the links, ms per round trip: each of the two adds 0.3 to 1.3.
const ADDED_MS: std::ops::RangeInclusive<f64> = 0.6..=2.6;
/// Tolerance for a single part, and for a median, ms.
const ONE_MS: f64 = 2.0;
const MEDIAN_MS: f64 = 0.5;
const TAPS: [(&str, &str); 3] = [
    ("client", "delay-clean.tap-client.pcap"),
    ("middle", "delay-clean.pcap"),
    ("server", "delay-clean.tap-server.pcap"),
];

pub(super) fn the_split_is_the_same_wherever_the_tap_is(root: &Path) {
    let own = root.join("own");
    let truth = rows(&own.join("delay-clean.client-groundtruth.tsv"));
    let captures: Vec<Vec<Observed>> =
        TAPS.iter().map(|(_, file)| read(&own.join(file)).unwrap().0).collect();
    let mut table = Table::default();
    for ((tap, _), all) in TAPS.iter().zip(&captures) {
        facts(tap, all, &truth, &mut table);
    }
    table.end("delay-clean");
    let acknowledged = [&TAPS[0], &TAPS[2]].map(|(_, file)| acknowledgements(&own.join(file)));
    split(&captures, &truth, &acknowledged);
}

fn facts(tap: &str, all: &[Observed], truth: &[Vec<String>], table: &mut Table) {
    let map = by_client(all);
    for row in truth {
        let place = format!("{tap} {}", row[0]);
        let seen = map.get(&row[0]).map(Vec::as_slice).unwrap_or_default();
        let [observed] = seen else {
            table.compare(&place, seen.len(), 1, None);
            continue;
        };
        let open = observed.tls.as_ref().is_none_or(|tls| tls.handshake.is_none());
        let why = open.then_some("the capture ends before the server's answer was here");
        table.compare(&place, resumed(observed), Some(row[5] == "true"), why);
        if observed.exchanges.count.is_some() {
            let truth = row[10].split([';', ',']).filter(|e| !e.is_empty()).count() as u32;
            let open = observed.ending == firstbyte_passive::Ending::Open;
            let why = open.then_some("open when the capture ended");
            let ours = observed.exchanges.answered;
            table.compare(&format!("{place} exchanges"), ours, truth, why);
        }
    }
}

fn ms(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Errors of one connection's parts at one tap.
struct Off {
    client: String,
    parts: [(&'static str, f64); 4],
    /// Excess delay of the links according to both end taps together, ms: over the whole handshake, or for a single
    /// pure acknowledgement.
    late: f64,
}

/// Keyed by the client's address and port, and the acknowledgement number: how long after the client's data the first
/// pure acknowledgement of it passed the tap, ms.
type Acknowledged = HashMap<(String, u32), f64>;

fn acknowledgements(path: &Path) -> Acknowledged {
    let bytes = std::fs::read(path).unwrap();
    let (mut rest, mut reader) = (bytes.as_slice(), CaptureReader::default());
    let mut sent: HashMap<(String, u32), i64> = HashMap::new();
    let mut after = Acknowledged::new();
    loop {
        let (frame, taken) = match reader.read(rest).unwrap() {
            Read::NeedMore { .. } => return after,
            Read::Skipped { bytes } => (None, bytes),
            Read::Frame { frame, bytes } => (Some(frame), bytes),
        };
        rest = &rest[taken..];
        let Some(frame) = frame else { continue };
        let sliced = SlicedPacket::from_ethernet(frame.captured).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
            (sliced.net, sliced.transport)
        else {
            continue;
        };
        let (at, header) = (frame.at.unwrap().unix_ns(), ip.header());
        let from_server = tcp.source_port() == 443;
        let (address, port) = if from_server {
            (header.destination_addr(), tcp.destination_port())
        } else {
            (header.source_addr(), tcp.source_port())
        };
        let client = format!("{address}:{port}");
        if from_server {
            let key = (client, tcp.acknowledgment_number());
            if let (0, Some(sent)) = (tcp.payload().len(), sent.get(&key)) {
                after.entry(key).or_insert((at - sent) as f64 / 1e6);
            }
        } else if !tcp.payload().is_empty() {
            sent.entry((client, end_of(&tcp))).or_insert(at);
        }
    }
}

fn end_of(tcp: &TcpSlice<'_>) -> u32 {
    tcp.sequence_number().wrapping_add(tcp.payload().len() as u32)
}

/// How much later than the links' usual round trip the client's slowest acknowledgement was, ms.
fn slowest_acknowledgement(client: &str, [at_client, at_server]: &[Acknowledged; 2]) -> f64 {
    let own = at_client.iter().filter(|((of, _), _)| of == client);
    let links = own.filter_map(|(key, after)| Some(after - at_server.get(key)? - usual_ms()));
    links.fold(0.0, f64::max)
}

fn usual_ms() -> f64 {
    PATH_MS + (ADDED_MS.start() + ADDED_MS.end()) / 2.0
}

/// Compares each tap with what the ends themselves show: a tap at an end sees that end without a network in between,
/// and the client's log has the whole time.
fn split(captures: &[Vec<Observed>], truth: &[Vec<String>], acknowledged: &[Acknowledged; 2]) {
    let timed = |o: &Observed| Some((o.client.socket_addr().to_string(), o.handshake_time?));
    let times: Vec<HashMap<String, HandshakeTime>> =
        captures.iter().map(|all| all.iter().filter_map(timed).collect()).collect();
    println!("tap     part       n  median off  largest off  (ms)");
    let mut failed = Vec::new();
    for ((tap, _), own) in TAPS.iter().zip(&times) {
        let offs: Vec<Off> = truth
            .iter()
            .filter_map(|row| {
                let client = &row[0];
                let ends = (times[0].get(client)?, times[2].get(client)?);
                let off = off(client, own.get(client)?, ends, row[7].parse().unwrap());
                Some(Off {
                    late: off.late.max(slowest_acknowledgement(client, acknowledged)),
                    ..off
                })
            })
            .collect();
        for part in 0..4 {
            let name = offs[0].parts[part].0;
            let mut values: Vec<f64> = offs.iter().map(|off| off.parts[part].1).collect();
            let middle = median(&mut values);
            let largest =
                values.iter().fold(0.0, |a: f64, b| if b.abs() > a.abs() { *b } else { a });
            println!("{tap:<7} {name:<8} {:>3} {middle:>11.3} {largest:>12.3}", values.len());
            if middle.abs() > MEDIAN_MS {
                failed.push(format!("{tap} {name}: median {middle:.3} ms off"));
            }
        }
        for off in &offs {
            for (name, value) in off.parts.iter().filter(|(_, value)| value.abs() > ONE_MS) {
                // A tap cannot distinguish a link that is late once from a slow host.
                let explained = off.late >= value.abs() - ONE_MS;
                let why = if explained { "the links were late by" } else { "NOT EXPLAINED" };
                println!("  {tap} {} {name} {value:.3} ms: {why} {:.3} ms", off.client, off.late);
                if !explained {
                    failed.push(format!("{tap} {} {name}: {value:.3} ms off", off.client));
                }
            }
        }
    }
    assert_eq!(failed, Vec::<String>::new());
}

fn off(
    client: &str,
    ours: &HandshakeTime,
    (at_client, at_server): (&HandshakeTime, &HandshakeTime),
    logged_us: f64,
) -> Off {
    let trips = f64::from(ours.round_trips);
    let beyond = |network: f64| {
        let added = network / trips - PATH_MS;
        let off = (added - ADDED_MS.end()).max(0.0) + (added - ADDED_MS.start()).min(0.0);
        off * trips
    };
    let on_the_way = ms(at_client.total()) - ms(at_server.server) - ms(at_client.client);
    Off {
        client: client.to_owned(),
        parts: [
            ("network", beyond(ms(ours.network))),
            ("server", ms(ours.server) - ms(at_server.server)),
            ("client", ms(ours.client) - ms(at_client.client)),
            // The log counts from before the first byte is written until the call returns.
            ("whole", ms(ours.total()) - logged_us / 1e3),
        ],
        late: on_the_way - usual_ms() * trips,
    }
}
