//! Stored forms of options whose types are from other crates, for plans in run files.

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

/// A body: as text if it is text, otherwise as hexadecimal digits.
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
            Some(StoredBody::Hex(digits)) => {
                from_hex(&digits).ok_or_else(|| D::Error::custom("the body is not hexadecimal"))?
            }
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
                // The user typed it as text.
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
    use super::*;

    #[test]
    fn what_is_not_hexadecimal_is_no_body() {
        assert!(from_hex("0").is_none() && from_hex("xx").is_none());
    }
}
