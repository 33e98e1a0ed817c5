//! What a socket reports for timing, and the kernel's sockets.
//!
//! [`StampedStream`] and [`StampedDatagrams`] are the seam between measuring and the machine: bytes and their arrival
//! times, bytes and their departure times, acknowledgements, segment counts. The kernel's sockets are one
//! implementation; `simulated` (tests) is another, with an in-memory peer and a simulated clock. One dynamic call per
//! system call costs nothing measurable.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::Interest;

use super::sys::{self, SentStamp, TcpInfo};
use firstbyte_clock::Realtime;

/// A TCP connection as the kernel shows it.
///
/// Readiness works as usual: after a `try_` call returned `WouldBlock`, `poll_..._ready` waits again.
pub(super) trait StampedStream: fmt::Debug {
    /// Whether there may be bytes, the end of the stream or an error to receive.
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether there may be room to send.
    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Receives; the stamp is that of the last segment from which bytes were taken. 0 bytes means the end of the
    /// stream.
    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)>;

    /// Says that everything was received that had arrived by the call of [`Self::info`], which was after the runtime's
    /// last look. Later arrivals make the socket ready again.
    fn note_drained(&self);

    /// Like [`Self::try_receive`], but leaves the bytes in the socket.
    fn peek(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)>;

    /// Sends as many bytes as there is room for.
    fn try_send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Sends as many bytes as there is room for, and the end of the stream; in one segment if they fit.
    fn try_send_last(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Takes all available reports about sent bytes.
    fn sent_stamps(&self, take: &mut dyn FnMut(SentStamp));

    /// The kernel's current figures.
    fn info(&self) -> Option<TcpInfo>;

    /// Whether no received bytes are waiting, neither to be read nor behind a hole.
    fn holds_nothing(&self) -> bool;

    fn local(&self) -> Option<SocketAddr>;

    /// The congestion control algorithm in use.
    fn congestion_control(&self) -> Option<String>;
}

/// Datagrams to and from one peer, as the kernel shows them.
pub(super) trait StampedDatagrams: fmt::Debug {
    /// Receives a datagram. An error may also be the network's reply to an earlier sent datagram.
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<Realtime>)>>;

    /// Sends a datagram; returns whether there was room for it.
    fn send(&mut self, datagram: &[u8]) -> io::Result<bool>;

    /// Takes one report: the number of the datagram, counted from 0, and when it left. `None` if there is no report.
    fn departed(&mut self) -> Option<(u32, Realtime)>;

    fn local(&self) -> Option<SocketAddr>;
}

#[cfg(target_os = "linux")]
const MORE: libc::c_int = libc::MSG_MORE;
#[cfg(not(target_os = "linux"))]
const MORE: libc::c_int = 0;

/// The kernel's TCP socket.
#[derive(Debug)]
pub(super) struct KernelStream {
    io: tokio::net::TcpStream,
    /// Whether the kernel stamps sent bytes.
    stamping: bool,
    local: Option<SocketAddr>,
}

impl KernelStream {
    pub(super) const fn new(
        io: tokio::net::TcpStream,
        stamping: bool,
        local: Option<SocketAddr>,
    ) -> Self {
        Self { io, stamping, local }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

impl StampedStream for KernelStream {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_read_ready(cx)
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_write_ready(cx)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)> {
        self.io.try_io(Interest::READABLE, || sys::receive(self.fd(), buffer))
    }

    /// Clears readiness without a system call that would only return `WouldBlock`.
    ///
    /// The runtime still reports whatever has come since it last looked: it runs on this thread, and has not looked
    /// between the read and this call.
    fn note_drained(&self) {
        let nothing = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.io.try_io(Interest::READABLE, nothing);
    }

    fn peek(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Realtime>)> {
        sys::peek(self.fd(), buffer)
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.io.try_io(Interest::WRITABLE, || SockRef::from(&self.io).send(bytes))
    }

    fn try_send_last(&self, bytes: &[u8]) -> io::Result<usize> {
        let socket = SockRef::from(&self.io);
        // Without the flag, the bytes and the FIN leave in separate segments.
        let sent = socket.send_with_flags(bytes, MORE)?;
        // The bytes held back leave with the FIN. An error means that nothing can be sent any more.
        let _ = socket.shutdown(Shutdown::Write);
        Ok(sent)
    }

    fn sent_stamps(&self, take: &mut dyn FnMut(SentStamp)) {
        if self.stamping {
            sys::sent_stamps(self.fd(), take);
        }
    }

    fn info(&self) -> Option<TcpInfo> {
        sys::tcp_info(self.fd())
    }

    fn holds_nothing(&self) -> bool {
        sys::holds_nothing(self.fd())
    }

    fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    #[cfg(target_os = "linux")]
    fn congestion_control(&self) -> Option<String> {
        let name = SockRef::from(&self.io).tcp_congestion().ok()?;
        let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
        Some(String::from_utf8_lossy(&name[..end]).into_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn congestion_control(&self) -> Option<String> {
        None
    }
}

/// The kernel's UDP socket.
#[derive(Debug)]
pub(super) struct KernelDatagrams {
    io: Rc<tokio::net::UdpSocket>,
    /// Waits for errors from the network, until anything arrives.
    trouble: Option<Trouble>,
    /// Whether the kernel stamps sent datagrams.
    stamping: bool,
    /// Departure reports that were taken while waiting for something else.
    reports: VecDeque<(u32, Realtime)>,
}

impl KernelDatagrams {
    pub(super) fn new(io: tokio::net::UdpSocket, stamping: bool) -> Self {
        let io = Rc::new(io);
        let trouble = Some(Trouble::await_on(&io));
        Self { io, trouble, stamping, reports: VecDeque::new() }
    }

    fn collect_reports(&mut self) {
        while let Some(report) = self.next_report() {
            self.reports.push_back(report);
        }
    }

    fn next_report(&self) -> Option<(u32, Realtime)> {
        while self.stamping
            && let Some(stamp) = sys::sent_stamp(self.io.as_fd())
        {
            // For datagrams, the kernel counts datagrams instead of bytes.
            if let SentStamp::Departed { last_byte: number, at } = stamp {
                return Some((number, at));
            }
        }
        None
    }

    /// Returns an ICMP error as soon as it arrives. Reads and sends would return it too, but it does not make the
    /// socket readable, and the next send may be a second away.
    fn poll_trouble(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        while self.trouble.as_mut()?.0.as_mut().poll(cx).is_ready() {
            let stamping = self.stamping;
            self.collect_reports();
            // The kernel's departure reports, collected above, also wake this.
            let said = self.io.try_io(Interest::ERROR, || {
                self.io.take_error()?.map_or_else(|| Err(io::ErrorKind::WouldBlock.into()), Ok)
            });
            self.trouble = Some(Trouble::await_on(&self.io));
            match said {
                Ok(error) => return Some(error),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && stamping => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Some(error),
            }
        }
        None
    }
}

impl StampedDatagrams for KernelDatagrams {
    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, Option<Realtime>)>> {
        loop {
            if let Some(error) = self.poll_trouble(cx) {
                return Poll::Ready(Err(error));
            }
            ready!(self.io.poll_recv_ready(cx))?;
            let received =
                self.io.try_io(Interest::READABLE, || sys::receive(self.io.as_fd(), buffer));
            match received {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.collect_reports();
                    // An error from the network for an earlier datagram.
                    if let Some(error) = self.io.take_error()? {
                        return Poll::Ready(Err(error));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    self.trouble = None;
                    return Poll::Ready(result);
                }
            }
        }
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<bool> {
        match SockRef::from(&self.io).send(datagram) {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn departed(&mut self) -> Option<(u32, Realtime)> {
        self.reports.pop_front().or_else(|| self.next_report())
    }

    fn local(&self) -> Option<SocketAddr> {
        self.io.local_addr().ok()
    }
}

/// Completes when the socket's error queue has an entry.
struct Trouble(Pin<Box<dyn Future<Output = ()>>>);

impl Trouble {
    fn await_on(io: &Rc<tokio::net::UdpSocket>) -> Self {
        let io = Rc::clone(io);
        Self(Box::pin(async move {
            let _ = io.ready(Interest::ERROR).await;
        }))
    }
}

impl fmt::Debug for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trouble")
    }
}
