//! Existing curl formats, through curl and through firstbyte, against the same server: the same lines, and the same
//! values except for times and what follows from them. Also the command lines that both accept.

use std::io::Write;

use rustls::version::{TLS12, TLS13};
use serde_json::Value;

use crate::support::certificates::{
    UNKNOWN, good, self_signed, self_signed_ca, self_signed_for, server, versions,
};
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::http2::h2_head;
use crate::support::peer::{Peer, answer, answer_tls, drain};
use crate::support::run::{Outcome, curl, firstbyte};

/// The format that most pages on "curl timing" show.
const CURL_FORMAT: &str = "\
    time_namelookup:  %{time_namelookup}s\\n
       time_connect:  %{time_connect}s\\n
    time_appconnect:  %{time_appconnect}s\\n
   time_pretransfer:  %{time_pretransfer}s\\n
      time_redirect:  %{time_redirect}s\\n
 time_starttransfer:  %{time_starttransfer}s\\n
                    ----------\\n
         time_total:  %{time_total}s\\n
";

/// The format that httpstat (reorder/httpstat) passes to curl.
const HTTPSTAT: &str = r#"{
"time_namelookup": %{time_namelookup},
"time_connect": %{time_connect},
"time_appconnect": %{time_appconnect},
"time_pretransfer": %{time_pretransfer},
"time_redirect": %{time_redirect},
"time_starttransfer": %{time_starttransfer},
"time_total": %{time_total},
"speed_download": %{speed_download},
"speed_upload": %{speed_upload},
"remote_ip": "%{remote_ip}",
"remote_port": "%{remote_port}",
"local_ip": "%{local_ip}",
"local_port": "%{local_port}"
}"#;

/// All variables that are not times, one per line.
const FACTS: &str = "\
content_type=%{content_type}\\nexitcode=%{exitcode}\\nhttp_code=%{http_code}\\n\
response_code=%{response_code}\\nhttp_connect=%{http_connect}\\nhttp_version=%{http_version}\\n\
local_ip=%{local_ip}\\nmethod=%{method}\\nnum_connects=%{num_connects}\\n\
num_headers=%{num_headers}\\nnum_redirects=%{num_redirects}\\nredirect_url=%{redirect_url}\\n\
referer=%{referer}\\nremote_ip=%{remote_ip}\\nremote_port=%{remote_port}\\nscheme=%{scheme}\\n\
size_download=%{size_download}\\nsize_header=%{size_header}\\nsize_request=%{size_request}\\n\
size_upload=%{size_upload}\\nssl_verify_result=%{ssl_verify_result}\\nurl=%{url}\\n\
url_effective=%{url_effective}\\nurlnum=%{urlnum}\\nx-one=%header{x-one}\\n\
escaped=%%{http_code}\\tand \\ more\\n";

/// Replaces every time, speed and client port, so that the rest must be equal.
fn settled(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let kept = if line.contains("speed_") || line.contains("local_port") {
            line.chars().filter(|c| !c.is_ascii_digit()).collect()
        } else if line.starts_with("scheme=") {
            // In capitals before curl 8.
            line.to_lowercase()
        } else {
            without_times(line)
        };
        out += &kept;
        out.push('\n');
    }
    out
}

/// Replaces `0.012345` by `TIME`: only curl's times have six decimals.
fn without_times(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let number = rest[start..].find(|c: char| !c.is_ascii_digit() && c != '.');
        let end = start + number.unwrap_or(rest.len() - start);
        let time = rest[start..end].split_once('.').is_some_and(|(_, decimals)| {
            decimals.len() == 6 && decimals.chars().all(|c| c.is_ascii_digit())
        });
        out += &rest[..start];
        out += if time { "TIME" } else { &rest[start..end] };
        rest = &rest[end..];
    }
    out + rest
}

fn both(directory: &Directory, arguments: &[&str]) -> (Outcome, Outcome) {
    let ours = firstbyte(directory.path(), arguments);
    let theirs = curl(directory.path(), &[&["-s", "-o", "body"], arguments].concat());
    (ours, theirs)
}

fn https() -> Peer {
    Peer::tls(server(&good(), &[]), |stream| {
        answer_tls(
            stream,
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nX-One: 1\r\n\
              Content-Length: 12\r\n\r\nhello, world",
        );
    })
}

#[test]
fn formats_from_files_give_the_same_lines() {
    let directory = Directory::new();
    directory.write("curl-format.txt", CURL_FORMAT);
    directory.write("httpstat.txt", HTTPSTAT);
    directory.write("crlf.txt", CURL_FORMAT.replace('\n', "\r\n"));
    directory.write("facts.txt", FACTS);
    let peer = https();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    for file in ["@curl-format.txt", "@httpstat.txt", "@crlf.txt", "@facts.txt"] {
        let arguments = ["-w", file, "--http1.1", "-A", "t", "--cacert", "ca.pem", &url];
        let (ours, theirs) = both(&directory, &arguments);
        assert_eq!((ours.code, theirs.code), (0, 0), "{file}: {}", ours.stderr);
        assert_eq!(settled(&ours.stdout), settled(&theirs.stdout), "{file}");
    }
}

#[test]
fn formats_on_the_command_line_give_the_same_lines() {
    let directory = Directory::new();
    let peer = https();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    for format in [HTTPSTAT, FACTS, CURL_FORMAT, "%{time_total}", "no variable at all\\n", "100%"] {
        let arguments = ["-w", format, "--http1.1", "-A", "t", "--cacert", "ca.pem", &url];
        let (ours, theirs) = both(&directory, &arguments);
        assert_eq!(settled(&ours.stdout), settled(&theirs.stdout), "{format}");
    }
}

#[test]
fn times_are_in_the_order_that_formats_rely_on() {
    let directory = Directory::new();
    let peer = https();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let outcome = firstbyte(directory.path(), &["-w", HTTPSTAT, "--cacert", "ca.pem", &url]);
    let stat: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let times: Vec<f64> = ["namelookup", "connect", "appconnect", "pretransfer", "starttransfer"]
        .iter()
        .chain(&["total"])
        .map(|name| stat[format!("time_{name}")].as_f64().unwrap())
        .collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(times[1] > 0.0 && times[2] > times[1], "{times:?}");
}

#[test]
fn redirects_failures_and_statuses_have_the_same_values() {
    let directory = Directory::new();
    let echo = Echo::start(|request| match request.path() {
        "/old" => response("301 Moved Permanently", "Location: /new?x=1\r\n", b"moved"),
        "/gone" => response("410 Gone", "X-One: yes\r\n", b"gone"),
        "/nothing" => response("404 Not Found", "", b""),
        "/hints" => [
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n".to_vec(),
            response("200 OK", "X-One: 1\r\n", b"new"),
        ]
        .concat(),
        "/empty" => b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec(),
        _ => response("200 OK", "Content-Type: a/b\r\n", b"new"),
    });
    let at = |path: &str| format!("http://127.0.0.1:{}{path}", echo.peer.port());
    let (old, gone, nothing, empty) = (at("/old"), at("/gone"), at("/nothing"), at("/empty"));
    let hints = at("/hints");
    let closed = Peer::closed();
    let refused = format!("http://{}/", closed.address);
    for arguments in [
        &[old.as_str()] as &[_],
        &["-L", &old],
        &["-d", "a=b", &gone],
        // If the response has a body, curl stops before it, but firstbyte measures it.
        &["-f", &nothing],
        &["-I", &gone],
        &[&empty],
        &[&hints],
        &[&refused],
    ] {
        let arguments = [&["-w", FACTS, "-A", "t"], arguments].concat();
        let (ours, theirs) = both(&directory, &arguments);
        assert_eq!(ours.code, theirs.code, "{arguments:?}");
        assert_eq!(settled(&ours.stdout), settled(&theirs.stdout), "{arguments:?}");
    }
}

#[test]
fn the_json_of_all_variables_agrees_where_both_have_one() {
    let directory = Directory::new();
    let peer = https();
    let url = format!("https://127.0.0.1:{}/", peer.port());
    let arguments = ["-w", "%{json}", "--http1.1", "-A", "t", "--cacert", "ca.pem", &url];
    let (ours, theirs) = both(&directory, &arguments);
    let ours: Value = serde_json::from_str(&ours.stdout).unwrap();
    let theirs: Value = serde_json::from_str(&theirs.stdout).unwrap();
    let differ = ["time_", "speed_", "local_port", "curl_version", "filename_effective", "certs"];
    for (name, value) in theirs.as_object().unwrap() {
        if name == "scheme" {
            assert_eq!(ours[name], value.as_str().unwrap().to_lowercase());
        } else if !differ.iter().any(|prefix| name.starts_with(prefix)) {
            assert_eq!(&ours[name], value, "{name}");
        }
    }
    for name in ["time_total", "time_connect", "time_appconnect", "time_starttransfer"] {
        assert!(ours[name].as_f64().unwrap() > 0.0, "{name}");
    }
}

#[test]
fn a_failure_is_told_beside_the_format() {
    let directory = Directory::new();
    let closed = Peer::closed();
    let url = format!("http://{}/", closed.address);
    let outcome = firstbyte(directory.path(), &["-w", "%{http_code}\\n", &url]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (7, "000\n"));
    let said = format!("error: connect: connection refused by {}\n", closed.address);
    assert!(outcome.stderr.starts_with(&said), "{}", outcome.stderr);
}

/// As with curl, it does not matter who signed the certificate or whether it is a CA's; its name and dates do matter.
#[test]
fn a_servers_own_certificate_given_as_trusted_is_trusted_as_by_curl() {
    let directory = Directory::new();
    let expired = self_signed_for("a.test", |c| c.not_after = rcgen::date_time_ymd(2024, 5, 17));
    for (identity, trusted) in [
        (self_signed(), true),
        (self_signed_ca(), true),
        (self_signed_for("a.test", |_| ()), true),
        (self_signed_for("*.test", |_| ()), false),
        (UNKNOWN.issue(&["a.test"], |_| ()), true),
        (self_signed_for("b.test", |_| ()), false),
        (UNKNOWN.issue(&["b.test"], |_| ()), false),
        (expired, false),
    ] {
        directory.write("own.pem", &identity.chain_pem);
        for version in [&TLS12, &TLS13] {
            let peer = Peer::tls(versions(&identity, &[], &[version]), |stream| {
                answer_tls(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            });
            let url = format!("https://a.test:{}/", peer.port());
            let arguments = ["--cacert", "own.pem", "--resolve", "a.test:*:127.0.0.1", &url];
            let ours = firstbyte(directory.path(), &arguments);
            let resolve = format!("a.test:{}:127.0.0.1", peer.port());
            let theirs = curl(
                directory.path(),
                &["-sS", "-o", "body", "--cacert", "own.pem", "--resolve", &resolve, &url],
            );
            assert_eq!(ours.code, if trusted { 0 } else { 60 }, "{}", ours.stdout);
            assert_eq!(ours.code, theirs.code, "{}{}", ours.stdout, theirs.stderr);
        }
    }
}

#[test]
fn heads_are_as_large_as_curl_takes_them() {
    let directory = Directory::new();
    for (fields, bytes) in [(290, 990), (6_000, 1), (1, 99_000)] {
        let value = "y".repeat(bytes);
        let fields: String = (0..fields).map(|i| format!("X-{i}: {value}\r\n")).collect();
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nhi");
        let peer = Peer::tcp(move |stream| answer(stream, head.as_bytes()));
        let url = format!("http://127.0.0.1:{}/", peer.port());
        let format = "%{http_code} %{size_header} %{num_headers} %{size_download}";
        let ours = firstbyte(directory.path(), &["-w", format, &url]);
        let theirs = curl(directory.path(), &["-s", "-o", "body", "-w", format, &url]);
        assert_eq!((ours.code, theirs.code), (0, 0), "{}", ours.stderr);
        assert_eq!(ours.stdout, theirs.stdout);
    }
    for (fields, bytes) in [(500, 500), (4_000, 20)] {
        let head = h2_head(fields, bytes);
        let peer = Peer::tls(server(&good(), &["h2"]), move |stream| {
            let _ = stream.write_all(&head);
            drain(stream);
        });
        let url = format!("https://127.0.0.1:{}/", peer.port());
        let outcome = firstbyte(directory.path(), &["--json", "--cacert", "ca.pem", &url]);
        let sample: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(sample["http"]["headers"].as_array().unwrap().len(), fields);
    }
}
