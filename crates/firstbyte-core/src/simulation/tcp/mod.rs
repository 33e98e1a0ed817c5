//! A dialogue over TCP on a simulated path between two Linux hosts, in virtual time.
//!
//! Input: a [`Dialogue`], the hosts' [`Habits`] and the [`Path`]. Output: calls to an [`Observer`] at the client. A
//! packet costs some tens of nanoseconds of real time, so that whole audiences can be simulated.

mod bbr;
mod rate;
mod receiver;
mod sender;
mod several;
mod timer;
mod window;
mod wire;

use std::time::Duration;

use super::dialogue::{Dialogue, Side, Step};
use super::seed::{Stream, random};
use super::{CongestionControl, GaveUp, Path};
pub use receiver::QUICK_ACKS;
use receiver::Receiver;
use sender::{Outgoing, Sender};
pub use several::{Opening, SeveralPlayed, SeveralRequests, play_several};
use timer::Wheel;
use wire::Packet;
pub use wire::{Passage, Wire};

/// Virtual time, nanoseconds from the departure of the first SYN.
pub type Nanos = u64;

/// Headers of IPv4 and TCP with timestamps, bytes.
const HEADERS: u64 = 52;
/// A SYN has more options.
const SYN_BYTES: u64 = 60;
/// Linux's first timeout (RFC 6298); `LINEAR_SYNS` is how often it is not doubled for a SYN
/// (`tcp_syn_linear_timeouts`).
const SYN_TIMEOUT: Nanos = 1_000_000_000;
const LINEAR_SYNS: u32 = 4;
/// `tcp_syn_retries` of Linux: further SYNs, at doubling timeouts.
const SYN_RETRIES: u32 = 6;
/// Longer than any useful prediction.
const LIMIT: Nanos = 600_000_000_000;

/// Converts to virtual time.
pub fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// Receives the events visible at the client.
pub trait Observer {
    /// The SYN that was answered left, and its answer arrived.
    fn connected(&mut self, syn_at: Nanos, at: Nanos, retransmits: u32);
    /// The client's bytes `start..end` leave, perhaps again.
    fn sent(&mut self, at: Nanos, start: u64, end: u64, first_time: bool);
    /// The server's bytes `start..end` have arrived, in order.
    fn received(&mut self, at: Nanos, start: u64, end: u64);
    /// The server has acknowledged all bytes before `before`.
    fn acknowledged(&mut self, at: Nanos, before: u64);
    /// The client's application writes one of its steps.
    fn wrote(&mut self, at: Nanos, step: usize);
    /// A packet leaves either host: only a capture at both ends would show this.
    fn departs(&mut self, _departure: &Departure) {}
    /// A host will write its next step, because of the latest event.
    fn prepares(&mut self, _at: Nanos, _side: Side, _step: usize, _cause: Cause) {}
}

/// Cause of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The connection is open.
    Connected,
    /// The packet with this number has arrived.
    Packet(usize),
    /// The host wrote one of its steps.
    Write(usize),
    /// The delayed acknowledgement of the packet with this number is due.
    DelayedAck(usize),
    /// Any other of TCP's timers.
    Timer,
}

/// A packet that leaves a host.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Sequence number among all departures.
    pub number: usize,
    /// Sending host.
    pub side: Side,
    /// When it leaves.
    pub at: Nanos,
    /// Payload range; empty for a pure acknowledgement.
    pub bytes: (u64, u64),
    /// Whether these bytes have not left before.
    pub first_time: bool,
    /// Cause of the departure.
    pub cause: Cause,
    /// Absent when it is lost.
    pub passage: Option<Passage>,
}

/// A host: its TCP and its lines of the dialogue.
struct Host<'a> {
    sender: Sender,
    receiver: Receiver,
    steps: &'a [Step],
    next_step: usize,
    /// Number of lines that may be written.
    allowed: usize,
    /// When the next step is due, once its requirements are met.
    due: Option<Nanos>,
    last_written: Nanos,
    /// Time to notice an arrival.
    wake: Nanos,
    /// Packet whose acknowledgement is delayed.
    unacknowledged: usize,
}

impl Host<'_> {
    fn next(&self) -> Nanos {
        let ack = self.receiver.ack_at.unwrap_or(Nanos::MAX);
        self.sender.next().min(ack).min(self.due.unwrap_or(Nanos::MAX))
    }

    /// Checks whether the next step's requirements are met; returns its number if it is due from now on.
    fn prepare(&mut self, now: Nanos) -> Option<usize> {
        if self.due.is_none()
            && self.next_step < self.allowed
            && let Some(step) = self.steps.get(self.next_step)
            && self.receiver.next >= step.needs
        {
            // A host that has just written is awake.
            let wake = if now > self.last_written { self.wake } else { 0 };
            self.due = Some(now.max(self.last_written) + wake + nanos(step.after));
            return Some(self.next_step);
        }
        None
    }
}

/// Behaviour of the two hosts, whatever their dialogue.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// The server's congestion control.
    pub congestion_control: CongestionControl,
    /// Segments that the server may have in flight before the first acknowledgement.
    pub initial_window: u32,
    /// Whether the server delays a partial segment while data is in flight (Nagle, RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Time from a packet's arrival until the server's process has it.
    pub server_wake: Duration,
    /// Time from a packet's arrival until the client's process has it.
    pub client_wake: Duration,
    /// Whether the client's process reads so late that its kernel's timer acknowledges small segments.
    pub client_reads_late: bool,
    /// Number of acknowledgements that the client sends at once initially. Linux starts with [`QUICK_ACKS`], and adds
    /// to them while its receive buffer grows (`tcp_grow_window`).
    pub client_quick_acks: u32,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            congestion_control: CongestionControl::default(),
            initial_window: 0,
            nagle: false,
            server_wake: Duration::ZERO,
            client_wake: Duration::ZERO,
            client_reads_late: false,
            client_quick_acks: QUICK_ACKS,
        }
    }
}

/// Plays `dialogue` over `path` until the client has the whole response.
///
/// # Errors
/// Losses prevent the response from completing.
pub fn play(
    dialogue: &Dialogue,
    habits: &Habits,
    path: &Path,
    observer: &mut impl Observer,
) -> Result<(), GaveUp> {
    let mut network = Network::new(path);
    let kernels = Kernels::new(path.seed);
    let mss = u64::from(path.mss.max(1));
    let cause = Cause::Connected;
    let network = &mut network;
    let mut flow = Flow { network, number: 0, mss, now: 0, cause, packets: 0, observer };
    let (connected, rtt) = flow.connect(kernels.client)?;
    let (mut client, mut server) = kernels.hosts(dialogue, habits, mss, rtt);
    flow.prepare(connected, Side::Client, &mut client);
    flow.run(&mut client, &mut server, dialogue.places.response_end)
}

/// State that connections between the two hosts share.
struct Network {
    up: Wire,
    down: Wire,
    /// Until when the client's and the server's process are busy with one of several connections; absent with a single
    /// connection.
    busy_until: Option<[Nanos; 2]>,
}

impl Network {
    fn new(path: &Path) -> Self {
        let up = Wire::new(&path.up, random(path.seed, Stream::Up));
        let down = Wire::new(&path.down, random(path.seed, Stream::Down));
        Self { up, down, busy_until: None }
    }

    /// Delays the step that `host` is about to write until its process is done with other connections. The server's
    /// time before its first step is work; before later steps it waits for something.
    fn queue(&mut self, side: Side, host: &mut Host<'_>, step: usize) {
        let Some(busy) = &mut self.busy_until else { return };
        let place = match side {
            Side::Client => 0,
            Side::Server if step == 0 => 1,
            Side::Server => return,
        };
        if let (Some(due), Some(step)) = (&mut host.due, host.steps.get(step)) {
            *due = (*due).max(busy[place] + nanos(step.after));
            busy[place] = *due;
        }
    }
}

/// Timers of both kernels.
#[derive(Clone, Copy)]
struct Kernels {
    client: Wheel,
    server: Wheel,
}

impl Kernels {
    fn new(seed: u64) -> Self {
        let mut timers = random(seed, Stream::Timers);
        let [client, server] = [0; 2].map(|_| Wheel::new(&mut timers));
        Self { client, server }
    }

    /// Creates the two hosts of a connection whose SYN was answered after `rtt`.
    fn hosts<'a>(
        self,
        dialogue: &'a Dialogue,
        habits: &Habits,
        mss: u64,
        rtt: Nanos,
    ) -> (Host<'a>, Host<'a>) {
        let host = |side: Side, control, window, wake, nagle| Host {
            sender: Sender::new(
                control,
                window,
                mss,
                rtt,
                if side == Side::Client { self.client } else { self.server },
            )
            .with_nagle(nagle),
            receiver: Receiver::default(),
            steps: &dialogue.said_by(side).steps,
            next_step: 0,
            allowed: usize::MAX,
            due: None,
            last_written: 0,
            wake: nanos(wake),
            unacknowledged: 0,
        };
        // The client sends little: its window only matters with uploads.
        let mut client =
            host(Side::Client, CongestionControl::Cubic, 10, habits.client_wake, false);
        client.receiver.reads_late = habits.client_reads_late;
        client.receiver.quick = habits.client_quick_acks;
        let (control, window) = (habits.congestion_control, habits.initial_window);
        let server = host(Side::Server, control, window, habits.server_wake, habits.nagle);
        (client, server)
    }
}

struct Flow<'n, 'o, O> {
    network: &'n mut Network,
    /// Index among several connections.
    number: u16,
    mss: u64,
    now: Nanos,
    /// Cause of the current event.
    cause: Cause,
    /// Packets sent so far.
    packets: usize,
    observer: &'o mut O,
}

impl<O: Observer> Flow<'_, '_, O> {
    /// Plays the SYN exchange; returns when it is done and the duration of the successful attempt.
    fn connect(&mut self, timers: Wheel) -> Result<(Nanos, Nanos), GaveUp> {
        let (mut syn_at, mut timeout) = (0, SYN_TIMEOUT);
        for attempt in 0..=LINEAR_SYNS + SYN_RETRIES {
            let there = self.network.up.carry(syn_at, SYN_BYTES);
            if let Some(at) = there.and_then(|there| self.network.down.carry(there, SYN_BYTES)) {
                self.observer.connected(syn_at, at, attempt);
                return Ok((at, at - syn_at));
            }
            syn_at = timers.due(syn_at, timeout);
            if attempt >= LINEAR_SYNS {
                timeout *= 2;
            }
        }
        let message = "every SYN or its answer was lost".into();
        Err(GaveUp { at: syn_at, name: "connect-timed-out", message })
    }

    fn run(
        &mut self,
        client: &mut Host<'_>,
        server: &mut Host<'_>,
        until: u64,
    ) -> Result<(), GaveUp> {
        while client.receiver.next < until {
            let events =
                [self.network.up.next(), self.network.down.next(), client.next(), server.next()];
            let next = events.into_iter().min().unwrap_or(LIMIT);
            if next >= LIMIT {
                let message = "losses kept the exchange from ending within ten minutes".into();
                return Err(GaveUp { at: LIMIT, name: "timed-out", message });
            }
            self.now = self.now.max(next);
            if events[0] == next {
                if let Some(packet) = self.network.up.take() {
                    self.arrive(Side::Server, server, packet);
                }
            } else if events[1] == next {
                if let Some(packet) = self.network.down.take() {
                    self.arrive(Side::Client, client, packet);
                }
            } else if events[2] == next {
                self.wake(Side::Client, client);
            } else {
                self.wake(Side::Server, server);
            }
        }
        Ok(())
    }

    fn prepare(&mut self, now: Nanos, side: Side, host: &mut Host<'_>) {
        if let Some(step) = host.prepare(now) {
            self.network.queue(side, host, step);
            self.observer.prepares(now, side, step, self.cause);
        }
    }

    fn arrive(&mut self, side: Side, host: &mut Host<'_>, packet: Packet) {
        let now = self.now;
        self.cause = Cause::Packet(packet.number);
        let before = host.sender.acknowledged;
        host.sender.receive(now, packet.ack, &packet.sacks);
        if side == Side::Client && host.sender.acknowledged > before {
            self.observer.acknowledged(now, host.sender.acknowledged);
        }
        let mut at_once = false;
        if packet.end > packet.start {
            let had = host.receiver.next;
            let delayed = host.receiver.ack_at.is_some();
            at_once = host.receiver.receive(now, packet.start, packet.end, self.mss);
            if side == Side::Client && host.receiver.next > had {
                self.observer.received(now, had, host.receiver.next);
            }
            if !delayed {
                host.unacknowledged = packet.number;
            }
            self.prepare(now, side, host);
        }
        if at_once {
            self.acknowledge(side, host);
        }
        self.transmit(side, host);
    }

    fn wake(&mut self, side: Side, host: &mut Host<'_>) {
        let now = self.now;
        if host.due.is_some_and(|due| due <= now) {
            host.due = None;
            host.last_written = now;
            self.cause = Cause::Write(host.next_step);
            if let Some(step) = host.steps.get(host.next_step) {
                if side == Side::Client {
                    self.observer.wrote(now, host.next_step);
                }
                host.sender.write(now, step.bytes);
                host.next_step += 1;
            }
            self.prepare(now, side, host);
            self.transmit(side, host);
        }
        self.cause = Cause::Timer;
        let mut forced: [Option<Outgoing>; 2] = [None; 2];
        let mut count = 0;
        host.sender.tick(now, |outgoing| {
            forced[count.min(1)] = Some(outgoing);
            count += 1;
        });
        for outgoing in forced.into_iter().flatten() {
            self.send(side, &mut host.receiver, outgoing);
        }
        self.transmit(side, host);
        if host.receiver.ack_at.is_some_and(|at| at <= now) {
            self.cause = Cause::DelayedAck(host.unacknowledged);
            host.receiver.timed_out();
            self.acknowledge(side, host);
        }
    }

    fn transmit(&mut self, side: Side, host: &mut Host<'_>) {
        let now = self.now;
        let Host { sender, receiver, .. } = host;
        sender.transmit(now, |outgoing| self.send(side, receiver, outgoing));
    }

    fn send(&mut self, side: Side, receiver: &mut Receiver, outgoing: Outgoing) {
        let Outgoing { start, end, first_time } = outgoing;
        receiver.note_sending(self.now);
        let (ack, sacks) = receiver.acknowledge();
        if side == Side::Client {
            self.observer.sent(self.now, start, end, first_time);
        }
        self.dispatch(
            side,
            Packet { at: 0, start, end, ack, sacks, number: 0, flow: self.number },
            first_time,
        );
    }

    fn acknowledge(&mut self, side: Side, host: &mut Host<'_>) {
        let (ack, sacks) = host.receiver.acknowledge();
        self.dispatch(
            side,
            Packet { at: 0, start: 0, end: 0, ack, sacks, number: 0, flow: self.number },
            true,
        );
    }

    fn dispatch(&mut self, side: Side, mut packet: Packet, first_time: bool) {
        packet.number = self.packets;
        self.packets += 1;
        let (bytes, now) = ((packet.start, packet.end), self.now);
        let wire = if side == Side::Client { &mut self.network.up } else { &mut self.network.down };
        let passage = wire.send(now, packet, packet.end - packet.start + HEADERS);
        let (number, cause) = (packet.number, self.cause);
        let departure = Departure { number, side, at: now, bytes, first_time, cause, passage };
        self.observer.departs(&departure);
    }
}

#[cfg(test)]
mod tests;
