//! A checksum in a stored line that shows whether the line was changed.
//!
//! It is the object's last member, `"crc32":"…"`, and covers everything before it (CRC-32 as in gzip, RFC 1952 §8, in
//! eight digits). Readers that do not know it ignore it. A program that rewrites a line leaves it out.

/// Text before the digits.
const BEFORE: &[u8] = b",\"crc32\":\"";
/// Text after the digits.
const BEHIND: &[u8] = b"\"}";
const DIGITS: usize = 8;
/// Length of the whole member.
const BYTES: usize = BEFORE.len() + DIGITS + BEHIND.len();

/// State of a line's checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// The checksum matches.
    Whole,
    /// The checksum does not match.
    Broken,
    /// The line has no checksum.
    Absent,
}

impl Seal {
    /// Checks `line`, given without its line ending.
    pub fn read(line: &[u8]) -> Self {
        let Some((sealed, seal)) = line.split_last_chunk::<BYTES>() else { return Self::Absent };
        let digits = seal.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(BEHIND));
        match digits {
            None => Self::Absent,
            Some(digits) if *digits == hexadecimal(crc32fast::hash(sealed)) => Self::Whole,
            Some(_) => Self::Broken,
        }
    }
}

/// Adds a checksum to the object in `out` from `begin` on.
pub fn seal(out: &mut Vec<u8>, begin: usize) {
    debug_assert_eq!(out.last(), Some(&b'}'));
    out.pop();
    let sum = crc32fast::hash(out.get(begin..).unwrap_or_default());
    out.extend_from_slice(BEFORE);
    out.extend_from_slice(&hexadecimal(sum));
    out.extend_from_slice(BEHIND);
}

/// Lower case only: upper case would make a different line.
fn hexadecimal(sum: u32) -> [u8; DIGITS] {
    const OF: &[u8; 16] = b"0123456789abcdef";
    let digit = |place: usize| OF[(sum >> (28 - 4 * place)) as usize & 0xf];
    std::array::from_fn(digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(text: &str) -> Vec<u8> {
        let mut line = text.as_bytes().to_vec();
        seal(&mut line, 0);
        line
    }

    #[test]
    fn it_is_the_last_member_and_the_rest_as_before() {
        let line = sealed(r#"{"fact":1}"#);
        assert_eq!(Seal::read(&line), Seal::Whole);
        let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(value["fact"], 1);
        assert_eq!(value["crc32"].as_str().map(str::len), Some(8));
        // `printf '{"fact":1' | gzip -c | tail -c8 | head -c4 | od -tx4` says the same.
        assert_eq!(
            value["crc32"].as_str(),
            Some(format!("{:08x}", crc32fast::hash(b"{\"fact\":1")).as_str())
        );
        assert_eq!(Seal::read(br#"{"fact":1}"#), Seal::Absent);
        assert_eq!(Seal::read(b""), Seal::Absent);
    }

    #[test]
    fn no_bit_can_be_another_one() {
        let line = sealed(r#"{"variant":0,"round":2,"sample":{"url":"https://a/é"}}"#);
        for bit in 0..line.len() * 8 {
            let mut other = line.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Seal::read(&other), Seal::Whole, "{bit}");
        }
    }
}
