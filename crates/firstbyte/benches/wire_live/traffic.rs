//! Many connections to the lab's server, opened at a fixed pace.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

/// The server of the scenario `quiet`.
const NAME: &str = "server.quiet.test";
/// The server's addresses. One would not do: the client's ports towards it would not last for a minute.
const ADDRESSES: [&str; 2] = ["198.51.100.1:443", "[2001:db8:0:2::1]:443"];
/// Above the required pace, so that pauses can be made up for.
const PER_SECOND: f64 = 900.0;
const VISITORS: usize = 4;

/// Opens connections to the lab's server.
pub(crate) struct Visitors {
    roots: RootCertStore,
}

impl Visitors {
    /// Visitors that trust the lab's CA.
    pub(crate) fn new() -> Self {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        assert!(roots.add_parsable_certificates(found.certs).0 > 0);
        Self { roots }
    }

    /// Opens `connections` connections with one exchange each; returns the seconds that took.
    pub(crate) fn visit(&self, connections: usize) -> f64 {
        let begun = Monotonic::now();
        thread::scope(|scope| {
            for visitor in 0..VISITORS {
                scope.spawn(move || {
                    let configs = self.configs();
                    let to: SocketAddr = ADDRESSES[visitor % ADDRESSES.len()].parse().unwrap();
                    let mine = (visitor..connections).step_by(VISITORS);
                    for (turn, number) in mine.enumerate() {
                        let due = Duration::from_secs_f64(number as f64 / PER_SECOND);
                        thread::sleep(due.saturating_sub(Monotonic::now().since(begun)));
                        visit(to, &configs[turn % configs.len()]);
                    }
                });
            }
        });
        Monotonic::now().since(begun).as_secs_f64()
    }

    /// TLS 1.3 and 1.2, each with and without session resumption.
    fn configs(&self) -> Vec<Arc<ClientConfig>> {
        let versions = [&rustls::version::TLS13, &rustls::version::TLS12];
        let mut configs = Vec::new();
        for (version, keep) in [(0, true), (1, true), (0, false), (0, true), (1, false)] {
            let mut config = ClientConfig::builder_with_protocol_versions(&[versions[version]])
                .with_root_certificates(self.roots.clone())
                .with_no_client_auth();
            if !keep {
                config.resumption = Resumption::disabled();
            }
            configs.push(Arc::new(config));
        }
        configs
    }
}

fn visit(to: SocketAddr, config: &Arc<ClientConfig>) {
    let name = ServerName::try_from(NAME).unwrap();
    let mut tls = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut tcp = TcpStream::connect(to).unwrap();
    tcp.set_nodelay(true).unwrap();
    let mut stream = Stream::new(&mut tls, &mut tcp);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: server.quiet.test\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
}
