//! Headers between a tunnel's header and the inner packet, if skipping them takes more than a length.

use super::{Bytes, DEEPEST, Next, Unread};

const ERSPAN_2: u16 = 0x88be;
const ERSPAN_3: u16 = 0x22eb;

/// RFC 2784, RFC 2890; ERSPAN as in draft-foschiano-erspan.
pub(super) fn gre(bytes: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    let flags = bytes.u16(0)?;
    let kind = bytes.u16(2)?;
    let sequence = flags & 0x1000 != 0;
    let optional = [0x8000, 0x2000, 0x1000].iter().filter(|flag| flags & **flag != 0).count();
    let rest = bytes.behind(4 + 4 * optional)?;
    match kind {
        // Without a sequence number there is no ERSPAN header either.
        ERSPAN_2 => Ok(Next::Ethernet(if sequence { rest.behind(8)? } else { rest })),
        ERSPAN_3 => {
            let subheader = if rest.byte(11)? & 1 != 0 { 8 } else { 0 };
            Ok(Next::Ethernet(rest.behind(12 + subheader)?))
        }
        kind => Ok(Next::Type(kind, rest)),
    }
}

/// A packet of a mobile network's user plane (3GPP TS 29.281 §5.1).
pub(super) fn gtp(bytes: Bytes<'_>) -> Result<Next<'_>, Unread<'_>> {
    const VERSION_1: u8 = 0x30;
    const USER_DATA: u8 = 0xff;
    let flags = bytes.byte(0)?;
    if flags & 0xf0 != VERSION_1 || bytes.byte(1)? != USER_DATA {
        return Err(Unread::NotIp);
    }
    if flags & 0x07 == 0 {
        return Ok(Next::Ip(bytes.behind(8)?));
    }
    let (mut rest, mut extension) = (bytes.behind(12)?, bytes.byte(11)?);
    for _ in 0..DEEPEST {
        if extension == 0 {
            return Ok(Next::Ip(rest));
        }
        let length = usize::from(rest.byte(0)?).max(1) * 4;
        extension = rest.byte(length - 1)?;
        rest = rest.behind(length)?;
    }
    Err(Unread::Malformed)
}
