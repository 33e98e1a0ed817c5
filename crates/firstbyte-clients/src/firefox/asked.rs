//! What is asked of every client, as options of Firefox; what it cannot do is said in words.
//!
//! Input: `firstbyte_probe::probe::options::Options`, and the target. Output: [`FirefoxOptions`], or why not.

use std::time::Duration;

use firstbyte_core::timeline::SessionMechanism;
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::{
    Family, HttpOptions, HttpVersion, Options, ResolverChoice, SessionUse, TlsOptions, TlsVersion,
};

use super::{FirefoxHttp, FirefoxOptions, FirefoxSession, FirefoxTls, HostPin};

impl FirefoxOptions {
    /// Those that visit as `options` ask, but for the certificates of files, which are not read yet.
    ///
    /// # Errors
    /// What of it Firefox cannot do, or cannot show, in words.
    pub fn asked(options: &Options) -> Result<Self, String> {
        if !options.connect_to.is_empty() {
            return cannot("connect to another host or port than the URL's");
        }
        if options.bind != Bind::Any {
            return cannot("be told where its connections leave from");
        }
        if options.resolver != ResolverChoice::Dns && options.resolver != ResolverChoice::System {
            return cannot("ask a DNS server of one's choice; it asks the system's resolver");
        }
        if options.connect_timeout != Options::default().connect_timeout {
            return cannot("limit the time to connect; -m limits the visit");
        }
        if options.family == Family::V6 && options.resolve.is_empty() {
            return cannot("be kept to IPv6; give it an IPv6 address of the host (--resolve)");
        }
        Ok(Self {
            http: http(&options.http)?,
            tls: tls_versions(&options.tls)?,
            session: session(options)?,
            pins: pins(options)?,
            ipv4_only: options.family == Family::V4,
            time_limit: options.max_time.unwrap_or(TIME_LIMIT),
            ..Self::default()
        })
    }

    /// Whether they can be kept to for `target`.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn check(options: &Options, target: &Target) -> Result<(), String> {
        if options.resolve.iter().any(|given| given.port.is_some_and(|port| port != target.port)) {
            return cannot("be given addresses for other ports than the URL's");
        }
        let given = |host: &Option<String>| host.as_deref() == Some(&*target.host);
        if options.family == Family::V6 && !options.resolve.iter().any(|one| given(&one.host)) {
            return cannot("be kept to IPv6; give it an IPv6 address of the host (--resolve)");
        }
        Ok(())
    }
}

/// How long a visit may take where nobody says.
const TIME_LIMIT: Duration = Duration::from_secs(30);

fn cannot<T>(what: &str) -> Result<T, String> {
    Err(format!("Firefox cannot {what}"))
}

fn http(asked: &HttpOptions) -> Result<FirefoxHttp, String> {
    if asked.method.as_str() != "GET" {
        return cannot("be made to send another method than GET");
    }
    if asked.body.is_some() {
        return cannot("be made to send a body");
    }
    if !asked.headers.is_empty() || asked.user_agent != HttpOptions::default().user_agent {
        return cannot("be made to change header fields here");
    }
    if asked.output.is_some() {
        return cannot("write the body to a file here");
    }
    if asked.fail {
        return cannot("take a status of 400 or more for a failure");
    }
    Ok(match asked.version {
        HttpVersion::Negotiate => FirefoxHttp::Negotiated,
        HttpVersion::Http1 => FirefoxHttp::Http1,
        HttpVersion::Http2 => FirefoxHttp::Http2,
        HttpVersion::Http3 => FirefoxHttp::Http3,
    })
}

fn tls_versions(asked: &TlsOptions) -> Result<FirefoxTls, String> {
    if asked.insecure {
        return cannot("be made to ignore bad certificates: trust the issuer instead (--cacert)");
    }
    if !asked.groups.is_empty() {
        return cannot("be told which key-exchange groups to offer");
    }
    if asked.client_certificate.is_some() {
        return cannot("be given a client certificate here");
    }
    Ok(match (asked.min, asked.max) {
        (TlsVersion::V1_3, _) => FirefoxTls::Tls13,
        (_, TlsVersion::V1_2) => FirefoxTls::Tls12,
        _ => FirefoxTls::Both,
    })
}

fn session(options: &Options) -> Result<FirefoxSession, String> {
    if options.reuse {
        return Ok(FirefoxSession::Kept);
    }
    match options.tls.session {
        SessionUse::Full => Ok(FirefoxSession::New),
        SessionUse::Resume(Some(SessionMechanism::SessionId | SessionMechanism::Ticket)) => {
            cannot("say by which mechanism of TLS 1.2 a session was resumed")
        }
        SessionUse::Resume(_) if options.http.version == HttpVersion::Http3 => {
            cannot("resume a session over QUIC without early data")
        }
        SessionUse::Resume(_) => Ok(FirefoxSession::Resumed),
        SessionUse::EarlyData { .. } if options.tls.max < TlsVersion::V1_3 => {
            cannot("send early data with TLS 1.2: nobody can")
        }
        // It says "accepted", and not how many bytes left early: nothing that could be proven.
        SessionUse::EarlyData { .. } => cannot("say how much of a request went as early data"),
    }
}

fn pins(options: &Options) -> Result<Vec<HostPin>, String> {
    let mut pins = Vec::new();
    for given in &options.resolve {
        let Some(host) = given.host.clone() else {
            return cannot("be given an address for all hosts");
        };
        let mut allowed = given.addresses.iter().filter(|address| options.family.allows(address));
        let (Some(address), None) = (allowed.next(), allowed.next()) else {
            return cannot("be given several addresses of a host, or none, to choose from");
        };
        pins.push(HostPin { host, address: *address });
    }
    Ok(pins)
}

#[cfg(test)]
mod tests {
    use firstbyte_probe::probe::options::ResolveOverride;

    use super::*;

    fn asked(change: impl FnOnce(&mut Options)) -> Result<FirefoxOptions, String> {
        let mut options = Options::default();
        change(&mut options);
        FirefoxOptions::check(&options, &Target::parse("https://site.test:8443/").unwrap())?;
        FirefoxOptions::asked(&options)
    }

    fn resolve(port: u16, addresses: &[&str]) -> ResolveOverride {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        ResolveOverride { host: Some("site.test".to_owned()), port: Some(port), addresses }
    }

    #[test]
    fn what_is_asked_for_is_passed_on() {
        let plain = asked(|_| {}).unwrap();
        assert_eq!((plain.http, plain.tls), (FirefoxHttp::Negotiated, FirefoxTls::Both));
        assert_eq!(plain.session, FirefoxSession::New);
        let options = asked(|options| {
            options.http.version = HttpVersion::Http3;
            options.tls.min = TlsVersion::V1_3;
            options.resolve = vec![resolve(8443, &["::1"])];
            options.family = Family::V6;
        })
        .unwrap();
        assert_eq!((options.http, options.tls), (FirefoxHttp::Http3, FirefoxTls::Tls13));
        assert_eq!(options.session, FirefoxSession::New);
        let address = "::1".parse().unwrap();
        assert_eq!(options.pins, [HostPin { host: "site.test".to_owned(), address }]);
        assert_eq!(asked(|options| options.reuse = true).unwrap().session, FirefoxSession::Kept);
        assert!(asked(|options| options.family = Family::V4).unwrap().ipv4_only);
    }

    #[test]
    fn what_it_cannot_do_is_said() {
        let refused = |change: fn(&mut Options)| asked(change).unwrap_err();
        for (change, word) in [
            ((|o| o.family = Family::V6) as fn(&mut Options), "IPv6"),
            (|o| o.tls.groups = vec!["X25519".to_owned()], "groups"),
            (|o| o.tls.insecure = true, "certificates"),
            (|o| o.resolver = ResolverChoice::Server(([9, 9, 9, 9], 53).into()), "DNS server"),
            (|o| o.resolve = vec![resolve(1, &["::1"])], "other ports"),
            (|o| o.resolve = vec![resolve(8443, &["::1", "127.0.0.1"])], "several addresses"),
            (|o| o.tls.session = SessionUse::Resume(Some(SessionMechanism::Ticket)), "mechanism"),
        ] {
            let said = refused(change);
            assert!(said.starts_with("Firefox cannot ") && said.contains(word), "{said}");
        }
    }
}
