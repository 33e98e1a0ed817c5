//! The passive half as one machine: frames in, connections out.

use super::filter::Filter;
use super::fragments::Fragments;
use super::layers::{self, Packet, Transport, Unread};
use super::losses::Losses;
use super::pcap::Frame;
use super::quic::{self, Datagram};
use super::tcp;
use super::{Hygiene, Observed, Time};

/// Upper limits of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once.
    pub connections: usize,
    /// Of these, TCP connections that did not get beyond the SYN exchange.
    pub half_open: usize,
    /// Silence after which a connection is given up, nanoseconds.
    pub idle_ns: i64,
    /// Bytes held for segments out of order and messages that are not whole yet, all together.
    pub held_bytes: usize,
    /// Exchanges of a connection that are kept one by one.
    pub exchanges: usize,
    /// Seed of the hashes; to be chosen at random where packets may be hostile.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1 << 18,
            half_open: 1 << 15,
            idle_ns: 300_000_000_000,
            held_bytes: 32 << 20,
            exchanges: 8,
            seed: 0x5851_f42d_4c95_7f2d,
        }
    }
}

/// Where results go.
pub struct Output<'a> {
    pub(super) hygiene: &'a mut Hygiene,
    pub(super) numbers: &'a mut u64,
    losses: &'a Losses,
    emit: &'a mut dyn FnMut(Observed),
}

impl Output<'_> {
    /// What was cleared up so far, to be added to.
    pub const fn hygiene(&mut self) -> &mut Hygiene {
        self.hygiene
    }

    /// The number of a connection whose first packet is here.
    pub const fn number(&mut self) -> u64 {
        *self.numbers += 1;
        *self.numbers
    }

    /// Gives out a connection.
    pub fn emit(&mut self, mut observed: Observed) {
        self.losses.mark(&mut observed);
        (self.emit)(observed);
    }
}

/// Follows the connections of a capture.
#[derive(Debug)]
pub struct Analyzer {
    hygiene: Hygiene,
    numbers: u64,
    filter: Filter,
    losses: Losses,
    fragments: Fragments,
    tcp: tcp::Connections,
    quic: quic::Connections,
    last: Option<Time>,
    /// The connection that the last frame belongs to.
    latest: Option<u64>,
}

/// Frames this much older than the one before were reordered; older ones say that the clock was set.
const REORDERED_NS: i64 = 1_000_000_000;

impl Analyzer {
    /// Nothing seen yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            hygiene: Hygiene::default(),
            numbers: 0,
            filter: Filter::default(),
            losses: Losses::default(),
            fragments: Fragments::default(),
            tcp: tcp::Connections::new(limits),
            quic: quic::Connections::new(limits),
            last: None,
            latest: None,
        }
    }

    /// Looks at what passes `filter`, and at nothing else.
    #[must_use]
    pub fn with_filter(self, filter: Filter) -> Self {
        Self { filter, ..self }
    }

    /// What was removed and what could not be read, so far.
    pub const fn hygiene(&self) -> &Hygiene {
        &self.hygiene
    }

    /// Connections that are under way.
    pub fn live(&self) -> usize {
        self.tcp.live() + self.quic.live()
    }

    /// Connections seen so far, those that are not given out among them.
    pub const fn connections(&self) -> u64 {
        self.numbers
    }

    /// The number of the connection that the last frame belongs to, as far as it is known: a fragment
    /// belongs to none until the last piece of its datagram is there.
    pub const fn latest(&self) -> Option<u64> {
        self.latest
    }

    /// The next frame; `emit` is given every connection that ends with it.
    pub fn frame(&mut self, frame: &Frame<'_>, emit: &mut dyn FnMut(Observed)) {
        self.latest = None;
        if !self.filter.passes(frame.link, frame.captured, frame.wire_bytes) {
            return;
        }
        let hygiene = &mut self.hygiene;
        hygiene.frames += 1;
        hygiene.wire_bytes += u64::from(frame.wire_bytes);
        let at = match frame.at {
            Some(at) => at,
            None => {
                hygiene.untimed += 1;
                self.last.unwrap_or_default()
            }
        };
        self.clock(at);
        match layers::packet(frame.link, frame.captured, frame.wire_bytes) {
            Ok(packet) => self.packet(at, &packet, emit),
            Err(unread) => self.unread(at, &unread, emit),
        }
    }

    /// Between these times so many frames were dropped by who captures, perhaps none: connections that
    /// were under way are marked when they are given out.
    pub fn dropped(&mut self, frames: u64, from: Time, to: Time) {
        *self.hygiene.dropped.get_or_insert(0) += frames;
        if frames > 0 {
            self.losses.add(from, to);
        }
    }

    /// Nothing older than `to` will come: gives out what has been silent for so long that it is over.
    pub fn advance(&mut self, to: Time, emit: &mut dyn FnMut(Observed)) {
        let (hygiene, numbers, losses) = (&mut self.hygiene, &mut self.numbers, &self.losses);
        let mut out = Output { hygiene, numbers, losses, emit };
        self.tcp.advance(to, &mut out);
        self.quic.advance(to, &mut out);
    }

    /// The capture is over: gives out all that is under way.
    pub fn finish(&mut self, emit: &mut dyn FnMut(Observed)) {
        let (hygiene, numbers, losses) = (&mut self.hygiene, &mut self.numbers, &self.losses);
        let mut out = Output { hygiene, numbers, losses, emit };
        self.tcp.finish(&mut out);
        self.quic.finish(&mut out);
    }

    fn clock(&mut self, at: Time) {
        if let Some(last) = self.last {
            let since = at.signed_since(last);
            if since < -REORDERED_NS {
                self.hygiene.clock_steps += 1;
            } else if since < 0 {
                self.hygiene.out_of_order_times += 1;
            }
        }
        self.last = Some(at);
        self.hygiene.span = Some(match self.hygiene.span {
            Some((first, last)) => (first.min(at), last.max(at)),
            None => (at, at),
        });
    }

    fn packet(&mut self, at: Time, packet: &Packet<'_>, emit: &mut dyn FnMut(Observed)) {
        let (hygiene, numbers, losses) = (&mut self.hygiene, &mut self.numbers, &self.losses);
        match packet.transport {
            Transport::Tcp(segment) => {
                hygiene.tcp_packets += 1;
                if (segment.payload.captured.len() as u64) < u64::from(segment.payload.bytes) {
                    hygiene.cut_payloads += 1;
                }
                let mut out = Output { hygiene, numbers, losses, emit };
                self.tcp.segment(at, packet, &segment, &mut out);
                self.latest = self.tcp.latest();
            }
            Transport::Udp(payload) => {
                hygiene.udp_packets += 1;
                if (payload.captured.len() as u64) < u64::from(payload.bytes) {
                    hygiene.cut_payloads += 1;
                }
                let (source, destination) = (packet.source, packet.destination);
                let mut out = Output { hygiene, numbers, losses, emit };
                self.quic.datagram(&Datagram { at, source, destination, payload }, &mut out);
                self.latest = self.quic.latest();
            }
        }
    }

    fn unread(&mut self, at: Time, unread: &Unread<'_>, emit: &mut dyn FnMut(Observed)) {
        let count = match unread {
            Unread::Fragment(fragment) => {
                self.hygiene.fragments += 1;
                if let Some(whole) = self.fragments.add(at, fragment) {
                    self.hygiene.reassembled += 1;
                    match layers::reassembled(fragment, &whole) {
                        Ok(packet) => self.packet(at, &packet, emit),
                        Err(_) => self.hygiene.other_transports += 1,
                    }
                }
                return;
            }
            Unread::NotIp => &mut self.hygiene.not_ip,
            Unread::OtherTransport => &mut self.hygiene.other_transports,
            Unread::Cut => &mut self.hygiene.cut_headers,
            Unread::Malformed => &mut self.hygiene.malformed,
            Unread::UnknownLink(_) => &mut self.hygiene.unknown_links,
        };
        *count += 1;
    }
}
