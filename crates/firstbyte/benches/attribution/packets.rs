//! Captures as the packets of each connection. Uses nothing of the measuring code, so that it is an independent
//! witness.

use std::collections::HashMap;
use std::hash::{Hash as _, Hasher as _};
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use firstbyte_truth::{Captured, End, Packet, Segment};
use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, PcapBlockOwned, PcapError, PcapNGReader};

use crate::secrets::{self, Log, Raw};

/// A connection: the server's address, the client's port, and whether it is TCP.
pub(crate) type Key = ([u8; 4], u16, bool);

/// A frame of a connection.
pub(crate) struct Kept {
    pub(crate) key: Key,
    pub(crate) packet: Packet,
    pub(crate) bytes: Vec<u8>,
}

/// Packets by connection, in the order of their times.
#[derive(Default)]
pub(crate) struct Flows {
    /// All frames in capture order.
    pub(crate) frames: Vec<Kept>,
    pub(crate) packets: HashMap<Key, Vec<Packet>>,
    /// Payloads of datagrams, by packet number.
    pub(crate) payloads: HashMap<u64, Vec<u8>>,
    /// SYNs over IPv6: the host's number, and the time.
    pub(crate) ipv6_attempts: Vec<(u16, i64)>,
}

const HTTPS: u16 = 443;

/// Reads the packets of a capture file written by the lab.
pub(crate) fn read(path: &Path) -> Result<Flows, String> {
    let failed = |detail: &dyn std::fmt::Debug| format!("{}: {detail:?}", path.display());
    let file = std::fs::File::open(path).map_err(|e| failed(&e))?;
    let mut reader = PcapNGReader::new(1 << 20, file).map_err(|e| failed(&e))?;
    let mut flows = Flows::default();
    loop {
        match reader.next() {
            Ok((consumed, PcapBlockOwned::NG(Block::EnhancedPacket(block)))) => {
                // The lab's captures have nanosecond timestamps.
                let at = (i64::from(block.ts_high) << 32) | i64::from(block.ts_low);
                let frame = block.packet_data();
                if let Some((key, packet, payload)) = packet(at, frame) {
                    flows.payloads.extend(payload.map(|payload| (packet.id, payload)));
                    flows.packets.entry(key).or_default().push(packet.clone());
                    flows.frames.push(Kept { key, packet, bytes: frame.to_vec() });
                }
                flows.ipv6_attempts.extend(ipv6_attempt(frame).map(|host| (host, at)));
                reader.consume(consumed);
            }
            Ok((consumed, _)) => reader.consume(consumed),
            Err(PcapError::Eof) => break,
            Err(PcapError::Incomplete(_)) => reader.refill().map_err(|e| failed(&e))?,
            // Other errors contain the rest of the file, so do not print them.
            Err(_) => return Err(failed(&"not as the lab writes captures")),
        }
    }
    for packets in flows.packets.values_mut() {
        packets.sort_by_key(|packet| packet.at);
    }
    flows.frames.sort_by_key(|kept| kept.packet.at);
    Ok(flows)
}

/// A packet, its connection, and the payload if it is a datagram.
fn packet(at: i64, frame: &[u8]) -> Option<(Key, Packet, Option<Vec<u8>>)> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(NetSlice::Ipv4(ip)) = &sliced.net else { return None };
    let header = ip.header();
    let mut id = std::hash::DefaultHasher::new();
    header.identification().hash(&mut id);
    let mut payload = None;
    let (source, destination, tcp) = match sliced.transport.as_ref()? {
        TransportSlice::Tcp(tcp) => {
            tcp.payload().hash(&mut id);
            // The checksum is not hashed: it may be left to the network device.
            (tcp.sequence_number(), tcp.acknowledgment_number()).hash(&mut id);
            (tcp.syn(), tcp.fin(), tcp.rst(), tcp.ack(), tcp.options()).hash(&mut id);
            let segment = Segment {
                seq: tcp.sequence_number(),
                ack: tcp.ack().then(|| tcp.acknowledgment_number()),
                syn: tcp.syn(),
                payload: u32::try_from(tcp.payload().len()).ok()?,
            };
            (tcp.source_port(), tcp.destination_port(), Some(segment))
        }
        TransportSlice::Udp(udp) => {
            udp.payload().hash(&mut id);
            payload = Some(udp.payload().to_vec());
            (udp.source_port(), udp.destination_port(), None)
        }
        _ => return None,
    };
    let (from, server, port) = match (source, destination) {
        (HTTPS, port) => (End::Server, header.source(), port),
        (port, HTTPS) => (End::Client, header.destination(), port),
        _ => return None,
    };
    let bytes = u32::from(header.total_len());
    let packet = Packet { at, from, id: id.finish(), bytes, tcp, quic: None };
    Some(((server, port, tcp.is_some()), packet, payload))
}

/// Decrypts the connection's datagrams with the secrets that the client logged.
pub(crate) fn open(captured: &mut Captured, [client, server]: [&Flows; 2], log: &Log) {
    let raw = |packets: &[Packet], from: End, flows: &'_ Flows| {
        let sent = packets.iter().filter(|packet| packet.from == from && packet.tcp.is_none());
        sent.filter_map(|packet| {
            let payload = flows.payloads.get(&packet.id)?.clone();
            Some((packet.id, from, payload))
        })
        .collect::<Vec<_>>()
    };
    let mut all = raw(&captured.client, End::Client, client);
    all.extend(raw(&captured.server, End::Server, server));
    let all: Vec<Raw<'_>> =
        all.iter().map(|(id, from, payload)| Raw { id: *id, from: *from, payload }).collect();
    let opened = secrets::open(&all, log);
    for packet in captured.client.iter_mut().chain(&mut captured.server) {
        packet.quic = opened.get(&packet.id).cloned();
    }
}

/// The last group of the destination address of a SYN over IPv6.
fn ipv6_attempt(frame: &[u8]) -> Option<u16> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Tcp(tcp))) =
        (&sliced.net, sliced.transport.as_ref())
    else {
        return None;
    };
    let syn = tcp.syn() && !tcp.ack() && tcp.destination_port() == HTTPS;
    syn.then(|| ip.header().destination_addr().segments()[7])
}
