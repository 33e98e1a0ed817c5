//! Pushes to receivers that accept or reject them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use firstbyte_probe::probe::Target;

use super::*;
use crate::recording::observed;

const PATIENCE: Duration = Duration::from_secs(20);
const TOKEN: &str = "0123456789abcdef-secret";
/// Number of points of a monitor without series, with classic buckets.
const POINTS: u64 = 22;

const PACE: PushPace = PushPace {
    attempt: Duration::from_secs(5),
    first_pause: Duration::from_millis(20),
    longest_pause: Duration::from_millis(100),
    give_up: Duration::from_secs(60),
    end: Duration::from_millis(700),
    most_waiting: 16_000_000,
};

/// A request as received: its head in lower case, and its body.
struct Received {
    head: String,
    body: Vec<u8>,
}

/// Answers requests with `answers` in order, and all further ones with the last of them. Runs until the test program
/// ends.
fn receiver(answers: &'static [&'static str]) -> (u16, Receiver<Received>) {
    fn serve(mut stream: TcpStream, answer: &str, received: &Sender<Received>) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head).ok().filter(|read| *read > 0)?;
        }
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        let mut body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut body).ok()?;
        // The test may have ended already.
        let _ = received.send(Received { head, body });
        stream.write_all(answer.as_bytes()).ok()
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (received, all) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let answer = answers.get(number).or(answers.last()).unwrap();
            // Connections without a request do not matter.
            let _ = serve(stream.unwrap(), answer, &received);
        }
    });
    (port, all)
}

fn push(url: &str, form: PushForm) -> Push {
    let target = Target::parse(url).unwrap();
    let settings = PushSettings {
        form,
        name: target.authority(),
        url: Secret::new(target),
        // One push at the start and one at the end.
        every: Duration::from_secs(3_600),
        labels: [("cluster".to_owned(), "eu".to_owned())].into(),
        token_file: None,
        headers: vec![("X-Scope-OrgID".to_owned(), Secret::new("tenant-of-ours".to_owned()))],
    };
    let (token, place) = (Some(Secret::new(TOKEN.to_owned())), Some("fra1".to_owned()));
    Push { settings, token, place }
}

struct Scene {
    pushes: Pushes,
    told: Arc<Mutex<Vec<String>>>,
}

impl Scene {
    fn new(push: Push, pace: PushPace) -> Self {
        let told: Arc<Mutex<Vec<String>>> = Arc::default();
        let tell = Arc::clone(&told);
        let tell: Tell = Arc::new(move |what: &str| tell.lock().unwrap().push(what.to_owned()));
        let (observer, _) = observed(Vec::new(), 0);
        let pushes = Pushes::start(vec![push], &observer, pace, tell).unwrap();
        Self { pushes, told }
    }

    fn finish(self) -> Vec<String> {
        self.pushes.finish();
        self.told.lock().unwrap().clone()
    }
}

const REMOTE_WRITE: PushForm = PushForm::RemoteWrite { native: false };
const TAKEN: &str = "HTTP/1.1 204 No Content\r\n\r\n";
const BUSY: &str = "HTTP/1.1 503 Unavailable\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n";
const SLOWER: &str = "HTTP/1.1 429 Slower\r\nContent-Length: 0\r\n\r\n";

#[test]
fn the_same_is_sent_again_to_who_is_busy_and_the_last_figures_at_the_end() {
    let (port, received) = receiver(&[BUSY, SLOWER, TAKEN]);
    let url = format!("http://127.0.0.1:{port}/api/v1/write?key=s3cret");
    let scene = Scene::new(push(&url, REMOTE_WRITE), PACE);
    let all: Vec<Received> = (0..3).map(|_| received.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(all.iter().all(|one| one.body == all[0].body), "refused for now");
    for field in [
        "post /api/v1/write?key=s3cret http/1.1\r\n",
        "content-type: application/x-protobuf\r\n",
        "content-encoding: snappy\r\n",
        "x-prometheus-remote-write-version: 0.1.0\r\n",
        "user-agent: firstbyte/",
        "x-scope-orgid: tenant-of-ours\r\n",
        "authorization: bearer 0123456789abcdef-secret\r\n",
    ] {
        assert!(all[0].head.contains(field), "{field} {}", all[0].head);
    }
    let text = snap::raw::Decoder::new().decompress_vec(&all[0].body).unwrap();
    let text = String::from_utf8_lossy(&text);
    for label in ["job", "firstbyte", "instance", "fra1", "cluster", "eu"] {
        assert!(text.contains(label), "{label}");
    }
    let told = scene.finish();
    let last = received.recv_timeout(PATIENCE).unwrap();
    assert_ne!(last.body, all[0].body);
    assert!(received.try_recv().is_err(), "each once");
    let name = format!("push 127.0.0.1:{port}");
    let failure = format!("{name}: the receiver answered 503; retrying for up to 1min");
    assert_eq!(told, [failure, format!("{name}: delivering again")]);
}

#[test]
fn what_is_refused_is_not_sent_again_and_the_reason_is_told_without_secrets() {
    const REFUSED: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 33\r\n\r\nout of order\x1b[31m\nfurther lines..";
    const ECHOED: &str =
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 27\r\n\r\nnot 0123456789abcdef-secret";
    for (answers, why) in [
        (&[REFUSED] as &[&str], "the receiver answered 400: out of order\\u{1b}[31m; not retried"),
        (&[ECHOED], "the receiver answered 401; not retried"),
    ] {
        let (port, received) = receiver(Box::leak(answers.into()));
        let scene = Scene::new(push(&format!("http://127.0.0.1:{port}/"), REMOTE_WRITE), PACE);
        received.recv_timeout(PATIENCE).unwrap();
        let told = scene.finish();
        // The push at the end.
        received.recv_timeout(PATIENCE).unwrap();
        assert!(received.try_recv().is_err(), "not again");
        let name = format!("push 127.0.0.1:{port}");
        let points = 2 * POINTS;
        let lost = format!("{name}: {points} points not delivered (0 dropped, {points} refused)");
        assert_eq!(told, [format!("{name}: {why}"), lost]);
    }
}

#[test]
fn who_is_away_holds_up_nobody_and_what_is_lost_is_counted() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let began = Monotonic::now();
    let scene = Scene::new(push(&format!("http://127.0.0.1:{closed}/"), REMOTE_WRITE), PACE);
    let told = scene.finish();
    assert!(Monotonic::now().since(began) < PATIENCE / 4);
    let [failure, lost] = told.as_slice() else { panic!("{told:?}") };
    assert!(failure.contains("retrying for up to 1min"), "{failure}");
    let points = 2 * POINTS;
    assert!(
        lost.ends_with(&format!("{points} points not delivered (0 dropped, 0 refused)")),
        "{lost}"
    );
}

#[test]
fn what_waits_is_bounded_and_the_oldest_gives_way() {
    let queue = Queue::new(100);
    let parcel = |size: usize| Parcel {
        body: Bytes::from(vec![0; size]),
        points: size as u64,
        made: Monotonic::now(),
    };
    assert_eq!([40, 41, 19].map(|size| queue.push(parcel(size))), [0, 0, 0]);
    assert_eq!(queue.push(parcel(50)), 81);
    assert_eq!(queue.push(parcel(300)), 69, "the newest stays");
    assert_eq!(queue.push(parcel(1)), 300);
    queue.close();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let left = runtime.block_on(async {
        [queue.next().await.map(|parcel| parcel.points), queue.next().await.map(|p| p.points)]
    });
    assert_eq!(left, [Some(1), None]);
}

#[test]
fn a_receiver_of_otlp_that_takes_a_part_says_so() {
    const PARTLY: &str = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\x0a\x07\x08\x03\x12\x03why";
    let (port, received) = receiver(&[PARTLY]);
    let scene =
        Scene::new(push(&format!("http://127.0.0.1:{port}/v1/metrics"), PushForm::Otlp), PACE);
    let first = received.recv_timeout(PATIENCE).unwrap();
    assert!(first.head.contains("content-encoding: gzip\r\n"), "{}", first.head);
    let told = scene.finish();
    let name = format!("push 127.0.0.1:{port}");
    assert_eq!(
        told,
        [
            format!("{name}: the receiver rejected 3 points: why"),
            format!("{name}: 6 points not delivered (0 dropped, 6 refused)")
        ]
    );
}
