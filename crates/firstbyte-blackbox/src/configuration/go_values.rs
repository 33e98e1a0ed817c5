//! Values in Go's syntax: durations (`time.ParseDuration`), sizes (`units.Base2Bytes`), and numbers and base64 as in
//! yaml.v3.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// `base64.StdEncoding`: padded, and lenient about the unused bits of the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Decodes base64 text, which may contain line breaks.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.replace(['\r', '\n'], "")).ok()
}

pub(crate) fn encode_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// The integer that yaml.v3 makes of an unquoted scalar if the field is an `int`.
///
/// `0310` and `0o310` are octal. `08`, `2.5` and `1e2` are floats, whose fraction is dropped.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    match text.as_bytes().first()? {
        b'.' => parse_fraction(text),
        b'0'..=b'9' | b'+' | b'-' => {
            let text = text.replace('_', "");
            parse_whole(&text).or_else(|| parse_fraction(&text))
        }
        _ => None,
    }
}

fn parse_whole(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match rest.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &rest[2..]),
        [b'0', b'b' | b'B', ..] => (2, &rest[2..]),
        [b'0', b'o' | b'O', ..] => (8, &rest[2..]),
        [b'0', _, ..] => (8, &rest[1..]),
        _ => (10, rest),
    };
    // `from_str_radix` would accept a second sign.
    let is_number = digits.chars().all(|c| c.is_digit(radix));
    is_number.then(|| i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()).flatten()
}

fn parse_fraction(text: &str) -> Option<i64> {
    // Excludes `inf` and `nan`.
    let is_number = text.bytes().all(|b| b.is_ascii_digit() || b".eE+-".contains(&b));
    let value: f64 = is_number.then(|| text.parse().ok()).flatten()?;
    (value.abs() < i64::MAX as f64).then_some(value as i64)
}

/// Parses a duration such as `1m30s` into nanoseconds. Go has no unit for days.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = match rest.get(..end)? {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        rest = rest.get(end..)?;
        total += number * unit;
    }
    let nanoseconds = total.round();
    (nanoseconds < i64::MAX as f64)
        .then_some(if negative { -nanoseconds } else { nanoseconds } as i64)
}

/// Prints a duration as Go does: `5s`, `1m30s`, `1.5s`, `500ms`.
pub(crate) fn print_duration(nanoseconds: i64) -> String {
    if nanoseconds == 0 {
        return "0s".into();
    }
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let all = nanoseconds.unsigned_abs();
    let trimmed = |value: f64| format!("{value}");
    let text = match all {
        ..1_000 => format!("{all}ns"),
        1_000..1_000_000 => format!("{}µs", trimmed(all as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{}ms", trimmed(all as f64 / 1e6)),
        _ => {
            let (hours, rest) = (all / 3_600_000_000_000, all % 3_600_000_000_000);
            let (minutes, rest) = (rest / 60_000_000_000, rest % 60_000_000_000);
            let seconds = trimmed(rest as f64 / 1e9);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

const UNITS: [(&str, u64); 7] = [
    ("EB", 1 << 60),
    ("PB", 1 << 50),
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
    ("B", 1),
];

/// Parses a size such as `10MB`. Units are multiples of 1024; `MiB` means the same.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let mut rest = text;
    let mut total = 0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest.get(..end)?.parse().ok()?;
        rest = rest.get(end..)?;
        let end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let unit = rest.get(..end)?.replacen("iB", "B", 1);
        let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit)?;
        rest = rest.get(end..)?;
        total += number * *bytes as f64;
    }
    (!text.is_empty() && total < u64::MAX as f64 / 2.0).then_some(total as u64)
}

/// Prints a size as `units.Base2Bytes` does: `10MiB`.
pub(crate) fn print_bytes(bytes: u64) -> String {
    let (mut rest, mut text) = (bytes, String::new());
    for (name, size) in UNITS {
        let of_it = rest / size;
        rest %= size;
        if of_it > 0 {
            let name = if size == 1 { name.to_owned() } else { name.replacen('B', "iB", 1) };
            text += &format!("{of_it}{name}");
        }
    }
    if text.is_empty() { "0B".into() } else { text }
}

/// Prints a number as in Go's text format for metrics (`strconv` with `g`, shortest).
pub(crate) fn print_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    if value == 0.0 {
        return "0".into();
    }
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or(0);
    // Below a million, the shortest representation is printed without an exponent.
    if !(-4..6).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_as_by_go() {
        for (text, ns, printed) in [
            ("5s", 5_000_000_000, "5s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("500ms", 500_000_000, "500ms"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("100us", 100_000, "100µs"),
        ] {
            assert_eq!(parse_duration(text), Some(ns), "{text}");
            assert_eq!(print_duration(ns), printed);
        }
        for bad in ["1d", "5", "", "s", "5 s", "1.2.3s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_those_of_yaml_v3() {
        // Each value is as decoded by go.yaml.in/yaml/v3 3.0.4 and gopkg.in/yaml.v3 3.0.1.
        for (text, number) in [
            ("0310", 200),
            ("0o310", 200),
            ("0O17", 15),
            ("0xC8", 200),
            ("0XC8", 200),
            ("0x_1f", 31),
            ("0b11001000", 200),
            ("0B11", 3),
            ("2_0_0", 200),
            ("1_", 1),
            ("0", 0),
            ("08", 8),
            ("0_8", 8),
            ("0310.5", 310),
            ("200.0", 200),
            ("2.5", 2),
            (".5", 0),
            ("-.5", 0),
            ("1.", 1),
            ("1.e2", 100),
            ("1e2", 100),
            ("-5", -5),
            ("+5", 5),
            ("-0b11", -3),
            ("-0o17", -15),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(parse_int(text), Some(number), "{text}");
        }
        for text in [
            "",
            "_1",
            "0x",
            "0o8",
            "0x1p4",
            "1 2",
            "--5",
            "0-5",
            "2001-01-01",
            ".inf",
            ".nan",
            "inf",
            "1e400",
            "9223372036854775808",
            ".5_0",
            "e5",
        ] {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }

    #[test]
    fn base64_is_that_of_go() {
        for (text, bytes) in [
            ("AAAACATSFi8=", &b"\x00\x00\x00\x08\x04\xd2\x16/"[..]),
            ("aGVsbG9=", b"hello"),
            ("aGVs\r\nbG8=\n", b"hello"),
            ("AB==", b"\0"),
            ("", b""),
        ] {
            assert_eq!(decode_base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["aGVs bG8=", "aGVsbG8", "aGVsbG8==", "aGVsbG8=aGVs", "_-8="] {
            assert_eq!(decode_base64(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_of_1024() {
        assert_eq!(parse_bytes("10MB"), Some(10 << 20));
        assert_eq!(parse_bytes("10MiB"), Some(10 << 20));
        assert_eq!(parse_bytes("1KB512B"), Some(1536));
        assert_eq!(print_bytes(1536), "1KiB512B");
        for bad in ["", "10", "10mb", "MB"] {
            assert_eq!(parse_bytes(bad), None, "{bad}");
        }
    }

    #[test]
    fn numbers_are_printed_as_by_go() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (200.0, "200"),
            (1.1, "1.1"),
            (544.0, "544"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (1_000_000.0, "1e+06"),
            (3_668_918_509.0, "3.668918509e+09"),
            (0.000_170_463, "0.000170463"),
            (0.000_015_172, "1.5172e-05"),
            (119.5, "119.5"),
            (-62_135_596_800.0, "-6.21355968e+10"),
        ] {
            assert_eq!(print_float(value), text);
        }
    }
}
