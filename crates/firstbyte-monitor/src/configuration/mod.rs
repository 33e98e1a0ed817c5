//! The configuration of the monitor, a TOML file: checked as a whole, with a message for each mistake.
//!
//! A [`Configuration`] that exists has been checked. Settings come in three layers, and later layers override earlier
//! ones: `[defaults]`, a
//! `[template.NAME]` that a target names, and the `[[target]]`. Every key is described in `docs/monitor.md`.

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

/// Everything that is watched, and how.
#[derive(Debug)]
pub struct Configuration {
    /// What this vantage point is called.
    pub place: Option<String>,
    /// Where samples are kept.
    pub store: Option<PathBuf>,
    /// For how long.
    pub keep: Keep,
    /// How much is done at once.
    pub limits: Limits,
    /// What it answers others.
    pub server: ServerSettings,
    /// Who is sent what changed.
    pub webhooks: Vec<WebhookSettings>,
    /// Who is sent the figures.
    pub pushes: Vec<PushSettings>,
    /// In the order of the file.
    pub targets: Vec<TargetSettings>,
}

/// The server of a monitor. Its files are named from the configuration's directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Where it listens; there is none when absent.
    pub listen: Option<SocketAddr>,
    /// The token that requests have to bring.
    pub token_file: Option<PathBuf>,
    /// Modules of blackbox_exporter, which `/probe` is answered by.
    pub modules: Option<PathBuf>,
}

impl ServerSettings {
    /// Why it may not listen at `address`, and what to do: others could read, and have probed, whatever they like.
    ///
    /// # Errors
    /// What is wrong, and what to do.
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

/// For how long things are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Raw samples.
    pub raw: Duration,
    /// All raw samples together, bytes; the oldest days go first.
    pub raw_size: u64,
    /// Rollups of minutes.
    pub minutes: Duration,
    /// Rollups of hours; absent is for good.
    pub hours: Option<Duration>,
    /// Rollups of days; absent is for good.
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

/// How much is done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Samples under way, of all targets.
    pub in_flight: usize,
    /// Samples under way, of one host name.
    pub per_host: usize,
}

impl Default for Limits {
    /// As many as leave a processor idle most of the time, and as few as a server does not notice.
    fn default() -> Self {
        Self { in_flight: 32, per_host: 2 }
    }
}

/// One target, with all of its settings.
#[derive(Debug)]
pub struct TargetSettings {
    /// What it is called; no other target is.
    pub name: String,
    /// The visit, unless an axis changes it.
    pub target: Target,
    /// Interval between samples of a series.
    pub every: Duration,
    /// By which share of `every` a sample may be early or late, at random.
    pub jitter: f64,
    /// Most time for a sample.
    pub timeout: Duration,
    /// Ways to connect, a series each: axes as in `compare --vary`, and named ways as in `compare --variant`.
    pub axes: Vec<Axis>,
    /// Each address of its name is measured by itself.
    pub all_edges: bool,
    /// Its certificate leads to one in this file, PEM, and not to one of the system's. Named from the configuration's
    /// directory.
    pub cacert: Option<PathBuf>,
    /// Any other status is a failure.
    pub expected_status: ExpectedStatus,
    /// Of its requests.
    pub method: Method,
    /// Header fields beyond the generated ones; one given here replaces a generated one.
    pub headers: Vec<(HeaderName, Secret<HeaderValue>)>,
    /// Client certificate (PEM), and its key when it is not in the same file. Named from the configuration's directory.
    pub client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    /// It is measured although its certificate is bad.
    pub insecure: bool,
    /// Promises about it.
    pub budget: Vec<Promise>,
    /// Labels chosen by the user.
    pub tags: BTreeMap<String, String>,
}

/// Settings of targets that are URLs alone; absent is what goes without saying.
#[derive(Clone, Debug, Default)]
pub struct UrlSettings {
    /// From one sample of a series to the next.
    pub every: Option<Duration>,
    /// Most time for a sample.
    pub timeout: Option<Duration>,
    /// Ways to connect.
    pub axes: Vec<Axis>,
}

impl TargetSettings {
    /// How it is visited, before any axis.
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
    /// Reads a configuration. Files that it names are read by `read_file`.
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

    /// The names that are measured at each of their addresses.
    pub fn edge_hosts(&self) -> BTreeSet<String> {
        let at_edges = self.targets.iter().filter(|target| target.all_edges);
        at_edges.map(|target| target.target.host.clone()).collect()
    }

    /// A configuration of URLs alone, as given on the command line.
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

/// What a target is called that was given no name: its URL, without what goes without saying and without its query.
fn name_of(target: &Target) -> String {
    let scheme = if target.tls { "" } else { "http://" };
    let path = target.url.path();
    format!("{scheme}{}{}", target.authority(), if path == "/" { "" } else { path })
}
