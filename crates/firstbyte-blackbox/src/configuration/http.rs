//! `http` of a module, including Prometheus' HTTP client settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use firstbyte_probe::probe::Secret;

use super::model::{AddressChoice, TlsSettings};
use super::pattern::Pattern;
use super::reader::{Fields, list, text};
use super::yaml::Mistake;

/// A rule about a header field of the response.
#[derive(Clone, Debug)]
pub struct HeaderRule {
    /// Name of the field.
    pub header: String,
    /// Pattern that the field's value is matched against.
    pub pattern: Pattern,
    /// Whether the field may be missing.
    pub allow_missing: bool,
}

/// A secret, or the file that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// As written in the configuration.
    Given(Secret<String>),
    /// In a file that is reread for each probe.
    File(PathBuf),
}

/// How the `Authorization` field is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorization {
    /// `basic_auth`: user, password.
    Basic(SecretSource, SecretSource),
    /// `authorization`, `bearer_token`: type, credentials.
    Scheme(String, SecretSource),
}

/// The `http` settings of a module.
#[derive(Clone, Debug)]
pub struct HttpModule {
    /// Accepted status codes; any 2xx if empty.
    pub valid_status_codes: Vec<i64>,
    /// Accepted HTTP versions; any if empty.
    pub valid_http_versions: Vec<String>,
    /// Which of the target's addresses to probe.
    pub address: AddressChoice,
    /// Kept only for the configuration page: it has no effect without a proxy.
    pub skip_resolve_phase_with_proxy: bool,
    /// Whether the probe fails if TLS is used.
    pub fail_if_ssl: bool,
    /// Whether the probe fails if TLS is not used.
    pub fail_if_not_ssl: bool,
    /// Request method; GET if empty.
    pub method: String,
    /// Header fields of the request.
    pub headers: BTreeMap<String, Secret<String>>,
    /// Header fields of the request, with the sources of their values.
    pub http_headers: BTreeMap<String, Vec<SecretSource>>,
    /// Patterns that fail the probe if the body matches.
    pub body_matches: Vec<Pattern>,
    /// Patterns that fail the probe if the body does not match.
    pub body_not_matches: Vec<Pattern>,
    /// Rules that fail the probe if the header field matches.
    pub header_matches: Vec<HeaderRule>,
    /// Rules that fail the probe if the header field does not match.
    pub header_not_matches: Vec<HeaderRule>,
    /// Request body.
    pub body: Secret<Vec<u8>>,
    /// File that contains the request body.
    pub body_file: Option<PathBuf>,
    /// Credentials of the request.
    pub authorization: Option<Authorization>,
    /// TLS settings.
    pub tls_config: TlsSettings,
    /// Whether redirects are followed.
    pub follow_redirects: bool,
    /// Whether HTTP/2 is offered.
    pub enable_http2: bool,
    /// Whether to use HTTP/3.
    pub enable_http3: bool,
    /// Content coding that the response body must be decoded from.
    pub compression: String,
    /// Limit on the size of the response body, in bytes; 0 means no limit.
    pub body_size_limit: u64,
}

impl Default for HttpModule {
    fn default() -> Self {
        Self {
            valid_status_codes: Vec::new(),
            valid_http_versions: Vec::new(),
            address: AddressChoice::usual(),
            skip_resolve_phase_with_proxy: false,
            fail_if_ssl: false,
            fail_if_not_ssl: false,
            method: String::new(),
            headers: BTreeMap::new(),
            http_headers: BTreeMap::new(),
            body_matches: Vec::new(),
            body_not_matches: Vec::new(),
            header_matches: Vec::new(),
            header_not_matches: Vec::new(),
            body: Secret::new(Vec::new()),
            body_file: None,
            authorization: None,
            tls_config: TlsSettings::default(),
            follow_redirects: true,
            enable_http2: true,
            enable_http3: false,
            compression: String::new(),
            body_size_limit: 0,
        }
    }
}

const NO_CEL: &str = "firstbyte does not evaluate CEL; use fail_if_body_matches_regexp";
const NO_PROXY: &str = "probes connect to their target directly";

impl HttpModule {
    pub(super) fn read(fields: Option<Fields>) -> Result<Self, Mistake> {
        let Some(mut fields) = fields else { return Ok(Self::default()) };
        let line = fields.line;
        fields.refuse("fail_if_body_json_matches_cel", NO_CEL)?;
        fields.refuse("fail_if_body_json_not_matches_cel", NO_CEL)?;
        refuse_proxies(&mut fields)?;
        fields.refuse(
            "oauth2",
            "firstbyte does not fetch tokens; use authorization or bearer_token_file",
        )?;
        let mut headers = BTreeMap::new();
        if let Some(inner) = fields.inner("headers")? {
            for entry in inner.rest().1 {
                let value = text(entry.value, &entry.key)?;
                headers.insert(entry.key, Secret::new(value));
            }
        }
        let mut module = Self {
            valid_status_codes: fields.numbers("valid_status_codes")?.unwrap_or_default(),
            valid_http_versions: fields.texts("valid_http_versions")?.unwrap_or_default(),
            address: AddressChoice::read(&mut fields, AddressChoice::usual())?,
            skip_resolve_phase_with_proxy: fields
                .flag("skip_resolve_phase_with_proxy")?
                .unwrap_or(false),
            fail_if_ssl: fields.flag("fail_if_ssl")?.unwrap_or(false),
            fail_if_not_ssl: fields.flag("fail_if_not_ssl")?.unwrap_or(false),
            method: fields.text("method")?.unwrap_or_default(),
            headers,
            http_headers: http_headers(&mut fields)?,
            body_matches: fields.patterns("fail_if_body_matches_regexp")?,
            body_not_matches: fields.patterns("fail_if_body_not_matches_regexp")?,
            header_matches: fields.each("fail_if_header_matches", HeaderRule::read)?,
            header_not_matches: fields.each("fail_if_header_not_matches", HeaderRule::read)?,
            body: Secret::new(fields.raw_bytes("body")?.unwrap_or_default()),
            body_file: fields.text("body_file")?.map(PathBuf::from),
            authorization: authorization(&mut fields)?,
            tls_config: TlsSettings::read(fields.inner("tls_config")?)?,
            follow_redirects: fields.flag("follow_redirects")?.unwrap_or(true),
            enable_http2: fields.flag("enable_http2")?.unwrap_or(true),
            enable_http3: fields.flag("enable_http3")?.unwrap_or(false),
            compression: fields.text("compression")?.unwrap_or_default(),
            body_size_limit: fields.bytes("body_size_limit")?.unwrap_or(0),
        };
        if let Some(no) = fields.flag("no_follow_redirects")? {
            module.follow_redirects = !no;
        }
        fields.end()?;
        module.check().map_err(|what| Mistake::new(line, what))?;
        module.check_request().map_err(|what| Mistake::unsupported(line, what))?;
        Ok(module)
    }

    /// Rejects requests that cannot be sent. blackbox_exporter notices only when it probes.
    fn check_request(&self) -> Result<(), String> {
        if !self.method.is_empty() && ::http::Method::from_bytes(self.method.as_bytes()).is_err() {
            return Err(format!("method {:?} is not one of HTTP", self.method));
        }
        for (name, value) in &self.headers {
            let sound = ::http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && ::http::HeaderValue::from_str(value.reveal()).is_ok();
            if !sound {
                return Err(format!(
                    "headers: {name:?} or its value is not valid in a header field"
                ));
            }
        }
        Ok(())
    }

    /// Rejects settings that exclude each other, in blackbox_exporter's words.
    fn check(&self) -> Result<(), String> {
        if !self.body.reveal().is_empty() && self.body_file.is_some() {
            return Err("setting body and body_file both are not allowed".into());
        }
        for (name, value) in &self.headers {
            if name.eq_ignore_ascii_case("accept-encoding")
                && !accepts(value.reveal(), &self.compression)
            {
                let value = value.reveal();
                let compression = &self.compression;
                return Err(format!(
                    r#"invalid configuration "{name}: {value}", "compression: {compression}""#
                ));
            }
        }
        let has = |version: &str| self.valid_http_versions.iter().any(|v| v == version);
        match self.enable_http3 {
            false if has("HTTP/3.0") => Err("HTTP/3 cannot be used as a valid HTTP version when \
                enable_http3 is false"
                .into()),
            true if has("HTTP/2.0") || has("HTTP/1.1") => Err("HTTP/3 and HTTP/2.0/1.1 cannot be \
                used together - only HTTP/3.0 is allowed when enable_http3 is true"
                .into()),
            true if self.enable_http2 => {
                Err("when enable_http3 is true, enable_http2 must be set to false".into())
            }
            _ => Ok(()),
        }
    }
}

/// Whether the `Accept-Encoding` value `value` also accepts `compression`.
fn accepts(value: &str, compression: &str) -> bool {
    if compression.is_empty() || value.is_empty() {
        return true;
    }
    let mut all: Vec<(&str, f64)> = value
        .split(',')
        .map(|part| match part.rsplit_once(';') {
            None => (part.trim(), 1.0),
            Some((name, quality)) => {
                let quality = quality.trim().trim_start_matches("q=").parse().unwrap_or(0.0);
                (name.trim(), quality)
            }
        })
        .collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.iter().find(|(name, _)| *name == compression || *name == "*").is_some_and(|(_, q)| *q > 0.0)
}

/// Refuses proxies. An empty `proxy_url` means no proxy.
fn refuse_proxies(fields: &mut Fields) -> Result<(), Mistake> {
    let line = fields.line;
    if fields.flag("proxy_from_environment")? == Some(true) {
        let what = format!("{}.proxy_from_environment is not supported: {NO_PROXY}", fields.path());
        return Err(Mistake::unsupported(line, what));
    }
    let url = fields.take("proxy_url");
    let has_empty_url = url.is_some();
    if let Some((node, path)) = url {
        let line = node.line;
        if !text(node, &path)?.is_empty() {
            let what = format!("{path} is not supported: {NO_PROXY}");
            return Err(Mistake::unsupported(line, what));
        }
    }
    let direct_hosts = fields.text("no_proxy")?.unwrap_or_default();
    if !direct_hosts.is_empty() && !has_empty_url {
        let what = "if no_proxy is configured, proxy_url must also be configured";
        return Err(Mistake::new(line, what));
    }
    let header = fields.inner("proxy_connect_header")?;
    if header.is_some_and(|header| !header.rest().1.is_empty()) {
        let what = "if proxy_connect_header is configured, proxy_url or proxy_from_environment \
                    must also be configured";
        return Err(Mistake::new(line, what));
    }
    Ok(())
}

impl HeaderRule {
    fn read(mut fields: Fields) -> Result<Self, Mistake> {
        let line = fields.line;
        let header = fields.text("header")?.unwrap_or_default();
        let pattern = fields.pattern("regexp")?.filter(|p| !p.written().is_empty());
        let allow_missing = fields.flag("allow_missing")?.unwrap_or(false);
        fields.end()?;
        if header.is_empty() {
            return Err(Mistake::new(line, "header name must be set for HTTP header matchers"));
        }
        let pattern = pattern
            .ok_or_else(|| Mistake::new(line, "regexp must be set for HTTP header matchers"))?;
        Ok(Self { header, pattern, allow_missing })
    }
}

fn secret(
    fields: &mut Fields,
    key: &'static str,
    file_key: &'static str,
) -> Result<Option<SecretSource>, Mistake> {
    let (given, file) = (fields.text(key)?, fields.text(file_key)?);
    if given.is_some() && file.is_some() {
        let what =
            format!("{}: at most one of {key} & {file_key} must be configured", fields.path());
        return Err(Mistake::new(fields.line, what));
    }
    Ok(given
        .map(|given| SecretSource::Given(Secret::new(given)))
        .or_else(|| file.map(|file| SecretSource::File(file.into()))))
}

fn authorization(fields: &mut Fields) -> Result<Option<Authorization>, Mistake> {
    let line = fields.line;
    let empty = || SecretSource::Given(Secret::new(String::new()));
    let mut found = Vec::new();
    if let Some(mut basic) = fields.inner("basic_auth")? {
        basic.refuse("username_ref", "firstbyte has no secret manager; use a file")?;
        basic.refuse("password_ref", "firstbyte has no secret manager; use a file")?;
        let user = secret(&mut basic, "username", "username_file")?.unwrap_or_else(empty);
        let password = secret(&mut basic, "password", "password_file")?.unwrap_or_else(empty);
        basic.end()?;
        found.push(Authorization::Basic(user, password));
    }
    if let Some(mut own) = fields.inner("authorization")? {
        own.refuse("credentials_ref", "firstbyte has no secret manager; use a file")?;
        let scheme = own.text("type")?.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty());
        let scheme = scheme.unwrap_or_else(|| "Bearer".into());
        let credentials =
            secret(&mut own, "credentials", "credentials_file")?.unwrap_or_else(empty);
        own.end()?;
        if scheme.eq_ignore_ascii_case("basic") {
            let what = r#"authorization type cannot be set to "basic", use "basic_auth" instead"#;
            return Err(Mistake::new(line, what));
        }
        found.push(Authorization::Scheme(scheme, credentials));
    }
    if let Some(token) = secret(fields, "bearer_token", "bearer_token_file")? {
        found.push(Authorization::Scheme("Bearer".into(), token));
    }
    if found.len() > 1 {
        let what =
            "at most one of basic_auth, oauth2, bearer_token & authorization must be configured";
        return Err(Mistake::new(line, what));
    }
    Ok(found.pop())
}

fn http_headers(fields: &mut Fields) -> Result<BTreeMap<String, Vec<SecretSource>>, Mistake> {
    let mut all = BTreeMap::new();
    let Some(inner) = fields.inner("http_headers")? else { return Ok(all) };
    for entry in inner.rest().1 {
        if ::http::HeaderName::from_bytes(entry.key.as_bytes()).is_err() {
            let what = format!("http_headers: {:?} is not a valid header field name", entry.key);
            return Err(Mistake::new(entry.line, what));
        }
        let mut values = Fields::new(entry.value, format!("http_headers.{}", entry.key))?;
        let mut sources = Vec::new();
        for key in ["values", "secrets"] {
            if let Some((node, path)) = values.take(key) {
                let given = list(node, &path, text)?;
                sources.extend(given.into_iter().map(|v| SecretSource::Given(Secret::new(v))));
            }
        }
        let files = values.texts("files")?.unwrap_or_default();
        sources.extend(files.into_iter().map(|file| SecretSource::File(file.into())));
        values.end()?;
        all.insert(entry.key, sources);
    }
    Ok(all)
}
