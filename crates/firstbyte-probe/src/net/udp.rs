//! UDP with stamps: sends and receives datagrams one by one, and records when.
//!
//! Each datagram is sent and read on its own (no segmentation offload), so that each has its own stamp. The socket is
//! connected, so that datagrams to a port where nobody listens come back as an error at once.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, Socket, Type};

use super::recorder::{Recorder, SendId};
use super::socket::{KernelDatagrams, StampedDatagrams};
use super::sys::{self, SentStamp};
use super::tcp::{Bind, ConnectError, bind_to};
use firstbyte_clock::{Monotonic, Timebase};

/// Receive buffer for datagrams that arrive while the process is busy, in bytes.
const RECEIVE_BUFFER: usize = 2 * 1024 * 1024;

/// A connected UDP socket that records what passes through it.
#[derive(Debug)]
pub struct UdpSocket {
    socket: Box<dyn StampedDatagrams>,
    recorder: Rc<RefCell<Recorder>>,
    /// For each datagram sent, the offset of its last byte among all bytes sent, modulo 2³². The kernel numbers
    /// datagrams, the recorder bytes.
    ends: Vec<u32>,
    /// Number of datagrams that the kernel has reported.
    reported: usize,
    sent_bytes: u32,
}

impl UdpSocket {
    /// Opens a socket for datagrams to and from `remote`.
    ///
    /// # Errors
    /// [`ConnectError`], with the kernel's own error.
    pub fn connect(
        remote: SocketAddr,
        bind: &Bind,
        timebase: Timebase,
    ) -> Result<Self, ConnectError> {
        let open = || -> io::Result<Socket> {
            let socket =
                Socket::new(Domain::for_address(remote), Type::DGRAM, Some(Protocol::UDP))?;
            socket.set_nonblocking(true)?;
            // As much as the kernel allows.
            let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
            bind_to(&socket, bind, remote)?;
            Ok(socket)
        };
        let socket = open().map_err(ConnectError::Setup)?;
        socket.connect(&remote.into()).map_err(ConnectError::Failed)?;
        let stamping = sys::enable_stamps(socket.as_fd()).is_ok();
        let io = tokio::net::UdpSocket::from_std(socket.into()).map_err(ConnectError::Setup)?;
        Ok(Self::over(Box::new(KernelDatagrams::new(io, stamping)), timebase))
    }

    /// Wraps a connected socket.
    pub(super) fn over(socket: Box<dyn StampedDatagrams>, timebase: Timebase) -> Self {
        let recorder = Rc::new(RefCell::new(Recorder::new(timebase)));
        Self { socket, recorder, ends: Vec::new(), reported: 0, sent_bytes: 0 }
    }

    /// The shared recorder. It outlives the socket.
    pub fn recorder(&self) -> Rc<RefCell<Recorder>> {
        Rc::clone(&self.recorder)
    }

    /// The local address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.socket.local()
    }

    /// Receives one datagram into `buffer`.
    ///
    /// # Errors
    /// The kernel's error; an ICMP message that nobody listens is `ConnectionRefused`.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let (bytes, stamp) = ready!(self.socket.poll_receive(cx, buffer))?;
        let now = Monotonic::now();
        self.collect_sent_stamps();
        self.recorder.borrow_mut().received(bytes, now, stamp);
        Poll::Ready(Ok(bytes))
    }

    /// Sends one datagram. If there is no room for it now, it is dropped as if lost on the way, and `None` is returned.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn send(&mut self, datagram: &[u8]) -> io::Result<Option<SendId>> {
        let now = Monotonic::now();
        if !self.socket.send(datagram)? {
            return Ok(None);
        }
        let id = self.recorder.borrow_mut().sent(datagram.len(), now);
        self.sent_bytes =
            self.sent_bytes.wrapping_add(u32::try_from(datagram.len()).unwrap_or(u32::MAX));
        self.ends.push(self.sent_bytes.wrapping_sub(1));
        self.collect_sent_stamps();
        Ok(Some(id))
    }

    /// Takes the kernel's reports about sent datagrams. The kernel reports each datagram once, in order, so if all are
    /// reported, this makes no system call.
    pub fn collect_sent_stamps(&mut self) {
        while self.reported < self.ends.len() {
            let Some((number, at)) = self.socket.departed() else { return };
            self.reported = self.reported.max((number as usize).saturating_add(1));
            if let Some(last_byte) = self.ends.get(number as usize) {
                let stamp = SentStamp::Departed { last_byte: *last_byte, at };
                self.recorder.borrow_mut().report(stamp);
            }
        }
    }
}

impl Drop for UdpSocket {
    /// Takes the kernel's reports one last time, also if the connection is dropped half-way.
    fn drop(&mut self) {
        self.collect_sent_stamps();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn receive(socket: &mut UdpSocket) -> io::Result<usize> {
        let mut buffer = [0; 64];
        let received = std::future::poll_fn(|cx| socket.poll_receive(cx, &mut buffer));
        tokio::time::timeout(Duration::from_secs(5), received).await.expect("an answer")
    }

    /// No further send is needed to notice it.
    #[tokio::test]
    async fn that_nobody_listens_is_noticed_at_once() {
        let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let remote = nobody.local_addr().unwrap();
        drop(nobody);
        let mut socket = UdpSocket::connect(remote, &Bind::Any, Timebase::start()).unwrap();
        socket.send(b"anybody?").unwrap();
        let error = receive(&mut socket).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    /// The kernel's departure reports arrive through the same error queue.
    #[tokio::test]
    async fn reports_of_departures_are_no_errors() {
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let remote = peer.local_addr().unwrap();
        let mut socket = UdpSocket::connect(remote, &Bind::Any, Timebase::start()).unwrap();
        let echo = std::thread::spawn(move || {
            let mut buffer = [0; 64];
            for _ in 0..3 {
                let (bytes, from) = peer.recv_from(&mut buffer).unwrap();
                std::thread::sleep(Duration::from_millis(5));
                peer.send_to(&buffer[..bytes], from).unwrap();
            }
        });
        for datagram in [b"a".as_slice(), b"bc", b"def"] {
            socket.send(datagram).unwrap();
            assert_eq!(receive(&mut socket).await.unwrap(), datagram.len());
        }
        echo.join().unwrap();
    }
}
