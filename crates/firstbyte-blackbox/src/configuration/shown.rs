//! Prints a configuration as YAML, including default values; secrets are `<secret>`.

use super::Configuration;
use super::go_values::{encode_base64, print_bytes, print_duration};
use super::http::{Authorization, HeaderRule, HttpModule, SecretSource};
use super::model::{
    AddressChoice, DnsModule, GrpcModule, IcmpModule, Module, RecordRules, TcpModule, TlsSettings,
};
use super::pattern::Pattern;

/// Placeholder for a secret.
const SECRET: &str = "<secret>";
/// Request fields that contain credentials.
const SECRET_FIELDS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];

/// Indented lines.
#[derive(Default)]
struct Lines {
    text: String,
    depth: usize,
    /// Whether the next line begins a list item.
    item: bool,
}

impl Lines {
    fn line(&mut self, text: &str) {
        let mut indent = "  ".repeat(self.depth);
        if std::mem::take(&mut self.item) {
            indent.truncate(indent.len().saturating_sub(2));
            indent += "- ";
        }
        self.text += &format!("{indent}{text}\n");
    }

    fn value(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.line(&format!("{key}: {}", scalar(value)));
        }
    }

    fn bytes(&mut self, key: &str, value: &[u8]) {
        match std::str::from_utf8(value) {
            Ok(text) => self.value(key, text),
            Err(_) => self.line(&format!("{key}: !!binary {}", encode_base64(value))),
        }
    }

    fn flag(&mut self, key: &str, value: bool) {
        if value {
            self.line(&format!("{key}: true"));
        }
    }

    fn number(&mut self, key: &str, value: i64) {
        if value != 0 {
            self.line(&format!("{key}: {value}"));
        }
    }

    fn list<'a>(&mut self, key: &str, values: impl IntoIterator<Item = &'a str>) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_some() {
            self.line(&format!("{key}:"));
            for value in values {
                self.line(&format!("- {}", scalar(value)));
            }
        }
    }

    fn patterns(&mut self, key: &str, values: &[Pattern]) {
        self.list(key, values.iter().map(Pattern::written));
    }

    /// Writes a mapping, or nothing if it is empty.
    fn inner(&mut self, key: &str, inner: impl FnOnce(&mut Self)) {
        let before = self.text.len();
        self.line(&format!("{key}:"));
        let begun = self.text.len();
        self.depth += 1;
        inner(self);
        self.depth -= 1;
        if self.text.len() == begun {
            self.text.truncate(before);
        }
    }

    fn items<T>(&mut self, key: &str, all: &[T], mut each: impl FnMut(&mut Self, &T)) {
        if all.is_empty() {
            return;
        }
        self.line(&format!("{key}:"));
        for one in all {
            self.depth += 1;
            self.item = true;
            let before = self.text.len();
            each(self, one);
            if self.text.len() == before {
                self.line("{}");
            }
            self.depth -= 1;
        }
    }
}

/// Prints a scalar, in quotes if it would otherwise be read as something else.
fn scalar(text: &str) -> String {
    let reserved = ["true", "false", "yes", "no", "on", "off", "null", "~", "y", "n"];
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./<>:=+* ".contains(c))
        && text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric() || "/<_".contains(c))
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !reserved.iter().any(|word| text.eq_ignore_ascii_case(word))
        && text.parse::<f64>().is_err();
    if plain {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            '\n' => quoted += "\\n",
            '\t' => quoted += "\\t",
            '\r' => quoted += "\\r",
            c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

pub(super) fn configuration(configuration: &Configuration) -> String {
    let mut lines = Lines::default();
    lines.line("modules:");
    lines.depth += 1;
    for (name, one) in &configuration.modules {
        lines.line(&format!("{}:", scalar(name)));
        lines.depth += 1;
        fields(&mut lines, one);
        lines.depth -= 1;
    }
    for (name, mistake) in &configuration.refused {
        // A name may contain any characters.
        let text = format!("# {} is refused: {mistake}", scalar(name));
        lines.line(&text.replace(char::is_control, "?"));
    }
    lines.text
}

pub(super) fn module(module: &Module) -> String {
    let mut lines = Lines::default();
    fields(&mut lines, module);
    lines.text
}

fn fields(lines: &mut Lines, module: &Module) {
    lines.value("prober", &module.prober);
    if module.timeout_ns != 0 {
        lines.value("timeout", &print_duration(module.timeout_ns));
    }
    lines.inner("http", |lines| http(lines, &module.http));
    lines.inner("tcp", |lines| tcp(lines, &module.tcp));
    lines.inner("icmp", |lines| icmp(lines, &module.icmp));
    lines.inner("dns", |lines| dns(lines, &module.dns));
    if let Some(of_grpc) = &module.grpc {
        lines.inner("grpc", |lines| grpc(lines, of_grpc));
    }
    if let Some(of_unix) = &module.unix {
        lines.inner("unix", |lines| tcp(lines, of_unix));
    }
}

fn address(lines: &mut Lines, choice: &AddressChoice) {
    lines.value("preferred_ip_protocol", &choice.preferred);
    lines.flag("ip_protocol_fallback", choice.fallback);
}

fn tls(lines: &mut Lines, settings: &TlsSettings) {
    lines.inner("tls_config", |lines| {
        let files = [
            ("ca_file", &settings.ca_file),
            ("cert_file", &settings.cert_file),
            ("key_file", &settings.key_file),
        ];
        for (key, file) in files {
            if let Some(file) = file {
                lines.value(key, &file.to_string_lossy());
            }
        }
        lines.value("server_name", &settings.server_name);
        // As in blackbox_exporter, this is always printed if any TLS setting is set.
        if *settings != TlsSettings::default() {
            lines.line(&format!("insecure_skip_verify: {}", settings.insecure_skip_verify));
        }
        lines.value("min_version", settings.min_version.as_deref().unwrap_or_default());
        lines.value("max_version", settings.max_version.as_deref().unwrap_or_default());
    });
}

fn http(lines: &mut Lines, http: &HttpModule) {
    let codes: Vec<String> = http.valid_status_codes.iter().map(i64::to_string).collect();
    if !codes.is_empty() {
        lines.line("valid_status_codes:");
        for code in codes {
            lines.line(&format!("- {code}"));
        }
    }
    lines.list("valid_http_versions", http.valid_http_versions.iter().map(String::as_str));
    address(lines, &http.address);
    lines.flag("skip_resolve_phase_with_proxy", http.skip_resolve_phase_with_proxy);
    lines.flag("fail_if_ssl", http.fail_if_ssl);
    lines.flag("fail_if_not_ssl", http.fail_if_not_ssl);
    lines.value("method", &http.method);
    lines.inner("headers", |lines| {
        for (name, value) in &http.headers {
            let is_secret = SECRET_FIELDS.iter().any(|known| name.eq_ignore_ascii_case(known));
            let value = if is_secret { SECRET } else { value.reveal() };
            lines.line(&format!("{}: {}", scalar(name), scalar(value)));
        }
    });
    lines.patterns("fail_if_body_matches_regexp", &http.body_matches);
    lines.patterns("fail_if_body_not_matches_regexp", &http.body_not_matches);
    let rule = |lines: &mut Lines, rule: &HeaderRule| {
        lines.value("header", &rule.header);
        lines.value("regexp", rule.pattern.written());
        lines.flag("allow_missing", rule.allow_missing);
    };
    lines.items("fail_if_header_matches", &http.header_matches, rule);
    lines.items("fail_if_header_not_matches", &http.header_not_matches, rule);
    // A body may contain a password.
    lines.value("body", if http.body.reveal().is_empty() { "" } else { SECRET });
    if let Some(file) = &http.body_file {
        lines.value("body_file", &file.to_string_lossy());
    }
    if let Some(authorization) = &http.authorization {
        who(lines, authorization);
    }
    tls(lines, &http.tls_config);
    lines.line(&format!("follow_redirects: {}", http.follow_redirects));
    lines.line(&format!("enable_http2: {}", http.enable_http2));
    lines.inner("http_headers", |lines| {
        for (name, sources) in &http.http_headers {
            lines.inner(&scalar(name), |lines| {
                let secrets = sources.iter().filter(|s| matches!(s, SecretSource::Given(_)));
                lines.list("secrets", secrets.map(|_| SECRET));
                let files = sources.iter().filter_map(|source| match source {
                    SecretSource::File(file) => file.to_str(),
                    SecretSource::Given(_) => None,
                });
                lines.list("files", files);
            });
        }
    });
    lines.value("compression", &http.compression);
    if http.body_size_limit > 0 {
        lines.value("body_size_limit", &print_bytes(http.body_size_limit));
    }
    lines.flag("enable_http3", http.enable_http3);
}

fn who(lines: &mut Lines, authorization: &Authorization) {
    let secret = |lines: &mut Lines, key: &str, source: &SecretSource, shown: bool| match source {
        SecretSource::Given(value) if shown => lines.value(key, value.reveal()),
        SecretSource::Given(_) => lines.value(key, SECRET),
        SecretSource::File(file) => lines.value(&format!("{key}_file"), &file.to_string_lossy()),
    };
    match authorization {
        Authorization::Basic(user, password) => lines.inner("basic_auth", |lines| {
            secret(lines, "username", user, true);
            secret(lines, "password", password, false);
        }),
        Authorization::Scheme(scheme, credentials) => lines.inner("authorization", |lines| {
            lines.value("type", scheme);
            secret(lines, "credentials", credentials, false);
        }),
    }
}

fn tcp(lines: &mut Lines, tcp: &TcpModule) {
    address(lines, &tcp.address);
    lines.value("source_ip_address", &tcp.source);
    lines.items("query_response", &tcp.query_response, |lines, step| {
        if let Some(expect) = &step.expect {
            lines.value("expect", expect.written());
        }
        lines.bytes("expect_bytes", &step.expect_bytes);
        lines.items(
            "labels",
            step.labels.as_deref().unwrap_or_default(),
            |lines, (name, value)| {
                lines.value("name", name);
                lines.value("value", value);
            },
        );
        lines.bytes("send", &step.send);
        lines.flag("starttls", step.starttls);
    });
    lines.flag("tls", tcp.tls);
    tls(lines, &tcp.tls_config);
}

fn icmp(lines: &mut Lines, icmp: &IcmpModule) {
    address(lines, &icmp.address);
    lines.value("source_ip_address", &icmp.source);
    lines.number("payload_size", icmp.payload_size.into());
    lines.flag("dont_fragment", icmp.dont_fragment);
    lines.number("ttl", icmp.ttl.into());
}

fn dns(lines: &mut Lines, dns: &DnsModule) {
    address(lines, &dns.address);
    lines.flag("dns_over_tls", dns.over_tls);
    tls(lines, &dns.tls_config);
    lines.value("source_ip_address", &dns.source);
    lines.value("transport_protocol", &dns.transport);
    lines.value("query_class", &dns.class);
    lines.value("query_name", &dns.name);
    lines.value("query_type", &dns.record_type);
    lines.flag("recursion_desired", dns.recursion);
    lines.list("valid_rcodes", dns.valid_rcodes.iter().flatten().map(String::as_str));
    let sections = ["validate_answer_rrs", "validate_authority_rrs", "validate_additional_rrs"];
    for (key, rules) in sections.into_iter().zip(&dns.rules) {
        lines.inner(key, |lines| records(lines, rules));
    }
}

fn records(lines: &mut Lines, rules: &RecordRules) {
    lines.patterns("fail_if_matches_regexp", &rules.if_matches);
    lines.patterns("fail_if_all_match_regexp", &rules.if_all_match);
    lines.patterns("fail_if_not_matches_regexp", &rules.if_not_matches);
    lines.patterns("fail_if_none_matches_regexp", &rules.if_none_matches);
}

fn grpc(lines: &mut Lines, grpc: &GrpcModule) {
    lines.value("service", &grpc.service);
    lines.flag("tls", grpc.tls);
    tls(lines, &grpc.tls_config);
    address(lines, &grpc.address);
    lines.inner("metadata", |lines| {
        for name in grpc.metadata.keys() {
            lines.line(&format!("{}:", scalar(name)));
            lines.line(&format!("- {SECRET}"));
        }
    });
}
