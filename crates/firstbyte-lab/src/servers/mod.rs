//! The servers on the hosts: web servers and the DNS server.
//!
//! In: a scenario, a network, a CA. Out: servers that have been seen to accept connections, or an error with
//! their stderr.

mod caddy;
mod command;
mod dns;
mod nginx;
mod processor;
mod spawned;

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_core::timeline::ProcessorTime;

use crate::access_log::AccessLog;
use crate::builtin_server::{self, Listeners};
use crate::ca::{Ca, LeafOptions, ServerCertificate};
use crate::clock::monotonic_ns;
use crate::error::LabError;
use crate::network::{HostNetwork, Network};
use crate::reports::{ServerEnd, ServerReport, ServerTime};
use crate::scenario::{CommandSettings, Host, Paths, Scenario, ServerChoice, ServerSettings};
use spawned::Spawned;

pub(crate) use dns::start as start_dns;

/// Time limit for a server to start accepting connections.
const START_LIMIT: Duration = Duration::from_secs(5);
/// The same for a scenario's own program, which may have to be compiled first.
const COMMAND_START_LIMIT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(5);
const HTTPS: u16 = 443;
const HTTP: u16 = 80;
/// Loopback port of the built-in server behind a server that forwards requests.
pub(super) const BACKEND: u16 = 8_080;

/// Kind of server reported for a host that refuses connections.
const NONE: &str = "none";
const BUILTIN: &str = "built-in (rustls)";
const BUILTIN_HTTP3: &str = "built-in (rustls, quinn)";

/// The running web servers; dropping this stops them.
pub(crate) struct Servers {
    running: Vec<Running>,
    /// Overrides the scenario's choice, unless it is `Auto`.
    choice: ServerChoice,
    scratch: PathBuf,
    installed: Installed,
}

struct Running {
    report: ServerReport,
    log: PathBuf,
    certificate: ServerCertificate,
    /// Options with which the certificate was made.
    leaf: LeafOptions,
    http3: bool,
    refuses: bool,
    /// nginx, Caddy or a scenario's own program.
    process: Option<Spawned>,
    start_limit: Duration,
    /// Built-in servers: alone, for HTTP/3 with nginx, or behind a server that forwards requests.
    builtin: Vec<builtin_server::Handle>,
    /// Processor time its process had used when it was ready.
    taken_before: Option<ProcessorTime>,
}

impl Servers {
    /// Starts a server on every server host and waits until all accept connections.
    ///
    /// `choice` overrides the scenario's choice, unless it is `Auto`.
    pub(crate) fn start(
        scenario: &Scenario,
        network: &Network,
        ca: &Ca,
        scratch: &Path,
        choice: ServerChoice,
    ) -> Result<Self, LabError> {
        let installed = Installed::default();
        let mut servers =
            Self { running: Vec::new(), choice, scratch: scratch.to_owned(), installed };
        for host in scenario.servers() {
            if let Some(running) = servers.start_one(scenario, host, network, ca, None)? {
                servers.running.push(running);
            }
        }
        let begun = monotonic_ns();
        for running in &mut servers.running {
            running.wait_until_up(scenario, network, begun)?;
        }
        Ok(servers)
    }

    /// Stops the server of a host and starts it as in `scenario`, with the same certificate unless another
    /// one is needed. Open connections are cut, and new ones are refused until it is up.
    pub(crate) fn change(
        &mut self,
        scenario: &Scenario,
        host: &str,
        network: &Network,
        ca: &Ca,
    ) -> Result<(), LabError> {
        let Some(host) = scenario.servers().find(|server| server.name == host) else {
            return Ok(());
        };
        let running = self.running.iter().position(|running| running.report.host == host.name);
        let before = running.map(|at| self.running.remove(at));
        let certificate = before.as_ref().map(|before| (before.leaf, before.certificate.clone()));
        drop(before);
        if let Some(mut running) = self.start_one(scenario, host, network, ca, certificate)? {
            running.wait_until_up(scenario, network, monotonic_ns())?;
            self.running.push(running);
        }
        Ok(())
    }

    fn start_one(
        &mut self,
        scenario: &Scenario,
        host: &Host,
        network: &Network,
        ca: &Ca,
        certificate: Option<(LeafOptions, ServerCertificate)>,
    ) -> Result<Option<Running>, LabError> {
        let (Some(settings), Some(place)) = (&host.server, network.host(&host.name)) else {
            return Ok(None);
        };
        let certificate = match certificate {
            Some((leaf, certificate)) if leaf == settings.leaf => certificate,
            _ => ca
                .issue_with(&host.names, &settings.leaf)
                .map_err(|error| LabError::Certificates { reason: error.to_string() })?,
        };
        let choice = if self.choice == ServerChoice::Auto { settings.choice } else { self.choice };
        let directory = self.scratch.join(&host.name);
        let log = directory.join("access.log");
        let origin = scenario.directory.as_path();
        let quic_initial_window = scenario.quic_initial_window(host);
        let start = Start {
            host,
            settings,
            place,
            certificate,
            directory,
            log,
            origin,
            quic_initial_window,
        };
        match settings.refuses {
            true => Ok(Some(start.running(NONE, None, Vec::new()))),
            false => start.all(choice, &mut self.installed).map(Some),
        }
    }

    /// Servers whose programs have ended although the lab did not stop them, each reported once.
    pub(crate) fn ended(&mut self) -> Vec<ServerEnd> {
        let end = |running: &mut Running| {
            let process = running.process.as_mut()?;
            let reason = process.ended_anew()?;
            let ServerReport { host, kind } = running.report.clone();
            Some(ServerEnd { host, kind, reason, output: process.output() })
        };
        self.running.iter_mut().filter_map(end).collect()
    }

    pub(crate) fn reports(&self) -> Vec<ServerReport> {
        self.running.iter().map(|running| running.report.clone()).collect()
    }

    /// Hosts of servers that are programs, and their process IDs.
    pub(crate) fn processes(&self) -> Vec<(String, u32)> {
        let process = |running: &Running| {
            Some((running.report.host.clone(), running.process.as_ref()?.number()))
        };
        self.running.iter().filter_map(process).collect()
    }

    /// Processor time that servers have used since they were up. The built-in server is a thread of the lab
    /// and has no time of its own.
    pub(crate) fn processor_times(&self) -> Vec<ServerTime> {
        let time = |running: &Running| {
            let (before, now) = (running.taken_before?, running.processor()?);
            let taken = ProcessorTime {
                user: now.user.saturating_sub(before.user),
                system: now.system.saturating_sub(before.system),
            };
            Some(ServerTime { host: running.report.host.clone(), taken })
        };
        self.running.iter().filter_map(time).collect()
    }

    /// The access log of a host's server.
    pub(crate) fn log(&self, host: &str) -> Option<&Path> {
        let running = self.running.iter().find(|running| running.report.host == host)?;
        Some(&running.log)
    }

    /// Access logs of all servers, by host.
    pub(crate) fn logs(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.running.iter().map(|running| (running.report.host.as_str(), running.log.as_path()))
    }
}

/// Where nothing listens yet, as seen from the host itself.
fn missing(host: &Host, http3: bool) -> Option<String> {
    let addresses = host.addresses().map(|address| SocketAddr::new(address, HTTPS));
    let tcp = addresses.into_iter().find(|at| TcpStream::connect(at).is_err());
    if let Some(at) = tcp {
        return Some(at.to_string());
    }
    (http3 && !udp_is_bound(HTTPS)).then(|| format!("UDP port {HTTPS}"))
}

/// Whether a socket in this network is bound to the UDP port, according to /proc/net/udp (proc(5)).
fn udp_is_bound(port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    ["udp", "udp6"].iter().any(|table| {
        let sockets = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        sockets.is_ok_and(|sockets| {
            let local = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
            sockets.lines().filter_map(local).any(|local| local.ends_with(&suffix))
        })
    })
}

impl Running {
    /// Waits until the server accepts connections. It was started at `begun`, or earlier.
    fn wait_until_up(
        &mut self,
        scenario: &Scenario,
        network: &Network,
        begun: u64,
    ) -> Result<(), LabError> {
        let limit = self.start_limit;
        let name = &self.report.host;
        let (Some(host), Some(place)) = (scenario.host(name), network.host(name)) else {
            return Ok(());
        };
        while let Some(down) = place
            .namespace
            .within(|| (!self.refuses).then(|| missing(host, self.http3)).flatten())
            .map_err(|errno| self.failed(format!("cannot enter the host's namespace: {errno}")))?
        {
            if let Some(reason) = self.process.as_mut().and_then(Spawned::ended) {
                return Err(self.failed(reason));
            }
            if monotonic_ns() - begun > limit.as_nanos() as u64 {
                let reason = format!("nothing listens on {down} after {} s", limit.as_secs());
                return Err(self.failed(reason));
            }
            std::thread::sleep(START_POLL);
        }
        self.taken_before = self.processor();
        Ok(())
    }

    fn processor(&self) -> Option<ProcessorTime> {
        // If a built-in server does part of the work, the process's time is not all of the server's.
        let process = self.process.as_ref().filter(|_| self.builtin.is_empty())?;
        processor::of_tree(process.number())
    }

    fn failed(&self, reason: String) -> LabError {
        let output = self.process.as_ref().map(Spawned::output).unwrap_or_default();
        let ServerReport { host, kind } = self.report.clone();
        LabError::Server { host, kind, reason, output }
    }
}

/// Installed servers, looked up when first needed.
#[derive(Default)]
struct Installed {
    nginx: Option<Option<nginx::Installed>>,
    caddy: Option<Option<caddy::Installed>>,
}

impl Installed {
    fn nginx(&mut self) -> Option<&nginx::Installed> {
        self.nginx.get_or_insert_with(nginx::Installed::find).as_ref()
    }

    fn caddy(&mut self) -> Option<&caddy::Installed> {
        self.caddy.get_or_insert_with(caddy::Installed::find).as_ref()
    }
}

/// Everything needed to start one server.
struct Start<'a> {
    host: &'a Host,
    settings: &'a ServerSettings,
    place: &'a HostNetwork,
    certificate: ServerCertificate,
    directory: PathBuf,
    log: PathBuf,
    /// Directory of the scenario's file.
    origin: &'a Path,
    quic_initial_window: Option<u32>,
}

impl Start<'_> {
    /// Starts the chosen server, and the built-in one behind it if the settings want a backend.
    fn all(self, choice: ServerChoice, installed: &mut Installed) -> Result<Running, LabError> {
        let backend = self.settings.backend.then(|| self.spawn_backend()).transpose()?;
        let mut running = self.software(choice, installed)?;
        running.builtin.extend(backend);
        Ok(running)
    }

    fn software(
        self,
        choice: ServerChoice,
        installed: &mut Installed,
    ) -> Result<Running, LabError> {
        if let Some((what, why)) = self.settings.beyond(choice) {
            let reason = format!("the scenario has {what}: {why}");
            return Err(self.failed(&choice.to_string(), &reason));
        }
        let host = || self.host.name.clone();
        match choice {
            ServerChoice::Builtin => self.builtin(),
            ServerChoice::Command => match &self.settings.command {
                Some(command) => self.command(command),
                // Cannot happen: the check above has refused this.
                None => Err(self.failed("command", "no command is given")),
            },
            ServerChoice::Caddy => match installed.caddy() {
                Some(caddy) => self.caddy(caddy),
                None => Err(LabError::CaddyNotFound { host: host() }),
            },
            ServerChoice::Auto | ServerChoice::Nginx => match installed.nginx() {
                Some(nginx) => self.nginx(nginx),
                None if choice == ServerChoice::Auto => self.builtin(),
                None => Err(LabError::NginxNotFound { host: host() }),
            },
        }
    }

    fn builtin(self) -> Result<Running, LabError> {
        let ports = if self.settings.http3 { Ports::All } else { Ports::Tcp };
        let handle = self.spawn_builtin(BUILTIN, ports)?;
        Ok(self.running(BUILTIN, None, vec![handle]))
    }

    fn caddy(self, installed: &caddy::Installed) -> Result<Running, LabError> {
        let kind = installed.version.as_str();
        let caddy = installed
            .start(&self.directory, &self.log, self.settings, &self.certificate, self.place)
            .map_err(|error| self.failed(kind, &error.to_string()))?;
        Ok(self.running(kind, Some(caddy), Vec::new()))
    }

    /// nginx before 1.25 has no HTTP/3, so the built-in server provides it, with the same certificate.
    fn nginx(self, installed: &nginx::Installed) -> Result<Running, LabError> {
        let kind = installed.version.as_str();
        let nginx = installed
            .start(&self.directory, &self.log, self.settings, &self.certificate, self.place)
            .map_err(|error| self.failed(kind, &error.to_string()))?;
        if !self.settings.http3 {
            return Ok(self.running(kind, Some(nginx), Vec::new()));
        }
        let builtin = self.spawn_builtin(BUILTIN_HTTP3, Ports::Udp)?;
        let kind = format!("{kind}, HTTP/3: {BUILTIN_HTTP3}");
        Ok(self.running(&kind, Some(nginx), vec![builtin]))
    }

    fn command(self, settings: &CommandSettings) -> Result<Running, LabError> {
        let paths = Paths {
            directory: self.directory.clone(),
            log: self.log.clone(),
            scenario: self.origin.to_owned(),
        };
        let program = command::find(settings, &paths).map_err(|program| {
            let package = settings.package.clone();
            LabError::ProgramNotFound { host: self.host.name.clone(), program, package }
        })?;
        let kind = program.name.as_str();
        let page_bytes = self.settings.page_bytes;
        let process = program
            .start(settings, &paths, page_bytes, &self.certificate, self.place)
            .map_err(|error| self.failed(kind, &error.to_string()))?;
        let running = self.running(kind, Some(process), Vec::new());
        Ok(Running { start_limit: COMMAND_START_LIMIT, ..running })
    }

    /// Starts the built-in server without TLS on the host's loopback. The server in front of it logs its responses.
    fn spawn_backend(&self) -> Result<builtin_server::Handle, LabError> {
        let at = (Ipv4Addr::LOCALHOST, BACKEND);
        let listener = self
            .place
            .namespace
            .within(|| TcpListener::bind(at))
            .map_err(|errno| {
                self.failed(BUILTIN, &format!("cannot enter the host's namespace: {errno}"))
            })?
            .map_err(|error| self.failed(BUILTIN, &format!("cannot listen: {error}")))?;
        let config = builtin_server::Config {
            page_bytes: self.settings.page_bytes,
            ..builtin_server::Config::new(self.certificate.clone())
        };
        let listeners = Listeners { http: vec![listener], ..Listeners::default() };
        builtin_server::spawn(config, listeners)
            .map_err(|error| self.failed(BUILTIN, &error.to_string()))
    }

    fn spawn_builtin(&self, kind: &str, ports: Ports) -> Result<builtin_server::Handle, LabError> {
        let listeners = self
            .place
            .namespace
            .within(|| well_known(self.host, ports))
            .map_err(|errno| {
                self.failed(kind, &format!("cannot enter the host's namespace: {errno}"))
            })?
            .map_err(|error| self.failed(kind, &format!("cannot listen: {error}")))?;
        let log = fs::create_dir_all(&self.directory)
            .and_then(|()| File::options().create(true).append(true).open(&self.log))
            .map_err(|error| self.failed(kind, &format!("cannot write its log: {error}")))?;
        let config = builtin_server::Config {
            versions: self.settings.versions,
            tickets: self.settings.tickets,
            resumption: self.settings.resumption,
            early_data: self.settings.early_data,
            groups: self.settings.groups.clone(),
            retry: self.settings.retry,
            quic_initial_window: self.quic_initial_window,
            page_bytes: self.settings.page_bytes,
            think_time: self.settings.think_time,
            slow: self.settings.slow,
            handshake_delay: self.settings.handshake_delay,
            nagle: self.settings.nagle,
            redirects: self.settings.redirects.clone(),
            content: self.settings.content.clone(),
            access_log: Some(AccessLog::new(log)),
            ..builtin_server::Config::new(self.certificate.clone())
        };
        builtin_server::spawn(config, listeners)
            .map_err(|error| self.failed(kind, &error.to_string()))
    }

    fn running(
        self,
        kind: &str,
        process: Option<Spawned>,
        builtin: Vec<builtin_server::Handle>,
    ) -> Running {
        Running {
            report: ServerReport { host: self.host.name.clone(), kind: kind.to_owned() },
            log: self.log,
            leaf: self.settings.leaf,
            certificate: self.certificate,
            http3: self.settings.http3,
            refuses: self.settings.refuses,
            process,
            start_limit: START_LIMIT,
            builtin,
            taken_before: None,
        }
    }

    fn failed(&self, kind: &str, reason: &str) -> LabError {
        LabError::Server {
            host: self.host.name.clone(),
            kind: kind.to_owned(),
            reason: reason.to_owned(),
            output: String::new(),
        }
    }
}

/// Which of a host's well-known ports the built-in server takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ports {
    Tcp,
    Udp,
    All,
}

/// Listeners on ports 443 and 80 of the host that the calling thread is on.
fn well_known(host: &Host, ports: Ports) -> io::Result<Listeners> {
    // An IPv6 socket accepts IPv4 connections too (RFC 3493 §3.7).
    let any: IpAddr = match host.ipv6 {
        Some(_) => Ipv6Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    let mut listeners = Listeners::default();
    if ports != Ports::Udp {
        listeners.https.push(TcpListener::bind((any, HTTPS))?);
        listeners.http.push(TcpListener::bind((any, HTTP))?);
    }
    if ports != Ports::Tcp {
        listeners.quic.push(UdpSocket::bind((any, HTTPS))?);
    }
    Ok(listeners)
}
