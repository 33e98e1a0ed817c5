//! Turns one operation of curl's command line into options of a connection.

use super::{bind, proxy, tls_max, usage, values};
use crate::cli::exit::Problem;
use firstbyte_curl::settings::{FailChoice, FamilyChoice, HttpChoice, Operation};
use firstbyte_probe::net::Bind;
use firstbyte_probe::probe::options::{
    CONNECT_TIMEOUT, Family, HttpOptions, HttpVersion, Options, TlsOptions, TlsVersion,
};

/// Names of cipher suites in OpenSSL and in the IANA registry.
const CIPHER_SUITES: [(&str, &str); 9] = [
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];
/// The first three belong to TLS 1.3.
const OF_TLS13: usize = 3;

/// Options of visits, to `https://` URLs if `over_tls`.
///
/// # Errors
/// Names the curl option that is not supported.
pub(in crate::cli) fn options(operation: &Operation, over_tls: bool) -> Result<Options, Problem> {
    Ok(Options {
        family: match operation.family {
            FamilyChoice::Any => Family::Any,
            FamilyChoice::V4 => Family::V4,
            FamilyChoice::V6 => Family::V6,
        },
        resolve: operation
            .resolve
            .iter()
            .filter_map(|text| values::resolve(text).transpose())
            .collect::<Result<_, _>>()?,
        connect_to: operation
            .connect_to
            .iter()
            .map(|text| values::connect_to(text))
            .collect::<Result<_, _>>()?,
        bind: match (operation.local_port, &operation.interface) {
            (Some(_), Some(_)) => {
                return Err(usage("--local-port and --interface cannot be combined"));
            }
            (Some((lowest, highest)), None) => Bind::Ports { lowest, highest },
            (None, interface) => bind(interface.as_deref())?,
        },
        tls: tls(operation)?,
        http: HttpOptions {
            version: version(operation, over_tls),
            compressed: operation.compressed,
            fail: operation.fail != FailChoice::Never,
            ..HttpOptions::default()
        },
        connect_timeout: operation.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
        max_time: operation.max_time,
        // Redirects are followed elsewhere; this only discards the bodies of redirects.
        max_redirects: operation.location.then_some(0),
        attempt_delay: operation.happy_eyeballs_timeout,
        proxy_protocol: operation.haproxy_protocol,
        proxy: proxy::proxies_of_curl(&operation.proxy)?,
        ..Options::default()
    })
}

fn version(operation: &Operation, over_tls: bool) -> HttpVersion {
    match (operation.http, over_tls) {
        (HttpChoice::V3 | HttpChoice::V3Only, _) => HttpVersion::Http3,
        (HttpChoice::V2PriorKnowledge, false) => HttpVersion::Http2,
        (HttpChoice::V10 | HttpChoice::V11, _) => HttpVersion::Http1,
        _ if operation.no_alpn => HttpVersion::Http1,
        // Over TLS the server chooses, whichever version the user asked for.
        (HttpChoice::Negotiate | HttpChoice::V2 | HttpChoice::V2PriorKnowledge, _) => {
            HttpVersion::Negotiate
        }
    }
}

fn tls(operation: &Operation) -> Result<TlsOptions, Problem> {
    let min = if operation.tlsv1_3 { TlsVersion::V1_3 } else { TlsVersion::V1_2 };
    let max = tls_max(operation.tls_max.as_deref(), min)?;
    let certificate = operation.cert.as_deref().map(certificate_file);
    let issuers = operation.cacert.clone();
    Ok(TlsOptions {
        min,
        max,
        groups: operation.curves.as_deref().map_or_else(Vec::new, |list| {
            list.split([':', ',']).map(|name| name.trim().to_owned()).collect()
        }),
        insecure: operation.insecure,
        ca_file: issuers.or_else(|| std::env::var("CURL_CA_BUNDLE").ok()).map(Into::into),
        client_certificate: certificate
            .map(|file| (file.into(), operation.key.clone().map(Into::into))),
        alpn: match (operation.no_alpn, operation.http) {
            (true, _) => Some(Vec::new()),
            (false, HttpChoice::V10) => Some(vec!["http/1.0".into()]),
            (false, _) => None,
        },
        cipher_suites: cipher_suites(operation)?,
        ..TlsOptions::default()
    })
}

/// `FILE:PASSWORD` without the password: encrypted keys are not supported.
fn certificate_file(text: &str) -> String {
    let mut file = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => file.extend(letters.next()),
            ':' => break,
            _ => file.push(letter),
        }
    }
    file
}

fn cipher_suites(operation: &Operation) -> Result<Vec<String>, Problem> {
    let (of_tls13, of_tls12) = CIPHER_SUITES.split_at(OF_TLS13);
    let newer = chosen("tls13-ciphers", operation.tls13_ciphers.as_deref(), of_tls13)?;
    let older = chosen("ciphers", operation.ciphers.as_deref(), of_tls12)?;
    if newer.is_none() && older.is_none() {
        return Ok(Vec::new());
    }
    let all = |suites: &[(&str, &str)]| suites.iter().map(|(_, name)| (*name).to_owned()).collect();
    let mut suites: Vec<String> = newer.unwrap_or_else(|| all(of_tls13));
    suites.extend(older.unwrap_or_else(|| all(of_tls12)));
    Ok(suites)
}

fn chosen(
    option: &str,
    list: Option<&str>,
    known: &[(&str, &str)],
) -> Result<Option<Vec<String>>, Problem> {
    let Some(list) = list else { return Ok(None) };
    let names = list.split([':', ',', ' ']).filter(|name| !name.is_empty());
    let find = |name: &str| {
        let found = known.iter().find(|(openssl, _)| openssl.eq_ignore_ascii_case(name));
        found.map(|(_, iana)| (*iana).to_owned()).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            usage(format!("--{option} {name}: firstbyte does not offer this cipher suite"))
                .hint(format!("it offers {}", names.join(", ")))
        })
    };
    names.map(find).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_of_one_version_leave_those_of_the_other() {
        let operation = Operation {
            ciphers: Some("ECDHE-RSA-AES128-GCM-SHA256".into()),
            ..Operation::default()
        };
        let suites = cipher_suites(&operation).unwrap();
        assert_eq!(suites.len(), 4);
        assert_eq!(suites[3], "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256");
        let operation = Operation { ciphers: Some("AES256-SHA".into()), ..Operation::default() };
        let problem = cipher_suites(&operation).unwrap_err();
        assert!(problem.message().starts_with("--ciphers AES256-SHA: "), "{problem}");
    }

    #[test]
    fn passwords_of_certificates_are_cut_off() {
        assert_eq!(certificate_file("a.pem:secret"), "a.pem");
        assert_eq!(certificate_file(r"C\:a.pem"), "C:a.pem");
    }
}
