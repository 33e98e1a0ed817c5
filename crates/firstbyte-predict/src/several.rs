//! Several requests in one sample: how long a user waits for all of them.
//!
//! For HTTP/1.1, the dialogue of one connection is made with two exchanges, and all further exchanges repeat the
//! second. The connections are simulated together, over one path. On one HTTP/2 connection the requests leave
//! together, and the responses are interleaved frame by frame. Over HTTP/3 the state machines share the connection
//! among the streams.

use std::time::Instant;

use firstbyte_core::simulation::dialogue::{Dialogue, Lines, Places};
use firstbyte_core::simulation::tcp::{
    Opening, SeveralPlayed, SeveralRequests, nanos, play_several,
};
use firstbyte_core::timeline::{Connection, Direction, Exchange, Mark, Parallel, Requests};

use super::outline::{Record, before_first_packet, stamp};
use super::tls::{Conversation, FirstExchange, talk};
use super::{PredictError, Setup, Several, Way, quic};

/// Maximum size of all bodies together, which are kept in memory.
const MOST_BYTES: u64 = 100_000_000;

/// The first connection with its first exchange, and all requests.
pub(super) fn predict(
    setup: &Setup,
    way: &Way,
    several: &Several,
    base: Instant,
) -> Result<(Connection, Requests), PredictError> {
    match several.parallel {
        Parallel::Connections(connections) => on_connections(setup, way, several, connections),
        Parallel::Http2 | Parallel::Http3 => {
            check_streams(setup, several)?;
            match several.parallel {
                Parallel::Http3 => as_quic_streams(setup, way, several, base),
                _ => as_tcp_streams(setup, way, several),
            }
        }
    }
}

fn check_streams(setup: &Setup, several: &Several) -> Result<(), PredictError> {
    let refused = |why| Err(PredictError::NotPredicted { why });
    if setup.exchange.upload_bytes > 0 {
        return refused(
            "the order of several uploads over one connection depends on the client; several \
             uploads are only predicted for HTTP/1.1 connections",
        );
    }
    let all = setup.exchange.response_bytes.saturating_mul(several.count.into());
    if all > MOST_BYTES {
        return refused("the responses have more than 100 MB in total");
    }
    Ok(())
}

fn on_connections(
    setup: &Setup,
    way: &Way,
    several: &Several,
    connections: u16,
) -> Result<(Connection, Requests), PredictError> {
    // One connection might carry all requests except one for each other connection.
    let (dialogue, exchanges) =
        unrolled(talk(setup, way)?, several.count - u32::from(connections) + 1);
    let openings = exchanges.iter().map(|(client_steps, places)| Opening {
        client_steps: *client_steps,
        until: places.response_end,
    });
    let spacing = nanos(setup.client.connect_spacing);
    let openings = openings.collect();
    let asked = SeveralRequests { requests: several.count, connections, spacing, openings };
    let (records, played) = play(setup, &dialogue, &asked);
    let mut given = vec![0; records.len()];
    let mut exchange = |number: &u16| {
        let place = given.get_mut(usize::from(*number))?;
        let (_, places) = exchanges.get(*place)?;
        *place += 1;
        Some(exchange(setup, records.get(usize::from(*number))?, *number, places))
    };
    let exchanges = played.connections.iter().filter_map(&mut exchange).collect();
    let connection = |number: u16, record: &Record| {
        let gave_up = played.gave_up.as_ref().filter(|(failed, _)| *failed == number);
        let gave_up = gave_up.map(|(_, why)| why.clone());
        up_to_response_end(record.finish(setup, way, &dialogue, number == 0, gave_up))
    };
    let numbered = (0u16..).zip(&records);
    let mut all: Vec<Connection> =
        numbered.map(|(number, record)| connection(number, record)).collect();
    let further = all.split_off(1).into_iter().map(without_flights).collect();
    let first = all.pop().unwrap_or_default();
    Ok(whole(setup, several, first, further, exchanges))
}

fn as_tcp_streams(
    setup: &Setup,
    way: &Way,
    several: &Several,
) -> Result<(Connection, Requests), PredictError> {
    let Conversation { mut dialogue, responses, .. } = talk(setup, way)?;
    let all = dialogue.places;
    let mut places: Vec<Places> = responses
        .iter()
        .map(|(response_start, response_end)| Places {
            response_start: *response_start,
            response_end: *response_end,
            ..all
        })
        .collect();
    if let Some(last) = places.last_mut() {
        // Its end includes the end of its record.
        last.response_end = all.response_end;
    }
    // For the connection, all requests form one exchange.
    let openings = vec![Opening { client_steps: usize::MAX, until: all.response_end }];
    let asked = SeveralRequests { requests: 1, connections: 1, spacing: 0, openings };
    dialogue.places = places.first().copied().unwrap_or(all);
    let (records, played) = play(setup, &dialogue, &asked);
    let Some(record) = records.first() else {
        return Err(PredictError::Stalled { what: "there is no connection" });
    };
    let exchanges = places.iter().map(|places| exchange(setup, record, 0, places)).collect();
    let gave_up = played.gave_up.map(|(_, why)| why);
    let first = up_to_response_end(record.finish(setup, way, &dialogue, true, gave_up));
    Ok(whole(setup, several, first, Vec::new(), exchanges))
}

fn as_quic_streams(
    setup: &Setup,
    way: &Way,
    several: &Several,
    base: Instant,
) -> Result<(Connection, Requests), PredictError> {
    let played = quic::played(setup, way, base)?;
    let first = up_to_response_end(played.connection(setup, way));
    let exchanges = played.record.exchanges(setup, way);
    Ok(whole(setup, several, first, Vec::new(), exchanges))
}

/// Simulates the connections. Returns the record of each.
fn play(
    setup: &Setup,
    dialogue: &Dialogue,
    asked: &SeveralRequests,
) -> (Vec<Record>, SeveralPlayed) {
    let begun = |number| Record::begun_at(u64::from(number) * asked.spacing);
    let mut records: Vec<Record> = (0..asked.connections).map(begun).collect();
    let played = play_several(asked, dialogue, &setup.habits(), &setup.path, &mut records);
    (records, played)
}

/// A connection's dialogue with `exchanges` exchanges. Also returns for each the number of client steps up to its
/// request, and its places.
fn unrolled(conversation: Conversation, exchanges: u32) -> (Dialogue, Vec<(usize, Places)>) {
    let Conversation { mut dialogue, first, .. } = conversation;
    dialogue.origin_step = None;
    let second = dialogue.places;
    let Some(FirstExchange { places: of_first, steps, bytes }) = first else {
        return (dialogue, vec![(usize::MAX, second)]);
    };
    let asks = cut_off(&mut dialogue.client, steps[0], bytes[0]);
    let answers = cut_off(&mut dialogue.server, steps[1], bytes[1]);
    let mut places = vec![(dialogue.client.steps.len(), of_first)];
    for number in 1..exchanges {
        let before = u64::from(number - 1);
        let (up, down) = (before * asks.bytes, before * answers.bytes);
        repeat(&mut dialogue.client, &asks, down);
        repeat(&mut dialogue.server, &answers, up);
        let of_this = Places {
            request_start: second.request_start + up,
            request_end: second.request_end + up,
            response_start: second.response_start + down,
            response_end: second.response_end + down,
            ..second
        };
        places.push((dialogue.client.steps.len(), of_this));
    }
    dialogue.places = of_first;
    (dialogue, places)
}

/// Removes and returns one side's second exchange: everything after the given number of steps and bytes.
fn cut_off(lines: &mut Lines, steps: usize, bytes: u64) -> Lines {
    let cut = lines.steps.split_off(steps);
    let of_second = Lines { steps: cut, bytes: lines.bytes - bytes, ..Lines::default() };
    lines.messages.retain(|message| message.end <= bytes);
    lines.bytes = bytes;
    of_second
}

/// Appends an exchange like `second`, which waits for `later` more bytes from the other side.
fn repeat(lines: &mut Lines, second: &Lines, later: u64) {
    for step in &second.steps {
        lines.write(step.needs + later, step.after, step.bytes);
    }
}

/// One exchange of a connection, from its places.
fn exchange(setup: &Setup, record: &Record, number: u16, places: &Places) -> Exchange {
    let before = before_first_packet(setup, &mut Connection::default());
    let at = |direction, place| {
        let at = record.at(direction, place)?;
        Some(stamp((at + nanos(before)).cast_signed()))
    };
    Exchange {
        connection: number,
        request_start: at(Direction::Sent, places.request_start),
        request_end: at(Direction::Sent, places.request_end),
        response_start: at(Direction::Received, places.response_start),
        response_end: at(Direction::Received, places.response_end),
        ..Exchange::default()
    }
}

/// The first connection, and all requests, each with its answer or the reason why it has none.
fn whole(
    setup: &Setup,
    several: &Several,
    first: Connection,
    further: Vec<Connection>,
    mut exchanges: Vec<Exchange>,
) -> (Connection, Requests) {
    let connections = std::iter::once(&first).chain(&further);
    let failure = connections.filter_map(|connection| connection.failure.clone()).next();
    for exchange in &mut exchanges {
        if exchange.response_end.is_some() {
            exchange.status = Some(200);
            exchange.body_bytes = Some(setup.exchange.response_bytes);
        } else {
            exchange.failure.clone_from(&failure);
        }
    }
    let Several { count: asked, parallel } = *several;
    (first, Requests { parallel, asked, further, exchanges })
}

/// The part of a connection with several exchanges that belongs to the first one, as a measurement reports it.
fn up_to_response_end(mut connection: Connection) -> Connection {
    let Some(end) = connection.marks.at(Mark::ResponseEnd) else { return connection };
    for flight in &mut connection.flights {
        // Data sent at the very moment the response is complete is the next request.
        let sent = flight.direction == Direction::Sent;
        flight.chunks.retain(|chunk| chunk.stamp.at < end || (chunk.stamp.at == end && !sent));
    }
    connection.flights.retain(|flight| !flight.chunks.is_empty());
    connection
}

/// A further connection: its set-up and its purpose.
fn without_flights(mut connection: Connection) -> Connection {
    connection.flights = Vec::new();
    connection
}

#[cfg(test)]
mod tests;
