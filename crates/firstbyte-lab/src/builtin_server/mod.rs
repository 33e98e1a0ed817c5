//! A small HTTPS server (rustls, hyper) for machines without nginx, and for tests on loopback.
//!
//! It serves a page of a chosen size at `/`, any other size at `/bytes/N`, and a redirect to `/` at
//! `/redirect`, over HTTP/1.1 and HTTP/2; it can take its time before the ServerHello and before
//! the response. It needs no namespace and no privilege.

mod http;
mod tls;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::LazyConfigAcceptor;

use crate::ca::ServerCertificate;

#[cfg(target_os = "linux")]
pub(crate) use http::page;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it proves its name with.
    pub certificate: ServerCertificate,
    /// The protocol versions it speaks.
    pub versions: TlsVersions,
    /// The application protocols it takes, by preference; empty for no ALPN.
    pub alpn: Vec<String>,
    /// How many session tickets follow a TLS 1.3 handshake.
    pub tickets: usize,
    /// Size of the page at `/`.
    pub page_bytes: usize,
    /// Time between a request and its response.
    pub think_time: Duration,
    /// Time between a ClientHello and its ServerHello.
    pub handshake_delay: Duration,
}

/// Protocol versions of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersions {
    /// TLS 1.2 and TLS 1.3.
    Both,
    /// TLS 1.2 alone.
    Tls12,
    /// TLS 1.3 alone.
    Tls13,
}

impl Config {
    /// Both TLS versions, both HTTP versions, two tickets, 2,000 bytes, no delays.
    pub fn new(certificate: ServerCertificate) -> Self {
        Self {
            certificate,
            versions: TlsVersions::Both,
            alpn: vec!["h2".to_owned(), "http/1.1".to_owned()],
            tickets: 2,
            page_bytes: 2_000,
            think_time: Duration::ZERO,
            handshake_delay: Duration::ZERO,
        }
    }
}

/// The sockets a server accepts on.
#[derive(Debug, Default)]
pub struct Listeners {
    /// With TLS.
    pub https: Vec<TcpListener>,
    /// Without.
    pub http: Vec<TcpListener>,
}

impl Listeners {
    /// One of each on 127.0.0.1, at ports that are free.
    pub fn loopback() -> io::Result<Self> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Ok(Self {
            https: vec![TcpListener::bind(any_port)?],
            http: vec![TcpListener::bind(any_port)?],
        })
    }
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    /// Its certificate or key was refused.
    Tls(rustls::Error),
    /// A socket or thread was refused.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tls(error) => write!(f, "cannot set up TLS: {error}"),
            Self::Io(error) => write!(f, "cannot start: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A running server, which stops when this is dropped.
#[derive(Debug)]
pub struct Handle {
    https: Option<SocketAddr>,
    http: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Where it accepts TLS connections.
    ///
    /// # Panics
    /// If it was started without a listener for them.
    pub fn addr(&self) -> SocketAddr {
        self.https.expect("the server has a TLS listener")
    }

    /// Where it accepts plain connections, if anywhere.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has stopped too.
            let _ = thread.join();
        }
    }
}

/// Starts a server in a thread of its own.
pub fn spawn(config: Config, listeners: Listeners) -> Result<Handle, StartError> {
    let server = Arc::new(Server {
        tls: Arc::new(tls::config(&config).map_err(StartError::Tls)?),
        page_bytes: config.page_bytes,
        think_time: config.think_time,
        handshake_delay: config.handshake_delay,
    });
    let address = |of: &[TcpListener]| of.first().map(TcpListener::local_addr).transpose();
    let https = address(&listeners.https)?;
    let http = address(&listeners.http)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut accepting = Vec::new();
    {
        let _guard = runtime.enter();
        for (listeners, with_tls) in [(listeners.https, true), (listeners.http, false)] {
            for listener in listeners {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                accepting.push(accept(listener, Arc::clone(&server), with_tls));
            }
        }
    }
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        for task in accepting {
            runtime.spawn(task);
        }
        // Ends when the handle drops its sender.
        let _ = runtime.block_on(stopped);
    })?;
    Ok(Handle { https, http, stop: Some(stop), thread: Some(thread) })
}

/// What all connections of a server share.
struct Server {
    tls: Arc<rustls::ServerConfig>,
    page_bytes: usize,
    think_time: Duration,
    handshake_delay: Duration,
}

async fn accept(listener: tokio::net::TcpListener, server: Arc<Server>, with_tls: bool) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let server = Arc::clone(&server);
                tokio::spawn(async move {
                    // The peer learns of a failure from the connection; nobody else asks.
                    let _ = server.serve(stream, with_tls).await;
                });
            }
            // Out of descriptors: connections that end free some.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Server {
    async fn serve(&self, stream: TcpStream, with_tls: bool) -> io::Result<()> {
        stream.set_nodelay(true)?;
        if !with_tls {
            return http::serve(stream, false, self.page_bytes, self.think_time).await;
        }
        let handshake =
            LazyConfigAcceptor::new(rustls::server::Acceptor::default(), stream).await?;
        if !self.handshake_delay.is_zero() {
            tokio::time::sleep(self.handshake_delay).await;
        }
        let stream = handshake.into_stream(Arc::clone(&self.tls)).await?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        http::serve(stream, h2, self.page_bytes, self.think_time).await
    }
}

#[cfg(test)]
mod tests;
