//! Lines of real servers (nginx 1.22.1, Apache 2.4.71, Caddy 2.6.2), and malformed ones.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const NGINX: &str = r#"{"firstbyte":"nginx 1","time":"1795443524.467","host":"Localhost","port":"18443","protocol":"HTTP/2.0","method":"GET","path":"/p/a%20b%22%e9","status":"200","bytes":"159","client_port":"59622","connection":"2","request":"1","tls":"TLSv1.3","resumed":"r","early_data":"01","request_time":"0.025","upstream_connect_time":"0.000","upstream_header_time":"0.024","upstream_response_time":"0.024","rtt":"42"}"#;
const APACHE: &str = r#"{"firstbyte":"apache 1","time":"1795443560967187","host":"localhost","port":"18453","protocol":"HTTP/2.0","method":"GET","path":"/p/a b\"\xe9\n","status":"200","bytes":"170","client_port":"42002","request":"0","tls":"TLSv1.3","resumed":"Initial","request_time":"22538","first_byte_time":"22248"}"#;
const CADDY: &str = r#"{"level":"info","ts":1795443561.333542,"logger":"http.log.access.log1","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"44278","proto":"HTTP/2.0","method":"GET","host":"localhost:18464","uri":"/?secret=1","headers":{"User-Agent":["curl/7.88.1"],"Cookie":[]},"tls":{"resumed":false,"version":772,"cipher_suite":4865,"proto":"h2","server_name":"localhost"}},"user_id":"","duration":0.000098437,"size":3,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
const COMBINED: &str = r#"127.0.0.1 - - [23/Nov/2026:14:19:20 +0000] "GET /p/a%20b%22%e9%0a?x=1 HTTP/2.0" 200 170 "-" "curl/7.88.1""#;

/// Reads a log in pieces of `step` bytes.
fn read(log: &[u8], step: usize) -> Vec<(u64, Result<LoggedRequest, LogLineError>)> {
    let mut lines = Vec::new();
    let mut reader = ServerLogReader::default();
    for piece in log.chunks(step.max(1)) {
        reader.feed(piece, |number, line| lines.push((number, line)));
    }
    reader.finish(|number, line| lines.push((number, line)));
    lines
}

fn one(line: &str) -> LoggedRequest {
    let mut lines = read(format!("{line}\n").as_bytes(), usize::MAX);
    assert_eq!(lines.len(), 1);
    lines.remove(0).1.unwrap_or_else(|error| panic!("{error}: {line}"))
}

fn error(line: &str) -> LogLineError {
    let lines = read(format!("{line}\n").as_bytes(), usize::MAX);
    lines[0].1.clone().unwrap_err()
}

fn ms(value: u64, step: u64) -> Option<LoggedTime> {
    let [value, step] = [value, step].map(Duration::from_millis);
    Some(LoggedTime { value, step })
}

#[test]
fn nginx_says_all_that_it_was_asked() {
    let request = one(NGINX);
    assert_eq!(
        request,
        LoggedRequest {
            form: LogForm::Nginx,
            logged: Some(Duration::from_millis(1_795_443_524_467)),
            host: Some("localhost".into()),
            port: Some(18_443),
            protocol: Some("HTTP/2"),
            method: Some("GET".into()),
            path: Some("/p/a%20b%22%e9".into()),
            status: Some(200),
            bytes: Some(159),
            client_port: Some(59_622),
            connection: Some(2),
            number: Some(1),
            tls: Some("TLSv1.3".into()),
            resumed: Some(true),
            early_data: Some(true),
            request_time: ms(25, 1),
            first_byte: None,
            upstream_connect: ms(0, 1),
            upstream_header: ms(24, 1),
            upstream_response: ms(24, 1),
            rtt: Some(Duration::from_micros(42)),
        }
    );
    assert_eq!(request.request_time.unwrap().at_least(), Duration::from_millis(24));
    assert_eq!(request.request_time.unwrap().at_most(), Duration::from_millis(26));
}

#[test]
fn what_nginx_does_not_say_is_absent() {
    let full = one(&NGINX.replace("\"r\"", "\".\"").replace("\"01\"", "\"0\""));
    assert_eq!((full.resumed, full.early_data), (Some(false), Some(false)));
    assert_eq!(one(&NGINX.replace("\"01\"", "\"\"")).early_data, None);
    let plain = one(&NGINX.replace("TLSv1.3", "").replace("\"r\"", "\"\""));
    assert_eq!((plain.tls, plain.resumed, plain.early_data), (None, None, None));
    let header = |times: &str| {
        one(&NGINX.replace("\"0.024\",\"rtt\"", &format!("\"{times}\",\"rtt\""))).upstream_response
    };
    // Two upstreams were tried, then nginx redirected the request internally.
    assert_eq!(header("0.010, 0.020 : 0.003"), ms(33, 3));
    for unknown in ["", "-", "0.010, -", "x"] {
        assert_eq!(header(unknown), None, "{unknown}");
    }
}

#[test]
fn apache_says_what_it_has_and_its_bytes_are_read() {
    let request = one(APACHE);
    let us =
        |us| Some(LoggedTime { value: Duration::from_micros(us), step: Duration::from_micros(1) });
    assert_eq!(request.path.as_deref(), Some("/p/a b\"\u{e9}\n"));
    assert_eq!((request.request_time, request.first_byte), (us(22_538), us(22_248)));
    assert_eq!(request.logged, Some(Duration::from_micros(1_795_443_560_967_187)));
    assert_eq!((request.resumed, request.early_data, request.rtt), (Some(false), None, None));
    // Over HTTP/2 Apache does not count the requests of a connection.
    assert_eq!(request.number, None);
    let second = one(&APACHE
        .replace("HTTP/2.0", "HTTP/1.1")
        .replace("\"request\":\"0\"", "\"request\":\"1\""));
    assert_eq!((second.number, second.protocol), (Some(2), Some("HTTP/1.1")));
    let none = one(&APACHE.replace("22248", "-"));
    assert_eq!(none.first_byte, None);
}

#[test]
fn caddy_is_read_as_it_writes_by_itself() {
    let request = one(CADDY);
    assert_eq!((request.host.as_deref(), request.port), (Some("localhost"), Some(18_464)));
    assert_eq!((request.path.as_deref(), request.client_port), (Some("/"), Some(44_278)));
    assert_eq!(
        (request.tls.as_deref(), request.resumed, request.early_data),
        (Some("TLSv1.3"), Some(false), None)
    );
    assert_eq!(request.request_time.unwrap().value, Duration::from_nanos(98_437));
    let quic = one(&CADDY.replace("772", "0"));
    assert_eq!((quic.tls, quic.resumed), (None, None));
    let old = one(&CADDY.replace(
        "\"remote_ip\":\"127.0.0.1\",\"remote_port\":\"44278\"",
        "\"remote_addr\":\"[::1]:44278\"",
    ));
    assert_eq!(old.client_port, Some(44_278));
    assert_eq!(error(&CADDY.replace("handled request", "oops")), LogLineError::NotALog);
}

#[test]
fn combined_lines_say_no_times() {
    let request = one(COMBINED);
    assert_eq!(request.logged, Some(Duration::from_secs(1_795_443_560)));
    assert_eq!(
        (request.path.as_deref(), request.status, request.bytes),
        (Some("/p/a%20b%22%e9%0a"), Some(200), Some(170))
    );
    assert_eq!((request.request_time, request.client_port, request.host), (None, None, None));
    let zone = one(&COMBINED.replace("14:19:20 +0000", "16:49:20 +0230"));
    assert_eq!(zone.logged, request.logged);
    let leap = one(&COMBINED.replace("23/Nov/2026:14:19:20", "29/Feb/2024:00:00:00"));
    assert_eq!(leap.logged, Some(Duration::from_secs(1_709_164_800)));
    let host = one(&format!("www.example.com:443 {COMBINED}"));
    assert_eq!((host.host.as_deref(), host.port), (Some("www.example.com"), Some(443)));
    let scanned =
        one(r#"192.0.2.1 - - [23/Nov/2026:14:19:20 +0000] "\x16\x03\"\x01 x" 400 - "-" "-""#);
    assert_eq!((scanned.method, scanned.path, scanned.status), (None, None, Some(400)));
}

#[test]
fn foreign_cut_and_long_lines_are_named_with_their_numbers() {
    let long = "x".repeat(300_000);
    let later = NGINX.replace("nginx 1", "nginx 9");
    let half = &NGINX[..100];
    let log = format!("{NGINX}\n\nhello\n{half}\n{later}\n{long}\n{{}}\n{CADDY}\n{half}");
    let whole = read(log.as_bytes(), usize::MAX);
    let named: Vec<(u64, Option<LogLineError>)> =
        whole.iter().map(|(number, line)| (*number, line.clone().err())).collect();
    assert_eq!(
        named,
        [
            (1, None),
            (3, Some(LogLineError::NotALog)),
            (4, Some(LogLineError::NotJson)),
            (5, Some(LogLineError::Version("nginx 9".into()))),
            (6, Some(LogLineError::TooLong)),
            (7, Some(LogLineError::NotALog)),
            (8, None),
            (9, Some(LogLineError::Cut)),
        ]
    );
    for step in [1, 7, 4096] {
        assert_eq!(read(log.as_bytes(), step), whole, "{step}");
    }
    // A complete JSON line without a line ending counts; "200 17" at the end of another line may have been cut from
    // "200 170".
    assert!(read(NGINX.as_bytes(), 10)[0].1.is_ok());
    assert_eq!(read(COMBINED.as_bytes(), 10)[0].1, Err(LogLineError::Cut));
}

#[test]
fn a_log_is_known_by_one_of_its_first_lines() {
    for line in [NGINX, APACHE, CADDY, COMBINED] {
        assert!(begins_server_log(format!("{line}\n").as_bytes()), "{line}");
        assert!(begins_server_log(format!("torn\n{line}\nmore").as_bytes()), "{line}");
        assert!(!begins_server_log(line.as_bytes()), "{line}");
    }
    for other in ["", "DNS,Connect\n1,2\n", "{\"format\":\"firstbyte/run\"}\n", "{\"log\":{}}\n"] {
        assert!(!begins_server_log(other.as_bytes()), "{other}");
    }
}

#[test]
fn every_configuration_names_its_format_and_hides_the_client() {
    for (server, marker) in [
        (ServerKind::Nginx, "nginx 1"),
        (ServerKind::Apache, "apache 1"),
        (ServerKind::Caddy, "request>remote_ip delete"),
    ] {
        let text = configuration(server);
        assert!(text.contains(marker), "{text}");
        for hidden in ["$remote_addr", "$args", "$query_string", "$http_", "%h", "%a ", "%q", "%r"]
        {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
    }
}

#[test]
fn groups_and_paths_are_bounded_and_nothing_is_lost() {
    let mut summary = ServerLogSummary::telling_apart(LogDimension::USUAL.to_vec());
    let base = one(NGINX);
    for n in 0..10_000_u64 {
        let mut request = base.clone();
        request.host = Some(format!("h{}.test", n % 1_000));
        request.path = Some(format!("/{n}"));
        request.request_time = ms(n % 5_000, 1);
        request.early_data = Some(n % 4 == 0);
        request.number = Some(1 + n % 2);
        summary.add(&request);
    }
    let groups = summary.groups();
    assert!(groups.len() <= 257, "{}", groups.len());
    assert_eq!(groups.iter().map(|(_, group)| group.requests).sum::<u64>(), 10_000);
    // The group for the rest is the largest, but still comes last.
    assert_eq!(groups.last().unwrap().0, ["(others)"; 4]);
    assert_eq!(summary.hosts(), (1_000, false));
    let paths = summary.paths();
    assert!(paths.len() <= 4_096 && summary.paths_left_out());
    assert_eq!(paths[0].1.request_time.ends().unwrap().1, Duration::from_millis(4_999));
    assert_eq!(summary.early_data(), LogShare { of: 10_000, yes: 2_500 });
    assert_eq!(summary.resumed_connections(), LogShare { of: 5_000, yes: 5_000 });
    assert_eq!(summary.all().request_time.count(), 10_000);
    assert_eq!(summary.coarsest_step(), Some(Duration::from_millis(1)));
}

proptest! {
    #[test]
    fn pieces_change_nothing(
        picked in prop::collection::vec(0_usize..7, 0..12),
        step in 1_usize..80,
        cut in 0_usize..3_000,
    ) {
        let lines = [NGINX, APACHE, CADDY, COMBINED, "", "\u{e9}{\"", "{\"firstbyte\":1}"];
        let log: String = picked.iter().map(|index| format!("{}\r\n", lines[*index])).collect();
        let log = &log.as_bytes()[..cut.min(log.len())];
        prop_assert_eq!(read(log, step), read(log, usize::MAX));
    }

    #[test]
    fn no_bytes_are_too_much(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&bytes, 50);
        for line in [NGINX, APACHE, CADDY, COMBINED] {
            let mut damaged = line.as_bytes().to_vec();
            for (place, byte) in bytes.iter().enumerate() {
                let at = (place * 97 + usize::from(*byte)) % damaged.len();
                damaged[at] = *byte;
            }
            read(&damaged, 50);
        }
    }
}
