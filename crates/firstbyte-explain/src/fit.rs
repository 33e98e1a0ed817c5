//! What a server's application did, from what arrived of it.
//!
//! Input: connections over TCP, and the [`ServerFit`] of their server. Output: for each the [`Replay`] that gives its
//! arrivals. Played by the likeliest model, it says when each byte would be there had the server's application written
//! all at once. What came later was written later: a pause. What came earlier refutes the model for this connection. Bytes
//! are compared, not segments: what is read ends with records.

use std::time::Duration;

use super::replay::{Arrived, Replay, Role, Sent, Write};
use firstbyte_core::simulation::tcp::{Habits, QUICK_ACKS};
use firstbyte_core::simulation::{Link, Path};
use firstbyte_core::split::server_model::ServerFit;
use firstbyte_core::split::server_model::constants::*;
use firstbyte_core::split::{AttributedConnection, Part, segment_bytes};
use firstbyte_core::timeline::{self, Direction, Handshake, Mark, Offset, TlsFacts};

/// A window that never fills.
const NEVER: u32 = 1_000;
/// An answer can come so much before the shortest round trip is over.
const EARLY: i64 = 200_000;
/// Client and server are not as quick each time: what is held back by both may come so much sooner.
const SOONER: i64 = 500_000;
/// Delayed acknowledgements: at least so long, and then up to a tick or two later.
const DELAYED: i64 = DELAYED_ACK_NS - TICK_EARLIER_NS / 2;
const TICKS: i64 = 6_000_000;
/// The header of a record is read with what follows it: so much of each packet is counted to the next, up to the end of
/// a record of 16 kB.
const HEADER: u64 = 5;
const RECORDS: u64 = 12;
/// IP, TCP and the time stamps' option.
const HEADERS: u64 = 52;
/// Writes of one connection that come late, at most.
const LATE: usize = 16;

/// The server as one connection met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hypothesis {
    window: Option<u32>,
    nagle: bool,
    /// Bits per second of the link.
    rate: Option<u64>,
}

/// What arrived together.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    at: i64,
    start: u64,
    end: u64,
    /// When the question left that it answers, and the bytes sent until then.
    asked: (i64, u64),
    /// How much later it came because the way took longer.
    varied: i64,
}

/// A connection, ready to be held against hypotheses.
#[derive(Debug)]
struct Seen {
    connected: i64,
    request: u64,
    response: i64,
    chunks: Vec<Chunk>,
    rtt: i64,
    spread: i64,
    /// What the server thinks where nothing can hold its response back.
    think: i64,
    /// Everything but the server's writes.
    base: Replay,
}

/// How each connection is played: by the likeliest model of the server. Absent for a connection that does not fit it.
pub(super) fn replays(
    connections: &[&AttributedConnection],
    fit: &ServerFit,
) -> Vec<Option<Replay>> {
    // A send buffer that is full is not played.
    let model = fit.best().filter(|model| !model.full_buffer);
    let replay = |attributed: &&AttributedConnection| {
        let (model, connection) = (model?, &attributed.connection);
        let hypothesis = Hypothesis {
            window: model.initial_window,
            nagle: model.has_nagle(connection),
            rate: fit.link_rate,
        };
        let seen = Seen::from_connection(attributed, fit.think.map_or(0, ns))?;
        seen.fit(hypothesis)
    };
    connections.iter().map(replay).collect()
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

impl Seen {
    fn from_connection(attributed: &AttributedConnection, think: i64) -> Option<Self> {
        let AttributedConnection { connection, split, course } = attributed;
        connection.facts.tcp.as_ref()?;
        let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
        let (connected, request_left) = (at(Mark::TcpConnected)?, at(Mark::RequestEnd)?);
        let response = connection.marks.first_packet_of_response()?.as_nanos();
        let end = at(Mark::ResponseEnd)?;
        let readable = at(Mark::ResponseStart).unwrap_or(response);
        let (rtt, spread) = (ns(split.rtt?), ns(split.rtt_spread.unwrap_or_default()));
        let (mut client, mut chunks) = (Vec::new(), Vec::<Chunk>::new());
        let (mut sent, mut received, mut last) = (0, 0, connected);
        let mut asked: Vec<(i64, u64)> = Vec::new();
        for flight in &connection.flights {
            let (first, bytes) = (flight.first().as_nanos(), flight.bytes());
            if first > end {
                break;
            }
            if flight.direction == Direction::Sent {
                client.push(Sent { needs: received, after: (first - last).max(0), bytes });
                last = flight.last().as_nanos();
                // What leaves right behind the request (an acknowledgement of settings) is not waited for.
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
                chunks.push(Chunk { at, start, end: received, asked, varied });
                last = at;
            }
        }
        let tls = connection.facts.tls.as_ref();
        let full = tls.is_some_and(|tls| tls.handshake != Some(Handshake::Resumed));
        let mut path = Path::with_rtt(split.rtt?);
        path.mss = u32::try_from(segment_bytes(connection)).ok()?;
        path.down = Link { queue: Duration::from_secs(3_600), ..path.down };
        let base = Replay {
            client,
            server: Vec::new(),
            first_byte: chunks.iter().rfind(|chunk| chunk.at <= readable)?.end,
            habits: Habits::default(),
            path,
            chain: tls.and_then(TlsFacts::certificate_chain_bytes).filter(|_| full),
            body: connection.facts.http.as_ref().and_then(|http| http.body_bytes),
            tls12: tls.and_then(|tls| tls.version.as_deref()) == Some("TLSv1.2") && full,
        };
        let request = asked.last()?.1;
        Some(Self { connected, request, response, chunks, rtt, spread, think, base })
    }

    fn wire(&self, bytes: u64) -> u64 {
        bytes + bytes.div_ceil(u64::from(self.base.path.mss).max(1)) * HEADERS
    }

    /// The writes, had all been written at once that answers one question; the response begins a write of its own.
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
            let (gap, last) =
                before.map_or((0, 0), |before| (at - before.at, before.end - before.start));
            before = Some(chunk);
            let apart = gap > TOGETHER_NS + self.takes(hypothesis, end - start);
            // Where segments are counted anew, the one before was a small one.
            let small = last + RECORD_BYTES < mss;
            let anew =
                responds && small && (whole(end - start) || end - start + RECORD_BYTES < mss);
            let goes_on = |write: &&mut Write| {
                let same = write.needs == needs && at != self.response;
                same && (whole(write.end - write.start) || !(apart || anew))
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

    /// What comes between request and response was so many packets more.
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

    /// The replay that gives the arrivals; none when something came too early. What comes between request and response may
    /// have been more packets than are seen, and the client's kernel may acknowledge at once for longer.
    fn fit(&self, hypothesis: Hypothesis) -> Option<Replay> {
        let most = if hypothesis.window.is_none() { 0 } else { MOST_MERGED_PACKETS };
        let mut best: Option<(f64, Replay)> = None;
        for merged in 0..=most {
            for quick_acks in [QUICK_ACKS, u32::MAX] {
                let price = f64::from(merged) * MERGED_COST;
                if best.as_ref().is_some_and(|(cost, _)| *cost <= price) {
                    continue;
                }
                if let Some((cost, replay)) = self.fit_merged(hypothesis, merged, quick_acks)
                    && best.as_ref().is_none_or(|(least, _)| cost + price < *least)
                {
                    best = Some((cost + price, replay));
                }
            }
        }
        best.map(|(_, replay)| replay)
    }

    fn fit_merged(
        &self,
        hypothesis: Hypothesis,
        merged: u32,
        quick_acks: u32,
    ) -> Option<(f64, Replay)> {
        let mut replay = self.base.clone();
        replay.server = self.at_once(hypothesis, merged);
        replay.path.down.rate = hypothesis.rate;
        replay.habits.initial_window = hypothesis.window.unwrap_or(NEVER);
        replay.habits.nagle = hypothesis.nagle;
        replay.habits.client_quick_acks = quick_acks;
        let (mut cost, mut late, mut drift) = (0.0, 0, 0);
        let mut arrived = replay.play()?;
        let mut previous: Option<&Chunk> = None;
        for (index, chunk) in self.chunks.iter().enumerate() {
            let first = previous.is_none_or(|before| before.asked.1 != chunk.asked.1);
            let begins = first || chunk.at == self.response;
            let gap = previous.map_or(0, |before| chunk.at - before.at);
            previous = Some(chunk);
            if first {
                drift = 0;
            }
            let played = self.played(&arrived, chunk.start, chunk.end)?;
            let mut over = chunk.at - chunk.varied - played - drift;
            if drift > 0 && over < 0 && over + drift >= -SOONER {
                // What the last timer released late did not release this.
                over += drift;
                drift = 0;
            }
            // A stamp can be that of what came behind. What is late and not caught up with lasts.
            if let Some(next) = self.chunks.get(index + 1).filter(|next| next.asked == chunk.asked)
            {
                let lasts =
                    next.at - next.varied - self.played(&arrived, next.start, next.end)? - drift;
                over = over.min(lasts.max(-EARLY));
            }
            let takes = self.takes(hypothesis, chunk.end - chunk.start);
            if over < -(SOONER + self.spread + takes / 10) {
                // Timers count in ticks.
                if gap >= DELAYED && over > -TICKS {
                    drift += over;
                    continue;
                }
                return None;
            }
            // All of a chunk came at one time; had its begin been free to go, it would have.
            let begin = chunk.start + u64::from(self.base.path.mss);
            if hypothesis.nagle && begin + RECORD_BYTES < chunk.end {
                let before = played - self.played(&arrived, chunk.start, begin)? - takes;
                cost += if before > SOONER { self.price(before) + PAUSE_COST } else { 0.0 };
            }
            let known = if chunk.at == self.response { self.think } else { 0 };
            // Had nothing held it, it would have been there before.
            let hold = played - self.free(&replay.server, chunk) - takes;
            let held = hold > NOISE_NS;
            if (!begins || held) && over <= NOISE_NS + self.spread + takes / 10 {
                // What is known of a rate is not known to the last digit.
                drift += if takes > 0 { over } else { 0 };
                continue;
            }
            if (!begins || held) && gap >= DELAYED && over <= TICKS {
                drift += over;
                continue;
            }
            if over > NOISE_NS + self.spread {
                late += 1;
                cost += if begins {
                    let over = (over - known).abs();
                    if over <= WORK_NS { 0.0 } else { self.price(over) + THINK_COST }
                } else {
                    self.price(over) + PAUSE_COST
                };
            }
            if late > LATE {
                return None;
            }
            // A pause that ends just when what held it back does would be a strange one.
            if held && over < hold / 4 {
                drift += over;
                continue;
            }
            if over > 0 {
                self.write_late(&mut replay, chunk, takes);
                arrived = replay.play()?;
            }
        }
        self.hide_thinking(&mut replay);
        Some((cost, replay))
    }

    /// When what lies between two places is there as it was played.
    fn played(&self, arrived: &Arrived, start: u64, end: u64) -> Option<i64> {
        let at = arrived.nearly_at(start, end)?;
        Some(at as i64 - arrived.connected as i64 + self.connected)
    }

    fn price(&self, over: i64) -> f64 {
        delay_cost(over, NOISE_NS + self.spread)
    }

    /// What begins with this chunk was written when it came as it did.
    fn write_late(&self, replay: &mut Replay, chunk: &Chunk, takes: i64) {
        let writes = &mut replay.server;
        let Some(mut index) =
            writes.iter().position(|w| w.start <= chunk.start && chunk.start < w.end)
        else {
            return;
        };
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
    }

    /// When a write can be made at the earliest, as the client sees it.
    fn written(&self, writes: &[Write], index: usize) -> i64 {
        let before = writes[..index]
            .iter()
            .fold(i64::MIN / 2, |before, write| self.there(write.needs).max(before) + write.after);
        before.max(self.there(writes[index].needs))
    }

    /// When what begins with this chunk would be there, had nothing held it.
    fn free(&self, writes: &[Write], chunk: &Chunk) -> i64 {
        let index = writes.iter().position(|w| w.start <= chunk.start && chunk.start < w.end);
        index.map_or(i64::MAX / 2, |index| self.written(writes, index) + writes[index].after)
    }

    /// When the client can have the answer to so many bytes at the earliest.
    fn there(&self, needs: u64) -> i64 {
        let asked = self.chunks.iter().find(|chunk| chunk.asked.1 == needs);
        asked.map_or(i64::MIN / 2, |chunk| chunk.asked.0 + self.rtt)
    }

    /// Where something held the response back, the server thought meanwhile for as long as it does elsewhere.
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
        // No more than what makes no difference.
        if there(replay).is_none_or(|at| at > response.at + NOISE_NS + TICKS) {
            replay.server[index].after = was;
        }
    }
}
