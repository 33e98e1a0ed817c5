//! ClientHello and ServerHello, as far as they were captured (RFC 8446 §4.1, RFC 5246 §7.4.1).
//!
//! In: the body of the message, perhaps truncated. Out: the fields up to there. Nothing is an error: missing fields are
//! absent.

use crate::SessionId;
use crate::observed::TlsSeen;
use firstbyte_core::wire::cursor::ByteCursor;
use firstbyte_core::wire::tls::is_tls13;

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SESSION_TICKET: u16 = 35;
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;
const SUPPORTED_VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;
/// Before draft 23; the number had to change (RFC 8446 §4.2.8, draft-ietf-tls-tls13-23).
const KEY_SHARE_OLD: u16 = 40;
const ECH: u16 = 0xfe0d;
/// TLS 1.2, or the fixed value that TLS 1.3 hellos have in this field (RFC 8446 §4.1.2, §4.1.3).
const LEGACY: u16 = 0x0303;
/// Encrypted SNI, the predecessor of ECH.
const ESNI: u16 = 0xffce;

/// SHA-256 of "HelloRetryRequest", which replaces the random (RFC 8446 §4.1.3).
const RETRY_RANDOM: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Fields of a ClientHello by which the handshake's outcome is judged later.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientOffer {
    /// The session ID and its length; absent if it is empty.
    pub(crate) session_id: Option<(SessionId, u32)>,
    pub(crate) ticket: u32,
    pub(crate) identities: u32,
    pub(crate) pre_shared_key: bool,
    pub(crate) early_data: bool,
    pub(crate) tls13: bool,
    /// Whether the whole message was captured.
    pub(crate) whole: bool,
}

/// Fields of a ServerHello that show how the handshake continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerAnswer {
    pub(crate) retry: bool,
    pub(crate) pre_shared_key: bool,
    pub(crate) tls13: bool,
    pub(crate) session_id: Option<SessionId>,
    /// Whether the whole message was captured.
    pub(crate) whole: bool,
}

/// GREASE: values that clients send to keep servers tolerant of unknown ones (RFC 8701 §2).
const fn is_grease(value: u16) -> bool {
    value & 0x0f0f == 0x0a0a && value >> 8 == value & 0xff
}

/// Reads a ClientHello's body into `seen`.
pub(crate) fn client_hello(body: &[u8], seen: &mut TlsSeen) -> ClientOffer {
    let mut offer = ClientOffer::default();
    seen.client_hello = true;
    let whole = client_fields(body, seen, &mut offer);
    offer.whole = whole.is_some();
    if !offer.whole && seen.version_offered == Some(LEGACY) {
        // The part that is missing may offer more (RFC 8446 §4.2.1).
        seen.version_offered = None;
    }
    offer
}

fn client_fields(body: &[u8], seen: &mut TlsSeen, offer: &mut ClientOffer) -> Option<()> {
    let mut reader = ByteCursor::new(body);
    let version = reader.u16()?;
    seen.version_offered = Some(version);
    reader.take(32)?;
    let session_id = reader.block8()?;
    offer.session_id = SessionId::from_bytes(session_id).map(|id| (id, session_id.len() as u32));
    reader.block16()?;
    reader.block8()?;
    if reader.is_empty() {
        return Some(());
    }
    let length = usize::from(reader.u16()?);
    let whole = reader.rest().len() >= length;
    let mut extensions = ByteCursor::new(&reader.rest()[..length.min(reader.rest().len())]);
    while !extensions.is_empty() {
        let kind = extensions.u16()?;
        let (value, cut) = extensions.block16_or_rest()?;
        match kind {
            SERVER_NAME if !cut => seen.sni = server_name(value),
            ALPN => seen.alpn_offered = protocols(value),
            SESSION_TICKET => offer.ticket = value.len() as u32,
            PRE_SHARED_KEY => {
                offer.pre_shared_key = true;
                offer.identities = identities(value);
            }
            EARLY_DATA => offer.early_data = true,
            SUPPORTED_VERSIONS => {
                let highest = highest_version(value);
                offer.tls13 = highest.is_some_and(is_tls13);
                seen.version_offered = highest.or(seen.version_offered);
            }
            KEY_SHARE | KEY_SHARE_OLD if !cut => {
                seen.client_key_exchange_bytes = Some(client_shares(value));
            }
            ECH | ESNI => seen.ech_offered = true,
            _ => {}
        }
        if cut {
            return None;
        }
    }
    whole.then_some(())
}

/// Reads a ServerHello's body into `seen`. With `may_be_13`, a hello truncated before its `supported_versions` leaves
/// the version open.
pub(crate) fn server_hello(body: &[u8], seen: &mut TlsSeen, may_be_13: bool) -> ServerAnswer {
    let mut answer = ServerAnswer::default();
    let before = seen.version;
    answer.whole = server_fields(body, seen, &mut answer).is_some();
    if !answer.whole && may_be_13 && seen.version == Some(LEGACY) {
        seen.version = before;
    }
    answer
}

/// Reads a HelloRetryRequest with a message type of its own, as in drafts up to 21.
pub(crate) fn old_retry(body: &[u8], seen: &mut TlsSeen) {
    if let Some(version) = ByteCursor::new(body).u16() {
        seen.version = Some(version);
    }
}

fn server_fields(body: &[u8], seen: &mut TlsSeen, answer: &mut ServerAnswer) -> Option<()> {
    let mut reader = ByteCursor::new(body);
    let version = reader.u16()?;
    let random = reader.take(32)?;
    answer.retry = random == RETRY_RANDOM;
    answer.tls13 = is_tls13(version);
    if !answer.retry {
        seen.server_hello = true;
    }
    seen.version = Some(version);
    // Drafts up to 21 have neither a session ID nor a compression method.
    let old_draft = matches!(version, 0x7f00..=0x7f15);
    if !old_draft {
        answer.session_id = SessionId::from_bytes(reader.block8()?);
    }
    seen.cipher_suite = Some(reader.u16()?);
    if !old_draft {
        reader.take(1)?;
    }
    if reader.is_empty() {
        return Some(());
    }
    let length = usize::from(reader.u16()?);
    let whole = reader.rest().len() >= length;
    let mut extensions = ByteCursor::new(&reader.rest()[..length.min(reader.rest().len())]);
    while !extensions.is_empty() {
        let kind = extensions.u16()?;
        let (value, cut) = extensions.block16_or_rest()?;
        let mut value = ByteCursor::new(value);
        match kind {
            SUPPORTED_VERSIONS => {
                let version = value.u16()?;
                answer.tls13 = is_tls13(version);
                seen.version = Some(version);
            }
            PRE_SHARED_KEY => answer.pre_shared_key = true,
            KEY_SHARE | KEY_SHARE_OLD => {
                seen.group = Some(value.u16()?);
                // A HelloRetryRequest names only the group.
                seen.server_key_exchange_bytes = value.u16().map(u32::from);
            }
            ALPN if !cut => seen.alpn = protocols(value.rest()),
            _ => {}
        }
        if cut {
            return None;
        }
    }
    whole.then_some(())
}

/// Reads the group of a ServerKeyExchange and the length of its public value (RFC 8422 §5.4).
pub(crate) fn server_key_exchange(body: &[u8], seen: &mut TlsSeen) {
    const NAMED_CURVE: u8 = 3;
    if !seen.cipher_suite.is_some_and(is_ecdhe) {
        return;
    }
    if let [NAMED_CURVE, a, b, length, ..] = body {
        seen.group = Some(u16::from_be_bytes([*a, *b]));
        seen.server_key_exchange_bytes = Some(u32::from(*length));
    }
}

/// Whether the suite's ServerKeyExchange begins with a curve.
fn is_ecdhe(suite: u16) -> bool {
    let name = crate::names::cipher_suite(suite);
    name.starts_with("TLS_ECDHE_") || name.starts_with("TLS_ECDH_anon") || name.starts_with("0x")
}

/// Reads a hello in SSL 2.0 format, from its message type on: the version, and whether it offers a session.
pub(crate) fn sslv2_hello(message: &[u8], seen: &mut TlsSeen) -> ClientOffer {
    let mut offer = ClientOffer::default();
    seen.client_hello = true;
    if let [1, major, minor, a, b, c, d, _, _, rest @ ..] = message {
        seen.version_offered = Some(u16::from_be_bytes([*major, *minor]));
        let (suites, length) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        let id = rest.get(usize::from(suites)..).and_then(|rest| rest.get(..usize::from(length)));
        offer.session_id = id.and_then(SessionId::from_bytes).map(|id| (id, length.into()));
        offer.whole = true;
    }
    offer
}

/// The longest possible host name (RFC 1035 §2.3.4), and the limit for stored protocol names.
const LONGEST_NAME: usize = 255;
const LONGEST_PROTOCOLS: usize = 512;

fn server_name(value: &[u8]) -> Option<Box<str>> {
    const HOST_NAME: u8 = 0;
    let mut list = ByteCursor::new(ByteCursor::new(value).block16()?);
    (list.take(1)? == [HOST_NAME]).then_some(())?;
    let name = list.block16()?;
    Some(match name.get(..LONGEST_NAME) {
        Some(kept) if name.len() > LONGEST_NAME => (text(kept) + "…").into(),
        _ => text(name).into(),
    })
}

fn protocols(value: &[u8]) -> Option<Box<str>> {
    let mut reader = ByteCursor::new(value);
    reader.u16()?;
    // The length prefix of each name takes as much space as a comma; the first name needs no comma.
    let mut names = String::with_capacity(value.len().saturating_sub(3).min(LONGEST_PROTOCOLS));
    while let Some(name) = reader.block8() {
        if !names.is_empty() {
            names.push(',');
        }
        if names.len() > LONGEST_PROTOCOLS {
            names.push('…');
            break;
        }
        push_text(&mut names, name);
    }
    (!names.is_empty()).then(|| names.into())
}

/// Bytes as text. Anything but printable ASCII is escaped, so that it can be shown without loss.
fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    push_text(&mut text, bytes);
    text
}

fn push_text(text: &mut String, bytes: &[u8]) {
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') & (*byte != b'\\');
    if bytes.iter().fold(true, |all, byte| all & plain(byte))
        && let Ok(plain) = std::str::from_utf8(bytes)
    {
        return text.push_str(plain);
    }
    for byte in bytes {
        match byte {
            b' '..=b'~' if *byte != b'\\' => text.push(char::from(*byte)),
            _ => text.extend(std::ascii::escape_default(*byte).map(char::from)),
        }
    }
}

fn highest_version(value: &[u8]) -> Option<u16> {
    let mut reader = ByteCursor::new(value);
    reader.take(1)?;
    // Draft versions have higher numbers but are older than the final one.
    let rank = |version: u16| if version == 0x0304 { u16::MAX } else { version };
    let mut highest: Option<u16> = None;
    while let Some(version) = reader.u16() {
        if !is_grease(version) && highest.is_none_or(|known| rank(known) < rank(version)) {
            highest = Some(version);
        }
    }
    highest
}

/// Total length of the client's key shares, without GREASE.
fn client_shares(value: &[u8]) -> u32 {
    let mut reader = ByteCursor::new(value);
    let _ = reader.u16();
    let mut bytes = 0;
    while let (Some(group), Some(share)) = (reader.u16(), reader.block16()) {
        if !is_grease(group) {
            bytes += share.len() as u32;
        }
    }
    bytes
}

fn identities(value: &[u8]) -> u32 {
    let mut list = ByteCursor::new(ByteCursor::new(value).block16().unwrap_or_default());
    let mut count = 0;
    while list.block16().is_some() && list.take(4).is_some() {
        count += 1;
    }
    count
}
