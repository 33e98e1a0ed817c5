//! Reconstructs the server application's writes from the bytes that arrived.
//!
//! Input: connections over TCP, and the [`ServerFit`] of their server. Output: for each connection the [`Replay`]
//! that reproduces its arrivals. A replay with the likeliest model says when each byte would arrive if the server's
//! application had written everything at once. Bytes that came later were written later: a pause. Bytes that came
//! earlier refute the model for this connection. Bytes are compared, not segments, because reads end at record
//! boundaries.

use std::time::Duration;

use super::replay::{Replay, Role, Sent, Write};
use firstbyte_core::simulation::tcp::{Habits, QUICK_ACKS};
use firstbyte_core::simulation::{Link, Path};
use firstbyte_core::split::server_model::ServerFit;
use firstbyte_core::split::server_model::constants::*;
use firstbyte_core::split::{AttributedConnection, Part, segment_bytes};
use firstbyte_core::timeline::{self, Direction, Handshake, Mark, Offset, TlsFacts};

/// A window that never fills.
const NEVER: u32 = 1_000;
/// An answer can arrive this much before the shortest round trip is over.
const EARLY: i64 = 200_000;
/// Delayed acknowledgements arrive up to a tick or two late.
const TICKS: i64 = 6_000_000;
/// A record's header is read together with its content, so these bytes of each packet count towards the next
/// packet, until the end of a 16 kB record.
const HEADER: u64 = 5;
const RECORDS: u64 = 12;
/// Headers of IP and TCP, including the timestamps option.
const HEADERS: u64 = 52;
/// A replay's times may differ from the arrivals by this, or by a twentieth.
const CLOSE_NS: i64 = 2_000_000;

/// The server's behaviour, as one connection met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hypothesis {
    window: Option<u32>,
    nagle: bool,
    /// Bits per second of the link.
    rate: Option<u64>,
}

/// Bytes that arrived together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: i64,
    start: u64,
    end: u64,
    /// Departure of the question it answers, and the bytes sent until then.
    asked: (i64, u64),
    /// How much later it arrived because the path was slower.
    varied: i64,
    /// Whether it is known to end with a small segment, as only the end of a write does.
    ends_write: bool,
}

/// The observations of a connection, ready to compare with hypotheses.
#[derive(Debug)]
struct Seen {
    connected: i64,
    request: u64,
    response: i64,
    chunks: Vec<Chunk>,
    rtt: i64,
    /// Departure of the SYN, and the time when the client could read the first byte of the response.
    opened: i64,
    readable: i64,
    /// Arrivals that the split says were written late.
    late: Vec<(i64, i64)>,
    /// How far a replay's times may be off, nanoseconds.
    allowed: i64,
    /// The server's think time as seen when nothing can hold its response back.
    think: i64,
    /// Everything but the server's writes.
    base: Replay,
}

/// The replay of each connection by the likeliest model of the server; absent if the connection does not fit it.
pub(super) fn replays(
    connections: &[&AttributedConnection],
    fit: &ServerFit,
) -> Vec<Option<Replay>> {
    // Replays do not support a full send buffer.
    let model = fit.best().filter(|model| !model.full_buffer);
    let replay = |attributed: &&AttributedConnection| {
        let (model, connection) = (model?, &attributed.connection);
        let hypothesis = Hypothesis {
            window: model.initial_window,
            nagle: model.has_nagle(connection),
            rate: fit.link_rate,
        };
        let seen = Seen::from_connection(attributed, fit.think.map_or(0, ns))?;
        seen.read(hypothesis)
    };
    connections.iter().map(replay).collect()
}

/// Whether TLS 1.2 took a round trip more than TLS 1.3.
pub(super) fn is_full_tls12(tls: &TlsFacts) -> bool {
    tls.version.as_deref() == Some("TLSv1.2") && tls.handshake != Some(Handshake::Resumed)
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

impl Seen {
    fn from_connection(attributed: &AttributedConnection, think: i64) -> Option<Self> {
        let AttributedConnection { connection, split, course } = attributed;
        connection.facts.tcp.as_ref()?;
        // A proxy's behaviour cannot be replayed.
        if connection.facts.proxy.is_some() {
            return None;
        }
        let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
        let (connected, request_left) = (at(Mark::TcpConnected)?, at(Mark::RequestEnd)?);
        let response = connection.marks.first_packet_of_response()?.as_nanos();
        let end = at(Mark::ResponseEnd)?;
        let readable = at(Mark::ResponseStart).unwrap_or(response);
        let (rtt, spread) = (ns(split.rtt?), ns(split.rtt_spread.unwrap_or_default()));
        let (mut client, mut chunks) = (Vec::new(), Vec::<Chunk>::new());
        let (mut sent, mut received, mut last) = (0, 0, connected);
        let (mss, mut segment_end) = (segment_bytes(connection).max(1), 0);
        let mut asked: Vec<(i64, u64)> = Vec::new();
        for flight in &connection.flights {
            let (first, bytes) = (flight.first().as_nanos(), flight.bytes());
            if first > end {
                break;
            }
            if flight.direction == Direction::Sent {
                client.push(Sent { needs: received, after: (first - last).max(0), bytes });
                last = flight.last().as_nanos();
                // Ignore bytes that leave right after the request (an acknowledgement of settings).
                let in_time = |chunk: &&timeline::Chunk| chunk.stamp.at.as_nanos() <= request_left;
                let question = flight.chunks.iter().take_while(in_time);
                let (left, bytes_asked) =
                    question.fold((0, 0), |(_, sum), c| (c.stamp.at.as_nanos(), sum + c.bytes));
                if bytes_asked > 0 {
                    asked.push((left, sent + bytes_asked));
                }
                sent += bytes;
                continue;
            }
            for chunk in flight.chunks.iter().filter(|chunk| chunk.bytes > 0) {
                let at = chunk.stamp.at.as_nanos();
                if at > end {
                    break;
                }
                let start = received;
                received += chunk.bytes;
                let answers = |(left, _): &&(i64, u64)| *left + rtt - EARLY - spread <= at;
                let asked = *asked.iter().rev().find(answers)?;
                let before = chunks.last().map_or(i64::MIN, |chunk| chunk.at).max(asked.0);
                let varied = course.stretches.iter().filter(|s| s.part == Part::Variation);
                let within =
                    varied.map(|s| s.end.as_nanos().min(at) - s.start.as_nanos().max(before));
                let varied = within.map(|within| within.max(0)).sum();
                let full_segments = (received - segment_end + RECORD_BYTES) / mss;
                // Segments that end here and are smaller than the path allows. Uncounted ones may be full.
                let small_segments = match chunk.segments {
                    Some(0) => 0,
                    segments => {
                        segment_end = received;
                        u64::from(segments.unwrap_or(0)).saturating_sub(full_segments)
                    }
                };
                // Where each of them ends is unknown, so they get equal shares of the bytes.
                let writes = small_segments.clamp(1, chunk.bytes);
                for write in 0..writes {
                    chunks.push(Chunk {
                        at,
                        start: start + chunk.bytes * write / writes,
                        end: start + chunk.bytes * (write + 1) / writes,
                        asked,
                        varied,
                        ends_write: small_segments > 0,
                    });
                }
                last = at;
            }
        }
        let tls = connection.facts.tls.as_ref();
        let full = tls.is_some_and(|tls| tls.handshake != Some(Handshake::Resumed));
        let mut path = Path::with_rtt(split.rtt?);
        path.mss = u32::try_from(mss).ok()?;
        path.down = Link { queue: Duration::from_secs(3_600), ..path.down };
        let base = Replay {
            client,
            server: Vec::new(),
            first_byte: chunks.iter().rfind(|chunk| chunk.at <= readable)?.end,
            habits: Habits::default(),
            path,
            chain: tls.and_then(TlsFacts::certificate_chain_bytes).filter(|_| full),
            body: connection.facts.http.as_ref().and_then(|http| http.body_bytes),
            tls12: tls.is_some_and(is_full_tls12),
        };
        let request = asked.last()?.1;
        // Count the client's delayed acknowledgements as pauses, not as the server application's time.
        let delayed = |at: i64| -> i64 {
            let held = split.held.iter().filter(|held| held.until.as_nanos() == at);
            held.map(|held| ns(held.delayed)).sum()
        };
        let mut late: Vec<(i64, i64)> = Vec::new();
        for stretch in &course.stretches {
            let (end, lasted) = (stretch.end.as_nanos(), ns(stretch.duration()));
            let at = chunks.iter().map(|chunk| chunk.at).find(|at| *at >= end);
            if let (Part::Server | Part::Pause, Some(at)) = (stretch.part, at) {
                match late.last_mut() {
                    Some((last, sum)) if *last == at => *sum += lasted,
                    _ => late.push((at, lasted - delayed(at))),
                }
            }
        }
        let allowed = CLOSE_NS.max(ns(split.total()) / 20) + spread;
        let opened = connected - rtt;
        Some(Self {
            connected,
            request,
            response,
            chunks,
            rtt,
            opened,
            readable,
            late,
            allowed,
            think,
            base,
        })
    }

    fn wire(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(u64::from(self.base.path.mss).max(1)) * HEADERS
    }

    /// The writes as if each question had been answered all at once. The response begins a new write.
    fn at_once(&self, hypothesis: Hypothesis, merged: u32) -> Vec<Write> {
        let mss = u64::from(self.base.path.mss).max(1);
        let whole = |bytes: u64| {
            let (tail, off) = (bytes % mss, RECORD_BYTES + HEADER * (bytes / mss).min(RECORDS));
            bytes + RECORD_BYTES >= mss && (tail <= RECORD_BYTES || tail + off >= mss)
        };
        let mut writes: Vec<Write> = Vec::new();
        let mut before: Option<&Chunk> = None;
        for chunk in &self.chunks {
            let Chunk { at, start, end, asked: (_, needs), .. } = *chunk;
            let responds = needs == self.request;
            let (gap, last, ended) = before.map_or((0, 0, false), |before| {
                (at - before.at, before.end - before.start, before.ends_write)
            });
            before = Some(chunk);
            let apart = gap > TOGETHER_NS + self.takes(hypothesis, end - start);
            // If segments are counted anew, the previous one was small.
            let small = last + RECORD_BYTES < mss;
            let anew =
                responds && small && (whole(end - start) || end - start + RECORD_BYTES < mss);
            let goes_on = |write: &&mut Write| {
                let same = write.needs == needs && at != self.response;
                same && !ended && (whole(write.end - write.start) || !(apart || anew))
            };
            if let Some(write) = writes.last_mut().filter(goes_on) {
                write.end = end;
                continue;
            }
            let first = writes.last().is_none_or(|write| write.needs != needs);
            let role = match (responds, first) {
                (false, true) => Role::Handshake,
                (false, false) => Role::HandshakeMore,
                (true, _) if at <= self.response => Role::Think,
                (true, _) => Role::More,
            };
            writes.push(Write { needs, after: 0, start, end, role });
        }
        self.apart(&mut writes, merged);
        writes
    }

    /// Splits the data between request and response into `merged` more packets.
    fn apart(&self, writes: &mut Vec<Write>, merged: u32) {
        let response = self.chunks.iter().find(|chunk| chunk.at == self.response);
        let Some(response) = response.map(|chunk| chunk.start) else { return };
        let between = |write: &Write| write.needs == self.request && write.end <= response;
        let Some(index) = writes.iter().position(between) else { return };
        for _ in 0..merged {
            let Write { start, end, .. } = writes[index];
            let middle = start + (end - start) / 2;
            if middle > start && middle < end {
                let rest = Write { start: middle, ..writes[index] };
                writes[index].end = middle;
                writes.insert(index + 1, rest);
            }
        }
    }

    fn takes(&self, hypothesis: Hypothesis, bytes: u64) -> i64 {
        let per_byte = hypothesis.rate.map_or(0.0, |rate| 8e9 / rate as f64);
        (per_byte * self.wire(bytes) as f64) as i64
    }

    /// The replay closest to the arrivals; absent if none is close. It tries more packets between request and
    /// response than were seen, and a client kernel that acknowledges immediately for longer.
    fn read(&self, hypothesis: Hypothesis) -> Option<Replay> {
        let most = if hypothesis.window.is_none() { 0 } else { MOST_MERGED_PACKETS };
        let mut best: Option<(i64, Replay)> = None;
        for merged in 0..=most {
            for quick_acks in [QUICK_ACKS, u32::MAX] {
                if best.as_ref().is_some_and(|(off, _)| *off <= NOISE_NS) {
                    break;
                }
                let Some((off, replay)) = self.read_with(hypothesis, merged, quick_acks) else {
                    continue;
                };
                if best.as_ref().is_none_or(|(least, _)| off < *least) {
                    best = Some((off, replay));
                }
            }
        }
        best.filter(|(off, _)| *off <= self.allowed).map(|(_, replay)| replay)
    }

    /// A replay with these parameters, and how far its times of the first and the last byte are off.
    fn read_with(
        &self,
        hypothesis: Hypothesis,
        merged: u32,
        quick_acks: u32,
    ) -> Option<(i64, Replay)> {
        let mut replay = self.base.clone();
        replay.server = self.at_once(hypothesis, merged);
        replay.path.down.rate = hypothesis.rate;
        replay.habits.initial_window = hypothesis.window.unwrap_or(NEVER);
        replay.habits.nagle = hypothesis.nagle;
        replay.habits.client_quick_acks = quick_acks;
        for (late, lasted) in &self.late {
            let Some(chunk) = self.chunks.iter().find(|chunk| chunk.at == *late) else { continue };
            let takes = self.takes(hypothesis, chunk.end - chunk.start);
            let before = replay.server.clone();
            // Data that TCP held back most of the time was written earlier, at an unknown time.
            if self
                .write_late(&mut replay, chunk, takes)
                .is_some_and(|after| after > 2 * (*lasted).max(0))
            {
                replay.server = before;
            }
        }
        self.hide_thinking(&mut replay);
        let times = replay.times(&[])?;
        let off = |seen: i64, played: u64| (seen - self.opened - played as i64).abs();
        let last = self.chunks.last()?.at;
        Some((off(self.readable, times.first_byte).max(off(last, times.total)), replay))
    }

    /// Treats data from this chunk on as written late, so that it arrives when the chunk did.
    fn write_late(&self, replay: &mut Replay, chunk: &Chunk, takes: i64) -> Option<i64> {
        let writes = &mut replay.server;
        let mut index =
            writes.iter().position(|w| w.start <= chunk.start && chunk.start < w.end)?;
        if writes[index].start < chunk.start {
            let Write { needs, end, role, .. } = writes[index];
            let role = match role {
                Role::Handshake => Role::HandshakeMore,
                Role::Think if chunk.at > self.response => Role::More,
                role => role,
            };
            writes[index].end = chunk.start;
            index += 1;
            writes.insert(index, Write { needs, after: 0, start: chunk.start, end, role });
        }
        let base = self.written(writes, index);
        let could = chunk.at - chunk.varied - takes;
        writes[index].after = (could - base).max(0);
        Some(writes[index].after)
    }

    /// The earliest time at which a write can be made, as seen by the client.
    fn written(&self, writes: &[Write], index: usize) -> i64 {
        let before = writes[..index]
            .iter()
            .fold(i64::MIN / 2, |before, write| self.there(write.needs).max(before) + write.after);
        before.max(self.there(writes[index].needs))
    }

    /// The earliest time at which the client can have the answer to its first `needs` bytes.
    fn there(&self, needs: u64) -> i64 {
        let asked = self.chunks.iter().find(|chunk| chunk.asked.1 == needs);
        asked.map_or(i64::MIN / 2, |chunk| chunk.asked.0 + self.rtt)
    }

    /// If something held the response back, assumes that the server meanwhile thought as long as usual.
    fn hide_thinking(&self, replay: &mut Replay) {
        let Some(response) = self.chunks.iter().find(|chunk| chunk.at == self.response) else {
            return;
        };
        let Some(index) = replay.server.iter().position(|write| write.start == response.start)
        else {
            return;
        };
        let before: i64 = replay.server[..index]
            .iter()
            .filter(|write| write.needs == replay.server[index].needs)
            .map(|write| write.after)
            .sum();
        let most = response.at - response.varied - self.there(self.request);
        let think = self.think.min(most) - before;
        let write = &mut replay.server[index];
        if write.after >= think {
            return;
        }
        let (after, was) = (think, write.after);
        write.after = after;
        let there = |replay: &Replay| {
            let arrived = replay.play()?;
            Some(arrived.at(response.end)? as i64 - arrived.connected as i64 + self.connected)
        };
        // Revert if the think time would noticeably delay the response.
        if there(replay).is_none_or(|at| at > response.at + NOISE_NS + TICKS) {
            replay.server[index].after = was;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::Path as ObservedPath;
    use firstbyte_core::timeline::Chunk as TimelineChunk;

    /// The bytes of each write of the server's last answer in a TLS 1.2 handshake, which arrives in `chunks` of these
    /// bytes and segments.
    fn writes_of_last_answer(chunks: &[(u64, Option<u32>)]) -> Vec<u64> {
        let mut connection = ObservedPath { tls12: true, ..ObservedPath::default() }.connection();
        connection.facts.tcp.as_mut().unwrap().receive_mss = Some(1_448);
        let finished = connection.marks.at(Mark::HandshakeComplete).unwrap();
        let answer = connection
            .flights
            .iter_mut()
            .find(|f| f.direction == Direction::Received && f.first() == finished)
            .unwrap();
        let stamp = answer.chunks[0].stamp;
        let chunk =
            |&(bytes, segments)| TimelineChunk { segments, ..TimelineChunk::new(stamp, bytes) };
        answer.chunks = chunks.iter().map(chunk).collect();
        let seen = Seen::from_connection(&AttributedConnection::alone(connection), 0).unwrap();
        let finished = finished.as_nanos();
        let ends: Vec<u64> =
            seen.chunks.iter().filter(|c| c.at == finished).map(|c| c.end).collect();
        let hypothesis = Hypothesis { window: Some(2), nagle: false, rate: None };
        let writes = seen.at_once(hypothesis, 0);
        let in_answer = writes.iter().filter(|write| ends.contains(&write.end));
        in_answer.map(|write| write.end - write.start).collect()
    }

    #[test]
    fn a_small_segment_ends_a_write() {
        // Finished and SETTINGS arrive together, in a segment each.
        assert_eq!(writes_of_last_answer(&[(51, Some(1)), (62, Some(1))]), [51, 62]);
        assert_eq!(writes_of_last_answer(&[(113, Some(2))]), [56, 57]);
        // In one segment, which a record boundary cuts into two reads.
        assert_eq!(writes_of_last_answer(&[(51, Some(0)), (62, Some(1))]), [113]);
        // The kernel did not count.
        assert_eq!(writes_of_last_answer(&[(51, None), (62, None)]), [113]);
        // Full segments continue a write, with a read that ends within one or without.
        assert_eq!(writes_of_last_answer(&[(2_896, Some(2)), (500, Some(1))]), [3_396]);
        assert_eq!(writes_of_last_answer(&[(1_500, Some(1)), (1_896, Some(2))]), [3_396]);
        assert_eq!(
            writes_of_last_answer(&[(1_448, Some(1)), (500, Some(1)), (40, Some(1))]),
            [1_948, 40]
        );
        // More segments than bytes cannot be.
        assert_eq!(writes_of_last_answer(&[(1, Some(9))]), [1]);
    }
}
