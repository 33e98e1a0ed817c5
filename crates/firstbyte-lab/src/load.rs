//! Load on a server: as many connections as it makes, one request on each, from several clients at once.
//!
//! In: where the server is, and bounds. Out: what it made ([`LoadReport`]). The clients are threads, each with one
//! connection at a time (a closed loop); each connection is made anew, has one response, and is closed. Load is bounded
//! by number and by time, and nothing is measured of single connections: a capture does that.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};

use crate::clock;

/// No answer may take longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server, and who trusts it.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// Its address and port.
    pub address: SocketAddr,
    /// Its name.
    pub name: String,
    /// The root certificate to trust, PEM.
    pub root_pem: String,
}

/// What a server made of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Connections with a full handshake that had their response.
    pub full: u64,
    /// With a session taken up.
    pub resumed: u64,
    /// That failed.
    pub failed: u64,
    /// From when the first began to when the last ended.
    pub elapsed: Duration,
}

impl LoadReport {
    /// Connections that had their response.
    pub const fn connections(&self) -> u64 {
        self.full + self.resumed
    }

    /// Of these in a second; absent without any.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (seconds > 0.0 && self.connections() > 0).then(|| self.connections() as f64 / seconds)
    }
}

/// A load that can be put on a server: its clients are ready.
#[derive(Debug)]
pub struct Load {
    target: LoadTarget,
    name: ServerName<'static>,
    /// One each, since each has sessions of its own.
    clients: Vec<Arc<ClientConfig>>,
}

impl Load {
    /// Prepares clients. With `resumed` each makes one connection first, to get a session that it will offer.
    ///
    /// # Errors
    /// The server cannot be reached, or the name or the certificate is invalid.
    pub fn prepare(target: &LoadTarget, clients: usize, resumed: bool) -> io::Result<Self> {
        let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidInput, error);
        let name = ServerName::try_from(target.name.clone())
            .map_err(|error| wrong(format!("{}: {error}", target.name)))?;
        let root = CertificateDer::from_pem_slice(target.root_pem.as_bytes())
            .map_err(|error| wrong(format!("the root certificate: {error}")))?;
        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(|error| wrong(format!("the root certificate: {error}")))?;
        let load = Self {
            target: target.clone(),
            name,
            clients: (0..clients)
                .map(|_| client(roots.clone(), resumed))
                .collect::<Result<_, rustls::Error>>()
                .map_err(|error| wrong(error.to_string()))?,
        };
        if resumed {
            load.clients.iter().try_for_each(|client| load.connect(client).map(drop))?;
        }
        Ok(load)
    }

    /// Has the clients make connections, until as many are made or the time is over.
    pub fn run(&self, connections: u64, time: Duration) -> LoadReport {
        let begun = AtomicU64::new(0);
        let start = clock::now();
        let mut report = LoadReport::default();
        std::thread::scope(|scope| {
            let work = |client| {
                let begun = &begun;
                scope.spawn(move || self.work(client, connections, begun, start, time))
            };
            let threads: Vec<_> = self.clients.iter().map(work).collect();
            for part in threads.into_iter().filter_map(|thread| thread.join().ok()) {
                report.full += part.full;
                report.resumed += part.resumed;
                report.failed += part.failed;
            }
        });
        report.elapsed = clock::now().saturating_duration_since(start);
        report
    }

    fn work(
        &self,
        client: &Arc<ClientConfig>,
        connections: u64,
        begun: &AtomicU64,
        start: Instant,
        time: Duration,
    ) -> LoadReport {
        let mut report = LoadReport::default();
        while clock::now().saturating_duration_since(start) < time
            && begun.fetch_add(1, Ordering::Relaxed) < connections
        {
            match self.connect(client) {
                Ok(HandshakeKind::Resumed) => report.resumed += 1,
                Ok(_) => report.full += 1,
                Err(_) => report.failed += 1,
            }
        }
        report
    }

    /// A connection with one request, and its response read to the end.
    fn connect(&self, client: &Arc<ClientConfig>) -> io::Result<HandshakeKind> {
        let tcp = TcpStream::connect_timeout(&self.target.address, PATIENCE)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        tcp.set_write_timeout(Some(PATIENCE))?;
        let tls = ClientConnection::new(Arc::clone(client), self.name.clone())
            .map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(tls, tcp);
        let name = &self.target.name;
        let request = format!("GET / HTTP/1.1\r\nhost: {name}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut response = Vec::with_capacity(1 << 12);
        stream.read_to_end(&mut response)?;
        if !response.starts_with(b"HTTP/1.1 200 ") {
            return Err(io::Error::other("the server did not answer with status 200"));
        }
        stream.conn.handshake_kind().ok_or_else(|| io::Error::other("no TLS handshake took place"))
    }
}

/// One that offers P-384 alone: a server of OpenSSL works longer on it than this client, so that it is the server that
/// is the limit, where both are on one machine.
fn client(roots: RootCertStore, resumed: bool) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = rustls::crypto::CryptoProvider {
        kx_groups: vec![aws_lc_rs::kx_group::SECP384R1],
        ..aws_lc_rs::default_provider()
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = match resumed {
        true => Resumption::in_memory_sessions(4),
        false => Resumption::disabled(),
    };
    Ok(Arc::new(config))
}
