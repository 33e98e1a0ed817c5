//! Position in a scenario file, for errors.

use std::fmt::Display;

use super::error::ScenarioError;

pub(super) const DURATION: &str = r#"a duration from "0ms" to "60s", such as "4.5ms""#;

pub(super) fn optional<T>(
    place: &Place<'_>,
    text: Option<String>,
    parse: impl Fn(&str) -> Option<T>,
    allowed: &str,
) -> Result<Option<T>, ScenarioError> {
    let Some(text) = text else { return Ok(None) };
    parse(&text).map(Some).ok_or_else(|| place.bad(quoted(&text), allowed))
}

pub(super) fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Position in a scenario file, for errors.
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) key: String,
}

impl<'a> Place<'a> {
    pub(super) fn at(&self, key: &str) -> Place<'a> {
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Place { file: self.file, key }
    }

    pub(super) fn bad(&self, value: impl Display, allowed: impl Into<String>) -> ScenarioError {
        ScenarioError::Value {
            file: self.file.to_owned(),
            key: self.key.clone(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }

    pub(super) fn twice(&self, value: String, first: &str) -> ScenarioError {
        ScenarioError::Duplicate {
            file: self.file.to_owned(),
            key: self.key.clone(),
            value,
            first: first.to_owned(),
        }
    }

    pub(super) fn missing(&self, needed: &str) -> ScenarioError {
        ScenarioError::Missing {
            file: self.file.to_owned(),
            key: self.key.clone(),
            needed: needed.to_owned(),
        }
    }
}
