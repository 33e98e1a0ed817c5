use super::net_export::NetExportReader;
use super::*;

fn read(bytes: &[u8]) -> (Vec<NetLogRequest>, NetExportReader, Result<(), NetLogError>) {
    let mut reader = NetExportReader::only(NetLogReduction::wants);
    let (mut reduction, mut requests) = (NetLogReduction::default(), Vec::new());
    let mut events = Vec::new();
    let result = reader.feed(bytes, |event| events.push(event));
    for event in &events {
        reduction.push(event, &reader, &mut |request| requests.push(request));
    }
    reduction.finish(&reader, &mut |request| requests.push(request));
    (requests, reader, result)
}

#[test]
fn show() {
    let name = std::env::var("SHOW").unwrap();
    let bytes = std::fs::read(format!("fixtures/netlog/{name}.json")).unwrap();
    for r in read(&bytes).0 {
        eprintln!("--- {} {:?} total {:?} stream {:?} send {:?} wait {:?} st {:?} err {:?} origin {:?} stall {:?}", r.url, r.began, r.total, r.stream, r.send, r.wait, r.status, r.error, r.origin, r.stall);
        eprintln!("    alt {:?} proxy {:?} tunnel {:?} lookup {:?}", r.alternative, r.proxy, r.tunnel, r.lookup);
        for j in &r.jobs { eprintln!("    {j:?}"); }
        if let Some(c) = &r.connection { eprintln!("    {} {:?} {:?} hs {:?} {:?} {:?} resumed {:?} hrr {:?} held {} {:?} closed {:?} lost {}", c.number, c.remote, r.attempts.iter().map(|a| format!("{} {:?} {:?}", a.address, a.took, a.end)).collect::<Vec<_>>(), c.handshake, c.tls_version, c.alpn, c.resumed, c.hello_retry, c.ticket_held, c.quic_version, c.closed_by, c.lost_packets); }
        for f in &r.findings { eprintln!("    *** {:?} {:?} {}", f.kind, f.cost, f.evidence); }
    }
}
