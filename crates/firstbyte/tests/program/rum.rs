//! `firstbyte rum serve` with real beacons and with hostile senders: valid beacons are stored as whole lines, invalid
//! ones are refused and counted, and nobody can lock out others.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use firstbyte_sources::field_data::{FieldHeader, FieldLine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::files::Directory;
use crate::support::run::firstbyte;

/// Nothing takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    pub(crate) at: SocketAddr,
    pub(crate) file: PathBuf,
}

impl Server {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_firstbyte"));
        command.args(["rum", "serve", "--listen", "127.0.0.1:0", "--into", "field.ndjson"]);
        command.args(arguments);
        Self::started(directory, command)
    }

    fn started(directory: &Path, mut command: Command) -> Self {
        let mut child = command
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("receiving beacons") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it did not begin");
        }
        let at = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap();
        let at = at.parse().unwrap();
        Self { child, stderr, at, file: directory.join("field.ndjson") }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Posts a beacon and returns the status.
    fn post(&self, kind: &str, body: &[u8]) -> u16 {
        self.request("POST", &format!("Content-Type: {kind}\r\n"), body).0
    }

    fn request(&self, method: &str, fields: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        let head = format!(
            "{method} /rum HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The server does not read a body that is too large to its end.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            answer.extend_from_slice(&piece[..read]);
        }
        let answer = String::from_utf8(answer).unwrap();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no answer: {answer:?}")), answer.to_lowercase())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Terminates the server; returns its exit code, its messages, and the lines it wrote.
    pub(crate) fn stop(mut self) -> (Option<i32>, String, Vec<FieldLine>) {
        self.signal(Signal::SIGTERM);
        let code = self.child.wait().unwrap().code();
        let mut said = String::new();
        self.stderr.read_to_string(&mut said).unwrap();
        (code, said, lines(&self.file))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Every line of a file; all must be complete.
fn lines(file: &Path) -> Vec<FieldLine> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "{text}");
    let mut lines = text.lines();
    FieldHeader::parse(lines.next().unwrap().as_bytes()).unwrap();
    lines.map(|line| FieldLine::parse(line.as_bytes()).unwrap()).collect()
}

fn beacons(lines: &[FieldLine]) -> usize {
    lines.iter().filter(|line| matches!(line, FieldLine::Beacon(_))).count()
}

/// How often beacons were refused for the reason `why`, according to the file.
fn refused(lines: &[FieldLine], why: &str) -> u64 {
    let all = lines.iter().filter_map(|line| match line {
        FieldLine::Refused(refused) => refused.get(why),
        _ => None,
    });
    all.sum()
}

/// A beacon as sent by the snippet.
const BEACON: &str = r#"{"v":1,"page":"https://shop.example","part":1,"step":0.1,"isolated":false,"activation":0,"left":0,"entries":[["navigate","","h2","",5,0,0,1.2,2.1,8.3,8.3,30.1,55.9,56,0,101.2,101.2,140]]}"#;

#[test]
fn a_beacon_becomes_a_line_before_it_is_answered() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &[]);
    assert_eq!(server.post("text/plain;charset=UTF-8", BEACON.as_bytes()), 204);
    assert_eq!(beacons(&lines(&server.file)), 1);
    let (status, answer) = server.request("OPTIONS", "Origin: https://shop.example\r\n", b"");
    assert_eq!(status, 204);
    assert!(answer.contains("access-control-allow-origin: *\r\n"), "{answer}");
    assert!(answer.contains("access-control-allow-headers: content-type\r\n"), "{answer}");
    let report = r#"[{"age":9,"type":"network-error","url":"https://shop.example/secret?q=secret",
        "user_agent":"secret","body":{"sampling_fraction":0.5,"elapsed_time":12,"phase":"connection",
        "type":"tcp.refused","server_ip":"192.0.2.99","protocol":"","referrer":"https://secret.example/",
        "method":"GET","status_code":0}}]"#;
    assert_eq!(server.post("application/reports+json", report.as_bytes()), 204);
    let (code, said, all) = server.stop();
    assert_eq!(code, Some(0));
    assert!(said.ends_with("stopped: stored 1 beacons and 1 reports\n"), "{said}");
    let FieldLine::Report(report) = &all[1] else { panic!("{all:?}") };
    assert_eq!((report.failure.as_deref(), report.sampling), (Some("tcp.refused"), 0.5));
    let text = fs::read_to_string(directory.path().join("field.ndjson")).unwrap();
    for never in ["secret", "192.0.2", "127.0.0.1"] {
        assert!(!text.contains(never), "{never} in {text}");
    }
}

#[test]
fn what_is_bad_is_refused_counted_and_harms_nothing() {
    let with = |from: &str, to: &str| BEACON.replace(from, to).into_bytes();
    let report = |body: &str| {
        format!(r#"[{{"type":"network-error","url":"https://a.test/","body":{body}}}]"#)
            .into_bytes()
    };
    let good_report =
        r#"{"sampling_fraction":1,"elapsed_time":1,"phase":"dns","type":"dns.failed"}"#;
    let (text, reports) = ("text/plain", "application/reports+json");
    let cases: Vec<(&str, &str, Vec<u8>, u16, &str)> = vec![
        ("10 MB", text, vec![b'x'; 10_000_000], 413, "too-large"),
        ("a byte too many", text, vec![b' '; 64 * 1024 + 1], 413, "too-large"),
        ("cut JSON", text, BEACON.as_bytes()[..100].to_vec(), 400, "not-json"),
        ("no JSON", text, b"hello".to_vec(), 400, "not-json"),
        ("nothing", text, Vec::new(), 400, "not-json"),
        ("no UTF-8", text, vec![0xff; 100], 400, "not-json"),
        ("deep", text, vec![b'['; 60_000], 400, "not-json"),
        ("another version", text, with(r#""v":1"#, r#""v":9"#), 400, "not-a-beacon"),
        ("no fields", text, b"{}".to_vec(), 400, "not-a-beacon"),
        ("a page of files", text, with("https://shop", "file://shop"), 400, "bad-page"),
        ("a page that writes", text, with("shop.example", "\\u001b[2J"), 400, "bad-page"),
        ("no sampling", text, with(r#""part":1"#, r#""part":0"#), 400, "bad-sampling"),
        ("sampling of 1e-30", text, with(r#""part":1"#, r#""part":1e-30"#), 400, "bad-sampling"),
        ("no step", text, with(r#""step":0.1"#, r#""step":0"#), 400, "bad-clock-step"),
        ("step of 1e308", text, with(r#""step":0.1"#, r#""step":1e308"#), 400, "bad-clock-step"),
        ("negative times", text, with("30.1", "-30.1"), 400, "no-entries"),
        ("times without order", text, with("30.1", "70.1"), 400, "no-entries"),
        ("times of 1e308", text, with("140]", "1e308]"), 400, "no-entries"),
        ("times of 1e999", text, with("140]", "1e999]"), 400, "not-json"),
        ("a time as text", text, with("140]", "\"140\"]"), 400, "no-entries"),
        ("a form", "application/x-www-form-urlencoded", BEACON.into(), 415, "content-type"),
        ("no type", "", BEACON.into(), 415, "content-type"),
        ("reports as a beacon", text, report(good_report), 400, "not-a-beacon"),
        ("a beacon as reports", reports, BEACON.into(), 400, "not-reports"),
        (
            "a forged fraction",
            reports,
            report(&good_report.replace(":1,\"e", ":0,\"e")),
            204,
            "impossible-report",
        ),
        (
            "a forged phase",
            reports,
            report(&good_report.replace("\"dns\"", "\"connection\"")),
            204,
            "impossible-report",
        ),
        (
            "a forged time",
            reports,
            report(&good_report.replace("\"elapsed_time\":1", "\"elapsed_time\":-1")),
            204,
            "impossible-report",
        ),
        ("no body", reports, report("null"), 204, "impossible-report"),
        (
            "another report",
            reports,
            br#"[{"type":"deprecation"}]"#.to_vec(),
            204,
            "report-of-another-type",
        ),
        (
            "201 reports",
            reports,
            format!("[{}0]", "0,".repeat(200)).into_bytes(),
            400,
            "too-many-reports",
        ),
        ("300 kB of reports", reports, vec![b' '; 300_000], 413, "too-large"),
    ];
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--rate-per-source", "0"]);
    for (name, kind, body, expected, _) in &cases {
        assert_eq!(server.post(kind, body), *expected, "{name}");
        // The next beacon is accepted.
        assert_eq!(server.post("text/plain", BEACON.as_bytes()), 204, "after {name}");
    }
    // A compressed body could expand to any size.
    let packed = "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n";
    assert_eq!(server.request("POST", packed, b"\x1f\x8b").0, 415);
    assert_eq!(server.request("GET", "", b"").0, 405);
    assert_eq!(server.request("PUT", "", b"").0, 405);
    let (code, said, all) = server.stop();
    assert_eq!(code, Some(0));
    assert_eq!((all.len() - 1, beacons(&all)), (cases.len(), cases.len()));
    for (name, .., why) in &cases {
        let times = cases.iter().filter(|case| case.4 == *why).count() as u64;
        assert_eq!(refused(&all, why), times, "{name}");
        assert!(said.contains(&format!("{why} {times}")), "{name}: {said}");
    }
    assert!(said.contains("method 2") && said.contains("content-encoding 1"), "{said}");
}

/// The status of a response on a connection that may continue.
fn status(reader: &mut impl BufRead) -> Option<u16> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let status = line.split(' ').nth(1)?.parse().ok()?;
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    }
    Some(status)
}

/// Sends `many` beacons as fast as possible; returns how many were accepted, and how many refused.
fn flood(at: SocketAddr, many: usize) -> (usize, usize) {
    let request = format!(
        "POST /rum HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1, 198.51.100.7\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{BEACON}",
        BEACON.len()
    );
    let (mut kept, mut refused) = (0, 0);
    let mut connection: Option<BufReader<TcpStream>> = None;
    while kept + refused < many {
        let reader = connection.get_or_insert_with(|| {
            let stream = TcpStream::connect(at).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            BufReader::new(stream)
        });
        reader.get_mut().write_all(request.as_bytes()).unwrap();
        match status(reader) {
            Some(204) => kept += 1,
            // After sending too much, the client has to reconnect.
            Some(429) => {
                refused += 1;
                connection = None;
            }
            other => panic!("{other:?} after {kept} kept, {refused} refused"),
        }
    }
    (kept, refused)
}

#[test]
fn a_thousand_beacons_a_second_are_bounded_and_counted() {
    const EACH: usize = 1_000;
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--rate-per-source", "50"]);
    let at = server.at;
    let floods: Vec<_> = (0..3).map(|_| std::thread::spawn(move || flood(at, EACH))).collect();
    // Meanwhile another source is accepted.
    let (status, _) = server.request(
        "POST",
        "Content-Type: text/plain\r\nX-Forwarded-For: 203.0.113.1\r\n",
        BEACON.as_bytes(),
    );
    assert_eq!(status, 204);
    let floods: Vec<(usize, usize)> =
        floods.into_iter().map(|flood| flood.join().unwrap()).collect();
    let kept: usize = floods.iter().map(|(kept, _)| kept).sum();
    let too_many: usize = floods.iter().map(|(_, refused)| refused).sum();
    assert_eq!(kept + too_many, 3 * EACH);
    assert!(kept >= 150 && too_many > 0, "{kept} kept, {too_many} refused");
    let (_, said, all) = server.stop();
    assert_eq!(beacons(&all), kept + 1);
    assert_eq!(refused(&all, "too-many-of-one-source"), too_many as u64, "{said}");
}

#[test]
fn idle_and_slow_ones_do_not_lock_out_others() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--rate-per-source", "0"]);
    // More idle connections than allowed, and some with a head or a body that never ends.
    let idle: Vec<TcpStream> = (0..200).map(|_| server.connect()).collect();
    let slow: Vec<TcpStream> = (0..150)
        .map(|n| {
            let mut stream = server.connect();
            let begun: &[u8] = match n % 2 {
                0 => b"POST /rum HTTP/1.1\r\nHost: a\r\nX-A: ",
                _ => b"POST /rum HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 9\r\n\r\n{",
            };
            stream.write_all(begun).unwrap();
            stream
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(server.post("text/plain", BEACON.as_bytes()), 204);
    }
    let (_, said, all) = server.stop();
    assert_eq!(beacons(&all), 20);
    assert!(said.contains("evicted-connection"), "{said}");
    drop((idle, slow));
}

/// A body that never ends occupies a connection for a while, but not forever.
#[test]
fn a_body_that_dawdles_is_given_up() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &[]);
    let mut stream = server.connect();
    let head =
        "POST /rum HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 999\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let (.., all) = server.stop();
    assert_eq!(refused(&all, "too-slow"), 1);
}

/// A client that is sending when the server stops has a moment to finish, and learns that its beacon was kept.
#[test]
fn a_beacon_that_is_being_received_at_the_end_is_kept() {
    let directory = Directory::new();
    let mut server = Server::start(directory.path(), &[]);
    let (mut sending, mut stuck) = (server.connect(), server.connect());
    let head =
        "POST /rum HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\n";
    for stream in [&mut sending, &mut stuck] {
        write!(stream, "{head}Content-Length: {}\r\n\r\n", BEACON.len()).unwrap();
        // The server announces that it will read on: from here the request is in progress.
        let mut reader = BufReader::new(stream);
        assert_eq!(status(&mut reader), Some(100));
        reader.get_mut().write_all(&BEACON.as_bytes()[..50]).unwrap();
    }
    server.signal(Signal::SIGTERM);
    sending.write_all(&BEACON.as_bytes()[50..]).unwrap();
    let mut answer = String::new();
    sending.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
    // The server does not wait for the other client, which sends nothing more.
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    assert_eq!(beacons(&lines(&server.file)), 1);
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let directory = Directory::new();
    let mut server = Server::start(directory.path(), &["--rate-per-source", "0"]);
    for _ in 0..100 {
        assert_eq!(server.post("text/plain", BEACON.as_bytes()), 204);
    }
    server.signal(Signal::SIGKILL);
    server.child.wait().unwrap();
    assert_eq!(beacons(&lines(&server.file)), 100);
    // As if the server had been killed during a write.
    let mut text = fs::read_to_string(&server.file).unwrap();
    text += r#"{"beacon":{"received_unix_s":17"#;
    fs::write(&server.file, text).unwrap();
    let again = Server::start(directory.path(), &[]);
    assert_eq!(again.post("text/plain", BEACON.as_bytes()), 204);
    let (.., all) = again.stop();
    assert_eq!(beacons(&all), 101);
}

/// A full disk, simulated by the kernel's limit on file sizes.
#[test]
fn a_file_that_cannot_grow_is_said_once_and_outlived() {
    let directory = Directory::new();
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_firstbyte");
    // In blocks of 512 bytes. Without the trap, the kernel would kill the process.
    command.args([
        "-c",
        &format!(
            "trap '' XFSZ; ulimit -f 4; exec {program} rum serve --listen 127.0.0.1:0 \
             --into field.ndjson --rate-per-source 0"
        ),
    ]);
    let server = Server::started(directory.path(), command);
    let answers: Vec<u16> = (0..40).map(|_| server.post("text/plain", BEACON.as_bytes())).collect();
    let kept = answers.iter().filter(|status| **status == 204).count();
    assert!(kept > 0 && answers[kept..].iter().all(|status| *status == 503), "{answers:?}");
    // Make room, as an administrator would.
    let text = fs::read_to_string(&server.file).unwrap();
    assert!(text.ends_with("}\n") && text.len() <= 4 * 512, "{text}");
    let (code, said, all) = server.stop();
    assert_eq!((code, beacons(&all)), (Some(0), kept));
    assert_eq!(said.matches("is refused until the file is writable again").count(), 1, "{said}");
    assert!(said.contains(&format!("not-written {}", 40 - kept)), "{said}");
}

#[test]
fn a_file_has_one_writer_and_an_end() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--max-file", "1kB", "--rate-per-source", "0"]);
    let arguments = ["rum", "serve", "--listen", "127.0.0.1:0", "--into", "field.ndjson"];
    let outcome = firstbyte(directory.path(), &arguments);
    assert_eq!(outcome.code, 23);
    assert!(outcome.stderr.contains("field.ndjson is being written by another process\nhint: "));
    let answers: Vec<u16> = (0..10).map(|_| server.post("text/plain", BEACON.as_bytes())).collect();
    assert!(answers[0] == 204 && answers[9] == 503, "{answers:?}");
    let (_, said, _) = server.stop();
    assert!(said.contains("the file has reached its size limit"), "{said}");
}

#[test]
fn pages_of_other_origins_are_not_heard() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--origin", "https://other.example/"]);
    assert_eq!(server.post("text/plain", BEACON.as_bytes()), 403);
    let (.., all) = server.stop();
    assert_eq!((beacons(&all), refused(&all, "origin")), (0, 1));
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    let directory = Directory::new();
    directory.write("run", "{\"format\":\"firstbyte/run\"}\n");
    let server = Server::start(directory.path(), &[]);
    let taken = server.at.to_string();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["serve"], 2, "--into"),
        (&["serve", "--into", "-"], 2, "error: --into -: field data needs a file"),
        (&["serve", "--into", "run"], 23, "error: run is not a file of field data"),
        (&["serve", "--into", "no/file"], 23, "error: cannot write no/file: "),
        (&["serve", "--into", "f", "--listen", &taken], 2, "error: cannot listen at "),
        (&["serve", "--into", "f", "--origin", "https://a.test/path"], 2, "not an origin"),
        (&["snippet", "--endpoint", "javascript:alert(1)"], 2, "an https URL or a path"),
        (&["snippet", "--sample", "0"], 2, "expected a share"),
    ];
    for (arguments, code, message) in cases {
        let outcome = firstbyte(directory.path(), &[&["rum"], arguments].concat());
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{arguments:?}: {}", outcome.stderr);
    }
    let outcome = firstbyte(directory.path(), &["rum", "snippet", "--sample", "10%"]);
    assert!(outcome.stdout.ends_with("})('/rum', 0.1);\n"), "{}", outcome.stdout);
    // A stopped server ends even while a client is connected.
    let silent = server.connect();
    silent.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.stop().0, Some(0));
}

/// From browsers to a prediction: stored beacons are summed up and used as an audience.
#[test]
fn what_was_kept_is_reported() {
    let directory = Directory::new();
    let server = Server::start(directory.path(), &["--rate-per-source", "0"]);
    for n in 0..30 {
        let beacon = BEACON.replace("30.1", &format!("3{}.1", n % 10));
        assert_eq!(server.post("text/plain", beacon.as_bytes()), 204);
    }
    assert_eq!(server.post("text/html", b""), 415);
    let (.., all) = server.stop();
    assert_eq!(beacons(&all), 30);
    // A damaged line, and one that is still being written.
    let file = directory.path().join("field.ndjson");
    let mut text = fs::read_to_string(&file).unwrap();
    text += "{\"beacon\":7}\n{\"beacon\":{\"rec";
    fs::write(&file, text).unwrap();
    let report =
        |more: &[&str]| firstbyte(directory.path(), &[&["report", "field.ndjson"], more].concat());
    let outcome = report(&["--json=all.json", "--csv=people.csv"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("Field data: 30 page views · "), "{}", outcome.stdout);
    for line in [
        "shop.example h2, 30 new connections\n",
        "TLS           20.8   19.6–23.0   23.8   25.8\n",
        "The server refused: content-type 1.\n",
    ] {
        assert!(outcome.stdout.contains(line), "{}", outcome.stdout);
    }
    assert!(outcome.stderr.contains("warning: field.ndjson"), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("warning: ").count(), 1, "{}", outcome.stderr);
    let json = fs::read_to_string(directory.path().join("all.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["groups"][0]["entries"]["new"], 30);
    let played = firstbyte(
        directory.path(),
        &["predict", "--population", "people.csv", "--change", "tls=1.2:1.3"],
    );
    assert_eq!(played.code, 0, "{}", played.stderr);
    // The new version saves each of them a round trip.
    assert!(played.stdout.contains("visitors: 100.0 % faster"), "{}", played.stdout);
    directory.write("timers.csv", "DNS,Connect,SSL,Wait,TTFB,Total Time\n");
    for (more, message) in [
        (&["--html", "x.html"] as &[&str], "--html: not possible for field data"),
        (&["--by", "tls"], "--by: not possible for field data"),
        (
            &["timers.csv"],
            "field.ndjson is field data and timers.csv is a table of curl's timers: they cannot be shown together",
        ),
        (&["--csv=field.ndjson"], "is read and cannot be written as well"),
    ] {
        let outcome = report(more);
        assert_eq!(outcome.code, 2, "{more:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(message), "{more:?}: {}", outcome.stderr);
    }
    directory.write("later", "{\"format\":\"firstbyte/field\",\"version\":9,\"created_unix_s\":0,\"firstbyte_version\":\"\"}\n");
    let outcome = firstbyte(directory.path(), &["report", "later"]);
    assert_eq!(outcome.code, 26);
    assert!(outcome.stderr.contains("field data of version 9; this firstbyte reads version 1"));
}
