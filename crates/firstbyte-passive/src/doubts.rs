//! Doubts about what was seen of a connection, and what was cleared up before it was read.

/// What may spoil the numbers of one connection: a set.
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
    /// It was under way when the capture began: no SYN.
    MID_STREAM = 0, "mid-stream";
    /// Only one of its directions was captured.
    ONE_SIDED = 1, "one-sided";
    /// Bytes are missing that the other end acknowledged.
    GAP = 2, "gap";
    /// Packets were cut by the snap length.
    CUT = 3, "cut-by-snaplen";
    /// Segments of the handshake were sent again.
    LOSS_IN_HANDSHAKE = 4, "loss-in-handshake";
    /// The SYN or the SYN/ACK was sent again: its round trip is ambiguous (RFC 6298 §3).
    OPENING_REPEATED = 5, "opening-repeated";
    /// The capture's clock went backwards meanwhile.
    CLOCK_STEP = 6, "clock-step";
    /// Answers came faster than the smallest round trip.
    FASTER_THAN_PATH = 7, "faster-than-path";
    /// The round trip of the opening is far from the smallest seen.
    ROUND_TRIP_UNSTABLE = 8, "round-trip-unstable";
    /// The place of records was lost and found again.
    RECORDS_LOST = 9, "records-lost";
    /// More was out of order than is held.
    TOO_MUCH_HELD = 10, "too-much-held";
    /// A message of the handshake could not be read.
    MALFORMED_HANDSHAKE = 11, "malformed-handshake";
    /// A flight of the handshake took longer to pass than half a round trip: its sender may have
    /// waited for something else.
    SLOW_FLIGHT = 12, "slow-flight";
    /// Frames were dropped by who captured, while it was under way.
    FRAMES_DROPPED = 13, "frames-dropped";
    /// Some of its frames have no time: nothing that is a time is known.
    UNTIMED = 14, "untimed";
    /// Nothing answered at once: what of an answer's time was the path's is not known.
    PATH_UNKNOWN = 15, "path-unknown";
}

impl Doubts {
    /// None.
    pub const NONE: Self = Self(0);

    /// With those of `other`.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds those of `other`.
    pub const fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Whether any of `other` are among them.
    pub const fn any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their names, as in stored forms.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().filter(move |(doubt, _)| self.any(*doubt)).map(|(_, name)| *name)
    }
}

/// What was removed, and what could not be read: to be said before any result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hygiene {
    /// Frames read.
    pub frames: u64,
    /// Bytes of frames on the wire.
    pub wire_bytes: u64,
    /// Frames dropped by who captured; absent where that is not known.
    pub dropped: Option<u64>,
    /// Time of the first frame, and of the last.
    pub span: Option<(super::Time, super::Time)>,
    /// Segments of TCP.
    pub tcp_packets: u64,
    /// Datagrams of UDP.
    pub udp_packets: u64,
    /// Frames without IP.
    pub not_ip: u64,
    /// IP without TCP or UDP.
    pub other_transports: u64,
    /// Frames whose headers contradict each other.
    pub malformed: u64,
    /// Frames cut before the end of the transport's header.
    pub cut_headers: u64,
    /// Frames cut in their payload.
    pub cut_payloads: u64,
    /// Frames of a link type that is not known.
    pub unknown_links: u64,
    /// Frames without a time.
    pub untimed: u64,
    /// Pieces of datagrams that IP had cut.
    pub fragments: u64,
    /// Datagrams put together from such pieces.
    pub reassembled: u64,
    /// Copies made by the capture, removed.
    pub duplicates: u64,
    /// Frames older than the one before, by at most a second: reordered by the capture.
    pub out_of_order_times: u64,
    /// Steps of the clock backwards by more.
    pub clock_steps: u64,
    /// Five-tuples used again by a new connection.
    pub port_reuses: u64,
    /// Connections given up because there were too many.
    pub evicted: u64,
    /// Half-open ones among them (SYN floods), which are not shown.
    pub half_open_evicted: u64,
    /// Connections given up after a long silence.
    pub idle: u64,
    /// Segments out of order that could not be held.
    pub held_overflow: u64,
    /// QUIC connections of versions that cannot be read.
    pub unread_quic: super::quic::UnreadQuic,
}

impl Hygiene {
    /// Adds what was counted elsewhere in the same capture.
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
