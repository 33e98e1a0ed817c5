//! Dates as curl reads them, in `-z` and in cookies, and as HTTP writes them.
//!
//! curl takes words, numbers and a time of day in almost any order: `Sun, 06 Nov 1994 08:49:37 GMT`, `06-Nov-94`,
//! `20260304 10:00`, `Sun/Nov/6/94/GMT`. It does not take `2026-03-04`. Years after 9999 are not read here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use time::{Date, Month, OffsetDateTime};

const WEEKDAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// curl's time zones, in minutes from there to UTC.
const ZONES: [(&str, i32); 44] = [
    ("GMT", 0),
    ("UT", 0),
    ("UTC", 0),
    ("WET", 0),
    ("BST", -60),
    ("WAT", 60),
    ("AST", 240),
    ("ADT", 180),
    ("EST", 300),
    ("EDT", 240),
    ("CST", 360),
    ("CDT", 300),
    ("MST", 420),
    ("MDT", 360),
    ("PST", 480),
    ("PDT", 420),
    ("YST", 540),
    ("YDT", 480),
    ("HST", 600),
    ("HDT", 540),
    ("CAT", 600),
    ("AHST", 600),
    ("NT", 660),
    ("IDLW", 720),
    ("CET", -60),
    ("MET", -60),
    ("MEWT", -60),
    ("MEST", -120),
    ("CEST", -120),
    ("MESZ", -120),
    ("FWT", -60),
    ("FST", -120),
    ("EET", -120),
    ("WAST", -420),
    ("WADT", -480),
    ("CCT", -480),
    ("JST", -540),
    ("EAST", -600),
    ("EADT", -660),
    ("GST", -600),
    ("NZT", -720),
    ("NZST", -720),
    ("NZDT", -780),
    ("IDLE", -720),
];

/// Reads a date as `-z` and the attribute `Expires` of a cookie take it.
pub fn parse_date(text: &str) -> Option<SystemTime> {
    let mut parts = DateParts::default();
    let mut at = 0;
    // curl looks at six parts and ignores what follows.
    for _ in 0..6 {
        at += text[at..]
            .find(|letter: char| letter.is_ascii_alphanumeric())
            .unwrap_or(text.len() - at);
        at += match text[at..].bytes().next() {
            None => break,
            Some(first) if first.is_ascii_digit() => parts.read_number(text, at)?,
            Some(_) => parts.read_word(&text[at..])?,
        };
    }
    // curl keeps -1 for its errors.
    let seconds = parts.unix_seconds().map(|seconds| if seconds == -1 { 0 } else { seconds })?;
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) }
}

/// Writes a date as HTTP does: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format_date(time: SystemTime) -> String {
    let at = OffsetDateTime::from_unix_timestamp(unix_seconds(time))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let weekday = WEEKDAYS[usize::from(at.weekday().number_days_from_monday())];
    let month = MONTHS[usize::from(u8::from(at.month())) - 1];
    let (day, year) = (at.day(), at.year());
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{weekday:.3}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Seconds since 1970, negative before.
pub(crate) fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(i64::MAX),
    }
}

/// The parts of a date.
#[derive(Default)]
struct DateParts {
    has_weekday: bool,
    year: Option<i32>,
    /// From 1; not checked yet.
    month: Option<i32>,
    day: Option<i32>,
    second_of_day: Option<i32>,
    /// Minutes to UTC.
    zone: Option<i32>,
    /// The next number is the year, not the day.
    year_is_next: bool,
}

impl DateParts {
    /// Reads a weekday, a month or a time zone, and says how long it is.
    fn read_word(&mut self, rest: &str) -> Option<usize> {
        let end = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let word = &rest[..end];
        let is = |name: &str| word.eq_ignore_ascii_case(name);
        if !self.has_weekday && WEEKDAYS.iter().any(|day| is(day) || is(&day[..3])) {
            self.has_weekday = true;
        } else if self.month.is_none()
            && let Some((_, month)) = MONTHS.iter().zip(1..).find(|(name, _)| is(name))
        {
            self.month = Some(month);
        } else if self.zone.is_none() {
            self.zone = Some(find_zone(word)?);
        } else {
            return None;
        }
        Some(end)
    }

    /// Reads a time of day, an offset like +0200, a date like 20260304, a day or a year.
    fn read_number(&mut self, text: &str, at: usize) -> Option<usize> {
        let rest = &text[at..];
        if self.second_of_day.is_none()
            && let Some((seconds, length)) = read_time(rest.as_bytes())
        {
            self.second_of_day = Some(seconds);
            return Some(length);
        }
        let length = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let value: i32 = rest[..length].parse().ok()?;
        let before = text[..at].bytes().next_back();
        match (length, before) {
            (4, Some(sign @ (b'+' | b'-'))) if self.zone.is_none() && value <= 1400 => {
                let minutes = value / 100 * 60 + value % 100;
                self.zone = Some(if sign == b'+' { -minutes } else { minutes });
            }
            (8, _) if self.year.is_none() && self.month.is_none() && self.day.is_none() => {
                self.year = Some(value / 10_000);
                self.month = Some(value / 100 % 100);
                self.day = Some(value % 100);
            }
            _ => self.read_day_or_year(value)?,
        }
        Some(length)
    }

    /// The first number that can be a day is one.
    fn read_day_or_year(&mut self, value: i32) -> Option<()> {
        if !self.year_is_next && self.day.is_none() {
            self.year_is_next = true;
            if (1..=31).contains(&value) {
                self.day = Some(value);
                return Some(());
            }
        }
        if !self.year_is_next || self.year.is_some() {
            return None;
        }
        self.year = Some(match value {
            0..=70 => value + 2000,
            71..=99 => value + 1900,
            _ => value,
        });
        self.year_is_next = self.day.is_some();
        Some(())
    }

    fn unix_seconds(&self) -> Option<i64> {
        // The first full year of the Gregorian calendar.
        let year = self.year.filter(|year| *year >= 1583)?;
        let month = Month::try_from(u8::try_from(self.month?).ok()?).ok()?;
        let day = self.day.filter(|day| *day <= 31)?;
        let first = Date::from_calendar_date(year, month, 1).ok()?;
        // 30 February is 1 or 2 March.
        let seconds = first.midnight().assume_utc().unix_timestamp() + i64::from(day - 1) * 86_400;
        let minutes = i64::from(self.zone.unwrap_or(0));
        Some(seconds + i64::from(self.second_of_day.unwrap_or(0)) + minutes * 60)
    }
}

/// Minutes to UTC, by a zone's name or military letter.
fn find_zone(name: &str) -> Option<i32> {
    if let [letter] = name.as_bytes() {
        return match letter.to_ascii_uppercase() {
            letter @ b'A'..=b'I' => Some(i32::from(letter - b'A' + 1) * 60),
            letter @ b'K'..=b'M' => Some(i32::from(letter - b'A') * 60),
            letter @ b'N'..=b'Y' => Some(i32::from(letter - b'N' + 1) * -60),
            b'Z' => Some(0),
            _ => None,
        };
    }
    ZONES.iter().find(|(zone, _)| zone.eq_ignore_ascii_case(name)).map(|(_, minutes)| *minutes)
}

/// Reads `8:49:37` or `8:49`: the second of the day, and how long the text is.
fn read_time(bytes: &[u8]) -> Option<(i32, usize)> {
    let (hour, at) = read_two_digits(bytes, 0).filter(|(hour, _)| *hour < 24)?;
    let (minute, at) = read_after_colon(bytes, at).filter(|(minute, _)| *minute < 60)?;
    let (second, at) = read_after_colon(bytes, at).unwrap_or((0, at));
    // 60 is a leap second.
    (second <= 60).then_some((hour * 3600 + minute * 60 + second, at))
}

fn read_after_colon(bytes: &[u8], at: usize) -> Option<(i32, usize)> {
    bytes.get(at).filter(|byte| **byte == b':').and_then(|_| read_two_digits(bytes, at + 1))
}

/// Reads one or two digits, and says where they end.
fn read_two_digits(bytes: &[u8], at: usize) -> Option<(i32, usize)> {
    let digit = |at: usize| {
        bytes.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i32::from(*byte - b'0'))
    };
    let first = digit(at)?;
    Some(match digit(at + 1) {
        Some(second) => (first * 10 + second, at + 2),
        None => (first, at + 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with `curl -z`.
    #[test]
    fn dates_are_read_as_curl_does() {
        for (text, read) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("GMT 08:49:37 06-Nov-94 Sunday", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("94 6 Nov 08:49:37", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Sun/Nov/6/94/GMT", "Sun, 06 Nov 1994 00:00:00 GMT"),
            ("Sun, 06 Nov 1994 08:49:37 CET", "Sun, 06 Nov 1994 07:49:37 GMT"),
            ("20040912 15:05:58 -0700", "Sun, 12 Sep 2004 22:05:58 GMT"),
            ("20040911 +0200", "Fri, 10 Sep 2004 22:00:00 GMT"),
            ("Wed, 31 Dec 2008 23:59:60 GMT", "Thu, 01 Jan 2009 00:00:00 GMT"),
            ("30 Feb 2020", "Sun, 01 Mar 2020 00:00:00 GMT"),
            ("20260304T10:00", "Wed, 04 Mar 2026 03:00:00 GMT"),
            ("Mar 4 2026 1:2:3", "Wed, 04 Mar 2026 01:02:03 GMT"),
            ("Mar 4 2026 9:5", "Wed, 04 Mar 2026 09:05:00 GMT"),
            ("Mar 4 2026 +1400", "Tue, 03 Mar 2026 10:00:00 GMT"),
            ("Mar 4 2026 10:00 M", "Wed, 04 Mar 2026 22:00:00 GMT"),
            ("Mar 4 2026 10:00 Y", "Tue, 03 Mar 2026 22:00:00 GMT"),
            ("Mar 4 2026 10:00 cest", "Wed, 04 Mar 2026 08:00:00 GMT"),
            ("mar 4 70", "Tue, 04 Mar 2070 00:00:00 GMT"),
            ("mar 4 71", "Thu, 04 Mar 1971 00:00:00 GMT"),
            ("mar 4 1583", "Fri, 04 Mar 1583 00:00:00 GMT"),
            ("32 mar 4", "Thu, 04 Mar 2032 00:00:00 GMT"),
            ("Wed 4 mar 2026 10:00 GMT junk", "Wed, 04 Mar 2026 10:00:00 GMT"),
            ("Thu, 31 Dec 1969 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"),
            ("Thu, 31 Dec 1969 23:59:58 GMT", "Wed, 31 Dec 1969 23:59:58 GMT"),
            ("4 mar 2026-0500", "Wed, 04 Mar 2026 05:00:00 GMT"),
            ("4mar2026", "Wed, 04 Mar 2026 00:00:00 GMT"),
            ("\"4 mar 2026\"", "Wed, 04 Mar 2026 00:00:00 GMT"),
        ] {
            assert_eq!(parse_date(text).map(format_date).as_deref(), Some(read), "{text}");
        }
    }

    /// Measured with `curl -z`.
    #[test]
    fn other_texts_are_no_dates() {
        for text in [
            "20111323",
            "20110632",
            "20110623 12:34:79",
            "2026-03-04",
            "2026-03-04T10:00:00Z",
            "20260304T100000Z",
            "Mar 4 2026 24:00",
            "Mar 4 2026 10:60",
            "Mar 4 2026 +1401",
            "Mar 4 2026 10:00 +02:00",
            "Mar 4 2026 10:00 J",
            "march 4 2026",
            "mar 4 100",
            "mar 4 1582",
            "mar 4 2147483648",
            "mar 0 2026",
            "Mon Tue 4 mar 2026",
            "4 mar 2026 GMT +0100",
            "4 mar 2026 10:00 11:00",
            "4 mar 2026 10:00 GMT junk",
            "4 mar 2026 0900",
            "4 mär 2026",
            "04 03 2026",
            "yesterday",
            "12:00",
            "4 mar",
            "1772618400",
            "",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }
}
