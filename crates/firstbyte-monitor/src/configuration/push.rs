//! `[[push]]`: destinations of the figures.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_probe::probe::Secret;
use toml::de::DeTable;

use super::document::Document;
use crate::push::{PushForm, PushSettings};

const KEYS: &[&str] =
    &["remote_write", "otlp", "native", "every", "labels", "token_file", "headers"];
/// Each push has its own queue and connection.
const MOST_PUSHES: usize = 20;
const USUAL_EVERY: Duration = Duration::from_secs(30);
const SHORTEST_EVERY: Duration = Duration::from_secs(1);
const LONGEST_EVERY: Duration = Duration::from_secs(3_600);
/// Header fields that a push request sets itself.
const OWN_HEADERS: [&str; 7] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "x-prometheus-remote-write-version",
];

impl<'t> Document<'t> {
    pub(super) fn pushes(&mut self, root: &DeTable<'t>) -> Vec<PushSettings> {
        let mut all: Vec<PushSettings> = Vec::new();
        for value in self.list(root, "push") {
            let Some(table) = self.table_of(value, "[[push]]") else { continue };
            if all.len() == MOST_PUSHES {
                self.mistakes.add(value.span(), format!("more than {MOST_PUSHES} pushes"), None);
                break;
            }
            let Some(push) = self.push(table, value.span()) else { continue };
            if all.iter().any(|other| other.url == push.url) {
                let what = "another [[push]] has the same URL";
                self.mistakes.add(value.span(), what, Some("remove one of them".to_owned()));
                continue;
            }
            all.push(push);
        }
        all
    }

    fn push(&mut self, table: &DeTable<'t>, at: Range<usize>) -> Option<PushSettings> {
        self.known(table, KEYS, "[[push]]");
        let native = self.flag(table, "native");
        let every = self.time(table, "every", SHORTEST_EVERY..=LONGEST_EVERY);
        let labels = self.names_and_texts(table, "labels", "label");
        let token_file = self.text(table, "token_file").map(|(file, _)| PathBuf::from(file));
        let headers = self.headers(table, &OWN_HEADERS);
        if let (Some(_), Some((name, _))) = (
            &token_file,
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization")),
        ) {
            let what = format!("token_file and the header {name} exclude each other");
            self.mistakes.add(at.clone(), what, Some("remove one of them".to_owned()));
        }
        let (key, form) = match (table.get("remote_write"), table.get("otlp")) {
            (Some(_), Some(_)) => {
                let hint = "write one [[push]] for each".to_owned();
                self.mistakes.add(at, "remote_write and otlp exclude each other", Some(hint));
                return None;
            }
            (None, None) => {
                let hint = "write remote_write = \"https://…\" or otlp = \"https://…\"".to_owned();
                self.mistakes.add(at, "a push needs a URL", Some(hint));
                return None;
            }
            (Some(_), None) => {
                let native = native.is_some_and(|(native, _)| native);
                ("remote_write", PushForm::RemoteWrite { native })
            }
            (None, Some(_)) => {
                if let Some((_, at)) = native {
                    let hint = "remove it; OTLP always sends exponential histograms".to_owned();
                    self.mistakes.add(at, "native is only possible with remote_write", Some(hint));
                }
                ("otlp", PushForm::Otlp)
            }
        };
        let url = self.destination(table, key, "a push", at)?;
        let name = url.authority();
        let every = every.unwrap_or(USUAL_EVERY);
        Some(PushSettings { form, url: Secret::new(url), name, every, labels, token_file, headers })
    }

    pub(super) fn flag(&mut self, table: &DeTable<'t>, key: &str) -> Option<(bool, Range<usize>)> {
        let value = table.get(key)?;
        match value.get_ref().as_bool() {
            Some(flag) => Some((flag, value.span())),
            None => {
                let hint = "write it without quotes".to_owned();
                self.mistakes.add(
                    value.span(),
                    format!("{key}: expected true or false"),
                    Some(hint),
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Configuration;
    use super::*;

    const TARGET: &str = "[[target]]\nurl = \"https://a.test/\"\n";

    fn read(text: &str) -> Result<Configuration, Vec<String>> {
        Configuration::read(&format!("{text}{TARGET}"), &mut |name| {
            panic!("{name} is not asked for")
        })
        .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_push_is_read_and_shows_no_secret() {
        let text = "[[push]]\nremote_write = \"https://mimir.test/s3cret/push?s3cret\"\nnative = true\nevery = \"15s\"\n\
                    labels = { cluster = \"eu\" }\ntoken_file = \"push.token\"\n\
                    [[push]]\notlp = \"http://127.0.0.1:4318/v1/metrics\"\nheaders = { X-Scope-OrgID = \"s3cret\" }\n";
        let configuration = read(text).unwrap();
        let [first, second] = configuration.pushes.as_slice() else { panic!() };
        assert_eq!(first.form, PushForm::RemoteWrite { native: true });
        assert_eq!((first.name.as_str(), first.every), ("mimir.test", Duration::from_secs(15)));
        assert_eq!(first.labels["cluster"], "eu");
        assert_eq!(first.token_file.as_deref(), Some("push.token".as_ref()));
        assert_eq!((second.form, second.every), (PushForm::Otlp, USUAL_EVERY));
        assert_eq!(second.headers[0].1.reveal(), "s3cret");
        assert!(!format!("{configuration:?}").contains("s3cret"));
        assert_eq!(read("").unwrap().pushes, []);
    }

    #[test]
    fn mistakes_of_pushes_are_named_without_secrets() {
        let text = r#"[[push]]
remote_write = "ftp://a.test/s3cret"
native = "yes"
[[push]]
otlp = "https://me:s3cret@a.test/"
native = false
every = "1ms"
labels = { "a-b" = "x", ok = 1 }
[[push]]
remote_writ = "https://a.test/"
[[push]]
remote_write = "https://a.test/"
otlp = "https://a.test/"
[[push]]
otlp = "https://b.test/"
token_file = "k"
headers = { authorization = "s3cret", Content-Encoding = "x" }
[[push]]
otlp = "https://b.test/"
"#;
        let found = read(text).unwrap_err();
        for expected in [
            "2:16: the URL of a push must begin with http:// or https://; write remote_write",
            "3:10: native: expected true or false; write it without quotes",
            "5:8: the URL of a push contains a user or a password; write headers",
            "6:10: native is only possible with remote_write; remove it",
            "7:9: every \"1ms\" is not from 1s to 1h",
            "8:12: \"a-b\" is not a valid label name",
            "8:30: ok: expected text, found an integer",
            "9:1: a push needs a URL; write remote_write",
            "10:1: unknown key \"remote_writ\" in [[push]]; did you mean \"remote_write\"?",
            "11:1: remote_write and otlp exclude each other; write one [[push]] for each",
            "14:1: token_file and the header authorization exclude each other",
            "17:39: Content-Encoding is set by firstbyte itself",
            "18:1: another [[push]] has the same URL",
        ] {
            assert!(
                found.iter().any(|mistake| mistake.starts_with(expected)),
                "{expected}\n{found:#?}"
            );
        }
        assert!(!format!("{found:?}").contains("s3cret"), "{found:#?}");
        let found = read("[push]\notlp = \"https://a.test/\"\n").unwrap_err();
        assert!(found[0].contains("write [[push]], with two brackets"), "{found:?}");
    }
}
