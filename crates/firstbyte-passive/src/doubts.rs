//! Doubts about a connection's numbers, and counts of frames that were removed or could not be read.

/// A set of reasons why one connection's numbers may be off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doubts(u32);

macro_rules! doubts {
    ($($(#[$doc:meta])* $constant:ident = $bit:literal, $name:literal;)*) => {
        impl Doubts {
            $($(#[$doc])* pub const $constant: Self = Self(1 << $bit);)*
            const ALL: &[(Self, &str)] = &[$((Self::$constant, $name)),*];
        }
    };
}

doubts! {
    /// The connection was already open when the capture began: no SYN was seen.
    MID_STREAM = 0, "mid-stream";
    /// Only one direction was captured.
    ONE_SIDED = 1, "one-sided";
    /// The capture lacks bytes that the other end acknowledged.
    GAP = 2, "gap";
    /// The snap length cut packets short.
    CUT = 3, "cut-by-snaplen";
    /// Segments of the handshake were retransmitted.
    LOSS_IN_HANDSHAKE = 4, "loss-in-handshake";
    /// The SYN or the SYN/ACK was retransmitted: its round trip is ambiguous (RFC 6298 §3).
    OPENING_REPEATED = 5, "opening-repeated";
    /// The capture's clock went backwards during the connection.
    CLOCK_STEP = 6, "clock-step";
    /// Answers came faster than the smallest round trip.
    FASTER_THAN_PATH = 7, "faster-than-path";
    /// The opening's round trip is far from the smallest one seen.
    ROUND_TRIP_UNSTABLE = 8, "round-trip-unstable";
    /// The record boundaries were lost and found again.
    RECORDS_LOST = 9, "records-lost";
    /// More data arrived out of order than is buffered.
    TOO_MUCH_HELD = 10, "too-much-held";
    /// A handshake message could not be parsed.
    MALFORMED_HANDSHAKE = 11, "malformed-handshake";
    /// A handshake flight took longer than half a round trip to pass: its sender may have waited for something else.
    SLOW_FLIGHT = 12, "slow-flight";
    /// The capturing program dropped frames during the connection.
    FRAMES_DROPPED = 13, "frames-dropped";
    /// Some frames have no time, so no times of this connection are known.
    UNTIMED = 14, "untimed";
    /// No answer came at once, so the path's share of the answer times is unknown.
    PATH_UNKNOWN = 15, "path-unknown";
}

impl Doubts {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The union with `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds the doubts in `other`.
    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether any doubt in `other` is in this set.
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// True if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of these doubts in stored forms.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().filter(move |(doubt, _)| self.any(*doubt)).map(|(_, name)| *name)
    }
}

/// Counts of packets, of those removed, and of those that could not be read. Reported before any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hygiene {
    /// Frames read.
    pub frames: u64,
    /// Bytes of frames on the wire.
    pub wire_bytes: u64,
    /// Frames dropped by the capturing program; absent if unknown.
    pub dropped: Option<u64>,
    /// Times of the first and the last frame.
    pub span: Option<(super::Time, super::Time)>,
    /// TCP segments.
    pub tcp_packets: u64,
    /// UDP datagrams.
    pub udp_packets: u64,
    /// Frames that carry no IP.
    pub not_ip: u64,
    /// IP packets with neither TCP nor UDP.
    pub other_transports: u64,
    /// Frames whose headers contradict each other.
    pub malformed: u64,
    /// Frames cut before the end of the transport header.
    pub cut_headers: u64,
    /// Frames cut in their payload.
    pub cut_payloads: u64,
    /// Frames with an unknown link type.
    pub unknown_links: u64,
    /// Frames without a time.
    pub untimed: u64,
    /// IP fragments.
    pub fragments: u64,
    /// Datagrams reassembled from fragments.
    pub reassembled: u64,
    /// Copies made by the capture, removed.
    pub duplicates: u64,
    /// Frames up to a second older than the one before: reordered by the capture.
    pub out_of_order_times: u64,
    /// Backward steps of the clock by more than a second.
    pub clock_steps: u64,
    /// Five-tuples reused by a new connection.
    pub port_reuses: u64,
    /// Connections dropped to stay within the limit.
    pub evicted: u64,
    /// Half-open connections among them (SYN floods), which are not reported.
    pub half_open_evicted: u64,
    /// Connections dropped after a long silence.
    pub idle: u64,
    /// Segments that arrived out of order and did not fit the buffer.
    pub held_overflow: u64,
    /// QUIC connections of unsupported versions.
    pub unread_quic: super::quic::UnreadQuic,
}

impl Hygiene {
    /// Adds the counts of another part of the same capture.
    pub fn add(&mut self, other: &Self) {
        let Self {
            frames,
            wire_bytes,
            dropped,
            span,
            tcp_packets,
            udp_packets,
            not_ip,
            other_transports,
            malformed,
            cut_headers,
            cut_payloads,
            unknown_links,
            untimed,
            fragments,
            reassembled,
            duplicates,
            out_of_order_times,
            clock_steps,
            port_reuses,
            evicted,
            half_open_evicted,
            idle,
            held_overflow,
            unread_quic,
        } = *other;
        self.frames += frames;
        self.wire_bytes += wire_bytes;
        if let Some(dropped) = dropped {
            *self.dropped.get_or_insert(0) += dropped;
        }
        self.span = match (self.span, span) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        self.tcp_packets += tcp_packets;
        self.udp_packets += udp_packets;
        self.not_ip += not_ip;
        self.other_transports += other_transports;
        self.malformed += malformed;
        self.cut_headers += cut_headers;
        self.cut_payloads += cut_payloads;
        self.unknown_links += unknown_links;
        self.untimed += untimed;
        self.fragments += fragments;
        self.reassembled += reassembled;
        self.duplicates += duplicates;
        self.out_of_order_times += out_of_order_times;
        self.clock_steps += clock_steps;
        self.port_reuses += port_reuses;
        self.evicted += evicted;
        self.half_open_evicted += half_open_evicted;
        self.idle += idle;
        self.held_overflow += held_overflow;
        self.unread_quic.merge(&unread_quic);
    }
}
