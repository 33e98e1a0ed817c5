//! Kinds of conversation: one exchange, two, or simultaneous requests; and HTTP without TLS.

use std::time::Duration;

use super::{REST, http_facts};
use crate::http::{self, Written};
use crate::{Reuse, Setup, Several, Way};
use firstbyte_core::simulation::dialogue::{Dialogue, Lines, Places};
use firstbyte_core::timeline::Parallel;

/// A dialogue and its exchanges.
pub(crate) struct Conversation {
    pub(crate) dialogue: Dialogue,
    /// Where the first of two exchanges ended; the second followed immediately.
    pub(crate) first: Option<FirstExchange>,
    /// For simultaneous requests: byte positions where each response begins and ends.
    pub(crate) responses: Vec<(u64, u64)>,
}

/// Where the first of two exchanges ended.
#[derive(Clone, Copy)]
pub(crate) struct FirstExchange {
    pub(crate) places: Places,
    /// Number of steps of the client and of the server until then.
    pub(crate) steps: [usize; 2],
    /// Number of bytes of the client and of the server until then.
    pub(crate) bytes: [u64; 2],
}

impl FirstExchange {
    pub(super) fn ended_by(dialogue: &Dialogue) -> Self {
        let (client, server) = (&dialogue.client, &dialogue.server);
        Self {
            places: dialogue.places,
            steps: [client.steps.len(), server.steps.len()],
            bytes: [client.bytes, server.bytes],
        }
    }
}

/// Number of consecutive exchanges to make, and how long the client rests between them. Two are enough, because all
/// further exchanges are like the second.
pub(super) fn in_sequence(setup: &Setup, way: &Way) -> (u32, Duration) {
    match way.several {
        Some(Several { count, parallel: Parallel::Connections(_) }) => {
            (count.min(2), setup.client.next_time)
        }
        Some(_) => (1, Duration::ZERO),
        None if way.reuse == Reuse::Reused => (2, REST),
        None => (1, Duration::ZERO),
    }
}

/// Number of requests that leave together.
pub(super) fn at_once(way: &Way) -> u32 {
    match way.several {
        Some(Several { count, parallel: Parallel::Http2 | Parallel::Http3 }) => count,
        _ => 1,
    }
}

/// HTTP without TLS.
pub(super) fn plain(setup: &Setup, way: &Way) -> Conversation {
    let mut dialogue = Dialogue::default();
    let (exchanges, rest) = in_sequence(setup, way);
    let mut first = None;
    let request = http::request(way.http, &setup.exchange, true);
    let response = http::response(way.http, &setup.exchange);
    for exchange in 0..exchanges {
        let rest = if exchange == 0 { Duration::ZERO } else { rest };
        if exchange == 1 && way.several.is_some() {
            first = Some(FirstExchange::ended_by(&dialogue));
        }
        dialogue.origin_step = (exchange > 0).then_some(dialogue.client.steps.len());
        let (asked, answered) = (dialogue.client.bytes, dialogue.server.bytes);
        say(&mut dialogue.client, answered, rest, &request);
        dialogue.places.request_start = asked + 1;
        dialogue.places.request_end = dialogue.client.bytes;
        say(&mut dialogue.server, dialogue.client.bytes, setup.server.think_time, &response);
        dialogue.places.response_start = answered + 1;
        dialogue.places.response_end = dialogue.server.bytes;
    }
    dialogue.http = http_facts(setup, way, request.bytes.len());
    Conversation { dialogue, first, responses: Vec::new() }
}

fn say(lines: &mut Lines, needs: u64, after: Duration, what: &Written) {
    let start = lines.bytes;
    lines.write(needs, after, what.bytes.len() as u64);
    for (i, name) in what.names.iter().enumerate() {
        let end = if i == 0 { start + 1 } else { lines.bytes };
        lines.name(end, name.clone());
    }
}
