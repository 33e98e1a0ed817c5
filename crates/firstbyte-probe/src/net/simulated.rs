//! Sockets with in-memory peers on a simulated clock: tests determine what arrives in which segment, and when.
//!
//! The path takes half a round trip each way. The kernel stamps packets as they pass; the process learns of them
//! `Path::notice` later, so that times read by the process cannot be mistaken for stamps. Unread segments are merged as
//! Linux does, with the stamp of the last segment for all. A send larger than a window leaves as acknowledgements
//! arrive.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use firstbyte_core::timeline::Stamp;
use tokio::time::{Instant, Sleep, sleep_until};

use super::recorder::FIRST_WINDOW;
use super::socket::{StampedDatagrams, StampedStream};
use super::sys::{SentStamp, TcpInfo};
use super::tcp::{ConnectError, Connected, TcpStream};
use super::udp::UdpSocket;
use firstbyte_clock::simulated::stamp_at;
use firstbyte_clock::{Realtime, Timebase, timer_now};

/// Properties of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) round_trip: Duration,
    /// Delay until the process learns of an arrival.
    pub(crate) notice: Duration,
    /// Payload size of a full segment.
    pub(crate) segment: usize,
    /// Payload size of the largest segment that passes; larger ones are lost.
    pub(crate) passes: usize,
    /// Bytes that may be in flight or wait to be sent.
    pub(crate) send_buffer: usize,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            round_trip: Duration::from_millis(40),
            notice: Duration::from_millis(1),
            segment: 1_448,
            passes: usize::MAX,
            send_buffer: 2 << 20,
        }
    }
}

impl Path {
    pub(crate) fn one_way(&self) -> Duration {
        self.round_trip / 2
    }
}

/// The other end of a TCP connection.
pub(crate) trait StreamPeer {
    /// Receives bytes; returns the peer's reaction.
    fn take(&mut self, bytes: &[u8]) -> Vec<Said>;
}

/// A reaction of a peer, and its delay.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) after: Duration,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// One write, sent in full segments except the last.
    Bytes(Vec<u8>),
    /// The end of the stream.
    Fin,
    Reset,
}

impl Said {
    pub(crate) fn bytes(after_ms: u64, bytes: impl Into<Vec<u8>>) -> Self {
        Self { after: Duration::from_millis(after_ms), what: What::Bytes(bytes.into()) }
    }
}

/// A peer that never sends.
pub(crate) struct Silent;

impl StreamPeer for Silent {
    fn take(&mut self, _: &[u8]) -> Vec<Said> {
        Vec::new()
    }
}

/// A write as it was handed to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Time since the connection began.
    pub(crate) at: Duration,
    pub(crate) bytes: usize,
}

/// A segment on its way to the client.
struct Segment {
    at: Instant,
    what: Arriving,
}

enum Arriving {
    Bytes(Vec<u8>),
    /// A segment after one that was lost.
    OutOfOrder,
    Acknowledgement,
    Fin,
    Reset,
}

/// Bytes received but not read.
struct Waiting {
    bytes: VecDeque<u8>,
    stamp: Realtime,
}

struct Wire {
    path: Path,
    begun: Instant,
    peer: Box<dyn StreamPeer>,
    flying: VecDeque<Segment>,
    waiting: VecDeque<Waiting>,
    ended: Option<io::ErrorKind>,
    fin: bool,
    /// When the peer goes away; anything that reaches it later is answered with a reset.
    gone: Option<Instant>,
    reports: VecDeque<(Instant, SentStamp)>,
    sent: u64,
    /// When acknowledgements arrive, and the number of bytes acknowledged by then.
    acknowledged: VecDeque<(Instant, u64)>,
    received: u64,
    segments: u32,
    data_segments: u32,
    /// Whether a segment of the peer was lost; those that follow are out of order.
    hole: bool,
    out_of_order: u32,
    retransmits: u32,
    sacked: u32,
    written: Vec<Written>,
}

/// One end of a connection to an in-memory peer; tests also inspect it.
#[derive(Clone)]
pub(crate) struct SimulatedStream {
    wire: Rc<RefCell<Wire>>,
    readable: Timer,
    writable: Timer,
}

/// Wakes the waiting task at a set time.
#[derive(Clone)]
struct Timer(Rc<RefCell<Pin<Box<Sleep>>>>);

impl Timer {
    fn new() -> Self {
        Self(Rc::new(RefCell::new(Box::pin(sleep_until(timer_now())))))
    }

    fn wake_at(&self, at: Option<Instant>, cx: &mut Context<'_>) {
        let Some(at) = at else { return };
        let mut timer = self.0.borrow_mut();
        timer.as_mut().reset(at);
        if timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}

/// Time between segments of one write, as on a gigabit link.
const SPACING: Duration = Duration::from_micros(12);
/// Time from the device to TCP. Sent packets pass the device within the call.
const WAY_UP: Duration = Duration::from_micros(5);

impl SimulatedStream {
    pub(crate) fn new(path: Path, peer: impl StreamPeer + 'static) -> Self {
        let wire = Wire {
            path,
            begun: timer_now(),
            peer: Box::new(peer),
            flying: VecDeque::new(),
            waiting: VecDeque::new(),
            ended: None,
            fin: false,
            gone: None,
            reports: VecDeque::new(),
            sent: 0,
            acknowledged: VecDeque::new(),
            received: 0,
            // The SYN/ACK.
            segments: 1,
            data_segments: 0,
            hole: false,
            out_of_order: 0,
            retransmits: 0,
            sacked: 0,
            written: Vec::new(),
        };
        let wire = Rc::new(RefCell::new(wire));
        Self { wire, readable: Timer::new(), writable: Timer::new() }
    }

    /// Connects; the SYN leaves now.
    pub(crate) async fn connect(self, timebase: Timebase) -> Result<Connected, ConnectError> {
        let (begun, path) = (timer_now(), self.wire.borrow().path);
        let arrived = begun + path.round_trip;
        sleep_until(arrived + path.notice).await;
        let stamp = |at| Stamp::kernel(timebase.kernel_offset(stamp_at(at)));
        Ok(Connected {
            stream: TcpStream::over(Box::new(self), timebase, WAY_UP),
            syn_departed: stamp(begun),
            connected: stamp(arrived),
            syn_rtt: Some(path.round_trip),
            segment_bytes: Some(path.segment),
            syn_uncertainty: None,
        })
    }

    pub(crate) fn written(&self) -> Vec<Written> {
        self.wire.borrow().written.clone()
    }
}

impl Wire {
    /// Processes the segments that arrived by now, if the process would have learnt of one.
    fn arrive(&mut self) {
        let now = timer_now();
        let noticed = self.flying.front().is_some_and(|s| s.at + self.path.notice <= now);
        while noticed && self.flying.front().is_some_and(|segment| segment.at <= now) {
            let Some(Segment { at, what }) = self.flying.pop_front() else { break };
            self.segments += 1;
            match what {
                Arriving::Bytes(bytes) => {
                    self.data_segments += 1;
                    self.received += bytes.len() as u64;
                    match self.waiting.back_mut() {
                        Some(last) => {
                            last.bytes.extend(bytes);
                            last.stamp = stamp_at(at);
                        }
                        None => self
                            .waiting
                            .push_back(Waiting { bytes: bytes.into(), stamp: stamp_at(at) }),
                    }
                }
                Arriving::OutOfOrder => self.out_of_order += 1,
                Arriving::Acknowledgement => {}
                Arriving::Fin => self.fin = true,
                Arriving::Reset => self.ended = Some(io::ErrorKind::ConnectionReset),
            }
        }
        while self.acknowledged.front().is_some_and(|(at, _)| *at <= now) {
            self.acknowledged.pop_front();
        }
    }

    fn unacknowledged(&self) -> u64 {
        self.acknowledged.iter().map(|(_, bytes)| bytes).sum()
    }

    fn fly(&mut self, at: Instant, what: Arriving) {
        // Segments are not reordered.
        let at = self.flying.back().map_or(at, |last| at.max(last.at));
        self.flying.push_back(Segment { at, what });
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.arrive();
        if self.ended.is_some() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let unacknowledged = self.unacknowledged();
        let room = (self.path.send_buffer as u64).saturating_sub(unacknowledged) as usize;
        if room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = &bytes[..bytes.len().min(room)];
        let now = timer_now();
        self.written.push(Written { at: now - self.begun, bytes: bytes.len() });
        // One window at a time leaves, each with the acknowledgement of the previous one.
        let before = (unacknowledged + bytes.len() as u64 - 1) / FIRST_WINDOW;
        let left = now + self.path.round_trip * u32::try_from(before).unwrap();
        self.sent += bytes.len() as u64;
        let last_byte = (self.sent - 1) as u32;
        self.reports.push_back((left, SentStamp::Departed { last_byte, at: stamp_at(left) }));
        let Path { segment, passes, .. } = self.path;
        let mut segments = bytes.chunks(segment);
        if segments.next().is_some_and(|first| first.len() > passes) {
            // It is retransmitted as often as the kernel would within a few seconds.
            self.retransmits += 4;
            self.sacked += segments.filter(|next| next.len() <= passes).count() as u32;
            return Ok(bytes.len());
        }
        let reached = left + self.path.one_way();
        if self.gone.is_some_and(|at| at <= reached) {
            self.fly(reached + self.path.one_way(), Arriving::Reset);
            return Ok(bytes.len());
        }
        let answers = self.peer.take(bytes);
        let at_once = answers.first().is_some_and(|said| {
            said.after.is_zero() && matches!(said.what, What::Bytes(_) | What::Fin)
        });
        let back = reached + self.path.one_way();
        if !at_once {
            self.fly(back, Arriving::Acknowledgement);
        }
        let acknowledged = back + WAY_UP;
        let report = SentStamp::Acknowledged { last_byte, at: stamp_at(acknowledged) };
        self.reports.push_back((acknowledged, report));
        self.acknowledged.push_back((acknowledged, bytes.len() as u64));
        for said in answers {
            let mut at = back + said.after;
            match said.what {
                What::Bytes(bytes) => {
                    for segment in bytes.chunks(self.path.segment) {
                        if segment.len() > self.path.passes {
                            self.hole = true;
                        } else if self.hole {
                            self.fly(at, Arriving::OutOfOrder);
                        } else {
                            self.fly(at, Arriving::Bytes(segment.to_vec()));
                        }
                        at += SPACING;
                    }
                }
                What::Fin => {
                    self.fly(at, Arriving::Fin);
                    self.gone = Some(reached + said.after);
                }
                What::Reset => {
                    self.fly(at, Arriving::Reset);
                    self.gone = Some(reached + said.after);
                }
            }
        }
        Ok(bytes.len())
    }

    fn receive(&mut self, buffer: &mut [u8], take: bool) -> io::Result<(usize, Option<Realtime>)> {
        self.arrive();
        let Some(first) = self.waiting.front_mut() else {
            return match self.ended {
                Some(kind) => Err(kind.into()),
                None if self.fin => Ok((0, None)),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        };
        let bytes = buffer.len().min(first.bytes.len());
        for (into, byte) in buffer.iter_mut().zip(&first.bytes) {
            *into = *byte;
        }
        let stamp = first.stamp;
        if take {
            first.bytes.drain(..bytes);
            if first.bytes.is_empty() {
                self.waiting.pop_front();
            }
        }
        Ok((bytes, Some(stamp)))
    }
}

impl fmt::Debug for SimulatedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedStream")
    }
}

impl StampedStream for SimulatedStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire.borrow_mut();
        wire.arrive();
        if !wire.waiting.is_empty() || wire.fin || wire.ended.is_some() {
            return Poll::Ready(Ok(()));
        }
        let next = wire.flying.front().map(|segment| segment.at + wire.path.notice);
        self.readable.wake_at(next, cx);
        Poll::Pending
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.wire.borrow_mut();
        wire.arrive();
        if wire.ended.is_some() || wire.unacknowledged() < wire.path.send_buffer as u64 {
            return Poll::Ready(Ok(()));
        }
        self.writable.wake_at(wire.acknowledged.front().map(|(at, _)| *at), cx);
        Poll::Pending
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)> {
        self.wire.borrow_mut().receive(buffer, true)
    }

    fn note_drained(&self) {}

    fn peek(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)> {
        self.wire.borrow_mut().receive(buffer, false)
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.borrow_mut().send(bytes)
    }

    fn try_send_last(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_send(bytes)
    }

    fn sent_stamps(&self, take: &mut dyn FnMut(SentStamp)) {
        let mut wire = self.wire.borrow_mut();
        while wire.reports.front().is_some_and(|(at, _)| *at <= timer_now()) {
            if let Some((_, report)) = wire.reports.pop_front() {
                take(report);
            }
        }
    }

    fn info(&self) -> Option<TcpInfo> {
        let wire = self.wire.borrow();
        Some(TcpInfo {
            established: !wire.fin && wire.ended.is_none(),
            send_mss: wire.path.segment as u32,
            rtt: wire.path.round_trip,
            min_rtt: Some(wire.path.round_trip),
            total_retransmits: wire.retransmits,
            unacknowledged: wire.acknowledged.len() as u32,
            sacked: wire.sacked,
            since_data: Duration::ZERO,
            out_of_order: Some(wire.out_of_order),
            receive_window_limited: None,
            segments: wire.segments,
            data_segments: wire.data_segments,
            received_mss: wire.path.segment as u32,
            received_bytes: wire.received,
        })
    }

    fn holds_nothing(&self) -> bool {
        let wire = self.wire.borrow();
        wire.waiting.is_empty() && wire.out_of_order == 0
    }

    fn local(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 1], 50_000)))
    }

    fn congestion_control(&self) -> Option<String> {
        Some("cubic".into())
    }
}

/// A peer that exchanges datagrams.
pub(crate) trait DatagramPeer {
    fn take(&mut self, datagram: &[u8], now: Instant);

    /// When the peer next acts on its own.
    fn next(&mut self) -> Option<Instant>;

    /// Returns the datagrams to send. Called when that time has come or a datagram was received.
    fn say(&mut self, now: Instant) -> Vec<Vec<u8>>;
}

struct Air {
    path: Path,
    peer: Box<dyn DatagramPeer>,
    /// Datagrams on the way to the peer, and from it.
    out: VecDeque<(Instant, Vec<u8>)>,
    back: VecDeque<(Instant, Vec<u8>)>,
    /// Datagrams to the peer that are lost, by number.
    lost: Vec<usize>,
    departed: VecDeque<(u32, Realtime)>,
    sent: Vec<usize>,
    refuses: bool,
}

/// A datagram socket with an in-memory peer; tests also inspect it.
#[derive(Clone)]
pub(crate) struct SimulatedDatagrams {
    air: Rc<RefCell<Air>>,
    timer: Timer,
}

impl SimulatedDatagrams {
    pub(crate) fn new(path: Path, peer: impl DatagramPeer + 'static) -> Self {
        let air = Air {
            path,
            peer: Box::new(peer),
            out: VecDeque::new(),
            back: VecDeque::new(),
            lost: Vec::new(),
            departed: VecDeque::new(),
            sent: Vec::new(),
            refuses: false,
        };
        Self { air: Rc::new(RefCell::new(air)), timer: Timer::new() }
    }

    /// Loses these datagrams to the peer.
    pub(crate) fn losing(self, lost: &[usize]) -> Self {
        self.air.borrow_mut().lost = lost.to_vec();
        self
    }

    /// Makes the peer unreachable, which the network reports.
    pub(crate) fn refusing(self) -> Self {
        self.air.borrow_mut().refuses = true;
        self
    }

    pub(crate) fn socket(&self, timebase: Timebase) -> UdpSocket {
        UdpSocket::over(Box::new(self.clone()), timebase)
    }

    /// Size in bytes of each datagram sent.
    pub(crate) fn sent(&self) -> Vec<usize> {
        self.air.borrow().sent.clone()
    }
}

impl Air {
    /// Runs the peer until `now`.
    fn advance(&mut self, now: Instant) {
        loop {
            let reached = self.out.front().map(|(at, _)| *at);
            let own = self.peer.next();
            let Some(at) = reached.into_iter().chain(own).min().filter(|at| *at <= now) else {
                return;
            };
            if reached == Some(at)
                && let Some((_, datagram)) = self.out.pop_front()
            {
                self.peer.take(&datagram, at);
            }
            let mut leaves = at;
            for datagram in self.peer.say(at) {
                self.back.push_back((leaves + self.path.one_way(), datagram));
                leaves += SPACING;
            }
        }
    }
}

impl fmt::Debug for SimulatedDatagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedDatagrams")
    }
}

impl StampedDatagrams for SimulatedDatagrams {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<Realtime>)>> {
        let mut air = self.air.borrow_mut();
        let now = timer_now();
        if air.refuses {
            let answered = air.out.front().map(|(at, _)| *at + air.path.one_way());
            if answered.is_some_and(|at| at <= now) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
            }
        } else {
            air.advance(now);
        }
        let notice = air.path.notice;
        if let Some((at, _)) = air.back.front().filter(|(at, _)| *at + notice <= now) {
            let stamp = stamp_at(*at);
            let (_, datagram) = air.back.pop_front().unwrap();
            buffer[..datagram.len()].copy_from_slice(&datagram);
            return Poll::Ready(Ok((datagram.len(), Some(stamp))));
        }
        let own = air.peer.next();
        let arriving = air.back.front().map(|(at, _)| *at + notice);
        let trip = air.path.one_way();
        let refused = air.refuses.then_some(trip);
        let reaching = air.out.front().map(|(at, _)| *at + refused.unwrap_or_default());
        self.timer.wake_at(arriving.into_iter().chain(reaching).chain(own).min(), cx);
        Poll::Pending
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<bool> {
        let mut air = self.air.borrow_mut();
        let number = air.sent.len();
        let left = timer_now();
        air.sent.push(datagram.len());
        air.departed.push_back((u32::try_from(number).unwrap(), stamp_at(left)));
        if !air.lost.contains(&number) {
            let reached = left + air.path.one_way();
            air.out.push_back((reached, datagram.to_vec()));
        }
        Ok(true)
    }

    fn departed(&mut self) -> Option<(u32, Realtime)> {
        self.air.borrow_mut().departed.pop_front()
    }

    fn local(&self) -> Option<SocketAddr> {
        Some(SocketAddr::from(([192, 0, 2, 1], 50_000)))
    }
}
