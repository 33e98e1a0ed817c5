//! `firstbyte curl …` and curl run the same command lines: requests and exit codes are equal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::files::Directory;
use crate::support::run::{curl, firstbyte};

/// A server that records every request, and chooses its answer by the path.
struct Recorder {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                while let Some(request) = read_request(&mut stream) {
                    let answer = answer(&request);
                    kept.lock().unwrap().push(request);
                    if stream.write_all(answer.as_bytes()).is_err() {
                        break;
                    }
                }
            }
        });
        Self { port, requests }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

/// Reads a complete request: up to Content-Length, or the last chunk.
fn read_request(stream: &mut impl Read) -> Option<String> {
    let mut request = String::new();
    let mut byte = [0];
    while !request.ends_with("\r\n\r\n") {
        (stream.read(&mut byte).ok()? > 0).then_some(())?;
        request.push(char::from(byte[0]));
    }
    let length = request.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut left: usize = length.map_or(0, |length| length.parse().unwrap());
    let is_chunked = request.contains("Transfer-Encoding: chunked\r\n");
    while left > 0 || (is_chunked && !request.ends_with("\r\n0\r\n\r\n")) {
        (stream.read(&mut byte).ok()? > 0).then_some(())?;
        request.push(char::from(byte[0]));
        left = left.saturating_sub(1);
    }
    Some(request)
}

fn answer(request: &str) -> &'static str {
    let path = request.split(' ').nth(1).unwrap();
    match path.split('?').next().unwrap() {
        "/redirect" => {
            "HTTP/1.1 302 Found\r\nLocation: /final\r\nSet-Cookie: s=1; Path=/\r\nContent-Length: 0\r\n\r\n"
        }
        "/cached" => {
            "HTTP/1.1 200 OK\r\nAge: 12\r\nX-Cache: HIT\r\nServer-Timing: db;dur=5\r\nSet-Cookie: s=1\r\n\
             Content-Length: 0\r\n\r\n"
        }
        "/missing" => "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
        "/digest" if !request.contains("Authorization: Digest ") => {
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", qop=\"auth\"\r\n\
             Content-Length: 0\r\n\r\n"
        }
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    }
}

/// Masks the parts that differ from run to run: the program's name, boundaries, random values for a digest.
fn masked(request: &str) -> String {
    let mut masked: Vec<String> = Vec::new();
    let boundary = request.split("boundary=").nth(1).and_then(|rest| rest.split("\r\n").next());
    for line in request.split("\r\n") {
        let line = boundary.map_or_else(|| line.to_owned(), |it| line.replace(it, "BOUNDARY"));
        masked.push(match line.split_once(": ") {
            Some(("User-Agent", agent)) if agent.contains('/') => "User-Agent: OWN".into(),
            Some(("Authorization", digest)) if digest.starts_with("Digest ") => {
                let drawn = |part: &&str| !part.contains("cnonce=") && !part.contains("response=");
                digest.split(", ").filter(drawn).collect::<Vec<_>>().join(", ")
            }
            _ => line,
        });
    }
    masked.join("\r\n")
}

/// The crate `firstbyte-curl` has curl's own tests of grammar and bytes; these tests go over the wire.
#[test]
fn lines_send_what_curl_sends() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    directory.write("f.txt", "one\ntwo\n");
    directory.write("config", "header = \"X-Config: 1\"\nuser-agent \"probe/1.0\"\n");
    let lines: [&[&str]; 21] = [
        &["URL/"],
        &["-sSLo", "out", "URL/redirect"],
        &["-H", "x-two:2", "-H", "Accept:", "-A", "me", "URL/a/../b?c=\"d\""],
        &["--data-raw", "a=1", "-d", "b=2", "URL/"],
        &["--json", "{\"a\": 1}", "URL/"],
        &["-F", "a=1", "-F", "b=@f.txt;type=text/x", "URL/"],
        &["-T", "f.txt", "URL/up/"],
        &["-G", "-d", "q=1", "--data-urlencode", "r=a b", "URL/?x"],
        &["-u", "me:secret", "-b", "a=1", "-e", "http://from.test/", "-r", "0-9", "URL/"],
        &["-b", "", "-L", "URL/redirect"],
        &["-L", "-X", "POST", "-d", "a=1", "URL/redirect"],
        &["--digest", "-u", "me:secret", "-d", "a=1", "URL/digest?x=1"],
        &["-f", "URL/missing"],
        &["--fail-with-body", "URL/missing"],
        &["-I", "URL/"],
        &["-0", "URL/"],
        &["URL/[1-3]"],
        &["URL/1", "--next", "-d", "x=1", "URL/2"],
        &["-K", "config", "--compressed", "URL/"],
        &["--max-redirs", "1", "-L", "--request-target", "/redirect", "URL/"],
        &["-d", "a=1", "-T", "f.txt", "URL/"],
    ];
    for line in lines {
        let url = format!("http://127.0.0.1:{}", recorder.port);
        let words = line.iter().map(|word| word.replace("URL", &url));
        let words: Vec<String> = words.collect();
        let theirs = curl(directory.path(), &words);
        let expected: Vec<String> = recorder.take().iter().map(|it| masked(it)).collect();
        let ours = firstbyte(directory.path(), &[&["curl".to_owned()], &words[..]].concat());
        let sent: Vec<String> = recorder.take().iter().map(|it| masked(it)).collect();
        assert_eq!(sent, expected, "{line:?}\n{}", ours.stderr);
        assert_eq!(ours.code, theirs.code, "{line:?}\n{}{}", ours.stdout, ours.stderr);
    }
}

#[test]
fn the_report_takes_the_place_of_the_body() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/", recorder.port);
    let shown = firstbyte(directory.path(), &["curl", "-s", "-i", &url]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.starts_with("HTTP/1.1 200\ncontent-length: 5\n\n"), "{}", shown.stdout);
    assert!(shown.stdout.contains("wait") && !shown.stdout.contains("hello"), "{}", shown.stdout);
    let format = ["curl", "-so", "body", "-w", "%{http_code} %{size_download}", &url];
    let formatted = firstbyte(directory.path(), &format);
    assert_eq!(formatted.stdout, "200 5", "{formatted:?}");
    assert_eq!(std::fs::read(directory.path().join("body")).unwrap(), b"hello");
    let body = firstbyte(directory.path(), &["curl", "-o", "-", &url]);
    assert_eq!(body.stdout, "hello");
    assert!(body.stderr.contains("wait"), "{}", body.stderr);
}

#[test]
fn what_caches_and_servers_say_stands_beside_the_times() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/cached", recorder.port);
    let shown = firstbyte(directory.path(), &[&url, "--export-json", "x.json"]);
    let line = "response    age 12 · x-cache HIT · server-timing db;dur=5\n";
    assert!(shown.stdout.contains(line), "{}", shown.stdout);
    let row = directory.read("x.json");
    assert!(row.starts_with(b"{\"format\":\"firstbyte/sample\""), "{shown:?}");
}

/// Cookies may be credentials, so only the owner may read these files.
#[test]
fn files_of_cookies_and_heads_are_their_owners() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/cached", recorder.port);
    let words = ["curl", "-c", "jar", "-D", "heads", &url, &url, "-o", "/dev/null"];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    for name in ["jar", "heads"] {
        let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let heads = String::from_utf8(directory.read("heads")).unwrap();
    assert_eq!(heads.matches("HTTP/1.1 200").count(), 2, "{heads}");
    assert!(String::from_utf8(directory.read("jar")).unwrap().contains("\ts\t1\n"));
}

#[test]
fn only_files_of_failed_bodies_are_removed() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/missing", recorder.port);
    let is_left = |words: &[&str]| {
        directory.write("body", "mine");
        let fixed = ["curl", "--remove-on-error", "-o", "body"];
        let outcome = firstbyte(directory.path(), &[&fixed[..], words].concat());
        assert_ne!(outcome.code, 0, "{outcome:?}");
        directory.path().join("body").exists()
    };
    assert!(is_left(&["http://127.0.0.1:1/"]) && is_left(&["-f", &url]));
    assert!(is_left(&["--no-clobber", "--fail-with-body", &url]));
    assert!(!directory.path().join("body.1").exists());
    assert!(!is_left(&["--fail-with-body", &url]));
}

/// The check whether a port speaks TLS applies to servers, not to the proxy in front of them.
#[test]
fn a_proxy_that_ends_without_a_word_is_asked_once() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in listener.incoming() {
            *counted.lock().unwrap() += 1;
            let _ = stream.unwrap().read(&mut [0; 4096]);
        }
    });
    let directory = Directory::new();
    let shown = firstbyte(directory.path(), &["-x", &proxy, "http://a.test/"]);
    assert_ne!(shown.code, 0, "{shown:?}");
    assert_eq!(*asked.lock().unwrap(), 1, "{shown:?}");
}

#[test]
fn what_lets_somebody_in_is_sent_and_not_shown() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://me:s3cret@127.0.0.1:{}/", recorder.port);
    let plain = url.replace("me:s3cret@", "");
    for words in [
        &["-v", &url][..],
        &["-iu", "me:s3cret", &plain],
        &["-w", "%{json}", "-b", "id=s3cret", &plain],
        &["--oauth2-bearer", "s3cret", "-H", "X-Token: s3cret", "-d", "s3cret", &plain],
        &["-x", &url, "-U", "me:s3cret", &plain],
        &["--no-such=s3cret", &plain],
        &["-F", "s3cret", &plain],
        &["http://me:s3cret@127.0.0.1:x/"],
    ] {
        let shown = firstbyte(directory.path(), &[&["curl"], words].concat());
        let (out, err) = (&shown.stdout, &shown.stderr);
        assert!(!out.contains("s3cret") && !err.contains("s3cret"), "{words:?}\n{out}{err}");
    }
    assert!(recorder.take().len() >= 5);
}

/// The browsers' "Copy as cURL" without the word `curl`.
#[test]
fn what_browsers_copy_works_in_our_own_grammar() {
    let recorder = Recorder::start();
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/api", recorder.port);
    let copied = [
        &url,
        "-H",
        "accept: */*",
        "-b",
        "sid=1; theme=dark",
        "-H",
        "x-two: 2",
        "--data-raw",
        "------Boundary\r\n",
        "--compressed",
        "--insecure",
        "-i",
    ];
    let shown = firstbyte(directory.path(), &copied);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(shown.stdout.starts_with("HTTP/1.1 200\ncontent-length: 5\n\n"), "{}", shown.stdout);
    let sent = recorder.take();
    let expected = "\r\nAccept-Encoding: deflate, gzip, br, zstd\r\nCookie: sid=1; theme=dark\r\n\
                    Accept: */*\r\nX-Two: 2\r\nContent-Length: 16\r\n";
    assert!(sent[0].contains(expected), "{}", sent[0]);
    assert!(sent[0].ends_with("\r\n\r\n------Boundary\r\n"), "{}", sent[0]);
}

#[test]
fn options_that_have_no_meaning_here_are_refused_by_name() {
    let directory = Directory::new();
    for (words, name) in [
        (&["--ftp-pasv"][..], "--ftp-pasv"),
        (&["--limit-rate", "1k"], "--limit-rate"),
        (&["--no-such-option"], "--no-such-option"),
    ] {
        let words = [&["curl"], words, &["http://127.0.0.1:1/"]].concat();
        let refused = firstbyte(directory.path(), &words);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(name), "{}", refused.stderr);
    }
}

#[test]
fn the_document_has_every_option_of_the_installed_curl() {
    let directory = Directory::new();
    let help = curl(directory.path(), &["--help", "all"]).stdout;
    let document = include_str!("../../../../docs/from-curl.md");
    let named: std::collections::BTreeSet<&str> = document
        .split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)))
        .filter(|word| word.starts_with("--"))
        .collect();
    let options = help
        .lines()
        .filter_map(|line| line.split_whitespace().take(2).find(|word| word.starts_with("--")));
    let options: Vec<&str> = options.collect();
    assert!(options.len() > 200, "{help}");
    let missing: Vec<&&str> = options.iter().filter(|option| !named.contains(**option)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
