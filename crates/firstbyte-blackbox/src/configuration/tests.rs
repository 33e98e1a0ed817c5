use super::*;

const ALL: &str = r#"
modules:
  http_2xx:
    prober: http
    timeout: 5s
    http:
      valid_status_codes: [200, 204]
      fail_if_body_not_matches_regexp: ['{"ok":\s*true}']
      fail_if_header_matches:
        - {header: Set-Cookie, regexp: "Secure", allow_missing: true}
      basic_auth: {username: me, password: hunter2}
      headers: {Authorization: token-of-mine, Accept-Language: en-US}
      body_size_limit: 10MB
      tls_config: {insecure_skip_verify: true, min_version: TLS12}
  smtp: &smtp
    prober: tcp
    tcp:
      query_response:
      - expect: "^220 ([^ ]+) ESMTP"
      - send: "EHLO prober\r"
        starttls: yes
  smtp_too:
    <<: *smtp
    timeout: 1m30s
  dns: {prober: dns, dns: {query_name: example.com, query_type: SOA}}
  ping: {prober: icmp}
  health: {prober: grpc, grpc: {service: s, tls: false}}
  socket: {prober: unix, unix: {query_response: [{send: x}]}}
  web: {prober: websocket, websocket: {anything: true}}
"#;

#[test]
fn a_configuration_is_read_and_shown_without_its_secrets() {
    let read = Configuration::parse(ALL).unwrap();
    assert_eq!(read.modules.len(), 8);
    let module = &read.modules["smtp_too"];
    assert_eq!((module.timeout_ns, module.tcp.query_response.len()), (90_000_000_000, 2));
    assert!(module.tcp.query_response[1].starttls);
    assert_eq!(module.tcp.query_response[1].send, "EHLO prober\r");
    assert_eq!(read.modules["http_2xx"].http.body_size_limit, 10 << 20);
    let shown = read.shown();
    for secret in ["hunter2", "token-of-mine"] {
        assert!(!shown.contains(secret) && !format!("{read:?}").contains(secret), "{shown}");
    }
    assert!(shown.contains("password: <secret>") && shown.contains("timeout: 1m30s"), "{shown}");
}

#[test]
fn mistakes_have_a_line_and_words() {
    for (text, line, words) in [
        (
            "modules:\n  a:\n    prober: http\n    http:\n      valid_status_code: [200]\n",
            5,
            r#"modules.a.http: unknown key "valid_status_code"; did you mean valid_status_codes?"#,
        ),
        (
            "modules:\n  a: {prober: http}\n  a: {prober: tcp}\n",
            3,
            r#"key "a" is given twice; it is already in line 2"#,
        ),
        ("modules:\n  a:\n    timeout: 1d\n", 3, "is not a duration"),
        (
            "modules:\n  a:\n    http:\n      fail_if_body_json_matches_cel: 'body.a == 1'\n",
            4,
            "modules.a.http.fail_if_body_json_matches_cel is not supported",
        ),
        ("modules:\n  a:\n    http:\n      proxy_url: http://x\n", 4, "proxy_url is not supported"),
        (
            "modules:\n  a:\n    http:\n      fail_if_body_matches_regexp: ['(']\n",
            4,
            "is not a regular expression",
        ),
        ("modules:\n  a:\n    dns: {query_type: A}\n", 3, "query name must be set"),
        (
            "modules:\n  a:\n    dns: {query_name: x, query_type: NOPE}\n",
            3,
            "query type 'NOPE' is not valid",
        ),
        ("modules:\n  a:\n    icmp: {ttl: 256}\n", 3, "cannot exceed 255"),
        (
            "modules:\n  a:\n    tcp: {query_response: [{expect: x, labels: [{name: a-b, value: c}]}]}\n",
            3,
            "is not a valid label name",
        ),
        (
            "modules:\n  a:\n    http: {enable_http3: true}\n",
            3,
            "enable_http2 must be set to false",
        ),
        ("module: {}\n", 1, "did you mean modules?"),
        ("modules: [a\n", 2, ""),
        ("", 1, "empty"),
    ] {
        let mistake = Configuration::parse(text).unwrap_err();
        assert!(mistake.what.contains(words), "{text}: {mistake}");
        assert_eq!(mistake.line, line, "{text}: {mistake}");
    }
}

#[test]
fn aliases_that_grow_without_bound_are_refused() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for i in 1..12 {
        let of = vec![format!("*a{}", i - 1); 10].join(", ");
        text += &format!("a{i}: &a{i} [{of}]\n");
    }
    assert!(Configuration::parse(&text).unwrap_err().what.contains("more than"));
}

#[test]
fn whatever_comes_is_read_or_refused_with_a_line_of_it() {
    let mut random = fastrand::Rng::with_seed(17);
    let pieces = [
        "- ", ": ", "\n", "  ", "&a ", "*a", "{", "}", "[", "]", "|", "'", "\"", "<<", "é", "\0",
        "%",
    ];
    for _ in 0..5_000 {
        let mut text: Vec<char> = ALL.chars().collect();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..text.len());
            let upto = (at + random.usize(..12)).min(text.len());
            let piece = pieces[random.usize(..pieces.len())];
            text.splice(at..upto, piece.chars());
        }
        let text: String = text.into_iter().collect();
        match Configuration::parse(&text) {
            Ok(read) => drop(read.shown()),
            Err(mistake) => {
                let lines = text.lines().count() + 1;
                assert!((1..=lines).contains(&mistake.line), "{mistake}: {text}");
            }
        }
    }
}
