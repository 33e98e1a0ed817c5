//! The request of a probe, adapted from hop to hop.

use std::time::Duration;

use bytes::Bytes;
use firstbyte_probe::probe::options::{
    HeaderChange, HttpOptions, HttpVersion, Options, ResolverChoice,
};
use firstbyte_probe::probe::{
    MOST_BODY, MOST_TEXT, Secret, Target, describe_io, read_file, read_text,
};
use http::Method;
use http::header::{self, HeaderName, HeaderValue};
use url::Url;

use crate::Compat;
use crate::configuration::{Authorization, HttpModule, SecretSource, encode_base64};
use crate::probe::certificates::tls_options;

/// A request, and what remains of it on the next hop.
pub(super) struct Request {
    method: Method,
    body: Option<Secret<Bytes>>,
    fields: Vec<(HeaderName, Secret<HeaderValue>)>,
    user_agent: String,
    /// `Host` from the configuration, or from the `hostname` parameter of the request to the exporter.
    host: Option<String>,
    cookies: Option<Secret<HeaderValue>>,
    /// Whether a redirect to an absolute URL was followed: from then on, each host's own name is used.
    is_elsewhere: bool,
}

/// The user and password in a URL.
pub(super) fn credentials_of(url: &Url) -> Option<Secret<String>> {
    let (user, password) = (url.username(), url.password());
    if user.is_empty() && password.is_none() {
        return None;
    }
    let plain = |text: &str| percent_decoded(text);
    Some(Secret::new(format!("{}:{}", plain(user), plain(password.unwrap_or_default()))))
}

fn percent_decoded(text: &str) -> String {
    let query = format!("x={}", text.replace('+', "%2B"));
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}

fn value(source: &SecretSource) -> Result<Secret<String>, String> {
    match source {
        SecretSource::Given(value) => Ok(value.clone()),
        SecretSource::File(path) => read_text(path, MOST_TEXT)
            .map(|text| Secret::new(text.trim().to_owned()))
            .map_err(|error| format!("{}: {}", path.display(), describe_io(&error))),
    }
}

fn field_value(text: &str, what: &str) -> Result<Secret<HeaderValue>, String> {
    let value = HeaderValue::from_str(text);
    value
        .map(Secret::new)
        .map_err(|_| format!("the value of {what} is not a valid header field value"))
}

fn basic(pair: &str) -> String {
    format!("Basic {}", encode_base64(pair.as_bytes()))
}

impl Request {
    pub(super) fn new(
        module: &HttpModule,
        hostname: &str,
        credentials: Option<Secret<String>>,
        compat: Compat,
    ) -> Result<Self, String> {
        let mut fields = Vec::new();
        let mut host = (!hostname.is_empty()).then(|| hostname.to_owned());
        let mut user_agent = compat.user_agent();
        for (name, value) in &module.headers {
            let name: HeaderName =
                name.parse().map_err(|_| format!("{name:?} is not a valid header field name"))?;
            if name == header::HOST {
                host = Some(value.reveal().clone());
            } else if name == header::USER_AGENT {
                user_agent.clone_from(value.reveal());
            } else {
                let value = field_value(value.reveal(), name.as_str())?;
                fields.push((name, value));
            }
        }
        for (name, sources) in &module.http_headers {
            let name: HeaderName =
                name.parse().map_err(|_| format!("{name:?} is not a valid header field name"))?;
            for source in sources {
                let value = field_value(value(source)?.reveal(), name.as_str())?;
                fields.push((name.clone(), value));
            }
        }
        if !fields.iter().any(|(name, _)| *name == header::AUTHORIZATION) {
            let authorization = match &module.authorization {
                Some(Authorization::Basic(user, password)) => {
                    Some(basic(&format!("{}:{}", value(user)?.reveal(), value(password)?.reveal())))
                }
                Some(Authorization::Scheme(scheme, credentials)) => {
                    Some(format!("{scheme} {}", value(credentials)?.reveal()))
                }
                None => credentials.map(|pair| basic(pair.reveal())),
            };
            if let Some(text) = authorization {
                fields.push((header::AUTHORIZATION, field_value(&text, "Authorization")?));
            }
        }
        let body = match &module.body_file {
            Some(path) => Some(
                read_file(path, MOST_BODY)
                    .map(Bytes::from)
                    .map_err(|error| format!("{}: {}", path.display(), describe_io(&error)))?,
            ),
            None => Some(module.body.reveal())
                .filter(|body| !body.is_empty())
                .map(|body| Bytes::from(body.clone())),
        };
        let method = if module.method.is_empty() { "GET" } else { &module.method };
        Ok(Self {
            method: Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?,
            body: body.map(Secret::new),
            fields,
            user_agent,
            host,
            cookies: None,
            is_elsewhere: false,
        })
    }

    pub(super) fn set_cookies(&mut self, cookies: Option<String>) {
        let value = cookies.and_then(|text| HeaderValue::from_str(&text).ok());
        self.cookies = value.map(Secret::new);
    }

    /// Adapts the request to a redirect (RFC 9110 §15.4), without `Authorization` and `Cookie` for another origin.
    pub(super) fn redirected(
        &mut self,
        status: u16,
        from: &Target,
        to: &Target,
        is_relative: bool,
    ) {
        if matches!(status, 301..=303) {
            if self.method != Method::HEAD {
                self.method = Method::GET;
            }
            self.body = None;
            self.fields.retain(|(name, _)| *name != header::CONTENT_TYPE);
        }
        let same_origin = from.url.origin() == to.url.origin();
        if !same_origin {
            let secret = [header::AUTHORIZATION, header::COOKIE];
            self.fields.retain(|(name, _)| !secret.contains(name));
        }
        if !is_relative {
            self.host = None;
            self.is_elsewhere = true;
        }
    }

    /// The server name for a TLS handshake; configured names apply only to the first host.
    pub(super) fn server_name(&self, module: &HttpModule, host: &str) -> String {
        let given = &module.tls_config.server_name;
        if self.is_elsewhere {
            return host.to_owned();
        }
        if !given.is_empty() {
            return given.clone();
        }
        let named = self.host.as_deref().map(|host| host.rsplit_once(':').map_or(host, |(h, _)| h));
        named.filter(|name| !name.is_empty()).unwrap_or(host).to_owned()
    }

    pub(super) fn options(&self, module: &HttpModule, target: &Target, left: Duration) -> Options {
        let version = match (module.enable_http3, module.enable_http2 && target.tls) {
            (true, _) => HttpVersion::Http3,
            (false, true) => HttpVersion::Negotiate,
            (false, false) => HttpVersion::Http1,
        };
        let mut headers: Vec<HeaderChange> =
            [header::ACCEPT, header::ACCEPT_ENCODING, header::CONTENT_TYPE]
                .map(HeaderChange::Remove)
                .into();
        if let Some(host) = self.host.as_deref().and_then(|host| HeaderValue::from_str(host).ok()) {
            headers.push(HeaderChange::Set(header::HOST, Secret::new(host)));
        }
        let own = self.fields.iter().cloned();
        let cookies = self.cookies.iter().cloned().map(|value| (header::COOKIE, value));
        headers.extend(own.chain(cookies).map(|(name, value)| HeaderChange::Set(name, value)));
        Options {
            resolver: ResolverChoice::System,
            tls: tls_options(&module.tls_config),
            http: HttpOptions {
                version,
                method: self.method.clone(),
                method_forced: true,
                headers,
                body: self.body.clone(),
                user_agent: self.user_agent.clone(),
                ..HttpOptions::default()
            },
            connect_timeout: left,
            max_time: Some(left),
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn basic_authorization_is_base64() {
        for (pair, text) in [
            ("Aladdin:open sesame", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),
            ("a:b", "Basic YTpi"),
            ("ab:c", "Basic YWI6Yw=="),
        ] {
            assert_eq!(basic(pair), text);
        }
        let url = Url::parse("https://me:p%40ss@example.com/").unwrap();
        assert_eq!(credentials_of(&url).unwrap().reveal(), "me:p@ss");
    }
}
