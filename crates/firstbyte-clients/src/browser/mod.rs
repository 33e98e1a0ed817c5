//! Code shared by all browsers: visit options, and a browser process that is kept between visits.
//!
//! Input: [`BrowserOptions`] and URLs. Output: visits, as the browser's own module makes them ([`RunningBrowser`]), or
//! samples through a `Prober` ([`BrowserProber`]). `asked` converts the options common to all clients; `failure`
//! converts a browser's errors to the model's.

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

/// How a browser visits a page.
#[derive(Clone, Debug)]
pub struct BrowserOptions {
    /// The program, by name or path; the installed one if absent.
    pub program: Option<String>,
    /// Authorities (PEM) to trust in addition to the browser's own.
    pub trusted_pem: Vec<String>,
    /// Fixed addresses of hosts, instead of asking DNS: selects the edge and the address family to measure.
    pub pins: Vec<HostPin>,
    /// The address family.
    ///
    /// If Chromium is limited to one family, a host that is not pinned is looked up before the browser starts, and then
    /// pinned, because Chromium has no switch for it; the lookup is not part of the visit then. Firefox can be limited
    /// to IPv4 by itself; for IPv6 the address has to be pinned.
    pub family: Family,
    /// The version of HTTP.
    pub http: BrowserHttp,
    /// The version of TLS over TCP.
    pub tls: BrowserTls,
    /// The state that the visit reuses from an earlier one.
    pub session: BrowserSession,
    /// Time limit of one visit, including the one before it. Starting the browser and reading its results are not
    /// included: if it hangs, they take at most 30 s each.
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

/// A fixed address for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPin {
    /// The host's name, as in URLs.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
}

/// The HTTP version to offer. The sample's facts contain the negotiated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserHttp {
    /// Browser and server negotiate the version.
    #[default]
    Negotiated,
    /// Only HTTP/1.1 is offered.
    Http1,
    /// HTTP/2, or HTTP/1.1 if the server does not have it; no QUIC.
    Http2,
    /// QUIC at once, without an Alt-Svc or HTTPS record, also with certificates of additional roots. Firefox tries
    /// nothing else then.
    Http3,
}

/// The TLS versions to offer over TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserTls {
    /// Browsers' default: 1.2 and 1.3.
    #[default]
    Both,
    /// Only 1.2.
    Tls12,
    /// Only 1.3.
    Tls13,
}

/// The state that a visit reuses from an earlier one, which is made for this purpose and not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserSession {
    /// Nothing: the first visit ever.
    #[default]
    New,
    /// The connection.
    Kept,
    /// The TLS session: all connections are closed between the two visits. Over QUIC, browsers resume sessions only
    /// together with early data, if the server allows it.
    Resumed,
    /// The TLS session, and the request is sent before the handshake is complete, if the server allows it. Over TCP,
    /// Chromium does so only with the feature `EnableTLS13EarlyData`, which is enabled then.
    EarlyData,
}

/// Options that a browser supports. Unsupported ones are rejected with a message.
#[derive(Clone, Copy, Debug)]
pub struct BrowserAbilities {
    /// It can resolve names through the system's resolver, in addition to name servers: it chooses by itself.
    pub asks_the_system: bool,
    /// It can connect to the address of another host (`--connect-to`).
    pub connects_elsewhere: bool,
    /// It can be limited to IPv6 without a fixed address.
    pub finds_ipv6: bool,
}

/// A running browser. Each visit has a separate store: it starts without sessions, connections and cookies.
pub trait RunningBrowser: Sized + Send + 'static {
    /// The result of a visit.
    type Visit: Send + 'static;
    /// The browser.
    const CLIENT: Client;
    /// Its Debian package.
    const PACKAGE: &'static str;
    /// Its abilities.
    const ABILITIES: BrowserAbilities;

    /// Name of the installed program.
    fn installed_program() -> &'static str;

    /// Starts the browser for visits to `url`.
    ///
    /// # Errors
    /// If it is missing, too old, or does not start, or if `url` is not an HTTP URL.
    fn start(
        url: &str,
        options: &BrowserOptions,
        interruption: &Arc<Interruption>,
    ) -> Result<Self, ClientError>;

    /// Whether this process can visit `url` with these options.
    fn fits(&self, url: &str, options: &BrowserOptions) -> bool;

    /// Visits `url` once.
    ///
    /// # Errors
    /// If the browser ended, hung, or did not follow its instructions.
    fn visit(&mut self, url: &str, options: &BrowserOptions) -> Result<Self::Visit, ClientError>;

    /// Its version: "156.0.8078.79".
    fn version(&self) -> Option<&str>;

    /// Its process.
    fn process(&self) -> &ClientProcess;

    /// Converts a visit to its page.
    fn page(visit: Self::Visit) -> Navigation;
}

/// A browser that takes samples. It starts with its first visit.
#[derive(Debug)]
pub struct Browser<R> {
    options: BrowserOptions,
    interruption: Arc<Interruption>,
    running: Option<R>,
}

impl<R: RunningBrowser> Browser<R> {
    /// Creates a browser that starts with its first visit.
    pub fn new(options: BrowserOptions) -> Self {
        Self { options, interruption: Arc::default(), running: None }
    }

    /// A handle that interrupts its visits.
    pub fn interrupt_handle(&self) -> InterruptHandle {
        InterruptHandle::from(&self.interruption)
    }

    /// Its version, once it has been started.
    pub fn version(&self) -> Option<&str> {
        self.running.as_ref()?.version()
    }

    /// Its process, once it has been started.
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

    /// The same, for work that is already registered and begun.
    fn start_begun(&mut self, url: &str) -> Result<&mut R, ClientError> {
        let fitting = self.running.take().filter(|running| running.fits(url, &self.options));
        let running = match fitting {
            Some(running) => running,
            None => R::start(url, &self.options, &self.interruption)?,
        };
        Ok(self.running.insert(running))
    }

    /// Visits `url` once, as the options say. A page that does not load is a sample with a failure; after an error, the
    /// next visit starts a new browser.
    ///
    /// # Errors
    /// If the browser is missing, ended, hung, or did not follow its instructions.
    pub fn visit(&mut self, url: &str) -> Result<R::Visit, ClientError> {
        self.interruption.begin(self.interruption.ask());
        self.visit_begun(url)
    }

    /// The same, for work that is already registered and begun.
    fn visit_begun(&mut self, url: &str) -> Result<R::Visit, ClientError> {
        self.start_begun(url)?;
        let Some(running) = self.running.as_mut() else { return Err(ClientError::Interrupted) };
        let visit = running.visit(url, &self.options);
        if visit.is_err() {
            self.running = None;
        }
        visit
    }

    /// Ends the browser; the next visit starts a new one.
    pub fn close(&mut self) {
        self.running = None;
    }
}

/// Gives unanswered resources of a page that did not load in time a timeout as their failure. The rest of `page` has to
/// be complete.
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

/// Result of a navigation.
#[derive(Debug, Default)]
pub(crate) struct Navigated {
    /// The browser's identifier for it, if known.
    pub(crate) identifier: Option<String>,
    /// Why the document did not load.
    pub(crate) refused: Option<String>,
}

impl Navigated {
    /// A navigation that was not started, because the previous visit used up the time.
    pub(crate) fn not_begun() -> Self {
        Self { identifier: None, refused: Some(failure::NO_TIME_LEFT.to_owned()) }
    }

    /// A navigation that took too long.
    pub(crate) fn timed_out(identifier: Option<String>) -> Self {
        Self { identifier, refused: Some(failure::TIMED_OUT.to_owned()) }
    }
}
