//! Makes URLs safe to display: removes user names, passwords and the values of queries, which may grant access.

/// Placeholder for a secret.
pub const HIDDEN: &str = "<hidden>";

/// Hides the secrets in one URL, as typed or sent, perhaps without a scheme.
pub fn shown_url(text: &str) -> String {
    match text.split_once("://") {
        // A scheme consists of letters, and does not begin a query.
        Some((scheme, rest)) if !scheme.contains(['/', '?', '#']) => {
            format!("{scheme}://{}", without_secrets(rest))
        }
        _ => without_secrets(text),
    }
}

/// Hides the secrets of any URL within `text`. A comma or a space ends a URL.
pub fn shown_urls_within(text: &str) -> String {
    // The common case: no user and no query.
    if !text.contains(['@', '?', '#']) {
        return text.to_owned();
    }
    let pieces = text.split_inclusive([',', ' ']).map(|piece| {
        let (url, end) = match piece.char_indices().next_back() {
            Some((at, ',' | ' ')) => piece.split_at(at),
            _ => (piece, ""),
        };
        shown_url(url) + end
    });
    pieces.collect()
}

/// Removes the user, the values of the query's parameters and the fragment (which is never sent) from text that begins
/// with an authority (RFC 3986 §3.2).
fn without_secrets(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    let (before, query) = text.split_once('?').map_or((text, None), |(b, query)| (b, Some(query)));
    let end = before.find('/').unwrap_or(before.len());
    let mut shown = match before[..end].rfind('@') {
        Some(at) => format!("{HIDDEN}{}", &before[at..]),
        None => before.to_owned(),
    };
    if let Some(query) = query {
        let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
            Some((_, "")) => parameter.to_owned(),
            Some((name, _)) => format!("{name}={HIDDEN}"),
            None if parameter.is_empty() => String::new(),
            None => HIDDEN.to_owned(),
        });
        shown.push('?');
        shown += &parameters.collect::<Vec<_>>().join("&");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lets_somebody_in_is_left_out_wherever_a_url_has_it() {
        for (text, shown) in [
            ("me:x@a.test/", "<hidden>@a.test/"),
            ("https://me:x@y@a.test:99999/", "https://<hidden>@a.test:99999/"),
            ("ftp://x@a.test", "ftp://<hidden>@a.test"),
            ("a.test/me@x", "a.test/me@x"),
            ("https://a.test/?me@x", "https://a.test/?<hidden>"),
            ("a.test?k=x&y&z=#x", "a.test?k=<hidden>&<hidden>&z="),
            ("https://a.test/?r=https://me:x@b.test/?x", "https://a.test/?r=<hidden>"),
            ("a.test/#x?y", "a.test/"),
        ] {
            assert_eq!(shown_url(text), shown);
        }
        assert_eq!(shown_url("/there?me@x"), "/there?<hidden>");
        assert_eq!(shown_url("https://a/?b=c,d"), "https://a/?b=<hidden>");
        assert_eq!(
            shown_urls_within("tls=1.2,1.3 a:b.test/?x=y"),
            "tls=1.2,1.3 a:b.test/?x=<hidden>"
        );
        assert_eq!(
            shown_urls_within("a:https://x@a/?b=c,d:http://e/"),
            "a:https://<hidden>@a/?b=<hidden>,d:http://e/"
        );
    }
}
