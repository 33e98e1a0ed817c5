//! Marks: named points of a connection, in the vocabulary of W3C Resource Timing.

use std::time::Duration;

use super::{Offset, Stamp};

/// A named point of a connection. The order of the variants is the order in which they happen
/// over TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// The first DNS query is about to be sent.
    DomainLookupStart,
    /// The address to connect to is known.
    DomainLookupEnd,
    /// The first SYN leaves; over QUIC, the first Initial packet.
    ConnectStart,
    /// The SYN/ACK of the winning attempt arrived.
    TcpConnected,
    /// The TLS handshake with the proxy begins.
    ProxySecureStart,
    /// The TLS handshake with the proxy is complete.
    ProxyHandshakeComplete,
    /// The CONNECT request (RFC 9110 §9.3.6) or the SOCKS greeting leaves.
    TunnelStart,
    /// The proxy has answered that the tunnel is open.
    TunnelEnd,
    /// The TLS handshake begins: over TCP the instant of `TcpConnected` (W3C secureConnectionStart), through a tunnel
    /// that of `TunnelEnd`.
    SecureConnectionStart,
    /// The client's handshake is complete: its Finished leaves (TLS 1.3, RFC 8446 §2), or the
    /// server's Finished arrived (full TLS 1.2, RFC 5246 §7.3). Over QUIC, RFC 9001 §4.1.1.
    HandshakeComplete,
    /// Over QUIC, the client learns that the server's handshake is complete as well
    /// (RFC 9001 §4.1.2).
    HandshakeConfirmed,
    /// The first byte of the request leaves.
    RequestStart,
    /// The last byte of the request left.
    RequestEnd,
    /// The head of the first interim response (100, 103) could be read (W3C firstInterimResponseStart). With
    /// `Expect: 100-continue` it comes before `RequestEnd`.
    InterimResponseStart,
    /// The first packet of the final response arrived. Absent if `ResponseStart` has the same time. This packet begins
    /// a TLS record that ended later.
    ResponseFirstPacket,
    /// The first byte of the final response's head could be read (W3C finalResponseHeadersStart): its TLS record was
    /// complete. Session tickets, HTTP/2 settings and interim responses are not the response.
    ResponseStart,
    /// The last byte of the response arrived.
    ResponseEnd,
}

impl Mark {
    /// All marks, in order.
    pub const ALL: [Self; 17] = [
        Self::DomainLookupStart,
        Self::DomainLookupEnd,
        Self::ConnectStart,
        Self::TcpConnected,
        Self::ProxySecureStart,
        Self::ProxyHandshakeComplete,
        Self::TunnelStart,
        Self::TunnelEnd,
        Self::SecureConnectionStart,
        Self::HandshakeComplete,
        Self::HandshakeConfirmed,
        Self::RequestStart,
        Self::RequestEnd,
        Self::InterimResponseStart,
        Self::ResponseFirstPacket,
        Self::ResponseStart,
        Self::ResponseEnd,
    ];

    /// Finds a mark by its name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mark| mark.name() == name)
    }

    /// Name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DomainLookupStart => "domain_lookup_start",
            Self::DomainLookupEnd => "domain_lookup_end",
            Self::ConnectStart => "connect_start",
            Self::TcpConnected => "tcp_connected",
            Self::ProxySecureStart => "proxy_secure_start",
            Self::ProxyHandshakeComplete => "proxy_handshake_complete",
            Self::TunnelStart => "tunnel_start",
            Self::TunnelEnd => "tunnel_end",
            Self::SecureConnectionStart => "secure_connection_start",
            Self::HandshakeComplete => "handshake_complete",
            Self::HandshakeConfirmed => "handshake_confirmed",
            Self::RequestStart => "request_start",
            Self::RequestEnd => "request_end",
            Self::InterimResponseStart => "interim_response_start",
            Self::ResponseFirstPacket => "response_first_packet",
            Self::ResponseStart => "response_start",
            Self::ResponseEnd => "response_end",
        }
    }
}

/// The marks of one connection. A mark that did not happen is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks([Option<Stamp>; Mark::ALL.len()]);

impl Marks {
    /// The stamp of `mark`, if it happened.
    pub fn stamp(&self, mark: Mark) -> Option<Stamp> {
        self.0[mark as usize]
    }

    /// The time of `mark`, if it happened.
    pub fn at(&self, mark: Mark) -> Option<Offset> {
        self.stamp(mark).map(|s| s.at)
    }

    /// Records `mark`.
    pub fn set(&mut self, mark: Mark, stamp: Stamp) {
        self.0[mark as usize] = Some(stamp);
    }

    /// The marks that happened, in protocol order.
    pub fn iter(&self) -> impl Iterator<Item = (Mark, Stamp)> + '_ {
        Mark::ALL.into_iter().filter_map(|m| self.stamp(m).map(|s| (m, s)))
    }

    /// When the final response's first packet arrived.
    pub fn first_packet_of_response(&self) -> Option<Offset> {
        self.at(Mark::ResponseFirstPacket).or_else(|| self.at(Mark::ResponseStart))
    }

    /// Coarsest resolution of another program's clocks behind the marks: each stretch between two of them may be off
    /// by this much in either direction. `None` if no such clock was reported.
    pub fn resolution(&self) -> Option<Duration> {
        self.0.iter().flatten().filter_map(|stamp| stamp.clock.resolution()).max()
    }

    /// The first pair of marks out of order, if any.
    pub fn disorder(&self) -> Option<(Mark, Mark)> {
        let mut previous: Option<(Mark, Stamp)> = None;
        // An interim response may come before the whole request has left.
        for (mark, stamp) in self.iter().filter(|(mark, _)| *mark != Mark::InterimResponseStart) {
            if let Some((earlier, earlier_stamp)) = previous
                && stamp.at < earlier_stamp.at
            {
                return Some((earlier, mark));
            }
            previous = Some((mark, stamp));
        }
        None
    }
}
