//! Configurations as people write them, correct and incorrect.

use std::io;

use proptest::prelude::*;

use super::{Configuration, Limits, UrlSettings};

fn no_files(name: &str) -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no {name}")))
}

fn read(text: &str) -> Configuration {
    Configuration::read(text, &mut no_files).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// All mistakes, one per line.
fn mistakes(text: &str) -> Vec<String> {
    let mistakes = Configuration::read(text, &mut no_files).unwrap_err();
    mistakes.iter().map(ToString::to_string).collect()
}

#[test]
fn settings_come_in_three_layers() {
    let configuration = read(
        r#"
place = "fra1"
tags = { network = "fibre" }
store = "/var/lib/firstbyte"

[limits]
in_flight = 100

[defaults]
every = "1min"
vary = ["tls=1.2,1.3", "family=4,6"]

[template.shop]
every = "5min"
tags = { service = "shop", network = "cable" }

[[target]]
use = "shop"
url = "https://www.example.com/"
timeout = "5s"
tags = { tier = "1" }

[[target]]
name = "plain"
url = "http://example.com:8080/a?b=c"
vary = []
"#,
    );
    assert_eq!(configuration.limits, Limits { in_flight: 100, per_host: 2 });
    assert_eq!(configuration.place.as_deref(), Some("fra1"));
    let [shop, plain] = &configuration.targets[..] else { panic!("{configuration:?}") };
    assert_eq!((shop.name.as_str(), plain.name.as_str()), ("www.example.com", "plain"));
    assert_eq!((shop.every.as_secs(), shop.timeout.as_secs()), (300, 5));
    assert_eq!((plain.every.as_secs(), plain.timeout.as_secs()), (60, 30));
    let tags = |tags: &std::collections::BTreeMap<String, String>| {
        tags.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(tags(&shop.tags), "network=cable service=shop tier=1");
    assert_eq!(tags(&plain.tags), "network=fibre");
    assert_eq!((shop.axes.len(), plain.axes.len()), (2, 0));
}

#[test]
fn a_thousand_targets_are_a_few_lines() {
    let configuration = read("[[target]]\nurl = \"https://{www,api}{1..500}.example.com/\"\n");
    assert_eq!(configuration.targets.len(), 1_000);
    assert_eq!(configuration.targets[0].name, "www1.example.com");
    let mut files = |name: &str| match name {
        "sites.txt" => Ok("# ours\nexample.com\n\nhttps://example.org/{a,b}\n".to_owned()),
        _ => no_files(name),
    };
    let text = "[[target]]\nurls_file = \"sites.txt\"\nurls = [\"https://example.net\"]\n";
    let configuration = Configuration::read(text, &mut files).unwrap();
    let names: Vec<&str> =
        configuration.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["example.net", "example.com", "example.org/a", "example.org/b"]);
}

#[test]
fn every_mistake_is_named_with_its_line_and_what_to_write() {
    let text = r#"plase = "fra1"
store = 5
[defaults]
evry = "1min"
every = "1"
jitter = "90%"
vary = ["tls=1.4", "famly=4", "tls=1.2", "tls=1.3"]
[template.shop]
tags = 3
[limits]
in_flight = 0
[[target]]
use = "shp"
url = "ftp://example.com/"
[[target]]
name = "many"
urls = ["https://a.test/", "https://b.test/", "https://{c.test/"]
tags = { "a-b" = "x", ok = 1 }
[[target]]
url = "https://a.test/"
name = "double"
[[target]]
url = "https://b.test/"
name = "double"
[[target]]
timeout = "1h"
[[target]]
urls_file = "gone.txt"
[[target]]
url = "http://d.test/"
vary = ["tls=1.3"]
"#;
    let found = mistakes(text);
    let expected = [
        r#"1:1: unknown key "plase" in the file; did you mean "place"?"#,
        "2:9: store: expected text, found an integer; write it in quotes",
        r#"4:1: unknown key "evry" in [defaults]; did you mean "every"?"#,
        r#"5:9: every "1" is not a time: it has no unit; write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)"#,
        r#"6:10: jitter "90%": not a share from 0% to 50%"#,
        "7:9: vary: ",
        "7:20: vary: unknown axis \"famly\"",
        "7:42: vary: tls is given twice",
        "9:8: tags: expected a table, found an integer",
        "11:13: in_flight: expected a whole number from 1 to 10000",
        r#"13:7: unknown template "shp"; did you mean "shop"?"#,
        "14:7: scheme ftp:// is not supported",
        "16:8: 2 URLs cannot share one name; remove it",
        "17:47: { is not closed",
        r#"18:10: "a-b" is not a valid tag name; use letters"#,
        "18:28: ok: expected text, found an integer",
        r#"23:7: another target is already called "double"; give one"#,
        "25:1: a target needs a URL; write url",
        r#"26:11: timeout "1h" is not from 1ms to 10min"#,
        r#"28:13: cannot read "gone.txt": no gone.txt"#,
        "30:7: none of its variants is possible: ",
    ];
    for expected in expected {
        assert!(
            found.iter().any(|mistake| mistake.starts_with(expected)),
            "{expected}\n{found:#?}"
        );
    }
    // The two remaining URLs share the name that they were given.
    assert_eq!(found.len(), expected.len() + 1, "{found:#?}");
}

#[test]
fn what_is_no_toml_is_named_with_the_rest() {
    let found = mistakes("place = fra1\n[[target]]\nurl = \"https://a.test/\"\nevery = \"1\"\n");
    assert!(found[0].starts_with("1:"), "{found:?}");
    assert!(found.iter().any(|mistake| mistake.starts_with("4:9: every")), "{found:?}");
    assert_eq!(
        mistakes(""),
        ["1:1: the file has no target; write [[target]] and url = \"https://…\""]
    );
    let found = mistakes("[target]\nurl = \"https://a.test/\"\n");
    assert!(found[0].contains("write [[target]], with two brackets"), "{found:?}");
}

#[test]
fn a_server_beyond_this_machine_needs_a_token() {
    let target = "\n[[target]]\nurl = \"https://a.test/\"\n";
    let read = |text: &str| Configuration::read(&format!("{text}{target}"), &mut no_files);
    for good in [
        "listen = \"127.0.0.1:9115\"",
        "listen = \"[::1]:0\"",
        "listen = \"127.3.2.1:1\"",
        "listen = \"0.0.0.0:9115\"\ntoken_file = \"token\"",
    ] {
        assert!(read(good).unwrap().server.listen.is_some(), "{good}");
    }
    for (bad, part) in [
        ("listen = \"0.0.0.0:9115\"", "1:10: listen 0.0.0.0:9115: other machines could"),
        ("listen = \"[::]:9115\"", "set token_file"),
        (
            "listen = \"localhost:9115\"",
            "is not an address with a port; write for example listen = ",
        ),
        ("listen = 9115", "listen: expected text, found an integer"),
        ("token_fil = \"x\"", "did you mean \"token_file\"?"),
    ] {
        let found = mistakes(&format!("{bad}{target}"));
        assert!(found.iter().any(|mistake| mistake.contains(part)), "{bad}: {found:?}");
    }
    let server = read("modules = \"b.yml\"").unwrap().server;
    assert_eq!((server.listen, server.modules), (None, Some("b.yml".into())));
}

#[test]
fn edges_are_all_or_any_and_not_beside_others() {
    let with = |text: &str| format!("[[target]]\nurl = \"https://a.test/\"\n{text}\n");
    for (bad, part) in [
        ("edges = \"some\"", "3:9: edges \"some\": expected \"all\" or \"any\""),
        ("edges = true", "edges: expected text, found a boolean"),
        (
            "edges = \"all\"\nvary = [\"edge=x:192.0.2.1\"]",
            "and a given edge exclude each other: X",
        ),
        ("edges = \"all\"\nvariant = [\"x: edge=x:192.0.2.1\"]", "or remove the edge"),
    ] {
        let found = mistakes(&with(bad));
        assert!(found.iter().any(|mistake| mistake.contains(part)), "{bad}: {found:?}");
    }
    let read = |text: &str| Configuration::read(&with(text), &mut no_files).unwrap().edge_hosts();
    assert!(read("edges = \"any\"\nvary = [\"edge=x:192.0.2.1\"]").is_empty());
    assert_eq!(read("edges = \"all\"").len(), 1);
}

#[test]
fn urls_alone_are_a_configuration() {
    let urls = ["example.com".to_owned(), "http://example.org/x".to_owned()];
    let configuration = Configuration::of_urls(&urls, UrlSettings::default()).unwrap();
    let names: Vec<&str> =
        configuration.targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, ["example.com", "http://example.org/x"]);
    let of_urls = |urls: &[&str]| {
        let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
        Configuration::of_urls(&urls, UrlSettings::default())
    };
    let twice = of_urls(&["a.test", "https://a.test/"]);
    assert_eq!(
        twice.unwrap_err(),
        ("https://a.test/".to_owned(), "the URL is given twice".to_owned())
    );
    assert!(of_urls(&["ftp://a.test"]).is_err());
}

proptest! {
    /// Any text yields a configuration, or mistakes whose places are within the text.
    #[test]
    fn anything_is_read_or_refused(text in "[\\[\\]{}a-z0-9=\".,#\\n ]{0,200}") {
        let text = format!("{text}\n[[target]]\nurl = \"https://a.test/\"\n");
        if let Err(mistakes) = Configuration::read(&text, &mut no_files) {
            for mistake in mistakes {
                prop_assert!((1..=text.lines().count() + 1).contains(&mistake.line));
                prop_assert!(mistake.column >= 1 && !mistake.what.is_empty());
            }
        }
    }
}

#[test]
fn budgets_are_joined_by_name_and_their_mistakes_have_lines() {
    let configuration = read(
        r#"
[defaults]
budget = { failures = "1%", ttfb.p95 = "300ms" }
[[target]]
url = "https://a.test/"
budget = { "ttfb.p95" = "150ms", part.server.median = "20ms" }
[[target]]
url = "https://b.test/"
"#,
    );
    let budget = |target: usize| -> Vec<(&str, Option<u128>)> {
        let all = configuration.targets[target].budget.iter();
        all.map(|one| (one.name.as_str(), one.limit().map(|limit| limit.as_millis()))).collect()
    };
    assert_eq!(
        budget(0),
        [("failures", None), ("part.server.median", Some(20)), ("ttfb.p95", Some(150))]
    );
    assert_eq!(budget(1), [("failures", None), ("ttfb.p95", Some(300))]);
    for days in ["14", "\"14\""] {
        let text = format!(
            "[[target]]\nurl = \"https://a.test/\"\nbudget = {{ certificate_days = {days} }}"
        );
        assert_eq!(read(&text).targets[0].budget[0].name, "certificate_days");
    }
    let text = "[[target]]\nurl = \"https://a.test/\"\nbudget = { certificate_days = -1 }";
    assert_eq!(
        mistakes(text),
        ["3:12: certificate_days \"-1\" is not a number of days; write for example \
             certificate_days = 14"]
    );
    let text =
        "[[target]]\nurl = \"https://a.test/\"\nbudget = { ttfb.p96 = \"1s\", failures = 1 }";
    assert_eq!(
        mistakes(text),
        [
            "3:17: unknown budget \"ttfb.p96\"; after the dot write one of median, p75, p90, \
             p95, p99",
            "3:40: failures: expected text, found an integer; write it in quotes",
        ]
    );
}
