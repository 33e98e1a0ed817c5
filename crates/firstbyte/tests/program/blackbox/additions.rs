//! Configurations that the exporter accepts, compared with Debian's blackbox_exporter; its failure reasons and logs.

use std::fs;
use std::io::BufRead;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{FAILURE_INFO, Servers, THEIRS, configuration, free_port, get, ours, ours_with, query};
use crate::support::files::Directory;
use crate::support::run::firstbyte;

/// Upstream's example configuration, as in Debian's package.
const THEIR_EXAMPLE: &str = "/usr/share/doc/prometheus-blackbox-exporter/examples/example.yml";

/// Whether `program` accepts the configuration, and its output.
fn check(program: &str, arguments: &[&str], directory: &Directory) -> (bool, String) {
    let output = Command::new(program)
        .args(arguments)
        .args(["--config.check", "--config.file=blackbox.yml"])
        .current_dir(directory.path())
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}: run scripts/setup"));
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

fn check_ours(directory: &Directory) -> (bool, String) {
    check(env!("CARGO_BIN_EXE_firstbyte"), &["exporter"], directory)
}

#[test]
fn scalars_are_taken_and_refused_as_by_debians() {
    let directory = Directory::new();
    for (module, good) in [
        ("icmp: {ttl: 0310}", true),
        ("icmp: {ttl: 0o377}", true),
        // 0400 is 256, and 0x101 is 257.
        ("icmp: {ttl: 0400}", false),
        ("icmp: {ttl: 0x101}", false),
        ("icmp: {ttl: 0xff}", true),
        ("icmp: {ttl: 0b1111_1111}", true),
        ("icmp: {ttl: 08}", true),
        ("icmp: {ttl: 2.5}", true),
        ("icmp: {ttl: \"64\"}", false),
        ("icmp: {ttl: !!int \"64\"}", true),
        ("icmp: {ttl: 0o8}", false),
        ("icmp: {ttl: sixty}", false),
        ("icmp: {dont_fragment: \"yes\"}", true),
        ("icmp: {dont_fragment: \"true\"}", false),
        ("icmp: {dont_fragment: tRUE}", false),
        ("timeout: 5", false),
        ("timeout: 0", false),
        ("timeout: \"0\"", true),
        ("timeout: !!binary NXM=", true),
        ("tcp: {query_response: [{send: !!binary AAAACATSFi8=}]}", true),
        ("tcp: {query_response: [{send: !!binary AAAACATSFi8}]}", false),
        ("tcp: {query_response: [{expect: !!binary Kys=}]}", false),
        ("!!binary dGNw: {tls: true}", true),
        ("http: {proxy_url: \"\"}", true),
        ("http: {proxy_url: \"http://127.0.0.1:3128\"}", true),
        ("http: {oauth2: {client_id: a, client_secret: b, token_url: \"http://x/\"}}", true),
        ("http: {tls_config: {max_version: TLS11}}", true),
        ("http: {valid_status_code: [200]}", false),
    ] {
        directory.write("blackbox.yml", format!("modules:\n  a:\n    {module}\n"));
        let (ours, said) = check_ours(&directory);
        assert_eq!(ours, good, "{module}: {said}");
        let (theirs, said) = check(THEIRS, &[], &directory);
        assert_eq!(theirs, good, "{module}: {said}");
    }
}

#[test]
fn their_example_loads_and_refuses_what_is_not_supported() {
    let directory = Directory::new();
    let example = fs::read_to_string(THEIR_EXAMPLE).unwrap_or_else(|e| {
        panic!("{THEIR_EXAMPLE}: {e}: install prometheus-blackbox-exporter with its documents")
    });
    let cel = "  cel:\n    http:\n      fail_if_body_json_matches_cel: 'body.a == 1'\n";
    directory.write("blackbox.yml", format!("{}\n{cel}", example.trim_end()));
    let line = |key: &str| 1 + example.lines().position(|line| line.contains(key)).unwrap();
    let proxy =
        format!("line {}: modules.http_with_proxy.http.proxy_url is not", line("proxy_url"));
    let cel = format!(
        "line {}: modules.cel.http.fail_if_body_json_matches_cel is not supported",
        example.trim_end().lines().count() + 3
    );
    let (good, said) = check_ours(&directory);
    assert!(good && said.contains(", 2 of them refused\n"), "{said}");
    for mistake in [&proxy, &cel] {
        assert_eq!(said.matches(mistake.as_str()).count(), 1, "{mistake}: {said}");
    }
    let (running, port, mut said) = ours(&directory, "0.28");
    let (status, _, body) = get(port, &query("http_with_proxy", "a.test"), "");
    assert_eq!(status, 400);
    let words = "Module \"http_with_proxy\" cannot be served: ";
    assert!(body.starts_with(&format!("{words}{proxy}")), "{body}");
    let debug = get(port, &query("tcp_connect_example", &format!("127.0.0.1:{port}")), "").2;
    assert!(debug.contains("\nprobe_success 1\n"), "{debug}");
    let config = get(port, "/config", "").2;
    assert!(config.contains("  # http_with_proxy is refused: line "), "{config}");
    assert!(get(port, "/metrics", "").2.contains("\nblackbox_module_unknown_total 0\n"));
    // The refused module is named once at the start, and once after a reload.
    let mut named = |after: &str| {
        let mut text = String::new();
        while !text.contains(after) {
            assert!(said.read_line(&mut text).unwrap() > 0, "{text}");
        }
        text.matches(proxy.as_str()).count()
    };
    assert_eq!(named("stop it with Ctrl-C"), 1);
    kill(Pid::from_raw(running.0.id() as i32), Signal::SIGHUP).unwrap();
    assert_eq!(named("modules.http_with_proxy.http"), 1);
}

#[test]
fn failures_have_a_reason() {
    let directory = Directory::new();
    directory.write("blackbox.yml", configuration(&directory));
    let servers = Servers::start(&directory);
    let (_ours, port, _said) = ours(&directory, "0.28");
    let local = |port: u16| format!("127.0.0.1:{port}");
    let https = |port: u16| format!("https://127.0.0.1:{port}");
    let page = |path: &str| format!("http://127.0.0.1:{}{path}", servers.http);
    for (module, target, phase, reason) in [
        ("http_2xx", https(servers.expired), "tls", "tls.cert.date_invalid"),
        ("http_2xx", https(servers.unknown), "tls", "tls.cert.authority_invalid"),
        ("misnamed", https(servers.https), "tls", "tls.cert.name_invalid"),
        ("tcp_tls", local(servers.expired), "tls", "tls.cert.date_invalid"),
        ("tcp_tls_bad", local(servers.https), "tls", "tls.cert.authority_invalid"),
        ("soon", local(servers.silent), "wait", "http.timed_out"),
        ("http_2xx", local(servers.refused), "connect", "tcp.refused"),
        ("http_2xx", page("/loop"), "check", "http.response.redirect_loop"),
        ("http_2xx", page("/status/404"), "check", "http.error"),
        ("unmatching", local(servers.http), "check", "check.failed"),
        ("banner", local(servers.silent), "receive", "tcp.timed_out"),
        ("dns", local(servers.refused), "wait", "dns.unreachable"),
        ("dns", servers.nxdomain.address.to_string(), "check", "check.failed"),
        ("grpc", local(servers.refused), "connect", "tcp.refused"),
    ] {
        let text = get(port, &query(module, &target), "").2;
        let series = format!("\n{FAILURE_INFO}{{phase=\"{phase}\",reason=\"{reason}\"}} 1\n");
        assert!(text.contains(&series), "{module} {target}: expected {series}{text}");
        assert_eq!(text.matches(FAILURE_INFO).count(), 3, "{module} {target}: {text}");
    }
    let good = get(port, &query("http_2xx", &local(servers.http)), "").2;
    assert!(good.contains("\nprobe_success 1\n") && !good.contains(FAILURE_INFO), "{good}");
}

#[test]
fn logs_are_written_as_the_flags_say() {
    let directory = Directory::new();
    directory.write("blackbox.yml", "modules:\n  tcp: {prober: tcp, timeout: 1s}\n");
    let closed = format!("127.0.0.1:{}", free_port());
    let json = ["--log.format", "json", "--log.prober", "debug"];
    let (_running, port, mut said) = ours_with(&directory, &json);
    get(port, &query("tcp", &closed), "");
    let mut lines = Vec::new();
    while lines.last().is_none_or(|line: &serde_json::Value| line["msg"] != "Probe failed") {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "{lines:?}");
        lines.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")));
    }
    let has = |name: &str, value: &str| lines.iter().any(|line| line[name] == value);
    assert!(has("level", "info") && has("level", "debug") && has("target", &closed), "{lines:?}");
    assert!(get(port, "/logs?id=0", "").2.contains("\"msg\":\"Beginning probe\""));
    // The check of a configuration respects the log level: a good one prints nothing.
    let outcome = firstbyte(
        directory.path(),
        &["exporter", "--config.file", "blackbox.yml", "--config.check", "--log.level", "warn"],
    );
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
}
