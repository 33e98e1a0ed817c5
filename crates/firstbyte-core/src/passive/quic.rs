//! UDP datagrams to QUIC connections.
//!
//! In: datagrams with their times and both ends. Out: one [`Observed`](super::Observed) per connection.
//! So far datagrams are counted by [`Hygiene`](super::Hygiene) and not followed.

use super::layers::{Endpoint, Payload};
use super::{Output, Time};

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// When it was captured.
    pub at: Time,
    /// Where it comes from.
    pub source: Endpoint,
    /// Where it goes.
    pub destination: Endpoint,
    /// What it carries.
    pub payload: Payload<'a>,
}

/// The QUIC connections that are under way.
#[derive(Debug)]
pub(super) struct Connections {}

impl Connections {
    /// With `seed` for hashing, which attackers must not know.
    pub(super) fn new(_seed: u64) -> Self {
        Self {}
    }

    /// The next datagram.
    pub(super) fn datagram(&mut self, _datagram: &Datagram<'_>, _out: &mut Output<'_>) {}

    /// The capture is over.
    pub(super) fn finish(&mut self, _out: &mut Output<'_>) {}
}
