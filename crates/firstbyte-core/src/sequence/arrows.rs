//! The arrows of flights: cut where the response begins, folded while it lasts.
//!
//! Input: flights and marks. Output: arrows with the bytes of the flights.

use std::time::Duration;

use super::{Arrow, ArrowKind, Burst, Moment, half};
use crate::split::Course;
use crate::timeline::{Chunk, Connection, Direction, Flight, Mark, Offset};

pub(super) fn lay_arrows(
    connection: &Connection,
    rtt: Option<Duration>,
    course: &Course,
) -> Vec<Arrow> {
    let away = rtt.map(half);
    let to = Drawing { away, resumed: &course.resumed };
    let marks = &connection.marks;
    let begun = marks.first_packet_of_response();
    let ended = marks.at(Mark::ResponseEnd);
    let has_interim = marks.at(Mark::InterimResponseStart).is_some();
    let in_response =
        |at: Offset| begun.is_some_and(|b| at >= b) && ended.is_none_or(|ended| at <= ended);
    let mut arrows = Vec::new();
    let mut response = Folded::default();
    let mut meanwhile = Folded::default();
    for flight in &connection.flights {
        match flight.direction {
            Direction::Received => {
                let cut = |from: usize| {
                    let inside = in_response(flight.chunks[from].stamp.at);
                    let same = |c: &&Chunk| in_response(c.stamp.at) == inside;
                    (from + flight.chunks[from..].iter().take_while(same).count(), inside)
                };
                let mut from = 0;
                let mut messages = flight.messages.as_slice();
                while from < flight.chunks.len() {
                    let (to_chunk, inside) = cut(from);
                    let chunks = &flight.chunks[from..to_chunk];
                    let last = to_chunk == flight.chunks.len();
                    let rest = flight.chunks.len() - to_chunk;
                    let count = match (last, connection.facts.quic.is_some()) {
                        (true, _) => messages.len(),
                        // One packet per datagram, except that those of a handshake go together.
                        (false, true) => messages.len().saturating_sub(rest),
                        (false, false) => names_before(messages, inside, has_interim),
                    };
                    let (these, rest) = messages.split_at(count);
                    messages = rest;
                    from = to_chunk;
                    match inside {
                        true => response.add(chunks, these),
                        false => arrows.push(to.arrow(ArrowKind::Flight, flight, chunks, these)),
                    }
                }
            }
            Direction::Sent
                if begun.is_some_and(|begun| flight.first() >= begun)
                    && is_upkeep(&flight.messages) =>
            {
                meanwhile.add(&flight.chunks, &flight.messages);
            }
            Direction::Sent => {
                let kind = ArrowKind::Flight;
                arrows.push(to.arrow(kind, flight, &flight.chunks, &flight.messages));
            }
        }
    }
    arrows.extend(to.folded(ArrowKind::Response, Direction::Received, &response));
    arrows.extend(to.folded(ArrowKind::Meanwhile, Direction::Sent, &meanwhile));
    mark_unanswered(connection, &mut arrows);
    arrows
}

/// Number of `messages` that precede the response's start (or, with `inside`, its end: then all of them).
///
/// Messages in front of the response's first one came before it, or with it; so do the heads of interim responses.
fn names_before(messages: &[String], inside: bool, has_interim: bool) -> usize {
    let mut begins = messages.iter().enumerate().filter(|(_, name)| begins_response(name));
    let begin = match (inside, has_interim) {
        (true, _) => None,
        (false, true) => begins.next_back(),
        (false, false) => begins.next(),
    };
    begin.map_or(messages.len(), |(index, _)| index)
}

/// Whether the message `name` begins a response: HEADERS (RFC 9113 §6.2), or a status line (RFC 9112 §4) with or
/// without its version.
pub fn begins_response(name: &str) -> bool {
    let bare = name.trim_start_matches('{').trim_end_matches('}');
    let status = bare.len() == 3 && bare.bytes().all(|b| b.is_ascii_digit());
    bare == "HEADERS" || bare.starts_with("HTTP/1.") || status
}

/// Whether `messages` contains no part of a handshake or request.
fn is_upkeep(messages: &[String]) -> bool {
    const UPKEEP: [&str; 8] = [
        "SETTINGS",
        "WINDOW_UPDATE",
        "PING",
        "GOAWAY",
        "Alert",
        "close_notify",
        "Handshake",
        "1-RTT",
    ];
    let upkeep = |name: &String| {
        let bare = name.trim_start_matches('{').trim_end_matches('}');
        UPKEEP.contains(&bare.split([' ', ',']).next().unwrap_or(bare))
    };
    messages.iter().all(upkeep)
}

/// Several flights drawn as one arrow.
#[derive(Default)]
struct Folded {
    chunks: Vec<Chunk>,
    messages: Vec<String>,
}

impl Folded {
    fn add(&mut self, chunks: &[Chunk], messages: &[String]) {
        self.chunks.extend_from_slice(chunks);
        self.messages.extend_from_slice(messages);
    }
}

struct Drawing<'a> {
    /// One-way delay to the other side.
    away: Option<Duration>,
    /// Times, ascending, at which data resumed after its sender had paused.
    resumed: &'a [Offset],
}

impl Drawing<'_> {
    fn arrow(
        &self,
        kind: ArrowKind,
        flight: &Flight,
        chunks: &[Chunk],
        messages: &[String],
    ) -> Arrow {
        Arrow {
            kind,
            direction: flight.direction,
            messages: messages.to_vec(),
            bursts: self.bursts(flight.direction, chunks),
            unanswered: false,
            remote: None,
        }
    }

    fn folded(&self, kind: ArrowKind, direction: Direction, folded: &Folded) -> Option<Arrow> {
        (!folded.chunks.is_empty()).then(|| Arrow {
            kind,
            direction,
            messages: folded.messages.clone(),
            bursts: match kind {
                ArrowKind::Meanwhile => vec![self.burst(direction, &folded.chunks)],
                _ => self.bursts(direction, &folded.chunks),
            },
            unanswered: false,
            remote: None,
        })
    }

    fn bursts(&self, direction: Direction, chunks: &[Chunk]) -> Vec<Burst> {
        let goes_on = |_: &Chunk, next: &Chunk| {
            direction == Direction::Sent || self.resumed.binary_search(&next.stamp.at).is_err()
        };
        chunks.chunk_by(goes_on).map(|chunks| self.burst(direction, chunks)).collect()
    }

    fn burst(&self, direction: Direction, chunks: &[Chunk]) -> Burst {
        let first = chunks.first().map_or(Offset::ZERO, |chunk| chunk.stamp.at);
        let last = chunks.last().map_or(first, |chunk| chunk.stamp.at);
        let seen = Some(Moment::seen(first));
        let (departed, arrived) = match direction {
            Direction::Sent => (seen, self.away.map(|away| Moment::estimated(first + away))),
            Direction::Received => (self.away.map(|away| Moment::estimated(first - away)), seen),
        };
        Burst {
            departed,
            arrived,
            spread: last.since(first),
            bytes: Some(chunks.iter().map(|chunk| chunk.bytes).sum()),
            // A chunk without bytes only marks when the burst began.
            chunks: chunks.iter().filter(|chunk| chunk.bytes > 0).count().max(1),
        }
    }
}

/// Marks the last flight of an abandoned connection if nothing shows that it arrived.
fn mark_unanswered(connection: &Connection, arrows: &mut [Arrow]) {
    const GIVEN_UP: [&str; 3] = ["timed-out", "interrupted", "unreachable"];
    let Some(failure) = &connection.failure else { return };
    // QUIC's idle timeout has no name of its own; if nothing arrived there was no answer.
    let heard = connection.flights.iter().any(|f| f.direction == Direction::Received);
    let name = failure.cause.name();
    if !GIVEN_UP.contains(&name) && (name != "quic" || heard) {
        return;
    }
    let Some(flight) = connection.flights.last() else { return };
    let arrived = flight.chunks.iter().any(|chunk| chunk.acknowledged.is_some());
    if flight.direction == Direction::Received || arrived {
        return;
    }
    let last = arrows.iter_mut().filter(|a| a.direction == Direction::Sent).max_by_key(|a| a.at());
    if let Some(arrow) = last {
        arrow.unanswered = true;
        for burst in &mut arrow.bursts {
            burst.arrived = None;
        }
    }
}
