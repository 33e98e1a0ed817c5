//! What a server did, from what arrived of it: hypotheses about its TCP, each played and held against the arrivals.
//!
//! Input: connections that were made alike, over TCP. Output: for each the [`Replay`] that gives its arrivals. A
//! hypothesis (the initial window, Nagle's algorithm) is one for all of them, for it is one server: what a single
//! connection leaves open, the others decide. Played, it says when each byte would be there had the server's
//! application written all at once. What came later was written later: a pause, which has its price, as in the split's
//! judge. What came earlier refutes the hypothesis. Bytes are compared, not segments: what is read ends with records.

use std::time::Duration;

use super::replay::{Arrived, RECORD, Replay, Role, Sent, Write};
use firstbyte_core::simulation::tcp::Habits;
use firstbyte_core::simulation::{Link, Path};
use firstbyte_core::split::{Part, Split, segment_bytes};
use firstbyte_core::timeline::{self, Connection, Direction, Handshake, Mark, Offset, TlsFacts};

/// Windows that servers begin with; a larger one never fills.
const WINDOWS: u32 = 20;
const NEVER: u32 = 1_000;
/// Connections that decide between hypotheses, at most.
const DECIDING: usize = 5;
/// Hosts take that long to notice what has arrived.
const NOISE: i64 = 400_000;
const EARLY: i64 = 200_000;
/// Client and server are not as quick each time: what is held back by both may come so much sooner.
const SOONER: i64 = 500_000;
/// A server's answer takes so long without being slow.
const WORK: i64 = 1_500_000;
/// What leaves within this time was written together.
const TOGETHER: i64 = 150_000;
/// Delayed acknowledgements: at least so long, and then up to a tick or two later.
const DELAYED: i64 = 38_000_000;
const TICKS: i64 = 6_000_000;
/// Costs are negative logarithms of odds, those of the split's judge.
const THINK: f64 = 0.7;
const PAUSE: f64 = 1.9;
const WINDOW: f64 = 3.0;
const NAGLE: f64 = 2.0;
const RATE: f64 = 3.0;
const MERGED: f64 = 0.1;
const MOST_MERGED: u32 = 2;
const DECADES: f64 = 5.3;
/// The header of a record is read with what follows it: so much of each packet is counted to the next, up to the end of
/// a record of 16 kB.
const HEADER: u64 = 5;
const RECORDS: u64 = 12;
/// IP, TCP and the time stamps' option.
const HEADERS: u64 = 52;
/// Below it a segment's time is no more than the noise of hosts.
const SHORTEST: f64 = 150_000.0;
/// A connection that does not fit at all.
const REFUTED: f64 = 25.0;
/// Writes of one connection that come late, at most.
const LATE: usize = 16;

/// What a hypothesis says of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hypothesis {
    window: Option<u32>,
    nagle: bool,
    /// Bits per second of the link.
    rate: Option<u64>,
}

impl Hypothesis {
    /// The usual ones first.
    fn all(rate: Option<u64>) -> impl Iterator<Item = Self> {
        let usual = [None, Some(10)].into_iter();
        let windows = usual.chain((1..=WINDOWS).filter(|window| *window != 10).map(Some));
        windows.flat_map(move |window| [false, true].map(|nagle| Self { window, nagle, rate }))
    }

    fn price(self) -> f64 {
        let window = if self.window.is_some_and(|window| window != 10) { WINDOW } else { 0.0 };
        let nagle = if self.nagle { NAGLE } else { 0.0 };
        let rate = if self.rate.is_some() { RATE } else { 0.0 };
        window + nagle + rate
    }
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

/// What was read from the connections.
#[derive(Debug, Default)]
pub(super) struct Fitted {
    /// In the order of the connections; absent for one that has nothing of what the others have in common.
    pub replays: Vec<Option<Replay>>,
    /// Bits per second of the link, where it is slow enough to be seen.
    pub rate: Option<u64>,
    /// The congestion window that the server begins with, where it fills.
    pub window: Option<u32>,
}

/// What is to be read.
#[derive(Debug, Default)]
pub(super) struct Asked<'a> {
    pub connections: Vec<&'a Connection>,
    /// Others with the same server over the same path, made in other ways.
    pub witnesses: Vec<&'a Connection>,
    /// What the server takes for the response where nothing can hold it back: on a connection that is open.
    pub think: Option<Duration>,
}

/// Finds the hypothesis that the connections have in common, and what each did by it.
pub(super) fn fit(asked: &Asked<'_>) -> Fitted {
    let think = asked.think.map_or(0, ns);
    let of = |connections: &[&Connection]| -> Vec<Option<Seen>> {
        connections.iter().map(|c| Seen::from_connection(c, think)).collect()
    };
    let (seen, witnesses) = (of(&asked.connections), of(&asked.witnesses));
    let whole: Vec<&Seen> = seen.iter().flatten().collect();
    let step = whole.len().div_ceil(DECIDING).max(1);
    let mut deciding: Vec<&Seen> = whole.iter().copied().step_by(step).collect();
    deciding.extend(witnesses.iter().flatten());
    let mut best: Option<(f64, Hypothesis)> = None;
    let mut try_all = |rate: Option<u64>| {
        for hypothesis in Hypothesis::all(rate) {
            let most = best.map_or(f64::INFINITY, |(cost, _)| cost);
            let mut cost = hypothesis.price();
            for seen in &deciding {
                if cost >= most {
                    break;
                }
                cost += seen.fit(hypothesis).map_or(REFUTED, |(cost, _)| cost.min(REFUTED));
            }
            if cost < most {
                best = Some((cost, hypothesis));
            }
            // Nothing was late: there is nothing to explain.
            if cost <= 0.0 {
                return;
            }
        }
    };
    try_all(None);
    try_all(rate(&deciding));
    let Some((_, hypothesis)) = best else { return Fitted::default() };
    let fitted = |seen: &Seen| seen.fit(hypothesis).map(|(_, replay)| replay);
    let replays = seen.iter().map(|seen| seen.as_ref().and_then(fitted)).collect();
    Fitted { replays, rate: hypothesis.rate, window: hypothesis.window }
}

/// The rate that segments right behind each other show, if they do: the median over connections.
fn rate(all: &[&Seen]) -> Option<u64> {
    let mut rates: Vec<f64> = all.iter().filter_map(|seen| seen.per_byte()).collect();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).map(|per_byte| (8e9 / per_byte) as u64)
}

fn ns(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

impl Seen {
    fn from_connection(connection: &Connection, think: i64) -> Option<Self> {
        connection.facts.tcp.as_ref()?;
        let (split, course) = Split::in_order(connection);
        let at = |mark| connection.marks.at(mark).map(Offset::as_nanos);
        let (connected, request_left) = (at(Mark::TcpConnected)?, at(Mark::RequestEnd)?);
        let response = connection.marks.first_packet_of_response()?.as_nanos();
        let end = at(Mark::ResponseEnd)?;
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

    /// Nanoseconds per byte by what followed each other fastest, and by all that agrees with it.
    fn per_byte(&self) -> Option<f64> {
        let pairs = || {
            let pairs = self.chunks.windows(2).filter(|pair| pair[0].asked == pair[1].asked);
            pairs.map(|pair| {
                let wire = self.wire(pair[1].end - pair[1].start) as f64;
                ((pair[1].at - pair[0].at) as f64, wire)
            })
        };
        let large = pairs().filter(|(_, wire)| *wire >= 1_000.0);
        let mut ratios: Vec<f64> = large.map(|(gap, wire)| gap / wire).collect();
        ratios.sort_by(f64::total_cmp);
        // The one that most agree with, the fastest of such: a stamp can be late, and the next gap short.
        let agree = |ratio: f64| ratios.iter().filter(|r| (*r / ratio - 1.0).abs() <= 0.05).count();
        let most = ratios.iter().map(|ratio| agree(*ratio)).max()?;
        let fastest = *ratios.iter().find(|ratio| agree(**ratio) == most)?;
        if fastest * 1_500.0 < SHORTEST {
            return None;
        }
        let agree = pairs().filter(|(gap, wire)| (gap / wire / fastest - 1.0).abs() <= 0.1);
        let (gaps, wires) = agree.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        Some(gaps / wires)
    }

    /// The writes, had all been written at once that answers one question; the response begins a write of its own.
    fn at_once(&self, hypothesis: Hypothesis, merged: u32) -> Vec<Write> {
        let mss = u64::from(self.base.path.mss).max(1);
        let whole = |bytes: u64| {
            let (tail, off) = (bytes % mss, RECORD + HEADER * (bytes / mss).min(RECORDS));
            bytes + RECORD >= mss && (tail <= RECORD || tail + off >= mss)
        };
        let mut writes: Vec<Write> = Vec::new();
        let mut before: Option<&Chunk> = None;
        for chunk in &self.chunks {
            let Chunk { at, start, end, asked: (_, needs), .. } = *chunk;
            let responds = needs == self.request;
            let (gap, last) =
                before.map_or((0, 0), |before| (at - before.at, before.end - before.start));
            before = Some(chunk);
            let apart = gap > TOGETHER + self.takes(hypothesis, end - start);
            // Where segments are counted anew, the one before was a small one.
            let small = last + RECORD < mss;
            let anew = responds && small && (whole(end - start) || end - start + RECORD < mss);
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

    /// What a hypothesis costs, and the replay that gives the arrivals with it; none when something came too early.
    /// What comes between request and response may have been more packets than are seen.
    fn fit(&self, hypothesis: Hypothesis) -> Option<(f64, Replay)> {
        let most = if hypothesis.nagle || hypothesis.window.is_none() { 0 } else { MOST_MERGED };
        let mut best: Option<(f64, Replay)> = None;
        for merged in 0..=most {
            let price = f64::from(merged) * MERGED;
            if best.as_ref().is_some_and(|(cost, _)| *cost <= price) {
                break;
            }
            if let Some((cost, replay)) = self.fit_merged(hypothesis, merged)
                && best.as_ref().is_none_or(|(least, _)| cost + price < *least)
            {
                best = Some((cost + price, replay));
            }
        }
        best
    }

    fn fit_merged(&self, hypothesis: Hypothesis, merged: u32) -> Option<(f64, Replay)> {
        let mut replay = self.base.clone();
        replay.server = self.at_once(hypothesis, merged);
        replay.path.down.rate = hypothesis.rate;
        replay.habits.initial_window = hypothesis.window.unwrap_or(NEVER);
        replay.habits.nagle = hypothesis.nagle;
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
            if hypothesis.nagle && begin + RECORD < chunk.end {
                let before = played - self.played(&arrived, chunk.start, begin)? - takes;
                cost += if before > SOONER { self.price(before) + PAUSE } else { 0.0 };
            }
            let known = if chunk.at == self.response { self.think } else { 0 };
            // Had nothing held it, it would have been there before.
            let hold = played - self.free(&replay.server, chunk) - takes;
            let held = hold > NOISE;
            if (!begins || held) && over <= NOISE + self.spread + takes / 10 {
                // What is known of a rate is not known to the last digit.
                drift += if takes > 0 { over } else { 0 };
                continue;
            }
            if (!begins || held) && gap >= DELAYED && over <= TICKS {
                drift += over;
                continue;
            }
            if over > NOISE + self.spread {
                late += 1;
                cost += if begins {
                    let over = (over - known).abs();
                    if over <= WORK { 0.0 } else { self.price(over) + THINK }
                } else {
                    self.price(over) + PAUSE
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

    /// Of a free time that happens to be just this, within what can be told apart.
    fn price(&self, over: i64) -> f64 {
        (over as f64 * DECADES / (2.0 * (NOISE + self.spread) as f64)).ln().max(0.0)
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
        if there(replay).is_none_or(|at| at > response.at + NOISE + TICKS) {
            replay.server[index].after = was;
        }
    }
}
