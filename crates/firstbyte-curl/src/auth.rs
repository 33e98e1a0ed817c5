//! The values of `Authorization`: Basic, Bearer and Digest (RFC 7616), as curl writes them.
//!
//! Input: credentials, and the challenges of a 401 response. Output: which scheme to answer with, and the answer. It
//! does not decide when credentials are sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha2::{Digest, Sha256};

use crate::settings::AuthChoice;

/// The value for a name and a password.
pub fn basic(name: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))
}

/// The value for a token.
pub fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// How to answer a 401 response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthScheme {
    /// With name and password.
    Basic,
    /// With a hash of them and of the challenge.
    Digest(Box<DigestChallenge>),
}

/// The best scheme that is allowed and offered: Digest, else Basic.
///
/// As in curl, the first Digest challenge counts, and one that cannot be answered ends authentication, even if the
/// server offers Basic too.
pub fn choose(www_authenticate: &[&str], allowed: AuthChoice) -> Option<AuthScheme> {
    let allows_digest = allowed.any || allowed.digest;
    let allows_basic = allowed.any || allowed.basic || !allowed.digest;
    let mut digest = None;
    let mut offers_basic = false;
    for offer in www_authenticate.iter().flat_map(|value| list_offers(value)) {
        if let Some(parameters) = strip_scheme(offer, "Digest") {
            if digest.is_none() {
                digest = Some(DigestChallenge::parse(parameters)?);
            }
        } else {
            offers_basic |= strip_scheme(offer, "Basic").is_some();
        }
    }
    match digest {
        Some(challenge) if allows_digest => Some(AuthScheme::Digest(Box::new(challenge))),
        _ => (allows_basic && offers_basic).then_some(AuthScheme::Basic),
    }
}

/// Where a challenge may begin: at the start and after each comma, which is where curl looks.
fn list_offers(value: &str) -> impl Iterator<Item = &str> {
    let commas = value.match_indices(',').map(|(at, _)| at + 1);
    std::iter::once(0).chain(commas).map(move |start| value[start..].trim_start())
}

/// What follows the name of a scheme.
fn strip_scheme<'a>(offer: &'a str, scheme: &str) -> Option<&'a str> {
    let (name, rest) = offer.split_at_checked(scheme.len())?;
    let has_end = rest.is_empty() || rest.starts_with([' ', '\t', ',']);
    (has_end && name.eq_ignore_ascii_case(scheme)).then_some(rest)
}

/// A Digest challenge that can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChallenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    /// As the server writes it; absent: MD5.
    algorithm: Option<String>,
    is_sha256: bool,
    /// Whether the algorithm's name ends in `-sess`.
    is_session: bool,
    /// Whether the quality of protection `auth` is offered.
    has_qop: bool,
    has_userhash: bool,
    is_stale: bool,
}

impl DigestChallenge {
    /// Absent without a nonce, for other algorithms, and if only `auth-int` is offered.
    fn parse(parameters: &str) -> Option<Self> {
        let mut realm = String::new();
        let mut nonce = None;
        let mut opaque = None;
        let mut algorithm = None;
        let mut qop = String::new();
        let mut has_userhash = false;
        let mut is_stale = false;
        let mut rest = parameters;
        while let Some((name, value, after)) = read_parameter(rest) {
            rest = after;
            match name.to_ascii_lowercase().as_str() {
                "realm" => realm = value,
                "nonce" => nonce = Some(value),
                "opaque" => opaque = Some(value),
                "algorithm" => algorithm = Some(value),
                "qop" => qop = value.to_ascii_lowercase(),
                "userhash" => has_userhash = value.eq_ignore_ascii_case("true"),
                "stale" => is_stale = value.eq_ignore_ascii_case("true"),
                _ => {}
            }
        }
        let name = algorithm.as_deref().unwrap_or("MD5").to_ascii_lowercase();
        let (is_sha256, is_session) = match name.as_str() {
            "md5" => (false, false),
            "md5-sess" => (false, true),
            "sha-256" => (true, false),
            "sha-256-sess" => (true, true),
            _ => return None,
        };
        let offers_qop = |kind: &str| qop.split(',').any(|offer| offer.trim() == kind);
        let has_qop = offers_qop("auth");
        if !has_qop && (is_session || offers_qop("auth-int")) {
            return None;
        }
        let nonce = nonce?;
        Some(Self {
            realm,
            nonce,
            opaque,
            algorithm,
            is_sha256,
            is_session,
            has_qop,
            has_userhash,
            is_stale,
        })
    }

    /// Whether the server refused an answer only because its nonce was too old.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The value that answers with a user's name and password.
    ///
    /// `uri` is the URL's path and query, `count` how often the nonce is used, from 1. The random bytes stay the same
    /// while the nonce does. Absent if a line break in a name would break the head.
    pub fn answer(
        &self,
        user: (&str, &str),
        method: &str,
        uri: &str,
        cnonce_random: &[u8; 16],
        count: u32,
    ) -> Option<String> {
        let Self { realm, nonce, .. } = self;
        let (name, password) = user;
        let hex: String = cnonce_random.iter().map(|byte| format!("{byte:02x}")).collect();
        let cnonce = STANDARD.encode(hex);
        let mut secret = self.hash(&format!("{name}:{realm}:{password}"));
        if self.is_session {
            secret = self.hash(&format!("{secret}:{nonce}:{cnonce}"));
        }
        let request = self.hash(&format!("{method}:{uri}"));
        let (hashed, shown) = if self.has_qop {
            (
                format!("{secret}:{nonce}:{count:08x}:{cnonce}:auth:{request}"),
                format!("cnonce=\"{cnonce}\", nc={count:08x}, qop=auth, "),
            )
        } else {
            (format!("{secret}:{nonce}:{request}"), String::new())
        };
        let response = self.hash(&hashed);
        let name = if self.has_userhash {
            self.hash(&format!("{name}:{realm}"))
        } else {
            escape_quotes(name)
        };
        let (realm, nonce) = (escape_quotes(realm), escape_quotes(nonce));
        let mut value = format!(
            "Digest username=\"{name}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{uri}\", \
             {shown}response=\"{response}\""
        );
        if let Some(opaque) = &self.opaque {
            value += &format!(", opaque=\"{}\"", escape_quotes(opaque));
        }
        if let Some(algorithm) = &self.algorithm {
            value += &format!(", algorithm={algorithm}");
        }
        if self.has_userhash {
            value += ", userhash=true";
        }
        (!value.contains(['\r', '\n'])).then_some(value)
    }

    fn hash(&self, text: &str) -> String {
        if self.is_sha256 {
            format!("{:x}", Sha256::digest(text))
        } else {
            format!("{:x}", Md5::digest(text))
        }
    }
}

/// A parameter's name, its value without quotes, and what follows.
fn read_parameter(text: &str) -> Option<(&str, String, &str)> {
    let (name, rest) = text.trim_start_matches([' ', '\t', ',']).split_once('=')?;
    let Some(quoted) = rest.strip_prefix('"') else {
        let (value, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
        return Some((name, value.to_owned(), after));
    };
    let mut value = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => value.push(letters.next()?),
            _ => value.push(letter),
        }
    }
    Some((name, value, letters.as_str()))
}

fn escape_quotes(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: AuthChoice = AuthChoice { basic: false, digest: false, any: true };

    /// The random bytes of an answer that curl sent.
    fn read_cnonce(answer: &str) -> [u8; 16] {
        let mut bytes = [0; 16];
        let Some((_, rest)) = answer.split_once("cnonce=\"") else { return bytes };
        let hex = STANDARD.decode(rest.split_once('"').unwrap().0).unwrap();
        for (byte, digits) in bytes.iter_mut().zip(hex.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        }
        bytes
    }

    #[test]
    fn answers_that_curl_sent() {
        // The challenge, the user, the request, and the answer.
        for (challenge, user, request, answer) in [
            (
                r#"Digest realm="r", nonce="abc""#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
response="08cd118a26031686dcaebdd6e54382e8""#,
            ),
            (
                "digest realm=r,nonce=abc,qop=auth",
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
cnonce="NGQyNmUzZmEyNDg1ZDUwOTBhZmY4OTY1ZjZhM2IxNDk=", nc=00000001, qop=auth,
response="469d2ccc4793e797e6e3aeab60e62eef""#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth-int, auth", algorithm=MD5-sess"#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
cnonce="ZDRiNGU1ZTgwMDljY2QyZDZmZWJmY2YwMmExZGQxNmU=", nc=00000001, qop=auth,
response="af5063651b71070550bca3de6e496e42", algorithm=MD5-sess"#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth", algorithm=SHA-256, opaque="op\"q""#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
cnonce="YWMxZGE0YTFlYjgxYjE1Y2Q3OTk0YTYyMDJjNGNjYzc=", nc=00000001, qop=auth,
response="b5d50e97571a3ed6b3dbf191587936799b474b25d4b510ebba1f7e88b0fc330d", opaque="op\"q", algorithm=SHA-256"#,
            ),
            (
                r#"Digest realm="r", nonce="abc", algorithm="SHA-256-sess", qop=auth"#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
cnonce="MjUzNjE5YTNlMTIyNWQ3MDA2NmFhMjU4YzIzYTFlNzk=", nc=00000001, qop=auth,
response="877750be643e33e120077aff3d6cbeeb86bc688911f3d977e1f2c33395e8c827", algorithm=SHA-256-sess"#,
            ),
            (
                r#"Digest realm="r", nonce="abc", algorithm=md5, qop="AUTH", stale=true"#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
cnonce="MWYyMDlhN2I2NzIzYzRiNjJlYWE5MGNkZjQ1OTYwYWU=", nc=00000001, qop=auth,
response="3dfa4bf637fe77cdc1710caa8eed8896", algorithm=md5"#,
            ),
            (
                r#"Digest realm="a, \"b\" c", nonce="x\\y", opaque="""#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="a, \"b\" c", nonce="x\\y", uri="/d?q=1",
response="41c0855ed52fcdaac75612263278626a", opaque="""#,
            ),
            (
                r#"Digest nonce="abc""#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="", nonce="abc", uri="/d?q=1",
response="7bdce60308b35f4ac7432d9dee35607c""#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth", userhash=true, algorithm=SHA-256"#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="1d8a03a6e21a4ce775060ea57360329ac750dea5d847297b42f0d46539af8ab2", realm="r", nonce="abc", uri="/d?q=1",
cnonce="NzU0ZmUzYWEwNjU3ZDc0NGMwYjdmYzQwZTBmNjhlOTU=", nc=00000001, qop=auth,
response="d6fa5882d9d1ed64281f2ae13da8b38c0f9940231dc81c4e5dfac206c1da8323", algorithm=SHA-256, userhash=true"#,
            ),
            (
                r#"Digest realm="r", nonce="abc", domain="/x y", foo, qop="auth""#,
                "u:p",
                "GET /d?q=1",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?q=1",
response="08cd118a26031686dcaebdd6e54382e8""#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth""#,
                r#"a\b"c:p:q"#,
                "POST /d?q=1",
                r#"Digest username="a\\b\"c", realm="r", nonce="abc", uri="/d?q=1",
cnonce="NzI4ZGYyNTE0YWYyMTBkZjE3YzRiNDA3NmMzYzA0Nzg=", nc=00000001, qop=auth,
response="12ea5b24f4f24f529e84f0710046a85a""#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth""#,
                "u:p",
                r#"PATCH /d?a="b\c"#,
                r#"Digest username="u", realm="r", nonce="abc", uri="/d?a="b\c",
cnonce="MDNhNTQ0ZDQ4YzRiOTNmYjI2M2I5NGFhOGY1NmM5YzE=", nc=00000001, qop=auth,
response="dfeb7c51f127b4ad5dc73ff5bc419fe6""#,
            ),
            (
                r#"Digest realm="r", nonce="abc", qop="auth""#,
                "u:p",
                "GET /d2",
                r#"Digest username="u", realm="r", nonce="abc", uri="/d2",
cnonce="OGRiNTk2ZGE3NGE2NDFlN2VhMGNjYjczMjNjOGZmMjQ=", nc=00000002, qop=auth,
response="a4c9911d1611a68fd42e7c9046614f0a""#,
            ),
        ] {
            let Some(AuthScheme::Digest(digest)) = choose(&[challenge], ANY) else {
                panic!("{challenge}")
            };
            let answer = answer.replace('\n', " ");
            let user = user.split_once(':').unwrap();
            let (method, uri) = request.split_once(' ').unwrap();
            let count = if answer.contains("nc=00000002") { 2 } else { 1 };
            let written = digest.answer(user, method, uri, &read_cnonce(&answer), count);
            assert_eq!(written.as_deref(), Some(answer.as_str()), "{challenge}");
        }
    }

    #[test]
    fn schemes_that_curl_chooses() {
        let basic = AuthChoice { basic: true, ..AuthChoice::default() };
        let digest = AuthChoice { digest: true, ..AuthChoice::default() };
        let both = AuthChoice { digest: true, ..basic };
        let cases: &[(&[&str], AuthChoice, &str)] = &[
            (&[r#"Basic realm="q""#, r#"Digest nonce="a""#], ANY, "Digest"),
            (&[r#"Digest nonce="a""#, r#"Basic realm="q""#], both, "Digest"),
            (&[r#"Basic realm="b", Digest realm="r", nonce="a""#], ANY, "Digest"),
            (&[r#"Digest nonce="a", Basic realm="b""#], basic, "Basic"),
            (&[r#"Bearer realm="x", Basic realm="y""#], ANY, "Basic"),
            (&["Basic"], ANY, "Basic"),
            (&["Basic"], AuthChoice::default(), "Basic"),
            (&["Basic"], digest, "-"),
            (&[r#"Basicx realm="a""#], ANY, "-"),
            (&[r#"Digest realm="r""#], ANY, "-"),
            (&[r#"Digest nonce="a", algorithm=FOO"#, "Basic"], ANY, "-"),
            (&[r#"Digest nonce="a", algorithm=MD5-sess"#], ANY, "-"),
            (&[r#"Digest nonce="a", algorithm=SHA-512"#], ANY, "-"),
            // curl answers the next two, the second one with a wrong hash.
            (&[r#"Digest nonce="a", qop="auth-int""#], ANY, "-"),
            (&[r#"Digest nonce="a", algorithm=SHA-512-256"#], ANY, "-"),
            (&[], ANY, "-"),
        ];
        for &(offers, allowed, scheme) in cases {
            let chosen = match choose(offers, allowed) {
                Some(AuthScheme::Basic) => "Basic",
                Some(AuthScheme::Digest(_)) => "Digest",
                None => "-",
            };
            assert_eq!(chosen, scheme, "{offers:?}");
        }
    }

    #[test]
    fn the_first_of_several_digests() {
        let offers = [r#"Digest nonce="a", algorithm=SHA-256"#, r#"Digest nonce="b", stale=true"#];
        let Some(AuthScheme::Digest(first)) = choose(&offers, ANY) else { panic!("no Digest") };
        assert_eq!((first.nonce.as_str(), first.is_stale()), ("a", false));
        let Some(AuthScheme::Digest(second)) = choose(&offers[1..], ANY) else {
            panic!("no Digest")
        };
        assert!(second.is_stale());
        assert_eq!(second.answer(("a\nb", "p"), "GET", "/", &[0; 16], 1), None);
    }

    #[test]
    fn values_without_a_challenge() {
        assert_eq!(basic("user", "pass"), "Basic dXNlcjpwYXNz");
        assert_eq!(basic("a", "b:c"), "Basic YTpiOmM=");
        assert_eq!(basic("\u{e9}", "\u{fc}"), "Basic w6k6w7w=");
        assert_eq!(basic("a\nb", "p"), "Basic YQpiOnA=");
        assert_eq!(bearer("TOK"), "Bearer TOK");
    }
}
