//! The effect of flags, tested with servers on loopback that record their requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;

use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::ServerCertificate;
use rustls::version::{TLS12, TLS13};
use serde_json::{Value, json};

use crate::support::certificates::{good, self_signed, server, versions, wants_client_certificate};
use crate::support::dns::{Answer, DnsServer};
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::peer::{Peer, answer, answer_tls, drain, read_head};
use crate::support::run::{Outcome, curl, firstbyte};

/// The only sample printed by `firstbyte --json`; it must not have failed.
fn sample(directory: &Directory, arguments: &[&str]) -> Value {
    let outcome = firstbyte(directory.path(), &[&["--json"], arguments].concat());
    let sample: Value = serde_json::from_str(&outcome.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", outcome.stdout, outcome.stderr));
    assert_eq!(sample["failure"], Value::Null, "{arguments:?}");
    assert_eq!(outcome.code, 0);
    sample
}

fn ok(outcome: &Outcome) {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
}

/// The built-in server, with a certificate issued by `ca.pem`.
fn builtin(change: impl FnOnce(&mut Config)) -> Handle {
    let identity = good();
    let certificate =
        ServerCertificate { chain_pem: identity.chain_pem, key_pem: identity.key_pem };
    let mut config = Config::new(certificate);
    change(&mut config);
    spawn(config, Listeners::loopback().unwrap()).unwrap()
}

/// Requests equal those of curl for the same arguments, except for the name of the tool.
#[test]
fn requests_are_those_of_curl() {
    let directory = Directory::new();
    directory.write("form", "one\r\ntwo\n");
    let cases: &[&[&str]] = &[
        &[],
        &["-X", "PATCH"],
        &["-I"],
        &["-A", ""],
        &["-A", "tester/1"],
        &["-H", "X-One: 1", "-H", "X-Two:2", "-H", "X-Empty;"],
        &["-H", "Accept:", "-H", "Host: other.test"],
        &["-H", "X-Same: 1", "-H", "X-Same: 2"],
        &["-d", "a=1", "-d", "b=2"],
        &["-d", "@form"],
        &["--data-binary", "@form"],
        &["--data-raw", "@form"],
        &["-d", ""],
        &["-d", "{}", "-H", "Content-Type: application/json", "-X", "PUT"],
        &["--compressed"],
    ];
    let echo = Echo::start(|_| response("200 OK", "", b"ok"));
    let url = format!("http://127.0.0.1:{}/a%20path?q=1&r=%C3%A4#no", echo.peer.port());
    for case in cases {
        let arguments = [case, [url.as_str()].as_slice()].concat();
        ok(&firstbyte(directory.path(), &arguments));
        let mut ours = echo.requests();
        curl(directory.path(), &[&["-s", "-o", "curl.out"], arguments.as_slice()].concat());
        let mut theirs = echo.requests();
        for request in ours.iter_mut().chain(&mut theirs) {
            let generated = |f: &String| {
                f.starts_with("user-agent: curl/") || f.starts_with("user-agent: firstbyte/")
            };
            request.fields.retain(|field| !generated(field));
        }
        assert_eq!(ours, theirs, "{case:?}");
    }
}

#[test]
fn redirects_are_followed_as_curl_does() {
    let directory = Directory::new();
    let echo = Echo::start(|request| match request.path() {
        "/302" => response("302 Found", "Location: /end\r\n", b""),
        "/303" => response("303 See Other", "Location: end?b=1\r\n", b"elsewhere"),
        "/307" => response("307 Temporary Redirect", "Location: /end\r\n", b""),
        "/empty" => response("302 Found", "Location: \r\n", b"nowhere"),
        _ => response("200 OK", "", b"the end"),
    });
    let port = echo.peer.port();
    for case in [
        &["/302"] as &[&str],
        &["/303"],
        &["/302", "-d", "x=1"],
        &["/303", "-d", "x=1"],
        &["/307", "-d", "x=1"],
        &["/302", "-d", "x=1", "-X", "POST"],
        &["/302", "-H", "Authorization: Basic eDp5"],
        &["/empty"],
    ] {
        let url = format!("http://127.0.0.1:{port}{}", case[0]);
        let arguments = [&case[1..], &["-L", "-A", "t", &url]].concat();
        ok(&firstbyte(directory.path(), &[&["-o", "ours"], arguments.as_slice()].concat()));
        let ours = echo.requests();
        curl(directory.path(), &[&["-s", "-o", "theirs"], arguments.as_slice()].concat());
        let theirs = echo.requests();
        assert_eq!(ours, theirs, "{case:?}");
        assert_eq!(directory.read("ours"), directory.read("theirs"), "{case:?}");
    }
}

/// Accepted as RFC 9112 requires of user agents (§5.2, §2.2), and as curl does.
#[test]
fn heads_in_old_forms_are_taken() {
    let directory = Directory::new();
    for (head, value) in [
        ("HTTP/1.1 200 OK\r\nETag: \"a\"\r\n more=1\r\nContent-Length: 2\r\n\r\n", "\"a\" more=1"),
        ("HTTP/1.1 200 OK\r\nETag : \"a\"\r\nContent-Length: 2\r\n\r\n", "\"a\""),
        ("HTTP/1.1 200 OK\nETag: \"a\"\nContent-Length: 2\n\n", "\"a\""),
    ] {
        let peer = Peer::tcp(move |stream| answer(stream, format!("{head}ok").as_bytes()));
        let url = format!("http://127.0.0.1:{}/", peer.port());
        let sample = sample(&directory, &[&url]);
        let http = &sample["http"];
        assert_eq!((&http["status"], &http["body_bytes"]), (&200.into(), &2.into()), "{http}");
        assert_eq!(http["header_bytes"], head.len(), "{http}");
        let fields = http["headers"].as_array().unwrap();
        let etag =
            fields.iter().find(|field| field[0].as_str().unwrap().eq_ignore_ascii_case("etag"));
        assert_eq!(etag.unwrap()[1], value, "{http}");
    }
}

/// Over TLS 1.2 the answer comes with the end of the handshake.
#[test]
fn a_server_that_answers_before_it_is_asked_has_answered() {
    const TIMEOUT: &[u8] =
        b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let directory = Directory::new();
    for version in [&TLS12, &TLS13] {
        let config = versions(&good(), &["http/1.1"], &[version]);
        let peer = Peer::tls(config, |stream| {
            let _ = stream.write_all(TIMEOUT);
            stream.conn.send_close_notify();
            let _ = stream.conn.complete_io(&mut stream.sock);
            drain(&mut stream.sock);
        });
        let url = format!("https://127.0.0.1:{}/", peer.port());
        for _ in 0..20 {
            let sample = sample(&directory, &["--cacert", "ca.pem", &url]);
            assert_eq!(sample["http"]["status"], 408, "{version:?}");
        }
    }
}

/// Accepted as in curl: escaped, unescaped, and by interface number.
#[test]
fn ipv6_addresses_have_zones() {
    let directory = Directory::new();
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let peer = Peer::listening(listener, |stream| {
        answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    });
    let url = |zone: &str| format!("http://[::1{zone}]:{}/", peer.port());
    // `lo` is always the first interface.
    for zone in ["%25lo", "%lo", "%251"] {
        let sample = sample(&directory, &[&url(zone)]);
        assert_eq!(sample["http"]["status"], 200, "{zone}");
        let shown = sample["url"].as_str().unwrap();
        assert!(shown.starts_with("http://[::1%25"), "{shown}");
    }
    let named = format!("http://a.test:{}/", peer.port());
    let resolve = format!("a.test:{}:::1%lo", peer.port());
    for [flag, value] in [["--resolve", resolve.as_str()], ["--connect-to", "::[::1%lo]:"]] {
        let sample = sample(&directory, &[flag, value, named.as_str()]);
        assert_eq!(sample["http"]["status"], 200, "{flag}");
    }
    let outcome = firstbyte(directory.path(), &[url("%25no-such-if")]);
    assert_eq!(outcome.code, 45, "{}{}", outcome.stdout, outcome.stderr);
    let said = "no network interface is called \"no-such-if\"";
    assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
}

#[test]
fn a_body_on_standard_output_is_alone_there() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b"{\"a\": 1}\n"));
    let url = format!("http://127.0.0.1:{}/", echo.peer.port());
    let done = firstbyte(directory.path(), &["-o", "-", &url]);
    assert_eq!(done.stdout, "{\"a\": 1}\n");
    let shown = &done.stderr;
    assert!(shown.contains("first byte") && shown.contains("round trip"), "{shown}");
    // The output of `--write-out` goes to the same place as with curl.
    let done = firstbyte(directory.path(), &["-o", "-", "-w", "%{http_code}\n", &url]);
    assert_eq!(done.stdout, "{\"a\": 1}\n200\n");
}

#[test]
fn every_hop_of_a_redirect_is_a_measurement() {
    let directory = Directory::new();
    let server = builtin(|_| ());
    let url = format!("https://a.test:{}/redirect", server.addr().port());
    let sample =
        sample(&directory, &["-L", "--cacert", "ca.pem", "--resolve", "a.test:*:127.0.0.1", &url]);
    let hops = sample["redirects"].as_array().unwrap();
    assert_eq!(hops.len(), 1);
    assert_eq!(hops[0]["http"]["status"], 302);
    assert_eq!(sample["http"]["status"], 200);
    assert_eq!(sample["requested_url"], url);
    assert_eq!(sample["url"], url.replace("redirect", ""));
    assert!(hops[0]["marks"]["response_end"].is_object());
    assert!(sample["marks"]["handshake_complete"].is_object());
}

#[test]
fn credentials_stay_with_their_host() {
    let directory = Directory::new();
    let other = Echo::start(|_| response("200 OK", "", b""));
    let location = format!("Location: http://other.test:{}/\r\n", other.peer.port());
    let echo = Echo::start(move |_| response("302 Found", &location, b""));
    let url = format!("http://a.test:{}/", echo.peer.port());
    ok(&firstbyte(
        directory.path(),
        &[
            "-L",
            "--resolve",
            "*:*:127.0.0.1",
            "-H",
            "Authorization: secret",
            "-H",
            "Cookie: c",
            &url,
        ],
    ));
    assert_eq!(echo.requests()[0].field("authorization"), Some("secret"));
    let second = &other.requests()[0];
    assert_eq!((second.field("authorization"), second.field("cookie")), (None, None));
}

#[test]
fn compressed_bodies_are_decoded() {
    let directory = Directory::new();
    let plain = "the quick brown fox jumps over the lazy dog\n".repeat(5_000);
    for (name, packed) in packed(plain.as_bytes()) {
        let length = packed.len();
        let fields = format!("Content-Encoding: {name}\r\n");
        let echo = Echo::start(move |_| response("200 OK", &fields, &packed));
        let url = format!("http://127.0.0.1:{}/", echo.peer.port());
        let sample = sample(&directory, &["--compressed", "-o", "body", &url]);
        assert!(directory.read("body") == plain.as_bytes(), "{name}");
        assert_eq!(sample["http"]["body_bytes"], length, "{name}");
        assert_eq!(sample["http"]["decoded_bytes"], plain.len(), "{name}");
        assert_eq!(
            echo.requests()[0].field("accept-encoding"),
            Some("deflate, gzip, br, zstd"),
            "{name}"
        );
    }
}

#[test]
fn compressed_bodies_that_are_cut_short_are_told() {
    let directory = Directory::new();
    let plain = "the quick brown fox jumps over the lazy dog\n".repeat(5_000);
    for (name, mut packed) in packed(plain.as_bytes()) {
        packed.truncate(packed.len() - 5);
        let fields = format!("Content-Encoding: {name}\r\n");
        let echo = Echo::start(move |_| response("200 OK", &fields, &packed));
        let url = format!("http://127.0.0.1:{}/", echo.peer.port());
        let outcome = firstbyte(directory.path(), &["--compressed", &url]);
        assert_eq!(outcome.code, 61, "{name}: {}", outcome.stdout);
        let said = format!(
            "cannot decode the body as {name}: the data is cut short, or its checksum is wrong"
        );
        assert!(outcome.stdout.contains(&said), "{}", outcome.stdout);
    }
}

fn packed(plain: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(plain).unwrap();
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(plain).unwrap();
    let mut br = Vec::new();
    brotli::CompressorWriter::new(&mut br, 4096, 5, 20).write_all(plain).unwrap();
    vec![
        ("gzip", gzip.finish().unwrap()),
        ("deflate", deflate.finish().unwrap()),
        ("br", br),
        ("zstd", zstd::encode_all(plain, 3).unwrap()),
    ]
}

#[test]
fn bodies_go_where_they_are_told() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b"the body\n"));
    let url = format!("http://127.0.0.1:{}/", echo.peer.port());
    let dropped = firstbyte(directory.path(), &[&url]);
    assert!(!dropped.stdout.contains("the body"), "{}", dropped.stdout);
    let stdout = firstbyte(directory.path(), &["-o", "-", "-w", "%{http_code}\\n", &url]);
    assert_eq!(stdout.stdout, "the body\n200\n");
    directory.write("body", "what was there before, which is longer");
    ok(&firstbyte(directory.path(), &["-o", "body", "-n", "3", &url]));
    assert_eq!(directory.read("body"), b"the body\n");
    let missing = Echo::start(|_| response("404 Not Found", "", b"an apology\n"));
    let url = format!("http://127.0.0.1:{}/", missing.peer.port());
    let failed = firstbyte(directory.path(), &["-f", "-o", "-", "-w", "%{http_code}", &url]);
    assert_eq!((failed.code, failed.stdout.as_str()), (22, "404"));
    let taken = firstbyte(directory.path(), &["-o", "-", "-w", "%{http_code}", &url]);
    assert_eq!((taken.code, taken.stdout.as_str()), (0, "an apology\n404"));
}

#[test]
fn responses_end_in_every_way_http1_knows() {
    let directory = Directory::new();
    let cases: &[(&[u8], u16, &[u8])] = &[
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: 1\r\n\r\n",
            200,
            b"hello",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
        (
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            200,
            b"hello",
        ),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 404, b""),
    ];
    for (bytes, status, body) in cases {
        let bytes = bytes.to_vec();
        let peer = Peer::tcp(move |stream| answer(stream, &bytes));
        let url = format!("http://127.0.0.1:{}/", peer.port());
        let sample = sample(&directory, &["-o", "body", &url]);
        assert_eq!(sample["http"]["status"], *status, "{status} {body:?}");
        assert_eq!(directory.read("body"), *body, "{status} {body:?}");
        assert_eq!(sample["http"]["body_bytes"], body.len());
        assert!(sample["marks"]["response_end"].is_object());
    }
}

#[test]
fn large_bodies_arrive_whole_in_both_directions() {
    let directory = Directory::new();
    directory.write("upload", "x".repeat(3_000_000));
    let echo = Echo::start(|request| response("200 OK", "", request.body.as_bytes()));
    let url = format!("http://127.0.0.1:{}/", echo.peer.port());
    let sample = sample(&directory, &["-d", "@upload", "-o", "download", &url]);
    assert_eq!(sample["http"]["upload_bytes"], 3_000_000);
    assert_eq!(sample["http"]["body_bytes"], 3_000_000);
    assert!(directory.read("upload") == directory.read("download"));
}

#[test]
fn both_http_versions_fetch_from_the_built_in_server() {
    let directory = Directory::new();
    directory.write("upload", "x".repeat(300_000));
    let server = builtin(|_| ());
    let url = format!("https://127.0.0.1:{}/bytes/200000", server.addr().port());
    for (flag, version) in
        [("--http1.1", "1.1"), ("--http2", "2"), ("--http2-prior-knowledge", "2")]
    {
        for extra in [&[] as &[&str], &["-d", "@upload"], &["-X", "DELETE"]] {
            let arguments = [&[flag, "--cacert", "ca.pem", "-o", "body", &url], extra].concat();
            let sample = sample(&directory, &arguments);
            assert_eq!(sample["http"]["version"], version, "{arguments:?}");
            assert_eq!(sample["http"]["body_bytes"], 200_000, "{arguments:?}");
            assert_eq!(directory.read("body").len(), 200_000, "{arguments:?}");
        }
    }
    let head = sample(&directory, &["-I", "--cacert", "ca.pem", &url]);
    assert_eq!((&head["http"]["method"], &head["http"]["body_bytes"]), (&"HEAD".into(), &0.into()));
}

#[test]
fn tls_is_what_the_flags_ask_for() {
    let directory = Directory::new();
    let server = builtin(|_| ());
    let url = format!("https://127.0.0.1:{}/", server.addr().port());
    let cases: &[(&[&str], &str, &str)] = &[
        (&[], "TLSv1.3", "X25519MLKEM768"),
        (&["--curves", "P-256"], "TLSv1.3", "secp256r1"),
        (&["--curves", "P-384:X25519"], "TLSv1.3", "secp384r1"),
        (&["--tls-max", "1.2"], "TLSv1.2", "X25519"),
        (&["--tls-max", "1.2", "--curves", "P-256"], "TLSv1.2", "secp256r1"),
        (&["--tlsv1.3"], "TLSv1.3", "X25519MLKEM768"),
    ];
    for (flags, version, group) in cases {
        let sample = sample(&directory, &[flags, ["--cacert", "ca.pem", &url].as_slice()].concat());
        assert_eq!(sample["tls"]["version"], *version, "{flags:?}");
        assert_eq!(sample["tls"]["group"], *group, "{flags:?}");
        assert_eq!(sample["tls"]["verified"], true, "{flags:?}");
        let round_trips = sample["split"]["phases"].as_array().unwrap().iter();
        let tls = round_trips.filter(|phase| phase["name"] == "tls");
        let tls: u64 = tls.map(|phase| phase["round_trips"].as_u64().unwrap()).sum();
        assert_eq!(tls, if *version == "TLSv1.2" { 2 } else { 1 }, "{flags:?}");
    }
}

#[test]
fn insecure_measures_what_it_does_not_trust() {
    let directory = Directory::new();
    let identity = self_signed();
    directory.write("self.pem", &identity.chain_pem);
    let peer = Peer::tls(server(&identity, &[]), |stream| {
        answer_tls(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let url = format!("https://a.test:{}/", peer.port());
    let resolve = ["--resolve", "a.test:*:127.0.0.1"];
    let unverified = sample(&directory, &[&resolve, ["-k", &url].as_slice()].concat());
    assert_eq!(unverified["tls"]["verified"], false);
    // The option that the hint for a self-signed certificate recommends.
    let pinned =
        sample(&directory, &[&resolve, ["--cacert", "self.pem", &url].as_slice()].concat());
    assert_eq!(pinned["tls"]["verified"], true);
}

/// Without a Content-Length, only close_notify shows that a body is complete.
#[test]
fn an_end_without_close_notify_and_length_is_said() {
    let directory = Directory::new();
    let visit = |head: &'static [u8], says_goodbye: bool| {
        let peer = Peer::tls(server(&good(), &[]), move |stream| {
            if says_goodbye {
                answer_tls(stream, head);
            } else {
                read_head(stream);
                stream.write_all(head).unwrap();
                stream.flush().unwrap();
                stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
                drain(&mut stream.sock);
            }
        });
        let url = format!("https://127.0.0.1:{}/", peer.port());
        let sample = sample(&directory, &["--cacert", "ca.pem", &url]);
        assert_eq!(sample["http"]["body_bytes"], 5);
        let shown = firstbyte(directory.path(), &["--cacert", "ca.pem", &url]);
        let said = shown.stdout.contains("without close_notify");
        assert_eq!(Value::from(said), sample["http"]["may_be_cut_short"]);
        said
    };
    let open_ended = b"HTTP/1.1 200 OK\r\n\r\nhello";
    assert!(visit(open_ended, false));
    assert!(!visit(open_ended, true));
    assert!(!visit(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false));
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    assert!(!visit(chunked, false));
}

#[test]
fn of_a_repeated_flag_the_last_counts() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = format!("http://{}/", echo.peer.address);
    let arguments =
        ["-m", "0.000001", "-n", "3", "-m", "10", "-n", "1", "-A", "x", "-A", "y", &url];
    ok(&firstbyte(directory.path(), &arguments));
    let requests = echo.requests();
    assert_eq!((requests.len(), requests[0].field("user-agent")), (1, Some("y")));
}

#[test]
fn client_certificates_are_shown() {
    let directory = Directory::with_client();
    for version in [&TLS12, &TLS13] {
        let peer = Peer::tls(wants_client_certificate(version), |stream| {
            answer_tls(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
        let url = format!("https://127.0.0.1:{}/", peer.port());
        for certificate in
            [&["--cert", "client.pem", "--key", "client.key"] as &[_], &["-E", "client-all.pem"]]
        {
            let sample = sample(&directory, &[&["--cacert", "ca.pem", &url], certificate].concat());
            assert_eq!(sample["http"]["status"], 200);
        }
    }
}

#[test]
fn connections_go_where_the_flags_say() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let port = echo.peer.port();
    let here = format!("127.0.0.1:{port}");
    for (flags, url) in [
        (vec![format!("--resolve=a.test:{port}:127.0.0.1")], format!("a.test:{port}")),
        (vec![format!("--resolve=*:{port}:[127.0.0.1]")], format!("b.test:{port}")),
        (vec![format!("--connect-to=a.test:80:127.0.0.1:{port}")], "a.test".into()),
        (vec![format!("--connect-to=::127.0.0.1:{port}")], "a.test:81".into()),
        (
            vec![
                format!("--connect-to=a.test::c.test:{port}"),
                format!("--resolve=c.test:{port}:127.0.0.1"),
            ],
            "a.test:9".into(),
        ),
    ] {
        let mut arguments: Vec<&str> = flags.iter().map(String::as_str).collect();
        let full = format!("http://{url}/");
        arguments.push(&full);
        let sample = sample(&directory, &arguments);
        assert_eq!(sample["remote"], here, "{arguments:?}");
        assert_eq!(echo.requests()[0].field("host"), Some(url.as_str()), "{arguments:?}");
        assert!(sample["marks"]["domain_lookup_start"].is_null(), "{arguments:?}");
    }
}

#[test]
fn connections_leave_from_where_the_flags_say() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = format!("http://127.0.0.1:{}/", echo.peer.port());
    for from in ["127.0.0.2", "host!127.0.0.3"] {
        let sample = sample(&directory, &["--interface", from, &url]);
        let address = from.trim_start_matches("host!");
        assert!(sample["local"].as_str().unwrap().starts_with(&format!("{address}:")), "{sample}");
    }
    for device in ["lo", "if!lo"] {
        sample(&directory, &["--interface", device, &url]);
    }
}

/// Servers on the same port of both address families.
fn both_families() -> (Peer, Peer) {
    let ok = |stream| answer(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let v6 = || {
        TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
            .expect("this test needs IPv6 on loopback: sysctl net.ipv6.conf.lo.disable_ipv6=0")
    };
    for _ in 0..50 {
        let v6 = v6();
        if let Ok(v4) = TcpListener::bind(("127.0.0.1", v6.local_addr().unwrap().port())) {
            return (Peer::listening(v4, ok), Peer::listening(v6, ok));
        }
    }
    panic!("no port is free in both families");
}

fn dns(addresses: &[&str]) -> (DnsServer, String) {
    let addresses: Vec<IpAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let server = DnsServer::start(Answer::Addresses(addresses));
    let address = server.address.to_string();
    (server, address)
}

#[test]
fn families_are_as_asked_for() {
    let directory = Directory::new();
    let (v4, _v6) = both_families();
    let (_dns, resolver) = dns(&["127.0.0.1", "::1"]);
    let url = format!("http://a.test:{}/", v4.port());
    for (flags, start, lookups) in [
        (&["-4"] as &[_], "127.0.0.1:", &["A"] as &[_]),
        (&["-6"], "[::1]:", &["AAAA"]),
        (&[], "[::1]:", &["AAAA", "A"]),
    ] {
        let sample =
            sample(&directory, &[flags, ["--resolver", &resolver, &url].as_slice()].concat());
        assert!(sample["remote"].as_str().unwrap().starts_with(start), "{flags:?}");
        let asked: Vec<&str> = sample["lookups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["record_type"].as_str().unwrap())
            .collect();
        // It is a race which of the two is asked first, and whether the other is still waited for.
        assert!(asked.iter().all(|t| lookups.contains(t)) && !asked.is_empty(), "{asked:?}");
        assert!(sample["marks"]["domain_lookup_end"].is_object());
        let asked = &sample["lookups"][0]["tries"][0];
        assert_eq!((&asked["server"], &asked["transport"]), (&json!(resolver), &json!("udp")));
    }
}

#[test]
fn the_system_resolver_knows_this_machine() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = format!("http://localhost:{}/", echo.peer.port());
    let sample = sample(&directory, &["-4", "--resolver", "system", &url]);
    assert_eq!(sample["lookups"][0]["record_type"], "A+AAAA");
    assert_eq!(sample["remote"], echo.peer.address.to_string());
}

#[test]
fn several_urls_are_measured_in_turn() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = |path: &str| format!("http://{}{path}", echo.peer.address);
    let arguments = ["--csv", "-n", "2", &url("/a"), &url("/b")];
    let outcome = firstbyte(directory.path(), &arguments);
    ok(&outcome);
    assert_eq!(outcome.stdout.lines().count(), 7, "a header, a warm-up and two samples of each");
    let asked: Vec<String> = echo.requests().iter().map(|r| r.path().to_owned()).collect();
    assert_eq!(asked, ["/a", "/b", "/a", "/b", "/a", "/b"]);
}

#[test]
fn rows_go_to_files_beside_what_is_shown() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "Set-Cookie: a=b\r\n", b""));
    let url = format!("http://{}/", echo.peer.address);
    let rows = ["--json=a.json", "--csv=a.csv", "-n", "2", &url];
    for (more, shows) in [
        (&[] as &[&str], "first byte"),
        (&["--sequence"], "client"),
        (&["-w", "seen %{http_code}\\n"], "seen 200"),
    ] {
        let outcome = firstbyte(directory.path(), &[&rows[..], more].concat());
        ok(&outcome);
        assert!(outcome.stdout.to_lowercase().contains(shows), "{more:?} {}", outcome.stdout);
        assert_eq!(directory.read("a.json").iter().filter(|b| **b == b'\n').count(), 3);
        assert_eq!(directory.read("a.csv").iter().filter(|b| **b == b'\n').count(), 4);
    }
    // Responses are private to the user who requested them.
    let mode = std::fs::metadata(directory.path().join("a.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // One output goes to standard output, the other to a file.
    let outcome = firstbyte(directory.path(), &["--json", "--csv=b.csv", &url]);
    ok(&outcome);
    assert!(outcome.stdout.starts_with("{\"format\":\"firstbyte/sample\""), "{}", outcome.stdout);
    assert_eq!(directory.read("b.csv").iter().filter(|b| **b == b'\n').count(), 2);
    let refused = firstbyte(directory.path(), &["--json=no/where", &url]);
    assert_eq!((refused.code, refused.stdout.as_str()), (23, ""), "{}", refused.stderr);
}

/// SIGINT in the middle of a run, sent to the program itself.
#[test]
fn ctrl_c_shows_what_was_measured() {
    use std::process::{Command, Stdio};
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = format!("http://{}/", echo.peer.address);
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["--json", "-n", "1000", "--warmup", "0", "--interval", "0.02", &url])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        lines.next().unwrap().unwrap();
    }
    let process = nix::unistd::Pid::from_raw(child.id().try_into().unwrap());
    nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().all(|line| serde_json::from_str::<Value>(line).is_ok()), "whole lines");
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(130));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said, "interrupted: only complete samples are shown\n", "and no progress bar");
}

/// As in `firstbyte … | head`.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::process::{Command, Stdio};
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    let url = format!("http://{}/", echo.peer.address);
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["--json", "-n", "1000", "--interval", "0.02", &url])
        .current_dir(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(lines);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap().as_str()),
        (Some(0), "")
    );
    assert!(echo.requests().len() < 100, "it ended early");
}

#[test]
fn the_other_family_is_tried_when_one_fails() {
    let directory = Directory::new();
    let echo = Echo::start(|_| response("200 OK", "", b""));
    // Nothing listens on this port of ::1.
    let (_dns, resolver) = dns(&["127.0.0.1", "::1"]);
    let url = format!("http://a.test:{}/", echo.peer.port());
    let sample = sample(&directory, &["--resolver", &resolver, &url]);
    let attempts = sample["attempts"].as_array().unwrap();
    let outcomes: Vec<_> = attempts.iter().map(|a| a["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["failed", "won"]);
    assert!(attempts[0]["remote"].as_str().unwrap().starts_with("[::1]"));
    assert!(attempts[0]["error"].as_str().unwrap().starts_with("connection refused by [::1]"));
    assert!(sample["total_ns"].as_u64().unwrap() < 200_000_000, "no delay after a refusal");
}

/// `HTTP_PROXY` is not read, as with curl.
#[test]
fn proxies_of_the_environment_are_used() {
    let directory = Directory::new();
    for (variable, is_used) in [("HTTPS_PROXY", true), ("all_proxy", true), ("HTTP_PROXY", false)] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args(["-m", "1", "--resolver", "127.0.0.1:9", "https://proxied.test/"])
            .current_dir(directory.path())
            .env(variable, "http://127.0.0.1:1")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told.contains("connection refused by 127.0.0.1:1"), is_used, "{told}");
    }
}
