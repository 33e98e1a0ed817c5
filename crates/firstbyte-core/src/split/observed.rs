//! Properties of a connection before attribution: how its flights answer each other, its round-trip time, the slowest
//! link.

use std::time::Duration;

use super::bottleneck::Bottleneck;
use super::exchange::Walk;
use super::rules::Rules;
use super::{Known, phases, round_trip_time};
use crate::timeline::Connection;

/// A connection with properties computed once.
#[derive(Debug)]
pub(crate) struct ObservedConnection<'a> {
    pub connection: &'a Connection,
    pub(super) bottleneck: Bottleneck,
    pub(super) walks: Vec<Walk>,
    pub rtt: Option<Duration>,
}

impl<'a> ObservedConnection<'a> {
    /// Assumes a link of `link_rate` bits per second unless the connection proves another rate.
    pub(crate) fn from_connection(connection: &'a Connection, link_rate: Option<u64>) -> Self {
        Self::by_rules(Rules::Right, connection, link_rate)
    }

    pub(super) fn by_rules(
        rules: Rules,
        connection: &'a Connection,
        link_rate: Option<u64>,
    ) -> Self {
        let bottleneck = match rules {
            Rules::LinksAreFast => Bottleneck::default(),
            _ => Bottleneck::seen_in(connection).or_rate(link_rate),
        };
        let known = Known::from_facts(connection);
        let walk = |phase| Walk::through_phase(connection, phase, &bottleneck, known);
        let walks: Vec<Walk> = phases(connection).into_iter().map(walk).collect();
        let rtt = round_trip_time(known, &walks);
        Self { connection, bottleneck, walks, rtt }
    }

    /// Bits per second of the slowest link, if proven.
    pub(crate) fn link_rate(&self) -> Option<u64> {
        self.bottleneck.rate()
    }
}
