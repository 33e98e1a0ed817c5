//! The decoded text of an export, and the fields of its lines.

use super::AveragesError;

/// Decodes `bytes` as UTF-8, or as UTF-16 if there is a byte order mark, as spreadsheets write it. Strips the mark.
pub(super) fn text(bytes: &[u8]) -> Result<String, AveragesError> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units: Vec<u16> = bytes
            .chunks(2)
            .map(|pair| match pair {
                [a, b] => unit([*a, *b]),
                _ => 0xfffd,
            })
            .collect();
        String::from_utf16(&units)
            .map_err(|_| AveragesError::at(1, 1, "the file is not a text file in UTF-8 or UTF-16"))
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => wide(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => match std::str::from_utf8(rest) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => {
                let line = rest[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
                Err(AveragesError::at(line, 1, "the line is not UTF-8"))
            }
        },
    }
}

/// The field separator of a header. Column names never contain tabs or semicolons.
pub(super) fn separator(header: &str) -> char {
    ['\t', ';'].into_iter().find(|c| header.contains(*c)).unwrap_or(',')
}

/// The fields of a line, without their quotes (RFC 4180).
pub(super) fn split(
    line: &str,
    separator: char,
    number: usize,
) -> Result<Vec<String>, AveragesError> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        let last = fields.len() - 1;
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields[last].push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(String::new()),
            c => fields[last].push(c),
        }
    }
    if quoted {
        return Err(AveragesError::at(number, fields.len(), "a quotation mark is not closed"));
    }
    Ok(fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

/// The decimal mark used in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecimalMark {
    Point,
    Comma,
}

impl DecimalMark {
    /// The decimal mark that a column's numbers prove; `otherwise` if they are ambiguous.
    pub(super) fn shown_by<'a>(fields: impl Iterator<Item = &'a str>, otherwise: Self) -> Self {
        let (mut points, mut commas) = (false, false);
        for field in fields {
            match (field.rfind('.'), field.rfind(',')) {
                (Some(point), Some(comma)) if point > comma => points = true,
                (Some(_), Some(_)) => commas = true,
                (Some(at), None) => points |= is_fraction(field, at, '.'),
                (None, Some(at)) => commas |= is_fraction(field, at, ','),
                (None, None) => {}
            }
        }
        match (points, commas) {
            (true, false) => Self::Point,
            (false, true) => Self::Comma,
            _ => otherwise,
        }
    }
}

/// Whether the mark at `at` can only be a decimal mark: it is the only one, and it is not followed by exactly three
/// digits, or nothing but a zero comes before it.
fn is_fraction(field: &str, at: usize, mark: char) -> bool {
    let digits = field[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
    let whole = field[..at].trim_start_matches(['-', '+']);
    field.matches(mark).count() == 1 && (digits != 3 || whole == "0" || whole.is_empty())
}

/// A number followed by a unit: `1,234.5`, `0,06`, `61.2 ms`, `1 234`.
pub(super) fn number(field: &str, mark: DecimalMark) -> Option<(f64, &str)> {
    let end =
        field.find(|c: char| c.is_alphabetic() || c == 'µ' || c == '%').unwrap_or(field.len());
    let (digits, unit) = field.split_at(end);
    // An exponent is not a unit.
    let (digits, unit) = match unit.strip_prefix(['e', 'E']) {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') => {
            (field, "")
        }
        _ => (digits, unit),
    };
    let (decimal, thousands) = match mark {
        DecimalMark::Point => ('.', ','),
        DecimalMark::Comma => (',', '.'),
    };
    let mut plain = String::new();
    for c in digits.trim().chars() {
        match c {
            c if c == decimal => plain.push('.'),
            c if c == thousands || matches!(c, ' ' | '\u{a0}' | '\u{202f}' | '\'' | '’') => {}
            c => plain.push(c),
        }
    }
    let value: f64 = plain.parse().ok()?;
    value.is_finite().then_some((value, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_places() {
        use DecimalMark::{Comma, Point};
        for (field, mark, value) in [
            ("1,234.5", Point, (1234.5, "")),
            ("1.234,5", Comma, (1234.5, "")),
            ("0,06", Comma, (0.06, "")),
            ("61.2 ms", Point, (61.2, "ms")),
            ("0.06s", Point, (0.06, "s")),
            ("1 234", Point, (1234.0, "")),
            ("1\u{202f}234", Comma, (1234.0, "")),
            ("6.1e-2", Point, (0.061, "")),
        ] {
            assert_eq!(number(field, mark), Some(value), "{field}");
        }
        for field in ["", "abc", "1.2.3", "-", "NaN", "inf"] {
            assert_eq!(number(field, Point), None, "{field}");
        }
        let shown = |fields: &[&'static str]| DecimalMark::shown_by(fields.iter().copied(), Point);
        assert_eq!(shown(&["1,234", "12,5"]), Comma);
        assert_eq!(shown(&["1,234", "999"]), Point);
        assert_eq!(shown(&["0,061"]), Comma);
        assert_eq!(shown(&["1.234.567"]), Point);
    }
}
