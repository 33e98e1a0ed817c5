//! Compares `firstbyte exporter` with Debian's blackbox_exporter: the same requests, the same metrics.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use flate2::write::GzEncoder;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use rustls::{ServerConnection, StreamOwned};

use crate::support::certificates::{TRUSTED, UNKNOWN, good, server};
use crate::support::dns::{Answer, DnsServer};
use crate::support::files::Directory;

mod additions;

const THEIRS: &str = "prometheus-blackbox-exporter";
/// A metric that only firstbyte has.
const FAILURE_INFO: &str = "firstbyte_probe_failure_info";

/// A process that is terminated when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // nginx's master terminates its workers.
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until somebody listens on the port; panics if the process has ended.
fn wait_for(port: u16, child: &mut Child, name: &str) {
    for _ in 0..500 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return;
        }
        if let Some(status) = child.try_wait().unwrap() {
            panic!("{name} ended: {status}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{name} does not listen");
}

fn get(port: u16, path: &str, fields: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
    exchange(&mut stream, &request)
}

fn exchange(stream: &mut TcpStream, request: &str) -> (u16, String, String) {
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body) } else { body.to_owned() };
    let kind = head.lines().find_map(|line| {
        line.strip_prefix("content-type: ").or(line.strip_prefix("Content-Type: "))
    });
    (status, kind.unwrap_or_default().to_owned(), body)
}

fn dechunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole += &rest[..size];
        text = rest[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    whole
}

/// Ports of the servers that are probed.
struct Servers {
    http: u16,
    https: u16,
    expired: u16,
    unknown: u16,
    v6: u16,
    smtp: u16,
    folded: u16,
    silent: u16,
    refused: u16,
    soa: u16,
    dns: DnsServer,
    nxdomain: DnsServer,
    _nginx: Running,
}

impl Servers {
    fn start(directory: &Directory) -> Self {
        let [http, https, expired, unknown, v6, refused] = [(); 6].map(|()| free_port());
        let identities = [
            ("good", good()),
            (
                "expired",
                TRUSTED.issue(&["a.test", "127.0.0.1"], |params| {
                    params.not_after = rcgen::date_time_ymd(2021, 1, 1);
                }),
            ),
            ("unknown", UNKNOWN.issue(&["a.test", "127.0.0.1"], |_| ())),
        ];
        for (name, identity) in &identities {
            directory.write(&format!("{name}.pem"), &identity.chain_pem);
            directory.write(&format!("{name}.key"), &identity.key_pem);
        }
        fs::create_dir(directory.path().join("www")).unwrap();
        directory.write("www/big", vec![b'x'; 100_000]);
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[b'y'; 5000]).unwrap();
        directory.write("www/packed", packed.finish().unwrap());
        directory.write("htpasswd", "me:{PLAIN}hunter2\n");
        let root = directory.path().display().to_string();
        let user = if geteuid().is_root() { "user root;" } else { "" };
        let tls = |port: u16, name: &str| {
            format!(
                "server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {root}/{name}.pem; \
                 ssl_certificate_key {root}/{name}.key; {PLACES} }}\n"
            )
        };
        const PLACES: &str = r#"
            absolute_redirect off; root www;
            location = / { add_header X-Test yes; add_header Set-Cookie "a=b; Secure"; return 200 'hello {"status": "ok"}\n'; }
            location /status/ { return 404 "nothing here\n"; }
            location = /empty { return 204; }
            location = /redirect { return 302 /; }
            location = /loop { return 302 /loop; }
            location = /moved { return 301 http://127.0.0.1:PORT/; }
            location = /auth { auth_basic x; auth_basic_user_file htpasswd; try_files /big =404; }
            location = /host { return 200 "$host $http_user_agent"; }
            location = /packed { add_header Content-Encoding gzip; }
            location = /method { if ($request_method = POST) { return 201; } return 405; }
        "#;
        let configuration = format!(
            "{user} daemon off; pid nginx.pid; error_log nginx.log;\nevents {{}}\nhttp {{ access_log off;\n\
             client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n\
             server {{ listen 127.0.0.1:{http}; {PLACES} }}\n\
             server {{ listen [::1]:{v6}; {PLACES} }}\n{}{}{} }}\n",
            tls(https, "good"),
            tls(expired, "expired"),
            tls(unknown, "unknown"),
        );
        let configuration = configuration
            .replace("PORT", &http.to_string())
            .replace("root www", &format!("root {root}/www"))
            .replace(
                "auth_basic_user_file htpasswd",
                &format!("auth_basic_user_file {root}/htpasswd"),
            );
        directory.write("nginx.conf", configuration);
        let nginx = Command::new("nginx")
            .args(["-p", &root, "-c", "nginx.conf", "-e", "nginx.log"])
            .spawn()
            .unwrap_or_else(|e| panic!("nginx: {e}: run scripts/setup"));
        let mut nginx = Running(nginx);
        wait_for(http, &mut nginx.0, "nginx");
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent_port = silent.local_addr().unwrap().port();
        thread::spawn(move || silent.incoming().collect::<Vec<_>>());
        Self {
            http,
            https,
            expired,
            unknown,
            v6,
            smtp: smtp(),
            folded: folded(),
            silent: silent_port,
            refused,
            soa: soa(),
            dns: DnsServer::start(Answer::Addresses(vec!["192.0.2.7".parse().unwrap()])),
            nxdomain: DnsServer::start(Answer::Code(3)),
            _nginx: nginx,
        }
    }
}

/// A mail server, up to STARTTLS.
fn smtp() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(server(&good(), &[]));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                // A client that disconnects early ends the dialogue.
                let _ = dialogue(stream.unwrap(), config);
            });
        }
    });
    port
}

fn dialogue(mut stream: TcpStream, config: Arc<rustls::ServerConfig>) -> std::io::Result<()> {
    stream.write_all(b"220 mail.test ESMTP here\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    stream.write_all(b"250-mail.test\r\n250 STARTTLS\r\n")?;
    line.clear();
    BufReader::new(stream.try_clone()?).read_line(&mut line)?;
    stream.write_all(b"220 go ahead\r\n")?;
    let session = ServerConnection::new(config).map_err(std::io::Error::other)?;
    let mut stream = StreamOwned::new(session, stream);
    stream.write_all(b"250 inside\r\n")?;
    stream.flush()?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).map(|_| ())
}

/// An HTTP/1.1 server that folds a field (obs-fold, RFC 9112 §5.2).
fn folded() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let response = "HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 5\r\n\r\nhello";
            let _ = stream.write_all(response.as_bytes());
        }
    });
    port
}

/// A DNS server that answers with an SOA record.
fn soa() -> u16 {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let mut answer = question[..length].to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend([0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 60, 0, 24, 0xc0, 12, 0xc0, 12]);
            for number in [2_026_112_301_u32, 1, 2, 3, 4] {
                answer.extend(number.to_be_bytes());
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    port
}

fn configuration(directory: &Directory) -> String {
    let ca = directory.path().join("ca.pem").display().to_string();
    let tls = format!("tls_config: {{ca_file: {ca}}}");
    format!(
        r#"modules:
  http_2xx: {{prober: http, timeout: 2s, http: {{{tls}}}}}
  soon: {{prober: http, timeout: 300ms}}
  http1: {{prober: http, http: {{enable_http2: false, {tls}}}}}
  only_http2: {{prober: http, http: {{valid_http_versions: ["HTTP/2.0"], {tls}}}}}
  insecure: {{prober: http, http: {{tls_config: {{insecure_skip_verify: true}}}}}}
  named: {{prober: http, http: {{tls_config: {{ca_file: {ca}, server_name: a.test}}}}}}
  misnamed: {{prober: http, http: {{tls_config: {{ca_file: {ca}, server_name: b.test}}}}}}
  stay: {{prober: http, http: {{follow_redirects: false, valid_status_codes: [302]}}}}
  not_found: {{prober: http, http: {{valid_status_codes: [404]}}}}
  matching: {{prober: http, http: {{fail_if_body_not_matches_regexp: ['{{"status":\s+"ok"}}']}}}}
  unmatching: {{prober: http, http: {{fail_if_body_matches_regexp: ["(?i)HELLO"]}}}}
  header: {{prober: http, http: {{fail_if_header_not_matches: [{{header: x-test, regexp: yes}}]}}}}
  no_header: {{prober: http, http: {{fail_if_header_matches: [{{header: X-None, regexp: a}}]}}}}
  no_cookie: {{prober: http, http: {{fail_if_header_matches: [{{header: Set-Cookie, regexp: Secure, allow_missing: true}}]}}}}
  small: {{prober: http, http: {{body_size_limit: 10KB}}}}
  small_match: {{prober: http, http: {{body_size_limit: 10KB, fail_if_body_matches_regexp: [zzz]}}}}
  auth: {{prober: http, http: {{basic_auth: {{username: me, password: hunter2}}}}}}
  gzip: {{prober: http, http: {{compression: gzip, headers: {{Accept-Encoding: gzip}}}}}}
  post: {{prober: http, http: {{method: POST, body: "a=b"}}}}
  head: {{prober: http, http: {{method: HEAD}}}}
  host: {{prober: http, http: {{headers: {{Host: b.example}}, fail_if_body_not_matches_regexp: ["^b.example Blackbox"]}}}}
  not_ssl: {{prober: http, http: {{fail_if_ssl: true, {tls}}}}}
  ssl: {{prober: http, http: {{fail_if_not_ssl: true}}}}
  ip4: {{prober: http, http: {{preferred_ip_protocol: ip4}}}}
  ip6_only: {{prober: http, http: {{preferred_ip_protocol: ip6, ip_protocol_fallback: false}}}}
  tcp: {{prober: tcp, timeout: 1s}}
  tcp_tls: {{prober: tcp, tcp: {{tls: true, {tls}}}}}
  tcp_tls_bad: {{prober: tcp, tcp: {{tls: true}}}}
  smtp:
    prober: tcp
    timeout: 2s
    tcp:
      query_response:
      - expect: "^220 ([^ ]+) ESMTP"
      - send: "EHLO ${{1}}\r"
      - expect: "^250 STARTTLS"
      - send: "STARTTLS\r"
      - expect: "^220"
      - starttls: true
      - expect: "^250 inside"
      {tls}
  banner: {{prober: tcp, timeout: 300ms, tcp: {{query_response: [{{expect: "^SSH-2.0-"}}]}}}}
  dns: {{prober: dns, timeout: 1s, dns: {{query_name: a.test, query_type: A}}}}
  dns_tcp: {{prober: dns, timeout: 1s, dns: {{query_name: a.test, query_type: A, transport_protocol: tcp}}}}
  dns_rules: {{prober: dns, timeout: 1s, dns: {{query_name: a.test, query_type: A, validate_answer_rrs: {{fail_if_not_matches_regexp: ['a.test.\t60\tIN\tA\t192\.0\.2\.7']}}}}}}
  dns_none: {{prober: dns, timeout: 1s, dns: {{query_name: a.test, query_type: A, validate_answer_rrs: {{fail_if_none_matches_regexp: ["10.0.0.1"]}}}}}}
  dns_soa: {{prober: dns, timeout: 1s, dns: {{query_name: a.test, query_type: SOA}}}}
  icmp: {{prober: icmp, timeout: 1s}}
  icmp_big: {{prober: icmp, timeout: 1s, icmp: {{payload_size: 1000, preferred_ip_protocol: ip4}}}}
  icmp_whole: {{prober: icmp, timeout: 1s, icmp: {{dont_fragment: true}}}}
  grpc: {{prober: grpc, timeout: 1s, grpc: {{}}}}
  grpc_tls: {{prober: grpc, timeout: 1s, grpc: {{tls: true, {tls}}}}}
"#
    )
}

/// Module and target of each case.
fn cases(at: &Servers) -> Vec<(&'static str, String)> {
    let http = format!("http://127.0.0.1:{}", at.http);
    let https = format!("https://127.0.0.1:{}", at.https);
    let local = |port: u16| format!("127.0.0.1:{port}");
    vec![
        ("http_2xx", http.clone()),
        ("http_2xx", local(at.http)),
        ("http_2xx", local(at.refused)),
        ("soon", local(at.silent)),
        ("http_2xx", https.clone()),
        ("http1", https.clone()),
        ("only_http2", https.clone()),
        ("only_http2", http.clone()),
        ("http_2xx", format!("https://127.0.0.1:{}", at.expired)),
        ("insecure", format!("https://127.0.0.1:{}", at.expired)),
        ("http_2xx", format!("https://127.0.0.1:{}", at.unknown)),
        ("named", https.clone()),
        ("misnamed", https.clone()),
        ("http_2xx", https.replace("https", "http")),
        ("http_2xx", format!("{http}/redirect")),
        ("http_2xx", format!("{https}/moved")),
        ("http_2xx", format!("{http}/loop")),
        ("stay", format!("{http}/redirect")),
        ("http_2xx", format!("{http}/status/404")),
        ("not_found", format!("{http}/status/404")),
        ("http_2xx", format!("{http}/empty")),
        ("http_2xx", format!("http://[::1]:{}", at.v6)),
        ("ip4", format!("http://localhost:{}", at.http)),
        ("ip6_only", http.clone()),
        ("http_2xx", "http://no-such-host.invalid/".into()),
        ("http_2xx", local(at.folded)),
        ("matching", http.clone()),
        ("matching", format!("{http}/big")),
        ("unmatching", http.clone()),
        ("header", http.clone()),
        ("header", format!("{http}/big")),
        ("no_header", http.clone()),
        ("no_cookie", http.clone()),
        ("no_cookie", format!("{http}/big")),
        ("http_2xx", format!("{http}/big")),
        ("small", format!("{http}/big")),
        ("small_match", format!("{http}/big")),
        ("auth", format!("{http}/auth")),
        ("http_2xx", format!("{http}/auth")),
        ("gzip", format!("{http}/packed")),
        ("gzip", format!("{http}/big")),
        ("post", format!("{http}/method")),
        ("head", format!("{http}/big")),
        ("host", format!("{http}/host")),
        ("not_ssl", https.clone()),
        ("ssl", http.clone()),
        ("tcp", local(at.http)),
        ("tcp", local(at.refused)),
        ("tcp", "no-port".into()),
        ("tcp_tls", local(at.https)),
        ("tcp_tls_bad", local(at.https)),
        ("smtp", local(at.smtp)),
        ("banner", local(at.smtp)),
        ("banner", local(at.silent)),
        ("dns", at.dns.address.to_string()),
        ("dns_tcp", at.dns.address.to_string()),
        ("dns", at.nxdomain.address.to_string()),
        ("dns", local(at.refused)),
        ("dns_rules", at.dns.address.to_string()),
        ("dns_none", at.dns.address.to_string()),
        ("dns_soa", local(at.soa)),
        ("icmp", "127.0.0.1".into()),
        ("icmp", "::1".into()),
        ("icmp_big", "localhost".into()),
        ("icmp_whole", "127.0.0.1".into()),
        ("grpc", local(at.refused)),
        ("grpc", local(at.http)),
        ("grpc_tls", local(at.https)),
        ("grpc_tls", local(at.unknown)),
        ("unknown_module", http),
    ]
}

/// The part of a scrape that must be equal: every line, without values that are times.
fn bounded(text: &str) -> BTreeMap<String, String> {
    let mut lines = BTreeMap::new();
    for line in text.lines().filter(|line| !line.contains(FAILURE_INFO)) {
        let (key, value) = match line.rsplit_once(' ') {
            Some((series, value)) if !line.starts_with('#') => (series, value),
            _ => (line, ""),
        };
        // Clients offer ciphers in different orders, and servers follow them.
        let key = if key.starts_with("probe_tls_cipher_info{") { "a cipher" } else { key };
        let is_time = key.contains("duration_seconds") || key.contains("lookup_time_seconds");
        let value = if is_time { "a time" } else { value };
        lines.insert(key.to_owned(), value.to_owned());
    }
    lines
}

fn difference(theirs: &str, ours: &str) -> Vec<String> {
    let (theirs, ours) = (bounded(theirs), bounded(ours));
    let only = |a: &BTreeMap<String, String>, b: &BTreeMap<String, String>, who: &str| {
        let lines = a.iter().filter(|(key, value)| b.get(*key) != Some(value));
        lines.map(|(key, value)| format!("  {who}: {key} {value}")).collect::<Vec<_>>()
    };
    [only(&theirs, &ours, "theirs"), only(&ours, &theirs, "ours")].concat()
}

fn theirs(program: &str, directory: &Directory) -> (Running, u16) {
    let port = free_port();
    let child = Command::new(program)
        .arg(format!("--config.file={}", directory.path().join("blackbox.yml").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{program}: {e}: run scripts/setup"));
    let mut running = Running(child);
    wait_for(port, &mut running.0, program);
    (running, port)
}

/// Our exporter, and a reader for its output.
fn ours(directory: &Directory, version: &str) -> (Running, u16, impl BufRead + use<>) {
    ours_with(directory, &["--compat.version", version])
}

fn ours_with(directory: &Directory, flags: &[&str]) -> (Running, u16, impl BufRead + use<>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
        .args(["exporter", "--config.file", "blackbox.yml"])
        .args(["--web.listen-address", "127.0.0.1:0"])
        .args(flags)
        .current_dir(directory.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
    let port = port.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    (Running(child), port, said)
}

fn query(module: &str, target: &str) -> String {
    let pairs = [("module", module), ("target", target)];
    let query: String =
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    format!("/probe?{query}")
}

#[test]
fn metrics_are_those_of_debians() {
    metrics_are_those_of(THEIRS, "0.23");
}

#[test]
#[ignore = "needs blackbox_exporter 0.28, where FIRSTBYTE_BLACKBOX says: see CONTRIBUTING.md"]
fn metrics_are_those_of_0_28() {
    let program = std::env::var("FIRSTBYTE_BLACKBOX")
        .expect("FIRSTBYTE_BLACKBOX names blackbox_exporter 0.28");
    metrics_are_those_of(&program, "0.28");
}

fn metrics_are_those_of(program: &str, version: &str) {
    let directory = Directory::new();
    directory.write("blackbox.yml", configuration(&directory));
    let servers = Servers::start(&directory);
    let (_theirs, their_port) = theirs(program, &directory);
    let (_ours, our_port, _said) = ours(&directory, version);
    let mut differences = Vec::new();
    let cases = cases(&servers);
    assert!(cases.len() >= 30);
    let mut successes = 0;
    for (module, target) in &cases {
        let path = query(module, target);
        let (theirs, ours) = (get(their_port, &path, ""), get(our_port, &path, ""));
        successes += usize::from(theirs.2.contains("\nprobe_success 1"));
        let mut found = difference(&theirs.2, &ours.2);
        if (*module, target.ends_with("/big")) == ("gzip", true) {
            // Their exporter does not count bytes that its decoder had read ahead before it failed.
            found.retain(|line| !line.contains("probe_http_uncompressed_body_length "));
        }
        if (*module, version) == ("host", "0.28") {
            // The body is the client's name, and theirs has no version if it was built with `go install`.
            found.retain(|line| !line.contains("_length "));
        }
        if (theirs.0, &theirs.1) != (ours.0, &ours.1) {
            found.push(format!("  theirs {} {}, ours {} {}", theirs.0, theirs.1, ours.0, ours.1));
        }
        if !found.is_empty() {
            let log = get(our_port, &format!("{path}&debug=true"), "").2;
            let log: Vec<&str> = log.lines().take_while(|line| !line.is_empty()).collect();
            differences.push(format!(
                "{module} {target}\n{}\n{}",
                found.join("\n"),
                log.join("\n")
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(
        (20..cases.len() - 20).contains(&successes),
        "{successes} good ones of {}",
        cases.len()
    );
}

#[test]
fn pages_and_refusals_are_those_of_debians() {
    let directory = Directory::new();
    directory.write(
        "blackbox.yml",
        "modules:\n  a: {prober: http, http: {headers: {Host: x}}}\n  b: {prober: nothing}\n",
    );
    let (_theirs, their_port) = theirs(THEIRS, &directory);
    let (_ours, our_port, _said) = ours(&directory, "0.23");
    for (path, fields) in [
        ("/probe", ""),
        ("/probe?module=a", ""),
        ("/probe?module=b&target=x", ""),
        ("/probe?module=%22&target=x", ""),
        ("/probe?module=a&target=x&hostname=y", ""),
        ("/probe?module=a&target=x", "X-Prometheus-Scrape-Timeout-Seconds: soon\r\n"),
        ("/-/healthy", ""),
        ("/-/reload", ""),
        ("/logs?id=77", ""),
    ] {
        assert_eq!(get(our_port, path, fields), get(their_port, path, fields), "{path}");
    }
    // Their configuration is indented by four spaces, ours by two.
    let plain = |text: String| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    assert_eq!(plain(get(our_port, "/config", "").2), plain(get(their_port, "/config", "").2));
    let own = |port| bounded(&get(port, "/metrics", "").2);
    let (theirs, ours) = (own(their_port), own(our_port));
    for (line, value) in &ours {
        let is_own = line.contains("build_info{") || line.contains("_timestamp_seconds");
        let known = theirs.get(line);
        assert!(if is_own { true } else { known == Some(value) }, "{line} {value}: {known:?}");
    }
}

#[test]
fn modules_of_other_probers_load_and_are_refused_by_name() {
    let directory = Directory::new();
    directory.write(
        "blackbox.yml",
        "modules:\n  u: {prober: unix, unix: {tls: false}}\n  w: {prober: websocket}\n",
    );
    let (_ours, port, _said) = ours(&directory, "0.28");
    for (module, prober) in [("u", "unix"), ("w", "websocket")] {
        let (status, _, body) = get(port, &query(module, "/run/x"), "");
        assert_eq!((status, body), (400, format!("Unknown prober \"{prober}\"\n")));
    }
}

#[test]
fn a_bad_configuration_keeps_the_good_one() {
    let directory = Directory::new();
    let good = "modules:\n  one: {prober: tcp, timeout: 1s}\n";
    directory.write("blackbox.yml", good);
    let (running, port, mut said) = ours(&directory, "0.28");
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let reload = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        exchange(
            &mut stream,
            "POST /-/reload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        )
    };
    let succeeded = || {
        let metrics = get(port, "/metrics", "").2;
        metrics.contains("\nblackbox_exporter_config_last_reload_successful 1\n")
    };
    let path = query("one", &format!("127.0.0.1:{port}"));
    assert!(succeeded() && get(port, &path, "").2.contains("\nprobe_success 1\n"));
    directory.write("blackbox.yml", "modules:\n  one:\n    probe: tcp\n");
    let (status, _, body) = reload();
    assert_eq!(status, 500);
    assert!(
        body.contains("line 3: modules.one: unknown key \"probe\"; did you mean prober?"),
        "{body}"
    );
    assert!(!succeeded() && get(port, &path, "").2.contains("\nprobe_success 1\n"));
    kill(Pid::from_raw(running.0.id() as i32), Signal::SIGHUP).unwrap();
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(
        line.contains("the old configuration stays in use") && line.contains("line 3"),
        "{line}"
    );
    directory.write("blackbox.yml", good.replace("one", "two"));
    kill(Pid::from_raw(running.0.id() as i32), Signal::SIGHUP).unwrap();
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("reloaded the configuration: 1 module"), "{line}");
    assert!(succeeded());
    assert_eq!(get(port, &path, "").2, "Unknown module \"one\"\n");
}

#[test]
fn secrets_are_on_no_page() {
    let directory = Directory::new();
    let ca = "modules:\n  http_2xx:\n    prober: http\n    http: {basic_auth: {username: me, password: hunter2}, \
              body: \"pin=1234\", headers: {Authorization: of-mine}}\n";
    directory.write("blackbox.yml", ca);
    let (_ours, port, _said) = ours(&directory, "0.28");
    let target = format!("http://me:swordfish@127.0.0.1:{port}/?token=sesame");
    let debug = get(port, &format!("{}&debug=true", query("http_2xx", &target)), "").2;
    assert!(debug.contains("\nprobe_success 1\n") && debug.contains("<secret>"), "{debug}");
    let pages = ["/", "/config", "/logs?id=0", "/metrics"].map(|path| get(port, path, "").2);
    for secret in ["hunter2", "1234", "of-mine", "swordfish", "sesame"] {
        assert!(!debug.contains(secret), "{secret} in {debug}");
        for page in &pages {
            assert!(!page.contains(secret), "{secret} in {page}");
        }
    }
}
