//! Templates of webhook bodies: text with `{{NAME}}`, or `{{json NAME}}` for a JSON string.

use serde_json::Value;

use crate::detect::Event;

/// Names allowed in a template. `docs/monitor.md`, "Webhooks", describes them.
const NAMES: [&str; 10] =
    ["sentence", "event", "kind", "id", "state", "metric", "statistic", "at", "until", "targets"];

/// A parsed template that contains only known names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value { name: &'static str, as_json: bool },
}

impl Template {
    /// Parses a template.
    ///
    /// # Errors
    /// What is wrong, in which line, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once("{{") {
            let line = text[..text.len() - behind.len()].matches('\n').count() + 1;
            let (inside, after) = behind
                .split_once("}}")
                .ok_or_else(|| format!("line {line}: {{{{ is not closed; write }}}}"))?;
            let inside = inside.trim();
            let (as_json, written) = match inside.strip_prefix("json ") {
                Some(name) => (true, name.trim()),
                None => (false, inside),
            };
            let name = NAMES.into_iter().find(|name| *name == written).ok_or_else(|| {
                let all = NAMES.join(", ");
                format!("line {line}: unknown value {written:?}; known values: {all}")
            })?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(Piece::Value { name, as_json });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// The body for `event`, whose stored form is `json`.
    pub fn render(&self, event: &Event, json: &str) -> String {
        let fields: Value = serde_json::from_str(json).unwrap_or_default();
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        let value = |name: &str| match name {
            "sentence" => event.sentence(),
            "event" => json.to_owned(),
            "targets" => event.scope().targets.join(", "),
            // Outages have other field names for these.
            "at" => field("at").or_else(|| field("began")).unwrap_or_default().to_owned(),
            "until" => field("until").or_else(|| field("ended")).unwrap_or_default().to_owned(),
            name => field(name).unwrap_or_default().to_owned(),
        };
        let pieces = self.0.iter().map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value { name, as_json: true } => Value::String(value(name)).to_string(),
            Piece::Value { name, as_json: false } => value(name),
        });
        pieces.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{change, outage};
    use super::*;

    fn rendered(event: &Event, text: &str) -> String {
        let json = serde_json::to_string(event).unwrap();
        Template::parse(text).unwrap().render(event, &json)
    }

    #[test]
    fn values_stand_where_their_names_are() {
        let event = change("7", "confirmed", &["a \"b\"", "c"]);
        let json = serde_json::to_string(&event).unwrap();
        let rendered = |text: &str| rendered(&event, text);
        assert_eq!(
            rendered(
                "{{kind}} {{ id }} {{state}} {{metric}}/{{statistic}} {{at}}[{{until}}] {{targets}}}"
            ),
            "level 7 confirmed total/median 2026-11-23T00:00:00Z[] a \"b\", c}"
        );
        assert_eq!(rendered("{{event}}"), json);
        let chat: Value = serde_json::from_str(&rendered("{\"text\": {{json sentence}}}")).unwrap();
        assert_eq!(chat["text"], event.sentence());
        let whole: Value = serde_json::from_str(&rendered("{{json event}}")).unwrap();
        assert_eq!(whole, json);
        assert_eq!(rendered("no { braces }"), "no { braces }");
    }

    #[test]
    fn an_outage_has_a_time_and_an_end_and_no_metric() {
        let event = outage("8", "ended", Some("2026-11-27T13:36:10Z"));
        assert_eq!(
            rendered(&event, "{{kind}} {{state}} [{{metric}}] {{at}} {{until}} {{targets}}"),
            "outage ended [] 2026-11-27T13:28:04Z 2026-11-27T13:36:10Z shop"
        );
    }

    /// Target names are untrusted: their text never acts as a template, and stays inside its JSON string.
    #[test]
    fn names_stay_values() {
        let targets = ["{{id}}", "\",\"state\":\"x", "a\0\n\u{1b}\u{202e}\\"];
        let event = change("7", "confirmed", &targets);
        let rendered = |text: &str| rendered(&event, text);
        assert_eq!(rendered("{{targets}}"), targets.join(", "));
        let body = rendered(r#"{"a": {{json targets}}, "b": {{json sentence}}, "c": {{event}}}"#);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["a"], targets.join(", "));
        assert_eq!(body["b"], event.sentence());
        assert_eq!(body["c"]["scope"]["targets"], serde_json::json!(targets));
        assert_eq!(
            (body.as_object().unwrap().len(), &body["c"]["state"]),
            (3, &"confirmed".into())
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let why = Template::parse("a\nb {{sentense}}").unwrap_err();
        assert!(why.starts_with("line 2: unknown value \"sentense\"; known values: sentence, "));
        let why = Template::parse("{{id").unwrap_err();
        assert_eq!(why, "line 1: {{ is not closed; write }}");
    }
}
