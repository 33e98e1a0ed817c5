//! What connections that are under way take: many at once, halfway through their handshakes or with some
//! exchanges behind them.

use firstbyte_passive::{Analyzer, Limits};

use super::sys;
use super::{quic, support};

/// How far connections have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server has answered, the client has not.
    MidHandshake,
    /// The handshake is over, and so are ten exchanges, some seconds apart.
    UnderWay,
}

/// What carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Tcp,
    Quic,
}

pub(crate) const EXCHANGES: usize = 10;
/// Between exchanges, with nanoseconds that are no round number.
pub(crate) const PAUSE_NS: i64 = 7_123_456_789;

/// An analyzer that follows so many connections, all at `stage`; and the bytes of the heap it takes.
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
