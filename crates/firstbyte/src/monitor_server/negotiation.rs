//! Chooses the format of `/metrics` that a request accepts.

use http::HeaderMap;
use http::header::ACCEPT;

/// Formats of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Protobuf,
}

impl Form {
    /// Protobuf if the request names it with at least the quality of text; text otherwise.
    pub(super) fn asked_in(headers: &HeaderMap) -> Self {
        let (mut protobuf, mut text) = (0.0_f64, 0.0_f64);
        let fields = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        for range in fields.flat_map(|field| field.split(',')) {
            let range = Range::parse(range);
            if range.is_protobuf() {
                protobuf = protobuf.max(range.quality);
            } else if ["text/plain", "text/*", "*/*"].contains(&range.kind.as_str()) {
                text = text.max(range.quality);
            }
        }
        if protobuf > 0.0 && protobuf >= text { Self::Protobuf } else { Self::Text }
    }
}

/// One media range of an `Accept` field.
struct Range {
    kind: String,
    proto: String,
    encoding: String,
    quality: f64,
}

impl Range {
    fn parse(written: &str) -> Self {
        let mut parts = written.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
        let mut range = Self { kind, proto: String::new(), encoding: String::new(), quality: 1.0 };
        for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "proto" => range.proto = value.to_owned(),
                "encoding" => range.encoding = value.to_ascii_lowercase(),
                // An unreadable quality means not acceptable.
                "q" => range.quality = value.parse().unwrap_or(0.0),
                _ => {}
            }
        }
        range
    }

    fn is_protobuf(&self) -> bool {
        self.kind == "application/vnd.google.protobuf"
            && self.proto == "io.prometheus.client.MetricFamily"
            && self.encoding == "delimited"
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn protobuf_is_for_who_asks_for_it_by_name_and_not_less_than_for_text() {
        const PROTOBUF: &str = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
        for (accept, form) in [
            // Prometheus 2.42 with native histograms, and without; 3 without.
            (
                format!("{PROTOBUF},application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
                Form::Protobuf,
            ),
            (
                "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1".into(),
                Form::Text,
            ),
            (format!("text/plain;version=0.0.4;q=0.5, {PROTOBUF};q=0.2,*/*;q=0.1"), Form::Text),
            (PROTOBUF.replace(';', " ; ").replace("delimited", "\"Delimited\""), Form::Protobuf),
            (PROTOBUF.replace("delimited", "text"), Form::Text),
            (PROTOBUF.replace("MetricFamily", "Metric"), Form::Text),
            (format!("{PROTOBUF};q=0"), Form::Text),
            (format!("{PROTOBUF};q=much"), Form::Text),
            (format!("{PROTOBUF};q=NaN"), Form::Text),
            ("*/*".into(), Form::Text),
            (";;=,,;q".into(), Form::Text),
        ] {
            let mut headers = HeaderMap::new();
            assert_eq!(Form::asked_in(&headers), Form::Text);
            headers.insert(ACCEPT, HeaderValue::try_from(&accept).unwrap());
            assert_eq!(Form::asked_in(&headers), form, "{accept}");
        }
    }
}
