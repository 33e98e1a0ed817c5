//! Phases: the stretches between marks.

use std::time::Duration;

use crate::timeline::{Connection, Mark, Offset, PhaseName};

/// A stretch of a connection's time. It begins where the previous phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Name of the phase.
    pub name: PhaseName,
    /// Start.
    pub start: Offset,
    /// End.
    pub end: Offset,
    /// Whether it completed; otherwise the connection failed in it.
    pub complete: bool,
}

impl Phase {
    /// Duration of the phase.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// The phases of `connection`, in order, without gaps: together they are its total.
///
/// A phase that did not happen is absent. Marks out of order (a response that begins before the request has ended)
/// give a phase of zero length, never a negative one. A handshake that ended after the request was sent (early data)
/// delayed nothing and is not a phase: it is part of the wait.
pub fn phases(connection: &Connection) -> Vec<Phase> {
    let handshake = if connection.facts.quic.is_some() { PhaseName::Quic } else { PhaseName::Tls };
    let ends = [
        (PhaseName::Resolve, Mark::DomainLookupEnd),
        (PhaseName::Connect, Mark::TcpConnected),
        (PhaseName::ProxyTls, Mark::ProxyHandshakeComplete),
        (PhaseName::Tunnel, Mark::TunnelEnd),
        (handshake, Mark::HandshakeComplete),
        (PhaseName::Send, Mark::RequestEnd),
        (PhaseName::Wait, Mark::ResponseStart),
        (PhaseName::Receive, Mark::ResponseEnd),
    ];
    let early = request_was_early(connection);
    let mut phases = Vec::with_capacity(ends.len());
    let mut start = Offset::ZERO;
    for (name, mark) in ends {
        if early && name == handshake {
            continue;
        }
        if let Some(end) = connection.marks.at(mark) {
            let end = end.max(start);
            phases.push(Phase { name, start, end, complete: true });
            start = end;
        }
    }
    if let Some((stopped_in, Some(at))) = connection.stops_in()
        && at > start
        && !phases.iter().any(|p| p.name >= stopped_in && !(early && p.name == PhaseName::Send))
    {
        phases.push(Phase { name: stopped_in, start, end: at, complete: false });
    }
    phases
}

/// Whether the whole request left before the handshake was complete.
fn request_was_early(connection: &Connection) -> bool {
    let marks = &connection.marks;
    let Some(sent) = marks.at(Mark::RequestEnd) else { return false };
    let encrypted = marks.at(Mark::SecureConnectionStart).is_some();
    match marks.at(Mark::HandshakeComplete) {
        Some(complete) => sent < complete,
        None => encrypted,
    }
}

/// From the origin to the end of the last phase that happened.
pub fn total(connection: &Connection) -> Duration {
    phases(connection).last().map_or(Duration::ZERO, |p| p.end.since(Offset::ZERO))
}
