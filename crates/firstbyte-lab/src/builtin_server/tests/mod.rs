//! The built-in server against plain clients on loopback.

mod quic;
mod sessions;
mod tcp;

use std::sync::{Mutex, PoisonError};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::*;
use crate::access_log::{AccessLog, Entry};
use crate::ca::Ca;

const NAME: &str = "www.lab.test";

/// A server, its log, and the roots that its clients trust.
struct Subject {
    server: Handle,
    log: Lines,
    roots: RootCertStore,
}

fn start(change: impl FnOnce(&mut Config)) -> Subject {
    let ca = Ca::new().unwrap();
    let mut config = Config::new(ca.issue(&[NAME.to_owned()]).unwrap());
    let log = Lines::default();
    config.access_log = Some(AccessLog::new(log.clone()));
    change(&mut config);
    let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.root_pem().as_bytes()).unwrap()).unwrap();
    Subject { server, log, roots }
}

impl Subject {
    fn client(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ClientConfig {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth()
    }

    /// Resumed, early and status of each logged request.
    fn requests(&self) -> Vec<(bool, bool, u16)> {
        let entry = |entry: Entry| (entry.resumed.unwrap(), entry.early.unwrap(), entry.status);
        self.log.entries().into_iter().map(entry).collect()
    }
}

/// An in-memory log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn entries(&self) -> Vec<Entry> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(|line| Entry::parse(line).unwrap()).collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
