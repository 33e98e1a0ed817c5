//! Real browsers load a page with the snippet over HTTPS and send to `firstbyte rum serve`: the beacon arrives when the
//! page is left, and its contents are true.

use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use firstbyte_sources::field_data::{BeaconRecord, EntryClass, FieldLine, FieldPhase, TimeRange};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::rum::Server;
use crate::support::certificates::{self, TRUSTED, good};
use crate::support::files::Directory;
use crate::support::peer::{Peer, read_head};
use crate::support::run::firstbyte;

/// The servers' delays before the ServerHello, and before each response.
const HELLO: Duration = Duration::from_millis(60);
const THINKS: Duration = Duration::from_millis(40);

/// Only one browser at a time: two at once wait for each other.
static TURN: Mutex<()> = Mutex::new(());

/// A TLS server that delays each handshake and response; `respond` returns header fields and a body for a path.
fn site(respond: impl Fn(&str) -> (String, String) + Send + Sync + 'static) -> Peer {
    let config: Arc<ServerConfig> = Arc::new(certificates::server(&good(), &["http/1.1"]));
    Peer::tcp(move |tcp: TcpStream| {
        let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
        sleep(HELLO);
        let mut stream = StreamOwned::new(connection, tcp);
        loop {
            let head = read_head(&mut stream);
            let Some(path) = head.split(' ').nth(1) else { return };
            sleep(THINKS);
            let (fields, body) = respond(path);
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{fields}\r\n{body}",
                body.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// A browser loads a page with the snippet in a frame; returns the beacon that the frame sent when it was left.
fn beacon(client: &str) -> BeaconRecord {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Directory::new();
    directory.write("ca.pem", TRUSTED.pem());
    let server = Server::start(directory.path(), &[]);
    let snippet = firstbyte(
        directory.path(),
        &["rum", "snippet", "--endpoint", &format!("http://{}/rum", server.at)],
    );
    let opaque = site(move |_| image());
    let open = site(move |_| {
        let (fields, body) = image();
        (format!("Timing-Allow-Origin: *\r\n{fields}"), body)
    });
    let frame = format!(
        "<!doctype html><script>{}</script>\
         <img src='https://127.0.0.1:{}/private?user=secret'><img src='https://127.0.0.1:{}/open?user=secret'>\
         <img src='/own'>",
        snippet.stdout,
        opaque.port(),
        open.port()
    );
    let file = server.file.clone();
    let pages = site(move |path| {
        let html = |body: &str| ("Content-Type: text/html\r\n".to_owned(), body.to_owned());
        match path {
            // The frame is left as soon as it has loaded. The page finishes loading when the beacon has arrived.
            "/" => html(
                "<!doctype html><img src='/hold'><iframe src='/frame?user=secret'></iframe><script>\
                 const frame = document.querySelector('iframe');\
                 frame.onload = () => { frame.onload = null; frame.src = 'about:blank' };</script>",
            ),
            "/hold" => {
                wait_for_beacon(&file);
                html("")
            }
            "/own" => image(),
            _ if path.starts_with("/frame") => html(&frame),
            _ => html(""),
        }
    });
    let url = format!("https://127.0.0.1:{}/", pages.port());
    let asked = ["page", &url, "--client", client, "--cacert", "ca.pem", "-m", "30", "--json"];
    let outcome = firstbyte(directory.path(), &asked);
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.stderr, outcome.stdout);
    let (code, said, all) = server.stop();
    assert_eq!(code, Some(0), "{said}");
    let text = std::fs::read_to_string(directory.path().join("field.ndjson")).unwrap();
    assert!(!text.contains("secret") && !text.contains("/open"), "{text}");
    let mut beacons = all.into_iter().filter_map(|line| match line {
        FieldLine::Beacon(beacon) => Some(beacon),
        _ => None,
    });
    let beacon = beacons.next().unwrap_or_else(|| panic!("no beacon: {said}\n{}", outcome.stdout));
    assert_eq!(beacons.next(), None, "one page view is one beacon");
    let page: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let known = page["connections"].as_array().unwrap().iter().find_map(|connection| {
        let port = connection["authority"].as_str()?.rsplit(':').next()?;
        (port == open.port().to_string()).then(|| connection["marks"].clone())
    });
    check_against_browser(&beacon, open.port(), &known.unwrap());
    check(&beacon, &url, opaque.port(), open.port());
    beacon
}

fn wait_for_beacon(file: &Path) {
    for _ in 0..2_000 {
        if std::fs::read(file).is_ok_and(|text| text.windows(10).any(|w| w == b"{\"beacon\":")) {
            return;
        }
        sleep(Duration::from_millis(5));
    }
}

/// A valid image: Firefox drops an invalid one together with its times.
fn image() -> (String, String) {
    let body = "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>";
    ("Content-Type: image/svg+xml\r\n".to_owned(), body.to_owned())
}

/// Checks that hold for both browsers.
fn check(beacon: &BeaconRecord, url: &str, opaque: u16, open: u16) {
    let page = url.trim_end_matches('/');
    assert_eq!((beacon.page.as_str(), beacon.sampling), (page, 1.0));
    assert_eq!((beacon.impossible, beacon.left_out), (0, 0), "{beacon:#?}");
    // Without isolation a browser shows no finer times, and the frame's times do not all have the same step.
    assert!(!beacon.isolated && (100.0..=2_000.0).contains(&beacon.step_us), "{}", beacon.step_us);
    let counted = |origin: &str, class| {
        let of_it = beacon.counted.iter().filter(|one| one.origin == origin && one.class == class);
        of_it.map(|one| one.entries).sum::<u64>()
    };
    let opaque = format!("https://127.0.0.1:{opaque}");
    assert_eq!(counted(&opaque, EntryClass::Opaque), 1, "{beacon:#?}");
    // Over the connection that the frame's document was loaded over.
    assert!(counted(page, EntryClass::Reused) >= 1, "{beacon:#?}");
    let open = format!("https://127.0.0.1:{open}");
    let news: Vec<_> = beacon.new.iter().filter(|new| new.origin == open).collect();
    // If the connection began within the same step as the request, their order is unknown.
    assert_eq!(news.len() as u64 + counted(&open, EntryClass::BegunBefore), 1, "{beacon:#?}");
    for new in news {
        let range = |phase| new.phase(phase, beacon.step_us);
        let at_least = |phase, time: Duration| {
            let Some(TimeRange { most_us, .. }) = range(phase) else { return };
            assert!(most_us >= time.as_micros() as f64, "{}: {most_us} µs", phase.as_str());
        };
        assert_eq!(new.protocol, "h1");
        let set_up = TimeRange::between(new.connect_start_us, new.connect_end_us, beacon.step_us);
        assert!(set_up.most_us >= HELLO.as_micros() as f64, "{new:#?}");
        at_least(FieldPhase::Wait, THINKS);
        at_least(FieldPhase::FirstByte, HELLO + THINKS);
    }
}

/// The time that a thread may have waited to run: less than the server's delays, however busy the machine is.
const BUSY_US: f64 = 20_000.0;

/// Compares a page's times of a connection with the browser's own log: they are equal, except for delays of a busy
/// machine in either. `docs/field-data.md` says how close they are on an idle machine.
fn check_against_browser(beacon: &BeaconRecord, port: u16, marks: &serde_json::Value) {
    let origin = format!("https://127.0.0.1:{port}");
    let Some(new) = beacon.new.iter().find(|new| new.origin == origin) else { return };
    let at = |name: &str| marks[name][0].as_f64().unwrap() / 1e3;
    let step = beacon.step_us;
    let [began, connected, done] = ["connect_start", "tcp_connected", "handshake_complete"].map(at);
    let tls_began_us = new.secure_start_us.unwrap();
    for (what, from_us, to_us, known_us) in [
        ("connect", new.connect_start_us, tls_began_us, connected - began),
        ("tls", tls_began_us, new.connect_end_us, done - connected),
        ("set-up", new.connect_start_us, new.connect_end_us, done - began),
    ] {
        let range = TimeRange::between(from_us, to_us, step);
        println!("{what}: {known_us} µs by the browser's log, {range:?} by the page");
        // Only the page's time includes the browser's work before and after the connect: Chromium creates the socket
        // (0.2 ms), and threads wait to run.
        assert!(known_us <= range.most_us + BUSY_US, "{what}: {known_us} µs, {range:?}");
        assert!(known_us >= range.least_us - BUSY_US, "{what}: {known_us} µs, {range:?}");
    }
}

#[test]
fn chromium_sends_what_it_did() {
    let beacon = beacon("chromium");
    let navigations = beacon.new.iter().filter(|new| new.navigation).count();
    assert_eq!((navigations, beacon.new.len()), (1, 2), "{beacon:#?}");
    assert!(beacon.new.iter().all(|new| new.first_byte_us.is_some()), "{beacon:#?}");
}

#[test]
fn firefox_sends_what_it_did() {
    let beacon = beacon("firefox");
    // Firefox's first bytes over HTTP/1.1 are the session tickets (`docs/clients.md`).
    assert!(beacon.new.iter().all(|new| new.first_byte_us.is_none()), "{beacon:#?}");
}
