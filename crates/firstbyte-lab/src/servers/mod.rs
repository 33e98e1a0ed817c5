//! What runs on the hosts: web servers and the DNS server.
//!
//! In: a scenario, a network, a CA. Out: servers that have been seen to accept connections, or an
//! error with what they wrote to stderr.

mod dns;
mod nginx;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::builtin_server::{self, Listeners};
use crate::ca::{Ca, ServerCertificate};
use crate::clock::monotonic_ns;
use crate::error::LabError;
use crate::network::{HostNetwork, Network};
use crate::reports::ServerReport;
use crate::scenario::{Host, Scenario, ServerChoice, ServerSettings};
use nginx::Nginx;

pub(crate) use dns::start as start_dns;

/// How long a server may take until it accepts connections.
const START_LIMIT_NS: u64 = 5_000_000_000;
const START_POLL: Duration = Duration::from_millis(5);

/// The running web servers; they stop when this is dropped.
pub(crate) struct Servers {
    running: Vec<Running>,
}

struct Running {
    report: ServerReport,
    software: Software,
}

enum Software {
    Nginx(Nginx),
    Builtin { _handle: builtin_server::Handle },
}

impl Servers {
    /// Starts a server on every server host and waits until all accept connections.
    ///
    /// `choice`, unless `Auto`, goes before what the scenario says.
    pub(crate) fn start(
        scenario: &Scenario,
        network: &Network,
        ca: &Ca,
        scratch: &Path,
        choice: ServerChoice,
    ) -> Result<Self, LabError> {
        let installed = nginx::Installed::find();
        let mut running = Vec::new();
        for host in scenario.servers() {
            let (Some(settings), Some(place)) = (&host.server, network.host(&host.name)) else {
                continue;
            };
            let certificate = ca
                .issue(&host.names)
                .map_err(|error| LabError::Certificates { reason: error.to_string() })?;
            let choice = if choice == ServerChoice::Auto { settings.choice } else { choice };
            let start = Start { host, settings, place, certificate };
            running.push(match (choice, &installed) {
                (ServerChoice::Builtin, _) | (ServerChoice::Auto, None) => start.builtin()?,
                (_, Some(installed)) => start.nginx(installed, scratch)?,
                (ServerChoice::Nginx, None) => {
                    return Err(LabError::NginxNotFound { host: host.name.clone() });
                }
            });
        }
        let mut servers = Self { running };
        servers.wait_until_up(scenario, network)?;
        Ok(servers)
    }

    pub(crate) fn reports(&self) -> Vec<ServerReport> {
        self.running.iter().map(|running| running.report.clone()).collect()
    }

    fn wait_until_up(&mut self, scenario: &Scenario, network: &Network) -> Result<(), LabError> {
        let deadline = monotonic_ns() + START_LIMIT_NS;
        for running in &mut self.running {
            let name = &running.report.host;
            let (Some(host), Some(place)) = (scenario.host(name), network.host(name)) else {
                continue;
            };
            let addresses: Vec<_> = host.addresses().map(|ip| SocketAddr::new(ip, 443)).collect();
            while let Some(down) = place
                .namespace
                .within(|| addresses.iter().find(|at| TcpStream::connect(at).is_err()))
                .map_err(|errno| running.failed(format!("cannot enter its host: {errno}")))?
            {
                if let Some(reason) = running.ended() {
                    return Err(running.failed(reason));
                }
                if monotonic_ns() > deadline {
                    return Err(running.failed(format!("nothing listens at {down} after 5 s")));
                }
                std::thread::sleep(START_POLL);
            }
        }
        Ok(())
    }
}

impl Running {
    /// Why the server is no longer there, if it is not.
    fn ended(&mut self) -> Option<String> {
        match &mut self.software {
            Software::Nginx(nginx) => nginx.ended(),
            Software::Builtin { .. } => None,
        }
    }

    fn failed(&self, reason: String) -> LabError {
        let output = match &self.software {
            Software::Nginx(nginx) => nginx.output(),
            Software::Builtin { .. } => String::new(),
        };
        let ServerReport { host, kind } = self.report.clone();
        LabError::Server { host, kind, reason, output }
    }
}

/// What is needed to start one server.
struct Start<'a> {
    host: &'a Host,
    settings: &'a ServerSettings,
    place: &'a HostNetwork,
    certificate: ServerCertificate,
}

impl Start<'_> {
    fn builtin(self) -> Result<Running, LabError> {
        let report =
            ServerReport { host: self.host.name.clone(), kind: "built-in (rustls)".to_owned() };
        let failed = |reason: String| LabError::Server {
            host: report.host.clone(),
            kind: report.kind.clone(),
            reason,
            output: String::new(),
        };
        let listeners = self
            .place
            .namespace
            .within(|| well_known_ports(self.host))
            .map_err(|errno| failed(format!("cannot enter its host: {errno}")))?
            .map_err(|error| failed(format!("cannot listen: {error}")))?;
        let config = builtin_server::Config {
            page_bytes: self.settings.page_bytes,
            think_time: self.settings.think_time,
            handshake_delay: self.settings.handshake_delay,
            ..builtin_server::Config::new(self.certificate)
        };
        let handle =
            builtin_server::spawn(config, listeners).map_err(|error| failed(error.to_string()))?;
        Ok(Running { report, software: Software::Builtin { _handle: handle } })
    }

    fn nginx(self, installed: &nginx::Installed, scratch: &Path) -> Result<Running, LabError> {
        let report = ServerReport { host: self.host.name.clone(), kind: installed.version.clone() };
        let directory = scratch.join(&self.host.name);
        let nginx =
            Nginx::start(installed, &directory, self.settings, &self.certificate, self.place)
                .map_err(|error| LabError::Server {
                    host: report.host.clone(),
                    kind: report.kind.clone(),
                    reason: error.to_string(),
                    output: String::new(),
                })?;
        Ok(Running { report, software: Software::Nginx(nginx) })
    }
}

/// Ports 443 and 80 of a host that the calling thread is on.
fn well_known_ports(host: &Host) -> io::Result<Listeners> {
    // An IPv6 socket takes IPv4 connections too (RFC 3493 §3.7).
    let any: IpAddr = match host.ipv6 {
        Some(_) => Ipv6Addr::UNSPECIFIED.into(),
        None => Ipv4Addr::UNSPECIFIED.into(),
    };
    Ok(Listeners {
        https: vec![TcpListener::bind((any, 443))?],
        http: vec![TcpListener::bind((any, 80))?],
        quic: Vec::new(),
    })
}
