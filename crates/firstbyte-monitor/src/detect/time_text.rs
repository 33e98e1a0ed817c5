//! Formats milliseconds since the Unix epoch as RFC 3339 in UTC, to the second, and as words.

use serde::{Deserialize, Deserializer, Serializer, de};
use time::{Date, Month, OffsetDateTime, Time};

fn civil(at: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(at.div_euclid(1_000)).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Formats as "2026-04-15T09:40:00Z".
pub(crate) fn text(at: i64) -> String {
    let t = civil(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        t.year(),
        u8::from(t.month()),
        t.day(),
        t.hour(),
        t.minute(),
        t.second()
    )
}

/// Formats as "15 April, 09:40 UTC".
pub(super) fn phrase(at: i64) -> String {
    let t = civil(at);
    format!("{} {}, {:02}:{:02} UTC", t.day(), t.month(), t.hour(), t.minute())
}

/// Formats as "15 April, 09:40:07 UTC".
pub(super) fn clock_phrase(at: i64) -> String {
    let t = civil(at);
    format!("{} {}, {}", t.day(), t.month(), time_of_day(at))
}

/// Formats as "09:40:07 UTC".
pub(super) fn time_of_day(at: i64) -> String {
    let t = civil(at);
    format!("{:02}:{:02}:{:02} UTC", t.hour(), t.minute(), t.second())
}

pub(super) fn is_same_day(a: i64, b: i64) -> bool {
    civil(a).date() == civil(b).date()
}

fn parse(text: &str) -> Option<i64> {
    let number = |from: usize, until: usize| text.get(from..until)?.parse::<u8>().ok();
    let year: i32 = text.get(0..4)?.parse().ok()?;
    let month = Month::try_from(number(5, 7)?).ok()?;
    let date = Date::from_calendar_date(year, month, number(8, 10)?).ok()?;
    let time = Time::from_hms(number(11, 13)?, number(14, 16)?, number(17, 19)?).ok()?;
    (text.get(19..) == Some("Z"))
        .then(|| date.with_time(time).assume_utc().unix_timestamp() * 1_000)
}

fn parsed<E: de::Error>(text: &str) -> Result<i64, E> {
    parse(text)
        .ok_or_else(|| E::custom(format!("\"{text}\" is not a time such as 2026-04-15T09:40:00Z")))
}

pub(super) fn serialize<S: Serializer>(at: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*at))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    parsed(&String::deserialize(deserializer)?)
}

pub(super) mod pair {
    use super::{Deserialize, Deserializer, Serializer, parsed, text};

    pub(in super::super) fn serialize<S: Serializer>(
        at: &[i64; 2],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(at.map(text))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[i64; 2], D::Error> {
        let [first, last] = <[String; 2]>::deserialize(deserializer)?;
        Ok([parsed(&first)?, parsed(&last)?])
    }
}

pub(super) mod maybe {
    use super::{Deserialize, Deserializer, Serializer, parsed, text};

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Option<i64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match at {
            Some(at) => serializer.serialize_some(&text(*at)),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<i64>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| parsed(&text)).transpose()
    }
}
