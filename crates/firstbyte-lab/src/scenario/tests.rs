//! Scenario files: the shipped ones load, and every mistake has its message.

use std::time::Duration;

use crate::scenario::Family;
use crate::{Scenario, ServerChoice};

const SHIPPED: &str = "govuk, codavel, pq, curl-length, nam, nagle, syn-loss, big-chain, hrr, slow-dns, \
    slow-aaaa, broken-ipv6, no-tickets, slow-server, redirect-chain, quic-retry, clean, monitor, clients, page, \
    accuracy, capacity, quiet";

const CLIENT: &str = r#"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.1"
"#;

const SERVER: &str = r#"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["www.test"]
"#;

/// A scenario with these lines added to its server.
fn with_server(lines: &str) -> String {
    format!("description = \"d\"\n{CLIENT}{SERVER}{lines}\n")
}

fn message(source: &str) -> String {
    Scenario::parse("bad", "bad.toml", source).unwrap_err().to_string()
}

#[test]
fn shipped_scenarios_load() {
    let names: Vec<_> = Scenario::shipped().map(|(name, _)| name).collect();
    assert_eq!(names.join(", "), SHIPPED);
}

#[test]
fn govuk_has_the_round_trips_of_its_story() {
    let govuk = Scenario::load("govuk").unwrap();
    let round_trip = |edge: &str, family: Family| {
        govuk.round_trip(govuk.client(), govuk.host(edge).unwrap(), family)
    };
    for (edge, ipv4_ms, ipv6_ms) in
        [("london", 9, 11), ("vancouver", 140, 134), ("sydney", 280, 294), ("resolver", 4, 4)]
    {
        assert_eq!(round_trip(edge, Family::V4), Duration::from_millis(ipv4_ms), "{edge}");
        assert_eq!(round_trip(edge, Family::V6), Duration::from_millis(ipv6_ms), "{edge}");
    }
}

#[test]
fn codavel_and_pq_have_the_round_trips_of_their_stories() {
    let round_trips = |name: &str| {
        let scenario = Scenario::load(name).unwrap();
        let of = |host| scenario.round_trip(scenario.client(), host, Family::V4);
        scenario.servers().map(of).map(|rtt| rtt.as_micros()).collect::<Vec<_>>()
    };
    assert_eq!(round_trips("codavel"), [112_000, 112_000, 112_000]);
    assert_eq!(round_trips("pq")[..4], [5_600, 31_200, 78_700, 195_700]);
    assert_eq!(round_trips("pq")[4..], [5_600, 31_200, 78_700, 195_700]);
}

/// Settings that nginx does not support select the built-in server, unless the scenario names another.
#[test]
fn auto_is_a_server_that_can_do_it() {
    let choice = |settings: &str| {
        let source = with_server(&format!("server = {{ {settings} }}"));
        let scenario = Scenario::parse("ok", "ok.toml", &source).unwrap();
        scenario.host("server").unwrap().server.as_ref().unwrap().choice
    };
    assert_eq!(choice(r#"early_data = "on", http3 = true"#), ServerChoice::Auto);
    assert_eq!(choice(r#"nginx = { directives = ["gzip on;"] }"#), ServerChoice::Nginx);
    for only_builtin in [
        r#"think_time = "8ms""#,
        r#"slow = { every = 3, think_time = "30ms" }"#,
        "nagle = true",
        r#"groups = ["x25519mlkem768", "x25519"]"#,
        r#"early_data = "reject""#,
    ] {
        assert_eq!(choice(only_builtin), ServerChoice::Builtin, "{only_builtin}");
    }
}

#[test]
fn a_family_overrides_only_what_it_names() {
    let source = with_server(r#"up = { delay = "5ms", loss = "1%", ipv6 = { delay = "7ms" } }"#);
    let scenario = Scenario::parse("ok", "ok.toml", &source).unwrap();
    let up = &scenario.host("server").unwrap().up;
    assert_eq!((up.ipv4.delay, up.ipv4.loss), (Duration::from_millis(5), 0.01));
    assert_eq!((up.ipv6.delay, up.ipv6.loss), (Duration::from_millis(7), 0.01));
}

#[test]
fn names_and_paths_that_are_not_there() {
    let message = |name: &str| Scenario::load(name).unwrap_err().to_string();
    assert_eq!(
        message("govukk"),
        format!(
            "unknown scenario \"govukk\"; did you mean govuk?\n  shipped: {SHIPPED}\n  give a file by its path, \
             such as ./govukk.toml"
        )
    );
    assert_eq!(
        message("./missing.toml"),
        "cannot read scenario ./missing.toml: no such file or directory"
    );
}

#[test]
fn values_that_are_not_allowed() {
    let duration = r#"a duration from "0ms" to "60s", such as "4.5ms""#;
    let share = r#"a percentage from "0%" to "100%", such as "0.5%""#;
    let cases = [
        (r#"up = { delay = "-3ms" }"#, r#"server.up.delay = "-3ms""#, duration),
        (r#"up = { delay = "61s" }"#, r#"server.up.delay = "61s""#, duration),
        (r#"down = { jitter = "5" }"#, r#"server.down.jitter = "5""#, duration),
        (r#"up = { ipv6 = { delay = "1h" } }"#, r#"server.up.ipv6.delay = "1h""#, duration),
        (r#"up = { loss = "0.5" }"#, r#"server.up.loss = "0.5""#, share),
        (r#"up = { loss = "101%" }"#, r#"server.up.loss = "101%""#, share),
        (
            r#"up = { rate = "100MB" }"#,
            r#"server.up.rate = "100MB""#,
            r#"a rate up to "1000gbit", such as "512kbit", "100mbit" or "1gbit""#,
        ),
        ("down = { mtu = 500 }", "server.down.mtu = 500", "576 to 9000"),
        (
            "down = { mtu = 1400, ipv4 = { mtu = 1500 } }",
            "server.down.ipv4.mtu = 1500",
            "576 to 1400",
        ),
        (
            "up = { ipv6 = { mtu = 1000 } }",
            "server.up.ipv6.mtu = 1000",
            "1280 to 1500 (IPv6 needs 1280, RFC 8200 §5)",
        ),
        ("up = { initial_window = 0 }", "server.up.initial_window = 0", "1 to 1000 segments"),
        (
            "up = { ipv6 = { initial_window = 1001 } }",
            "server.up.ipv6.initial_window = 1001",
            "1 to 1000 segments",
        ),
        ("down = { drop_syn = 21 }", "server.down.drop_syn = 21", "0 to 20 packets"),
        ("up = { ipv4 = { drop_data = 99 } }", "server.up.ipv4.drop_data = 99", "0 to 20 packets"),
        (
            r#"resolver = { answer_delay = "1ms" }"#,
            "server.resolver = { … }",
            r#"only where role = "resolver""#,
        ),
        (
            "[[host]]\nname = \"r\"\nrole = \"resolver\"\nipv4 = \"192.0.2.7\"\n\
             resolver = { aaaa_delay = \"soon\" }",
            r#"r.resolver.aaaa_delay = "soon""#,
            duration,
        ),
        (
            r#"server = { kind = "nginx", nagle = true }"#,
            r#"server.server.kind = "nginx""#,
            r#""builtin" (nagle: nginx turns Nagle's algorithm off for TLS)"#,
        ),
        (
            r#"server = { kind = "caddy", redirects = { "http://www.test/" = "https://www.test/" } }"#,
            r#"server.server.kind = "caddy""#,
            "another kind (redirects: the lab does not configure redirects in Caddy)",
        ),
        (
            r#"server = { redirects = { "http://other.test/" = "https://www.test/" } }"#,
            r#"server.server.redirects = "http://other.test/""#,
            "the URLs of this host's names",
        ),
        (
            r#"server = { redirects = { "http://www.test/" = "http://www.test/" } }"#,
            r#"server.server.redirects.http://www.test/ = "http://www.test/""#,
            "a URL other than itself",
        ),
        (
            r#"server = { redirects = { "http://www.test/" = "https://www.test/;x" } }"#,
            r#"server.server.redirects.http://www.test/ = "https://www.test/;x""#,
            r#"URLs with a path and without port and query, such as "https://www.example.test/""#,
        ),
        (
            r#"rto_min = "1.5ms""#,
            r#"server.rto_min = "1.5ms""#,
            r#"whole milliseconds from "1ms" to "60s", such as "20ms""#,
        ),
        (
            r#"congestion_control = "vegas""#,
            r#"server.congestion_control = "vegas""#,
            r#""cubic", "bbr" or "reno""#,
        ),
        (
            "ipv6 = \"2001:db8::1\"\nup = { mtu = 1200 }",
            "server.up.mtu = 1200",
            "1280 to 9000 (IPv6 needs 1280, RFC 8200 §5)",
        ),
        (
            r#"ipv6 = "192.0.2.9""#,
            r#"server.ipv6 = "192.0.2.9""#,
            r#"an IPv6 address, such as "2001:db8::1""#,
        ),
        (
            r#"server = { kind = "apache" }"#,
            r#"server.server.kind = "apache""#,
            r#""auto", "nginx", "caddy", "builtin" or "command""#,
        ),
        (
            r#"server = { kind = "builtin", command = ["haproxy"] }"#,
            r#"server.server.kind = "builtin""#,
            "another kind (command: only kind = \"command\" starts a program)",
        ),
        (
            r#"server = { command = ["haproxy"], tls = ["1.3"] }"#,
            r#"server.server.kind = "command""#,
            "another kind (settings of the lab's own servers: a program is configured by its \
             command)",
        ),
        (
            "server = { command = [] }",
            "server.server.command = []",
            r#"the program and its arguments, such as ["haproxy", "-db"]"#,
        ),
        (
            r#"server = { command = ["haproxy"], files = { "a/b" = "" } }"#,
            r#"server.server.files = "a/b""#,
            "plain file names other than chain.pem, key.pem, server.pem, access.log, stderr, html",
        ),
        (
            r#"server = { files = { "a" = "" } }"#,
            "server.server.files = { … }",
            r#"only with kind = "command""#,
        ),
        (
            r#"server = { kind = "nginx", think_time = "8ms" }"#,
            r#"server.server.kind = "nginx""#,
            r#""builtin" (think_time or handshake_delay: nginx supports neither)"#,
        ),
        (
            r#"server = { kind = "caddy", early_data = "reject" }"#,
            r#"server.server.kind = "caddy""#,
            r#"another kind (early_data other than "off" and "on": Caddy has no setting for it)"#,
        ),
        (
            r#"server = { kind = "nginx", groups = ["x25519mlkem768"] }"#,
            r#"server.server.kind = "nginx""#,
            r#""builtin" (groups with x25519mlkem768: nginx supports it only with OpenSSL 3.5)"#,
        ),
        (
            r#"server = { think_time = "8ms", nginx = { directives = ["gzip on;"] } }"#,
            "server.server.nginx.directives = [ … ]",
            "only with nginx, and without what nginx cannot do (see docs/scenarios.md)",
        ),
        (
            r#"server = { early_data = "yes" }"#,
            r#"server.server.early_data = "yes""#,
            r#""off", "on", "after-finished", "reject" or "too-early""#,
        ),
        (
            r#"server = { early_data = "on", tickets = 0 }"#,
            "server.server.early_data = …",
            "only with TLS 1.3, tickets and resumption: early data needs all three",
        ),
        (
            r#"server = { resumption = "sometimes" }"#,
            r#"server.server.resumption = "sometimes""#,
            r#""both", "tickets", "session-ids" or "none""#,
        ),
        (
            r#"server = { tls = ["1.1"] }"#,
            r#"server.server.tls = ["1.1"]"#,
            r#"["1.2"], ["1.3"] or ["1.2", "1.3"]"#,
        ),
        (
            r#"server = { groups = ["p256", "p521"] }"#,
            r#"server.server.groups = "p521""#,
            r#""x25519", "p256", "p384" or "x25519mlkem768""#,
        ),
        (
            r#"server = { groups = ["p256", "p256"] }"#,
            r#"server.server.groups = "p256""#,
            "each group only once",
        ),
        (
            r#"server = { key = "ed25519" }"#,
            r#"server.server.key = "ed25519""#,
            r#""p256" or "rsa2048""#,
        ),
        ("server = { chain_bytes = 599 }", "server.server.chain_bytes = 599", "600 to 60000"),
        (
            r#"server = { chain_bytes = "60kb and more" }"#,
            r#"server.server.chain_bytes = "60kb and more""#,
            "600 to 60000",
        ),
        ("server = { certificate_days = 31 }", "server.server.certificate_days = 31", "-365 to 30"),
        (
            r#"server = { slow = { every = 0, think_time = "1ms" } }"#,
            "server.server.slow.every = 0",
            "1 to 1000000",
        ),
        (
            r#"server = { kind = "nginx", slow = { every = 3, think_time = "1ms" } }"#,
            r#"server.server.kind = "nginx""#,
            r#""builtin" (slow: nginx answers all requests at once)"#,
        ),
        ("server = { tickets = 21 }", "server.server.tickets = 21", "0 to 20"),
        (
            "server = { retry = true }",
            "server.server.retry = true",
            "only with http3 = true; Retry is part of QUIC",
        ),
        (
            "server = { page_bytes = 100000001 }",
            "server.server.page_bytes = 100000001",
            "0 to 100000000",
        ),
        (
            "[[host]]\nname = \"Paris\"\nrole = \"server\"\nipv4 = \"192.0.2.7\"",
            r#"Paris.name = "Paris""#,
            "1 to 15 of a-z, 0-9 and -",
        ),
        (
            "[[host]]\nname = \"paris\"\nrole = \"router\"\nipv4 = \"192.0.2.7\"",
            r#"paris.role = "router""#,
            r#""client", "server" or "resolver""#,
        ),
        (
            "[[host]]\nname = \"x\"\nrole = \"server\"\nipv4 = \"192.0.2.7\"\nnames = [\"WWW.test\"]",
            r#"x.names = "WWW.test""#,
            r#"a lower-case DNS name, such as "www.example.test""#,
        ),
    ];
    for (lines, said, allowed) in cases {
        assert_eq!(
            message(&with_server(lines)),
            format!("scenario bad.toml: {said} is not allowed\n  allowed: {allowed}"),
        );
    }
}

#[test]
fn what_must_be_unique() {
    let host = |name: &str, role: &str, ipv4: &str, dns: &str| {
        with_server(&format!(
            "[[host]]\nname = \"{name}\"\nrole = \"{role}\"\nipv4 = \"{ipv4}\"\nnames = [\"{dns}\"]"
        ))
    };
    let cases = [
        (
            host("paris", "server", "198.51.100.1", "x.test"),
            r#"paris.ipv4 = "198.51.100.1" is already used by server"#,
        ),
        (
            host("paris", "resolver", "192.0.2.7", "www.test"),
            r#"paris.names = "www.test" is already used by server"#,
        ),
        (
            host("server", "server", "192.0.2.7", "x.test"),
            r#"server.name = "server" is already used by server"#,
        ),
        (
            host("paris", "client", "192.0.2.7", "x.test"),
            r#"paris.role = "client" is already used by client"#,
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(message(&source), format!("scenario bad.toml: {expected}"));
    }
}

#[test]
fn what_must_be_there() {
    let cases = [
        (
            format!("description = \"d\"\n{SERVER}"),
            "host is missing\n  needed: one [[host]] with role = \"client\"",
        ),
        (
            format!("description = \"d\"\n{CLIENT}"),
            "host is missing\n  needed: a [[host]] with role = \"server\"",
        ),
        (
            with_server("[[host]]\nname = \"x\"\nrole = \"resolver\""),
            "x.ipv4 is missing\n  needed: an ipv4 or an ipv6 address, or both",
        ),
        (
            with_server("server = { kind = \"command\" }"),
            "server.server.command is missing\n  needed: the program and its arguments, such as \
             [\"haproxy\", \"-db\"]",
        ),
        (
            with_server("[[host]]\nname = \"x\"\nrole = \"server\"\nipv4 = \"192.0.2.7\""),
            "x.names is missing\n  needed: at least one DNS name for the server's certificate, \
             such as [\"www.example.test\"]",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(message(&source), format!("scenario bad.toml: {expected}"));
    }
}

#[test]
fn keys_and_types_are_the_toml_readers_to_refuse() {
    let unknown = message(&with_server("up = { latency = \"3ms\" }"));
    let expected = "scenario bad.toml: line 13: unknown key \"latency\"; known: delay, ";
    assert!(unknown.starts_with(expected), "{unknown}");
    let number = message(&with_server("up = { delay = 3 }"));
    assert!(number.contains("delay: expected text in quotes, found the number 3"), "{number}");
    let queue = message(&with_server("up = { ipv6 = { queue = \"1ms\" } }"));
    assert!(queue.contains("unknown key \"queue\""), "{queue}");
}

#[test]
fn content_is_as_long_as_it_is_said_to_be() {
    let settings = |content: &str| {
        let source = with_server(&format!("[host.server.content.\"/a\"]\n{content}"));
        Scenario::parse("good", "good.toml", &source).map(|scenario| {
            let server = scenario.hosts.into_iter().find_map(|host| host.server).unwrap();
            server.content["/a"].clone()
        })
    };
    let text = settings("type = 'text/css'\ntext = 'a{}'\nbytes = '1kB'").unwrap();
    assert_eq!((text.body.len(), &text.body[..4]), (1_000, &b"a{}\n"[..]));
    let font = settings("type = 'font/ttf'\nhex = '''00 01\n0a'''\nbytes = 5").unwrap();
    assert_eq!(font.body, [0, 1, 10, 0, 0]);
    for (content, wanted) in [
        ("type = 'font/ttf'\nhex = '0'", "pairs of hexadecimal digits"),
        ("type = 'a\"b'\ntext = ''", "a content type"),
        ("type = 'text/css'\ntext = 'long'\nbytes = 3", "4 to 10000000"),
        ("type = 'text/css'\ntext = ''\nhex = ''", "text or hex, not both"),
    ] {
        let said = settings(content).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
    let said = message(&with_server("[host.server.content.\"/w\"]\ntype = 'text/css'"));
    assert!(said.contains("a path of letters"), "{said}");
    let said = message(&with_server(
        "server.kind = 'nginx'\n[host.server.content.\"/a\"]\ntype = 'text/css'\nthink_time = '1ms'",
    ));
    assert!(said.contains("nginx supports neither"), "{said}");
}

#[test]
fn a_change_is_the_scenario_from_then_on() {
    let source = with_server(
        r#"server = { tls = ["1.2"], page_bytes = 3000, redirects = { "http://www.test/" = "https://www.test/" } }
up = { delay = "10ms", ipv6 = { delay = "20ms" } }
[[change]]
after = "30s"
host = "server"
server = { tls = ["1.2", "1.3"] }
[[change]]
after = "2min"
host = "server"
up = { ipv6 = { delay = "40ms" } }"#,
    );
    let scenario = Scenario::parse("good", "good.toml", &source).unwrap();
    let [first, second] = scenario.changes.as_slice() else { panic!("{:?}", scenario.changes) };
    assert_eq!((first.after.as_secs(), second.after.as_secs()), (30, 120));
    assert_eq!(second.hosts, ["server"]);
    let server = |scenario: &Scenario| scenario.host("server").unwrap().server.clone().unwrap();
    assert_ne!(server(&first.scenario).versions, server(&scenario).versions);
    assert_eq!(server(&first.scenario).page_bytes, 3_000, "other values stay");
    assert_eq!(server(&first.scenario).redirects, server(&scenario).redirects);
    assert_eq!(server(&second.scenario), server(&first.scenario), "each goes on from the last");
    let up = &second.scenario.host("server").unwrap().up;
    let ms = Duration::from_millis;
    assert_eq!((up.ipv4.delay, up.ipv6.delay), (ms(10), ms(40)));
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let change = |lines: &str| message(&with_server(&format!("[[change]]\n{lines}")));
    for (lines, part) in [
        (
            "after = \"1s\"\nhost = \"sever\"",
            "change[0].host = \"sever\" is not allowed\n  allowed: client, server",
        ),
        ("after = \"soon\"\nhost = \"server\"", "change[0].after = \"soon\""),
        ("host = \"server\"", "key \"after\" is missing"),
        ("after = \"1s\"\nhost = \"server\"\nipv4 = \"192.0.2.9\"", "unknown key \"ipv4\""),
        (
            "after = \"1s\"\nhost = \"server\"\nup = { mtu = 1400 }",
            "change[0].up = mtu or initial_window is not allowed",
        ),
        (
            "after = \"1s\"\nhost = \"server\"\nup = { delya = \"1ms\" }",
            "change[0]: unknown key \"delya\"; did you mean \"delay\"?",
        ),
        ("after = \"1s\"\nhost = \"server\"\nserver = { tls = [\"1.1\"] }", "change[0].server.tls"),
        ("after = \"1s\"\nhost = \"client\"\nserver = { tls = [\"1.2\"] }", "change[0].server"),
        (
            "after = \"9s\"\nhost = \"server\"\n[[change]]\nafter = \"1s\"\nhost = \"server\"",
            "not earlier than the change before it",
        ),
    ] {
        let found = change(lines);
        assert!(found.contains(part), "{lines}: {found}");
    }
}

#[test]
fn a_name_is_of_several_servers_and_of_nobody_else() {
    let second = SERVER.replace("\"server\"\nrole", "\"second\"\nrole").replace("100.1", "100.2");
    let source = with_server(&second);
    let edges = Scenario::parse("good", "good.toml", &source).unwrap();
    assert_eq!(edges.servers().count(), 2);
    let client = source.replace("192.0.2.1\"", "192.0.2.1\"\nnames = [\"www.test\"]");
    assert!(message(&client).contains("is already used by"), "{}", message(&client));
}

#[test]
fn addresses_that_no_host_can_have_are_refused() {
    for (key, address, what) in [
        ("ipv4", "127.0.0.1", "a loopback address"),
        ("ipv4", "224.0.0.1", "a multicast address"),
        ("ipv4", "255.255.255.255", "the broadcast address"),
        ("ipv4", "169.254.7.7", "a link-local address"),
        ("ipv4", "169.254.1.1", "the lab's gateway"),
        ("ipv4", "0.0.0.0", "no address"),
        ("ipv4", "0.1.2.3", "a reserved address"),
        ("ipv4", "240.0.0.1", "a reserved address"),
        ("ipv6", "::1", "a loopback address"),
        ("ipv6", "ff02::1", "a multicast address"),
        ("ipv6", "fe80::7", "a link-local address"),
        ("ipv6", "fe80::1", "the lab's gateway"),
        ("ipv6", "::", "no address"),
        ("ipv6", "::ffff:192.0.2.1", "an IPv4 address"),
    ] {
        let host = format!(
            "[[host]]\nname = \"x\"\nrole = \"server\"\n{key} = \"{address}\"\nnames = [\"x.test\"]"
        );
        assert_eq!(
            message(&with_server(&host)),
            format!(
                "scenario bad.toml: x.{key} = \"{address}\" is not allowed\n  \
                 allowed: an address that a host can have; this is {what}"
            )
        );
    }
}
