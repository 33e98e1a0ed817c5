//! Points in time as text, in UTC. These are only conversions: nothing here reads a clock.

use time::OffsetDateTime;

/// `unix_ns` as RFC 3339 in UTC with microseconds: `2026-11-20T14:05:09.123456Z`.
pub(crate) fn rfc3339_micros(unix_ns: u64) -> Option<String> {
    let mut out = Vec::with_capacity(27);
    write_rfc3339_micros(&mut out, unix_ns);
    String::from_utf8(out).ok().filter(|text| !text.is_empty())
}

/// Appends the same to `out` directly, because every row has one.
pub(crate) fn write_rfc3339_micros(out: &mut Vec<u8>, unix_ns: u64) {
    let seconds = i64::try_from(unix_ns / 1_000_000_000).unwrap_or(i64::MAX);
    let Ok(t) = OffsetDateTime::from_unix_timestamp(seconds) else { return };
    let micros = (unix_ns / 1_000 % 1_000_000) as u32;
    let mut number = |number: u32, digits: u32, behind: u8| {
        let places = (0..digits).rev();
        out.extend(places.map(|place| b'0' + (number / 10_u32.pow(place) % 10) as u8));
        out.push(behind);
    };
    number(t.year().unsigned_abs(), 4, b'-');
    number(u8::from(t.month()).into(), 2, b'-');
    number(t.day().into(), 2, b'T');
    number(t.hour().into(), 2, b':');
    number(t.minute().into(), 2, b':');
    number(t.second().into(), 2, b'.');
    number(micros, 6, b'Z');
}

/// `unix_ns` to the minute, for human readers: `20 November 2026, 14:05 UTC`.
pub fn minute(unix_ns: u64) -> Option<String> {
    let t = utc(i128::from(unix_ns))?;
    let (day, month, year) = (t.day(), t.month(), t.year());
    Some(format!("{day} {month} {year}, {:02}:{:02} UTC", t.hour(), t.minute()))
}

/// The same to the second: `20 November 2026, 14:05:09 UTC`.
pub fn second(unix_ns: u64) -> Option<String> {
    let t = utc(i128::from(unix_ns))?;
    let (day, month, year) = (t.day(), t.month(), t.year());
    let (hour, minute, second) = (t.hour(), t.minute(), t.second());
    Some(format!("{day} {month} {year}, {hour:02}:{minute:02}:{second:02} UTC"))
}

/// `unix_seconds` as a date: `2026-11-20`.
pub(crate) fn date(unix_seconds: i64) -> Option<String> {
    utc(i128::from(unix_seconds) * 1_000_000_000).map(day)
}

/// `unix_seconds` in the format of certificates' dates: `Dec 31 23:59:59 2026 GMT`.
pub(crate) fn certificate_date(unix_seconds: i64) -> Option<String> {
    let t = utc(i128::from(unix_seconds) * 1_000_000_000)?;
    let (hour, minute, second) = t.to_hms();
    let month = t.month().to_string();
    let (month, day, year) = (&month[..3], t.day(), t.year());
    Some(format!("{month} {day:2} {hour:02}:{minute:02}:{second:02} {year} GMT"))
}

/// `unix_ns` as a calendar date and time in UTC.
pub(crate) fn utc(unix_ns: i128) -> Option<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(unix_ns).ok()
}

fn day(t: OffsetDateTime) -> String {
    format!("{:04}-{:02}-{:02}", t.year(), u8::from(t.month()), t.day())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_point_there_is() {
        assert_eq!(rfc3339_micros(u64::MAX).as_deref(), Some("2554-07-21T23:34:33.709551Z"));
    }

    #[test]
    fn known_points() {
        assert_eq!(rfc3339_micros(0).as_deref(), Some("1970-01-01T00:00:00.000000Z"));
        assert_eq!(minute(0).as_deref(), Some("1 January 1970, 00:00 UTC"));
        let leap = 1_709_209_800_000_001_999;
        assert_eq!(rfc3339_micros(leap).as_deref(), Some("2024-02-29T12:30:00.000001Z"));
        assert_eq!(date(1_798_761_599).as_deref(), Some("2026-12-31"));
        assert_eq!(date(i64::MAX), None);
        assert_eq!(certificate_date(1_798_761_599).as_deref(), Some("Dec 31 23:59:59 2026 GMT"));
    }
}
