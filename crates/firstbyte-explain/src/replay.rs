//! Replays a connection without one or several of its faults.
//!
//! Input: what `fit` read from a connection over TCP: who wrote how many bytes after which event, and how the hosts
//! behave. Output: the times with faults removed, from the TCP simulation of `predict`.

use std::time::Duration;

use crate::FindingKind;
use firstbyte_core::simulation::Path;
use firstbyte_core::simulation::dialogue::{Dialogue, Lines};
use firstbyte_core::simulation::tcp::{self, Habits, Nanos, Observer};
use firstbyte_core::split::server_model::constants::{RECORD_BYTES, USUAL_WINDOW_PACKETS};

/// A fault that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fault {
    /// The server's time before the response.
    Think,
    /// The server's time in the handshake.
    Handshake,
    /// The server pauses within an answer.
    Pause,
    /// Nagle's algorithm.
    Nagle,
    /// An initial window below ten segments.
    Window,
    /// Certificates beyond a short leaf.
    Chain,
    /// The part of the response that exceeds any window.
    Body,
    /// The extra round trip of TLS 1.2.
    Tls12,
    /// The rate of the link.
    Link,
}

impl Fault {
    pub(super) const ALL: [Self; 9] = [
        Self::Think,
        Self::Handshake,
        Self::Pause,
        Self::Nagle,
        Self::Window,
        Self::Chain,
        Self::Body,
        Self::Tls12,
        Self::Link,
    ];
}

impl Fault {
    /// The findings that correspond to it.
    pub(super) const fn findings(self) -> &'static [FindingKind] {
        match self {
            Self::Think => &[FindingKind::SlowServer],
            Self::Handshake => &[FindingKind::SlowHandshake],
            Self::Pause => &[FindingKind::Pause],
            Self::Nagle => &[FindingKind::Nagle],
            Self::Window => &[FindingKind::SmallWindow],
            Self::Chain => &[FindingKind::LargeChain],
            Self::Body => &[FindingKind::SlowStart, FindingKind::LargeResponse],
            Self::Tls12 => &[FindingKind::Tls12],
            Self::Link => &[FindingKind::SlowLink],
        }
    }
}

/// Times since the SYN, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub first_byte: Nanos,
    pub total: Nanos,
}

/// Size of a leaf certificate with an ECDSA key.
const SHORT_CHAIN: u64 = 900;
/// Bytes in the server's flight after the certificates: a signature and a Finished.
const BEHIND_CHAIN: u64 = 300;
/// A response size that fits any window.
pub(super) const SMALL_BODY: u64 = 1_000;
/// Delays of hosts up to this are noise.
const NOISE: i64 = 150_000;

/// The message that a server's write begins or continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An answer in the handshake.
    Handshake,
    /// The rest of a handshake answer.
    HandshakeMore,
    /// The response, or data before it.
    Think,
    /// The rest of the response.
    More,
}

/// One write of the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    /// Bytes the client must have sent before it.
    pub needs: u64,
    /// Delay after those bytes arrived, or after the previous write, nanoseconds.
    pub after: i64,
    pub start: u64,
    pub end: u64,
    pub role: Role,
}

/// One write of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// Bytes from the server that must have arrived before it.
    pub needs: u64,
    pub after: i64,
    pub bytes: u64,
}

/// A connection that can be replayed.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    pub client: Vec<Sent>,
    pub server: Vec<Write>,
    /// Bytes from the server with which the client can read the first byte of the response.
    pub first_byte: u64,
    pub habits: Habits,
    pub path: Path,
    /// Bytes of the server's certificates; below, those of the response's body.
    pub chain: Option<u64>,
    pub body: Option<u64>,
    /// Whether this is a full TLS 1.2 handshake.
    pub tls12: bool,
}

/// Arrival times.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    pub connected: Nanos,
    /// Number of bytes received in order, with the arrival time of the last one.
    pub course: Vec<(u64, Nanos)>,
}

impl Arrived {
    /// Arrival time of the first `bytes` bytes.
    pub(super) fn at(&self, bytes: u64) -> Option<Nanos> {
        let index = self.course.partition_point(|(end, _)| *end < bytes);
        self.course.get(index).map(|(_, at)| *at)
    }

    /// Arrival time of a byte range, without the few last bytes that may belong to the next packet.
    pub(super) fn nearly_at(&self, start: u64, end: u64) -> Option<Nanos> {
        self.at(end.saturating_sub(RECORD_BYTES).max(start + 1))
    }
}

impl Observer for Arrived {
    fn connected(&mut self, _: Nanos, at: Nanos, _: u32) {
        self.connected = at;
    }
    fn sent(&mut self, _: Nanos, _: u64, _: u64, _: bool) {}
    fn received(&mut self, at: Nanos, _: u64, end: u64) {
        self.course.push((end, at));
    }
    fn acknowledged(&mut self, _: Nanos, _: u64) {}
    fn wrote(&mut self, _: Nanos, _: usize) {}
}

impl Replay {
    /// The times without some faults.
    pub(super) fn times(&self, without: &[Fault]) -> Option<Times> {
        let is_out = |fault| without.contains(&fault);
        let mut played = self.clone();
        for write in &mut played.server {
            let out = match write.role {
                Role::Think => is_out(Fault::Think),
                Role::Handshake => is_out(Fault::Handshake),
                Role::More | Role::HandshakeMore => is_out(Fault::Pause),
            };
            if out {
                write.after = 0;
            }
        }
        if is_out(Fault::Nagle) {
            played.habits.nagle = false;
        }
        if is_out(Fault::Window) {
            played.habits.initial_window = played.habits.initial_window.max(USUAL_WINDOW_PACKETS);
        }
        if is_out(Fault::Link) {
            played.path.down.rate = None;
        }
        if is_out(Fault::Tls12) && self.tls12 {
            played.spare_a_round_trip();
        }
        if let (true, Some((begin, end))) = (is_out(Fault::Chain), self.certificates()) {
            played.shrink(begin, end, 0);
        }
        let body = self.body.filter(|bytes| *bytes > SMALL_BODY);
        if let (true, Some(bytes)) = (is_out(Fault::Body), body) {
            let end = played.server.last().map_or(0, |write| write.end);
            played.shrink(end.saturating_sub(bytes), end, SMALL_BODY);
        }
        let arrived = played.play()?;
        let last = played.server.last()?;
        let begin = played.server.iter().rfind(|write| write.start < played.first_byte)?.start;
        Some(Times {
            first_byte: arrived.nearly_at(begin, played.first_byte)?,
            total: arrived.nearly_at(last.start, last.end)?,
        })
    }

    /// The range of removable certificate bytes.
    fn certificates(&self) -> Option<(u64, u64)> {
        let first = self.server.first()?.needs;
        let flight = self.server.iter().take_while(|write| write.needs == first).last()?;
        let end = flight.end.checked_sub(BEHIND_CHAIN)?;
        let begin = end.saturating_sub(self.chain?.checked_sub(SHORT_CHAIN)?);
        (begin < end).then_some((begin, end))
    }

    /// Shrinks the server's data between two offsets to `left` bytes, each write by the same share.
    fn shrink(&mut self, begin: u64, end: u64, left: u64) {
        if end <= begin {
            return;
        }
        let share = left as f64 / (end - begin) as f64;
        let old = std::mem::take(&mut self.server);
        let within = |write: &Write| end.min(write.end).saturating_sub(begin.max(write.start));
        let mut new: Vec<Write> = Vec::with_capacity(old.len());
        let mut total = 0;
        for write in &old {
            let of_it = within(write);
            // Keep at least one byte of each write, because the write was made.
            let kept = if of_it > 0 { ((of_it as f64 * share) as u64).max(1) } else { 0 };
            let (start, bytes) = (total, write.end - write.start - of_it + kept);
            total += bytes;
            new.push(Write { start, end: total, ..*write });
        }
        let places = self.client.iter_mut().map(|sent| &mut sent.needs);
        for place in places.chain([&mut self.first_byte]) {
            let holds = old.iter().position(|write| write.end >= *place);
            if let Some(index) = holds.filter(|_| *place > 0) {
                let (old, new) = (&old[index], &new[index]);
                let whole = *place == old.end;
                let part = new.start + (*place - old.start).min(new.end - new.start);
                *place = if whole { new.end } else { part };
            }
        }
        // Merge consecutive writes: where one ended was only a matter of size.
        for (old, write) in old.iter().zip(new) {
            match self.server.last_mut() {
                Some(last)
                    if within(old) > 0
                        && last.needs == write.needs
                        && write.after <= NOISE
                        && old.start > begin =>
                {
                    last.end = write.end;
                }
                _ => self.server.push(write),
            }
        }
    }

    /// Saves a round trip, as TLS 1.3 does: the request goes with the Finished, and the answer to the Finished
    /// precedes the response.
    fn spare_a_round_trip(&mut self) {
        let Some(request) = self.client.iter().position(|sent| {
            let needs = sent.needs;
            needs > 0 && self.server.iter().any(|w| w.end <= needs && w.needs > self.first_bytes())
        }) else {
            return;
        };
        let Some(before) = request.checked_sub(1).filter(|before| *before > 0) else { return };
        let sent: u64 = self.client[..=request].iter().map(|sent| sent.bytes).sum();
        let Sent { after, bytes, .. } = self.client.remove(request);
        self.client[before].after += after;
        self.client[before].bytes += bytes;
        let first = self.first_bytes();
        for write in &mut self.server {
            if write.needs > first && write.needs < sent {
                write.needs = sent;
            }
        }
    }

    fn first_bytes(&self) -> u64 {
        self.client.first().map_or(0, |sent| sent.bytes)
    }

    pub(super) fn play(&self) -> Option<Arrived> {
        let (mut client, mut server) = (Lines::default(), Lines::default());
        for Sent { needs, after, bytes } in &self.client {
            client.write(*needs, duration(*after), *bytes);
        }
        for Write { needs, after, start, end, .. } in &self.server {
            server.write(*needs, duration(*after), end - start);
        }
        let mut arrived = Arrived::default();
        let mut dialogue = Dialogue { client, server, ..Dialogue::default() };
        dialogue.places.response_end = dialogue.server.bytes;
        tcp::play(&dialogue, &self.habits, &self.path, &mut arrived).ok()?;
        Some(arrived)
    }
}

fn duration(ns: i64) -> Duration {
    Duration::from_nanos(ns.max(0).unsigned_abs())
}
