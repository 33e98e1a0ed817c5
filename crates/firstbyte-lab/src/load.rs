//! Load on a server: several clients make as many connections as the server can take, one request on each.
//!
//! In: the server's address, and bounds. Out: how many connections it served ([`LoadReport`]). The clients
//! are threads, each with one connection at a time (a closed loop). Each connection is new, gets one
//! response, and is closed. Load is bounded by number and by time. Single connections are not measured: a
//! capture does that.

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

/// Time limit for a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server, and the root certificate to verify it with.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// Its address and port.
    pub address: SocketAddr,
    /// Server name.
    pub name: String,
    /// The root certificate to trust, PEM.
    pub root_pem: String,
}

/// Result of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// Connections with a full handshake that got their response.
    pub full: u64,
    /// Connections with a resumed session that got their response.
    pub resumed: u64,
    /// Connections that failed.
    pub failed: u64,
    /// From the start of the first connection to the end of the last.
    pub elapsed: Duration,
}

impl LoadReport {
    /// Connections that got their response.
    pub const fn connections(&self) -> u64 {
        self.full + self.resumed
    }

    /// Such connections per second; absent if there were none.
    pub fn per_second(&self) -> Option<f64> {
        let seconds = self.elapsed.as_secs_f64();
        (seconds > 0.0 && self.connections() > 0).then(|| self.connections() as f64 / seconds)
    }
}

/// A load on a server, with its clients prepared.
#[derive(Debug)]
pub struct Load {
    target: LoadTarget,
    name: ServerName<'static>,
    /// One per client thread, since each has its own sessions.
    clients: Vec<Arc<ClientConfig>>,
}

impl Load {
    /// Prepares clients. With `resumed`, each makes one connection first, to get a session to offer.
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

    /// Makes connections from all clients, until there are `connections` of them or `time` is over.
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

    /// Makes a connection with one request, and reads the response to the end.
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

/// A client that offers only P-384. An OpenSSL server spends more time on it than this client, so the server
/// is the limit if both run on one machine.
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
