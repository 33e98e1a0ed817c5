//! Memory of live connections: many at once, halfway through their handshakes or after some exchanges.

use firstbyte_passive::{Analyzer, Limits};

use super::sys;
use super::{quic, support};

/// Progress of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server has answered; the client has not.
    MidHandshake,
    /// The handshake is done, and so are ten exchanges, some seconds apart.
    UnderWay,
}

/// Transport of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Quic,
}

pub(crate) const EXCHANGES: usize = 10;
/// Pause between exchanges; an uneven number of nanoseconds.
pub(crate) const PAUSE_NS: i64 = 7_123_456_789;

/// An analyzer that follows `connections` connections, all at `stage`, and the heap bytes it uses.
pub(crate) fn follow(carrier: Carrier, stage: Stage, connections: u32) -> (Analyzer, usize) {
    sys::count();
    let before = sys::taken_bytes();
    let mut analyzer = Analyzer::new(Limits::default());
    match carrier {
        Carrier::Tcp => support::live(connections, stage, &mut analyzer),
        Carrier::Quic => quic::live(connections, stage, &mut analyzer),
    }
    let taken = sys::taken_bytes() - before;
    (analyzer, taken)
}
