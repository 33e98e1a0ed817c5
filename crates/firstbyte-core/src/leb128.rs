//! Compact integers: LEB128, seven bits per byte, lowest first, with the top bit set if more bytes follow.

/// Why bytes are not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leb128Error {
    /// The bytes are truncated.
    Incomplete,
    /// The number exceeds the requested type.
    OutOfRange,
}

/// Appends `number` to `out`.
pub fn put_leb128(out: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number from the front of `rest`.
///
/// # Errors
/// [`Leb128Error`]; the position of `rest` is then unspecified.
pub fn take_leb128<N: TryFrom<u128>>(rest: &mut &[u8]) -> Result<N, Leb128Error> {
    let mut number = 0_u128;
    for place in 0.. {
        let (byte, after) = rest.split_first().ok_or(Leb128Error::Incomplete)?;
        *rest = after;
        let bits = u128::from(byte & 0x7f);
        let shifted = bits.checked_shl(7 * place).filter(|shifted| shifted >> (7 * place) == bits);
        number |= shifted.ok_or(Leb128Error::OutOfRange)?;
        if byte & 0x80 == 0 {
            break;
        }
    }
    N::try_from(number).map_err(|_| Leb128Error::OutOfRange)
}
