//! Pages that open another page, break off, or wait for something, from a server with a fixed answer for each.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use firstbyte_clients::browser::{BrowserOptions, BrowserSession};
use firstbyte_clients::chromium::ChromiumVisit;
use firstbyte_core::timeline::Mark;

use crate::support::{Bench, HOST, server_said};

/// Starts a server without TLS, which runs as long as the test's process; returns its port.
fn serve() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer(connection));
        }
    });
    port
}

fn answer(mut connection: TcpStream) -> Option<()> {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        let read = connection.read(&mut piece).ok().filter(|read| *read > 0)?;
        request.extend_from_slice(&piece[..read]);
    }
    let request = String::from_utf8_lossy(&request);
    let path = request.split(' ').nth(1)?;
    let (status, body, missing) = match path {
        "/leads-on" => ("200 OK", "<script>location = '/next'</script>", 0),
        "/waits" => ("200 OK", "<img src='/never'>", 0),
        "/breaks-off" => ("200 OK", "a part", 1000),
        "/never" => {
            // Until the browser gives up.
            while connection.read(&mut piece).ok()? > 0 {}
            return None;
        }
        "/empty-error" => ("404 Not Found", "", 0),
        _ => ("200 OK", "<p>another", 0),
    };
    let (length, peer) = (body.len() + missing, connection.peer_addr().ok()?.port());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nX-Path: {path}\r\n\
         X-Peer-Port: {peer}\r\nConnection: close\r\n\r\n{body}"
    );
    connection.write_all(head.as_bytes()).ok()
}

fn visit(path: &str, change: impl FnOnce(&mut BrowserOptions)) -> ChromiumVisit {
    let bench = Bench::new(|_| {});
    bench.visit_to(&format!("http://{HOST}:{}{path}", serve()), change)
}

/// Log and DevTools events belong to the visited document, although a script opens another one.
#[test]
fn a_page_that_leads_on_is_the_one_that_was_visited() {
    let visit = visit("/leads-on", |_| {});
    let connection = &visit.sample().connection;
    assert_eq!(connection.failure, None, "{connection:#?}");
    assert!(connection.url.ends_with("/leads-on"), "{connection:#?}");
    assert_eq!(server_said(connection, "x-path"), "/leads-on");
    let local = connection.facts.local.unwrap().port().to_string();
    assert_eq!(server_said(connection, "x-peer-port"), local);
    let others: Vec<_> = visit.page.resources.iter().map(|resource| &resource.url).collect();
    assert!(!others.iter().any(|url| url.ends_with("/next")), "{others:?}");
}

#[test]
fn an_error_without_a_body_is_a_response() {
    for session in [BrowserSession::New, BrowserSession::Kept] {
        let visit = visit("/empty-error", |options| options.session = session);
        let connection = &visit.sample().connection;
        assert_eq!(connection.failure, None, "{connection:#?}");
        assert_eq!(connection.facts.http.as_ref().unwrap().status, Some(404), "{connection:#?}");
        assert!(connection.marks.at(Mark::ResponseStart).is_some(), "{connection:#?}");
    }
}

#[test]
fn a_document_does_not_fail_by_what_else_the_page_waits_for() {
    let visit = visit("/waits", |options| options.time_limit = Duration::from_secs(4));
    let connection = &visit.sample().connection;
    assert_eq!(connection.failure, None, "{connection:#?}");
    assert!(connection.marks.at(Mark::ResponseEnd).is_some(), "{connection:#?}");
    assert_eq!(visit.page.loaded, None);
}

#[test]
fn what_breaks_off_has_no_end() {
    let visit = visit("/breaks-off", |_| {});
    let connection = &visit.sample().connection;
    let at = |mark| connection.marks.at(mark).is_some();
    assert_eq!((at(Mark::ResponseStart), at(Mark::ResponseEnd)), (true, false), "{connection:#?}");
    assert!(connection.failure.is_some(), "{connection:#?}");
}

/// The time limit covers the visit and the one before it.
#[test]
fn a_visit_before_that_takes_all_the_time_leaves_none() {
    let visit = visit("/never", |options| {
        options.session = BrowserSession::Resumed;
        options.time_limit = Duration::from_secs(2);
    });
    let failure = visit.sample().failure().unwrap();
    assert!(
        failure.to_string().contains("the previous visit used up the whole time limit of 2 s"),
        "{failure}"
    );
    assert_eq!(visit.sample().connection.marks.iter().count(), 0);
}
