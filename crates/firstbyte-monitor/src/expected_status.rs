//! Which status codes a target is expected to answer with; any other status is a failure.
//!
//! In: `status = "2xx,301,400-404"` as people write it. Out: whether a status is expected. Pure.

use std::ops::RangeInclusive;

/// Status codes have three digits, and the first is 1 to 5 (RFC 9110 §15).
const STATUS_CODES: RangeInclusive<u16> = 100..=599;
/// Statuses from here on report an error of the client or the server (RFC 9110 §15.5).
const FIRST_ERROR: u16 = 400;
const EXAMPLE: &str = "write for example status = \"2xx,301\" or \"200-299\"";

/// The status codes expected of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedStatus {
    ranges: Vec<RangeInclusive<u16>>,
}

/// Expects any status below 400.
impl Default for ExpectedStatus {
    fn default() -> Self {
        Self { ranges: vec![0..=FIRST_ERROR - 1] }
    }
}

impl ExpectedStatus {
    /// Reads a list such as `2xx,301,400-404`.
    ///
    /// # Errors
    /// The part that is not a status, and what to write instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ranges = text.split(',').map(|part| {
            let part = part.trim();
            read_range(part).ok_or_else(|| {
                let what = match part {
                    "" => "a status is missing".to_owned(),
                    part => format!("{part:?} is not a status or a range of them"),
                };
                format!("{what}; {EXAMPLE}")
            })
        });
        Ok(Self { ranges: ranges.collect::<Result<_, _>>()? })
    }

    /// Whether `status` is expected.
    pub fn accepts(&self, status: u16) -> bool {
        self.ranges.iter().any(|range| range.contains(&status))
    }
}

/// Reads `2xx`, `301` or `200-299`.
fn read_range(part: &str) -> Option<RangeInclusive<u16>> {
    let hundred = part.strip_suffix("xx").or_else(|| part.strip_suffix("XX"));
    let range = match (hundred, part.split_once('-')) {
        (Some(digit), _) => {
            let first = read_code(digit)?.checked_mul(100)?;
            first..=first.checked_add(99)?
        }
        (None, Some((first, last))) => read_code(first.trim())?..=read_code(last.trim())?,
        (None, None) => {
            let code = read_code(part)?;
            code..=code
        }
    };
    let is_valid = STATUS_CODES.contains(range.start()) && STATUS_CODES.contains(range.end());
    (is_valid && !range.is_empty()).then_some(range)
}

/// Reads digits only, because `parse` would accept a sign.
fn read_code(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_below_400_is_expected_where_nothing_is_written() {
        let usual = ExpectedStatus::default();
        for (status, is_expected) in
            [(200, true), (304, true), (399, true), (400, false), (503, false)]
        {
            assert_eq!(usual.accepts(status), is_expected, "{status}");
        }
    }

    #[test]
    fn hundreds_codes_and_ranges_are_a_list() {
        let written = ExpectedStatus::parse("2xx, 301,400 - 404").unwrap();
        for (status, is_expected) in [
            (199, false),
            (200, true),
            (299, true),
            (300, false),
            (301, true),
            (302, false),
            (400, true),
            (404, true),
            (405, false),
        ] {
            assert_eq!(written.accepts(status), is_expected, "{status}");
        }
        assert_eq!(ExpectedStatus::parse("5XX"), ExpectedStatus::parse("500-599"));
    }

    #[test]
    fn what_is_not_a_status_is_named() {
        for (bad, part) in [
            ("", "a status is missing; write"),
            ("200,", "a status is missing"),
            ("ok", "\"ok\" is not a status"),
            ("2x", "\"2x\""),
            ("xx", "\"xx\""),
            ("0xx", "\"0xx\""),
            ("6xx", "\"6xx\""),
            ("20xx", "\"20xx\""),
            ("999xx", "\"999xx\""),
            ("99", "\"99\""),
            ("+200", "\"+200\""),
            ("70000", "\"70000\""),
            ("300-200", "\"300-200\""),
            ("200-", "\"200-\""),
        ] {
            let why = ExpectedStatus::parse(bad).unwrap_err();
            assert!(why.contains(part) && why.contains("status = \"2xx,301\""), "{bad}: {why}");
        }
    }
}
