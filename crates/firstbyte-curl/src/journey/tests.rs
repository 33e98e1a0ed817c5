use super::*;
use crate::files::MemoryFiles;
use crate::grammar::read_line;
use crate::head::USER_AGENT;
use crate::problem::exit;
use crate::settings::HttpChoice;
use crate::transfers::list_transfers;

/// What curl 7.88.1 sent in the world below.
const MEASURED: &str = include_str!("measured.txt");

const PLACES: [(&str, &str); 4] = [
    ("{{http}}", "localhost:7001"),
    ("{{https}}", "localhost:7002"),
    ("{{h2}}", "localhost:7003"),
    ("{{proxy}}", "localhost:7004"),
];

fn world() -> MemoryFiles {
    let cookies = "# Netscape HTTP Cookie File\n\nlocalhost\tFALSE\t/\tFALSE\t0\tsid\tfrom-jar\n\
                   localhost\tFALSE\t/api\tFALSE\t4102444800\tpath\tdeep\n\
                   other.test\tFALSE\t/\tFALSE\t0\tforeign\tno\n";
    let mut files = MemoryFiles::with(&[
        ("file.txt", "first line\nsecond line\n"),
        ("form.txt", "alpha=1&beta=two words&\ngamma=3\n"),
        ("headers.txt", "X-From-File: yes\nX-Trace: 00-abc-01\n"),
        ("etag.txt", "\"5f3c-1\"\n"),
        ("partial.bin", "0123456789"),
        ("cookies.txt", cookies),
        ("netrc.txt", "machine localhost login netrc-user password netrc-pass\n"),
        ("/home/.netrc", "machine localhost login home-user password home-pass\n"),
    ]);
    files.files.insert("big.bin".to_owned(), b"0123456789".repeat(130_000));
    files.variables.insert("HOME".to_owned(), "/home".to_owned());
    files
}

/// As a shell would, without escapes.
fn split_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (letter, quote) {
            ('\'' | '"', None) => {
                word.get_or_insert_default();
                quote = Some(letter);
            }
            (_, Some(open)) if letter == open => quote = None,
            (' ', None) => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

fn read_operations(line: &str, files: &MemoryFiles) -> Vec<Operation> {
    match read_line(&split_words(line), files) {
        Ok(line) => line.operations,
        Err(problem) => panic!("{line}: {problem}"),
    }
}

/// The answers of the server that was measured with.
fn answer(path: &str, is_authorized: bool) -> (u16, Vec<(String, String)>) {
    let mut parts = path.split(['/', '?']).skip(1);
    let (first, second) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let basic = ("WWW-Authenticate", r#"Basic realm="echo""#);
    let digest =
        ("WWW-Authenticate", r#"Digest realm="echo", nonce="n0nce", qop="auth", algorithm=MD5"#);
    let (status, fields): (u16, Vec<(&str, &str)>) = match (first, second) {
        ("redirect", status) => {
            (status.parse().unwrap_or(302), vec![("Location", "/final?from=redirect")])
        }
        ("loop", _) => (302, vec![("Location", "/loop")]),
        ("login", _) => {
            (302, vec![("Set-Cookie", "session=s1; Path=/; HttpOnly"), ("Location", "/account")])
        }
        ("setcookie", _) => {
            let theme = ("Set-Cookie", "theme=dark; Path=/; Max-Age=3600");
            (200, vec![("Set-Cookie", "session=s1; Path=/"), theme])
        }
        ("status", status) => (status.parse().unwrap(), vec![]),
        ("auth", _) if is_authorized => (200, vec![]),
        ("auth", "digest") => (401, vec![digest]),
        ("auth", "any") => (401, vec![basic, digest]),
        ("auth", _) => (401, vec![basic]),
        _ => (200, vec![]),
    };
    let fields = fields.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    (status, fields.collect())
}

/// Replaces what differs from run to run.
fn mask(line: &str) -> String {
    let mut line = line.replace(USER_AGENT, "curl/7.88.1");
    for (token, place) in PLACES {
        line = line.replace(place, token);
    }
    for start in ["boundary=------------------------", "cnonce=\"", "response=\""] {
        if let Some(at) = line.find(start) {
            let from = at + start.len();
            let is_random = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
            let rest = line[from..].trim_start_matches(is_random).to_owned();
            line.truncate(from);
            line = format!("{line}*{rest}");
        }
    }
    line
}

fn lines_of(head: &[u8]) -> Vec<String> {
    let head = std::str::from_utf8(head).unwrap().strip_suffix("\r\n\r\n").unwrap();
    head.split("\r\n").map(mask).collect()
}

fn show_request(request: &CurlRequest, is_http2: bool) -> String {
    let mut parts = vec!["request".to_owned()];
    if is_http2 {
        parts[0] += " HTTP/2";
        if !request.authority.is_empty() {
            parts.push(format!(":authority: {}", mask(&request.authority)));
        }
        parts.push(format!(":method: {}", request.method));
        parts.push(format!(":path: {}", request.path));
        parts.push(format!(":scheme: {}", request.url.scheme.name()));
        parts.extend(request.fields.iter().map(|(name, value)| {
            mask(&format!("{name}: {}", std::str::from_utf8(value).unwrap()))
        }));
    } else {
        if request.chunked {
            parts[0] += " chunked";
        }
        parts.extend(lines_of(&request.head));
    }
    if let Some(body) = request.body.as_ref().filter(|body| !body.is_empty()) {
        let is_printable = |byte: &u8| matches!(*byte, b' '..=b'~' | b'\n');
        let is_short = body.len() <= 60 && body.iter().all(is_printable);
        let text: &[u8] = if is_short { body } else { b"" };
        let text = String::from_utf8_lossy(text).replace('\n', "\\n");
        parts.push(format!("[{}] {text}", body.len()).trim_end().to_owned());
    }
    format!("> {} |", parts.join(" | "))
}

/// What a command line sends, in the form of the measured file.
fn carry_out(line: &str) -> Vec<String> {
    let (line, stdin) = line.split_once(" < ").unwrap_or((line, ""));
    let mut line = line.to_owned();
    for (token, place) in PLACES {
        line = line.replace(token, place);
    }
    let files = world();
    *files.stdin.borrow_mut() = files.files.get(stdin).cloned().unwrap_or_default();
    let mut jar = CookieJar::default();
    let mut shown = Vec::new();
    for operation in read_operations(&line, &files) {
        for cookies in &operation.cookies {
            if let CookieText::File(name) = cookies
                && let Ok(text) = files.read(name)
            {
                jar.read(&text, operation.junk_session_cookies, files.now());
            }
        }
        let transfers = list_transfers(&operation, &files);
        for transfer in transfers.unwrap_or_else(|problem| panic!("{line}: {problem}")) {
            let journey = Journey::new(operation.clone(), &transfer, &files);
            let mut journey = journey.unwrap_or_else(|problem| panic!("{line}: {problem}"));
            loop {
                let request = journey.request(&jar, &files);
                let request = request.unwrap_or_else(|problem| panic!("{line}: {problem}"));
                if journey.proxy().is_some() && journey.needs_tunnel() {
                    let place = format!("localhost:{}", request.url.port());
                    let connect = lines_of(&journey.connect_head(&place));
                    shown.push(format!("> tunnel | {} |", connect.join(" | ")));
                }
                let is_http2 =
                    request.url.port() == 7003 || operation.http == HttpChoice::V2PriorKnowledge;
                shown.push(show_request(&request, is_http2));
                let head = String::from_utf8_lossy(&request.head);
                let (status, fields) = answer(&request.path, head.contains("\r\nAuthorization:"));
                match journey.next(&mut jar, status, &fields, &files).unwrap() {
                    NextStep::Again => {}
                    NextStep::Done => break,
                    NextStep::TooManyRedirects => {
                        shown.push("exit 47".to_owned());
                        break;
                    }
                }
            }
        }
    }
    shown
}

#[test]
fn requests_are_those_that_curl_sent() {
    let mut differences = String::new();
    let mut count = 0;
    for case in MEASURED.split("\n$ ").skip(1) {
        let mut lines = case.lines();
        let typed = lines.next().unwrap();
        let expected: Vec<&str> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        let shown = carry_out(typed);
        count += expected.len();
        if shown != expected {
            let (shown, expected) = (shown.join("\n"), expected.join("\n"));
            differences += &format!("{typed}\n  sends\n{shown}\n  and curl sends\n{expected}\n\n");
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert!(count > 200, "{count}");
}

/// The second request after a redirect to another origin; without User-Agent and Accept.
#[test]
fn secrets_stay_at_the_first_origin() {
    let port = "http://localhost:2/x";
    let host = "http://127.0.0.1:1/x";
    let cases = [
        ("-u a:b", port, "Host: localhost:2"),
        ("-b c=1", port, "Host: localhost:2 | Cookie: c=1"),
        ("-H 'Authorization: x'", port, "Host: localhost:2"),
        ("-H 'Cookie: c=1'", port, "Host: localhost:2"),
        ("-H 'Host: h'", port, "Host: h"),
        (
            "--location-trusted -u a:b -H 'Cookie: c=1'",
            port,
            "Host: localhost:2 | Authorization: Basic YTpi | Cookie: c=1",
        ),
        ("-e ';auto'", port, "Host: localhost:2 | Referer: http://localhost:1/port"),
        ("--oauth2-bearer T", port, "Host: localhost:2"),
        ("-n", port, "Host: localhost:2 | Authorization: Basic aG9tZS11c2VyOmhvbWUtcGFzcw=="),
        ("-u a:b", host, "Host: 127.0.0.1:1"),
        ("-b c=1", host, "Host: 127.0.0.1:1 | Cookie: c=1"),
        ("-H 'Host: h'", host, "Host: 127.0.0.1:1"),
        ("-H 'X-A: 1' -n", host, "Host: 127.0.0.1:1 | X-A: 1"),
        ("", "http://n:m@localhost:1/x", "Host: localhost:1 | Authorization: Basic bjpt"),
        ("-u a:b", "http://n:m@localhost:1/x", "Host: localhost:1 | Authorization: Basic YTpi"),
        ("", "http://n:m@127.0.0.1:1/x", "Host: 127.0.0.1:1"),
        ("-u a:b", "http://localhost:1/x", "Host: localhost:1 | Authorization: Basic YTpi"),
    ];
    for (options, location, expected) in cases {
        let files = world();
        let line = format!("-L {options} http://localhost:1/port");
        let operation = read_operations(&line, &files).remove(0);
        let transfer = list_transfers(&operation, &files).unwrap().remove(0);
        let mut journey = Journey::new(operation, &transfer, &files).ok().unwrap();
        let mut jar = CookieJar::default();
        let fields = [("location".to_owned(), location.to_owned())];
        let next = journey.next(&mut jar, 302, &fields, &files);
        assert_eq!(next, Ok(NextStep::Again), "{line}");
        let request = journey.request(&jar, &files).ok().unwrap();
        let lines = lines_of(&request.head);
        assert_eq!(lines[0], "GET /x HTTP/1.1");
        let is_usual =
            |line: &&String| line.starts_with("User-Agent:") || line.starts_with("Accept:");
        let rest: Vec<&str> =
            lines[1..].iter().filter(|line| !is_usual(line)).map(String::as_str).collect();
        assert_eq!(rest.join(" | "), expected, "{line}");
    }
}

#[test]
fn a_digest_is_counted_across_redirects() {
    let files = world();
    let operation = read_operations("-L --digest -u a:b http://h/d", &files).remove(0);
    let transfer = list_transfers(&operation, &files).unwrap().remove(0);
    let mut journey = Journey::new(operation, &transfer, &files).ok().unwrap();
    let mut jar = CookieJar::default();
    let challenge = r#"Digest realm="r", nonce="n", qop="auth""#.to_owned();
    let responses = [(401, ("WWW-Authenticate", challenge)), (302, ("Location", "/e".to_owned()))];
    for (count, (status, (name, value))) in responses.into_iter().enumerate() {
        let fields = [(name.to_owned(), value)];
        assert_eq!(journey.next(&mut jar, status, &fields, &files), Ok(NextStep::Again));
        let head = journey.request(&jar, &files).ok().unwrap().head;
        let head = String::from_utf8(head).unwrap();
        assert!(head.contains(&format!("nc=0000000{}", count + 1)), "{head}");
    }
    let fields = [("WWW-Authenticate".to_owned(), "Digest realm=\"r\", nonce=\"m\"".to_owned())];
    assert_eq!(journey.next(&mut jar, 401, &fields, &files), Ok(NextStep::Done));
}

#[test]
fn what_curl_would_not_send_is_refused() {
    let cases = [
        ("-0 -T - http://h/x", exit::UPLOAD, "--upload-file:"),
        ("-T missing http://h/x", exit::READ, "--upload-file:"),
        ("-T file.txt -C 30 http://h/x", 18, "--continue-at:"),
        ("-d abc -C 5 http://h/x", 18, "--continue-at:"),
        ("--etag-compare missing http://h/x", exit::READ, "--etag-compare:"),
        ("-H @missing http://h/x", exit::READ, "--header:"),
        ("-H 'Content-Length: 99' -d abc http://h/x", exit::USAGE, "--header:"),
        ("-H 'Content-Length: 5' http://h/x", exit::USAGE, "--header:"),
        ("-H 'X-A: a\r\nX-B: c' http://h/x", exit::USAGE, "--header:"),
        ("-A 'a\nb' http://h/x", exit::USAGE, "--user-agent:"),
        ("-u name http://h/x", exit::USAGE, "--user: give the password as NAME:PASSWORD"),
        ("--http2-prior-knowledge -H 'X A: 1' http://h/x", exit::USAGE, "--header:"),
    ];
    for (line, code, start) in cases {
        let files = world();
        // The grammar may refuse it first.
        let problem = read_line(&split_words(line), &files).map(|parsed| {
            let operation = parsed.operations[0].clone();
            let transfer = list_transfers(&operation, &files).unwrap().remove(0);
            let journey = Journey::new(operation, &transfer, &files);
            journey.and_then(|journey| journey.request(&CookieJar::default(), &files)).err()
        });
        let problem = problem.unwrap_or_else(Some).unwrap();
        assert_eq!(problem.code, code, "{line}: {problem}");
        assert!(problem.message.starts_with(start), "{line}: {problem}");
    }
}

#[test]
fn other_tries_read_only_uploads_again() {
    let files = world();
    *files.stdin.borrow_mut() = b"typed".to_vec();
    let operation = read_operations("-d @- http://h/1 http://h/2", &files).remove(0);
    let transfers = list_transfers(&operation, &files).unwrap();
    let first = Journey::new(operation, &transfers[0], &files).ok().unwrap();
    let second = first.again_for(&transfers[1], &files).ok().unwrap();
    let request = second.request(&CookieJar::default(), &files).ok().unwrap();
    assert_eq!((request.path.as_str(), request.body.as_deref()), ("/2", Some(&b"typed"[..])));

    *files.stdin.borrow_mut() = b"sent".to_vec();
    let operation = read_operations("-T - http://h/1", &files).remove(0);
    let transfer = list_transfers(&operation, &files).unwrap().remove(0);
    let first = Journey::new(operation, &transfer, &files).ok().unwrap();
    let second = first.again_for(&transfer, &files).ok().unwrap();
    let request = second.request(&CookieJar::default(), &files).ok().unwrap();
    assert!(request.chunked && request.waits_for_continue);
    assert_eq!(request.body, Some(Vec::new()));
}

#[test]
fn connections_that_are_moved_need_a_tunnel() {
    let url = CurlUrl::parse("http://Zz.test/x", None, false).unwrap();
    let cases = [
        ("::localhost:8080", true),
        ("zz.test:80:h:", true),
        ("zz.test::h:", true),
        ("zz.test:81:h:", false),
        ("a.test::h:", false),
        ("[::1]::h:", false),
        ("zz.test:::", false),
    ];
    for (rule, expected) in cases {
        assert_eq!(moves_connection(rule, &url), expected, "{rule}");
    }
}

#[test]
fn dates_that_are_none_are_named() {
    let files = world();
    let operation = read_operations("-z nonsense http://h/", &files).remove(0);
    let transfer = list_transfers(&operation, &files).unwrap().remove(0);
    let journey = Journey::new(operation, &transfer, &files).ok().unwrap();
    assert_eq!(journey.warnings(), ["--time-cond: \"nonsense\" is neither a date nor a file"]);
}
