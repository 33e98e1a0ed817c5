//! Requests of a target and their expected responses: keys that `[defaults]`, templates and targets share.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firstbyte_probe::probe::Secret;
use http::{HeaderName, HeaderValue, Method};
use toml::de::DeTable;

use super::document::Document;
use crate::expected_status::ExpectedStatus;

/// Keys of a request in `[defaults]`, templates and targets.
pub(super) const REQUEST_KEYS: &[&str] =
    &["status", "method", "headers", "cert", "key", "insecure"];
/// Header fields that control the length of the body and the end of the connection.
const OWN_HEADERS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];
/// Methods of RFC 9110 §9 and RFC 5789. Methods are case-sensitive: `get` is a different method.
const USUAL_METHODS: [&str; 8] =
    ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

/// Request settings of one layer; `None` if the layer does not set them.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestLayer {
    pub(super) expected_status: Option<ExpectedStatus>,
    pub(super) method: Option<Method>,
    /// Header fields by their lowercase names.
    pub(super) headers: BTreeMap<String, (HeaderName, Secret<HeaderValue>)>,
    /// A key belongs to the certificate in the same table.
    pub(super) client_certificate: Option<(PathBuf, Option<PathBuf>)>,
    pub(super) insecure: Option<bool>,
}

impl RequestLayer {
    /// Merges two layers: settings of `self` override those of `below`. Header fields are merged by name.
    pub(super) fn over(self, below: &Self) -> Self {
        let mut headers = below.headers.clone();
        headers.extend(self.headers);
        Self {
            expected_status: self.expected_status.or_else(|| below.expected_status.clone()),
            method: self.method.or_else(|| below.method.clone()),
            headers,
            client_certificate: self
                .client_certificate
                .or_else(|| below.client_certificate.clone()),
            insecure: self.insecure.or(below.insecure),
        }
    }
}

impl<'t> Document<'t> {
    pub(super) fn request_layer(&mut self, table: &DeTable<'t>) -> RequestLayer {
        let expected_status = self.text(table, "status").and_then(|(text, at)| {
            let read = ExpectedStatus::parse(text);
            read.map_err(|why| self.mistakes.add(at, format!("status: {why}"), None)).ok()
        });
        RequestLayer {
            expected_status,
            method: self.method(table),
            headers: self.request_headers(table),
            client_certificate: self.client_certificate(table),
            insecure: self.flag(table, "insecure").map(|(insecure, _)| insecure),
        }
    }

    fn method(&mut self, table: &DeTable<'t>) -> Option<Method> {
        let (text, at) = self.text(table, "method")?;
        let upper = text.to_ascii_uppercase();
        if upper != text && USUAL_METHODS.contains(&upper.as_str()) {
            let hint = format!("methods are case-sensitive; write {upper:?}");
            self.mistakes.add(at, format!("method {text:?} is unusual"), Some(hint));
            return None;
        }
        match Method::from_bytes(text.as_bytes()) {
            Ok(method) => Some(method),
            Err(_) => {
                self.mistakes.add(at, format!("method {text:?} is not valid"), None);
                None
            }
        }
    }

    fn request_headers(
        &mut self,
        table: &DeTable<'t>,
    ) -> BTreeMap<String, (HeaderName, Secret<HeaderValue>)> {
        let mut headers = BTreeMap::new();
        for (written, value) in self.headers(table, &OWN_HEADERS) {
            // Both were checked, so neither can fail. No message may contain the value.
            let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(written.as_bytes()), HeaderValue::from_str(value.reveal()))
            else {
                continue;
            };
            let key = name.as_str().to_owned();
            if headers.insert(key, (name, Secret::new(value))).is_some() {
                let at = table.get("headers").map(toml::Spanned::span).unwrap_or_default();
                let what = format!("headers: {written} is given twice");
                self.mistakes.add(at, what, Some("remove one of them".to_owned()));
            }
        }
        headers
    }

    fn client_certificate(&mut self, table: &DeTable<'t>) -> Option<(PathBuf, Option<PathBuf>)> {
        let certificate = self.text(table, "cert").map(|(file, _)| PathBuf::from(file));
        let key = self.text(table, "key").map(|(file, at)| (PathBuf::from(file), at));
        match (certificate, key) {
            (Some(certificate), key) => Some((certificate, key.map(|(file, _)| file))),
            (None, Some((_, at))) if !table.contains_key("cert") => {
                let hint = "write cert = \"FILE\" in the same table".to_owned();
                self.mistakes.add(at, "key: the certificate of this key is missing", Some(hint));
                None
            }
            (None, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use firstbyte_probe::probe::options::HeaderChange;

    use super::super::{Configuration, TargetSettings};
    use super::*;

    fn read(text: &str) -> Result<Vec<TargetSettings>, Vec<String>> {
        let mut no_files = |_: &str| Err(io::Error::other("there is none"));
        Configuration::read(text, &mut no_files)
            .map(|configuration| configuration.targets)
            .map_err(|mistakes| mistakes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn requests_are_as_the_three_layers_say_together() {
        let targets = read(
            r#"
[defaults]
status = "2xx"
headers = { Authorization = "Bearer s3cret", X-From = "defaults" }
insecure = true
cert = "defaults.pem"
key = "defaults.key"
[template.shop]
method = "HEAD"
headers = { x-from = "template" }
cert = "shop.pem"
[[target]]
use = "shop"
url = "https://a.test/"
status = "301"
insecure = false
[[target]]
url = "https://b.test/"
"#,
        );
        let targets = targets.unwrap();
        let [shop, plain] = &targets[..] else { panic!("{targets:?}") };
        assert!(shop.expected_status.accepts(301) && !shop.expected_status.accepts(200));
        assert!(plain.expected_status.accepts(204) && !plain.expected_status.accepts(301));
        // A template's certificate is not combined with the key of the defaults.
        let certificate = shop.client_certificate.as_ref().unwrap();
        assert_eq!(certificate, &(Path::new("shop.pem").to_owned(), None));
        let visit = shop.visit();
        assert_eq!(visit.options.http.method, Method::HEAD);
        assert!(!visit.options.tls.insecure && plain.visit().options.tls.insecure);
        assert_eq!(visit.options.tls.client_certificate.as_ref(), Some(certificate));
        let fields = |settings: &TargetSettings| -> Vec<String> {
            let changes = settings.visit().options.http.headers.clone();
            let shown = changes.iter().map(|change| match change {
                HeaderChange::Set(name, value) => {
                    format!("{name}: {}", value.reveal().to_str().unwrap())
                }
                HeaderChange::Remove(name) => format!("{name}"),
            });
            shown.collect()
        };
        assert_eq!(fields(shop), ["authorization: Bearer s3cret", "x-from: template"]);
        assert_eq!(fields(plain), ["authorization: Bearer s3cret", "x-from: defaults"]);
        assert!(!format!("{targets:?}").contains("s3cret"));
        let plain = read("[[target]]\nurl = \"https://a.test/\"\n").unwrap();
        let options = plain[0].visit().options;
        assert_eq!((options.http.method.as_str(), options.http.method_forced), ("GET", false));
        assert!(plain[0].expected_status.accepts(302) && !plain[0].expected_status.accepts(404));
    }

    #[test]
    fn mistakes_of_requests_are_named_without_secrets() {
        let text = r#"[defaults]
status = "2xy"
method = "get"
key = "alone.key"
insecure = "yes"
[[target]]
url = "https://a.test/"
method = "G T"
status = 200
headers = { "a b" = "x", Content-Length = "1", Ok = "s3cret\n", A = "s3cret", a = "s3cret" }
"#;
        let found = read(text).unwrap_err();
        let expected = [
            "2:10: status: \"2xy\" is not a status or a range of them; write",
            "3:10: method \"get\" is unusual; methods are case-sensitive; write \"GET\"",
            "4:7: key: the certificate of this key is missing; write cert",
            "5:12: insecure: expected true or false; write it without quotes",
            "8:10: method \"G T\" is not valid",
            "9:10: status: expected text, found an integer; write it in quotes",
            "10:13: \"a b\" is not a valid header field name",
            "10:26: Content-Length is set by firstbyte itself",
            "10:53: Ok: expected one line of ASCII text",
            "10:11: headers: a is given twice",
        ];
        for expected in expected {
            assert!(
                found.iter().any(|mistake| mistake.starts_with(expected)),
                "{expected}\n{found:#?}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        assert!(!format!("{found:?}").contains("s3cret"), "{found:#?}");
    }
}
