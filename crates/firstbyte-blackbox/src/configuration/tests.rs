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
    assert_eq!(module.tcp.query_response[1].send, b"EHLO prober\r");
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
        ("modules:\n  a:\n    timeout: 5\n", 3, "is not a duration"),
        ("modules:\n  a:\n    icmp: {ttl: \"64\"}\n", 3, "write it without quotes"),
        ("modules:\n  a:\n    icmp: {dont_fragment: tRUE}\n", 3, "expected true or false"),
        ("modules:\n  a:\n    tcp: {query_response: [{send: !!binary a}]}\n", 3, "valid base64"),
        ("modules:\n  a:\n    http: {no_proxy: x}\n", 3, "proxy_url must also be configured"),
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
fn a_key_that_is_not_supported_refuses_its_module_alone() {
    for (http, words) in [
        (
            "fail_if_body_json_matches_cel: 'body.a == 1'",
            "fail_if_body_json_matches_cel is not supp",
        ),
        ("proxy_url: http://127.0.0.1:3128", "modules.a.http.proxy_url is not supported"),
        ("proxy_from_environment: true", "modules.a.http.proxy_from_environment is not supported"),
        ("oauth2: {client_id: x}", "modules.a.http.oauth2 is not supported"),
        (
            "basic_auth: {password_ref: x}",
            "modules.a.http.basic_auth.password_ref is not supported",
        ),
        ("tls_config: {ca: x}", "modules.a.http.tls_config.ca is not supported"),
        ("tls_config: {max_version: TLS11}", "TLS 1.0 and 1.1 are not supported"),
        ("method: 'A B'", "is not one of HTTP"),
        ("headers: {A: !!binary /w==}", "not UTF-8"),
    ] {
        let text = format!("modules:\n  b: {{prober: tcp}}\n  a:\n    http:\n      {http}\n");
        let read = Configuration::parse(&text).unwrap();
        assert_eq!(read.modules.keys().collect::<Vec<_>>(), ["b"], "{http}");
        let mistake = &read.refused["a"];
        assert!(mistake.what.contains(words), "{http}: {mistake}");
        assert!((4..=5).contains(&mistake.line), "{http}: {mistake}");
        assert!(read.shown().contains("  # a is refused: line "), "{}", read.shown());
    }
}

#[test]
fn an_empty_proxy_is_none() {
    let text = "modules: {a: {http: {proxy_url: \"\", no_proxy: x, proxy_connect_header: {}}}}";
    assert_eq!(Configuration::parse(text).unwrap().modules.len(), 1);
}

#[test]
fn scalars_are_those_of_yaml_v3() {
    let text = r#"
modules:
  a:
    timeout: !!binary NXM=
    http:
      valid_status_codes: [0310, 0o310, 0xC8, 0b11001000, 2_00, !!int "200"]
      body: !!binary |
        AP8=
      method: 0310
      fail_if_ssl: "yes"
    !!binary dGNw:
      query_response:
      - send: !!binary AAAACATSFi8= # PostgreSQL's SSLRequest
        expect_bytes: !<tag:yaml.org,2002:binary> Uw==
      - expect: !!binary XmE=
"#;
    let read = Configuration::parse(text).unwrap();
    let module = &read.modules["a"];
    assert_eq!(module.timeout_ns, 5_000_000_000);
    assert_eq!(module.http.valid_status_codes, [200; 6]);
    assert_eq!(module.http.body.reveal(), b"\x00\xff");
    assert_eq!((module.http.method.as_str(), module.http.fail_if_ssl), ("0310", true));
    let [first, second] = module.tcp.query_response.as_slice() else { panic!("{module:?}") };
    assert_eq!(first.send, b"\x00\x00\x00\x08\x04\xd2\x16/");
    assert_eq!(first.expect_bytes, b"S");
    assert_eq!(second.expect.as_ref().unwrap().written(), "^a");
    assert!(read.shown().contains("send: !!binary AAAACATSFi8=\n"), "{}", read.shown());
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
