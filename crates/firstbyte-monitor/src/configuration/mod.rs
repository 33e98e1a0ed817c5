//! The configuration of the monitor, a TOML file. It is checked as a whole, with a message for each mistake.
//!
//! A [`Configuration`] that exists has been checked. Settings come in three layers, and later layers override earlier
//! ones: `[defaults]`, the `[template.NAME]` that a target names, and the `[[target]]`. Every key is described in
//! `docs/monitor.md`.

mod destination;
mod document;
mod expand;
mod layer;
mod mistake;
mod push;
mod request;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::experiment::{Axis, Visit};
use firstbyte_probe::probe::options::{HeaderChange, Options};
use firstbyte_probe::probe::{Secret, Target};
use http::{HeaderName, HeaderValue, Method};

pub use mistake::Mistake;

use crate::budget::Promise;
use crate::expected_status::ExpectedStatus;
use crate::push::PushSettings;
use crate::webhook::WebhookSettings;
use document::Document;
use layer::Layer;

/// Most targets of one configuration.
pub const MOST_TARGETS: usize = 100_000;

/// All targets and settings of a monitor.
#[derive(Debug)]
pub struct Configuration {
    /// Name of this vantage point.
    pub place: Option<String>,
    /// Where samples are stored.
    pub store: Option<PathBuf>,
    /// How long data is kept.
    pub keep: Keep,
    /// Limits of concurrent work.
    pub limits: Limits,
    /// The HTTP server of the monitor.
    pub server: ServerSettings,
    /// Destinations of events.
    pub webhooks: Vec<WebhookSettings>,
    /// Destinations of figures.
    pub pushes: Vec<PushSettings>,
    /// Targets in the order of the file.
    pub targets: Vec<TargetSettings>,
}

/// The HTTP server of a monitor. Relative paths start at the configuration's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Address to listen at; without one there is no server.
    pub listen: Option<SocketAddr>,
    /// File with the token that requests must carry.
    pub token_file: Option<PathBuf>,
    /// File with modules of `blackbox_exporter`, which `/probe` uses.
    pub modules: Option<PathBuf>,
}

impl ServerSettings {
    /// Checks whether the server may listen at `address`. Without a token others could read data and probe any target.
    ///
    /// # Errors
    /// Why it may not listen there, and what to do.
    pub fn may_listen(&self, address: SocketAddr) -> Result<(), (String, String)> {
        match address.ip().to_canonical().is_loopback() || self.token_file.is_some() {
            true => Ok(()),
            false => Err((
                format!("listen {address}: other machines could read all measurements"),
                "listen on 127.0.0.1, or set token_file in the configuration; requests then need \
                 its token"
                    .to_owned(),
            )),
        }
    }
}

/// How long data is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Raw samples.
    pub raw: Duration,
    /// Total size of raw samples, bytes; the oldest days are deleted first.
    pub raw_size: u64,
    /// Rollups of minutes.
    pub minutes: Duration,
    /// Rollups of hours; `None` keeps them forever.
    pub hours: Option<Duration>,
    /// Rollups of days; `None` keeps them forever.
    pub days: Option<Duration>,
}

impl Default for Keep {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            raw: 30 * DAY,
            raw_size: 20_000_000_000,
            minutes: 14 * DAY,
            hours: Some(730 * DAY),
            days: None,
        }
    }
}

/// Limits of concurrent work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most samples under way at once, over all targets.
    pub in_flight: usize,
    /// Most samples under way at once, per host name.
    pub per_host: usize,
}

impl Default for Limits {
    /// `in_flight` leaves a processor idle most of the time; `per_host` is too low for a server to notice.
    fn default() -> Self {
        Self { in_flight: 32, per_host: 2 }
    }
}

/// One target, with all of its settings.
#[derive(Debug)]
pub struct TargetSettings {
    /// Unique name of the target.
    pub name: String,
    /// The visit before any axis changes it.
    pub target: Target,
    /// Interval between samples of a series.
    pub every: Duration,
    /// Share of `every` by which a sample may randomly be early or late.
    pub jitter: f64,
    /// Time limit of a sample.
    pub timeout: Duration,
    /// Ways to connect, with one series each: axes as in `compare --vary`, and named ways as in `compare --variant`.
    pub axes: Vec<Axis>,
    /// Whether each address of the name is measured separately.
    pub all_edges: bool,
    /// PEM file with the trusted roots, in place of the system's. Relative paths start at the configuration's
    /// directory.
    pub cacert: Option<PathBuf>,
    /// Expected status codes; any other status is a failure.
    pub expected_status: ExpectedStatus,
    /// Method of its requests.
    pub method: Method,
    /// Header fields besides the generated ones, which they replace if the names are equal.
    pub headers: Vec<(HeaderName, Secret<HeaderValue>)>,
    /// Client certificate (PEM), and its key if that is in another file. Relative paths start at the configuration's
    /// directory.
    pub client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    /// Whether the target is measured even if its certificate is invalid.
    pub insecure: bool,
    /// Promises about the target.
    pub budget: Vec<Promise>,
    /// Labels chosen by the user.
    pub tags: BTreeMap<String, String>,
}

/// Settings of targets that are only URLs. `None` means the default.
#[derive(Clone, Debug, Default)]
pub struct UrlSettings {
    /// Interval between samples of a series.
    pub every: Option<Duration>,
    /// Time limit of a sample.
    pub timeout: Option<Duration>,
    /// Ways to connect.
    pub axes: Vec<Axis>,
}

impl TargetSettings {
    /// The visit of the target before any axis changes it.
    pub fn visit(&self) -> Visit {
        let mut options = Options { max_time: Some(self.timeout), ..Options::default() };
        options.tls.ca_file.clone_from(&self.cacert);
        options.tls.client_certificate.clone_from(&self.client_certificate);
        options.tls.insecure = self.insecure;
        options.http.method.clone_from(&self.method);
        options.http.method_forced = self.method != Method::GET;
        let set = |(name, value): &(HeaderName, Secret<HeaderValue>)| {
            HeaderChange::Set(name.clone(), value.clone())
        };
        options.http.headers = self.headers.iter().map(set).collect();
        Visit { target: self.target.clone(), options: options.into() }
    }
}

impl Configuration {
    /// Reads a configuration. `read_file` reads the files that it names.
    ///
    /// # Errors
    /// All of its mistakes, in the order of the file.
    pub fn read(
        text: &str,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Result<Self, Vec<Mistake>> {
        let mut document = Document::parse(text);
        let configuration = document.configuration(read_file);
        document.finish().map(|()| configuration)
    }

    /// Host names that are measured at each of their addresses.
    pub fn edge_hosts(&self) -> BTreeSet<String> {
        let at_edges = self.targets.iter().filter(|target| target.all_edges);
        at_edges.map(|target| target.target.host.clone()).collect()
    }

    /// Creates a configuration from URLs, as given on the command line.
    ///
    /// # Errors
    /// The first invalid URL, and why it is invalid.
    pub fn of_urls(urls: &[String], settings: UrlSettings) -> Result<Self, (String, String)> {
        let UrlSettings { every, timeout, axes } = settings;
        let layer = Layer { every, timeout, axes: Some(axes), ..Layer::default() };
        let mut targets: Vec<TargetSettings> = Vec::new();
        for url in urls {
            let bad = |why: String| (url.clone(), why);
            let target = Target::parse(url).map_err(|error| bad(error.to_string()))?;
            let settings = layer.clone().settle(name_of(&target), target);
            if targets.iter().any(|other| other.name == settings.name) {
                return Err(bad("the URL is given twice".into()));
            }
            targets.push(settings);
        }
        let (keep, limits) = (Keep::default(), Limits::default());
        let server = ServerSettings::default();
        let (webhooks, pushes) = (Vec::new(), Vec::new());
        Ok(Self { place: None, store: None, keep, limits, server, webhooks, pushes, targets })
    }
}

/// The default name of a target: its URL without default parts and without its query.
fn name_of(target: &Target) -> String {
    let scheme = if target.tls { "" } else { "http://" };
    let path = target.url.path();
    format!("{scheme}{}{}", target.authority(), if path == "/" { "" } else { path })
}
