//! TCP with stamps: connects, sends and receives, and records when.
//!
//! The kernel stamps bytes as they pass the device; the process only ever learns of them later. No option set here
//! affects the sent bytes, except `TCP_NODELAY`: Nagle's algorithm together with delayed acknowledgements would look
//! like a slow server (RFC 9293 §3.7.4).

use std::cell::{Cell, RefCell, RefMut};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use firstbyte_core::timeline::{Clock, Stamp, TcpFacts};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, Socket, Type};

use super::order::{Order, latest_arrival};
use super::recorder::{Recorder, SegmentGaps, SendId};
use super::segments::Count;
use super::socket::{KernelStream, StampedStream};
use super::syn::{SynTimes, SynWatch};
use super::sys::{self, TcpInfo};
use firstbyte_clock::{Monotonic, Realtime, Timebase};

/// The local end of connections (`--interface`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bind {
    /// The kernel decides.
    #[default]
    Any,
    /// From this device.
    Device(String),
    /// From this address.
    Address(IpAddr),
    /// From the first free port in this range.
    Ports {
        /// The first port to try.
        lowest: u16,
        /// The last port to try.
        highest: u16,
    },
}

/// Why a connection attempt failed.
#[derive(Debug)]
pub enum ConnectError {
    /// The socket could not be created or bound as requested.
    Setup(io::Error),
    /// The network or the peer refused.
    Failed(io::Error),
}

/// An open connection, and the times of its opening.
#[derive(Debug)]
pub struct Connected {
    /// The connection.
    pub stream: TcpStream,
    /// When the SYN left.
    pub syn_departed: Stamp,
    /// When the SYN/ACK arrived.
    pub connected: Stamp,
    /// Round-trip time of the SYN; absent if the SYN was lost, or if the kernel does not report it.
    pub syn_rtt: Option<Duration>,
    /// Largest segment that either side sends, in bytes; absent if the kernel does not report it.
    pub segment_bytes: Option<usize>,
    /// Interval between the earliest and the latest possible departure of the SYN, if the kernel does not report it.
    pub syn_uncertainty: Option<Duration>,
}

/// Opens a connection to `remote`.
///
/// If `syns` saw the handshake, it gives the times of the SYN and its answer. Otherwise the SYN leaves while `connect`
/// runs, and the kernel reports afterwards how long the answer took. The arrival of the SYN/ACK is then the departure
/// plus that time, not the later time at which this process was woken.
///
/// # Errors
/// [`ConnectError`], with the kernel's own error.
pub async fn connect(
    remote: SocketAddr,
    bind: &Bind,
    timebase: Timebase,
    syns: Option<&SynWatch>,
) -> Result<Connected, ConnectError> {
    let socket = open(remote, bind).map_err(ConnectError::Setup)?;
    let before = Monotonic::now();
    let begun = socket.connect(&remote.into());
    let after = Monotonic::now();
    match begun {
        Ok(()) => {}
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(e) => return Err(ConnectError::Failed(e)),
    }
    let stamping = sys::enable_stamps(socket.as_fd()).is_ok();
    let io = tokio::net::TcpStream::from_std(socket.into()).map_err(ConnectError::Setup)?;
    io.writable().await.map_err(ConnectError::Setup)?;
    let woken = Monotonic::now();
    let info = sys::tcp_info(io.as_fd());
    // An established connection has no error to report.
    if !info.is_some_and(|i| i.established)
        && let Some(error) = io.take_error().map_err(ConnectError::Setup)?
    {
        if let Some(syns) = syns {
            syns.collect();
        }
        return Err(ConnectError::Failed(error));
    }

    let lost = info.is_some_and(|i| i.total_retransmits > 0);
    let kernel_rtt = info.filter(|_| !lost).map(|i| i.rtt).filter(|rtt| !rtt.is_zero());
    let local = io.local_addr().ok();
    let seen = local.zip(syns).and_then(|(l, syns)| syns.times(l, remote, timebase.started()));
    let seen = seen.filter(|seen| is_within(seen, timebase, before, woken));
    let opening = match (seen, kernel_rtt) {
        (Some(SynTimes { departed, arrived }), _) => {
            let departed = Stamp::kernel(timebase.kernel_offset(departed));
            let connected = Stamp::kernel(timebase.kernel_offset(arrived));
            let rtt = connected.at.since(departed.at);
            let path = kernel_rtt.map_or(KERNEL_PATH, |kernel| kernel.saturating_sub(rtt));
            Opening { departed, connected, rtt: (!lost).then_some(rtt), path }
        }
        (None, rtt) => {
            let departed = departure(before, after);
            let connected = match rtt {
                Some(rtt) => Stamp {
                    at: timebase
                        .offset(woken.min(departed + rtt.saturating_sub(KERNEL_PATH.min(rtt / 8)))),
                    clock: Clock::KernelDerived,
                },
                None => Stamp::user(timebase.offset(woken)),
            };
            let departed = Stamp::user(timebase.offset(departed));
            Opening { departed, connected, rtt, path: KERNEL_PATH }
        }
    };
    Ok(Connected {
        stream: TcpStream::over(
            Box::new(KernelStream::new(io, stamping, local)),
            timebase,
            opening.path,
        ),
        syn_departed: opening.departed,
        connected: opening.connected,
        syn_rtt: opening.rtt,
        segment_bytes: info.map(|i| i.send_mss as usize).filter(|mss| *mss > 0),
        syn_uncertainty: seen.is_none().then(|| after.since(before)),
    })
}

/// Reports are taken after this many sends: the kernel keeps a limited number, and one call takes those of four sends.
const UNREPORTED: usize = 4;

/// Reads this short are reads of a header.
const SHORT: usize = 8;

/// Times of a connection's opening.
struct Opening {
    departed: Stamp,
    connected: Stamp,
    rtt: Option<Duration>,
    /// Time that the kernel takes between TCP and the device, both ways.
    path: Duration,
}

/// Whether the kernel's times lie within the process's own; they do not if the wall clock was stepped.
fn is_within(seen: &SynTimes, timebase: Timebase, before: Monotonic, woken: Monotonic) -> bool {
    const APART: Duration = Duration::from_micros(100);
    let (earliest, latest) = (timebase.offset(before - APART), timebase.offset(woken + APART));
    earliest <= timebase.kernel_offset(seen.departed)
        && timebase.kernel_offset(seen.arrived) <= latest
}

/// The part of the kernel's round-trip time of a SYN that passes between TCP and the device, both ways.
///
/// Measured between 2 µs (caches warm) and 10 µs (the processor had slept): `docs/measurement.md`, "Accuracy".
const KERNEL_PATH: Duration = Duration::from_micros(5);

/// Estimates when the SYN left, given when `connect` was called and when it returned.
///
/// It leaves about half-way, unless something delays the call's return: the packet may travel on in the same context,
/// through a virtual device into another host, or the process may be preempted. The way down to the device never takes
/// long.
fn departure(before: Monotonic, after: Monotonic) -> Monotonic {
    const LONGEST_WAY_DOWN: Duration = Duration::from_micros(20);
    before + (after.since(before) / 2).min(LONGEST_WAY_DOWN)
}

/// A non-blocking stream; on Linux from its creation, which saves two system calls.
#[cfg(target_os = "linux")]
const NONBLOCKING: Type = Type::STREAM.nonblocking();
#[cfg(not(target_os = "linux"))]
const NONBLOCKING: Type = Type::STREAM;

fn open(remote: SocketAddr, bind: &Bind) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(remote), NONBLOCKING, Some(Protocol::TCP))?;
    #[cfg(not(target_os = "linux"))]
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    bind_to(&socket, bind, remote)?;
    Ok(socket)
}

/// Binds `socket` to the local end that the user requested.
pub(super) fn bind_to(socket: &Socket, bind: &Bind, remote: SocketAddr) -> io::Result<()> {
    match bind {
        Bind::Ports { lowest, highest } => {
            let any: IpAddr = match remote {
                SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let mut result = Err(io::ErrorKind::AddrInUse.into());
            for port in *lowest..=*highest {
                result = socket.bind(&SocketAddr::new(any, port).into());
                if !matches!(&result, Err(error) if error.kind() == io::ErrorKind::AddrInUse) {
                    break;
                }
            }
            result?;
        }
        Bind::Any => {}
        Bind::Address(address) => socket.bind(&SocketAddr::new(*address, 0).into())?,
        #[cfg(target_os = "linux")]
        Bind::Device(name) => socket.bind_device(Some(name.as_bytes()))?,
        #[cfg(not(target_os = "linux"))]
        Bind::Device(_) => return Err(io::ErrorKind::Unsupported.into()),
    }
    Ok(())
}

/// An open TCP connection that records what passes through it.
#[derive(Debug)]
pub struct TcpStream {
    socket: Box<dyn StampedStream>,
    recorder: Rc<RefCell<Recorder>>,
    order: Cell<Order>,
    /// Received data and figures when the kernel was last asked.
    arrived: Cell<Arrived>,
    /// Whether bytes were sent after that.
    sent_since: Cell<bool>,
    /// Sends since the kernel's reports were last taken.
    unreported: Cell<usize>,
    /// Time that the kernel takes between TCP and the device, both ways.
    kernel_path: Duration,
}

/// The kernel's counters, queried before a read, once all previously counted bytes had been read.
#[derive(Clone, Copy, Debug, Default)]
struct Arrived {
    info: Option<TcpInfo>,
    /// Segments with data that had come since the query before.
    segments: u32,
}

impl Arrived {
    /// Whether a read would find nothing after the first `taken` bytes: no bytes, no end of the stream, no error.
    fn nothing_since(&self, taken: u64) -> bool {
        // If the count is zero, the kernel may not support it.
        taken > 0 && self.info.is_some_and(|info| info.established && info.received_bytes == taken)
    }
}

impl TcpStream {
    /// Wraps a connected socket. `kernel_path` is the time that the kernel takes between TCP and the device, both ways.
    pub(super) fn over(
        socket: Box<dyn StampedStream>,
        timebase: Timebase,
        kernel_path: Duration,
    ) -> Self {
        let recorder = Rc::new(RefCell::new(Recorder::new(timebase)));
        let (order, arrived) = (Cell::default(), Cell::default());
        let (sent_since, unreported) = (Cell::new(false), Cell::new(0));
        Self { socket, recorder, order, arrived, sent_since, unreported, kernel_path }
    }

    /// The shared recorder. It outlives the connection, even one that is dropped half-way.
    pub fn recorder(&self) -> Rc<RefCell<Recorder>> {
        Rc::clone(&self.recorder)
    }

    fn notes(&self) -> RefMut<'_, Recorder> {
        self.recorder.borrow_mut()
    }

    /// The local address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local()
    }

    /// Receives into `buffer`; 0 bytes means the end of the stream.
    ///
    /// Receives at most `limit` bytes, plus the following ones of the same segment (except after a read of only a few
    /// bytes).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        limit: usize,
    ) -> Poll<io::Result<usize>> {
        let limit = limit.min(buffer.len());
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            let taken = self.notes().received_bytes();
            let (arrived, is_new) = self.arrived(taken);
            if is_new && arrived.nothing_since(taken) {
                self.socket.note_drained();
                continue;
            }
            let waits = arrived.info.map_or(0, |info| info.received_bytes.saturating_sub(taken));
            let waits = usize::try_from(waits).unwrap_or(usize::MAX);
            // Bytes of a single segment are read at once, whatever the limit.
            let alone = arrived.segments == 1 && (limit..=buffer.len()).contains(&waits);
            let first = if alone { waits } else { limit };
            let (first, more) = buffer.split_at_mut(first);
            // Waiting reports count as received data. While they wait, a read that takes all remaining data does not
            // make the kernel acknowledge small segments at once (`tcp_cleanup_rbuf`), as it does for other clients.
            self.collect_sent_stamps();
            match self.socket.try_receive(first) {
                Err(e) if is_transient(&e) => {}
                result => {
                    let (mut bytes, stamp) = result?;
                    let now = Monotonic::now();
                    // A few bytes are a header; the read of its contents will look at the bytes that follow.
                    if bytes == limit && bytes > SHORT && bytes != waits && !alone {
                        bytes += self.rest_of_segment(more, stamp);
                    }
                    // Figures from an earlier call may be older than what the runtime has reported since.
                    if is_new && bytes == waits && bytes > 0 {
                        self.socket.note_drained();
                    }
                    if bytes > 0 {
                        self.note_received(bytes, now, stamp, arrived.info);
                    }
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
    }

    /// The kernel's counters of received data, and whether they were queried just now. They are queried again once all
    /// `taken` bytes known so far have been read.
    fn arrived(&self, taken: u64) -> (Arrived, bool) {
        let before = self.arrived.get().info;
        if before.is_some_and(|info| info.received_bytes > taken) {
            return (self.arrived.get(), false);
        }
        let info = self.socket.info();
        let counted = before.map_or(0, |info| info.data_segments);
        let segments = info.map_or(0, |info| info.data_segments.wrapping_sub(counted));
        let arrived = Arrived { info, segments };
        self.arrived.set(arrived);
        self.sent_since.set(false);
        (arrived, true)
    }

    /// Records a read. Stamps of bytes that may have waited behind a hole do not count.
    fn note_received(
        &self,
        bytes: usize,
        read: Monotonic,
        stamp: Option<Realtime>,
        arrived: Option<TcpInfo>,
    ) {
        let info = stamp.and(arrived);
        let mut order = self.order.get();
        if order.may_have_waited(info) {
            self.notes().received(bytes, latest_arrival(read, info), None);
            if self.socket.holds_nothing() {
                order.settled();
            }
        } else {
            self.notes().received(bytes, read, stamp);
            if let Some(info) = info {
                let count = Count { bytes: info.received_bytes, segments: info.data_segments };
                self.notes().counted(info.segments, count, info.received_mss);
            }
        }
        self.order.set(order);
    }

    /// Gives the bytes before `end`, where the peer's turn ended, their own time if the kernel has merged them with a
    /// segment that followed.
    pub fn part_merged(&self, end: u64) {
        self.collect_sent_stamps();
        self.notes().part_merged(end, self.kernel_path);
    }

    /// Receives the rest of the segment with this stamp; returns its length.
    ///
    /// A read has the stamp of the last segment from which it takes bytes. If peeking at the next bytes gives the same
    /// stamp, all of them belong to the same segment.
    fn rest_of_segment(&self, buffer: &mut [u8], stamp: Option<Realtime>) -> usize {
        if buffer.is_empty() || stamp.is_none() {
            return 0;
        }
        match self.socket.peek(buffer) {
            Ok((bytes, same)) if bytes > 0 && same == stamp => {
                self.socket.try_receive(&mut buffer[..bytes]).map_or(0, |(taken, _)| taken)
            }
            _ => 0,
        }
    }

    /// Sends as many of `bytes` as the kernel accepts.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<(usize, SendId)>> {
        let mut full = false;
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            if full {
                // From then on, reports in the error queue make the socket look writable. So to wait for room in a full
                // send buffer, ask again, between other work.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = Monotonic::now();
            match self.socket.try_send(bytes) {
                Err(e) if is_transient(&e) => {
                    self.collect_sent_stamps();
                    full = e.kind() == io::ErrorKind::WouldBlock;
                }
                result => {
                    let sent = result?;
                    let id = self.notes().sent(sent, now);
                    self.sent_since.set(true);
                    self.unreported.update(|sends| sends + 1);
                    if self.unreported.get() >= UNREPORTED {
                        self.collect_sent_stamps();
                    }
                    return Poll::Ready(Ok((sent, id)));
                }
            }
        }
    }

    /// Sends as many of `bytes` as the kernel accepts without waiting, and ends the stream: nothing can be sent after
    /// that.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send_last(&self, bytes: &[u8]) -> io::Result<(usize, SendId)> {
        // Nobody waits for the fate of these bytes, so use the figures from before this send, if they are known.
        let known = self.arrived.get().info;
        let settled = known.filter(|info| info.unacknowledged == 0 && !self.sent_since.get());
        let settled = settled.map(|info| self.tcp_facts(Some(info)));
        let now = Monotonic::now();
        let sent = self.socket.try_send_last(bytes)?;
        let mut notes = self.notes();
        notes.tcp = settled;
        Ok((sent, notes.sent(sent, now)))
    }

    /// Takes the kernel's reports about sent bytes so far: before they are queried, and before there are too many.
    pub fn collect_sent_stamps(&self) {
        self.unreported.set(0);
        if self.notes().awaits_reports() {
            self.socket.sent_stamps(&mut |stamp| self.notes().report(stamp));
        }
    }

    /// Takes everything that the kernel knows by now: its reports about sent bytes, and its figures.
    pub fn note_kernel(&self) {
        self.collect_sent_stamps();
        let info = self.socket.info();
        let (facts, gaps) = (self.tcp_facts(info), self.segment_gaps(info));
        let mut notes = self.notes();
        (notes.tcp, notes.gaps) = (Some(facts), gaps);
    }

    /// Which segments are missing before others. Holes that have closed do not count, nor do unread bytes in order.
    fn segment_gaps(&self, info: Option<TcpInfo>) -> SegmentGaps {
        let Some(info) = info else { return SegmentGaps::default() };
        let received = info.out_of_order.is_some_and(|segments| segments > 0)
            && info.received_bytes == self.notes().received_bytes()
            && !self.socket.holds_nothing();
        SegmentGaps { received, sacked: info.sacked }
    }

    /// The kernel's figures for the connection: MSS, smallest round trip, retransmissions.
    fn tcp_facts(&self, info: Option<TcpInfo>) -> TcpFacts {
        TcpFacts {
            syn_rtt: None,
            min_rtt: info.and_then(|i| i.min_rtt),
            retransmits: info.map(|i| i.total_retransmits),
            send_mss: info.map(|i| i.send_mss).filter(|mss| *mss > 0),
            receive_mss: self.notes().full_segment(),
            out_of_order: info.and_then(|i| i.out_of_order),
            receive_window_limited: info.and_then(|i| i.receive_window_limited),
            congestion_control: self.socket.congestion_control(),
            syn_departure_uncertainty: None,
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl Drop for TcpStream {
    /// Takes the kernel's figures one last time, also if the connection is dropped half-way.
    fn drop(&mut self) {
        if self.notes().tcp.is_some() {
            self.collect_sent_stamps();
        } else {
            self.note_kernel();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The stamp of the last of the first `bytes` waiting bytes.
    fn stamp_at(stream: &TcpStream, bytes: usize) -> Option<Realtime> {
        stream.socket.peek(&mut vec![0; bytes]).unwrap().1
    }

    /// Reads what `stream` has received, waiting for it if necessary.
    async fn read(stream: &TcpStream, buffer: &mut [u8], limit: usize) -> usize {
        std::future::poll_fn(|cx| stream.poll_receive(cx, buffer, limit)).await.unwrap()
    }

    async fn pair() -> (std::net::TcpStream, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let connected = connect(remote, &Bind::Any, Timebase::start(), None).await.unwrap();
        let (mut peer, stream) = (listener.accept().unwrap().0, connected.stream);
        peer.set_nodelay(true).unwrap();
        // The kernel begins to stamp slightly after the first socket has asked for stamps.
        loop {
            peer.write_all(&[0]).unwrap();
            assert_eq!(read(&stream, &mut [0], 1).await, 1);
            if stream.notes().last_arrival().unwrap().stamp.clock == Clock::Kernel {
                return (peer, stream);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_segment_that_waits_alone_is_read_whole() {
        let (mut peer, stream) = pair().await;
        let mut buffer = vec![0; 20_000];
        for _ in 0..5 {
            peer.write_all(&[7; 10_000]).unwrap();
            assert_eq!(read(&stream, &mut buffer, 5).await, 10_000);
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_last_bytes_and_the_end_are_one_segment_with_a_stamp() {
        use std::io::Read;

        let (mut peer, stream) = pair().await;
        let segments = |peer: &std::net::TcpStream| sys::tcp_info(peer.as_fd()).unwrap().segments;
        let before = segments(&peer);
        let (sent, id) = stream.send_last(&[1; 24]).unwrap();
        stream.note_kernel();
        assert_eq!(stream.notes().departure(id).map(|stamp| stamp.clock), Some(Clock::Kernel));
        peer.set_nonblocking(false).unwrap();
        assert_eq!((sent, peer.read_to_end(&mut Vec::new()).unwrap()), (24, 24));
        assert_eq!(segments(&peer) - before, 1);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_read_takes_nothing_of_a_segment_that_came_later() {
        let (mut peer, stream) = pair().await;
        // The kernel merges waiting segments, up to 17 pieces of memory; all of these fit into the window.
        let (segments, bytes) = (24, 2_000);
        for n in 0..segments {
            peer.write_all(&vec![n; bytes]).unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let total = usize::from(segments) * bytes;
        let (mut taken, mut seen) = (0, 0);
        let mut buffer = vec![0; total];
        while taken < total {
            let first = stamp_at(&stream, 1);
            let same = |length: &usize| stamp_at(&stream, *length) == first;
            let whole = (bytes..=total - taken).step_by(bytes).take_while(same).last().unwrap();
            let begun = read(&stream, &mut buffer, 5).await;
            assert!(begun == 5 || begun == whole, "{begun} of {whole}");
            if begun < whole {
                assert_eq!(read(&stream, &mut buffer, whole - begun).await, whole - begun);
            }
            assert_eq!(stream.notes().last_arrival().unwrap().stamp.clock, Clock::Kernel);
            taken += whole;
            seen += 1;
        }
        assert!(seen > 1, "all segments were merged");
    }
}
