//! `[[webhook]]`: destinations of the events.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

use firstbyte_probe::probe::Secret;
use toml::de::DeTable;

use super::document::Document;
use crate::event_state::EventState;
use crate::webhook::{Template, USUAL_STATES, WebhookSettings};

const KEYS: &[&str] = &["url", "secret_file", "states", "template", "headers"];
/// Each webhook has its own queue and connection.
const MOST_WEBHOOKS: usize = 20;
/// Header fields that a webhook request sets itself.
const OWN_HEADERS: [&str; 7] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "x-firstbyte-event",
    "x-firstbyte-timestamp",
    "x-firstbyte-signature",
];

impl<'t> Document<'t> {
    pub(super) fn webhooks(
        &mut self,
        root: &DeTable<'t>,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Vec<WebhookSettings> {
        let mut all = Vec::new();
        for value in self.list(root, "webhook") {
            let Some(table) = self.table_of(value, "[[webhook]]") else { continue };
            if all.len() == MOST_WEBHOOKS {
                self.mistakes.add(
                    value.span(),
                    format!("more than {MOST_WEBHOOKS} webhooks"),
                    None,
                );
                break;
            }
            all.extend(self.webhook(table, value.span(), read_file));
        }
        all
    }

    fn webhook(
        &mut self,
        table: &DeTable<'t>,
        at: Range<usize>,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Option<WebhookSettings> {
        self.known(table, KEYS, "[[webhook]]");
        let url = self.destination(table, "url", "a webhook", at);
        let secret_file = self.text(table, "secret_file").map(|(file, _)| PathBuf::from(file));
        let states = self.states(table);
        let (mut template, mut content_type) = (None, "application/json");
        if let Some((file, at)) = self.text(table, "template") {
            let read = read_file(file).map_err(|error| format!("cannot read {file:?}: {error}"));
            let read = read.and_then(|text| {
                Template::parse(&text).map_err(|why| format!("template {file:?}: {why}"))
            });
            match read {
                Ok(read) => template = Some(read),
                Err(why) => self.mistakes.add(at, why, None),
            }
            if !file.ends_with(".json") {
                content_type = "text/plain; charset=utf-8";
            }
        }
        let headers = self.headers(table, &OWN_HEADERS);
        let url = url?;
        let name = url.authority();
        let url = Secret::new(url);
        Some(WebhookSettings { url, name, secret_file, states, template, content_type, headers })
    }

    fn states(&mut self, table: &DeTable<'t>) -> Vec<EventState> {
        if !table.contains_key("states") {
            return USUAL_STATES.to_vec();
        }
        let mut states = Vec::new();
        for value in self.list(table, "states") {
            let Some(text) = self.text_of(value, "states") else { continue };
            match EventState::named(text) {
                Some(state) => states.push(state),
                None => {
                    let known = EventState::ALL.map(EventState::name).join(", ");
                    let hint = Some(format!("known states: {known}"));
                    self.mistakes.add(value.span(), format!("unknown state {text:?}"), hint);
                }
            }
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::Configuration;
    use super::*;

    const TARGET: &str = "[[target]]\nurl = \"https://a.test/\"\n";

    fn read(text: &str) -> Result<Configuration, Vec<String>> {
        let mut files = |name: &str| match name {
            "chat.json" => Ok("{\"text\": {{json sentence}}}".to_owned()),
            "bad.txt" => Ok("\n{{sentense}}".to_owned()),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, format!("no {name}"))),
        };
        Configuration::read(&format!("{text}{TARGET}"), &mut files)
            .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_webhook_is_read_and_shows_no_secret() {
        let text = "[[webhook]]\nurl = \"https://hooks.test:8443/s3cret?s3cret\"\nsecret_file = \"k\"\n\
                    template = \"chat.json\"\nheaders = { Authorization = \"Bearer s3cret\" }\n\
                    [[webhook]]\nurl = \"http://127.0.0.1/\"\nstates = [\"provisional\", \"began\"]\n";
        let configuration = read(text).unwrap();
        let [first, second] = configuration.webhooks.as_slice() else { panic!() };
        assert_eq!(
            (first.name.as_str(), first.states.as_slice()),
            ("hooks.test:8443", &USUAL_STATES[..])
        );
        assert!(first.template.is_some() && first.url.reveal().tls);
        assert_eq!(first.content_type, "application/json");
        assert_eq!(first.headers[0].1.reveal(), "Bearer s3cret");
        assert_eq!(second.states, [EventState::Provisional, EventState::Began]);
        assert!(!format!("{configuration:?}").contains("s3cret"));
    }

    #[test]
    fn mistakes_of_webhooks_are_named_without_secrets() {
        let text = r#"[[webhook]]
url = "ftp://a.test/s3cret"
[[webhook]]
url = "https://me:s3cret@a.test/"
states = ["confirmd", 1]
[[webhook]]
template = "bad.txt"
secrt_file = "k"
headers = { "a b" = "x", Host = "x", Ok = "a\nb" }
[[webhook]]
url = "https://[s3cret/"
template = "gone.txt"
"#;
        let found = read(text).unwrap_err();
        for expected in [
            "2:7: the URL of a webhook must begin with http:// or https://; write url",
            "4:7: the URL of a webhook contains a user or a password; write headers",
            "5:11: unknown state \"confirmd\"; known states: provisional, confirmed, \
             withdrawn, began, ended, flapping",
            "5:23: states: expected text, found an integer",
            "6:1: a webhook needs a URL",
            "7:12: template \"bad.txt\": line 2: unknown value \"sentense\"",
            "8:1: unknown key \"secrt_file\" in [[webhook]]; did you mean \"secret_file\"?",
            "9:13: \"a b\" is not a valid header field name",
            "9:26: Host is set by firstbyte itself",
            "9:43: Ok: expected one line of ASCII text",
            "11:7: the URL of a webhook is not valid",
            "12:12: cannot read \"gone.txt\"",
        ] {
            assert!(
                found.iter().any(|mistake| mistake.starts_with(expected)),
                "{expected}\n{found:#?}"
            );
        }
        assert!(!format!("{found:?}").contains("s3cret"), "{found:#?}");
        let found = read("[webhook]\nurl = \"https://a.test/\"\n").unwrap_err();
        assert!(found[0].contains("write [[webhook]], with two brackets"), "{found:?}");
    }
}
