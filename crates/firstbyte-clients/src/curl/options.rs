//! Checks whether this curl supports the requested options; if not, says why in words.
//!
//! Input: `firstbyte_probe`'s options. Output: [`CurlOptions`], which `config` writes for curl.

use std::net::SocketAddr;
use std::sync::Arc;

use firstbyte_core::timeline::SessionMechanism;
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::{
    HttpVersion, Options, ResolverChoice, SessionUse, TlsOptions, TlsVersion,
};

use super::capabilities::CurlCapabilities;

/// Options of visits, checked against the abilities of this curl.
#[derive(Clone, Debug)]
pub struct CurlOptions {
    /// The program: a name to look up on `PATH`, or a path.
    pub program: String,
    pub(super) options: Options,
    /// Abilities of this curl.
    pub(super) able: Arc<CurlCapabilities>,
    /// Groups by the names of its TLS library.
    pub(super) groups: Vec<&'static str>,
}

impl CurlOptions {
    /// Checks the options for visits by `program`, which has the abilities `able`.
    ///
    /// # Errors
    /// If this curl cannot do something, or cannot show that it did: the reason in words.
    pub fn new(
        program: &str,
        options: &Options,
        able: Arc<CurlCapabilities>,
    ) -> Result<Self, String> {
        let curl = &*able;
        // Listed in full, so that a new option cannot be forgotten here.
        let Options {
            client: _,
            resolver,
            family,
            resolve,
            connect_to: _,
            bind: _,
            tls,
            http,
            connect_timeout: _,
            max_time: _,
            reuse: _,
            max_redirects: _,
            // Rejected before any client is asked.
            requests: _,
            // Only translated curl command lines set these, and our own client runs them.
            attempt_delay: _,
            proxy_protocol: _,
            proxy,
        } = options;
        if proxy.is_some() {
            return Err(
                "curl cannot go through a proxy here: its own times of tunnels are not read".into(),
            );
        }
        if let ResolverChoice::Server(server) = resolver {
            if !(curl.asks_name_servers && curl.has_option("dns-servers")) {
                return Err(format!(
                    "{} cannot use a given name server: it was built without c-ares",
                    named(curl)
                ));
            }
            if let SocketAddr::V6(server) = server
                && (server.port() != 53 || server.scope_id() != 0)
            {
                return Err("curl accepts no port or zone with a name server's IPv6 address".into());
            }
        }
        if resolve.iter().any(|given| given.zone.is_some()) {
            return Err("curl accepts no zone with the addresses of --resolve".into());
        }
        for given in resolve.iter().filter(|given| !given.addresses.is_empty()) {
            if !given.addresses.iter().any(|address| family.allows(address)) {
                let host = given.host.as_deref().unwrap_or("any host");
                let family = family.name();
                return Err(format!("--resolve gives no {family} address for {host}"));
            }
        }
        if http.output.is_some() {
            return Err("-o does not work with --client curl; the body is not kept".into());
        }
        let codings = ["libz", "brotli", "zstd"];
        if http.compressed && !codings.iter().any(|coding| curl.has_feature(coding)) {
            return Err(format!("{} was built without content codings", named(curl)));
        }
        version(http.version, curl)?;
        session(options, curl)?;
        let groups = named_groups(tls, curl)?;
        Ok(Self { program: program.to_owned(), options: options.clone(), able, groups })
    }

    /// Checks that `target` can be visited with these options.
    ///
    /// # Errors
    /// If it cannot: the reason in words.
    pub fn check(&self, target: &Target) -> Result<(), String> {
        if !target.tls && self.options.http.version == HttpVersion::Http3 {
            return Err("HTTP/3 requires an https:// URL".into());
        }
        if target.tls && self.able.tls_library.is_none() {
            return Err(format!("{} was built without TLS", named(&self.able)));
        }
        Ok(())
    }

    /// Whether visits resume sessions of earlier ones.
    pub(super) fn resumes(&self) -> bool {
        self.options.tls.session != SessionUse::Full
    }
}

/// "curl 7.88.1 with OpenSSL/3.0.19".
fn named(curl: &CurlCapabilities) -> String {
    let library = curl.tls_library.as_deref().unwrap_or("no TLS library");
    format!("curl {} with {library}", curl.version_text)
}

fn version(asked: HttpVersion, curl: &CurlCapabilities) -> Result<(), String> {
    match asked {
        HttpVersion::Negotiate | HttpVersion::Http1 => Ok(()),
        HttpVersion::Http2 if !curl.has_feature("HTTP2") => {
            Err(format!("{} was built without HTTP/2", named(curl)))
        }
        HttpVersion::Http2 => Ok(()),
        HttpVersion::Http3 if !curl.has_feature("HTTP3") => {
            Err(format!("{} was built without HTTP/3", named(curl)))
        }
        HttpVersion::Http3 => Ok(()),
    }
}

/// Checks session options. Sessions are kept in files between processes, which requires curl 8.12 or later, built with
/// this feature.
fn session(options: &Options, curl: &CurlCapabilities) -> Result<(), String> {
    let tls = &options.tls;
    let mechanism = match tls.session {
        SessionUse::Full => return Ok(()),
        SessionUse::Resume(mechanism) => mechanism,
        SessionUse::EarlyData { .. } => None,
    };
    if !curl.has_option("ssl-sessions") || !curl.has_feature("SSLS-EXPORT") {
        return Err(format!(
            "{} cannot save TLS sessions; this requires curl 8.12 built with SSLS-EXPORT",
            named(curl)
        ));
    }
    if tls.client_certificate.is_some() {
        return Err("curl does not save sessions made with a client certificate".into());
    }
    if tls.max == TlsVersion::V1_2 {
        return Err("curl does not report by which mechanism it resumes a TLS 1.2 session".into());
    }
    match mechanism {
        None => {}
        Some(SessionMechanism::Psk) if tls.min == TlsVersion::V1_3 => {}
        Some(_) => {
            return Err("the mechanism by which curl resumes a session cannot be chosen".into());
        }
    }
    if let SessionUse::EarlyData { .. } = tls.session {
        return early_data(options.http.version, curl);
    }
    if !says_its_messages(curl) {
        return Err(format!(
            "{} does not report whether the session it offered was resumed",
            named(curl)
        ));
    }
    Ok(())
}

/// Checks early data. Accepted early data is proof by itself, even if a log has no handshake messages.
fn early_data(version: HttpVersion, curl: &CurlCapabilities) -> Result<(), String> {
    // 8.11 supported it for GnuTLS only, without reporting the outcome.
    if !curl.has_option("tls-earlydata") || curl.version < [8, 13, 0] {
        return Err(format!("{} cannot send early data; this requires curl 8.13", named(curl)));
    }
    match curl.tls_name() {
        "GnuTLS" => Ok(()),
        // https://github.com/curl/curl/issues/22649
        _ if version == HttpVersion::Http3 => Err(format!(
            "{} is not known to send early data over QUIC, although it reports so",
            named(curl)
        )),
        _ if says_its_messages(curl) => Ok(()),
        // wolfSSL: https://github.com/curl/curl/issues/17481
        _ => Err(format!("what {} reports about early data is not reliable", named(curl))),
    }
}

/// Whether its log contains handshake messages, as with OpenSSL's interface.
fn says_its_messages(curl: &CurlCapabilities) -> bool {
    ["OpenSSL", "LibreSSL", "BoringSSL", "quictls", "AWS-LC"].contains(&curl.tls_name())
}

/// The groups by OpenSSL's names.
fn named_groups(tls: &TlsOptions, curl: &CurlCapabilities) -> Result<Vec<&'static str>, String> {
    if tls.groups.is_empty() {
        return Ok(Vec::new());
    }
    if !curl.has_option("curves") || !says_its_messages(curl) {
        return Err(format!("{} does not support a choice of key-exchange groups", named(curl)));
    }
    let hybrids = match curl.tls_name() {
        "OpenSSL" => curl.tls_version() >= Some([3, 5, 0]),
        "BoringSSL" | "AWS-LC" => true,
        _ => false,
    };
    let group = |name: &String| match name.to_ascii_lowercase().as_str() {
        "x25519" => Ok("X25519"),
        "p-256" | "p256" | "secp256r1" | "prime256v1" => Ok("P-256"),
        "p-384" | "p384" | "secp384r1" => Ok("P-384"),
        "x25519mlkem768" if hybrids => Ok("X25519MLKEM768"),
        "secp256r1mlkem768" if hybrids => Ok("SecP256r1MLKEM768"),
        "mlkem768" if hybrids => Ok("MLKEM768"),
        _ => Err(format!("{} does not have the group {name}", named(curl))),
    };
    tls.groups.iter().map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curl::tests::{DEBIAN_12, EARLY_8_13, able, able_of};
    use firstbyte_probe::probe::options::{Family, Output, ResolveOverride};

    fn refused(able: &CurlCapabilities, change: impl FnOnce(&mut Options)) -> Option<String> {
        let mut options = Options::default();
        change(&mut options);
        CurlOptions::new("curl", &options, Arc::new(able.clone())).err()
    }

    #[test]
    fn what_a_curl_cannot_do_is_said_in_words() {
        let old = able(DEBIAN_12, "--curves --http3-only --no-sessionid");
        assert_eq!(refused(&old, |_| {}), None);
        let said = |change: fn(&mut Options)| refused(&old, change).unwrap();
        assert_eq!(
            said(|o| o.http.version = HttpVersion::Http3),
            "curl 7.88.1 with OpenSSL/3.0.19 was built without HTTP/3"
        );
        assert!(said(|o| o.tls.session = SessionUse::Resume(None)).contains("8.12"));
        assert!(said(|o| o.http.output = Some(Output::Stdout)).contains("not kept"));
        assert!(
            said(|o| {
                o.family = Family::V6;
                let addresses = vec!["192.0.2.1".parse().unwrap()];
                o.resolve = vec![ResolveOverride { host: None, port: None, addresses, zone: None }];
            })
            .contains("IPv6")
        );
        assert!(said(|o| o.tls.groups = vec!["X25519MLKEM768".into()]).contains("X25519MLKEM768"));
        let server = |o: &mut Options| {
            o.resolver = ResolverChoice::Server("192.0.2.1:53".parse().unwrap());
        };
        assert!(said(server).contains("c-ares"));
        assert_eq!(refused(&old, |o| o.tls.groups = vec!["secp256r1".into()]), None);
        assert_eq!(refused(&old, |o| o.http.version = HttpVersion::Http2), None);
    }

    /// From documentation: curl 8.13's lists of features and options.
    #[test]
    fn sessions_and_early_data_need_their_features() {
        let new = able_of(EARLY_8_13);
        let early = SessionUse::EarlyData { any_method: false };
        assert_eq!(refused(&new, |o| o.tls.session = SessionUse::Resume(None)), None);
        assert_eq!(refused(&new, |o| o.tls.session = early), None);
        assert_eq!(refused(&new, |o| o.http.version = HttpVersion::Http3), None);
        let said = |able: &CurlCapabilities, change: fn(&mut Options)| {
            refused(able, |o| {
                o.tls.session = SessionUse::EarlyData { any_method: false };
                change(o);
            })
            .unwrap()
        };
        assert!(said(&new, |o| o.http.version = HttpVersion::Http3).contains("QUIC"));
        assert!(said(&new, |o| o.tls.max = TlsVersion::V1_2).contains("mechanism"));
        let certificate = |o: &mut Options| o.tls.client_certificate = Some(("c".into(), None));
        assert!(said(&new, certificate).contains("client certificate"));
        let mut other = able_of(EARLY_8_13);
        other.tls_library = Some("GnuTLS/3.8.3".into());
        // Accepted early data is the proof.
        assert_eq!(refused(&other, |o| o.tls.session = early), None);
        let resume = |o: &mut Options| o.tls.session = SessionUse::Resume(None);
        assert!(refused(&other, resume).unwrap().contains("does not report"));
        let both = |o: &mut Options| {
            o.tls.session = early;
            o.http.version = HttpVersion::Http3;
        };
        assert_eq!(refused(&other, both), None);
        other.tls_library = Some("wolfSSL/5.7.4".into());
        assert!(said(&other, |_| {}).contains("not reliable"));
        let mut older = able_of(EARLY_8_13);
        older.version = [8, 12, 1];
        assert!(said(&older, |_| {}).contains("8.13"));
        assert_eq!(refused(&older, |o| o.tls.session = SessionUse::Resume(None)), None);
        let ticket = SessionUse::Resume(Some(SessionMechanism::Ticket));
        assert!(refused(&new, |o| o.tls.session = ticket).unwrap().contains("mechanism"));
        assert_eq!(refused(&new, |o| o.tls.groups = vec!["X25519MLKEM768".into()]), None);
    }

    #[test]
    fn targets_are_checked() {
        let target = |url: &str| Target::parse(url).unwrap();
        let mut options = Options::default();
        options.http.version = HttpVersion::Http3;
        let curl = CurlOptions::new("curl", &options, Arc::new(able_of(EARLY_8_13))).unwrap();
        assert_eq!(curl.check(&target("https://site.test/")), Ok(()));
        assert!(curl.check(&target("http://site.test/")).unwrap_err().contains("https://"));
        let plain = Arc::new(able("curl 8.1.0 (x) libcurl/8.1.0\nFeatures: IPv6", "--globoff"));
        let plain = CurlOptions::new("curl", &Options::default(), plain).unwrap();
        assert_eq!(plain.check(&target("http://site.test/")), Ok(()));
        assert!(plain.check(&target("https://site.test/")).unwrap_err().contains("without TLS"));
    }
}
