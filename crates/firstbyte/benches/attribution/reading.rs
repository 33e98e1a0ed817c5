//! The passive reader's results for a connection at a tap, compared with the truth from both ends.

use std::time::Duration;

use firstbyte_core::timeline::Mark;
use firstbyte_passive::{Observed, model};
use firstbyte_truth::Passage;
use serde::{Deserialize, Serialize};

use crate::score::ms;
use crate::taps::Tap;

/// A quantity that the reader reports for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Quantity {
    RoundTrip,
    Connect,
    Handshake,
    Network,
    Server,
    Client,
    Wait,
    Answer,
    Transfer,
    Held,
}

impl Quantity {
    pub(crate) const ALL: [(Self, &'static str); 10] = [
        (Self::RoundTrip, "round trip"),
        (Self::Connect, "connect"),
        (Self::Handshake, "handshake"),
        (Self::Network, "its network"),
        (Self::Server, "its server"),
        (Self::Client, "its client"),
        (Self::Wait, "wait"),
        (Self::Answer, "server in it"),
        (Self::Transfer, "transfer"),
        (Self::Held, "held back"),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(quantity, _)| *quantity == self).map_or("", |(_, name)| name)
    }
}

/// One quantity of one connection at one tap, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Reading {
    /// Index in [`Tap::ALL`].
    pub(crate) tap: u8,
    pub(crate) quantity: Quantity,
    pub(crate) said: Option<f64>,
    /// The true value; the two ends of an interval if it is not exact.
    pub(crate) truth: [f64; 2],
    /// The value that the 3 % tolerance refers to.
    pub(crate) whole: f64,
    /// The reader marked its own value as doubtful.
    pub(crate) doubted: bool,
}

impl Reading {
    /// Reported minus true value; absent if nothing was reported.
    pub(crate) fn error(&self) -> Option<f64> {
        let [low, high] = self.truth;
        self.said.map(|said| if said < low { said - low } else { (said - high).max(0.0) })
    }

    fn allowed(&self) -> f64 {
        (self.whole * 0.03).max(1.0)
    }

    pub(crate) fn is_wrong(&self) -> bool {
        self.error().is_some_and(|error| error.abs() > self.allowed())
    }

    /// The error of a confident value, in multiples of the tolerance.
    pub(crate) fn badness(&self) -> f64 {
        if self.doubted { 0.0 } else { self.error().map_or(0.0, f64::abs) / self.allowed() }
    }
}

/// The values in `observed`, each with its truth.
pub(crate) fn readings(tap: Tap, observed: &Observed, truth: &Passage) -> Vec<Reading> {
    let connection = model::connection(observed);
    let between = |from: Mark, to: Mark| {
        let [from, to] = [from, to].map(|mark| connection.marks.at(mark));
        Some(to?.since(from?))
    };
    let time = observed.handshake_time;
    let first = observed.exchanges.first.first();
    let answer = first.and_then(|exchange| {
        let waited = exchange.response_first_packet?.signed_since(exchange.request_end);
        let path = observed.round_trips.server_min?;
        Some(Duration::from_nanos(waited.unsigned_abs()).saturating_sub(path))
    });
    let whole = truth.handshake.total();
    let doubts = !observed.doubts.is_empty();
    let exchange = doubts || observed.exchanges.approximate;
    let handshake = time.is_none_or(|time| !time.confident);
    let of = |get: fn(&firstbyte_passive::HandshakeTime) -> Duration| time.as_ref().map(get);
    let exact = |truth: Duration| [ms(truth); 2];
    let answered = truth.wait + truth.transfer;
    let open = ms(truth.handshake.open);
    let network = ms(truth.handshake.network);
    let server = ms(truth.handshake.server);
    // A tap cannot know of a SYN that was lost before it.
    let earliest = if tap == Tap::Client { truth.connect } else { truth.connect_last };
    let connect = [earliest, truth.connect].map(|time| ms(time.unwrap_or_default()));
    use Quantity as Q;
    let all = [
        (
            Q::RoundTrip,
            observed.round_trips.path(),
            exact(truth.round_trip),
            truth.round_trip,
            doubts,
        ),
        (
            Q::Connect,
            between(Mark::ConnectStart, Mark::TcpConnected),
            connect,
            truth.connect.unwrap_or_default(),
            doubts,
        ),
        (Q::Handshake, of(|time| time.total()), exact(whole), whole, handshake),
        (Q::Network, of(|time| time.network), [network - open, network], whole, handshake),
        (Q::Server, of(|time| time.server), [server, server + open], whole, handshake),
        (Q::Client, of(|time| time.client), exact(truth.handshake.client), whole, handshake),
        (
            Q::Wait,
            between(Mark::RequestEnd, Mark::ResponseStart),
            exact(truth.wait),
            truth.wait,
            exchange,
        ),
        (Q::Answer, answer, exact(truth.answer), truth.wait, exchange),
        (
            Q::Transfer,
            between(Mark::ResponseStart, Mark::ResponseEnd),
            exact(truth.transfer),
            answered,
            exchange,
        ),
        (
            Q::Held,
            Some(observed.held_back.map_or(Duration::ZERO, |held| held.time)),
            exact(truth.held),
            answered + whole,
            doubts,
        ),
    ];
    let of_tcp = |quantity: Q| !matches!(quantity, Q::Connect | Q::Held);
    let told =
        all.into_iter().filter(|(quantity, ..)| of_tcp(*quantity) || observed.quic.is_none());
    told.map(|(quantity, said, truth, whole, doubted)| Reading {
        tap: tap as u8,
        quantity,
        said: said.map(ms),
        truth,
        whole: ms(whole),
        doubted,
    })
    .collect()
}
