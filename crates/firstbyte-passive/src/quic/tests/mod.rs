//! Properties of QUIC as seen on the path.

mod connections;
mod hostile;
mod made;
mod trips;
mod unread;
mod vectors;

use super::super::*;
use firstbyte_core::pcap::{CaptureReader, Read};

/// All connections of a capture.
fn capture(bytes: &[u8]) -> (Vec<Observed>, Hygiene) {
    let (mut reader, mut all) = (CaptureReader::default(), Vec::new());
    let mut analyzer = Analyzer::new(Limits { exchanges: 1000, ..Limits::default() });
    let mut rest = bytes;
    let mut emit = |observed: &Observed| all.push(observed.clone());
    loop {
        match reader.read(rest) {
            Ok(Read::NeedMore { .. }) | Err(_) => break,
            Ok(Read::Skipped { bytes }) => rest = &rest[bytes..],
            Ok(Read::Frame { frame, bytes }) => {
                analyzer.frame(&frame, &mut emit);
                rest = &rest[bytes..];
            }
        }
    }
    analyzer.finish(&mut emit);
    all.sort_by_key(|observed| observed.number);
    (all, *analyzer.hygiene())
}

#[test]
#[ignore = "shows captures named by FIRSTBYTE_DUMP, line by line"]
fn lines() {
    for path in std::env::var("FIRSTBYTE_DUMP").unwrap().split(' ') {
        println!("# {path}");
        let (all, hygiene) = capture(&std::fs::read(path).unwrap());
        for o in all.iter().filter(|o| o.carrier == Carrier::Quic) {
            let tls = o.tls.as_deref().cloned().unwrap_or_default();
            let q = o.quic.as_deref().unwrap();
            println!(
                "{} {} {} {} ch={} sh={} {:?} off={:?} dec={} hrr={} ed={:?} v={:x?} vn={} retry={} tok={:?} {:?} {:?} cid={:?}/{:?} chg={}/{} mig={} unval={:?}/{:?} stall={:?} spin={:?} rtt={:?} time={:?} ex={:?}/{} sni={:?} alpn={:?} ech={} ch={:?} group={:?} alert={:?} doubts={:?} ret={}/{} flights={:?} durations={:?}",
                o.client.socket_addr(),
                o.server.socket_addr(),
                o.roles.name(),
                o.ending.name(),
                tls.client_hello,
                tls.server_hello,
                tls.handshake,
                tls.resumption.offered,
                tls.resumption.declined,
                tls.hello_retry_request,
                tls.early_data,
                q.version,
                q.version_negotiations,
                q.retries,
                q.token_bytes,
                q.sent,
                q.received,
                q.client_cid_bytes,
                q.server_cid_bytes,
                q.client_cid_changes,
                q.server_cid_changes,
                q.migrations,
                q.unvalidated_bytes,
                q.unvalidated_limit,
                q.limit_stall,
                q.spin_round_trip,
                o.round_trips,
                o.handshake_time,
                o.exchanges.count,
                o.exchanges.answered,
                tls.sni,
                tls.alpn_offered,
                tls.ech_offered,
                tls.client_hello_bytes,
                tls.group,
                tls.alert,
                o.doubts.names().collect::<Vec<_>>(),
                o.sent.retransmitted,
                o.received.retransmitted,
                o.flights.iter().map(|f| (f.by_client, f.messages.clone())).collect::<Vec<_>>(),
                o.exchanges
                    .first
                    .iter()
                    .map(|e| e.response_end.map_or(0, |t| t.since(e.request_start).as_micros()))
                    .collect::<Vec<_>>(),
            );
        }
        println!("{:?}", hygiene.port_reuses);
    }
}
