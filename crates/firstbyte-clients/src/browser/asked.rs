//! Converts the options common to all clients to options of a browser; reports in words what the browser cannot do.

use std::path::Path;

use firstbyte_core::timeline::SessionMechanism;
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::options::{
    Client, ConnectTo, Family, HttpOptions, HttpVersion, Options, ResolveOverride, ResolverChoice,
    SessionUse, TlsOptions, TlsVersion,
};
use firstbyte_probe::probe::{MOST_TEXT, SetupError, Target, read_text};

use super::{
    BrowserAbilities, BrowserHttp, BrowserOptions, BrowserSession, BrowserTls, HostPin,
    RunningBrowser,
};

/// The browser that gets the options.
struct Asked {
    client: Client,
    abilities: BrowserAbilities,
}

impl BrowserOptions {
    /// Options for visits by `R` as requested in `options`, without the certificates from files, which are not read
    /// yet.
    ///
    /// # Errors
    /// If the browser cannot do something, or cannot show that it did: the reason in words.
    pub fn asked<R: RunningBrowser>(options: &Options) -> Result<Self, String> {
        Asked { client: R::CLIENT, abilities: R::ABILITIES }.options(options)
    }

    /// The same, with the certificates.
    ///
    /// # Errors
    /// As [`asked`](Self::asked), or if a file cannot be read.
    pub(super) fn complete<R: RunningBrowser>(options: &Options) -> Result<Self, SetupError> {
        let mut asked = Self::asked::<R>(options).map_err(SetupError::Client)?;
        asked.trusted_pem = issuers(options)?;
        Ok(asked)
    }

    /// Checks that the browser can visit `target` with these `options`.
    ///
    /// # Errors
    /// If it cannot: the reason in words.
    pub fn check<R: RunningBrowser>(target: &Target, options: &Options) -> Result<(), String> {
        Asked { client: R::CLIENT, abilities: R::ABILITIES }.check(target, options)
    }
}

/// A file with more certificates than this is a list of the public issuers, which browsers have built in.
const FEW: usize = 10;

/// The issuers to trust in addition to the browser's own: those of the given file; otherwise, as for all other clients,
/// those of `SSL_CERT_FILE`, if these are few (a lab's, a company's).
fn issuers(options: &Options) -> Result<Vec<String>, SetupError> {
    if let Some(path) = &options.tls.ca_file {
        let read = read_text(path, MOST_TEXT);
        let read = read.map_err(|error| {
            SetupError::Client(format!("cannot read {}: {error}", path.display()))
        });
        return Ok(vec![read?]);
    }
    Ok(issuers_of_environment().into_iter().collect())
}

fn issuers_of_environment() -> Option<String> {
    let pem = read_text(Path::new(&std::env::var_os("SSL_CERT_FILE")?), MOST_TEXT).ok()?;
    (1..=FEW).contains(&pem.matches("-----BEGIN CERTIFICATE-----").count()).then_some(pem)
}

/// Whether the browser gets additional issuers.
pub(super) fn are_issuers_told(options: &Options) -> bool {
    options.tls.ca_file.is_some() || issuers_of_environment().is_some()
}

impl Asked {
    fn cannot<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{} cannot {what}", self.client.name()))
    }

    fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        if !target.tls && options.http.version == HttpVersion::Http2 {
            return self.cannot("use HTTP/2 without TLS");
        }
        if target.zone.is_some() {
            return self.cannot("visit an IPv6 address with a zone");
        }
        let other = |port: &Option<u16>| port.is_some_and(|port| port != target.port);
        if options.resolve.iter().any(|given| other(&given.port))
            || options.connect_to.iter().any(|to| other(&to.from_port))
        {
            return self.cannot("use addresses given for ports other than the URL's");
        }
        let given = |host: &Option<String>| host.as_deref() == Some(&*target.host);
        if options.family == Family::V6
            && !self.abilities.finds_ipv6
            && !options.resolve.iter().any(|one| given(&one.host))
        {
            return self
                .cannot("be limited to IPv6; give it an IPv6 address of the host with --resolve");
        }
        Ok(())
    }

    fn options(&self, options: &Options) -> Result<BrowserOptions, String> {
        // Listed in full, so that a new option cannot be forgotten here.
        let Options {
            client: _,
            resolver,
            family,
            resolve,
            connect_to,
            bind,
            tls,
            http,
            connect_timeout,
            max_time,
            reuse,
            // A browser follows redirects, and each is a leg of the sample.
            max_redirects: _,
            // Rejected before any client is asked.
            requests: _,
            attempt_delay,
            proxy_protocol,
            proxy,
        } = options;
        if proxy.is_some() {
            return self.cannot("go through a proxy");
        }
        if attempt_delay.is_some() || *proxy_protocol {
            return self.cannot("change how its connections begin");
        }
        let system = self.abilities.asks_the_system && *resolver == ResolverChoice::System;
        if *resolver != ResolverChoice::Dns && !system {
            return self.cannot("use a given resolver; it resolves names itself");
        }
        if *bind != Bind::Any {
            return self.cannot("bind its connections to an interface or a local address");
        }
        if *connect_timeout != Options::default().connect_timeout {
            return self.cannot("limit the time to connect; use -m to limit the whole visit");
        }
        let mut pins = self.resolved(resolve, *family)?;
        pins.extend(self.connected_to(connect_to)?);
        let defaults = BrowserOptions::default();
        Ok(BrowserOptions {
            pins,
            family: *family,
            http: self.http(http)?,
            tls: self.tls(tls)?,
            session: self.session(tls, *reuse, http.version)?,
            time_limit: max_time.unwrap_or(defaults.time_limit),
            ..defaults
        })
    }

    fn resolved(&self, given: &[ResolveOverride], family: Family) -> Result<Vec<HostPin>, String> {
        let pin = |given: &ResolveOverride| {
            let Some(host) = given.host.clone() else {
                return self.cannot("use one address for all hosts");
            };
            if given.zone.is_some() {
                return self.cannot("visit an IPv6 address with a zone");
            }
            let mut allowed = given.addresses.iter().filter(|address| family.allows(address));
            match (allowed.next(), allowed.next()) {
                (Some(address), None) => Ok(HostPin { host, address: *address }),
                _ => self.cannot("use several or no addresses given for a host; give exactly one"),
            }
        };
        given.iter().map(pin).collect()
    }

    fn connected_to(&self, given: &[ConnectTo]) -> Result<Vec<HostPin>, String> {
        if !given.is_empty() && !self.abilities.connects_elsewhere {
            return self.cannot("connect to a host or port other than the URL's");
        }
        let pin = |to: &ConnectTo| {
            let ConnectTo { from_host, from_port: _, to_host, to_port } = to;
            let (Some(host), Some(address)) = (from_host.clone(), to_host) else {
                return self
                    .cannot("connect to another port, or use another host in place of all hosts");
            };
            let address = address.trim_start_matches('[').trim_end_matches(']').parse();
            match (address, to_port) {
                (Ok(address), None) => Ok(HostPin { host, address }),
                _ => self.cannot("connect to another port, or to another host given by name"),
            }
        };
        given.iter().map(pin).collect()
    }

    fn http(&self, http: &HttpOptions) -> Result<BrowserHttp, String> {
        let HttpOptions {
            version,
            method,
            method_forced: _,
            exact: _,
            headers,
            body,
            user_agent,
            // A browser always asks for compressed bodies.
            compressed: _,
            fail,
            output,
            keep: _,
        } = http;
        if *method != http::Method::GET || body.is_some() {
            return self.cannot("send anything except the GET request of a page");
        }
        if !headers.is_empty() || *user_agent != HttpOptions::default().user_agent {
            return self.cannot("send given header fields; it sends its own");
        }
        if output.is_some() {
            return self.cannot("write the body to a file");
        }
        if *fail {
            return self.cannot("treat an HTTP status as a failure (-f)");
        }
        Ok(match version {
            HttpVersion::Negotiate => BrowserHttp::Negotiated,
            HttpVersion::Http1 => BrowserHttp::Http1,
            HttpVersion::Http2 => BrowserHttp::Http2,
            HttpVersion::Http3 => BrowserHttp::Http3,
        })
    }

    fn tls(&self, tls: &TlsOptions) -> Result<BrowserTls, String> {
        let TlsOptions {
            min,
            max,
            groups,
            insecure,
            ca_file: _,
            session: _,
            client_certificate,
            alpn,
            cipher_suites,
            keep: _,
        } = tls;
        if !groups.is_empty() || alpn.is_some() || !cipher_suites.is_empty() {
            return self.cannot("offer given key-exchange groups, protocols or cipher suites");
        }
        if *insecure {
            return self.cannot("ignore bad certificates; use --cacert to make it trust an issuer");
        }
        if client_certificate.is_some() {
            return self.cannot("use a client certificate");
        }
        Ok(match (min, max) {
            (TlsVersion::V1_2, TlsVersion::V1_3) => BrowserTls::Both,
            (_, TlsVersion::V1_2) => BrowserTls::Tls12,
            (TlsVersion::V1_3, _) => BrowserTls::Tls13,
        })
    }

    fn session(
        &self,
        tls: &TlsOptions,
        reuse: bool,
        http: HttpVersion,
    ) -> Result<BrowserSession, String> {
        if reuse {
            return Ok(BrowserSession::Kept);
        }
        match tls.session {
            SessionUse::Full => Ok(BrowserSession::New),
            SessionUse::Resume(Some(SessionMechanism::SessionId | SessionMechanism::Ticket)) => {
                self.cannot("report by which mechanism a TLS 1.2 session was resumed")
            }
            SessionUse::Resume(_) if http == HttpVersion::Http3 => {
                self.cannot("resume a session over QUIC without early data")
            }
            SessionUse::Resume(_) => Ok(BrowserSession::Resumed),
            SessionUse::EarlyData { .. } if tls.max < TlsVersion::V1_3 => {
                self.cannot("send early data with TLS 1.2, which does not support it")
            }
            SessionUse::EarlyData { any_method: _ } => Ok(BrowserSession::EarlyData),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_probe::probe::options::Output;

    use super::*;
    use crate::chromium::RunningChromium;
    use crate::firefox::RunningFirefox;

    fn asked<R: RunningBrowser>(
        change: impl FnOnce(&mut Options),
    ) -> Result<BrowserOptions, String> {
        let mut options = Options::default();
        change(&mut options);
        let target = Target::parse("https://site.test:8443/").unwrap();
        BrowserOptions::check::<R>(&target, &options)?;
        BrowserOptions::asked::<R>(&options)
    }

    fn resolve(port: u16, addresses: &[&str]) -> ResolveOverride {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        let host = Some("site.test".to_owned());
        ResolveOverride { host, port: Some(port), addresses, zone: None }
    }

    fn what_is_asked_for_is_what_it_is_told<R: RunningBrowser>() {
        let plain = asked::<R>(|_| {}).unwrap();
        assert_eq!((plain.http, plain.tls), (BrowserHttp::Negotiated, BrowserTls::Both));
        assert_eq!(plain.session, BrowserSession::New);
        let told = asked::<R>(|options| {
            options.reuse = true;
            options.family = Family::V6;
            options.tls.max = TlsVersion::V1_2;
            options.http.version = HttpVersion::Http1;
            options.resolve.push(resolve(8443, &["192.0.2.1", "2001:db8::1"]));
        })
        .unwrap();
        assert_eq!((told.session, told.tls), (BrowserSession::Kept, BrowserTls::Tls12));
        assert_eq!((told.http, told.family), (BrowserHttp::Http1, Family::V6));
        let address = "2001:db8::1".parse().unwrap();
        assert_eq!(told.pins, [HostPin { host: "site.test".to_owned(), address }]);
        let psk = SessionUse::Resume(Some(SessionMechanism::Psk));
        assert_eq!(asked::<R>(|o| o.tls.session = psk).unwrap().session, BrowserSession::Resumed);
    }

    #[test]
    fn browsers_are_told_what_is_asked_for() {
        what_is_asked_for_is_what_it_is_told::<RunningChromium>();
        what_is_asked_for_is_what_it_is_told::<RunningFirefox>();
    }

    type Change = fn(&mut Options);

    fn refuses<R: RunningBrowser>(changes: &[(&str, Change)]) {
        for (word, change) in changes {
            let why = asked::<R>(change).unwrap_err();
            let begins = format!("{} cannot ", R::CLIENT.name());
            assert!(why.starts_with(&begins) && why.contains(word), "{word}: {why}");
        }
    }

    #[test]
    fn what_browsers_cannot_do_is_said() {
        let both: [(&str, Change); 16] = [
            ("names", |o| o.resolver = ResolverChoice::Server(([9, 9, 9, 9], 53).into())),
            ("groups", |o| o.tls.groups.push("x25519".into())),
            ("certificates", |o| o.tls.insecure = true),
            ("GET", |o| o.http.method = http::Method::POST),
            ("header fields", |o| o.http.user_agent = "curl".into()),
            ("status", |o| o.http.fail = true),
            ("file", |o| o.http.output = Some(Output::Stdout)),
            ("-m", |o| o.connect_timeout = Duration::from_secs(1)),
            ("for ports other", |o| o.resolve = vec![resolve(1, &["::1"])]),
            ("several or no addresses", |o| o.resolve = vec![resolve(8443, &["::1", "127.0.0.1"])]),
            ("all hosts", |o| {
                o.resolve = vec![ResolveOverride { host: None, ..resolve(8443, &["::1"]) }];
            }),
            ("a zone", |o| {
                let zone = Some("lo".to_owned());
                o.resolve = vec![ResolveOverride { zone, ..resolve(8443, &["::1"]) }];
            }),
            ("mechanism", |o| o.tls.session = SessionUse::Resume(Some(SessionMechanism::Ticket))),
            ("over QUIC", |o| {
                o.http.version = HttpVersion::Http3;
                o.tls.session = SessionUse::Resume(None);
            }),
            ("TLS 1.2", |o| {
                o.tls.max = TlsVersion::V1_2;
                o.tls.session = SessionUse::EarlyData { any_method: false };
            }),
            ("bind", |o| o.bind = Bind::Address("192.0.2.1".parse().unwrap())),
        ];
        refuses::<RunningChromium>(&both);
        refuses::<RunningFirefox>(&both);
        refuses::<RunningChromium>(&[("names", |o| o.resolver = ResolverChoice::System)]);
        refuses::<RunningFirefox>(&[("IPv6", |o| o.family = Family::V6)]);
    }
}
