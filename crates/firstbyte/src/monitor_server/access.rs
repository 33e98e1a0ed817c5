//! Access control: requests need the token; without a configured token, they must name this machine.
//!
//! Only this machine reaches a loopback address, but so do pages in its browser: through names that somebody points to
//! it (DNS rebinding), and with requests that need no preflight. So names other than this machine's are refused, and
//! submitted data must be JSON.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use firstbyte_probe::probe::{Secret, describe_io};
use http::header::{AUTHORIZATION, COOKIE, HOST};
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// Minimum number of characters in a token, too many to guess.
const FEWEST: usize = 16;
const MOST: usize = 1_000;

/// The secret that requests must carry.
#[derive(Debug)]
pub(crate) struct Token(Secret<String>);

/// Reason why a token cannot be used.
#[derive(Debug)]
pub(crate) enum TokenError {
    Io(io::Error),
    /// Too short, too long, or with characters that a header cannot carry.
    Unusable,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => f.write_str(&describe_io(error)),
            Self::Unusable => write!(f, "expected one word of {FEWEST} to {MOST} ASCII characters"),
        }
    }
}

impl Token {
    /// The secret itself.
    pub(crate) fn into_secret(self) -> Secret<String> {
        self.0
    }

    /// Reads a token from a file, with or without a line end.
    ///
    /// # Errors
    /// [`TokenError`].
    pub(crate) fn read(file: &Path) -> Result<Self, TokenError> {
        let mut text = String::new();
        File::open(file)
            .and_then(|file| file.take(MOST as u64 + 3).read_to_string(&mut text))
            .map_err(TokenError::Io)?;
        let token = text.trim_end_matches(['\n', '\r']);
        let usable = (FEWEST..=MOST).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        match usable {
            true => Ok(Self(Secret::new(token.to_owned()))),
            false => Err(TokenError::Unusable),
        }
    }

    /// Whether `headers` contain the token.
    pub(super) fn is_in(&self, headers: &HeaderMap) -> bool {
        let brought = headers.get(AUTHORIZATION).map_or(&[][..], |value| value.as_bytes());
        let (scheme, rest) = brought.split_at_checked(7).unwrap_or_default();
        scheme.eq_ignore_ascii_case(b"bearer ") && self.is(rest.trim_ascii())
    }

    /// Whether the token equals `word`.
    pub(super) fn is(&self, word: &[u8]) -> bool {
        verify_slices_are_equal(self.0.reveal().as_bytes(), word).is_ok()
    }

    /// Name and value of the cookie for people who have signed in. The token cannot be derived from it.
    ///
    /// Monitors on one host use different cookie names, because browsers separate cookies by host but not by port.
    pub(super) fn cookie(&self) -> (String, String) {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.reveal().as_bytes());
        let hex = |what: &[u8]| -> String {
            hmac::sign(&key, what).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let mut name = hex(b"firstbyte monitor: name of the page's cookie");
        name.truncate(8);
        (format!("firstbyte_{name}"), hex(b"firstbyte monitor: the page's cookie"))
    }

    /// Whether `headers` contain the token's cookie.
    pub(super) fn cookie_is_in(&self, headers: &HeaderMap) -> bool {
        let (name, value) = self.cookie();
        let pairs =
            headers.get_all(COOKIE).iter().flat_map(|all| all.as_bytes().split(|b| *b == b';'));
        pairs
            .filter_map(|pair| pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"="))
            .any(|brought| verify_slices_are_equal(value.as_bytes(), brought).is_ok())
    }
}

/// Whether a request names this machine by a name that nobody else can control.
pub(super) fn names_this_machine(uri: &Uri, headers: &HeaderMap) -> bool {
    let named = match (uri.authority(), headers.get(HOST)) {
        (Some(authority), _) => authority.clone(),
        (None, Some(host)) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => authority,
            Err(_) => return false,
        },
        // HTTP/1.0, which no browser uses.
        (None, None) => return true,
    };
    let host = named.host().trim_start_matches('[').trim_end_matches(']');
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    host.parse::<IpAddr>().is_ok() || host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn a_token_is_one_word_and_brought_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        for bad in ["", "short", "sixteen letters and spaces\n", "line\nof sixteen or more\n"] {
            std::fs::write(&path, bad).unwrap();
            assert!(matches!(Token::read(&path), Err(TokenError::Unusable)), "{bad:?}");
        }
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let token = Token::read(&path).unwrap();
        assert_eq!(format!("{token:?}").find("0123"), None, "{token:?}");
        for (brought, is_in) in [
            ("Bearer 0123456789abcdef", true),
            ("bearer 0123456789abcdef", true),
            ("Bearer 0123456789abcde", false),
            ("Bearer 0123456789abcdeg", false),
            ("Bearer 0123456789abcdef0", false),
            ("Basic 0123456789abcdef", false),
            ("Bearer", false),
            ("", false),
        ] {
            assert_eq!(token.is_in(&with(AUTHORIZATION, brought)), is_in, "{brought}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
        let (name, value) = token.cookie();
        assert!(!value.contains("0123456789abcdef") && value.len() == 64, "{value}");
        let brings = |cookie: &str| {
            let cookie = HeaderValue::try_from(cookie).unwrap();
            token.cookie_is_in(&HeaderMap::from_iter([(COOKIE, cookie)]))
        };
        assert!(brings(&format!("a=b; {name}={value}")) && brings(&format!("{name}={value}")));
        assert!(!brings(&format!("{name}={}", value.replace(['0', '1'], "2"))));
        assert!(
            !brings(&format!("{name}=")) && !brings("") && !brings(&format!("x{name}={value}"))
        );
        assert!(matches!(Token::read(&directory.path().join("gone")), Err(TokenError::Io(_))));
    }

    #[test]
    fn names_that_somebody_may_have_point_here_are_not_this_machines() {
        let uri = Uri::from_static("/metrics");
        for (host, is_own) in [
            ("127.0.0.1:9115", true),
            ("[::1]:9115", true),
            ("localhost", true),
            ("LOCALHOST:1", true),
            ("metrics.localhost", true),
            ("rebound.example.com:9115", false),
            ("127.0.0.1.example.com", false),
            ("localhost.example.com", false),
            ("not a host", false),
        ] {
            assert_eq!(names_this_machine(&uri, &with(HOST, host)), is_own, "{host}");
        }
        assert!(names_this_machine(&uri, &HeaderMap::new()));
        let absolute = Uri::from_static("http://rebound.example.com/metrics");
        assert!(!names_this_machine(&absolute, &with(HOST, "127.0.0.1")));
    }
}
