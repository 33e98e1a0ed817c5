//! `%{url.*}` and `%{urle.*}`: parts of a URL as curl's URL API gives them.

use url::{Host, Url};

/// A part of a URL, by curl's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Fragment,
    Host,
    /// Used by mail protocols, never by http.
    Options,
    Password,
    Path,
    Port,
    Query,
    Scheme,
    User,
    ZoneId,
}

/// The given part of `url`; absent if the URL does not have it. The port defaults to the scheme's own, and a URL
/// without a scheme is taken to be http, as in curl.
pub(super) fn part(url: &str, which: Part) -> Option<String> {
    let url = match url.contains("://") {
        true => Url::parse(url),
        false => Url::parse(&format!("http://{url}")),
    }
    .ok()?;
    let present = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    match which {
        Part::Fragment => url.fragment().map(str::to_owned),
        Part::Host => url.host().map(|host| match host {
            Host::Ipv6(address) => format!("[{address}]"),
            other => other.to_string(),
        }),
        Part::Options | Part::ZoneId => None,
        Part::Password => url.password().map(str::to_owned),
        Part::Path => Some(url.path().to_owned()),
        Part::Port => url.port_or_known_default().map(|port| port.to_string()),
        Part::Query => url.query().map(str::to_owned),
        Part::Scheme => Some(url.scheme().to_owned()),
        Part::User => present(url.username()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_url() {
        let url = "https://joe:s%20c@[2001:db8::1]/a/b?q=1#top";
        let parts = [
            (Part::Scheme, Some("https")),
            (Part::User, Some("joe")),
            (Part::Password, Some("s%20c")),
            (Part::Host, Some("[2001:db8::1]")),
            (Part::Port, Some("443")),
            (Part::Path, Some("/a/b")),
            (Part::Query, Some("q=1")),
            (Part::Fragment, Some("top")),
            (Part::Options, None),
            (Part::ZoneId, None),
        ];
        for (which, expected) in parts {
            assert_eq!(part(url, which).as_deref(), expected, "{which:?}");
        }
        assert_eq!(part("localhost:8080/x", Part::Host).as_deref(), Some("localhost"));
        assert_eq!(part("localhost:8080/x", Part::Port).as_deref(), Some("8080"));
        assert_eq!(part("http://", Part::Host), None);
    }
}
