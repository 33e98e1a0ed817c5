//! Configurations as people write them, right and wrong.

use std::io;

use proptest::prelude::*;

use super::{Configuration, Limits, UrlSettings};

fn no_files(name: &str) -> io::Result<String> {
    Err(io::Error::new(io::ErrorKind::NotFound, format!("no {name}")))
}

fn read(text: &str) -> Configuration {
    Configuration::read(text, &mut no_files).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// All mistakes, a line each.
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
        r#"1:1: no key of the file is called "plase": did you mean "place"?"#,
        "2:9: store is an integer, not text: write it in quotes",
        r#"4:1: no key of [defaults] is called "evry": did you mean "every"?"#,
        r#"5:9: every "1" is not a time: it has no unit: write 5s, 250ms or 1.5min (units: ns, us, ms, s, min, h, d)"#,
        r#"6:10: jitter "90%": not a share from 0% to 50%"#,
        "7:9: vary: ",
        "7:20: vary: no axis is called \"famly\"",
        "7:42: vary: tls is there twice",
        "9:8: tags is an integer, not a table",
        "11:13: in_flight is a number from 1 to 10000",
        r#"13:7: no template is called "shp": did you mean "shop"?"#,
        "14:7: scheme ftp:// is not supported",
        "16:8: 2 URLs cannot share one name: leave it out",
        "17:47: { is not closed",
        r#"18:10: "a-b" cannot be a tag's name: write letters"#,
        "18:28: ok is an integer, not text",
        r#"23:7: another target is called "double": give one"#,
        "25:1: a target without a URL: write url",
        r#"26:11: timeout "1h" is not from 1ms to 10min"#,
        r#"28:13: cannot read "gone.txt": no gone.txt"#,
        "30:7: none of its ways can be had: ",
    ];
    for expected in expected {
        assert!(
            found.iter().any(|mistake| mistake.starts_with(expected)),
            "{expected}\n{found:#?}"
        );
    }
    // The two URLs that are left share the name that they were given.
    assert_eq!(found.len(), expected.len() + 1, "{found:#?}");
}

#[test]
fn what_is_no_toml_is_named_with_the_rest() {
    let found = mistakes("place = fra1\n[[target]]\nurl = \"https://a.test/\"\nevery = \"1\"\n");
    assert!(found[0].starts_with("1:"), "{found:?}");
    assert!(found.iter().any(|mistake| mistake.starts_with("4:9: every")), "{found:?}");
    assert_eq!(mistakes(""), ["1:1: no target: write [[target]] and url = \"https://…\""]);
    let found = mistakes("[target]\nurl = \"https://a.test/\"\n");
    assert!(found[0].contains("write [[target]], with two brackets"), "{found:?}");
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
    assert_eq!(twice.unwrap_err(), ("https://a.test/".to_owned(), "it is there twice".to_owned()));
    assert!(of_urls(&["ftp://a.test"]).is_err());
}

proptest! {
    /// Whatever is in the file: a configuration, or mistakes that lie within it.
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
