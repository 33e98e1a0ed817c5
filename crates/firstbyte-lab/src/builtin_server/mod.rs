//! A small HTTPS server (rustls, hyper, quinn, h3) for machines without nginx, and for tests on
//! loopback.
//!
//! It serves a page of a chosen size at `/`, any other size at `/bytes/N`, and a redirect to `/` at
//! `/redirect` (and other configured redirects). At `/w` it writes as the query says, with pauses
//! (`pattern`). It does so over HTTP/1.1, HTTP/2 and HTTP/3. It answers early data in its first flight,
//! resumes sessions in configured ways, and can delay the ServerHello and the response. Every response
//! and the access log say whether the request came in early data and whether the session was resumed
//! (`x-firstbyte-early-data`, `x-firstbyte-resumed`). It needs no namespace and no privilege.

mod config;
mod filling;
mod hello;
mod http;
mod pattern;
mod pause;
mod quic;
mod respond;
mod stream;
mod tls;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::HeaderValue;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use respond::{Connection, Served, Site, TlsFacts};
use stream::AnswerFrom;
use tls::Tls;

pub use config::{
    Config, Content, EarlyData, KexGroup, Listeners, Resumption, SlowRequests, StartError,
    TlsVersions,
};
#[cfg(target_os = "linux")]
pub(crate) use filling::page;

/// Time limit for a handshake over TCP, delays included, so that a silent peer does not hold a socket forever.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(90);

/// A running server; dropping this stops it.
#[derive(Debug)]
pub struct Handle {
    https: Option<SocketAddr>,
    http: Option<SocketAddr>,
    quic: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Handle {
    /// Address for TLS connections.
    ///
    /// # Panics
    /// If the server was started without a TLS listener.
    pub fn addr(&self) -> SocketAddr {
        self.https.expect("the server has a TLS listener")
    }

    /// Address for plain HTTP connections, if any.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Address for QUIC connections, if any.
    pub fn quic_addr(&self) -> Option<SocketAddr> {
        self.quic
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A server that panicked has also stopped.
            let _ = thread.join();
        }
    }
}

/// Starts a server in its own thread.
///
/// # Errors
/// The certificate or key is invalid, or the system refuses a socket or a thread.
pub fn spawn(config: Config, listeners: Listeners) -> Result<Handle, StartError> {
    let https = address(&listeners.https, TcpListener::local_addr)?;
    let http = address(&listeners.http, TcpListener::local_addr)?;
    let quic = address(&listeners.quic, UdpSocket::local_addr)?;
    let tls = Tls::new(&config)?;
    filling::prepare();
    let server = Arc::new(Server {
        quic: quic::config(&tls, config.quic_initial_window)?,
        tls,
        site: Arc::new(Site {
            page_bytes: config.page_bytes,
            think_time: config.think_time,
            slow: config.slow,
            requests: Numbers::default(),
            early_data: config.early_data,
            redirects: redirects(&config.redirects)?,
            content: served(config.content)?,
            alt_svc: quic.and_then(alt_svc),
            access_log: config.access_log,
        }),
        handshake_delay: config.handshake_delay,
        retry: config.retry,
        nagle: config.nagle,
    });
    let numbers = Arc::new(Numbers::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut accepting = Vec::new();
    let mut endpoints = Vec::new();
    {
        let _guard = runtime.enter();
        for (listeners, with_tls) in [(listeners.https, true), (listeners.http, false)] {
            for listener in listeners {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                let (server, numbers) = (Arc::clone(&server), Arc::clone(&numbers));
                accepting.push(accept(listener, server, numbers, with_tls));
            }
        }
        for socket in listeners.quic {
            endpoints.push(quic::endpoint(socket, &server)?);
        }
    }
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        for task in accepting {
            runtime.spawn(task);
        }
        for endpoint in &endpoints {
            let (server, numbers) = (Arc::clone(&server), Arc::clone(&numbers));
            runtime.spawn(quic::accept(endpoint.clone(), server, numbers));
        }
        runtime.block_on(async {
            // Ends when the handle drops its sender.
            let _ = stopped.await;
            for endpoint in &endpoints {
                quic::close(endpoint).await;
            }
        });
    })?;
    Ok(Handle { https, http, quic, stop: Some(stop), thread: Some(thread) })
}

/// Address of the first socket.
fn address<S>(
    sockets: &[S],
    of: impl Fn(&S) -> io::Result<SocketAddr>,
) -> io::Result<Option<SocketAddr>> {
    sockets.first().map(of).transpose()
}

fn redirects(
    redirects: &BTreeMap<String, String>,
) -> Result<HashMap<String, HeaderValue>, StartError> {
    let location =
        |to: &String| HeaderValue::try_from(to).map_err(|_| StartError::Redirect(to.clone()));
    redirects.iter().map(|(from, to)| Ok((from.clone(), location(to)?))).collect()
}

fn served(content: BTreeMap<String, Content>) -> Result<HashMap<String, Served>, StartError> {
    let each = content.into_iter().map(|(path, content)| {
        let of_type = HeaderValue::try_from(&content.content_type);
        let content_type = of_type.map_err(|_| StartError::ContentType(content.content_type))?;
        let (body, think_time) = (content.body.into(), content.think_time);
        Ok((path, Served { content_type, body, think_time }))
    });
    each.collect()
}

/// Advertises HTTP/3 at this host and port for a day (RFC 7838 §3).
fn alt_svc(quic: SocketAddr) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("h3=\":{}\"; ma=86400", quic.port())).ok()
}

/// State shared by all connections of a server.
struct Server {
    tls: Tls,
    quic: quinn::ServerConfig,
    site: Arc<Site>,
    handshake_delay: Duration,
    retry: bool,
    nagle: bool,
}

/// Numbers connections or requests, starting at 1.
#[derive(Default)]
struct Numbers(AtomicU64);

impl Numbers {
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    server: Arc<Server>,
    numbers: Arc<Numbers>,
    with_tls: bool,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (server, number) = (Arc::clone(&server), numbers.next());
                tokio::spawn(async move {
                    // The peer sees a failure on the connection; nobody else needs to know.
                    let _ = server.serve(stream, with_tls, number).await;
                });
            }
            // Out of descriptors: wait until connections end and free some.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

impl Server {
    async fn serve(&self, stream: TcpStream, with_tls: bool, number: u64) -> io::Result<()> {
        stream.set_nodelay(!self.nagle)?;
        let site = Arc::clone(&self.site);
        if !with_tls {
            let connection = Connection { number, protocol: "HTTP/1.1", tls: None };
            return http::serve(stream, false, site, connection, Arc::default()).await;
        }
        let answer_from = if site.early_data == EarlyData::AfterFinished {
            AnswerFrom::Finished
        } else {
            AnswerFrom::EarlyData
        };
        let accepting = stream::accept(stream, &self.tls, self.handshake_delay, answer_from);
        let stream = tokio::time::timeout(HANDSHAKE_LIMIT, accepting).await??;
        let h2 = stream.tls().alpn_protocol() == Some(b"h2");
        let connection = Connection {
            number,
            protocol: if h2 { "HTTP/2.0" } else { "HTTP/1.1" },
            tls: Some(facts(stream.tls())),
        };
        let early: Arc<AtomicBool> = stream.early();
        http::serve(stream, h2, site, connection, early).await
    }
}

fn facts(tls: &rustls::ServerConnection) -> TlsFacts {
    TlsFacts {
        version: match tls.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        },
        resumed: tls.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
    }
}

#[cfg(test)]
mod tests;
