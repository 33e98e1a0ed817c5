//! Dates in HAR: RFC 3339, with the offset that makes them points in time.

/// Nanoseconds since the Unix epoch; the reason if `text` is not a point in time.
pub(super) fn unix_ns(text: &str) -> Result<i64, &'static str> {
    let bytes = text.as_bytes();
    let digits = |from: usize, count: usize| -> Option<i64> {
        let part = bytes.get(from..from + count)?;
        part.iter().all(u8::is_ascii_digit).then_some(())?;
        std::str::from_utf8(part).ok()?.parse().ok()
    };
    let sign = |at: usize, expected: &[u8]| bytes.get(at).is_some_and(|b| expected.contains(b));
    let separated = sign(4, b"-") && sign(7, b"-") && sign(10, b"Tt ");
    let separated = separated && sign(13, b":") && sign(16, b":");
    let read = || Some([digits(0, 4)?, digits(5, 2)?, digits(8, 2)?]);
    let time = || Some([digits(11, 2)?, digits(14, 2)?, digits(17, 2)?]);
    let (Some([year, month, day]), Some([hour, minute, second]), true) =
        (read(), time(), separated)
    else {
        return Err("not a date");
    };
    let is_day = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    if !is_day || hour > 23 || minute > 59 || second > 60 {
        return Err("not an existing date");
    }
    let mut at = 19;
    let mut nanos = 0;
    if sign(at, b".,") {
        at += 1;
        let fraction = &bytes[at..];
        let count = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
        let digits = fraction[..count].iter().map(|b| i64::from(b - b'0'));
        for digit in digits.chain(std::iter::repeat(0)).take(9) {
            nanos = nanos * 10 + digit;
        }
        at += count;
    }
    let offset = match bytes.get(at..) {
        Some(b"Z" | b"z") => 0,
        Some([direction @ (b'+' | b'-'), ..]) => {
            let colon = usize::from(sign(at + 3, b":"));
            let (hours, minutes) = (digits(at + 1, 2), digits(at + 3 + colon, 2));
            if bytes.len() != at + 5 + colon {
                return Err("not a valid offset from UTC");
            }
            let (Some(hours @ 0..24), Some(minutes @ 0..60)) = (hours, minutes) else {
                return Err("not a valid offset from UTC");
            };
            (hours * 3_600 + minutes * 60) * if *direction == b'-' { -1 } else { 1 }
        }
        Some(b"") => return Err("no offset from UTC"),
        _ => return Err("not a date"),
    };
    let seconds =
        days_since_epoch(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset;
    seconds
        .checked_mul(1_000_000_000)
        .and_then(|ns| ns.checked_add(nanos))
        .ok_or("the date is out of range")
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let before = year - 1;
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let of_years = before * 365 + leaps(before) - (1969 * 365 + leaps(1969));
    of_years + (1..month).map(|month| days_in(year, month)).sum::<i64>() + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_are_the_same_everywhere() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Ok(0)),
            ("2026-11-23T06:26:54.604Z", Ok(1_795_415_214_604_000_000)),
            ("2026-11-23T07:26:54.604+01:00", Ok(1_795_415_214_604_000_000)),
            ("2026-11-22T22:26:54.604-0800", Ok(1_795_415_214_604_000_000)),
            ("2024-02-29T00:00:00.123456789Z", Ok(1_709_164_800_123_456_789)),
            ("2026-11-23T06:26:54.604", Err("no offset from UTC")),
            ("2023-02-29T00:00:00Z", Err("not an existing date")),
            ("2026-13-01T00:00:00Z", Err("not an existing date")),
            ("2026-11-23T06:26:54+1:00", Err("not a valid offset from UTC")),
            ("2026-11-23T06:26:54Zx", Err("not a date")),
            ("yesterday", Err("not a date")),
            ("", Err("not a date")),
            ("2026-11-23T06:26:5é", Err("not a date")),
        ] {
            assert_eq!(unix_ns(text), expected, "{text}");
        }
    }
}
