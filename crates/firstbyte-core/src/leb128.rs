//! Whole numbers as few bytes: LEB128, seven bits a byte, the lowest first, the top bit set where more follow.

/// Why bytes are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leb128Error {
    /// They end within it.
    Incomplete,
    /// It is larger than what is asked for.
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

/// Takes the number that `rest` begins with off it.
///
/// # Errors
/// [`Leb128Error`]; `rest` is then anywhere.
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
