//! Responses of the monitor's server.

use bytes::Bytes;
use firstbyte_blackbox::Answer;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde::Serialize;

/// Challenge that asks for a token.
pub(super) const BEARER: &str = "Bearer realm=\"firstbyte\"";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Reason why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request is wrong, with an explanation (status 400).
    Bad(String),
    /// Another status than 400, with an explanation.
    Because(StatusCode, String),
    /// The method is not allowed; these are.
    Method(&'static str),
}

impl Refusal {
    pub(super) fn unavailable(why: impl ToString) -> Self {
        Self::Because(StatusCode::SERVICE_UNAVAILABLE, why.to_string())
    }

    pub(super) fn answer(self) -> Answer {
        let (status, why) = match &self {
            Self::Bad(why) => (StatusCode::BAD_REQUEST, why.clone()),
            Self::Because(status, why) => (*status, why.clone()),
            Self::Method(methods) => {
                (StatusCode::METHOD_NOT_ALLOWED, format!("this path accepts {methods}"))
            }
        };
        let mut answer = text(status, format!("{why}\n"));
        match self {
            Self::Method(methods) => {
                answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
            }
            Self::Because(StatusCode::UNAUTHORIZED, _) => {
                let bearer = HeaderValue::from_static(BEARER);
                answer.headers_mut().insert(WWW_AUTHENTICATE, bearer);
            }
            _ => {}
        }
        answer
    }
}

pub(super) fn text(status: StatusCode, text: String) -> Answer {
    of_kind(status, PLAIN, Bytes::from(text))
}

pub(super) fn of_kind(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}

/// A response with JSON that is already text.
pub(super) fn json_text(status: StatusCode, mut json: String) -> Answer {
    json.push('\n');
    of_kind(status, "application/json", Bytes::from(json))
}

pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Result<Answer, Refusal> {
    serde_json::to_string(value)
        .map(|json| json_text(status, json))
        .map_err(|error| Refusal::Because(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))
}
