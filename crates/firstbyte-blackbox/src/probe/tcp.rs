//! `tcp`: connects, with TLS if configured, and holds a dialogue of lines.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use firstbyte_core::timeline::{FailureType, PhaseName};
use regex::bytes::Captures;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::certificates::{Session, Set, tls_options};
use super::failure::NetworkStep;
use super::{Probe, port_number, split_host_port};
use crate::Compat;
use crate::configuration::{QueryResponse, TlsSettings, expand, source_address};

/// Longest line to wait for, as in Go's scanner.
const LONGEST_LINE: usize = 64 * 1024;
const REGEX: (&str, &str) = ("probe_failed_due_to_regex", "Indicates if probe failed due to regex");
const BYTES: (&str, &str) = ("probe_failed_due_to_bytes", "Indicates if probe failed due to bytes");

trait Wire: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Wire for T {}

/// A connection, with the bytes that were read but not used.
struct Lines {
    wire: Box<dyn Wire>,
    held: Vec<u8>,
    ended: bool,
}

impl Lines {
    fn new(wire: Box<dyn Wire>) -> Self {
        Self { wire, held: Vec::new(), ended: false }
    }

    /// The next line without its line feed; `None` at the end.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.held.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.held.drain(..=end).collect();
                line.pop();
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                return Ok(Some(line));
            }
            if self.ended {
                let rest = std::mem::take(&mut self.held);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            if self.held.len() >= LONGEST_LINE {
                return Err(io::Error::other("a line is longer than 64 kB"));
            }
            self.read().await?;
        }
    }

    async fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        let read = self.wire.read(&mut buffer).await?;
        self.ended = read == 0;
        self.held.extend_from_slice(&buffer[..read]);
        Ok(())
    }

    /// The next bytes, `most` at most.
    async fn some(&mut self, most: usize) -> io::Result<Vec<u8>> {
        if self.held.is_empty() && !self.ended {
            self.read().await?;
        }
        if self.held.is_empty() {
            let why = "the server closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
        }
        let most = most.min(self.held.len());
        Ok(self.held.drain(..most).collect())
    }
}

impl Probe<'_> {
    pub(super) async fn tcp(&mut self) -> bool {
        let module = &self.module.tcp;
        if self.tools.compat == Compat::V0_23 {
            // Later versions report on the dialogue only if there is a connection.
            self.zero_dialogue();
        }
        let dialled = self.dial_tcp().await;
        let (stream, host) = match dialled {
            Ok(dialled) => dialled,
            Err(error) => {
                self.note_setup_failure();
                self.log.error("Error dialing TCP", &[("err", &error)]);
                return false;
            }
        };
        let mut tls = module.tls_config.clone();
        if tls.server_name.is_empty() && self.tools.compat == Compat::V0_28 {
            self.hostname.clone_into(&mut tls.server_name);
        }
        let mut plain = Some(stream);
        let mut lines = None;
        if module.tls {
            let Some(stream) = plain.take() else { return false };
            match self.handshake(stream, &tls, &host, &[]).await {
                Ok(stream) => {
                    self.zero_dialogue();
                    self.session_metrics(&stream, &tls);
                    lines = Some(Lines::new(Box::new(stream)));
                }
                Err(error) => {
                    self.log.error("Error dialing TCP", &[("err", &error)]);
                    return false;
                }
            }
        }
        self.zero_dialogue();
        let Some(mut lines) = lines.or_else(|| plain.map(|s| Lines::new(Box::new(s)))) else {
            return false;
        };
        for (number, step) in module.query_response.iter().enumerate() {
            let number = number.to_string();
            self.log.debug("Processing query response entry", &[("entry_number", &number)]);
            if !self.step(step, &mut lines).await {
                return false;
            }
            if step.starttls {
                match self.upgraded(lines, &tls, &host).await {
                    Some(upgraded) => lines = upgraded,
                    None => return false,
                }
            }
        }
        true
    }

    fn zero_dialogue(&mut self) {
        self.metrics.gauge(REGEX.0, REGEX.1, 0.0);
        if self.tools.compat == Compat::V0_28 {
            self.metrics.gauge(BYTES.0, BYTES.1, 0.0);
        }
    }

    /// A connection, and the host as named in the target.
    async fn dial_tcp(&mut self) -> Result<(TcpStream, String), String> {
        let module = &self.module.tcp;
        let (host, port) = split_host_port(self.target)?;
        let (address, _) = self.address(host, &module.address).await;
        let remote = SocketAddr::new(address?, port_number(port)?);
        let source = source_address(&module.source)?;
        let stream = self.in_time(NetworkStep::Connect, connect(remote, source)).await?;
        self.log.debug("Successfully dialed", &[]);
        Ok((stream, host.to_owned()))
    }

    /// Makes a TLS handshake over `stream`, with the name in `tls`, or else `host`.
    pub(super) async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        tls: &TlsSettings,
        host: &str,
        alpn: &[&str],
    ) -> Result<TlsStream<S>, String> {
        let config = self.tools.equipment.client_config(&tls_options(tls), alpn);
        let config = config.map_err(|error| {
            self.note_setup_failure();
            match error {
                firstbyte_probe::probe::SetupError::Tls(error) => error.to_string(),
                firstbyte_probe::probe::SetupError::Resolver(text)
                | firstbyte_probe::probe::SetupError::Client(text) => text,
            }
        })?;
        let name = if tls.server_name.is_empty() { host } else { &tls.server_name };
        let name = ServerName::try_from(name.to_owned()).map_err(|_| {
            self.note_setup_failure();
            format!("{name} is not a valid name for a certificate")
        })?;
        let shaking = TlsConnector::from(Arc::clone(&config)).connect(name, stream);
        match tokio::time::timeout_at(self.deadline, shaking).await {
            Ok(done) => done.map_err(|error| {
                self.note_tls_error(&error);
                format!("TLS handshake failed: {error}")
            }),
            Err(_) => {
                self.note_failure(PhaseName::Tls, FailureType::TlsTimedOut);
                Err("TLS handshake not complete within the probe's timeout".into())
            }
        }
    }

    fn session_metrics<S>(&mut self, stream: &TlsStream<S>, tls: &TlsSettings) {
        self.tls_session_metrics(stream, tls, Set::All);
    }

    pub(super) fn tls_session_metrics<S>(
        &mut self,
        stream: &TlsStream<S>,
        tls: &TlsSettings,
        set: Set,
    ) {
        let (_, connection) = stream.get_ref();
        let version = match connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
            _ => "unknown",
        };
        let chain: Vec<Vec<u8>> = connection
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|der| der.to_vec())
            .collect();
        self.tls_metrics(&Session { version, cipher: None, chain: &chain }, tls, set);
    }

    async fn upgraded(&mut self, lines: Lines, tls: &TlsSettings, host: &str) -> Option<Lines> {
        match self.handshake(lines.wire, tls, host, &[]).await {
            Ok(stream) => {
                self.log.debug("TLS Handshake (client) succeeded.", &[]);
                self.session_metrics(&stream, tls);
                Some(Lines::new(Box::new(stream)))
            }
            Err(error) => {
                self.log.error("TLS Handshake (client) failed", &[("err", &error)]);
                None
            }
        }
    }

    async fn step(&mut self, step: &QueryResponse, lines: &mut Lines) -> bool {
        let mut send = step.send.clone();
        if let Some(expect) = &step.expect {
            let line = loop {
                match self.in_time(NetworkStep::Receive, lines.line()).await {
                    Err(error) => {
                        self.log.error("Error reading from connection", &[("err", &error)]);
                        return false;
                    }
                    Ok(None) => {
                        self.metrics.gauge(REGEX.0, REGEX.1, 1.0);
                        let values = [("regexp", expect.written())];
                        self.log.error("Regexp did not match", &values);
                        return false;
                    }
                    Ok(Some(line)) => {
                        let text = String::from_utf8_lossy(&line).into_owned();
                        self.log.debug("Read line", &[("line", &text)]);
                        if expect.matches(&line) {
                            break line;
                        }
                    }
                }
            };
            self.metrics.gauge(REGEX.0, REGEX.1, 0.0);
            if let Some(groups) = expect.groups(&line) {
                send = expand(&groups, &step.send);
                self.expect_info(step, &groups);
            }
        }
        if !step.expect_bytes.is_empty() && !self.bytes_are_as_expected(step, lines).await {
            return false;
        }
        if !send.is_empty() {
            let text = String::from_utf8_lossy(&send).into_owned();
            self.log.debug("Sending line", &[("line", &text)]);
            send.push(b'\n');
            let sending = async {
                lines.wire.write_all(&send).await?;
                lines.wire.flush().await
            };
            if let Err(error) = self.in_time(NetworkStep::Send, sending).await {
                self.log.error("Failed to send", &[("err", &error)]);
                return false;
            }
        }
        true
    }

    fn expect_info(&mut self, step: &QueryResponse, groups: &Captures<'_>) {
        let Some(labels) = &step.labels else { return };
        if self.tools.compat == Compat::V0_23 {
            return;
        }
        let made: Vec<(&str, String)> = labels
            .iter()
            .map(|(name, template)| {
                let value = expand(groups, template.as_bytes());
                (name.as_str(), String::from_utf8_lossy(&value).into_owned())
            })
            .collect();
        let labels: Vec<(&str, &str)> = made.iter().map(|(n, v)| (*n, v.as_str())).collect();
        self.metrics.labelled("probe_expect_info", "Explicit content matched", &labels, 1.0);
    }

    async fn bytes_are_as_expected(&mut self, step: &QueryResponse, lines: &mut Lines) -> bool {
        let expected = step.expect_bytes.as_slice();
        match self.in_time(NetworkStep::Receive, lines.some(expected.len())).await {
            Err(error) => {
                self.log.error("Error reading from connection", &[("err", &error)]);
                false
            }
            Ok(found) if found.len() < expected.len() => {
                self.log.error("Read less data than expected", &[]);
                false
            }
            Ok(found) => {
                let same = found == expected;
                self.metrics.gauge(BYTES.0, BYTES.1, f64::from(u8::from(!same)));
                if !same {
                    self.log.error("Bytes did not match", &[]);
                }
                same
            }
        }
    }
}

/// Connects to `remote`, from `source` if given.
pub(super) async fn connect(remote: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if remote.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    socket.connect(remote).await
}
