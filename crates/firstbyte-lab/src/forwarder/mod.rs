//! The middle of the network: forwards frames between hosts and applies their links' settings.
//!
//! One thread owns the far end of every host's link. A frame's time is the kernel's timestamp of its
//! arrival. The pure [`Link`]s compute all later times from that, and the forwarder sends a frame when it is
//! due. Every dropped frame is counted.

mod frame;
mod stats;
mod wake;

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock::{Offset, monotonic_ns};
use crate::link::{DropCause, Link, Nanos, Offer};
use crate::scenario::{Family, LinkSettings};
use crate::sys::{PacketRing, prefer_this_thread};
use frame::{ETHERNET_HEADER, Envelope};
use wake::WakeMargin;

pub(crate) use crate::scenario::{GATEWAY_IPV4, GATEWAY_IPV6};
pub(crate) use frame::Mac;
pub(crate) use stats::{Counter, Counters};

/// The gateway's hardware address. No interface has it, so that the router's kernel does not take frames as
/// its own.
pub(crate) const GATEWAY_MAC: Mac = [0x02, 0xfb, 0xff, 0xff, 0xff, 0xff];

/// Frames taken from one ring before other rings and due frames are handled.
const BATCH: usize = 64;
/// How often the rings' drop counters are read.
const DROP_CHECK_NS: u64 = 100_000_000;

/// One host's port in the middle: the far end of its link, and the link's behaviour.
pub(crate) struct Port {
    pub(crate) ring: PacketRing,
    pub(crate) mac: Mac,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) up: Link,
    pub(crate) down: Link,
}

/// A new link for the host with this port number.
pub(crate) struct LinkChange {
    pub(crate) port: usize,
    pub(crate) up: LinkSettings,
    pub(crate) down: LinkSettings,
}

/// A frame passing the middle, for the capture there.
pub(crate) struct MiddleFrame {
    pub(crate) realtime_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) struct Forwarder {
    ports: Vec<Port>,
    routes: HashMap<IpAddr, usize>,
    pending: BinaryHeap<Reverse<Pending>>,
    sequence: u64,
    offset: Offset,
    counters: Arc<Counters>,
    middle: Option<Sender<MiddleFrame>>,
    changes: Receiver<LinkChange>,
    next_drop_check: Nanos,
    wake: WakeMargin,
}

/// A frame waiting until it is due.
struct Pending {
    at: Nanos,
    /// Keeps the order of frames that are due at the same time.
    sequence: u64,
    port: usize,
    stage: Stage,
    family: Family,
    bytes: Vec<u8>,
}

/// What to do with a pending frame when it is due.
#[derive(Clone, Copy)]
enum Stage {
    /// It has left the source's link and enters the destination's.
    Middle,
    /// It has left the destination's link.
    Deliver,
}

impl Forwarder {
    pub(crate) fn new(
        ports: Vec<Port>,
        counters: Arc<Counters>,
        middle: Option<Sender<MiddleFrame>>,
        changes: Receiver<LinkChange>,
    ) -> Self {
        let addresses = ports.iter().enumerate();
        let routes = addresses
            .flat_map(|(port, host)| host.addresses.iter().map(move |address| (*address, port)))
            .collect();
        Self {
            ports,
            routes,
            pending: BinaryHeap::new(),
            sequence: 0,
            offset: Offset::now(),
            counters,
            middle,
            changes,
            next_drop_check: 0,
            wake: WakeMargin::new(),
        }
    }

    /// Forwards until the other end of `stop` is closed.
    pub(crate) fn run(mut self, stop: &OwnedFd) {
        prefer_this_thread();
        // Sleep as precisely as the kernel can; the default lets timers be 50 µs late.
        let _ = nix::sys::prctl::set_timerslack(1);
        loop {
            self.offset = Offset::now();
            self.change_links();
            let received = self.receive();
            let now = monotonic_ns();
            self.release(now);
            if !received && !self.wait(now, stop) {
                return self.check_drops();
            }
        }
    }

    /// Applies link changes. They affect the next frame, so they need not wake the thread.
    fn change_links(&mut self) {
        while let Ok(LinkChange { port, up, down }) = self.changes.try_recv() {
            if let Some(port) = self.ports.get_mut(port) {
                port.up.change(&up);
                port.down.change(&down);
            }
        }
    }

    /// Receives the frames that have arrived; returns false if there were none.
    fn receive(&mut self) -> bool {
        let mut received = false;
        for port in 0..self.ports.len() {
            for _ in 0..BATCH {
                let Some(frame) = self.ports[port].ring.next() else { break };
                let realtime_ns = frame.realtime_ns;
                let bytes = frame.bytes.to_vec();
                drop(frame);
                self.accept(port, realtime_ns, bytes);
                received = true;
            }
        }
        received
    }

    /// Finds the destination of a frame from a host and sends it through the host's uplink.
    fn accept(&mut self, from: usize, realtime_ns: u64, bytes: Vec<u8>) {
        let Some((envelope, to)) = self.route(&bytes) else {
            self.counters.ignored.add(1);
            return;
        };
        let arrival = self.offset.to_monotonic(realtime_ns);
        let packet = &bytes[ETHERNET_HEADER..];
        match self.ports[from].up.offer_packet(arrival, packet, envelope.family) {
            Offer::Release(at) => self.enqueue(at, to, Stage::Middle, envelope.family, bytes),
            Offer::Drop(cause) => self.dropped(arrival, envelope, cause, &bytes),
        }
    }

    fn route(&self, bytes: &[u8]) -> Option<(Envelope, usize)> {
        let envelope = Envelope::parse(bytes)?;
        Some((envelope, *self.routes.get(&envelope.destination)?))
    }

    /// Handles all pending frames that are due.
    fn release(&mut self, now: Nanos) {
        while let Some(pending) = self.next_due(now) {
            match pending.stage {
                Stage::Middle => self.pass_middle(pending),
                Stage::Deliver => self.deliver(pending),
            }
        }
    }

    fn next_due(&mut self, now: Nanos) -> Option<Pending> {
        let Reverse(first) = self.pending.peek()?;
        if first.at > now {
            return None;
        }
        self.pending.pop().map(|Reverse(pending)| pending)
    }

    fn pass_middle(&mut self, pending: Pending) {
        let Pending { at, port, family, bytes, .. } = pending;
        if let Some(middle) = &self.middle {
            let realtime_ns = self.offset.to_realtime(at);
            // The receiver outlives this thread; if it does not, nobody needs the frame.
            let _ = middle.send(MiddleFrame { realtime_ns, bytes: bytes.clone() });
        }
        match self.ports[port].down.offer_packet(at, &bytes[ETHERNET_HEADER..], family) {
            Offer::Release(at) => self.enqueue(at, port, Stage::Deliver, family, bytes),
            Offer::Drop(cause) => {
                if let Some(envelope) = Envelope::parse(&bytes) {
                    self.dropped(at, envelope, cause, &bytes);
                }
            }
        }
    }

    fn deliver(&mut self, mut pending: Pending) {
        let port = &self.ports[pending.port];
        frame::address_to(&mut pending.bytes, port.mac, GATEWAY_MAC);
        match port.ring.send(&pending.bytes) {
            Ok(()) => self.counters.forwarded.add(1),
            Err(_) => self.counters.send_failed.add(1),
        }
    }

    /// Counts a dropped frame, and notifies its sender if a router would.
    fn dropped(&mut self, at: Nanos, envelope: Envelope, cause: DropCause, bytes: &[u8]) {
        match cause {
            DropCause::Loss => self.counters.lost.add(1),
            DropCause::QueueFull => self.counters.queue_full.add(1),
            DropCause::TooBig { mtu } => {
                self.counters.too_big.add(1);
                let sender = self.routes.get(&envelope.source).copied();
                let answer = frame::too_big(bytes, envelope, mtu);
                if let (Some(port), Some(answer)) = (sender, answer) {
                    self.enqueue(at, port, Stage::Middle, envelope.family, answer);
                }
            }
        }
    }

    fn enqueue(&mut self, at: Nanos, port: usize, stage: Stage, family: Family, bytes: Vec<u8>) {
        self.sequence += 1;
        let sequence = self.sequence;
        self.pending.push(Reverse(Pending { at, sequence, port, stage, family, bytes }));
    }

    /// Waits for a frame or until the next pending one is due; returns false when it is time to stop.
    fn wait(&mut self, now: Nanos, stop: &OwnedFd) -> bool {
        let wake_at =
            self.pending.peek().map(|Reverse(due)| due.at.saturating_sub(self.wake.margin_ns()));
        if wake_at.is_some_and(|wake_at| wake_at <= now) {
            return true;
        }
        if now >= self.next_drop_check {
            self.check_drops();
            self.next_drop_check = now + DROP_CHECK_NS;
        }
        let timeout = wake_at.map(|at| TimeSpec::from(Duration::from_nanos(at - now)));
        let mut fds: Vec<PollFd<'_>> = self
            .ports
            .iter()
            .map(|port| PollFd::new(port.ring.as_fd(), PollFlags::POLLIN))
            .collect();
        fds.push(PollFd::new(stop.as_fd(), PollFlags::POLLIN));
        // An interrupted or failed wait only ends early: the loop checks again.
        let woken = ppoll(&mut fds, timeout, None);
        let stopped = fds.last().and_then(PollFd::any).unwrap_or(false);
        if let (Ok(0), Some(wake_at)) = (woken, wake_at) {
            self.wake.observe(monotonic_ns().saturating_sub(wake_at));
        }
        !stopped
    }

    fn check_drops(&mut self) {
        for port in &self.ports {
            self.counters.ring_full.add(port.ring.take_drops());
        }
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}
