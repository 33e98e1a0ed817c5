//! How many real probes a core can make: full TLS 1.3 handshakes with the built-in server on loopback.

use std::cell::Cell;
use std::time::Duration;

use firstbyte::cli::options_for;
use firstbyte_clock::Monotonic;
use firstbyte_core::timeline::Handshake;
use firstbyte_lab::builtin_server::{Config, Listeners, spawn};
use firstbyte_lab::ca::Ca;
use firstbyte_probe::probe::{Equipment, NetProber, Prober, Target};

use crate::figure;
use crate::options::Options;
use crate::processor::thread_times;

const LENGTH: Duration = Duration::from_secs(5);
/// Concurrent probes.
const AT_ONCE: usize = 8;

pub(crate) fn measure(_: &Options) -> bool {
    let ca = Ca::new().unwrap();
    let certificate = ca.issue(&["127.0.0.1".to_owned()]).unwrap();
    let server = spawn(Config::new(certificate), Listeners::loopback().unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let ca_file = directory.path().join("ca.pem");
    std::fs::write(&ca_file, ca.root_pem()).unwrap();
    let url = format!("https://{}/", server.addr());
    let options = options_for(&["--cacert", ca_file.to_str().unwrap(), "--tlsv1.3", &url]).unwrap();
    let target = Target::parse(&url).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let (probes, full) = (Cell::new(0_u32), Cell::new(0_u32));
    let before = thread_times();
    let begun = Monotonic::now();
    local.block_on(&runtime, async {
        let equipment = Equipment::default();
        let visits = (0..AT_ONCE).map(|_| async {
            let prober = NetProber::new(options.clone(), &equipment).unwrap();
            while Monotonic::now().since(begun) < LENGTH {
                let sample = prober.probe(&target).await;
                assert_eq!(sample.failure(), None);
                let tls = sample.connection.facts.tls.as_ref().unwrap();
                probes.set(probes.get() + 1);
                let is_full = tls.handshake == Some(Handshake::Full)
                    && tls.version.as_deref() == Some("TLSv1.3");
                full.set(full.get() + u32::from(is_full));
            }
        });
        futures_of(visits).await;
    });
    let wall = Monotonic::now().since(begun);
    let after = thread_times();
    assert_eq!(full.get(), probes.get(), "each handshake is a full one of TLS 1.3");
    let used = |name: &str| {
        after
            .get(name)
            .copied()
            .unwrap_or_default()
            .saturating_sub(before.get(name).copied().unwrap_or_default())
    };
    let all: Duration = after.keys().map(|name| used(name)).sum();
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let ours = used(name.trim());
    let probes = f64::from(probes.get());
    figure(
        "full TLS 1.3 probes a second, of one core's time",
        &format!("{:.0}", probes / ours.as_secs_f64()),
    );
    figure(
        "  the same with the server's time on that core",
        &format!("{:.0}", probes / all.as_secs_f64()),
    );
    figure("  as they were made, beside all else", &format!("{:.0}", probes / wall.as_secs_f64()));
    figure("processor time of one", &format!("{:.0} µs", ours.as_secs_f64() / probes * 1e6));
    true
}

/// Waits until all futures in `work` are done.
async fn futures_of<F: Future<Output = ()>>(work: impl Iterator<Item = F>) {
    let mut all: Vec<_> = work.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        match all.is_empty() {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}
