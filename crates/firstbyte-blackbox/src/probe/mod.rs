//! The probers: they turn a target and a module into metrics and success or failure.

mod address;
mod certificates;
mod dns;
mod failure;
mod grpc;
mod http;
mod icmp;
mod tcp;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use firstbyte_clock::{Monotonic, timer_now};
use firstbyte_probe::probe::{Equipment, Prober};

use crate::Compat;
use crate::configuration::{Configuration, Module};
use crate::log::ProbeLog;
use crate::metrics::Metrics;

pub(crate) use dns::{dns_class, dns_type};

use certificates::Roots;
use failure::{FailureReason, NetworkStep};

/// State shared by all probes.
pub(crate) struct Tools {
    pub equipment: Equipment,
    pub roots: Rc<RefCell<Roots>>,
    pub compat: Compat,
    /// The previous prober, kept alive for the socket shared with its successors: closing it takes the kernel 20 ms.
    pub last_prober: RefCell<Option<Box<dyn Prober>>>,
}

impl Tools {
    /// Creates the shared state. Certificate files are reread, and trusted issuers are loaded before the first probe.
    pub(crate) fn new(configuration: &Configuration, compat: Compat) -> Self {
        let tools = Self {
            equipment: Equipment::default(),
            roots: Rc::default(),
            compat,
            last_prober: RefCell::default(),
        };
        for module in configuration.modules.values() {
            let settings = match module.prober.as_str() {
                "tcp" => &module.tcp.tls_config,
                "dns" => &module.dns.tls_config,
                _ => &module.http.tls_config,
            };
            // Ignore errors in the file: a probe reports them, and the file may be fixed by then.
            let _ = tools.equipment.client_config(&certificates::tls_options(settings), &[]);
            tools.roots.borrow_mut().load(settings.ca_file.as_deref());
        }
        tools
    }
}

/// A probe in progress.
struct Probe<'a> {
    target: &'a str,
    module: &'a Module,
    /// Value of the scrape's `hostname` parameter.
    hostname: &'a str,
    tools: &'a Tools,
    /// When the probe must be over.
    deadline: tokio::time::Instant,
    metrics: Metrics,
    log: ProbeLog,
    /// Why it fails, once known.
    failure: Cell<Option<FailureReason>>,
}

impl Probe<'_> {
    fn left(&self) -> Duration {
        self.deadline.saturating_duration_since(timer_now())
    }

    /// The result of `work`, or an error if the probe's time is up.
    async fn in_time<T>(
        &self,
        step: NetworkStep,
        work: impl Future<Output = std::io::Result<T>>,
    ) -> Result<T, String> {
        match tokio::time::timeout_at(self.deadline, work).await {
            Ok(result) => result.map_err(|error| {
                self.note_network_error(step, &error);
                firstbyte_probe::probe::describe_io(&error)
            }),
            Err(_) => {
                self.note_network_timeout(step);
                Err("the probe's timeout has passed".into())
            }
        }
    }
}

pub(crate) struct Outcome {
    pub success: bool,
    pub metrics: Metrics,
    pub log: ProbeLog,
}

/// Whether a prober has this name.
pub(crate) fn is_known(prober: &str) -> bool {
    matches!(prober, "http" | "tcp" | "dns" | "icmp" | "grpc")
}

/// Probes the target within `timeout`, and writes the log.
pub(crate) async fn probe(
    mut log: ProbeLog,
    module: &Module,
    target: &str,
    hostname: &str,
    timeout: Duration,
    tools: &Tools,
) -> Outcome {
    let seconds = timeout.as_secs_f64().to_string();
    log.debug("Beginning probe", &[("probe", &module.prober), ("timeout_seconds", &seconds)]);
    let begun = Monotonic::now();
    let deadline = timer_now() + timeout;
    let metrics = Metrics::default();
    let failure = Cell::default();
    let mut probe = Probe { target, module, hostname, tools, deadline, metrics, log, failure };
    let success = match module.prober.as_str() {
        "http" => probe.http().await,
        "tcp" => probe.tcp().await,
        "dns" => probe.dns().await,
        "icmp" => probe.icmp().await,
        _ => probe.grpc().await,
    };
    let taken = Monotonic::now().since(begun).as_secs_f64();
    if !success {
        probe.add_failure_info();
    }
    let Probe { mut metrics, mut log, .. } = probe;
    metrics.gauge(
        "probe_success",
        "Displays whether or not the probe was a success",
        f64::from(u8::from(success)),
    );
    metrics.gauge(
        "probe_duration_seconds",
        "Returns how long the probe took to complete in seconds",
        taken,
    );
    let seconds = taken.to_string();
    if success {
        log.debug("Probe succeeded", &[("duration_seconds", &seconds)]);
    } else {
        log.error("Probe failed", &[("duration_seconds", &seconds)]);
    }
    log.write();
    Outcome { success, metrics, log }
}

/// Splits `target` into host and port as Go's `net.SplitHostPort` does.
fn split_host_port(target: &str) -> Result<(&str, &str), String> {
    let (host, port) = target
        .rsplit_once(':')
        .ok_or_else(|| format!("address {target}: missing port in address"))?;
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']');
        let inner = inner.ok_or_else(|| format!("address {target}: missing ']' in address"))?;
        return Ok((inner, port));
    }
    if host.contains(':') {
        return Err(format!("address {target}: too many colons in address"));
    }
    Ok((host, port))
}

/// Parses a port; some services have names.
fn port_number(port: &str) -> Result<u16, String> {
    match port {
        "http" => Ok(80),
        "https" => Ok(443),
        "domain" => Ok(53),
        "smtp" => Ok(25),
        "ssh" => Ok(22),
        _ => port.parse().map_err(|_| format!("unknown port {port:?}")),
    }
}
