//! Traffic on the client's link, read from its capture: an independent witness.

use std::collections::BTreeMap;
use std::path::Path;

use etherparse::{SlicedPacket, TransportSlice};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};

/// A TCP segment of a connection to a web server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// Nanoseconds since the Unix epoch.
    pub(crate) at_ns: u64,
    pub(crate) sent: bool,
    pub(crate) syn: bool,
    pub(crate) sequence: u32,
    pub(crate) bytes: usize,
}

/// Consecutive segments with payload in the same direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) sent: bool,
    pub(crate) segments: usize,
    pub(crate) bytes: usize,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
}

/// The connections in a capture, in the order in which they began.
///
/// TCP retransmissions of bytes that already passed here are left out: the application wrote them only once, and on a
/// busy machine a link may be late enough for the kernel to retransmit.
pub(crate) fn connections(file: &Path) -> Vec<Vec<Segment>> {
    let mut connections: BTreeMap<u16, Vec<Segment>> = BTreeMap::new();
    for_each_packet(file, |at_ns, frame| {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return };
        let (source, destination) = (tcp.source_port(), tcp.destination_port());
        let sent = destination < source;
        let port = if sent { source } else { destination };
        let (syn, sequence) = (tcp.syn(), tcp.sequence_number());
        let segment = Segment { at_ns, sent, syn, sequence, bytes: tcp.payload().len() };
        let segments = connections.entry(port).or_default();
        let is_same = |s: &Segment| {
            (s.sent, s.syn, s.sequence, s.bytes) == (sent, syn, sequence, segment.bytes)
        };
        if segment.bytes == 0 && !syn || !segments.iter().any(is_same) {
            segments.push(segment);
        }
    });
    let mut connections: Vec<_> = connections.into_values().collect();
    connections.sort_by_key(|segments| segments[0].at_ns);
    connections
}

pub(crate) fn runs(segments: &[Segment]) -> Vec<Run> {
    let with_payload: Vec<&Segment> = segments.iter().filter(|s| s.bytes > 0).collect();
    with_payload
        .chunk_by(|a, b| a.sent == b.sent)
        .map(|run| Run {
            sent: run[0].sent,
            segments: run.len(),
            bytes: run.iter().map(|s| s.bytes).sum(),
            first_ns: run[0].at_ns,
            last_ns: run[run.len() - 1].at_ns,
        })
        .collect()
}

fn for_each_packet(file: &Path, mut packet: impl FnMut(u64, &[u8])) {
    let file = std::fs::File::open(file).unwrap();
    let mut reader = PcapNGReader::new(1 << 20, file).unwrap();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(block)) = &block {
                    // The lab writes nanoseconds (if_tsresol 9).
                    let at_ns = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                    packet(at_ns, &block.data[..block.caplen as usize]);
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return,
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(error) => panic!("{error}"),
        }
    }
}
