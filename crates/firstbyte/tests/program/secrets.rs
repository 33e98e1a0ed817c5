//! Credentials are sent and kept in the run file, and appear nowhere else: every output of every command that measures,
//! for every way to type a credential.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::ServerCertificate;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::support::certificates::good;
use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::peer::{Peer, read_head};
use crate::support::run::{Outcome, firstbyte};

/// Part of every secret.
const SECRET: &str = "s3cret";

/// Ways to type a credential; `{}` stands for the secret.
const SPELLINGS: &[&[&str]] = &[
    &["-H", "Authorization: Bearer {}"],
    &["-Hauthorization:Basic {}"],
    &["-H=AUTHORIZATION: {}"],
    &["--header", "Proxy-Authorization:{}"],
    &["--header=Cookie: id={}; b=c"],
    &["-sH", "cookie:{}"],
    &["-kHX-Auth-Token: {}"],
    &["-H", "X-Api-Key : {}"],
    &["-H", "X-Nobody-Lists-This: {}"],
    &["-d", "pw={}"],
    &["-dpw={}"],
    &["-d=pw={}"],
    &["-fd", "{}"],
    &["--data", "pw={}"],
    &["--data=pw={}"],
    &["--data-ascii", "pw={}"],
    &["--data-ascii=pw={}"],
    &["--data-raw", "@{}"],
    &["--data-raw=pw={}"],
    &["--data-binary", "pw={}"],
    &["--data-binary=pw={}"],
];
/// Secrets that come from files; the file names are not secret.
const FROM_FILES: &[&[&str]] =
    &[&["-d", "@body"], &["-d@body"], &["--data=@body"], &["--data-binary", "@body"]];
/// Refused arguments and their messages: nothing is sent, and the message does not contain the secret.
const REFUSED: &[(&[&str], &str)] = &[
    (&["-H", "Authorization Bearer {}", "a.test"], "-H \"Authorization <hidden>\": no colon in it"),
    (&["-H", "Two words: {}", "a.test"], "-H \"Two words: <hidden>\": not a field name"),
    (&["-H", "Cookie: {}\u{7f}", "a.test"], "-H \"Cookie: <hidden>\": the value has a character"),
    (&["-H", "@headers", "a.test"], "-H \"@headers\": no colon in it"),
    (&["https://me:{}@a.test/"], "\"https://<hidden>@a.test/\": a user and password in the URL"),
    (&["me:{}@a.test"], "\"<hidden>@a.test\": "),
    (&["https://{}@a.test/"], "\"https://<hidden>@a.test/\": a user and password in the URL"),
    (&["ftp://me:{}@a.test/"], "\"ftp://<hidden>@a.test/\": scheme ftp:// is not supported"),
    (&["https://me:{}@a.test:99999/"], "\"https://<hidden>@a.test:99999/\": not a URL"),
    (
        &["--resolver", "https://me:{}@dns.test/", "a.test"],
        "--resolver \"https://<hidden>@dns.test/\"",
    ),
    (
        &["--resolver", "me:{}@192.0.2.1", "a.test"],
        "--resolver \"<hidden>@192.0.2.1\": not a resolver",
    ),
    (
        &["--resolver", "https://dns.test/?k={}", "a.test"],
        "--resolver \"https://dns.test/?k=<hidden>\"",
    ),
    (
        &["--connect-to", "https://me:{}@dns.test/", "a.test"],
        "--connect-to \"https://<hidden>@dns.test/\"",
    ),
    (&["-u", "me:{}", "a.test"], "unexpected argument '-u'"),
    (&["-ume:{}", "a.test"], "unexpected argument '-u'"),
    (&["--user=me:{}", "a.test"], "unexpected argument '--user'"),
    (&["--oauth2-bearer", "{}", "a.test"], "unexpected argument '--oauth2-bearer'"),
    (&["--oauth2-bearer={}", "a.test"], "unexpected argument '--oauth2-bearer'"),
    (&["-b", "{}", "a.test"], "-b: expected NAME=VALUE"),
    (&["--cookie={}", "a.test"], "-b: expected NAME=VALUE"),
];

/// A server, a directory, and every spelling with a different secret.
struct Bench {
    server: Handle,
    directory: Directory,
    words: Vec<String>,
    secrets: Vec<String>,
}

impl Bench {
    fn new() -> Self {
        let identity = good();
        let certificate =
            ServerCertificate { chain_pem: identity.chain_pem, key_pem: identity.key_pem };
        let server =
            spawn(Config::new(certificate), Listeners::loopback_with_quic().unwrap()).unwrap();
        let directory = Directory::new();
        directory.write("body", format!("pw={SECRET}-in-a-file"));
        let mut secrets = Vec::new();
        let mut words: Vec<String> = Vec::new();
        for spelling in SPELLINGS {
            let secret = format!("{SECRET}-{:02}", secrets.len());
            words.extend(spelling.iter().map(|word| word.replace("{}", &secret)));
            secrets.push(secret);
        }
        words.extend(FROM_FILES.concat().into_iter().map(str::to_owned));
        Self { server, directory, words, secrets }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/?{SECRET}&token={SECRET}#{SECRET}", self.server.addr().port())
    }

    /// Runs the program with `before`, all spellings, and `after`.
    fn run(&self, before: &[&str], after: &[&str]) -> Outcome {
        let typed = self.words.iter().map(String::as_str);
        let url = self.url();
        let fixed = ["--cacert", "ca.pem", "-4", &url];
        let all: Vec<&str> =
            before.iter().copied().chain(typed).chain(fixed).chain(after.iter().copied()).collect();
        let outcome = firstbyte(self.directory.path(), &all);
        assert_eq!(outcome.code, 0, "{before:?}: {}\n{}", outcome.stderr, outcome.stdout);
        outcome
    }

    fn later(&self, words: &[&str]) -> Outcome {
        let outcome = firstbyte(self.directory.path(), words);
        assert_eq!(outcome.code, 0, "{words:?}: {}\n{}", outcome.stderr, outcome.stdout);
        outcome
    }

    /// All new files in the directory as text, except those in `but`, and the printed output.
    fn texts(&self, outcome: &Outcome, but: &[&str]) -> Vec<(String, String)> {
        let mut texts = vec![
            ("standard output".to_owned(), outcome.stdout.clone()),
            ("standard error".to_owned(), outcome.stderr.clone()),
        ];
        let ours = ["ca.pem", "body", "plan.toml"];
        read_all(self.directory.path(), &mut |name, text| {
            if !ours.iter().chain(but).any(|other| *other == name) {
                texts.push((name.to_owned(), text));
            }
        });
        texts
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.directory.path().join(name)).unwrap().permissions().mode() & 0o777
    }

    /// Asserts that the run file contains the secrets; otherwise the test would prove nothing.
    fn assert_kept(&self, run: &str) {
        let text = String::from_utf8(self.directory.read(run)).unwrap();
        for (secret, spelling) in self.secrets.iter().zip(SPELLINGS) {
            assert!(text.contains(secret), "{run} lacks {spelling:?}");
        }
        assert_eq!(self.mode(run), 0o600, "{run}");
    }
}

/// Reads every file below `directory` as text; Parquet files as rows.
fn read_all(directory: &Path, each: &mut dyn FnMut(&str, String)) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            read_all(&path, each);
        } else if name.ends_with(".parquet") {
            each(name, parquet_text(&path));
        } else {
            each(name, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
}

fn parquet_text(path: &Path) -> String {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut text = format!("{:?}", reader.metadata());
    for row in reader.get_row_iter(None).unwrap() {
        writeln!(text, "{}", row.unwrap()).unwrap();
    }
    text
}

#[track_caller]
fn assert_hidden(command: &str, texts: &[(String, String)]) {
    let leaks: Vec<String> = texts
        .iter()
        .filter_map(|(name, text)| {
            let at = text.find(SECRET)?;
            let before = text[..at].rsplit([',', '\n']).next().unwrap_or_default();
            let from: String = text[at..].chars().take(20).collect();
            Some(format!("{name}: …{before}{from}…"))
        })
        .collect();
    assert!(leaks.is_empty(), "{command} shows secrets:\n{}", leaks.join("\n"));
}

const RENDERED: &[&str] = &[
    "--html",
    "x.html",
    "--svg",
    "svg",
    "--png",
    "png",
    "--csv=x.csv",
    "--json=x.json",
    "--parquet",
    "x.parquet",
    "--har",
    "x.har",
];

#[test]
fn probe() {
    let bench = Bench::new();
    for view in [
        &[] as &[&str],
        &["-n", "2"],
        &["--verbose"],
        &["--sequence"],
        &["--http1.1", "--verbose"],
        &["--http3-only", "--verbose"],
        &["--json"],
        &["--csv"],
        &["--json=rows.json", "--csv=rows.csv"],
        &["-w", "%{certs} %{remote_ip} %{http_code}"],
        &["-o", "page", "-w", "%output{written}%{certs}"],
    ] {
        let outcome = bench.run(&["-X", "POST"], view);
        assert!(!outcome.stdout.is_empty() || view.contains(&"-o"), "{view:?}");
        assert_hidden(&format!("probe {view:?}"), &bench.texts(&outcome, &[]));
    }
}

#[test]
fn everything_that_is_typed_is_sent() {
    let bench = Bench::new();
    let echo = Echo::start(|_| response("200 OK", "", b"ok"));
    let url = format!("http://127.0.0.1:{}/", echo.peer.port());
    let words: Vec<&str> = bench.words.iter().map(String::as_str).chain([url.as_str()]).collect();
    assert_eq!(firstbyte(bench.directory.path(), &words).code, 0);
    let request = format!("{:?}", echo.requests()[0]);
    for (secret, spelling) in bench.secrets.iter().zip(SPELLINGS) {
        assert!(request.contains(secret), "{spelling:?}: {request}");
    }
    assert_eq!(request.matches("-in-a-file").count(), FROM_FILES.len());
}

#[test]
fn compare_report_predict_and_check() {
    let bench = Bench::new();
    let way = ["compare", "--vary", "tls=1.2,1.3", "-n", "2", "--interval", "0"];
    let dry = bench.run(&way, &["--dry-run"]);
    assert_hidden("compare --dry-run", &bench.texts(&dry, &[]));

    let outputs = [&["--run", "a.run"], RENDERED].concat();
    let outcome = bench.run(&way, &outputs);
    bench.assert_kept("a.run");
    let texts = bench.texts(&outcome, &["a.run"]);
    assert!(texts.len() > 10, "{texts:?}");
    assert_hidden("compare", &texts);
    let page = String::from_utf8(bench.directory.read("x.html")).unwrap();
    for hidden in [
        "Authorization: &lt;hidden&gt;",
        "--data &#39;&lt;hidden&gt;&#39;",
        "--data @body",
        "?&lt;hidden&gt;&amp;token=&lt;hidden&gt;",
    ] {
        assert!(page.contains(hidden), "{hidden}");
    }
    // These files contain the servers' responses, including cookies; pages and charts do not.
    assert_eq!((bench.mode("x.json"), bench.mode("x.har")), (0o600, 0o600));

    let again = [&["report", "a.run"], RENDERED].concat();
    assert_hidden("report", &bench.texts(&bench.later(&again), &["a.run"]));
    for form in ["--csv", "--json", "--har", "--html"] {
        let outcome = bench.later(&["report", "a.run", &format!("{form}=-")]);
        assert_hidden(form, &bench.texts(&outcome, &["a.run"]));
    }
    let longer = bench.later(&["compare", "--continue", "a.run", "-n", "3", "--html", "y.html"]);
    assert_hidden("compare --continue", &bench.texts(&longer, &["a.run"]));
    bench.assert_kept("a.run");
    for form in [&[] as &[&str], &["--json"], &["--csv"], &["--verbose"]] {
        let outcome =
            bench.later(&[&["predict", "--from", "a.run", "--chain", "3000"], form].concat());
        assert_hidden("predict", &bench.texts(&outcome, &["a.run"]));
    }

    let flags: Vec<String> = bench.words.iter().map(|word| format!("{word:?}")).collect();
    let plan = format!(
        "url = {:?}\nvary = ['tls=1.2,1.3']\nsamples = 20\ninterval = 0.0\n\
         flags = ['--cacert', 'ca.pem', '-4', {}]\n",
        bench.url(),
        flags.join(", ")
    );
    bench.directory.write("plan.toml", plan);
    let condition = ["--fail-if", "ttfb.median > 60s", "--baseline", "a.run"];
    let measured = ["check", "--plan", "plan.toml", "--run", "b.run", "--summary", "summary.md"];
    let outcome = bench.later(&[&measured[..], &condition].concat());
    bench.assert_kept("b.run");
    assert_hidden("check", &bench.texts(&outcome, &["a.run", "b.run"]));
    let outcome = bench.later(&[&["check", "--from", "b.run"], &condition[..]].concat());
    assert_hidden("check --from", &bench.texts(&outcome, &["a.run", "b.run"]));
}

#[test]
fn explain() {
    let bench = Bench::new();
    let outputs = ["--html", "x.html", "--svg", "svg", "--png", "png"];
    let begin = ["explain", "-n", "2", "--run", "a.run"];
    let outcome = bench.run(&begin, &outputs);
    bench.assert_kept("a.run");
    let texts = bench.texts(&outcome, &["a.run"]);
    assert!(texts.len() > 5, "{texts:?}");
    assert_hidden("explain", &texts);
    let page = String::from_utf8(bench.directory.read("x.html")).unwrap();
    assert!(page.contains("--header &#39;Authorization: &lt;hidden&gt;&#39;"), "{page}");

    let outcome = bench.run(&["explain", "-n", "2", "--json"], &[]);
    assert!(outcome.stdout.contains("\"Authorization: <hidden>\""), "{}", outcome.stdout);
    assert_hidden("explain --json", &bench.texts(&outcome, &["a.run"]));
    for form in [&[] as &[&str], &["--json"], &["--json=x.json"], &outputs] {
        let outcome = bench.later(&[&["explain", "--from", "a.run"], form].concat());
        assert_hidden("explain --from", &bench.texts(&outcome, &["a.run"]));
    }
    let outcome = bench.later(&[&["report", "a.run"], RENDERED].concat());
    assert_hidden("report of an explanation", &bench.texts(&outcome, &["a.run"]));
}

#[test]
fn what_is_refused_is_not_repeated() {
    let directory = Directory::new();
    directory.write("headers", format!("Authorization: {SECRET}\n"));
    for (arguments, said) in REFUSED {
        for command in [&[] as &[&str], &["compare", "--vary", "tls=1.2,1.3"], &["explain"]] {
            let words: Vec<String> =
                command.iter().chain(*arguments).map(|word| word.replace("{}", SECRET)).collect();
            let outcome = firstbyte(directory.path(), &words);
            assert_ne!(outcome.code, 0, "{words:?}");
            assert!(outcome.stderr.contains(said), "{words:?}: {}", outcome.stderr);
            assert!(!outcome.stderr.contains(SECRET), "{words:?}: {}", outcome.stderr);
            assert_eq!(outcome.stdout, "", "{words:?}");
        }
    }
    for (words, said) in [
        (&["--vary", "site=a:https://me:{}@a.test/"] as &[&str], "a user and password in the URL"),
        (&["--plan", "bad.toml"], "unknown key \"flag\""),
    ] {
        directory.write("bad.toml", format!("url = 'a.test'\nflag = ['-d', '{SECRET}']\n"));
        let words: Vec<String> = words.iter().map(|word| word.replace("{}", SECRET)).collect();
        let words = [&["compare".to_owned(), "a.test".to_owned()], &words[..]].concat();
        let outcome = firstbyte(directory.path(), &words);
        assert_eq!(outcome.code, 2, "{words:?}");
        assert!(outcome.stderr.contains(said), "{words:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains(SECRET), "{words:?}: {}", outcome.stderr);
    }
    assert!(fs::read_dir(directory.path()).unwrap().count() == 3);
}

#[test]
fn where_a_redirect_leads_is_shown_without_users() {
    for scheme in ["http", "ftp"] {
        let location = format!("Location: {scheme}://me:{SECRET}@127.0.0.1:1/\r\n");
        let echo = Echo::start(move |_| response("302 Found", &location, b""));
        let url = format!("http://127.0.0.1:{}/", echo.peer.port());
        let directory = Directory::new();
        for view in [&[] as &[&str], &["--verbose"], &["--sequence"], &["--csv"]] {
            let words = [view, &["-L", "--max-time", "5", &url]].concat();
            let outcome = firstbyte(directory.path(), &words);
            assert_ne!(outcome.code, 0, "{words:?}");
            for text in [&outcome.stdout, &outcome.stderr] {
                assert!(!text.contains(SECRET), "{words:?}: {text}");
            }
        }
    }
}

/// `-L` does not send the first origin's credentials to another one.
#[test]
fn probe_keeps_credentials_with_their_origin() {
    let other = Echo::start(|_| response("200 OK", "", b"ok"));
    let location = format!("Location: http://127.0.0.1:{}/\r\n", other.peer.port());
    let first = Peer::tcp(move |mut stream| {
        use std::io::Write;
        assert!(read_head(&mut stream).contains(SECRET));
        let _ = write!(stream, "HTTP/1.1 302 Found\r\n{location}Content-Length: 0\r\n\r\n");
    });
    let url = format!("http://127.0.0.1:{}/", first.port());
    let (authorization, cookie) = (format!("Authorization: {SECRET}"), format!("Cookie: {SECRET}"));
    let words = ["-L", "-H", &authorization, "-H", &cookie, &url];
    let outcome = firstbyte(Directory::new().path(), &words);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, outcome.stdout);
    let requests = other.requests();
    assert_eq!(requests.len(), 1);
    assert!(!format!("{requests:?}").contains(SECRET), "{requests:?}");
}

/// `explain` follows redirects once, then measures their destination.
#[test]
fn explain_keeps_credentials_with_their_origin() {
    let other = Echo::start(|_| response("200 OK", "", b"ok"));
    let location = format!("Location: http://me:{SECRET}@127.0.0.1:{}/\r\n", other.peer.port());
    let first = Peer::tcp(move |mut stream| {
        use std::io::Write;
        assert!(read_head(&mut stream).contains(SECRET));
        let _ = write!(stream, "HTTP/1.1 302 Found\r\n{location}Content-Length: 0\r\n\r\n");
    });
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/", first.port());
    let authorization = format!("Authorization: {SECRET}");
    let words = ["explain", "-n", "2", "--html", "x.html", "-H", &authorization, &url];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 0, "{}{}", outcome.stderr, outcome.stdout);
    let requests = other.requests();
    assert!(requests.len() > 2, "{requests:?}");
    assert!(!format!("{requests:?}").contains(SECRET), "{requests:?}");
    let page = String::from_utf8(directory.read("x.html")).unwrap();
    for text in [&outcome.stdout, &outcome.stderr, &page] {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn a_run_that_takes_the_place_of_an_empty_file_is_its_owners() {
    let bench = Bench::new();
    bench.directory.write("a.run", "");
    let path = bench.directory.path().join("a.run");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    bench.run(&["explain", "-n", "1", "--run", "a.run"], &[]);
    bench.assert_kept("a.run");
}
