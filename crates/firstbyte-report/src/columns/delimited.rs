//! Rows as CSV: quoted according to RFC 4180, but with Unix line ends. Times are microseconds with as many decimals
//! as needed, at most three: exact to the nanosecond.

use std::borrow::Cow;
use std::io::Write;

use super::ColumnValue;
use crate::dates;

/// Appends a row and its line end to `out`.
pub(crate) fn row<'a>(
    out: &mut Vec<u8>,
    values: impl IntoIterator<Item = Option<ColumnValue<'a>>>,
) {
    let begin = out.len();
    for value in values {
        if let Some(value) = &value {
            field(out, value);
        }
        out.push(b',');
    }
    if out.len() > begin {
        out.pop();
    }
    out.push(b'\n');
}

/// Appends the header row of `names` to `out`.
pub(crate) fn header(out: &mut Vec<u8>, names: impl IntoIterator<Item = String>) {
    row(out, names.into_iter().map(|name| Some(ColumnValue::Text(name.into()))));
}

fn field(out: &mut Vec<u8>, value: &ColumnValue<'_>) {
    match value {
        ColumnValue::Integer(number) => signed(out, i128::from(*number)),
        // Writing to a vector cannot fail.
        ColumnValue::Number(number) => _ = write!(out, "{number:.4}"),
        ColumnValue::Text(text) => quoted(out, as_text_alone(text).as_bytes()),
        ColumnValue::Boolean(true) => out.extend_from_slice(b"true"),
        ColumnValue::Boolean(false) => out.extend_from_slice(b"false"),
        ColumnValue::Time(ns) => micros(out, *ns),
        ColumnValue::Timestamp(ns) => {
            if let Ok(ns) = u64::try_from(*ns) {
                dates::write_rfc3339_micros(out, ns);
            }
        }
    }
}

/// Marks a text that a spreadsheet would take for a formula as text, with the `'` that spreadsheets use. A text
/// that begins with `'` is marked, too, so removing the first `'` always restores the original.
pub(crate) fn as_text_alone(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\'', '\t', '\r']) {
        true => format!("'{text}").into(),
        false => text.into(),
    }
}

/// Appends a field, in quotes if necessary, with quotes in it doubled.
fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    // Without an early exit, several bytes can be checked at once.
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !text.iter().fold(false, |found, byte| found | special(byte)) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

fn micros(out: &mut Vec<u8>, ns: i128) {
    if ns < 0 {
        out.push(b'-');
    }
    let ns = ns.unsigned_abs();
    let (micros, nanos) = match u64::try_from(ns) {
        Ok(ns) => (u128::from(ns / 1_000), ns % 1_000),
        Err(_) => (ns / 1_000, (ns % 1_000) as u64),
    };
    digits(out, micros);
    if nanos == 0 {
        return;
    }
    let decimals = [nanos / 100, nanos / 10 % 10, nanos % 10].map(|digit| b'0' + digit as u8);
    let kept = 3 - decimals.iter().rev().take_while(|digit| **digit == b'0').count();
    out.push(b'.');
    out.extend_from_slice(&decimals[..kept]);
}

fn signed(out: &mut Vec<u8>, number: i128) {
    if number < 0 {
        out.push(b'-');
    }
    digits(out, number.unsigned_abs());
}

/// Faster than `Display`, which matters because most of a table is numbers.
fn digits(out: &mut Vec<u8>, number: u128) {
    let Ok(mut rest) = u64::try_from(number) else {
        _ = write!(out, "{number}");
        return;
    };
    let mut text = [0; 20];
    let mut begin = text.len();
    loop {
        begin -= 1;
        text[begin] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[begin..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn written(value: ColumnValue<'_>) -> String {
        let mut out = Vec::new();
        field(&mut out, &value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn no_text_is_a_formula_and_numbers_stay_numbers() {
        for (text, expected) in [
            ("=1+1", "'=1+1"),
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("+1", "'+1"),
            ("-2+3", "'-2+3"),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("'a", "''a"),
            ("a=1", "a=1"),
        ] {
            assert_eq!(written(ColumnValue::Text(text.into())), expected);
        }
        assert_eq!(written(ColumnValue::Integer(-1)), "-1");
        assert_eq!(written(ColumnValue::Time(-1_000)), "-1");
    }

    #[test]
    fn exact_to_the_nanosecond() {
        let time = |ns| written(ColumnValue::Time(ns));
        assert_eq!(time(1_234_567), "1234.567");
        assert_eq!(time(1_230_500), "1230.5");
        assert_eq!(time(12_000), "12");
        assert_eq!(time(7), "0.007");
        assert_eq!(time(-1_070), "-1.07");
        assert_eq!(time(0), "0");
        let longest = Duration::MAX.as_nanos();
        assert_eq!(time(longest as i128), "18446744073709551615999999.999");
    }

    proptest! {
        #[test]
        fn numbers_are_as_display_writes_them(number: i64, wide: u128) {
            prop_assert_eq!(written(ColumnValue::Integer(number)), number.to_string());
            let mut out = Vec::new();
            digits(&mut out, wide);
            prop_assert_eq!(String::from_utf8(out).unwrap(), wide.to_string());
        }

        /// The result equals that of the csv crate for the same fields, and the csv crate can read it back.
        #[test]
        fn quotes_as_rfc_4180_says(fields in proptest::collection::vec("[a-c,\"\n\r =+@'-]{0,6}", 2..6)) {
            let mut out = Vec::new();
            header(&mut out, fields.clone());
            let mut writer = csv::Writer::from_writer(Vec::new());
            writer.write_record(fields.iter().map(|text| as_text_alone(text).into_owned())).unwrap();
            let theirs = writer.into_inner().unwrap();
            prop_assert_eq!(String::from_utf8(out), String::from_utf8(theirs));
        }
    }
}
