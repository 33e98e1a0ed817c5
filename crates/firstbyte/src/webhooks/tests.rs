//! Webhooks against servers that accept or fail requests.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use firstbyte_monitor::webhook::USUAL_STATES;
use firstbyte_probe::probe::Target;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::posting::tls_with;

const PATIENCE: Duration = Duration::from_secs(20);
const SECRET: &str = "0123456789abcdef-secret";

const PACE: Pace = Pace {
    attempt: Duration::from_millis(500),
    first_pause: Duration::from_millis(20),
    longest_pause: Duration::from_millis(100),
    give_up: Duration::from_secs(60),
    end: Duration::from_millis(700),
};

struct Received {
    head: http::request::Parts,
    body: Bytes,
}

/// Reaction of a server to a request; the last one in a list applies to all further requests.
#[derive(Clone, Copy)]
enum Answer {
    Status(u16),
    After(Duration),
    Never,
}

/// A server that answers as instructed. Runs until the test program ends.
fn receiver(answers: &'static [Answer], tls: Option<ServerConfig>) -> (u16, Receiver<Received>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (received, all) = channel();
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let number = Arc::new(AtomicU64::new(0));
        let acceptor = tls.map(|tls| TlsAcceptor::from(Arc::new(tls)));
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (received, number, acceptor) =
                (received.clone(), Arc::clone(&number), acceptor.clone());
            let service = service_fn(move |request: http::Request<Incoming>| {
                let (received, number) = (received.clone(), Arc::clone(&number));
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await?.to_bytes();
                    let which = number.fetch_add(1, Ordering::SeqCst) as usize;
                    // The test may have ended already.
                    let _ = received.send(Received { head, body });
                    let status = match answers.get(which).or(answers.last()) {
                        Some(Answer::Status(status)) => *status,
                        Some(Answer::After(time)) => {
                            tokio::time::sleep(*time).await;
                            204
                        }
                        Some(Answer::Never) => std::future::pending().await,
                        None => 200,
                    };
                    let answer =
                        http::Response::builder().status(status).body(Empty::<Bytes>::new());
                    Ok::<_, hyper::Error>(answer.unwrap())
                }
            });
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                match acceptor {
                    None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                    Some(acceptor) => {
                        if let Ok(stream) = acceptor.accept(stream).await {
                            drop(http.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                }
            });
        }
    };
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(serve)
    });
    (port, all)
}

fn event(id: &str) -> (Event, String) {
    let json = format!(
        r#"{{"format":"firstbyte/event","version":1,"kind":"level","id":"{id}","state":"confirmed","metric":"total","statistic":"median","before_ns":20000000,"after_ns":10000000,"difference_ns":-10000000,"interval_ns":[-10500000,-9500000],"at":"2026-11-23T00:00:00Z","at_between":["2026-11-23T00:00:00Z","2026-11-23T00:01:00Z"],"cause":[],"scope":{{"targets":["shop"],"of":2,"tags":{{}},"quorum":{{}}}},"samples":{{"before":60,"after":60}},"series":[1],"annotations":[]}}"#
    );
    (serde_json::from_str(&json).unwrap(), json)
}

fn webhook(url: &str) -> Webhook {
    let target = Target::parse(url).unwrap();
    let settings = WebhookSettings {
        name: target.authority(),
        url: Secret::new(target),
        secret_file: None,
        states: USUAL_STATES.to_vec(),
        template: None,
        content_type: "application/json",
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer x".to_owned()))],
    };
    Webhook { settings, secret: Some(Secret::new(SECRET.to_owned())) }
}

struct Scene {
    webhooks: Webhooks,
    notices: Notices,
    told: Arc<Mutex<Vec<String>>>,
    /// Keeps the store's directory until the scene is dropped.
    _directory: Option<tempfile::TempDir>,
}

impl Scene {
    fn new(webhook: Webhook, tls: Option<&Tls>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let scene = Self::in_store(directory.path(), webhook, tls);
        Self { _directory: Some(directory), ..scene }
    }

    fn in_store(store: &Path, webhook: Webhook, tls: Option<&Tls>) -> Self {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = Arc::clone(&told);
        let tell: Tell = Arc::new(move |what: &str| tell.lock().unwrap().push(what.to_owned()));
        let prepared = PreparedWebhooks::with_tls(vec![webhook], tls, PACE, tell);
        let (webhooks, notices) = prepared.unwrap();
        let webhooks = webhooks.begin(store).unwrap();
        Self { webhooks, notices, told, _directory: None }
    }

    fn offer(&mut self, id: &str) {
        let (event, json) = event(id);
        self.notices.offer(&event, &json);
    }

    fn finish(self) -> Vec<String> {
        drop(self.notices);
        self.webhooks.finish();
        self.told.lock().unwrap().clone()
    }
}

/// The signature that openssl computes for `signed`.
fn openssl(signed: &[u8]) -> String {
    let mut child = Command::new("openssl")
        .args(["dgst", "-sha256", "-hmac", SECRET])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("openssl can be run");
    child.stdin.take().unwrap().write_all(signed).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256={}", text.split_whitespace().last().unwrap())
}

#[test]
fn events_arrive_in_order_signed_after_two_failures() {
    const ANSWERS: &[Answer] = &[Answer::Status(500), Answer::Status(500), Answer::Status(200)];
    let (port, received) = receiver(ANSWERS, None);
    let mut scene =
        Scene::new(webhook(&format!("http://127.0.0.1:{port}/hook?token=s3cret")), None);
    scene.offer("1");
    scene.offer("1");
    scene.offer("2");
    let all: Vec<Received> = (0..4).map(|_| received.recv_timeout(PATIENCE).unwrap()).collect();
    let ids: Vec<&str> =
        all.iter().map(|one| one.head.headers["x-firstbyte-event"].to_str().unwrap()).collect();
    assert_eq!(ids, ["1", "1", "1", "2"]);
    for (one, id) in all.iter().zip(ids) {
        let header = |name: &str| one.head.headers[name].to_str().unwrap();
        assert_eq!(
            (one.head.method.as_str(), one.head.uri.to_string().as_str()),
            ("POST", "/hook?token=s3cret")
        );
        assert_eq!(
            (header("content-type"), header("authorization")),
            ("application/json", "Bearer x")
        );
        assert_eq!(header("host"), format!("127.0.0.1:{port}"));
        assert_eq!(one.body, event(id).1);
        let signed = [header("x-firstbyte-timestamp").as_bytes(), b".", &one.body].concat();
        assert_eq!(header("x-firstbyte-signature"), openssl(&signed));
    }
    let told = scene.finish();
    let [failure, again] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(
        *failure,
        format!("webhook 127.0.0.1:{port}: the receiver answered 500; retrying for up to 1min")
    );
    assert_eq!(*again, format!("webhook 127.0.0.1:{port}: delivering again"));
    assert!(received.try_recv().is_err(), "each event once");
}

#[test]
fn who_is_slow_is_waited_for_and_the_end_waits_for_what_is_under_way() {
    const ANSWERS: &[Answer] = &[Answer::After(Duration::from_millis(200))];
    let (port, received) = receiver(ANSWERS, None);
    let mut scene = Scene::new(webhook(&format!("http://127.0.0.1:{port}/")), None);
    scene.offer("1");
    received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(scene.finish(), Vec::<String>::new());
}

#[test]
fn who_never_answers_holds_up_nobody_and_what_is_lost_is_counted() {
    let (port, received) = receiver(&[Answer::Never], None);
    let mut scene = Scene::new(webhook(&format!("http://127.0.0.1:{port}/")), None);
    scene.offer("first");
    received.recv_timeout(PATIENCE).unwrap();
    let began = Monotonic::now();
    for number in 0..MOST_WAITING + 5 {
        scene.offer(&number.to_string());
    }
    assert!(Monotonic::now().since(began) < PACE.attempt * 10);
    let began = Monotonic::now();
    let told = scene.finish();
    assert!(Monotonic::now().since(began) < PATIENCE / 2, "the end does not wait for an answer");
    let full = format!(
        "webhook 127.0.0.1:{port}: 1000 events are waiting; further events are \
                        dropped"
    );
    assert_eq!(told.iter().filter(|line| **line == full).count(), 1, "{told:?}");
    let [.., kept, lost] = told.as_slice() else { panic!("{told:?}") };
    assert!(kept.ends_with("1,000 events not delivered yet: kept for the next start"), "{told:?}");
    let expected = "6 events not delivered (6 dropped): monitor events lists them";
    assert!(lost.ends_with(expected), "{told:?}");
}

#[test]
fn what_is_not_acknowledged_is_sent_after_a_restart_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let mailboxes = directory.path().join("webhooks");
    let (dead, _) = receiver(&[Answer::Status(500)], None);
    let first = webhook(&format!("http://127.0.0.1:{dead}/"));
    let left = mailbox_file(&mailboxes, &first.settings);
    let mut scene = Scene::in_store(directory.path(), first, None);
    scene.offer("1");
    scene.offer("2");
    let told = scene.finish();
    let kept = "2 events not delivered yet: kept for the next start";
    assert!(told.last().unwrap().ends_with(kept), "{told:?}");
    // Only the owner can read the file, and its end may be missing.
    let mut text = std::fs::read_to_string(&left).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&left.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    text.push_str("{\"number\":2,\"notice\":{\"id\":\"cut");
    let (port, received) = receiver(&[Answer::Status(200)], None);
    let second = webhook(&format!("http://127.0.0.1:{port}/"));
    let right = mailbox_file(&mailboxes, &second.settings);
    std::fs::write(&right, text).unwrap();
    let mut scene = Scene::in_store(directory.path(), second, None);
    scene.offer("3");
    for id in ["1", "2", "3"] {
        let one = received.recv_timeout(PATIENCE).unwrap();
        assert_eq!(one.head.headers["x-firstbyte-event"], id);
        assert_eq!(one.body, event(id).1);
    }
    assert_eq!(scene.finish(), Vec::<String>::new());
    assert_eq!(std::fs::read(&right).unwrap(), b"", "nothing waits");
}

#[test]
fn what_is_too_old_after_a_restart_is_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let (port, received) = receiver(&[Answer::Status(200)], None);
    let webhook = webhook(&format!("http://127.0.0.1:{port}/"));
    let mailboxes = mailbox::make_mailbox_directory(directory.path()).unwrap();
    let old = r#"{"number":7,"notice":{"id":"old","found_unix_ms":1,"body":"{}"}}"#;
    std::fs::write(mailbox_file(&mailboxes, &webhook.settings), format!("{old}\n")).unwrap();
    let mut scene = Scene::in_store(directory.path(), webhook, None);
    scene.offer("new");
    let first = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.head.headers["x-firstbyte-event"], "new");
    let told = scene.finish();
    assert!(told[0].ends_with("1 event not delivered (0 dropped): monitor events lists them"));
    assert_eq!(told.len(), 1, "{told:?}");
}

fn server_tls(name: &str) -> (ServerConfig, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    (config, roots)
}

#[test]
fn a_wrong_certificate_is_refused_and_a_right_one_believed() {
    let (config, roots) = server_tls("localhost");
    let (port, received) = receiver(&[Answer::Status(200)], Some(config));
    let url = format!("https://localhost:{port}/");
    let tls = tls_with(roots).unwrap();
    let mut scene = Scene::new(webhook(&url), Some(&tls));
    scene.offer("1");
    assert_eq!(received.recv_timeout(PATIENCE).unwrap().body, event("1").1);
    assert_eq!(scene.finish(), Vec::<String>::new());
    let (_, others) = server_tls("localhost");
    let tls = tls_with(others).unwrap();
    let mut scene = Scene::new(webhook(&url), Some(&tls));
    scene.offer("2");
    let told = scene.finish();
    assert!(told[0].contains("certificate"), "{told:?}");
    assert!(told[1].contains("1 event not delivered yet"), "{told:?}");
    assert!(received.try_recv().is_err(), "nothing was sent");
}

#[test]
fn what_an_earlier_process_told_of_is_not_sent_again() {
    let (port, received) = receiver(&[Answer::Status(200)], None);
    let mut scene = Scene::new(webhook(&format!("http://127.0.0.1:{port}/")), None);
    let (known, _) = event("1");
    assert_eq!(known.state_name(), "confirmed");
    scene.notices.know(&[known]);
    scene.offer("1");
    scene.offer("2");
    let first = received.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.head.headers["x-firstbyte-event"], "2");
    scene.finish();
}
