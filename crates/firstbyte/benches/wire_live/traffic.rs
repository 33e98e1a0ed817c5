//! Many connections on loopback, opened at a fixed pace.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use firstbyte::clock::Monotonic;
use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, Stream};

const NAME: &str = "bench.test";
/// Above the bar, so that a pause can be made up for.
const PER_SECOND: f64 = 900.0;
/// Each visits an address of its own: the ports of one would not do for a minute.
const VISITORS: u8 = 4;

pub(crate) struct Server {
    _handle: Handle,
    port: u16,
    roots: RootCertStore,
}

impl Server {
    pub(crate) fn start(port: u16) -> Self {
        let ca = Ca::new().unwrap();
        let config = Config::new(ca.issue(&[NAME.to_owned()]).unwrap());
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let listeners = Listeners { https: vec![listener], ..Listeners::default() };
        let handle = spawn(config, listeners).unwrap();
        let mut roots = RootCertStore::empty();
        let root = rustls::pki_types::CertificateDer::from_pem_slice(ca.root_pem().as_bytes());
        roots.add(root.unwrap()).unwrap();
        Self { _handle: handle, port, roots }
    }

    /// Opens so many connections, with an exchange each; how long that took, seconds.
    pub(crate) fn visit(&self, connections: usize) -> f64 {
        let begun = Monotonic::now();
        thread::scope(|scope| {
            for visitor in 0..VISITORS {
                scope.spawn(move || {
                    let configs = self.configs();
                    let mine = (usize::from(visitor)..connections).step_by(VISITORS.into());
                    for (turn, number) in mine.enumerate() {
                        let due = Duration::from_secs_f64(number as f64 / PER_SECOND);
                        thread::sleep(due.saturating_sub(Monotonic::now().since(begun)));
                        let address = Ipv4Addr::new(127, 0, 0, 1 + visitor);
                        let to = SocketAddr::from((address, self.port));
                        visit(to, &configs[turn % configs.len()]);
                    }
                });
            }
        });
        Monotonic::now().since(begun).as_secs_f64()
    }

    /// TLS 1.3 and 1.2, each with and without sessions kept.
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
    stream.write_all(b"GET / HTTP/1.1\r\nHost: bench.test\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    assert!(response.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&response));
}
