//! What a visit asks for, as Chromium's options; and what Chromium cannot be asked for, in words.

use std::time::Duration;

use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::options::{
    Client, ConnectTo, HttpOptions, HttpVersion, Options, ResolverChoice, SessionUse, TlsOptions,
    TlsVersion,
};

use super::{ChromiumHttp, ChromiumOptions, ChromiumSession, ChromiumTls, HostPin};

/// Time for a visit and the one before it, where nobody says.
const TIME_LIMIT: Duration = Duration::from_secs(30);

impl ChromiumOptions {
    /// Those that visit as `options` ask, but for the certificates of files, which are not read yet.
    ///
    /// # Errors
    /// What Chromium cannot be asked for.
    pub fn asked(options: &Options) -> Result<Self, String> {
        // What is new has to be thought of here.
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
            // A browser follows them, and each is a leg of the sample.
            max_redirects: _,
        } = options;
        if *resolver != ResolverChoice::Dns {
            return cannot(
                "be told whom to ask for names: it asks the system's name servers itself",
            );
        }
        if *bind != Bind::Any {
            return cannot("be told where its connections are to leave from");
        }
        if *connect_timeout != Options::default().connect_timeout {
            return cannot("limit the time to connect; -m limits the visit");
        }
        let mut pins = Vec::new();
        for given in resolve {
            let host = given.host.as_ref().ok_or_else(|| {
                "Chromium cannot be given an address for all hosts; --resolve needs one".to_owned()
            })?;
            let address = given.addresses.iter().find(|address| family.allows(address));
            let address = address.ok_or_else(|| {
                format!("no address that --resolve gives for {host} is {}", family.name())
            })?;
            pins.push(HostPin { host: host.clone(), address: *address });
        }
        for ConnectTo { from_host, from_port: _, to_host, to_port } in connect_to {
            let (Some(host), Some(address)) = (from_host, to_host) else {
                return cannot("connect to another host for all hosts, or to another port");
            };
            let address = address.trim_start_matches('[').trim_end_matches(']').parse();
            let (Ok(address), None) = (address, to_port) else {
                return cannot("connect to another port, or to another host by name");
            };
            pins.push(HostPin { host: host.clone(), address });
        }
        Ok(Self {
            pins,
            family: *family,
            http: http_asked(http)?,
            tls: tls_asked(tls)?,
            session: session_asked(tls.session, *reuse, http.version)?,
            time_limit: max_time.unwrap_or(TIME_LIMIT),
            ..Self::default()
        })
    }
}

fn cannot<T>(what: &str) -> Result<T, String> {
    Err(format!("{} cannot {what}", Client::Chromium.name()))
}

fn http_asked(http: &HttpOptions) -> Result<ChromiumHttp, String> {
    let HttpOptions {
        version,
        method,
        method_forced: _,
        headers,
        body,
        user_agent,
        // A browser always asks for compressed bodies.
        compressed: _,
        fail,
        output,
    } = http;
    if *method != http::Method::GET || body.is_some() {
        return cannot("be asked for anything but the GET of a page");
    }
    if !headers.is_empty() || *user_agent != HttpOptions::default().user_agent {
        return cannot("be given header fields: it sends its own");
    }
    if output.is_some() {
        return cannot("write the body to a file");
    }
    if *fail {
        return cannot("take a status for a failure (-f)");
    }
    Ok(match version {
        HttpVersion::Negotiate => ChromiumHttp::Negotiated,
        HttpVersion::Http1 => ChromiumHttp::Http1,
        HttpVersion::Http2 => ChromiumHttp::Http2,
        HttpVersion::Http3 => ChromiumHttp::Http3,
    })
}

fn tls_asked(tls: &TlsOptions) -> Result<ChromiumTls, String> {
    let TlsOptions { min, max, groups, insecure, ca_file: _, session: _, client_certificate } = tls;
    if !groups.is_empty() {
        return cannot("be told which key-exchange groups to offer");
    }
    if *insecure {
        return cannot("be told to overlook bad certificates; --cacert makes it trust an issuer");
    }
    if client_certificate.is_some() {
        return cannot("be given a client certificate");
    }
    Ok(match (min, max) {
        (TlsVersion::V1_2, TlsVersion::V1_3) => ChromiumTls::Both,
        (_, TlsVersion::V1_2) => ChromiumTls::Tls12,
        (TlsVersion::V1_3, _) => ChromiumTls::Tls13,
    })
}

fn session_asked(
    session: SessionUse,
    reuse: bool,
    http: HttpVersion,
) -> Result<ChromiumSession, String> {
    Ok(match session {
        SessionUse::Full if reuse => ChromiumSession::Kept,
        SessionUse::Full => ChromiumSession::New,
        SessionUse::Resume(None) if http == HttpVersion::Http3 => {
            return cannot("resume a session over QUIC without early data");
        }
        SessionUse::Resume(None) => ChromiumSession::Resumed,
        SessionUse::Resume(Some(_)) => {
            return cannot("be told by which mechanism to resume a session");
        }
        SessionUse::EarlyData { any_method: _ } => ChromiumSession::EarlyData,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_probe::probe::options::{Family, ResolveOverride};

    #[test]
    fn what_is_asked_for_is_what_it_is_told() {
        let mut options = Options::default();
        let asked = ChromiumOptions::asked(&options).unwrap();
        assert_eq!(asked.session, ChromiumSession::New);
        options.reuse = true;
        options.family = Family::V6;
        options.tls.max = TlsVersion::V1_2;
        options.http.version = HttpVersion::Http1;
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|text| text.parse().unwrap());
        let given = ResolveOverride {
            host: Some("site.test".into()),
            port: None,
            addresses: addresses.into(),
        };
        options.resolve.push(given);
        let asked = ChromiumOptions::asked(&options).unwrap();
        assert_eq!((asked.session, asked.tls), (ChromiumSession::Kept, ChromiumTls::Tls12));
        assert_eq!(asked.http, ChromiumHttp::Http1);
        assert_eq!(asked.pins, [HostPin { host: "site.test".into(), address: addresses[1] }]);
    }

    #[test]
    fn what_it_cannot_do_is_said() {
        type Change = fn(&mut Options);
        let cannot: [(&str, Change); 8] = [
            ("names", |options| options.resolver = ResolverChoice::System),
            ("groups", |options| options.tls.groups.push("x25519".into())),
            ("certificates", |options| options.tls.insecure = true),
            ("GET", |options| options.http.method = http::Method::POST),
            ("header fields", |options| options.http.user_agent = "curl".into()),
            ("status", |options| options.http.fail = true),
            ("over QUIC", |options| {
                options.http.version = HttpVersion::Http3;
                options.tls.session = SessionUse::Resume(None);
            }),
            ("-m", |options| options.connect_timeout = Duration::from_secs(1)),
        ];
        for (word, change) in cannot {
            let mut options = Options::default();
            change(&mut options);
            let why = ChromiumOptions::asked(&options).unwrap_err();
            assert!(why.starts_with("Chromium cannot ") && why.contains(word), "{why}");
        }
    }
}
