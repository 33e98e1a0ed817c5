//! A decimal number without a sign or an exponent, kept exactly.

/// `digits` over a power of ten.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal<'a> {
    text: &'a str,
    digits: u128,
    /// Number of decimal places.
    decimals: u32,
}

/// More digits than any quantity needs; 10^24 times the longest unit still fits in 128 bits.
const MOST_DIGITS: usize = 20;

impl<'a> Decimal<'a> {
    /// Reads the number at the start of `text`, and returns the text after it, without spaces in between. `None`
    /// without a number, or if it has too many digits to be intended.
    pub(super) fn read(text: &'a str) -> Option<(Self, &'a str)> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // Zeros at either end do not matter.
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let any_digit = number.bytes().any(|b| b.is_ascii_digit());
        if !any_digit || fraction.contains('.') || whole.len() + fraction.len() > MOST_DIGITS {
            return None;
        }
        let digit = |sum: u128, byte: u8| sum * 10 + u128::from(byte - b'0');
        let digits = whole.bytes().chain(fraction.bytes()).fold(0, digit);
        let decimals = u32::try_from(fraction.len()).ok()?;
        Some((Self { text: number, digits, decimals }, unit.trim_start()))
    }

    /// Multiplies by `unit` and rounds to the nearest integer, halves up; `None` above 2^64 - 1.
    pub(super) fn times_rounded(self, unit: u64) -> Option<u64> {
        let scale = 10_u128.pow(self.decimals);
        let product = self.digits.checked_mul(u128::from(unit))?;
        u64::try_from(product.checked_add(scale / 2)? / scale).ok()
    }

    /// Multiplies by `unit`: `Some(None)` if the result is not an integer, `None` above 2^64 - 1.
    pub(super) fn times_exact(self, unit: u64) -> Option<Option<u64>> {
        let scale = 10_u128.pow(self.decimals);
        let product = self.digits.checked_mul(u128::from(unit))?;
        let whole = u64::try_from(product / scale).ok()?;
        Some(product.is_multiple_of(scale).then_some(whole))
    }

    /// The nearest binary fraction.
    pub(super) fn as_f64(self) -> f64 {
        self.text.parse().unwrap_or(f64::INFINITY)
    }
}
