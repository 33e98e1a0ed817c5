//! `%time{…}`: strftime(3) in UTC and the C locale, with curl's `%f` for microseconds.

use std::fmt::Write as _;

use time::OffsetDateTime;

use super::super::dates;

/// Formats the time `unix_ns`. Unknown conversions are kept as they are.
pub(super) fn strftime(format: &str, unix_ns: u64) -> String {
    let Some(t) = dates::utc(i128::from(unix_ns)) else { return String::new() };
    let mut out = String::new();
    expand(&mut out, format, t);
    out
}

fn expand(out: &mut String, format: &str, t: OffsetDateTime) {
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let mut characters = after.chars();
        match characters.next() {
            Some(conversion) => convert(out, conversion, t),
            None => out.push('%'),
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

fn convert(out: &mut String, conversion: char, t: OffsetDateTime) {
    let (year, month, day) = (t.year(), u8::from(t.month()), t.day());
    let (hour, minute, second) = t.to_hms();
    let weekday = t.weekday();
    let (iso_year, iso_week, _) = t.to_iso_week_date();
    let month_name = t.month().to_string();
    let day_name = weekday.to_string();
    let hour12 = (hour + 11) % 12 + 1;
    let _ = match conversion {
        'a' => write!(out, "{}", &day_name[..3]),
        'A' => write!(out, "{day_name}"),
        'b' | 'h' => write!(out, "{}", &month_name[..3]),
        'B' => write!(out, "{month_name}"),
        'c' => return expand(out, "%a %b %e %H:%M:%S %Y", t),
        'C' => write!(out, "{:02}", year.div_euclid(100)),
        'd' => write!(out, "{day:02}"),
        'D' | 'x' => return expand(out, "%m/%d/%y", t),
        'e' => write!(out, "{day:2}"),
        'f' => write!(out, "{:06}", t.microsecond()),
        'F' => return expand(out, "%Y-%m-%d", t),
        'g' => write!(out, "{:02}", iso_year.rem_euclid(100)),
        'G' => write!(out, "{iso_year}"),
        'H' => write!(out, "{hour:02}"),
        'I' => write!(out, "{hour12:02}"),
        'j' => write!(out, "{:03}", t.ordinal()),
        'k' => write!(out, "{hour:2}"),
        'l' => write!(out, "{hour12:2}"),
        'm' => write!(out, "{month:02}"),
        'M' => write!(out, "{minute:02}"),
        'n' => out.write_char('\n'),
        'p' => write!(out, "{}", if hour < 12 { "AM" } else { "PM" }),
        'P' => write!(out, "{}", if hour < 12 { "am" } else { "pm" }),
        'r' => return expand(out, "%I:%M:%S %p", t),
        'R' => return expand(out, "%H:%M", t),
        's' => write!(out, "{}", t.unix_timestamp()),
        'S' => write!(out, "{second:02}"),
        't' => out.write_char('\t'),
        'T' | 'X' => return expand(out, "%H:%M:%S", t),
        'u' => write!(out, "{}", weekday.number_from_monday()),
        'U' => write!(out, "{:02}", t.sunday_based_week()),
        'V' => write!(out, "{iso_week:02}"),
        'w' => write!(out, "{}", weekday.number_days_from_sunday()),
        'W' => write!(out, "{:02}", t.monday_based_week()),
        'y' => write!(out, "{:02}", year.rem_euclid(100)),
        'Y' => write!(out, "{year}"),
        'z' => write!(out, "+0000"),
        'Z' => write!(out, "UTC"),
        '%' => out.write_char('%'),
        other => write!(out, "%{other}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// curl's own test 1981: CURL_TIME=1754037103.
    #[test]
    fn as_curl_tests_it() {
        let at = 1_754_037_103_037_103_000;
        assert_eq!(
            strftime("%d/%b/%Y %H:%M:%S.%f %z %Z%%s %s", at),
            "01/Aug/2025 08:31:43.037103 +0000 UTC%s 1754037103"
        );
    }

    /// Expected values from GNU date 9.1 with LC_ALL=C.
    #[test]
    fn every_conversion() {
        let at = 1_704_067_201_000_000_000;
        let format = "%a %A %b %B|%c|%C %d %D|%e|%F|%g %G|%H %I %j %k %l|%m %M %p %P|%r|%R|%S %T";
        assert_eq!(
            strftime(format, at),
            "Mon Monday Jan January|Mon Jan  1 00:00:01 2024|20 01 01/01/24| 1|2024-01-01|24 2024|\
             00 12 001  0 12|01 00 AM am|12:00:01 AM|00:00|01 00:00:01"
        );
        assert_eq!(strftime("%u %U %V %w %W %y %q 5%", at), "1 00 01 1 01 24 %q 5%");
    }
}
