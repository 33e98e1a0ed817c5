//! Metrics of a TLS session: its version, and its certificates as Go prints them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use aws_lc_rs::digest::{SHA256, digest};
use firstbyte_probe::probe::options::TlsOptions;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate, X509Name};

use super::Probe;
use crate::Compat;
use crate::configuration::TlsSettings;

/// The parts of a session that become metrics.
pub(super) struct Session<'a> {
    /// Version, such as "TLSv1.3".
    pub version: &'a str,
    /// Name of the cipher suite; some probers do not report it.
    pub cipher: Option<&'a str>,
    /// The server's certificates, leaf first.
    pub chain: &'a [Vec<u8>],
}

/// Which metrics a prober reports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    All,
    /// All except the expiry of the verified chain.
    WithoutVerifiedChain,
}

impl Probe<'_> {
    pub(super) fn tls_metrics(&mut self, session: &Session<'_>, tls: &TlsSettings, set: Set) {
        let parsed: Vec<X509Certificate<'_>> = session
            .chain
            .iter()
            .filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed))
            .collect();
        let (Some(leaf), Some(der)) = (parsed.first(), session.chain.first()) else { return };
        let earliest = parsed.iter().map(not_after).min().unwrap_or_default();
        let metrics = &mut self.metrics;
        metrics.gauge(
            "probe_ssl_earliest_cert_expiry",
            "Returns last SSL chain expiry in unixtime",
            earliest as f64,
        );
        metrics.labelled(
            "probe_tls_version_info",
            "Returns the TLS version used or NaN when unknown",
            &[("version", &session.version.replace("TLSv", "TLS "))],
            1.0,
        );
        if let Some(cipher) = session.cipher.filter(|_| self.tools.compat == Compat::V0_28) {
            metrics.labelled(
                "probe_tls_cipher_info",
                "Returns the TLS cipher negotiated during handshake",
                &[("cipher", cipher)],
                1.0,
            );
        }
        if set == Set::All {
            let ends = if tls.insecure_skip_verify {
                ZERO_TIME
            } else {
                let roots = self.tools.roots.borrow_mut().load(tls.ca_file.as_deref());
                verified_end(&parsed, session.chain, &roots)
            };
            metrics.gauge(
                "probe_ssl_last_chain_expiry_timestamp_seconds",
                "Returns last SSL chain expiry in timestamp",
                ends as f64,
            );
        }
        let (fingerprint, subject, issuer) =
            (hexadecimal(digest(&SHA256, der).as_ref()), name(leaf.subject()), name(leaf.issuer()));
        let (names, serial) = (dns_names(leaf), hexadecimal(serial(leaf)));
        let mut labels = vec![
            ("fingerprint_sha256", fingerprint.as_str()),
            ("subject", &subject),
            ("issuer", &issuer),
            ("subjectalternative", &names),
        ];
        if self.tools.compat == Compat::V0_28 {
            labels.push(("serialnumber", &serial));
        }
        let help = "Contains SSL leaf certificate information";
        metrics.labelled("probe_ssl_last_chain_info", help, &labels, 1.0);
    }
}

/// Go's zero `time.Time{}` as Unix time: no chain was verified.
const ZERO_TIME: i64 = -62_135_596_800;

fn not_after(certificate: &X509Certificate<'_>) -> i64 {
    certificate.validity().not_after.timestamp()
}

fn serial<'a>(certificate: &'a X509Certificate<'_>) -> &'a [u8] {
    let bytes = certificate.raw_serial();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn dns_names(certificate: &X509Certificate<'_>) -> String {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let dns = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    dns.collect::<Vec<_>>().join(",")
}

/// A distinguished name as formatted by Go's `pkix.Name.String` (RFC 2253: last part first).
fn name(name: &X509Name<'_>) -> String {
    let mut parts: Vec<String> = Vec::new();
    for relative in name.iter() {
        let attributes = relative.iter().map(|attribute| {
            let oid = attribute.attr_type().to_id_string();
            let value = attribute.as_str().unwrap_or_default();
            let short = match oid.as_str() {
                "2.5.4.3" => "CN",
                "2.5.4.5" => "SERIALNUMBER",
                "2.5.4.6" => "C",
                "2.5.4.7" => "L",
                "2.5.4.8" => "ST",
                "2.5.4.9" => "STREET",
                "2.5.4.10" => "O",
                "2.5.4.11" => "OU",
                "2.5.4.17" => "POSTALCODE",
                _ => {
                    // DER encoding of the value, assuming its length is below 128, as in any real name.
                    let data = attribute.attr_value().data;
                    let head = [attribute.attr_value().header.tag().0 as u8, data.len() as u8];
                    return format!("{oid}=#{}{}", hexadecimal(&head), hexadecimal(data));
                }
            };
            format!("{short}={}", escaped(value))
        });
        parts.push(attributes.collect::<Vec<_>>().join("+"));
    }
    parts.reverse();
    parts.join(",")
}

fn escaped(value: &str) -> String {
    let last = value.chars().count().saturating_sub(1);
    let mut out = String::new();
    for (i, c) in value.chars().enumerate() {
        let special = matches!(c, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || c == '#' && i == 0
            || c == ' ' && (i == 0 || i == last);
        if special {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Trusted certificates by file; the key `None` stands for the system's.
#[derive(Default)]
pub(crate) struct Roots(HashMap<Option<PathBuf>, Rc<Vec<Vec<u8>>>>);

impl Roots {
    pub(super) fn load(&mut self, file: Option<&Path>) -> Rc<Vec<Vec<u8>>> {
        let key = file.map(Path::to_owned);
        if let Some(known) = self.0.get(&key) {
            return Rc::clone(known);
        }
        let loaded: Vec<Vec<u8>> = match file {
            None => {
                let system = rustls_native_certs::load_native_certs().certs;
                system.iter().map(|der| der.to_vec()).collect()
            }
            Some(path) => CertificateDer::pem_file_iter(path)
                .map(|all| all.filter_map(Result::ok).map(|der| der.to_vec()).collect())
                .unwrap_or_default(),
        };
        let loaded = Rc::new(loaded);
        self.0.insert(key, Rc::clone(&loaded));
        loaded
    }
}

/// Expiry of the verified chain that lasts longest: the leaf, intermediate certificates, and a trusted one.
fn verified_end(parsed: &[X509Certificate<'_>], chain: &[Vec<u8>], roots: &[Vec<u8>]) -> i64 {
    let trusted: Vec<X509Certificate<'_>> = roots
        .iter()
        .filter_map(|der| X509Certificate::from_der(der).ok().map(|(_, p)| p))
        .collect();
    let Some(leaf) = parsed.first() else { return ZERO_TIME };
    if chain.first().is_some_and(|der| roots.contains(der)) {
        return not_after(leaf);
    }
    longest(leaf, &parsed[1..], &trusted, 0).unwrap_or(ZERO_TIME)
}

/// Latest expiry among all chains from `from` to a trusted certificate.
fn longest(
    from: &X509Certificate<'_>,
    others: &[X509Certificate<'_>],
    trusted: &[X509Certificate<'_>],
    depth: usize,
) -> Option<i64> {
    let own = not_after(from);
    let issued = |by: &&X509Certificate<'_>| {
        by.subject().as_raw() == from.issuer().as_raw() && keys_agree(from, by)
    };
    let at_root = trusted.iter().filter(issued).map(|root| own.min(not_after(root)));
    let further = others.iter().filter(issued).filter(|_| depth < 8).filter_map(|next| {
        if next.subject().as_raw() == from.subject().as_raw() {
            return None;
        }
        longest(next, others, trusted, depth + 1).map(|end| own.min(end))
    });
    at_root.chain(further).max()
}

/// Whether the key identifiers match, if both have one. They distinguish issuers with the same name.
fn keys_agree(issued: &X509Certificate<'_>, by: &X509Certificate<'_>) -> bool {
    let wanted = issued.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    let own = by.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    wanted.zip(own).is_none_or(|(wanted, own)| wanted == own)
}

/// Converts `tls_config` to options for handshakes.
pub(super) fn tls_options(settings: &TlsSettings) -> TlsOptions {
    let (min, max) = settings.versions();
    TlsOptions {
        min,
        max,
        insecure: settings.insecure_skip_verify,
        ca_file: settings.ca_file.clone(),
        client_certificate: settings
            .cert_file
            .clone()
            .map(|file| (file, settings.key_file.clone())),
        ..TlsOptions::default()
    }
}
