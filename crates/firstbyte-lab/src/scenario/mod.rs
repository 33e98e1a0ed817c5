//! What a lab consists of: hosts, their links, their servers, the names they answer to.
//!
//! A scenario is a TOML file, shipped with this crate or given by path. A [`Scenario`] that exists
//! has been checked: everything after this module may rely on it.

mod access;
mod change;
mod check;
mod command;
mod content;
mod document;
mod error;
mod place;
mod server;
mod shipped;
#[cfg(test)]
mod tests;
mod units;

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstbyte_core::toml_errors::describe_toml_error;

pub use change::Change;
pub use command::{CommandSettings, Paths};
pub use error::ScenarioError;
pub use server::{ServerChoice, ServerSettings};
use shipped::SHIPPED;
pub use units::Rate;

/// A checked scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The shipped name, or the file's name without its extension.
    pub name: String,
    /// One-line description.
    pub description: String,
    /// Why it exists and what it must show; may be empty.
    pub story: String,
    /// Seed of every random decision of its links.
    pub seed: u64,
    /// All hosts, in the file's order.
    pub hosts: Vec<Host>,
    /// The file as it was written.
    pub source: String,
    /// The directory of the file; the working directory if the scenario has no file.
    pub directory: PathBuf,
    /// Changes while it runs, in order of time.
    pub changes: Vec<Change>,
}

/// One machine of the lab: a network namespace with one interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Its name, 1 to 15 of `a-z 0-9 -`.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// DNS names that resolve to its addresses and that its certificate covers.
    pub names: Vec<String>,
    /// The server it runs; `Some` exactly when the role is [`Role::Server`].
    pub server: Option<ServerSettings>,
    /// How it answers; `Some` exactly when the role is [`Role::Resolver`].
    pub resolver: Option<ResolverSettings>,
    /// Congestion control of its TCP; `None` is the lab's default, CUBIC.
    pub congestion_control: Option<CongestionControl>,
    /// Whether its TCP acknowledges every segment at once; otherwise it follows Linux's default.
    pub quick_acks: bool,
    /// Minimum retransmission timeout of its TCP, in whole milliseconds; `None` is the kernel's, 200 ms.
    /// Acknowledgements are not delayed longer than this (Linux 6.5 and later).
    pub rto_min: Option<Duration>,
    /// Its link towards the middle of the network.
    pub up: LinkSettings,
    /// Its link from the middle of the network.
    pub down: LinkSettings,
}

/// How a resolver host answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResolverSettings {
    /// Time between a question and its answer.
    pub answer_delay: Duration,
    /// Additional delay of answers to AAAA queries.
    pub aaaa_delay: Duration,
}

/// Role of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs the user's command.
    Client,
    /// Runs a web server.
    Server,
    /// Runs the lab's DNS server.
    Resolver,
}

/// One direction of a host's link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkSettings {
    /// Rate at which bits leave, both families together; `None` is unlimited.
    pub rate: Option<Rate>,
    /// The longest that a packet may wait for its turn at `rate`; it is dropped if it would wait longer.
    pub queue: Duration,
    /// The largest IP packet that the device accepts, in bytes.
    pub mtu: usize,
    /// What happens to IPv4 packets.
    pub ipv4: PathSettings,
    /// What happens to IPv6 packets.
    pub ipv6: PathSettings,
}

/// What one direction of a link does to the packets of one IP family.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSettings {
    /// One-way delay.
    pub delay: Duration,
    /// Upper bound of the additional delay of every packet, which is uniformly distributed.
    pub jitter: Duration,
    /// Share of packets lost, 0 to 1, independently of each other.
    pub loss: f64,
    /// Whether jitter may let a packet overtake an earlier one.
    pub reorder: bool,
    /// The family's own rate; if `None`, it shares the link's.
    pub rate: Option<Rate>,
    /// The largest packet that passes, in bytes; at most the link's.
    pub mtu: usize,
    /// Number of segments that a TCP connection may send this way before the first acknowledgement; `None`
    /// is the kernel's default, 10 (RFC 6928).
    pub initial_window: Option<u32>,
    /// Number of packets with SYN that every TCP connection loses, counted from the first one.
    pub drop_syn: u32,
    /// Number of packets with data that every TCP connection loses, counted from the first one.
    pub drop_data: u32,
}

/// Maximum size of a scenario file, bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Reads a text file of at most `MOST_BYTES`, more than people write, so that an endless one is refused.
fn read_text(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    let bytes = file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match bytes as u64 > MOST_BYTES {
        true => Err(std::io::Error::other("more than 1 MB")),
        false => Ok(text),
    }
}

/// The router's address on every link, which no host can have.
pub(crate) const GATEWAY_IPV4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The router's IPv6 address.
pub(crate) const GATEWAY_IPV6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

impl Scenario {
    /// Name and description of every shipped scenario.
    pub fn shipped() -> impl Iterator<Item = (&'static str, String)> {
        SHIPPED.iter().filter_map(|(name, _)| {
            let scenario = Self::load(name).ok()?;
            Some((*name, scenario.description))
        })
    }

    /// Loads the shipped scenario with this name, or else the file at this path.
    ///
    /// A word with neither a slash nor a dot is always a name.
    pub fn load(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some((name, source)) = SHIPPED.iter().find(|(name, _)| *name == name_or_path) {
            return Self::parse(name, &format!("{name} (shipped)"), source);
        }
        if !name_or_path.contains(['/', '.']) {
            return Err(ScenarioError::Unknown {
                name: name_or_path.to_owned(),
                shipped: SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect(),
            });
        }
        let source = read_text(name_or_path).map_err(|error| ScenarioError::Read {
            file: name_or_path.to_owned(),
            reason: error::reason_of(&error),
        })?;
        let path = Path::new(name_or_path);
        let stem = path.file_stem().unwrap_or_default();
        let scenario = Self::parse(&stem.to_string_lossy(), name_or_path, &source)?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let mut scenario = scenario;
        scenario.move_to(directory);
        Ok(scenario)
    }

    /// Joins `directory` to the directory of its file.
    fn move_to(&mut self, directory: &Path) {
        self.directory = self.directory.join(directory);
        self.changes.iter_mut().for_each(|change| change.scenario.move_to(directory));
    }

    /// Parses and checks the text of a scenario file; errors call it `file`.
    pub fn parse(name: &str, file: &str, source: &str) -> Result<Self, ScenarioError> {
        let document =
            toml::from_str(source).map_err(|error: toml::de::Error| ScenarioError::Syntax {
                file: file.to_owned(),
                reason: describe_toml_error(source, error.message(), error.span()),
            })?;
        check::scenario(name, file, source, document)
    }

    /// The host that runs commands.
    ///
    /// # Panics
    /// Never for a checked scenario: it has exactly one client.
    pub fn client(&self) -> &Host {
        self.hosts
            .iter()
            .find(|host| host.role == Role::Client)
            .expect("a checked scenario has a client")
    }

    /// The host with the lab's DNS server, if the scenario has one.
    pub fn resolver(&self) -> Option<&Host> {
        self.hosts.iter().find(|host| host.role == Role::Resolver)
    }

    /// The hosts with a web server.
    pub fn servers(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.role == Role::Server)
    }

    /// The host of this name.
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// Initial window that the client sees over QUIC from a server: one for both families, the smallest that
    /// is configured on the way.
    pub fn quic_initial_window(&self, server: &Host) -> Option<u32> {
        let ways = [&server.up, &self.client().down];
        let windows = ways.iter().flat_map(|link| [&link.ipv4, &link.ipv6]);
        windows.filter_map(|path| path.initial_window).min()
    }

    /// Configured round trip between two hosts, without jitter, queueing and serialisation.
    pub fn round_trip(&self, from: &Host, to: &Host, family: Family) -> Duration {
        [&from.up, &to.down, &to.up, &from.down].iter().map(|link| link.path(family).delay).sum()
    }
}

impl Host {
    /// Addresses of the host, IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.ipv4.map(IpAddr::V4).into_iter().chain(self.ipv6.map(IpAddr::V6))
    }
}

/// An IP family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address.
    pub fn from_address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// A congestion control of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438): the default of nearly all systems.
    #[default]
    Cubic,
    /// Sends at an estimated rate, one segment after the other, from the first window on.
    Bbr,
    /// RFC 5681.
    Reno,
}

impl CongestionControl {
    /// All congestion controls.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Bbr, Self::Reno];

    /// Name in the kernel and in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
            Self::Reno => "reno",
        }
    }
}

impl LinkSettings {
    /// Settings for packets of this family.
    pub fn path(&self, family: Family) -> &PathSettings {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }
}
