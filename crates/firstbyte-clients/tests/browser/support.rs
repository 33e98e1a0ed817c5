//! A server, and a browser that trusts it.

use std::net::Ipv4Addr;
use std::time::Duration;

use firstbyte_clients::browser::{Browser, BrowserOptions, HostPin, RunningBrowser};
use firstbyte_clients::chromium::{ChromiumVisit, RunningChromium};
use firstbyte_clients::process::find;
use firstbyte_core::timeline::{Connection, Mark, Sample};
use firstbyte_lab::builtin_server::{Config, Content, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;

use crate::permits::Permits;

pub(crate) const HOST: &str = "site.test";

pub(crate) struct Bench {
    pub(crate) server: Handle,
    pub(crate) ca_pem: String,
    _permits: Permits,
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        assert_installed("certutil", "libnss3-tools");
        let permits = Permits::browser();
        let ca = Ca::new().unwrap();
        let mut config = Config::new(ca.issue(&[HOST.to_owned()]).unwrap());
        change(&mut config);
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        Self { server, ca_pem: ca.root_pem().to_owned(), _permits: permits }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{HOST}:{}{path}", self.server.addr().port())
    }

    pub(crate) fn options(&self) -> BrowserOptions {
        BrowserOptions {
            trusted_pem: vec![self.ca_pem.clone()],
            pins: vec![HostPin { host: HOST.to_owned(), address: Ipv4Addr::LOCALHOST.into() }],
            time_limit: Duration::from_secs(60),
            ..BrowserOptions::default()
        }
    }

    /// Visits "/" with a new browser.
    pub(crate) fn visit(&self, change: impl FnOnce(&mut BrowserOptions)) -> ChromiumVisit {
        self.visit_to(&self.url("/"), change)
    }

    pub(crate) fn visit_to(
        &self,
        url: &str,
        change: impl FnOnce(&mut BrowserOptions),
    ) -> ChromiumVisit {
        let visit = self.visit_by::<RunningChromium>(url, change);
        check(&visit);
        visit
    }

    pub(crate) fn visit_by<R: RunningBrowser>(
        &self,
        url: &str,
        change: impl FnOnce(&mut BrowserOptions),
    ) -> R::Visit {
        assert_installed(R::installed_program(), R::PACKAGE);
        let mut options = self.options();
        change(&mut options);
        Browser::<R>::new(options).visit(url).unwrap()
    }
}

/// Delays the icon, which browsers request after the page.
pub(crate) fn slow_icon(config: &mut Config) {
    let icon = Content {
        content_type: "image/x-icon".to_owned(),
        body: vec![0; 100],
        think_time: Duration::from_millis(400),
    };
    config.content.insert("/favicon.ico".to_owned(), icon);
}

fn assert_installed(program: &str, package: &str) {
    assert!(
        find(program).is_some(),
        "{program} is not installed: apt-get install {package}, or scripts/setup test"
    );
}

/// Marks of a visit over TCP and TLS, to a pinned address.
pub(crate) const TCP_MARKS: [&str; 8] = [
    "connect_start",
    "tcp_connected",
    "secure_connection_start",
    "handshake_complete",
    "request_start",
    "request_end",
    "response_start",
    "response_end",
];

/// The connection of a visit that succeeded.
pub(crate) fn connection(sample: &Sample) -> &Connection {
    let connection = &sample.connection;
    assert_eq!(connection.failure, None, "{connection:#?}");
    connection
}

pub(crate) fn version(connection: &Connection) -> &str {
    connection.facts.http.as_ref().unwrap().version.as_deref().unwrap_or("none")
}

pub(crate) fn marks(connection: &Connection) -> Vec<&'static str> {
    connection.marks.iter().map(|(mark, _)| mark.name()).collect()
}

/// Checks properties of every visit.
pub(crate) fn check(visit: &ChromiumVisit) {
    visit.page.check().unwrap_or_else(|flaw| panic!("{flaw}: {visit:#?}"));
    let connection = &visit.sample().connection;
    for flight in &connection.flights {
        assert!(flight.chunks.is_sorted_by_key(|chunk| chunk.stamp.at), "{flight:?}");
    }
    assert!(connection.flights.is_sorted_by_key(|flight| flight.first()), "{connection:#?}");
    let order = [Mark::ConnectStart, Mark::RequestStart, Mark::ResponseStart, Mark::ResponseEnd];
    let times: Vec<_> = order.iter().filter_map(|mark| connection.marks.at(*mark)).collect();
    assert!(times.is_sorted(), "{connection:#?}");
    let client = connection.facts.client.as_ref().unwrap();
    assert_eq!(client.name, "Chromium");
    assert!(client.version.as_ref().unwrap().starts_with(|c: char| c.is_ascii_digit()));
}

/// A field of the server's response that describes the request.
pub(crate) fn server_said(connection: &Connection, name: &str) -> String {
    let http = connection.facts.http.as_ref().unwrap();
    http.header(name).unwrap_or("nothing").to_owned()
}
