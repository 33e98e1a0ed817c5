//! How options that are of others' types are stored, for plans in run files.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::options::HeaderChange;
use super::secret::Secret;

/// A method, by its name.
pub(super) mod method {
    use super::{Deserialize, Deserializer, Method, Serializer};
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        method: &Method,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(method.as_str())
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Method, D::Error> {
        let name = String::deserialize(deserializer)?;
        Method::from_bytes(name.as_bytes()).map_err(D::Error::custom)
    }
}

/// A body: as text where it is text, in hexadecimal digits where it is not.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBody {
    Text(String),
    Hex(String),
}

/// A request's body.
pub(super) mod body {
    use super::{
        Bytes, Deserialize, Deserializer, Secret, Serialize, Serializer, StoredBody, from_hex,
        to_hex,
    };
    use serde::de::Error as _;

    pub(in super::super) fn serialize<S: Serializer>(
        body: &Option<Secret<Bytes>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let stored = body.as_ref().map(|body| match std::str::from_utf8(body.reveal()) {
            Ok(text) => StoredBody::Text(text.to_owned()),
            Err(_) => StoredBody::Hex(to_hex(body.reveal())),
        });
        stored.serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Secret<Bytes>>, D::Error> {
        let bytes = match Option::<StoredBody>::deserialize(deserializer)? {
            None => return Ok(None),
            Some(StoredBody::Text(text)) => Bytes::from(text),
            Some(StoredBody::Hex(digits)) => from_hex(&digits)
                .ok_or_else(|| D::Error::custom("a body that is not hexadecimal"))?,
        };
        Ok(Some(Secret::new(bytes)))
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(digits: &str) -> Option<Bytes> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits
        .len()
        .is_multiple_of(2)
        .then(|| pairs.map(byte).collect::<Option<Vec<u8>>>())?
        .map(Bytes::from)
}

/// `{"name": …, "value": …}`; without a value the field is removed.
#[derive(Serialize, Deserialize)]
struct StoredField {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
}

impl Serialize for HeaderChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, value) = match self {
            Self::Set(name, value) => {
                // What was typed was text.
                let text = String::from_utf8_lossy(value.reveal().as_bytes());
                (name, Some(text.into_owned()))
            }
            Self::Remove(name) => (name, None),
        };
        StoredField { name: name.to_string(), value }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for HeaderChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = StoredField::deserialize(deserializer)?;
        let name = HeaderName::from_bytes(stored.name.as_bytes()).map_err(D::Error::custom)?;
        let Some(value) = stored.value else { return Ok(Self::Remove(name)) };
        let value = HeaderValue::from_str(&value).map_err(D::Error::custom)?;
        Ok(Self::Set(name, Secret::new(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;

    #[test]
    fn options_come_back_as_they_were_stored_and_do_not_print_what_lets_somebody_in() {
        let words = [
            "--resolve",
            "a.test:443:192.0.2.1",
            "--connect-to",
            "::b.test:",
            "--interface",
            "lo",
            "-6",
            "--tls-max",
            "1.2",
            "--curves",
            "X25519",
            "-k",
            "--cert",
            "a.pem",
            "--key",
            "b.pem",
            "--http1.1",
            "-X",
            "PUT",
            "-H",
            "Authorization: s3cret",
            "-H",
            "Accept:",
            "-H",
            "X-Ü: ü",
            "-d",
            "s3cret=1",
            "-A",
            "me",
            "-m",
            "2.5",
            "--resolver",
            "192.0.2.1",
            "https://a.test/",
        ];
        // A field's name is ASCII, its value need not be.
        let words: Vec<&str> = words.map(|w| if w == "X-Ü: ü" { "X-U: ü" } else { w }).to_vec();
        let mut options = crate::cli::options_for(&words).unwrap();
        for body in [
            None,
            Some(Bytes::from_static(b"\x00\xff")),
            options.http.body.as_ref().map(|b| b.reveal().clone()),
        ] {
            options.http.body = body.map(Secret::new);
            let stored = serde_json::to_string(&options).unwrap();
            let back: Options = serde_json::from_str(&stored).unwrap();
            assert_eq!(format!("{options:?}"), format!("{back:?}"));
            assert_eq!(serde_json::to_string(&back).unwrap(), stored);
            assert!(stored.contains("s3cret") && !format!("{back:?}").contains("s3cret"));
        }
        assert!(from_hex("0").is_none() && from_hex("xx").is_none());
    }
}
