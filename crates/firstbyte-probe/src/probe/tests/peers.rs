//! In-memory servers: TLS by rustls, HTTP/2 by h2, and scripts for everything that these would not do.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use firstbyte_lab::ca::Ca;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::visit::HOST;
use crate::net::simulated::{Said, StreamPeer, What};

/// The certificate of the servers, with its issuer.
pub(super) static CERTIFICATE: LazyLock<Certificate> = LazyLock::new(Certificate::issue);

pub(super) struct Certificate {
    chain_pem: String,
    key_pem: String,
    directory: TempDir,
}

impl Certificate {
    fn issue() -> Self {
        let ca = Ca::new().unwrap();
        let issued = ca.issue(&[HOST.to_owned()]).unwrap();
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { chain_pem: issued.chain_pem, key_pem: issued.key_pem, directory }
    }

    pub(super) fn ca_file(&self) -> String {
        self.directory.path().join("ca.pem").display().to_string()
    }

    /// A server configuration with these ALPN protocols.
    pub(super) fn config(&self, alpn: &[&str]) -> ServerConfig {
        let chain = CertificateDer::pem_slice_iter(self.chain_pem.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// An application protocol from the server's side.
pub(super) trait App {
    /// Called when the server's first flight is on its way.
    fn greet(&mut self) -> Vec<Said> {
        Vec::new()
    }

    /// Called with received bytes.
    fn take(&mut self, bytes: &[u8]) -> Vec<Said>;
}

impl<F: FnMut(&[u8]) -> Vec<Said>> App for F {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        self(bytes)
    }
}

/// A peer without TLS.
pub(super) struct Plain<A>(pub(super) A);

impl<A: App> StreamPeer for Plain<A> {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.0.take(bytes)
    }
}

/// Answers each HTTP/1.1 request, once its head is complete, with the result of `answer`.
pub(super) fn http1(mut answer: impl FnMut() -> Vec<Said>) -> impl App {
    let mut head = Vec::new();
    move |bytes: &[u8]| {
        head.extend_from_slice(bytes);
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            head.clear();
            return answer();
        }
        Vec::new()
    }
}

pub(super) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// HTTP/2 frames as on the wire (RFC 9113 §4.1).
pub(super) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
pub(super) const SETTINGS_ACK: &[u8] = &[0, 0, 0, 4, 1, 0, 0, 0, 0];
/// Status 200, and the end of stream 1.
pub(super) const HEADERS: &[u8] = &[0, 0, 1, 1, 5, 0, 0, 0, 1, 0x88];

/// Named end positions in a server's stream.
pub(super) type Ends = Rc<RefCell<Vec<(&'static str, usize)>>>;

/// The server's side of TLS, with an application protocol over it.
pub(super) struct TlsPeer {
    tls: ServerConnection,
    app: Box<dyn App>,
    /// Whether it sends data before it has the client's Finished (RFC 8446 §2.3, figure 4).
    speaks_early: bool,
    greeted: bool,
    /// Whether immediate data leaves in one write with the TLS messages before it.
    together: bool,
    said: usize,
    ends: Ends,
}

impl TlsPeer {
    pub(super) fn new(config: &Arc<ServerConfig>, app: impl App + 'static) -> Self {
        Self::boxed(config, Box::new(app))
    }

    pub(super) fn boxed(config: &Arc<ServerConfig>, app: Box<dyn App>) -> Self {
        let mut tls = ServerConnection::new(Arc::clone(config)).unwrap();
        tls.set_buffer_limit(None);
        let speaks_early = config.send_half_rtt_data;
        let (greeted, together) = (false, false);
        Self { tls, app, speaks_early, greeted, together, said: 0, ends: Ends::default() }
    }

    pub(super) fn together(mut self) -> Self {
        self.together = true;
        self
    }

    /// The ends of its messages: `handshake`, then each `answer`.
    pub(super) fn ends(&self) -> Ends {
        Rc::clone(&self.ends)
    }

    /// The bytes that TLS wants to send.
    fn flight(&mut self) -> Vec<u8> {
        let mut flight = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut flight).unwrap();
        }
        self.said += flight.len();
        flight
    }

    fn end(&self, name: &'static str) {
        self.ends.borrow_mut().push((name, self.said));
    }

    fn encrypt(&mut self, said: Vec<Said>, out: &mut Vec<Said>) {
        for Said { after, what } in said {
            let what = match what {
                What::Bytes(bytes) => {
                    self.tls.writer().write_all(&bytes).unwrap();
                    let flight = self.flight();
                    if flight.is_empty() {
                        continue;
                    }
                    self.end("answer");
                    match out.last_mut() {
                        Some(Said { what: What::Bytes(before), .. })
                            if self.together && after.is_zero() =>
                        {
                            before.extend(flight);
                            continue;
                        }
                        _ => What::Bytes(flight),
                    }
                }
                end => end,
            };
            out.push(Said { after, what });
        }
    }
}

impl StreamPeer for TlsPeer {
    fn take(&mut self, mut bytes: &[u8]) -> Vec<Said> {
        let mut heard = Vec::new();
        let mut failed = false;
        while !bytes.is_empty() && !failed {
            self.tls.read_tls(&mut bytes).unwrap();
            failed = self.tls.process_new_packets().is_err();
            if let Some(mut early) = self.tls.early_data() {
                early.read_to_end(&mut heard).unwrap();
            }
            let _ = self.tls.reader().read_to_end(&mut heard);
        }
        let mut out = Vec::new();
        let handshaking = self.tls.is_handshaking();
        let flight = self.flight();
        if !flight.is_empty() {
            self.end("handshake");
            out.push(Said::bytes(0, flight));
        }
        if failed {
            out.push(Said { after: Duration::ZERO, what: What::Fin });
            return out;
        }
        let may_speak = !handshaking || self.speaks_early && !out.is_empty();
        if may_speak && !std::mem::replace(&mut self.greeted, true) {
            let greeting = self.app.greet();
            self.encrypt(greeting, &mut out);
        }
        if !heard.is_empty() {
            let answer = self.app.take(&heard);
            self.encrypt(answer, &mut out);
        }
        out
    }
}

/// Ends a peer's stream after a number of bytes.
pub(super) struct Cut<P> {
    pub(super) peer: P,
    pub(super) left: usize,
    pub(super) how: What,
}

impl<P: StreamPeer> StreamPeer for Cut<P> {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut out = Vec::new();
        for Said { after, what } in self.peer.take(bytes) {
            let What::Bytes(mut bytes) = what else { continue };
            let cut = bytes.len() >= self.left;
            bytes.truncate(self.left);
            self.left -= bytes.len();
            out.push(Said { after, what: What::Bytes(bytes) });
            if cut {
                out.push(Said { after, what: self.how.clone() });
                break;
            }
        }
        out
    }
}

/// Corrupts one byte of a peer's stream, after the first `before` bytes.
pub(super) struct Garbled<P> {
    pub(super) peer: P,
    pub(super) before: usize,
}

impl<P: StreamPeer> StreamPeer for Garbled<P> {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        let mut said = self.peer.take(bytes);
        for said in &mut said {
            let What::Bytes(bytes) = &mut said.what else { continue };
            if let Some(byte) = bytes.get_mut(self.before) {
                *byte ^= 1;
            }
            self.before = self.before.checked_sub(bytes.len()).unwrap_or(usize::MAX);
        }
        said
    }
}

/// Bytes on their way into and out of h2.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<(VecDeque<u8>, Vec<u8>)>>);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let arrived = &mut self.0.borrow_mut().0;
        if arrived.is_empty() {
            return Poll::Pending;
        }
        let bytes: Vec<u8> = arrived.drain(..arrived.len().min(into.remaining())).collect();
        into.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().1.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An HTTP/2 server that answers every request after some time, with status 200 and a body.
pub(super) struct Http2 {
    pipe: Pipe,
    server: Pin<Box<dyn Future<Output = ()>>>,
    answered: Rc<RefCell<bool>>,
    think_ms: u64,
}

impl Http2 {
    pub(super) fn new(think_ms: u64, body: &'static [u8]) -> Self {
        let (pipe, answered) = (Pipe::default(), Rc::new(RefCell::new(false)));
        let (io, answers) = (pipe.clone(), Rc::clone(&answered));
        let server = async move {
            let mut connection = h2::server::handshake(io).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                *answers.borrow_mut() = true;
                let head = ::http::Response::new(());
                let mut stream = respond.send_response(head, false).unwrap();
                stream.send_data(Bytes::from_static(body), true).unwrap();
            }
        };
        Self { pipe, server: Box::pin(server), answered, think_ms }
    }
}

impl App for Http2 {
    fn take(&mut self, bytes: &[u8]) -> Vec<Said> {
        self.pipe.0.borrow_mut().0.extend(bytes);
        let _ = self.server.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let said = std::mem::take(&mut self.pipe.0.borrow_mut().1);
        let after = if self.answered.replace(false) { self.think_ms } else { 0 };
        if said.is_empty() { Vec::new() } else { vec![Said::bytes(after, said)] }
    }
}
