//! What browsers have in common: how they are to visit, and that they stay between visits.
//!
//! Input: [`BrowserOptions`] and URLs. Output: visits, as the browser's own module makes them ([`RunningBrowser`]); as a
//! `Prober` ([`BrowserProber`]), samples. `asked` turns what is asked of every client into options; `failure` a browser's
//! errors into the model's.

mod asked;
pub(crate) mod failure;
mod prober;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::{Cause, Failure, LastSeen, Navigation, PhaseName, TimeLimit};
use firstbyte_probe::probe::options::{Client, Family};

pub use prober::{BrowserMaker, BrowserProber};

use crate::interruption::{InterruptHandle, Interruption};
use crate::process::{ClientError, ClientProcess};

/// How a browser is to visit.
#[derive(Clone, Debug)]
pub struct BrowserOptions {
    /// The program, by name or path; the one that is installed where none is named.
    pub program: Option<String>,
    /// Authorities (PEM) to be trusted besides those it knows.
    pub trusted_pem: Vec<String>,
    /// Where hosts are, without asking DNS: the edge, and the family, to be measured.
    pub pins: Vec<HostPin>,
    /// The family of addresses. For Chromium, where it is one of them, a host that is not pinned is looked up before the
    /// browser is started, and pinned: it has no switch for it, and the lookup is no part of the visit then. Firefox asks
    /// for IPv4 addresses alone; IPv6 has to be pinned.
    pub family: Family,
    /// The version of HTTP.
    pub http: BrowserHttp,
    /// The version of TLS over TCP.
    pub tls: BrowserTls,
    /// What the visit takes up of an earlier one.
    pub session: BrowserSession,
    /// How long one visit may take, the one before it included. Starting the browser, and reading what it says of the
    /// visit, come on top: 30 s each at most, where it hangs.
    pub time_limit: Duration,
}

impl Default for BrowserOptions {
    fn default() -> Self {
        Self {
            program: None,
            trusted_pem: Vec::new(),
            pins: Vec::new(),
            family: Family::Any,
            http: BrowserHttp::default(),
            tls: BrowserTls::default(),
            session: BrowserSession::default(),
            time_limit: Duration::from_secs(30),
        }
    }
}

/// An address that a host is to be visited at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPin {
    /// The host's name, as in URLs.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
}

/// The version of HTTP to be offered. Which one was negotiated is in the sample's facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserHttp {
    /// What browser and server agree on.
    #[default]
    Negotiated,
    /// Only HTTP/1.1 is offered.
    Http1,
    /// HTTP/2, or HTTP/1.1 where the server has none; no QUIC.
    Http2,
    /// QUIC at once, without an Alt-Svc or HTTPS record, also for certificates of a root that the browser was not built
    /// with. Firefox tries nothing else then.
    Http3,
}

/// The versions of TLS to be offered over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserTls {
    /// What browsers offer: 1.2 and 1.3.
    #[default]
    Both,
    /// Only 1.2.
    Tls12,
    /// Only 1.3.
    Tls13,
}

/// What a visit takes up of an earlier one, which is made for it and not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserSession {
    /// Nothing: the first visit ever.
    #[default]
    New,
    /// Its connection.
    Kept,
    /// Its TLS session: all connections are closed between the two visits. Over QUIC, browsers resume no session without
    /// early data, where the server allows it.
    Resumed,
    /// The same, and the request is sent before the handshake is complete, where the server allows it. Over TCP, Chromium
    /// does so only with the feature `EnableTLS13EarlyData`, which is switched on then.
    EarlyData,
}

/// What a browser can be told. What it cannot, is refused in words.
#[derive(Clone, Copy, Debug)]
pub struct BrowserAbilities {
    /// It can ask for names through the system's resolver, besides name servers: which of the two is its own choice.
    pub asks_the_system: bool,
    /// It can be given an address for another host's name (`--connect-to`).
    pub connects_elsewhere: bool,
    /// It can be kept to IPv6 without an address that is given.
    pub finds_ipv6: bool,
}

/// A browser's program, running. Each visit has a store of its own within it: no sessions, connections or cookies but
/// those that it made.
pub trait RunningBrowser: Sized + Send + 'static {
    /// What a visit says.
    type Visit: Send + 'static;
    /// Which it is.
    const CLIENT: Client;
    /// Debian's package of it.
    const PACKAGE: &'static str;
    /// What it can be told.
    const ABILITIES: BrowserAbilities;

    /// The program that is installed, by name.
    fn installed_program() -> &'static str;

    /// Starts it for visits to `url`.
    ///
    /// # Errors
    /// It is missing, too old, does not come up, or `url` is none of HTTP.
    fn start(
        url: &str,
        options: &BrowserOptions,
        interruption: &Arc<Interruption>,
    ) -> Result<Self, ClientError>;

    /// Whether it can visit `url` as it was started.
    fn fits(&self, url: &str, options: &BrowserOptions) -> bool;

    /// Visits `url` once.
    ///
    /// # Errors
    /// It ended, hung, or does not do as it is told.
    fn visit(&mut self, url: &str, options: &BrowserOptions) -> Result<Self::Visit, ClientError>;

    /// Its version: "156.0.8078.79".
    fn version(&self) -> Option<&str>;

    /// The process behind it.
    fn process(&self) -> &ClientProcess;

    /// The page that was visited.
    fn page(visit: Self::Visit) -> Navigation;
}

/// A browser that takes samples. It is started with its first visit.
#[derive(Debug)]
pub struct Browser<R> {
    options: BrowserOptions,
    interruption: Arc<Interruption>,
    running: Option<R>,
}

impl<R: RunningBrowser> Browser<R> {
    /// A browser that is started with its first visit.
    pub fn new(options: BrowserOptions) -> Self {
        Self { options, interruption: Arc::default(), running: None }
    }

    /// What ends its visits.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle::from(&self.interruption)
    }

    /// Its version, once it was started.
    pub fn version(&self) -> Option<&str> {
        self.running.as_ref()?.version()
    }

    /// The process behind it, once it was started.
    pub fn process(&self) -> Option<&ClientProcess> {
        self.running.as_ref().map(R::process)
    }

    /// Starts the browser for `url`, if it is not running.
    ///
    /// # Errors
    /// As [`RunningBrowser::start`].
    pub fn start(&mut self, url: &str) -> Result<(), ClientError> {
        self.interruption.begin(self.interruption.ask());
        self.start_begun(url).map(drop)
    }

    /// The same, where the work was asked for, and begun, before.
    fn start_begun(&mut self, url: &str) -> Result<&mut R, ClientError> {
        let fitting = self.running.take().filter(|running| running.fits(url, &self.options));
        let running = match fitting {
            Some(running) => running,
            None => R::start(url, &self.options, &self.interruption)?,
        };
        Ok(self.running.insert(running))
    }

    /// Visits `url` once, as the options say. A page that does not load is a sample with a failure; after an error the
    /// next visit starts another browser.
    ///
    /// # Errors
    /// The browser is missing, ended, hung, or does not do as it is told.
    pub fn visit(&mut self, url: &str) -> Result<R::Visit, ClientError> {
        self.interruption.begin(self.interruption.ask());
        self.visit_begun(url)
    }

    /// The same, where the work was asked for, and begun, before.
    fn visit_begun(&mut self, url: &str) -> Result<R::Visit, ClientError> {
        self.start_begun(url)?;
        let Some(running) = self.running.as_mut() else { return Err(ClientError::Interrupted) };
        let visit = running.visit(url, &self.options);
        if visit.is_err() {
            self.running = None;
        }
        visit
    }

    /// Ends the browser; the next visit starts another.
    pub fn close(&mut self) {
        self.running = None;
    }
}

/// What nothing had answered when the time was over has that for its failure; `page` is whole otherwise.
pub(crate) fn time_out_unanswered(page: &mut Navigation, time_limit: Duration) {
    if page.loaded.is_some() || page.main.failure().is_some() {
        return;
    }
    let (after, limit, peer) = (time_limit, TimeLimit::Visit, LastSeen::Nothing);
    for resource in page.resources.iter_mut().filter(|resource| resource.status.is_none()) {
        let cause = Cause::TimedOut { after, limit, peer };
        resource.failure.get_or_insert(Failure { phase: PhaseName::Wait, cause, at: None });
    }
}

/// What came of a navigation.
#[derive(Debug, Default)]
pub(crate) struct Navigated {
    /// What the browser calls it by, where it said so.
    pub(crate) identifier: Option<String>,
    /// Why the document did not load.
    pub(crate) refused: Option<String>,
}

impl Navigated {
    /// One that was not begun, since the visit before it took all the time.
    pub(crate) fn not_begun() -> Self {
        Self { identifier: None, refused: Some(failure::NO_TIME_LEFT.to_owned()) }
    }

    /// One that took too long.
    pub(crate) fn timed_out(identifier: Option<String>) -> Self {
        Self { identifier, refused: Some(failure::TIMED_OUT.to_owned()) }
    }
}
