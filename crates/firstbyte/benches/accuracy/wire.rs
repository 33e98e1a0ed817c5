//! Times of connections on the wire, read from a capture of the client's link.
//!
//! Uses nothing of the measuring code except the names of TLS record types, so that it is an independent witness.

use std::collections::HashMap;
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use firstbyte_core::wire::tls::{ContentType, Event, RecordScanner};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};

/// Times of one connection, nanoseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wire {
    pub syn: Option<i64>,
    pub syn_ack: Option<i64>,
    /// The client's Finished left (TLS 1.3), or the server's arrived (TLS 1.2).
    pub handshake_complete: Option<i64>,
    pub request_end: Option<i64>,
    pub response_start: Option<i64>,
}

/// A segment with payload.
struct Segment {
    at: i64,
    sequence: u32,
    payload: Vec<u8>,
}

#[derive(Default)]
struct Flow {
    syn: Option<i64>,
    syn_ack: Option<i64>,
    sent: Vec<Segment>,
    received: Vec<Segment>,
}

/// A TLS record in the stream.
struct Record {
    first_byte: i64,
    last_byte: i64,
    content_type: ContentType,
    bytes: u16,
}

/// The record with the body is longer than this. Session tickets and the encrypted handshake messages that can follow
/// the request are shorter: the page is 2,000 bytes, a ticket about 250.
const BODY_RECORD: u16 = 1_000;

/// An HTTP/2 record with a head is longer than this. A SETTINGS acknowledgement (9 bytes) or a window update (13) is
/// shorter, even with the encryption overhead (17 or 24).
const HEAD_RECORD: u16 = 40;

/// Reads the connections to port 443 in `file`, keyed by client port.
pub(crate) fn read(file: &Path, http2: bool) -> HashMap<u16, Wire> {
    let mut flows: HashMap<u16, Flow> = HashMap::new();
    for_each_packet(file, |at, frame| {
        let Ok(packet) = SlicedPacket::from_ethernet(frame) else { return };
        let (Some(TransportSlice::Tcp(tcp)), Some(NetSlice::Ipv4(_) | NetSlice::Ipv6(_))) =
            (&packet.transport, &packet.net)
        else {
            return;
        };
        let sent = tcp.destination_port() == 443;
        if !sent && tcp.source_port() != 443 {
            return;
        }
        let port = if sent { tcp.source_port() } else { tcp.destination_port() };
        let flow = flows.entry(port).or_default();
        match (tcp.syn(), sent) {
            (true, true) => flow.syn = flow.syn.or(Some(at)),
            (true, false) => flow.syn_ack = flow.syn_ack.or(Some(at)),
            (false, _) => {
                let segment = Segment {
                    at,
                    sequence: tcp.sequence_number(),
                    payload: tcp.payload().to_vec(),
                };
                if !segment.payload.is_empty() {
                    if sent { &mut flow.sent } else { &mut flow.received }.push(segment);
                }
            }
        }
    });
    flows.into_iter().map(|(port, flow)| (port, flow.times(http2))).collect()
}

impl Flow {
    fn times(self, http2: bool) -> Wire {
        let sent = records(&self.sent);
        let received = records(&self.received);
        let of_application = |r: &&Record| r.content_type == ContentType::ApplicationData;
        let answered: Vec<&Record> = received.iter().filter(of_application).collect();
        let body = answered.iter().position(|r| r.bytes > BODY_RECORD);
        // Over HTTP/2 the head's record is the one before the body's, unless one holds both.
        let head = body.and_then(|at| at.checked_sub(1)).filter(|_| http2);
        let head = head.filter(|at| answered[*at].bytes > HEAD_RECORD).or(body);
        let begun = head.map(|at| answered[at].first_byte);
        let request_end = sent
            .iter()
            .rev()
            .filter(of_application)
            .find(|r| r.bytes > HEAD_RECORD && begun.is_some_and(|at| r.last_byte < at))
            .map(|r| r.last_byte);
        // TLS 1.3 sends ApplicationData only after the ServerHello; the client's first one is its Finished. In TLS 1.2
        // an encrypted Handshake record of the server comes last.
        let server_finished =
            received.iter().find(|r| r.content_type == ContentType::Handshake).map(|r| r.last_byte);
        let client_finished = sent
            .iter()
            .find(|r| r.content_type == ContentType::ApplicationData)
            .map(|r| r.first_byte);
        Wire {
            syn: self.syn,
            syn_ack: self.syn_ack,
            handshake_complete: server_finished.or(client_finished),
            request_end,
            // A record can only be decrypted once it is complete.
            response_start: head.map(|at| answered[at].last_byte),
        }
    }
}

/// The records in `segments` that are encrypted or not handshake records, in order.
fn records(segments: &[Segment]) -> Vec<Record> {
    let mut scanner = RecordScanner::default();
    let mut records = Vec::new();
    let mut next = segments.first().map_or(0, |s| s.sequence);
    let mut started = None;
    for segment in segments {
        // Skip retransmitted bytes.
        let seen = next.wrapping_sub(segment.sequence) as usize;
        let Some(mut bytes) = segment.payload.get(seen..).filter(|b| !b.is_empty()) else {
            continue;
        };
        next = next.wrapping_add(bytes.len() as u32);
        while !bytes.is_empty() {
            let first_byte = *started.get_or_insert(segment.at);
            let mut whole = None;
            let Ok(taken) = scanner.feed_record(bytes, |event| {
                if let Event::Record { content_type, bytes } = event {
                    whole = Some((content_type, bytes));
                }
            }) else {
                return records;
            };
            if let Some((content_type, bytes)) = whole {
                records.push(Record { first_byte, last_byte: segment.at, content_type, bytes });
            }
            if scanner.at_record_end() {
                started = None;
            }
            bytes = &bytes[taken..];
        }
    }
    records
}

fn for_each_packet(file: &Path, mut packet: impl FnMut(i64, &[u8])) {
    let file = std::fs::File::open(file).expect("the lab wrote a capture");
    let mut reader = PcapNGReader::new(1 << 20, file).expect("it is pcapng");
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                if let PcapBlockOwned::NG(Block::EnhancedPacket(block)) = &block {
                    // The lab writes nanoseconds (if_tsresol 9).
                    let at = (u64::from(block.ts_high) << 32 | u64::from(block.ts_low)) as i64;
                    packet(at, &block.data[..block.caplen as usize]);
                }
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("the capture can be read"),
            Err(error) => panic!("the capture cannot be read: {error}"),
        }
    }
}
