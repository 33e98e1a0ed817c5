//! Days: their numbers, and the date formats of exports.

/// Days since 1 January 1970, if the Gregorian calendar has this date.
pub fn day_number(year: i64, month: u32, day: u32) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Years start in March, so that a leap day is the last day of its year. Every five months together have 153 days.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let month = i64::from((month + 9) % 12);
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// Year, month and day.
pub fn date_of_day(day: i64) -> (i64, u32, u32) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * month + 2) / 5 + 1) as u32;
    let month = if month < 10 { month + 3 } else { month - 9 } as u32;
    (year + era * 400 + i64::from(month <= 2), month, day)
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Which number comes first in dates with slashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlashOrder {
    MonthFirst,
    DayFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenDate {
    /// The date is unambiguous.
    Day(i64),
    /// `3/4/2026`: either number could be the month.
    Slashes { first: u32, second: u32, year: i64 },
    /// It looks like a date, but there is no such day.
    NoSuchDay,
}

impl WrittenDate {
    /// `None` if `text` does not look like a date.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let day = |day: Option<i64>| Some(day.map_or(Self::NoSuchDay, Self::Day));
        let text = text.trim();
        // `2026-04-15T00:00:00Z`, `2026-04-15 00:00`: the time after the date is midnight, or does not matter.
        let head = text.split(['T', ' ']).next().unwrap_or(text);
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if digits(text) && text.len() == 8 {
            let (year, rest) = text.split_at(4);
            return day(day_number(
                year.parse().ok()?,
                rest[..2].parse().ok()?,
                rest[2..].parse().ok()?,
            ));
        }
        for (separator, whole) in [('-', head), ('/', head), ('.', head)] {
            let parts: Vec<&str> = whole.split(separator).collect();
            let [a, b, c] = parts[..] else { continue };
            if ![a, b, c].iter().all(|part| digits(part)) || a.len().max(b.len()).max(c.len()) > 4 {
                continue;
            }
            if a.len() == 4 {
                return day(day_number(a.parse().ok()?, b.parse().ok()?, c.parse().ok()?));
            }
            let year: i64 = c.parse().ok()?;
            let year = if c.len() == 2 { 2000 + year } else { year };
            let (first, second): (u32, u32) = (a.parse().ok()?, b.parse().ok()?);
            if separator == '.' {
                return day(day_number(year, second, first));
            }
            return Some(Self::Slashes { first, second, year });
        }
        Self::in_words(text)
    }

    /// `Apr 15, 2026`, `15 April 2026`, `Wednesday, April 15, 2026`.
    fn in_words(text: &str) -> Option<Self> {
        let mut words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        if words.len() == 4 && words[0].chars().all(char::is_alphabetic) {
            words.remove(0);
        }
        let [a, b, c] = words[..] else { return None };
        let month = |word: &str| {
            let word = word.to_ascii_lowercase();
            let at = MONTHS.iter().position(|month| word.len() >= 3 && word.starts_with(month))?;
            u32::try_from(at + 1).ok()
        };
        let (month, number) = match (month(a), month(b)) {
            (Some(month), _) => (month, b),
            (_, Some(month)) => (month, a),
            _ => return None,
        };
        let year: i64 = c.parse().ok().filter(|year| *year >= 1000)?;
        let number: u32 = number.parse().ok()?;
        Some(day_number(year, month, number).map_or(Self::NoSuchDay, Self::Day))
    }

    /// The order that this date proves, if it proves one.
    pub(super) fn order(self) -> Option<SlashOrder> {
        match self {
            Self::Slashes { first, .. } if first > 12 => Some(SlashOrder::DayFirst),
            Self::Slashes { second, .. } if second > 12 => Some(SlashOrder::MonthFirst),
            _ => None,
        }
    }

    /// The day, given the order used throughout the file.
    pub(super) fn day(self, order: SlashOrder) -> Option<i64> {
        match self {
            Self::Day(day) => Some(day),
            Self::NoSuchDay => None,
            Self::Slashes { first, second, year } => match order {
                SlashOrder::MonthFirst => day_number(year, first, second),
                SlashOrder::DayFirst => day_number(year, second, first),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_there_and_back() {
        assert_eq!(day_number(1970, 1, 1), Some(0));
        assert_eq!(day_number(2026, 4, 15), Some(20_558));
        assert_eq!(day_number(2026, 2, 29), None);
        for day in 0..60_000 {
            let (year, month, number) = date_of_day(day);
            assert_eq!(day_number(year, month, number), Some(day));
        }
    }

    #[test]
    fn dates_as_exports_write_them() {
        let day = Some(WrittenDate::Day(20_558));
        for text in [
            "2026-04-15",
            "20260415",
            "2026/04/15",
            "15.04.2026",
            "Apr 15, 2026",
            "15 April 2026",
            "Wednesday, April 15, 2026",
            "2026-04-15T00:00:00Z",
            "2026-04-15 00:00:00",
        ] {
            assert_eq!(WrittenDate::parse(text), day, "{text}");
        }
        let us = WrittenDate::parse("4/15/26").unwrap();
        assert_eq!(us.order(), Some(SlashOrder::MonthFirst));
        assert_eq!(us.day(SlashOrder::MonthFirst), Some(20_558));
        assert_eq!(WrittenDate::parse("2026-13-01"), Some(WrittenDate::NoSuchDay));
        for text in ["", "Total", "12", "1.5", "a b c"] {
            assert_eq!(WrittenDate::parse(text), None, "{text}");
        }
    }
}
