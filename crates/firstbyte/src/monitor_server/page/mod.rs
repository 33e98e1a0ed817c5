//! The page for people: its shell and the files that it loads. All data comes through the API.
//!
//! In: a path. Out: one of the files below, with a policy that allows no other resources, no inline code and no
//! framing.

mod sign_in;

use std::sync::OnceLock;

use bytes::Bytes;
use firstbyte_blackbox::Answer;
use firstbyte_report::html;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY};

use super::answers::of_kind;

pub(super) use sign_in::{may_write, sign_in, sign_in_form};

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/// Policy of report pages, which have their own policy for scripts.
const REPORT_POLICY: &str = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

/// The page itself, the same for all views that its script renders.
pub(super) fn shell() -> Answer {
    with_policy(of_kind(StatusCode::OK, HTML, Bytes::from_static(SHELL.as_bytes())), POLICY)
}

const SHELL: &str = include_str!("page.html");

/// A page rendered by the report code.
pub(super) fn report(status: StatusCode, page: String) -> Answer {
    with_policy(of_kind(status, HTML, Bytes::from(page)), REPORT_POLICY)
}

/// A file of the page, by its path.
pub(super) fn file(path: &str) -> Option<Answer> {
    static STYLE: OnceLock<Bytes> = OnceLock::new();
    let (kind, body) = match path {
        "/page/style.css" => {
            let style = || Bytes::from(html::style() + include_str!("page.css"));
            ("text/css; charset=utf-8", STYLE.get_or_init(style).clone())
        }
        "/page/main.js" => (SCRIPT, Bytes::from_static(include_bytes!("main.js"))),
        "/page/base.js" => (SCRIPT, Bytes::from_static(include_bytes!("base.js"))),
        "/page/period.js" => (SCRIPT, Bytes::from_static(include_bytes!("period.js"))),
        "/page/chart.js" => (SCRIPT, Bytes::from_static(include_bytes!("chart.js"))),
        "/page/spark.js" => (SCRIPT, Bytes::from_static(include_bytes!("spark.js"))),
        "/page/events.js" => (SCRIPT, Bytes::from_static(include_bytes!("events.js"))),
        "/page/overview.js" => (SCRIPT, Bytes::from_static(include_bytes!("overview.js"))),
        "/page/target.js" => (SCRIPT, Bytes::from_static(include_bytes!("target.js"))),
        "/page/icon.svg" => ("image/svg+xml", Bytes::from_static(include_bytes!("icon.svg"))),
        _ => return None,
    };
    Some(with_policy(of_kind(StatusCode::OK, kind, body), POLICY))
}

fn with_policy(mut answer: Answer, policy: &'static str) -> Answer {
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the files that `text` loads.
    fn loaded(text: &str) -> Vec<String> {
        let behind = |mark: &'static str| text.split(mark).skip(1);
        let names = behind("\"/page/").chain(behind("'./"));
        names.filter_map(|rest| Some(rest.split_once(['"', '\''])?.0.to_owned())).collect()
    }

    #[test]
    fn whatever_is_loaded_is_there_and_nothing_is_inline() {
        assert!(
            !SHELL.contains("<script>") && !SHELL.contains("<style") && !SHELL.contains("style=")
        );
        let mut found = loaded(SHELL);
        assert!(found.len() >= 3, "{found:?}");
        let mut seen = Vec::new();
        while let Some(name) = found.pop() {
            let answer =
                file(&format!("/page/{name}")).unwrap_or_else(|| panic!("{name} is not there"));
            let policy = answer.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(
                policy.contains("default-src 'none'") && !policy.contains("unsafe"),
                "{policy}"
            );
            let text = match name.as_str() {
                "main.js" => include_str!("main.js"),
                "overview.js" => include_str!("overview.js"),
                "target.js" => include_str!("target.js"),
                "events.js" => include_str!("events.js"),
                _ => "",
            };
            // Data from outside is inserted as text, never as markup.
            assert!(!text.contains("innerHTML") && !text.contains("insertAdjacentHTML"), "{name}");
            found.extend(loaded(text).into_iter().filter(|name| !seen.contains(name)));
            seen.push(name);
        }
        assert!(seen.contains(&"chart.js".to_owned()), "{seen:?}");
        assert!(file("/page/none.js").is_none());
    }
}
