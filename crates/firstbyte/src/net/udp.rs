//! UDP with stamps: sends and receives datagrams one by one, and notes when.
//!
//! Each datagram is a send and a read of its own (no segmentation offload), so that each has a stamp
//! of its own. The socket is connected: what nobody listens for comes back as an error at once.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::Interest;

use super::recorder::{Recorder, SendId};
use super::sys::{self, SentStamp};
use super::tcp::{Bind, ConnectError, bind_to};
use crate::clock::{Monotonic, Timebase};

/// Room for what arrives while the process is busy, bytes.
const RECEIVE_BUFFER: usize = 2 * 1024 * 1024;

/// A connected UDP socket that notes what passes through it.
#[derive(Debug)]
pub struct UdpSocket {
    io: Rc<tokio::net::UdpSocket>,
    /// What the network says of a datagram, awaited until anything arrives.
    trouble: Option<Trouble>,
    recorder: Rc<RefCell<Recorder>>,
    stamping: bool,
    /// For each datagram sent, where its last byte stands among all bytes sent, modulo 2³²: the
    /// kernel numbers datagrams, the recorder bytes.
    ends: Vec<u32>,
    sent_bytes: u32,
}

impl UdpSocket {
    /// A socket for datagrams to and from `remote`.
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
            // As much as the kernel gives.
            let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
            bind_to(&socket, bind)?;
            Ok(socket)
        };
        let socket = open().map_err(ConnectError::Setup)?;
        socket.connect(&remote.into()).map_err(ConnectError::Failed)?;
        let stamping = sys::enable_stamps(socket.as_fd()).is_ok();
        let io = tokio::net::UdpSocket::from_std(socket.into()).map_err(ConnectError::Setup)?;
        let io = Rc::new(io);
        let trouble = Some(Trouble::of(&io));
        let recorder = Rc::new(RefCell::new(Recorder::new(timebase)));
        Ok(Self { io, trouble, recorder, stamping, ends: Vec::new(), sent_bytes: 0 })
    }

    /// The notes, shared: they outlive the socket.
    pub fn recorder(&self) -> Rc<RefCell<Recorder>> {
        Rc::clone(&self.recorder)
    }

    /// The local address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.io.local_addr().ok()
    }

    /// Receives one datagram into `buffer`.
    ///
    /// # Errors
    /// The kernel's; an ICMP message that nobody listens is `ConnectionRefused`.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(error) = self.poll_trouble(cx) {
                return Poll::Ready(Err(error));
            }
            ready!(self.io.poll_recv_ready(cx))?;
            let received =
                self.io.try_io(Interest::READABLE, || sys::receive(self.io.as_fd(), buffer));
            match received {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.collect_sent_stamps();
                    // What the network said of an earlier datagram.
                    if let Some(error) = self.io.take_error()? {
                        return Poll::Ready(Err(error));
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                result => {
                    let (bytes, stamp) = result?;
                    self.trouble = None;
                    let now = Monotonic::now();
                    self.collect_sent_stamps();
                    self.recorder.borrow_mut().received(bytes, now, stamp);
                    return Poll::Ready(Ok(bytes));
                }
            }
        }
    }

    /// An ICMP message that came, as an error, at once: reads and sends would tell of it as well, but
    /// nothing becomes readable by it, and the next send may be a second away.
    fn poll_trouble(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        while self.trouble.as_mut()?.0.as_mut().poll(cx).is_ready() {
            let stamping = self.stamping;
            self.collect_sent_stamps();
            // The kernel's reports of departures, which were collected, look the same.
            let said = self.io.try_io(Interest::ERROR, || {
                self.io.take_error()?.map_or_else(|| Err(io::ErrorKind::WouldBlock.into()), Ok)
            });
            self.trouble = Some(Trouble::of(&self.io));
            match said {
                Ok(error) => return Some(error),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && stamping => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// Sends one datagram. One for which there is no room now is lost, as on the way, and was not sent.
    ///
    /// # Errors
    /// The kernel's.
    pub fn send(&mut self, datagram: &[u8]) -> io::Result<Option<SendId>> {
        let now = Monotonic::now();
        match SockRef::from(&self.io).send(datagram) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
        }
        let id = self.recorder.borrow_mut().sent(datagram.len(), now);
        self.sent_bytes =
            self.sent_bytes.wrapping_add(u32::try_from(datagram.len()).unwrap_or(u32::MAX));
        self.ends.push(self.sent_bytes.wrapping_sub(1));
        self.collect_sent_stamps();
        Ok(Some(id))
    }

    /// Takes over what the kernel has reported about sent datagrams so far.
    pub fn collect_sent_stamps(&mut self) {
        if !self.stamping {
            return;
        }
        while let Some(stamp) = sys::sent_stamp(self.io.as_fd()) {
            let SentStamp::Departed { last_byte: number, at } = stamp else { continue };
            if let Some(last_byte) = self.ends.get(number as usize) {
                let stamp = SentStamp::Departed { last_byte: *last_byte, at };
                self.recorder.borrow_mut().report(stamp);
            }
        }
    }
}

/// Completes when the kernel has something to say of what was sent.
struct Trouble(Pin<Box<dyn Future<Output = ()>>>);

impl Trouble {
    fn of(io: &Rc<tokio::net::UdpSocket>) -> Self {
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

impl Drop for UdpSocket {
    /// The last look at the kernel's reports, also when the connection is given up half-way.
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

    /// Without another send that would tell of it.
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

    /// What the kernel reports of departures comes the same way.
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
