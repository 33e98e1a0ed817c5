//! Destination of requests, and their header fields: keys that webhooks and pushes share.

use std::ops::Range;

use firstbyte_probe::probe::{BadTarget, Secret, Target};
use toml::de::DeTable;

use super::document::Document;

impl<'t> Document<'t> {
    /// Reads the URL in `key` of `what` ("a webhook"). Messages leave out its path and query, which may be secrets.
    pub(super) fn destination(
        &mut self,
        table: &DeTable<'t>,
        key: &str,
        what: &str,
        at: Range<usize>,
    ) -> Option<Target> {
        let hint = || Some(format!("write {key} = \"https://…\""));
        let Some((text, at)) = self.text(table, key) else {
            if !table.contains_key(key) {
                self.mistakes.add(at, format!("{what} needs a URL"), hint());
            }
            return None;
        };
        let lower = text.to_ascii_lowercase();
        if !lower.starts_with("http://") && !lower.starts_with("https://") {
            let what = format!("the URL of {what} must begin with http:// or https://");
            self.mistakes.add(at, what, hint());
            return None;
        }
        match Target::parse(text) {
            Ok(target) if target.zone.is_none() => Some(target),
            Err(BadTarget::Credentials) => {
                let hint = Some("write headers = { Authorization = \"…\" }".to_owned());
                let what = format!("the URL of {what} contains a user or a password");
                self.mistakes.add(at, what, hint);
                None
            }
            Ok(_) | Err(_) => {
                self.mistakes.add(at, format!("the URL of {what} is not valid"), hint());
                None
            }
        }
    }

    /// Additional header fields of a request. The request sets the fields in `own` itself.
    pub(super) fn headers(
        &mut self,
        table: &DeTable<'t>,
        own: &[&str],
    ) -> Vec<(String, Secret<String>)> {
        let mut headers = Vec::new();
        let Some(all) = self.table(table, "headers") else { return headers };
        for (name, value) in all {
            let written = name.get_ref();
            let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            if written.is_empty() || !written.chars().all(is_token) {
                let what = format!("{written:?} is not a valid header field name");
                self.mistakes.add(name.span(), what, None);
                continue;
            }
            if own.iter().any(|own| own.eq_ignore_ascii_case(written)) {
                let what = format!("{written} is set by firstbyte itself");
                self.mistakes.add(name.span(), what, Some("remove it".to_owned()));
                continue;
            }
            let Some(text) = self.text_of(value, written) else { continue };
            if !text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
                let what = format!("{written}: expected one line of ASCII text");
                self.mistakes.add(value.span(), what, None);
                continue;
            }
            headers.push((written.to_string(), Secret::new(text.to_owned())));
        }
        headers
    }
}
