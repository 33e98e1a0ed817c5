//! Visits of all kinds, compared with the server's reports.

use std::net::{Ipv4Addr, TcpListener};
use std::process::Command;
use std::time::Duration;

use firstbyte_core::timeline::{Cause, Handshake, Mark, PhaseName, TimeLimit};
use firstbyte_lab::builtin_server::TlsVersions;
use firstbyte_probe::probe::options::{HeaderChange, HttpVersion, TlsVersion};
use firstbyte_probe::probe::{Prober, Secret, Target};

use crate::support::{Bench, Pretended, prober, server_said, visit, wait};

const ALL_OF_TCP: [Mark; 7] = [
    Mark::DomainLookupEnd,
    Mark::TcpConnected,
    Mark::SecureConnectionStart,
    Mark::HandshakeComplete,
    Mark::RequestEnd,
    Mark::ResponseStart,
    Mark::ResponseEnd,
];

#[test]
fn new_connections() {
    for (tls, tls_name) in [(TlsVersions::Tls12, "TLSv1.2"), (TlsVersions::Tls13, "TLSv1.3")] {
        let bench = Bench::new(|config| config.versions = tls);
        for (http, http_name, alpn) in
            [(HttpVersion::Http1, "1.1", "http/1.1"), (HttpVersion::Negotiate, "2", "h2")]
        {
            let sample = bench.visit(|options| options.http.version = http);
            let connection = &sample.connection;
            assert_eq!(connection.failure, None);
            let marks: Vec<_> = connection.marks.iter().map(|(mark, _)| mark).collect();
            assert_eq!(marks, ALL_OF_TCP);
            let facts = &connection.facts;
            assert_eq!(facts.remote, Some(bench.server.addr()));
            assert!(facts.local.unwrap().port() > 0 && !facts.reused);
            let tls = facts.tls.as_ref().unwrap();
            assert_eq!(tls.version.as_deref(), Some(tls_name));
            assert_eq!(tls.handshake, Some(Handshake::Full));
            assert!(tls.cipher_suite.as_ref().unwrap().starts_with("TLS_"), "{tls:?}");
            assert_eq!((tls.alpn.as_deref(), tls.verified), (Some(alpn), Some(true)));
            assert_eq!((tls.session_offered, tls.early_data), (None, None));
            assert!(tls.certificates[0].der_bytes > 200, "{tls:?}");
            let said = facts.http.as_ref().unwrap();
            assert_eq!((said.version.as_deref(), said.status), (Some(http_name), Some(200)));
            assert_eq!(said.body_bytes, Some(2_000));
            assert_eq!(said.header_bytes.is_some(), http_name == "1.1");
            assert_eq!(server_said(connection, "x-firstbyte-resumed"), "0");
        }
    }
}

#[test]
fn an_old_curl_without_json_says_the_same() {
    let bench = Bench::new(|_| {});
    let old = Pretended::new(Some("7.69.1"), "exec \"$curl\" \"$@\"");
    let target = bench.target("/");
    let sample = visit(&old.program(), &bench.options(|_| {}), &target);
    let connection = &sample.connection;
    assert_eq!(connection.failure, None);
    let marks: Vec<_> = connection.marks.iter().map(|(mark, _)| mark).collect();
    assert_eq!(marks, ALL_OF_TCP);
    let facts = &connection.facts;
    assert_eq!(facts.client.as_ref().unwrap().version.as_deref(), Some("7.69.1"));
    assert_eq!(facts.remote, Some(bench.server.addr()));
    assert!(facts.tls.as_ref().unwrap().certificates.is_empty());
    let refused = visit(&old.program(), &bench.options(|_| {}), &nobody());
    assert!(matches!(refused.failure().unwrap().cause, Cause::Refused { .. }));
}

#[test]
fn a_kept_connection() {
    let bench = Bench::new(|_| {});
    for http in [HttpVersion::Http1, HttpVersion::Http2] {
        let sample = bench.visit(|options| {
            options.reuse = true;
            options.http.version = http;
        });
        let connection = &sample.connection;
        assert_eq!(connection.failure, None);
        assert!(connection.facts.reused);
        let marks: Vec<_> = connection.marks.iter().map(|(mark, _)| mark).collect();
        assert_eq!(marks, [Mark::RequestEnd, Mark::ResponseStart, Mark::ResponseEnd]);
        // Facts about the connection's set-up are kept, as with our own prober.
        let tls = connection.facts.tls.as_ref().unwrap();
        assert_eq!(tls.handshake, Some(Handshake::Full));
        assert!(!tls.certificates.is_empty());
    }
}

#[test]
fn requests_have_what_was_asked_for() {
    let bench = Bench::new(|_| {});
    let sample = bench.visit(|options| {
        options.http.method = "POST".parse().unwrap();
        options.http.body = Some(Secret::new(b"a\0b\n".to_vec().into()));
        options.http.version = HttpVersion::Http1;
        options.tls.groups = vec!["x25519".into(), "secp256r1".into()];
        options.tls.max = TlsVersion::V1_2;
    });
    let connection = &sample.connection;
    assert_eq!(connection.failure, None);
    let http = connection.facts.http.as_ref().unwrap();
    assert_eq!((http.method.as_str(), http.upload_bytes), ("POST", Some(4)));
    // The time was read when the header was written; the body may have followed.
    assert_eq!(connection.marks.at(Mark::RequestEnd), None);
    assert_eq!(connection.facts.tls.as_ref().unwrap().version.as_deref(), Some("TLSv1.2"));
    let head = bench.visit(|options| options.http.method = "HEAD".parse().unwrap());
    assert_eq!(head.failure(), None);
    assert_eq!(head.connection.facts.http.as_ref().unwrap().body_bytes, Some(0));
}

#[test]
fn redirects_are_legs() {
    let bench = Bench::new(|_| {});
    let sample =
        bench.visit_to(&bench.target("/redirect"), |options| options.max_redirects = Some(3));
    assert_eq!(sample.failure(), None);
    assert_eq!(sample.redirects.len(), 1);
    assert_eq!(sample.redirects[0].facts.http.as_ref().unwrap().status, Some(302));
    assert!(sample.connection.url.ends_with("/"), "{}", sample.connection.url);
    assert!(sample.connection.marks.at(Mark::HandshakeComplete).is_some());
    let none =
        bench.visit_to(&bench.target("/redirect"), |options| options.max_redirects = Some(0));
    assert!(matches!(none.failure().unwrap().cause, Cause::TooManyRedirects { limit: 0, .. }));
    // Unless curl is asked to follow it, a redirect is an answer.
    let answer = bench.visit_to(&bench.target("/redirect"), |_| {});
    assert_eq!((answer.failure(), answer.redirects.len()), (None, 0));
}

/// A loopback port without a listener.
fn nobody() -> Target {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    Target::parse(&format!("https://127.0.0.1:{port}/")).unwrap()
}

#[test]
fn failures_have_our_names() {
    let bench = Bench::new(|_| {});
    let named = |target: &Target, change: fn(&mut _)| {
        let sample = bench.visit_to(target, change);
        let failure = sample.failure().unwrap();
        (failure.phase, failure.failure_type().as_str(), sample)
    };
    let (phase, name, sample) = named(&nobody(), |_| {});
    assert_eq!((phase, name), (PhaseName::Connect, "tcp.refused"));
    let http = sample.connection.facts.http.as_ref().unwrap();
    assert_eq!((http.status, &http.version), (None, &None));
    assert_eq!(sample.connection.facts.tls, None);

    let (phase, name, sample) = named(&bench.target("/"), |o| o.tls.ca_file = None);
    assert_eq!((phase, name), (PhaseName::Tls, "tls.cert.authority_invalid"));
    let tls = sample.connection.facts.tls.unwrap();
    assert_eq!((tls.verified, tls.handshake), (Some(false), None));
    let other = bench.target("/").url.as_str().replace("site.test", "other.test");
    let (phase, name, _) = named(&Target::parse(&other).unwrap(), |_| {});
    assert_eq!((phase, name), (PhaseName::Tls, "tls.cert.name_invalid"));
    let missing = |o: &mut firstbyte_probe::probe::options::Options| {
        o.tls.ca_file = Some("/nowhere/ca.pem".into());
    };
    assert_eq!(named(&bench.target("/"), missing).1, "client.failed");
    let unchecked = bench.visit(|o| {
        o.tls.ca_file = None;
        o.tls.insecure = true;
    });
    assert_eq!(unchecked.failure(), None);
    assert_eq!(unchecked.connection.facts.tls.as_ref().unwrap().verified, None);

    let unresolved = Target::parse("https://nobody.invalid/").unwrap();
    let (phase, name, _) = named(&unresolved, |o| {
        o.resolve.clear();
        // An invalid name is not sent anywhere; names under .invalid may be sent to name servers.
        o.connect_to = vec![firstbyte_probe::probe::options::ConnectTo {
            from_host: None,
            from_port: None,
            to_host: Some("also..invalid".into()),
            to_port: None,
        }];
    });
    assert_eq!(phase, PhaseName::Resolve);
    assert!(name.starts_with("dns."), "{name}");
    let twelve = Bench::new(|config| config.versions = TlsVersions::Tls12);
    let sample = twelve.visit(|options| options.tls.min = TlsVersion::V1_3);
    let failure = sample.failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "tls.version_or_cipher_mismatch", "{failure}");
}

#[test]
fn time_runs_out() {
    let slow = Bench::new(|config| config.think_time = Duration::from_secs(20));
    let limit = Duration::from_secs(2);
    let sample = slow.visit(|options| options.max_time = Some(limit));
    let failure = sample.failure().unwrap();
    assert_eq!(failure.phase, PhaseName::Wait);
    assert!(
        matches!(failure.cause, Cause::TimedOut { after, limit: TimeLimit::Visit, .. } if after == limit),
        "{failure}"
    );
    // Marks that were reached before are kept.
    assert!(sample.connection.marks.at(Mark::HandshakeComplete).is_some());
    assert!(sample.connection.marks.at(Mark::ResponseStart).is_none());
    // Accepts connections, but sends nothing.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("https://127.0.0.1:{}/", silent.local_addr().unwrap().port());
    let sample = slow.visit_to(&Target::parse(&url).unwrap(), |o| o.connect_timeout = limit);
    let failure = sample.failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "tls.timed_out", "{failure}");
}

#[test]
fn secrets_are_not_among_the_arguments() {
    const SECRET: &str = "c2VjcmV0LW9mLXRoaXMtdGVzdA";
    let bench = Bench::new(|config| config.think_time = Duration::from_millis(1500));
    let options = bench.options(|options| {
        let value = format!("Basic {SECRET}").parse().unwrap();
        options.http.headers =
            vec![HeaderChange::Set("authorization".parse().unwrap(), Secret::new(value))];
    });
    let target = bench.target("/");
    let prober = prober("curl", &options);
    let (seen, sample) =
        wait(async { tokio::join!(arguments_of_curls(&target), prober.probe(&target)) });
    assert_eq!(sample.failure(), None);
    assert!(!seen.is_empty(), "no curl was seen while it waited for the response");
    for arguments in seen {
        assert!(!arguments.contains(SECRET) && !arguments.contains("site.test"), "{arguments}");
    }
}

/// Arguments of this process's curls, once there are any.
async fn arguments_of_curls(_target: &Target) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            if arguments.contains("curl -q -K -") {
                seen.push(arguments);
            }
        }
        if !seen.is_empty() {
            break;
        }
    }
    seen
}

/// In its own process, since environment variables belong to the process.
#[test]
fn proxies_and_the_users_own_file_do_not_apply() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join(".curlrc"), "proxy = \"http://127.0.0.1:1\"\n").unwrap();
    let said = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "visits::new_connections"])
        .env("HOME", home.path())
        .env("CURL_HOME", home.path())
        .env("https_proxy", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && text.contains("1 passed"), "{text}");
}
