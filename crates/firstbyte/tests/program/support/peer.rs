//! Servers on loopback that behave in a way chosen by the test, and end when dropped.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use socket2::{Domain, SockRef, Socket, Type};

/// Blocking calls on a connection give up after this; no test takes as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A TLS stream as a server sees it.
pub(crate) type TlsStream = StreamOwned<ServerConnection, TcpStream>;

/// A server, or a port without one.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
    /// Sockets kept open, so that no other process gets the port.
    _held: Vec<Socket>,
}

impl Peer {
    /// Accepts connections and runs `behave` for each in a separate thread.
    pub(crate) fn tcp(behave: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::listening(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), behave)
    }

    /// Same as [`Self::tcp`], on an existing socket.
    pub(crate) fn listening(
        listener: TcpListener,
        behave: impl Fn(TcpStream) + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let behave = Arc::new(behave);
        let accepting = thread::spawn(move || {
            let mut served = Vec::new();
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                stream.set_write_timeout(Some(PATIENCE)).unwrap();
                stream.set_nodelay(true).unwrap();
                let behave = Arc::clone(&behave);
                served.push(thread::spawn(move || behave(stream)));
            }
            for thread in served {
                thread.join().unwrap();
            }
        });
        Self { address, stop, accepting: Some(accepting), _held: Vec::new() }
    }

    /// Does a TLS handshake on each connection, then runs `behave`. A failed handshake ends the connection.
    pub(crate) fn tls(
        config: ServerConfig,
        behave: impl Fn(&mut TlsStream) + Send + Sync + 'static,
    ) -> Self {
        let config = Arc::new(config);
        Self::tcp(move |tcp| {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, tcp);
            while stream.conn.is_handshaking() {
                if stream.conn.complete_io(&mut stream.sock).is_err() {
                    drain(&mut stream.sock);
                    return;
                }
            }
            behave(&mut stream);
        })
    }

    /// A port on which nothing listens, and which no other process can get meanwhile.
    pub(crate) fn closed() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        Self::bound(vec![socket])
    }

    /// A port that does not answer SYNs: its accept queue is full.
    pub(crate) fn silent() -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let peer = Self::bound(vec![socket]);
        peer._held[0].listen(0).unwrap();
        let mut peer = peer;
        for _ in 0..3 {
            let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            filler.set_nonblocking(true).unwrap();
            // It is enough that the connection has been started.
            let _ = filler.connect(&peer.address.into());
            peer._held.push(filler);
        }
        peer
    }

    fn bound(held: Vec<Socket>) -> Self {
        held[0].bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let address = held[0].local_addr().unwrap().as_socket().unwrap();
        Self { address, stop: Arc::default(), accepting: None, _held: held }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.take() {
            self.stop.store(true, Ordering::SeqCst);
            // Wakes the accepting thread.
            let _ = TcpStream::connect(self.address);
            let ended = accepting.join();
            assert!(ended.is_ok() || thread::panicking(), "a server of this test panicked");
        }
    }
}

/// Waits until the client is gone.
pub(crate) fn drain(stream: &mut impl Read) {
    let mut piece = [0; 4096];
    while stream.read(&mut piece).is_ok_and(|bytes| bytes > 0) {}
}

/// Reads a request's head.
pub(crate) fn read_head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Reads part of a ClientHello: a single read, while it arrives in one or two segments.
pub(crate) fn read_some(stream: &mut impl Read) {
    let _ = stream.read(&mut [0; 16 * 1024]);
}

/// Sends a reset instead of a FIN.
pub(crate) fn reset(stream: TcpStream) {
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
}

/// Answers one request with `answer`, and closes once the client has it.
pub(crate) fn answer(mut stream: TcpStream, answer: &[u8]) {
    read_head(&mut stream);
    send(&mut stream, answer);
}

/// Sends `bytes` and the end of the stream, then waits for the client to close.
pub(crate) fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    drain(stream);
}

/// Answers one request over TLS with `answer`, sends close_notify, and waits for the client to close.
pub(crate) fn answer_tls(stream: &mut TlsStream, answer: &[u8]) {
    read_head(stream);
    let _ = stream.write_all(answer);
    stream.conn.send_close_notify();
    let _ = stream.conn.complete_io(&mut stream.sock);
    let _ = stream.sock.shutdown(Shutdown::Write);
    drain(&mut stream.sock);
}
