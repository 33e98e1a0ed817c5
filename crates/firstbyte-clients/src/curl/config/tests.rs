//! Config files for various options, line by line as curl reads them.

use std::sync::Arc;

use firstbyte_probe::probe::options::{ConnectTo, ResolveOverride};

use super::*;
use crate::curl::tests::{DEBIAN_12, EARLY_8_13, able, able_of};
use crate::curl::{CurlCapabilities, CurlOptions};

const HELP: &str = "--curves --http3-only --no-sessionid --dns-servers";

fn lines_of(
    able: CurlCapabilities,
    url: &str,
    sessions: Option<&Path>,
    change: impl FnOnce(&mut Options),
) -> Vec<String> {
    let mut options = Options::default();
    change(&mut options);
    let target = Target::parse(url).unwrap();
    let curl = CurlOptions::new("curl", &options, Arc::new(able)).unwrap();
    let asked = Asked {
        http: &curl.options.http,
        options: &curl,
        target: &target,
        max_time: options.max_time,
        sessions,
        kept: options.reuse,
    };
    let config = asked.config(Path::new("/home"), "m-1");
    String::from_utf8(config).unwrap().lines().map(str::to_owned).collect()
}

fn lines(change: impl FnOnce(&mut Options)) -> Vec<String> {
    lines_of(able(DEBIAN_12, HELP), "https://site.test/x?y", None, change)
}

fn has(lines: &[String], line: &str) -> bool {
    lines.iter().any(|l| l == line)
}

#[test]
fn a_plain_visit() {
    let lines = lines(|_| {});
    let expected = [
        "stderr = \"/home/log\"",
        "silent",
        "show-error",
        "verbose",
        "globoff",
        "path-as-is",
        "noproxy = \"*\"",
        "proto = \"=http,https\"",
        "output = \"/dev/null\"",
        "write-out = \"\\nm-1 report %{json}\\n\"",
        "tlsv1.2",
        "no-sessionid",
        concat!("user-agent = \"firstbyte/", env!("CARGO_PKG_VERSION"), "\""),
        "connect-timeout = \"300.000\"",
        "url = \"https://site.test/x?y\"",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn a_curl_without_json_is_asked_by_name() {
    let old = DEBIAN_12.replace("7.88.1", "7.68.0");
    let lines = lines_of(able(&old, HELP), "https://site.test/", None, |_| {});
    let report = lines.iter().find(|line| line.starts_with("write-out")).unwrap();
    assert!(report.contains("m-1 report http_code=%{http_code} http_version="), "{report}");
    assert!(!report.contains("json"), "{report}");
}

#[test]
fn the_way_is_pinned() {
    let lines = lines(|o| {
        o.family = Family::V4;
        o.bind = Bind::Device("eth0".into());
        o.connect_to = vec![ConnectTo {
            from_host: Some("SITE.test".into()),
            from_port: None,
            to_host: Some("edge.test".into()),
            to_port: Some(8443),
        }];
        o.resolve = vec![ResolveOverride {
            host: None,
            port: Some(8443),
            addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
            zone: None,
        }];
    });
    for line in [
        "ipv4",
        "interface = \"if!eth0\"",
        "connect-to = \"site.test:443:edge.test:8443\"",
        "resolve = \"edge.test:8443:192.0.2.1\"",
    ] {
        assert!(has(&lines, line), "{line} in {lines:#?}");
    }
    let address = Bind::Address("2001:db8::7".parse().unwrap());
    let six = lines_of(able(DEBIAN_12, HELP), "https://[2001:db8::1]/", None, |o| {
        o.bind = address;
        o.family = Family::V6;
    });
    assert!(has(&six, "interface = \"host!2001:db8::7\"") && has(&six, "ipv6"), "{six:#?}");
}

#[test]
fn tls_is_narrowed() {
    let lines = lines(|o| {
        o.tls.max = TlsVersion::V1_2;
        o.tls.groups = vec!["X25519".into(), "secp256r1".into()];
        o.tls.insecure = true;
        o.tls.ca_file = Some("/a b/ca.pem".into());
        o.tls.client_certificate = Some(("/c:d.pem".into(), Some("/key".into())));
    });
    for line in [
        "tlsv1.2",
        "tls-max = \"1.2\"",
        "curves = \"X25519:P-256\"",
        "insecure",
        "cacert = \"/a b/ca.pem\"",
        "capath = \"/home\"",
        "cert = \"/c\\\\:d.pem\"",
        "key = \"/key\"",
    ] {
        assert!(has(&lines, line), "{line} in {lines:#?}");
    }
    let newest = lines_of(able(DEBIAN_12, HELP), "https://site.test/", None, |o| {
        o.tls.min = TlsVersion::V1_3;
    });
    assert!(has(&newest, "tlsv1.3"));
    // Without TLS, no TLS options are written.
    let plain = lines_of(able(DEBIAN_12, HELP), "http://site.test/", None, |o| {
        o.tls.insecure = true;
    });
    assert!(!has(&plain, "insecure") && !has(&plain, "tlsv1.2"));
}

#[test]
fn sessions_and_early_data() {
    let file = Some(Path::new("/sessions"));
    let early = |any_method, method: &str| {
        let method = method.parse().unwrap();
        lines_of(able_of(EARLY_8_13), "https://site.test/", file, |o| {
            o.tls.session = SessionUse::EarlyData { any_method };
            o.http.method = method;
        })
    };
    let get = early(false, "GET");
    assert_eq!(get[1], "ssl-sessions = \"/sessions\"");
    assert!(has(&get, "tls-earlydata") && !has(&get, "no-sessionid"));
    assert!(!has(&early(false, "PUT"), "tls-earlydata"));
    assert!(has(&early(true, "PUT"), "tls-earlydata"));
    let resumed = lines_of(able_of(EARLY_8_13), "https://site.test/", file, |o| {
        o.tls.session = SessionUse::Resume(None);
    });
    assert!(!has(&resumed, "tls-earlydata"));
}

#[test]
fn versions_of_http() {
    for (version, line) in [
        (HttpVersion::Http1, "http1.1"),
        (HttpVersion::Http2, "http2-prior-knowledge"),
        (HttpVersion::Http3, "http3-only"),
    ] {
        let lines = lines_of(able_of(EARLY_8_13), "https://site.test/", None, |o| {
            o.http.version = version;
        });
        assert!(has(&lines, line), "{line} in {lines:#?}");
    }
}

#[test]
fn the_request() {
    let set = |name: &'static str, value: &str| {
        let value = firstbyte_probe::probe::Secret::new(value.parse().unwrap());
        HeaderChange::Set(name.parse().unwrap(), value)
    };
    let headers = vec![
        set("authorization", "Basic \"q\\u"),
        set("x-empty", ""),
        HeaderChange::Remove("accept".parse().unwrap()),
    ];
    let lines = lines(|o| {
        o.http.headers = headers;
        o.http.compressed = true;
        o.http.user_agent = String::new();
        o.http.method = "PUT".parse().unwrap();
        let body = firstbyte_probe::probe::Secret::new("b\0".as_bytes().to_vec().into());
        o.http.body = Some(body);
        o.max_time = Some(Duration::from_millis(1500));
        o.connect_timeout = Duration::ZERO;
    });
    for line in [
        "header = \"authorization: Basic \\\"q\\\\u\"",
        "header = \"x-empty;\"",
        "header = \"accept:\"",
        "header = \"Expect:\"",
        "compressed",
        "user-agent = \"\"",
        "request = \"PUT\"",
        "data-binary = \"@/home/body\"",
        "max-time = \"1.500\"",
        "connect-timeout = \"0.001\"",
    ] {
        assert!(has(&lines, line), "{line} in {lines:#?}");
    }
}

#[test]
fn the_second_exchange_has_all_options_again() {
    let lines = lines(|o| {
        o.reuse = true;
        o.tls.insecure = true;
    });
    let next = lines.iter().position(|line| line == "next").unwrap();
    assert_eq!(lines[1..next], lines[next + 1..]);
}
