//! Setups for tests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, CustomExtension, KeyPair, PKCS_ED25519};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::CertifiedKey;

use super::{Setup, certified};

pub(super) const RTT: Duration = Duration::from_millis(80);

/// A certificate of about `bytes` bytes, always the same.
fn chain(bytes: usize) -> Arc<CertifiedKey> {
    static MADE: Mutex<BTreeMap<usize, Arc<CertifiedKey>>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap();
    Arc::clone(made.entry(bytes).or_insert_with(|| make_chain(bytes)))
}

fn make_chain(bytes: usize) -> Arc<CertifiedKey> {
    // Unlike ECDSA signatures, these all have the same length, and so have the flights.
    let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let mut params = CertificateParams::new(vec!["server.test".to_owned()]).unwrap();
    let bare = params.self_signed(&key).unwrap().der().len();
    if let Some(missing) = bytes.checked_sub(bare + 25).filter(|missing| *missing > 0) {
        let filling = (0..missing).map(|i| i as u8).collect();
        let oid = [1, 3, 6, 1, 4, 1, 32_473, 1];
        params.custom_extensions.push(CustomExtension::from_oid_content(&oid, filling));
    }
    let certificate = params.self_signed(&key).unwrap();
    let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    certified(vec![certificate.der().clone()], der).unwrap()
}

/// 80 ms, a chain of about `chain_bytes` bytes, and hosts without delays.
pub(crate) fn setup(chain_bytes: usize) -> Setup {
    let mut setup = Setup::new(RTT, chain(chain_bytes));
    setup.server.hello_time = Default::default();
    setup.server.wake_time = Duration::ZERO;
    setup.client.finish_time = Default::default();
    setup.client.start_time = Duration::ZERO;
    setup.client.key_share_time = Duration::ZERO;
    setup.client.wake_time = Duration::ZERO;
    setup
}
