//! Lets people sign in with the token, since browsers send no `Authorization`: a form takes it once, then a cookie
//! derived from it is used.
//!
//! The cookie is not the token: it works only here, and becomes invalid when the token changes. No page's script can
//! read it, and other sites' requests do not carry it.

use std::time::Duration;

use bytes::Bytes;
use firstbyte_blackbox::Answer;
use firstbyte_report::html::escape;
use http::header::{HOST, HeaderValue, LOCATION, ORIGIN, SET_COOKIE, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{HTML, POLICY, with_policy};
use crate::monitor_server::access::Token;
use crate::monitor_server::answers::{BEARER, Refusal, of_kind, text};

const MOST_BYTES: usize = 8 * 1024;
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Lifetime of the cookie in seconds: a month.
const COOKIE_SECONDS: u32 = 30 * 86_400;

/// The sign-in form for a request for `next` without a token.
pub(in super::super) fn sign_in_form(next: &str, is_wrong: bool) -> Answer {
    let wrong = match is_wrong {
        true => "<p class=\"wrong\" role=\"alert\">Wrong token.</p>",
        false => "",
    };
    let page = include_str!("sign_in.html")
        .replace("{{wrong}}", wrong)
        .replace("{{next}}", &escape(&local(next)));
    let status = if is_wrong { StatusCode::FORBIDDEN } else { StatusCode::UNAUTHORIZED };
    let mut answer = with_policy(of_kind(status, HTML, Bytes::from(page)), POLICY);
    if !is_wrong {
        answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(BEARER));
    }
    answer
}

/// Handles the submitted form: exchanges the token for a cookie.
pub(in super::super) async fn sign_in(
    token: &Token,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Answer, Refusal> {
    may_write(headers)?;
    let cut = || Refusal::Bad("the form is incomplete or too long".to_owned());
    let sent = timeout(BODY_PATIENCE, Limited::new(body, MOST_BYTES).collect()).await;
    let sent = sent.map_err(|_| cut())?.map_err(|_| cut())?.to_bytes();
    let field = |name: &str| {
        let mut fields = url::form_urlencoded::parse(&sent);
        fields.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    };
    let next = local(&field("next").unwrap_or_default());
    if !field("token").is_some_and(|said| token.is(said.trim().as_bytes())) {
        return Ok(sign_in_form(&next, true));
    }
    let mut answer = text(StatusCode::SEE_OTHER, String::new());
    let (name, value) = token.cookie();
    let cookie =
        format!("{name}={value}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Strict");
    let bad = |_| Refusal::Bad("\"next\" is not a path".to_owned());
    let headers = answer.headers_mut();
    headers.insert(SET_COOKIE, HeaderValue::try_from(cookie).map_err(bad)?);
    headers.insert(LOCATION, HeaderValue::try_from(next).map_err(bad)?);
    Ok(answer)
}

/// `next` if it is a path of this server, with its query; otherwise the first view.
fn local(next: &str) -> String {
    let is_local = next.starts_with('/')
        && !next.starts_with("//")
        && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { next.to_owned() } else { "/".to_owned() }
}

/// Checks that a modifying request comes from a page of this server, because browsers attach cookies to all requests.
///
/// # Errors
/// The request comes from elsewhere, or its source is unknown.
pub(in super::super) fn may_write(headers: &HeaderMap) -> Result<(), Refusal> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let origin = headers.get(ORIGIN).and_then(|origin| Uri::try_from(origin.as_bytes()).ok());
    let host = headers.get(HOST).and_then(|host| Authority::try_from(host.as_bytes()).ok());
    let same = match site {
        Some(site) => site == b"same-origin",
        None => origin.as_ref().and_then(Uri::authority).is_some_and(|o| Some(o) == host.as_ref()),
    };
    match same {
        true => Ok(()),
        false => {
            let what = "with a cookie, this is only possible from the monitor's own page: send the \
                        token instead";
            Err(Refusal::Because(StatusCode::FORBIDDEN, what.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| {
                (http::HeaderName::from_static(name), HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn what_changes_something_comes_from_its_own_page() {
        for (fields, may) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "cross-site")], false),
            (&[("sec-fetch-site", "same-site"), ("origin", "http://a:1"), ("host", "a:1")], false),
            (&[("origin", "http://monitor:9115"), ("host", "monitor:9115")], true),
            (&[("origin", "http://monitor:9116"), ("host", "monitor:9115")], false),
            (&[("origin", "null"), ("host", "monitor:9115")], false),
            (&[("host", "monitor:9115")], false),
        ] {
            assert_eq!(may_write(&headers(fields)).is_ok(), may, "{fields:?}");
        }
    }

    #[test]
    fn nobody_is_sent_elsewhere() {
        assert_eq!(local("/target?target=a%20b"), "/target?target=a%20b");
        for elsewhere in ["", "//example.com/", "/\\example.com", "https://example.com/", "/a\r\nb"]
        {
            assert_eq!(local(elsewhere), "/", "{elsewhere:?}");
        }
        let form = sign_in_form("/\"><script>", false);
        assert_eq!(form.status(), StatusCode::UNAUTHORIZED);
    }
}
