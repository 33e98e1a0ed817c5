//! URLs without users and passwords, for all that is shown: these let somebody in.

/// What stands for a secret.
pub(crate) const HIDDEN: &str = "<hidden>";

/// A URL as it was typed, perhaps without a scheme.
pub(crate) fn typed(text: &str) -> String {
    match text.contains("://") {
        true => without_users(text),
        false => authority(text),
    }
}

/// `text` without user and password in any URL within it.
pub(crate) fn without_users(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown += "://";
        shown += &authority(part);
    }
    shown
}

/// What begins with an authority (RFC 3986 §3.2), which ends where path, query or fragment begin.
fn authority(text: &str) -> String {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    match text[..end].rfind('@') {
        Some(at) => format!("{HIDDEN}{}", &text[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_left_out_wherever_a_url_has_one() {
        for (text, shown) in [
            ("me:x@a.test/", "<hidden>@a.test/"),
            ("https://me:x@y@a.test:99999/", "https://<hidden>@a.test:99999/"),
            ("ftp://x@a.test", "ftp://<hidden>@a.test"),
            ("a.test/me@x", "a.test/me@x"),
            ("https://a.test/?me@x", "https://a.test/?me@x"),
        ] {
            assert_eq!(typed(text), shown);
        }
        assert_eq!(without_users("/there?me@x"), "/there?me@x");
    }
}
