//! A running lab: its network is up, its servers answer, its captures write.
//!
//! In: a scenario, within the lab's own process and namespaces. Out: commands, threads and addresses on its
//! hosts. Dropping the lab stops everything.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::access_log::Entry;
use crate::ca::Ca;
use crate::capture::Capture;
use crate::changes::{Changeable, ChangesThread};
use crate::clock;
use crate::error::LabError;
use crate::forwarder::{Counters, Forwarder, MiddleFrame, Port};
use crate::link::Link;
use crate::log_copies::LogCopies;
use crate::network::{HostNetwork, Network};
use crate::options::LabOptions;
use crate::process::{self, Published};
use crate::reports::{
    CaptureStats, ChangeReport, ForwarderStats, ServerEnd, ServerReport, ServerTime,
};
use crate::scenario::{Role, Scenario};
use crate::servers::{Servers, start_dns};
use crate::sys::{PacketRing, RingSize, start_in_network};
use crate::warning::LabWarning;

/// Frames that can wait for the forwarder, per host.
const FORWARDER_RING_FRAMES: usize = 8_192;
const ETHERNET_HEADER: usize = 14;

/// A running lab, seen from its own process.
pub struct Lab {
    scenario: Scenario,
    network: Arc<Network>,
    ca: Arc<Ca>,
    warnings: Vec<LabWarning>,
    environment: Vec<(String, String)>,
    capture_dir: Option<PathBuf>,
    counters: Arc<Counters>,
    // Dropped in this order: changes stop before the servers do, and the forwarder ends before the capture
    // that it feeds.
    changes: ChangesThread,
    servers: Arc<Mutex<Servers>>,
    _forwarder: ForwarderThread,
    captures: Vec<Capture>,
    logs: Option<LogCopies>,
    _published: OwnedFd,
}

impl Lab {
    /// Builds everything, in a process that has its own namespaces. The calling thread is on the
    /// client host afterwards.
    pub(crate) fn set_up(
        scenario: &Scenario,
        options: &LabOptions,
        session: Option<i32>,
    ) -> Result<Self, LabError> {
        let (scratch, mut warnings) = process::prepare_mounts(scenario, options)?;
        let ca = Ca::new().map_err(|error| LabError::Certificates { reason: error.to_string() })?;
        let ca = Arc::new(ca);
        let environment = environment(scenario, &ca, &scratch)?;

        let mut network = Network::build(scenario)?;
        warnings.append(&mut network.warnings);
        let (captures, middle) = match &options.capture {
            Some(directory) => start_captures(directory, scenario, &network)?,
            None => (Vec::new(), None),
        };
        let counters = Arc::new(Counters::default());
        let seed = options.seed.unwrap_or(scenario.seed);
        let ports = open_ports(scenario, &network, seed)?;
        let (links, link_changes) = channel();
        let forwarder = Forwarder::new(ports, Arc::clone(&counters), middle, link_changes);
        let forwarder = ForwarderThread::start(forwarder)?;

        start_dns(scenario, &network)?;
        let servers = Servers::start(scenario, &network, &ca, &scratch, options.server)?;
        let logs = options.logs.as_deref().map(|to| LogCopies::start(to, &servers)).transpose()?;
        let client = &scenario.client().name;
        let (server_reports, processes) = (servers.reports(), servers.processes());
        let (network, servers) = (Arc::new(network), Arc::new(Mutex::new(servers)));
        let changeable = Changeable {
            links,
            servers: Arc::clone(&servers),
            network: Arc::clone(&network),
            ca: Arc::clone(&ca),
        };
        let changes = ChangesThread::start(scenario, changeable)?;
        let published = process::publish(&Published {
            scenario: scenario.name.clone(),
            started: clock::wall(),
            client: client.clone(),
            session,
            hosts: network
                .hosts
                .iter()
                .map(|host| (host.name.clone(), host.namespace.number()))
                .collect(),
            servers: server_reports,
            processes,
            environment: environment.clone(),
        })?;
        let lab = Self {
            scenario: scenario.clone(),
            network,
            ca,
            warnings,
            environment,
            capture_dir: options.capture.clone(),
            counters,
            changes,
            servers,
            _forwarder: forwarder,
            captures,
            logs,
            _published: published,
        };
        lab.enter(client)?;
        Ok(lab)
    }

    /// The scenario that the lab was made from.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The lab's web servers and their software.
    pub fn servers(&self) -> Vec<ServerReport> {
        self.with_servers(Servers::reports)
    }

    /// Path of the access log of a host's server: see [`crate::access_log`]. The file is in the lab's own
    /// file system and disappears with it.
    ///
    /// # Errors
    /// No server runs on that host.
    pub fn server_log(&self, host: &str) -> Result<PathBuf, LabError> {
        self.with_servers(|servers| servers.log(host).map(Path::to_owned))
            .ok_or_else(|| self.unknown(host))
    }

    /// Requests that a host's server has logged so far.
    ///
    /// nginx and Caddy log a request after its response has left, so a client that has just received a
    /// response may have to call this again.
    ///
    /// # Errors
    /// No server runs on that host, or its log cannot be read.
    pub fn requests(&self, host: &str) -> Result<Vec<Entry>, LabError> {
        let log = self.server_log(host)?;
        // A server that has logged nothing yet may not have created its log.
        if !log.exists() {
            return Ok(Vec::new());
        }
        Entry::read_all(&log).map_err(|error| LabError::System {
            step: format!("read the log of host {host}"),
            reason: error.to_string(),
        })
    }

    /// Copies the servers' logs to the directory in [`LabOptions::logs`], if there is one.
    ///
    /// The copies include every request whose client has its response. [`up`](crate::up) calls this when the
    /// lab is taken down.
    ///
    /// # Errors
    /// A log cannot be read, or its copy cannot be written.
    pub fn save_logs(&self) -> Result<(), LabError> {
        self.logs.as_ref().map_or(Ok(()), LogCopies::save)
    }

    /// Directory for copies of the servers' logs, if configured.
    pub fn log_dir(&self) -> Option<&Path> {
        self.logs.as_ref().map(LogCopies::directory)
    }

    /// Things that could not be arranged but do not stop the lab, one sentence each.
    pub fn warnings(&self) -> &[LabWarning] {
        &self.warnings
    }

    /// Environment variables for commands: the location of the lab's CA, and the scenario.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Root certificate of all servers' certificates, PEM.
    pub fn ca_pem(&self) -> &str {
        self.ca.root_pem()
    }

    /// Directory of the captures, if any are written.
    pub fn capture_dir(&self) -> Option<&Path> {
        self.capture_dir.as_deref()
    }

    /// Waits until the capture files contain all frames so far.
    pub fn write_out_captures(&self) {
        self.captures.iter().for_each(Capture::write_out);
    }

    /// How complete the captures are so far.
    pub fn capture_stats(&self) -> Vec<CaptureStats> {
        self.captures.iter().map(Capture::stats).collect()
    }

    /// Processor time that each web server has used so far.
    pub fn server_times(&self) -> Vec<ServerTime> {
        self.with_servers(Servers::processor_times)
    }

    /// Servers that have ended although the lab goes on, each reported once. Connections to them are refused.
    pub fn ended_servers(&self) -> Vec<ServerEnd> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).ended()
    }

    /// Changes of the scenario that have been applied so far.
    pub fn changes(&self) -> Vec<ChangeReport> {
        self.changes.reports()
    }

    /// Counts of the frames forwarded and dropped so far.
    pub fn forwarder_stats(&self) -> ForwarderStats {
        self.counters.snapshot()
    }

    /// Moves the calling thread, and threads and sockets that it makes later, to a host.
    ///
    /// `main` starts on the client.
    pub fn enter(&self, host: &str) -> Result<(), LabError> {
        self.place(host)?.namespace.enter().map_err(|errno| LabError::System {
            step: format!("enter host {host}"),
            reason: errno.desc().to_owned(),
        })
    }

    /// Prepares `command` to start on a host, with the lab's environment.
    pub fn command_on(&self, host: &str, mut command: Command) -> Result<Command, LabError> {
        let place = self.place(host)?;
        let network = place.namespace.descriptor().map_err(|errno| LabError::System {
            step: format!("enter host {host}"),
            reason: errno.desc().to_owned(),
        })?;
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        start_in_network(&mut command, network);
        Ok(command)
    }

    /// Runs `command` on a host to completion and returns its exit code, as a shell would. Signals are
    /// passed on to the command, and the lab outlives it.
    pub fn run_command(&self, host: &str, command: Command) -> Result<i32, LabError> {
        process::wait_for_command(&mut self.command_on(host, command)?)
    }

    /// Waits until asked to end, then saves the logs.
    pub(crate) fn stay(&self) -> i32 {
        process::wait_for_end();
        // Nobody is left to report the reason to.
        i32::from(self.save_logs().is_err())
    }

    fn with_servers<T>(&self, look: impl FnOnce(&Servers) -> T) -> T {
        // A panic elsewhere leaves each server either running or ended, so the list is still valid.
        look(&self.servers.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn place(&self, host: &str) -> Result<&HostNetwork, LabError> {
        self.network.host(host).ok_or_else(|| self.unknown(host))
    }

    fn unknown(&self, host: &str) -> LabError {
        LabError::UnknownHost {
            name: host.to_owned(),
            known: self.network.hosts.iter().map(|host| host.name.clone()).collect(),
        }
    }
}

/// Proxy variables, cleared because the machine's proxies cannot be reached from a lab. Programs treat an
/// empty variable as unset.
const NO_PROXIES: [&str; 6] =
    ["http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// Variables that make common programs trust only the lab's CA, and connect directly.
fn environment(
    scenario: &Scenario,
    ca: &Ca,
    scratch: &Path,
) -> Result<Vec<(String, String)>, LabError> {
    let file = scratch.join("ca.pem");
    std::fs::write(&file, ca.root_pem()).map_err(|error| LabError::System {
        step: format!("write {}", file.display()),
        reason: error.to_string(),
    })?;
    let file = file.display().to_string();
    let trust = ["SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"];
    let mut variables: Vec<_> =
        trust.iter().map(|name| ((*name).to_owned(), file.clone())).collect();
    variables.push(("FIRSTBYTE_LAB".to_owned(), scenario.name.clone()));
    variables.extend(NO_PROXIES.map(|name| (name.to_owned(), String::new())));
    Ok(variables)
}

type MiddleSender = std::sync::mpsc::Sender<MiddleFrame>;

/// Starts taps at the client and every server, and a capture of the middle.
fn start_captures(
    directory: &Path,
    scenario: &Scenario,
    network: &Network,
) -> Result<(Vec<Capture>, Option<MiddleSender>), LabError> {
    std::fs::create_dir_all(directory).map_err(|error| LabError::Capture {
        file: directory.display().to_string(),
        reason: error.to_string(),
    })?;
    let mut captures = Vec::new();
    for (host, place) in scenario.hosts.iter().zip(&network.hosts) {
        let file = match host.role {
            Role::Client => "client.pcapng".to_owned(),
            Role::Server => format!("server-{}.pcapng", host.name),
            Role::Resolver => continue,
        };
        captures.push(Capture::on_host(place, frame_bytes(scenario), directory.join(file))?);
    }
    let (middle, sender) = Capture::of_middle(directory.join("middle.pcapng"))?;
    captures.push(middle);
    Ok((captures, Some(sender)))
}

/// Opens the far ends of all hosts' links.
fn open_ports(scenario: &Scenario, network: &Network, seed: u64) -> Result<Vec<Port>, LabError> {
    let size = RingSize { frames: FORWARDER_RING_FRAMES, frame_bytes: frame_bytes(scenario) };
    let hosts = scenario.hosts.iter().zip(&network.hosts);
    hosts
        .map(|(host, place)| {
            let open = || PacketRing::open(place.router_interface, size, false);
            let ring = network.router.within(open).and_then(|ring| ring).map_err(|errno| {
                LabError::System {
                    step: format!("open the link of host {}", host.name),
                    reason: errno.desc().to_owned(),
                }
            })?;
            Ok(Port {
                ring,
                mac: place.mac,
                addresses: host.addresses().collect(),
                up: Link::new(&host.up, seed, &format!("{}/up", host.name)),
                down: Link::new(&host.down, seed, &format!("{}/down", host.name)),
            })
        })
        .collect()
}

/// Length of the longest frame that any host sends.
fn frame_bytes(scenario: &Scenario) -> usize {
    let longest = scenario.hosts.iter().map(|host| host.up.mtu.max(host.down.mtu)).max();
    longest.unwrap_or_default() + ETHERNET_HEADER
}

/// The forwarder's thread; dropping this ends it.
struct ForwarderThread {
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl ForwarderThread {
    fn start(forwarder: Forwarder) -> Result<Self, LabError> {
        let failed =
            |reason: String| LabError::System { step: "start the forwarder".to_owned(), reason };
        let (stopped, stop) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|errno| failed(errno.desc().to_owned()))?;
        let thread = std::thread::Builder::new()
            .name("forwarder".to_owned())
            .spawn(move || forwarder.run(&stopped))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for ForwarderThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has also ended.
            let _ = thread.join();
        }
    }
}
