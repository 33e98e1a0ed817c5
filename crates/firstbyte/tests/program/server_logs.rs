//! Access logs of real nginx, Apache and Caddy, in the configuration that `log-format` prints: the logged time is the
//! known think time, and what the logs say about resumption and early data is what our samples prove.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_lab::ca::Ca;
use serde_json::Value;

use crate::support::files::Directory;
use crate::support::peer::{Peer, read_head, send};
use crate::support::run::firstbyte;

/// Server think time of the application.
///
/// Not 40 ms, the kernel's timer of delayed acknowledgements: on a link without delay, such an application cannot be
/// distinguished from a server that waits for an acknowledgement (`docs/measurement.md`).
const THINK: Duration = Duration::from_millis(90);
const THINK_NS: u64 = 90_000_000;

/// An application behind a web server: it answers each request after [`THINK`].
fn application() -> Peer {
    Peer::tcp(|mut stream| {
        stream.set_nodelay(true).unwrap();
        while !read_head(&mut stream).is_empty() {
            thread::sleep(THINK);
            let body = "x".repeat(100);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{body}");
            send(&mut stream, answer.as_bytes());
        }
    })
}

/// A running web server; terminated when dropped.
struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Server {
    /// Starts `program` and waits until it accepts connections on `port`.
    fn start(directory: &Path, port: u16, program: &str, arguments: &[&str]) -> Self {
        let program = find(program);
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env("HOME", directory)
            .env("XDG_DATA_HOME", directory)
            .env("XDG_CONFIG_HOME", directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Monotonic::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = child.try_wait().unwrap().is_some();
            if ended || Monotonic::now().since(begun) > Duration::from_secs(20) {
                let _ = child.kill();
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("the server is not up: {said}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Self { child, port, log: directory.join("firstbyte.log") }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}/w?token=s3cret", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Apache terminates its child processes when asked to.
        let pid = nix::unistd::Pid::from_raw(self.child.id() as i32);
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Path of the program: servers are not on an ordinary user's PATH.
fn find(program: &str) -> PathBuf {
    let path = std::env::var("PATH").unwrap_or_default();
    let places = path.split(':').chain(["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"]);
    let found = places.map(|place| Path::new(place).join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| {
        panic!("install {program}: apt-get install nginx-light apache2-bin caddy")
    })
}

/// An unused port.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A directory with certificates for localhost, and the output of `log-format` for `server` with its log there.
fn prepared(server: &str) -> (Directory, String) {
    let directory = Directory::new();
    // Apache changes its user.
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ca = Ca::new().unwrap();
    let certificate = ca.issue(&["localhost".to_owned()]).unwrap();
    directory.write("root.pem", ca.root_pem());
    directory.write("chain.pem", certificate.chain_pem);
    directory.write("key.pem", certificate.key_pem);
    let printed = firstbyte(directory.path(), &["log-format", server]);
    assert_eq!((printed.code, printed.stderr.as_str()), (0, ""));
    let usual = match server {
        "apache" => "/var/log/apache2/firstbyte.log".to_owned(),
        server => format!("/var/log/{server}/firstbyte.log"),
    };
    assert!(printed.stdout.contains(&usual), "{}", printed.stdout);
    let log = directory.path().join("firstbyte.log").display().to_string();
    let printed = printed.stdout.replace(&usual, &log);
    (directory, printed)
}

/// The line shown in a comment of the configuration that begins with `begin`.
fn commented(printed: &str, begin: &str) -> String {
    let lines = printed.lines().map(|line| line.trim_start_matches(['#', ' ']));
    lines.into_iter().find(|line| line.starts_with(begin)).unwrap().to_owned()
}

/// The part of `explain`'s output about the server's log, after measuring.
fn explained(directory: &Directory, server: &Server) -> Value {
    let measured = firstbyte(
        directory.path(),
        &["explain", "-4", "-n", "5", "--cacert", "root.pem", "--run", "why.run", &server.url()],
    );
    assert_eq!(measured.code, 0, "{}", measured.stderr);
    let log = server.log.to_str().unwrap();
    let explained = firstbyte(
        directory.path(),
        &["explain", "--from", "why.run", "--server-log", log, "--json"],
    );
    assert_eq!((explained.code, explained.stderr.as_str()), (0, ""));
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    explained["server"][0].clone()
}

/// Asserts that all connections were found, the logged time is the application's, and both agree on sessions.
fn assert_reconciled(said: &Value, form: &str) {
    let log = &said["log"];
    assert_eq!((&said["witness"], &log["form"]), (&"server-log".into(), &form.into()));
    assert_eq!((&log["found"], &log["of"]), (&5.into(), &5.into()), "{said}");
    let logged = said["said_ns"].as_u64().unwrap();
    assert!((THINK_NS - 1_000_000..2 * THINK_NS).contains(&logged), "{said}");
    // A busy machine delays either.
    let difference = log["difference"]["ns"].as_f64().unwrap();
    assert!(difference.abs() < THINK_NS as f64 / 2.0, "{said}");
    assert!(log["clock_ahead_ns"].as_i64().unwrap().abs() < 100_000_000, "{said}");
    let resumed = &log["resumed"];
    assert!(resumed["logged_yes"].as_u64().unwrap() >= 5, "{said}");
    assert!(resumed["compared"].as_u64().unwrap() >= 15, "{said}");
    assert_eq!(resumed["compared"], resumed["agree"], "{said}");
    // On loopback the Finished may precede the request: then only we report early data, never only the server.
    let [compared, agree, early] =
        ["compared", "agree", "logged_yes"].map(|name| log["early_data"][name].as_u64().unwrap());
    assert!(early + (compared - agree) <= 5, "{said}");
}

/// Rows of the log; asserts that there is no query string, and a time for each.
fn rows(directory: &Directory, server: &Server) -> Vec<Value> {
    let text = fs::read_to_string(&server.log).unwrap();
    assert!(!text.contains("s3cret") && !text.contains("127.0.0.1"), "{text}");
    let outcome =
        firstbyte(directory.path(), &["report", server.log.to_str().unwrap(), "--json=rows.json"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80) && outcome.stdout.contains("localhost"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains(" lines"), "{}", outcome.stdout);
    let json = String::from_utf8(directory.read("rows.json")).unwrap();
    let rows: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), text.lines().count());
    for row in &rows {
        assert_eq!((&row["path"], &row["status"]), (&"/w".into(), &200.into()), "{row}");
        assert!(row["request_time_ns"].as_u64().unwrap() >= THINK_NS - 1_000_000, "{row}");
    }
    rows
}

#[test]
fn nginx_logs_what_our_samples_prove() {
    let (directory, printed) = prepared("nginx");
    let (application, port) = (application(), free_port());
    let set = commented(&printed, "set $firstbyte_early_data");
    let at = directory.path().display();
    directory.write(
        "nginx.conf",
        format!(
            "daemon off; master_process off; pid {at}/pid; error_log stderr warn;\n\
             events {{ worker_connections 512; }}\n\
             http {{\n{printed}\n  client_body_temp_path {at}/c; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f;\n\
             uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\n\
             server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {at}/chain.pem;\n\
             ssl_certificate_key {at}/key.pem; ssl_protocols TLSv1.2 TLSv1.3; ssl_early_data on;\n\
             ssl_session_cache shared:s:1m; {set}\n\
             location / {{ proxy_pass http://127.0.0.1:{}; }} }} }}\n",
            application.port()
        ),
    );
    let configuration = directory.path().join("nginx.conf").display().to_string();
    let prefix = directory.path().display().to_string();
    let server = Server::start(
        directory.path(),
        port,
        "nginx",
        &["-p", &prefix, "-c", &configuration, "-e", "stderr"],
    );
    let said = explained(&directory, &server);
    assert_reconciled(&said, "nginx");
    // The handshake is over before the request is logged, and nginx no longer knows that the request came early.
    let early = &said["log"]["early_data"];
    assert!(early["logged_yes"].as_u64().unwrap() >= 1, "{said}");
    let header = said["log"]["upstream_header_ns"].as_u64().unwrap();
    assert!(header >= THINK_NS - 1_000_000, "{said}");
    let rows = rows(&directory, &server);
    assert!(rows.iter().all(|row| row["rtt_ns"].as_u64().is_some_and(|rtt| rtt < 50_000_000)));
    let log = server.log.to_str().unwrap();
    let text = firstbyte(directory.path(), &["explain", "--from", "why.run", "--server-log", log]);
    assert!(
        text.stdout.contains("the access log (nginx, 5 of 5 requests found) says"),
        "{}",
        text.stdout
    );
    assert!(text.stdout.contains("logged as resumed: "), "{}", text.stdout);
}

#[test]
fn apache_logs_what_our_samples_prove() {
    let (directory, printed) = prepared("apache");
    let (application, port) = (application(), free_port());
    let at = directory.path().display();
    let modules = "/usr/lib/apache2/modules";
    let loaded: String = [
        ("mpm_event_module", "mod_mpm_event"),
        ("authz_core_module", "mod_authz_core"),
        ("socache_shmcb_module", "mod_socache_shmcb"),
        ("ssl_module", "mod_ssl"),
        ("http2_module", "mod_http2"),
        ("proxy_module", "mod_proxy"),
        ("proxy_http_module", "mod_proxy_http"),
    ]
    .iter()
    .map(|(name, file)| format!("LoadModule {name} {modules}/{file}.so\n"))
    .collect();
    let user = if nix::unistd::geteuid().is_root() { "User nobody\nGroup nogroup\n" } else { "" };
    directory.write(
        "apache.conf",
        format!(
            "ServerRoot {at}\nServerName localhost\nPidFile {at}/pid\nErrorLog /dev/stderr\nLogLevel error\n\
             Mutex file:{at} default\nDefaultRuntimeDir {at}\n{loaded}{user}StartServers 1\nListen 127.0.0.1:{port}\n\
             SSLSessionCache shmcb:{at}/cache(512000)\nProtocols h2 http/1.1\n\
             ProxyPass /w http://127.0.0.1:{}/w\n{printed}\n\
             <VirtualHost *:{port}>\nSSLEngine on\nSSLCertificateFile {at}/chain.pem\n\
             SSLCertificateKeyFile {at}/key.pem\n</VirtualHost>\n",
            application.port()
        ),
    );
    let configuration = directory.path().join("apache.conf").display().to_string();
    let server =
        Server::start(directory.path(), port, "apache2", &["-f", &configuration, "-DFOREGROUND"]);
    let said = explained(&directory, &server);
    assert_reconciled(&said, "apache");
    assert_eq!(said["log"]["to"], "first-byte");
    for row in rows(&directory, &server) {
        let (first, all) = (row["first_byte_ns"].as_u64(), row["request_time_ns"].as_u64());
        assert!(first.unwrap() >= THINK_NS && first <= all, "{row}");
    }
}

#[test]
fn caddy_logs_what_our_samples_prove() {
    let (directory, printed) = prepared("caddy");
    let (application, port) = (application(), free_port());
    let at = directory.path().display();
    let import = commented(&printed, "import");
    directory.write(
        "Caddyfile",
        format!(
            "{{\n admin off\n auto_https off\n storage file_system {at}\n}}\n{printed}\n\
             https://localhost:{port} {{\n tls {at}/chain.pem {at}/key.pem\n {import}\n\
             reverse_proxy 127.0.0.1:{}\n}}\n",
            application.port()
        ),
    );
    let configuration = directory.path().join("Caddyfile").display().to_string();
    let server = Server::start(
        directory.path(),
        port,
        "caddy",
        &["run", "--config", &configuration, "--adapter", "caddyfile"],
    );
    let said = explained(&directory, &server);
    assert_reconciled(&said, "caddy");
    // This server does not log early data.
    assert_eq!(said["log"]["early_data"]["compared"], 0);
    let protocols: Vec<Value> =
        rows(&directory, &server).iter().map(|row| row["protocol"].clone()).collect();
    assert!(protocols.contains(&"HTTP/2".into()), "{protocols:?}");
    // The server announces HTTP/3, so that is used as well.
    assert!(protocols.contains(&"HTTP/3".into()), "{protocols:?}");
}

const NGINX: &str = r#"{"firstbyte":"nginx 1","time":"1795443524.467","host":"a.test","protocol":"HTTP/2.0","method":"GET","path":"/","status":"200","client_port":"1","connection":"2","request":"1","tls":"TLSv1.3","resumed":"r","early_data":"","request_time":"0.025"}"#;
const COMBINED: &str = "192.0.2.1 - - [23/Nov/2026:14:19:20 +0000] \"GET /p?token=s3cret HTTP/1.1\" 404 170 \"-\" \"curl\"\n";

#[test]
fn logs_are_read_together_packed_cut_and_with_other_lines_in_them() {
    let directory = Directory::new();
    let half = &NGINX[..40];
    let packed = zstd::encode_all(format!("{NGINX}\n{NGINX}\n").as_bytes(), 1).unwrap();
    directory.write("old.zst", &packed);
    directory.write("new", format!("{NGINX}\noops\n{COMBINED}{half}"));
    let outcome = firstbyte(directory.path(), &["report", "old.zst", "new", "--csv=rows.csv"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    for said in [
        "4 requests to 1 host",
        "1 line, from line 2 on: not a line of a known access log",
        "1 line, from line 4 on: the file ends in the middle of the line",
        "not in the combined format",
        "200: 3 · 404: 1",
        "100.0 % of 3 TLS connections resumed",
    ] {
        assert!(outcome.stdout.contains(said), "{said}: {}", outcome.stdout);
    }
    let csv = String::from_utf8(directory.read("rows.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert!(!csv.contains("s3cret") && !csv.contains("192.0.2.1"), "{csv}");
    let by = firstbyte(directory.path(), &["report", "new", "--by", "status,path"]);
    assert!(by.stdout.contains("404 /p"), "{}", by.stdout);
    directory.write("cut.zst", &packed[..packed.len() - 6]);
    let cut = firstbyte(directory.path(), &["report", "new", "cut.zst"]);
    assert!(cut.code == 0 || cut.code == 2, "{cut:?}");
}

#[test]
fn what_cannot_be_done_says_what_to_do() {
    let directory = Directory::new();
    directory.write("log", format!("{NGINX}\n"));
    directory.write("a.csv", "DNS,Connect,SSL,Wait,TTFB,Total Time\n1,2,3,4,5,6\n");
    for (arguments, code, said) in [
        (
            &["report", "log", "a.csv"] as &[&str],
            2,
            "log is a server's log and a.csv is a table of curl's timers",
        ),
        (&["report", "log", "--html", "x"], 2, "--html: not possible for a server's log"),
        (
            &["report", "log", "--by", "edge"],
            2,
            "one or more of host, protocol, tls, session, status",
        ),
        (&["report", "log", "--csv=log"], 2, "is read and cannot be written as well"),
        (&["log-format", "iis"], 2, "[possible values: nginx, apache, caddy]"),
    ] {
        let outcome = firstbyte(directory.path(), arguments);
        assert!(
            outcome.code == code && outcome.stderr.contains(said),
            "{arguments:?}: {outcome:?}"
        );
        assert_eq!(outcome.stdout, "");
    }
}
