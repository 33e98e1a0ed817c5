//! `wire --zeek`: connections with TLS in the format of Zeek's `ssl.log`, for `zeek-cut` and other readers.
//!
//! Names of versions, ciphers and curves are Zeek's (`base/protocols/ssl/consts`). An unknown value is `-`. Times
//! come from the capture, including `#open` and `#close`.

use std::fmt::Write as _;
use std::io::{self, Write};

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::{Begin, Hygiene, Observed, Time, TlsSeen, names};

use crate::dates;

const FIELDS: [(&str, &str); 14] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
    ("version", "string"),
    ("cipher", "string"),
    ("curve", "string"),
    ("server_name", "string"),
    ("resumed", "bool"),
    ("last_alert", "string"),
    ("next_protocol", "string"),
    ("established", "bool"),
];

/// Writes connections as a Zeek log.
pub struct ZeekWriter<W: Write> {
    out: W,
    /// Begin of the capture, which is the log's time.
    begin: Begin,
    begun: bool,
}

impl<W: Write> ZeekWriter<W> {
    /// Creates a log for a capture that began at `begin`. Nothing is written before the first row, because the
    /// capture may not have begun.
    pub const fn new(out: W, begin: Begin) -> Self {
        Self { out, begin, begun: false }
    }

    /// Adds a connection; those without TLS do not belong in this log and are skipped.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn row(&mut self, observed: &Observed) -> io::Result<()> {
        let Some(tls) = observed.tls.as_deref() else { return Ok(()) };
        self.header()?;
        let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
        let ns = observed.started.unix_ns();
        let flag = |flag: bool| if flag { "T" } else { "F" }.to_owned();
        let fields = [
            Some(format!(
                "{}.{:06}",
                ns.div_euclid(1_000_000_000),
                ns.rem_euclid(1_000_000_000) / 1_000
            )),
            Some(uid(observed)),
            Some(client.ip().to_string()),
            Some(client.port().to_string()),
            Some(server.ip().to_string()),
            Some(server.port().to_string()),
            tls.version.map(version),
            tls.cipher_suite.map(|number| named(number, &names::cipher_suite(number))),
            tls.group.map(curve),
            tls.sni.as_deref().map(text),
            tls.handshake.map(|handshake| flag(handshake == Handshake::Resumed)),
            alert(tls),
            tls.alpn.as_deref().map(text),
            Some(flag(tls.complete)),
        ];
        let line: Vec<String> =
            fields.into_iter().map(|f| f.unwrap_or_else(|| "-".into())).collect();
        writeln!(self.out, "{}", line.join("\t"))
    }

    /// Writes buffered data.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Writes the end; the closing time is the capture's last time.
    ///
    /// # Errors
    /// Returns errors from writing to the sink.
    pub fn finish(mut self, hygiene: &Hygiene) -> io::Result<()> {
        self.header()?;
        writeln!(self.out, "#close\t{}", moment(hygiene.span.map(|(_, last)| last)))?;
        self.out.flush()
    }

    fn header(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        let column = |of: fn(&(&'static str, &'static str)) -> &'static str| {
            FIELDS.iter().map(of).collect::<Vec<_>>().join("\t")
        };
        write!(
            self.out,
            "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tssl\n\
             #open\t{}\n#fields\t{}\n#types\t{}\n",
            moment(self.begin.time()),
            column(|field| field.0),
            column(|field| field.1),
        )
    }
}

/// The identifier of a connection: a hash of its first packet's time and its endpoints, so that reading the same
/// packets again gives the same identifier.
fn uid(observed: &Observed) -> String {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
    let of =
        format!("{} {} {client} {server}", observed.started.unix_ns(), observed.carrier.name());
    // 128-bit FNV-1a.
    let mut hash = of.bytes().fold(OFFSET, |h, byte| (h ^ u128::from(byte)).wrapping_mul(PRIME));
    let mut uid = String::from("C");
    for _ in 0..17 {
        uid.push(char::from(DIGITS[(hash % 62) as usize]));
        hash /= 62;
    }
    uid
}

fn version(number: u16) -> String {
    match number {
        0x0002 => "SSLv2".into(),
        0x0300 => "SSLv3".into(),
        0x0301 => "TLSv10".into(),
        0x0302 => "TLSv11".into(),
        0x0303 => "TLSv12".into(),
        0x0304 => "TLSv13".into(),
        // Zeek's own arithmetic, so that draft numbers match Zeek's.
        draft if draft / 0xff == 0x7f => format!("TLSv13-draft{}", draft % 0x7f),
        other => format!("unknown-{other}"),
    }
}

/// `name`, or Zeek's name for an unnamed number.
fn named(number: u16, name: &str) -> String {
    if name.starts_with("0x") { format!("unknown-{number}") } else { name.to_owned() }
}

fn curve(number: u16) -> String {
    match number {
        0x001d => "x25519".into(),
        0x001e => "x448".into(),
        other => named(other, &names::group(other)),
    }
}

fn alert(tls: &TlsSeen) -> Option<String> {
    let number = tls.alert?.description?;
    Some(names::alert(number).map_or_else(|| format!("unknown-{number}"), str::to_owned))
}

/// `text` for a field. Nonprintable characters are already escaped as `\xHH`, `\t`, `\n` or `\r`, and a backslash
/// as two. Zeek uses `\xHH` for all of these except the backslash.
fn text(text: &str) -> String {
    match text {
        "" => return "(empty)".into(),
        "-" => return "\\x2d".into(),
        "(empty)" => return "\\x28empty)".into(),
        _ => {}
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => out.push_str(match chars.next() {
                Some('x') => "\\x",
                Some('t') => "\\x09",
                Some('n') => "\\x0a",
                Some('r') => "\\x0d",
                _ => "\\\\",
            }),
            (' '..='~', _) => out.push(c),
            _ => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
        }
    }
    out
}

/// The time in the format of Zeek's `#open` line; `-` if there was no packet.
fn moment(at: Option<Time>) -> String {
    let Some(t) = at.and_then(|at| dates::utc(i128::from(at.unix_ns()))) else { return "-".into() };
    let (hour, minute, second) = t.to_hms();
    let (year, month, day) = (t.year(), u8::from(t.month()), t.day());
    format!("{year:04}-{month:02}-{day:02}-{hour:02}-{minute:02}-{second:02}")
}

#[cfg(test)]
mod tests {
    use proptest::strategy::Strategy as _;

    use super::*;

    #[test]
    fn names_are_zeek_s() {
        assert_eq!(
            [0x0303, 0x0304, 0x7f17, 0x1234].map(version),
            ["TLSv12", "TLSv13", "TLSv13-draft23", "unknown-4660"]
        );
        assert_eq!(
            [0x17, 0x1d, 0x11ec, 0x9999].map(curve),
            ["secp256r1", "x25519", "X25519MLKEM768", "unknown-39321"]
        );
    }

    #[test]
    fn nothing_gets_out_of_its_field() {
        assert_eq!(text(r"a\tb\nc\\x\xc3\xbc"), r"a\x09b\x0ac\\x\xc3\xbc");
        assert_eq!(text("a\tb"), r"a\x09b");
        assert_eq!(["-", "", "(empty)"].map(text), ["\\x2d", "(empty)", "\\x28empty)"]);
    }

    /// The escaped form in which server names are kept.
    fn kept(bytes: &[u8]) -> String {
        let escaped = |byte: &u8| match byte {
            b' '..=b'~' if *byte != b'\\' => char::from(*byte).to_string(),
            _ => std::ascii::escape_default(*byte).to_string(),
        };
        bytes.iter().map(escaped).collect()
    }

    /// Unescapes as Zeek's readers do: `\\` is a backslash, `\xHH` a byte.
    fn unescaped(field: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = field.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            rest = after;
            match (first, after) {
                (b'\\', [b'\\', after @ ..]) => {
                    bytes.push(b'\\');
                    rest = after;
                }
                (b'\\', [b'x', high, low, after @ ..]) => {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).unwrap();
                    bytes.push(u8::from_str_radix(digits, 16).unwrap());
                    rest = after;
                }
                _ => bytes.push(*first),
            }
        }
        bytes
    }

    proptest::proptest! {
        #[test]
        fn a_field_is_read_as_what_was_written(
            given in proptest::prop_oneof![
                proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
                r"[\\x0-9a-f\t\n(empty)-]{0,12}".prop_map(String::into_bytes),
            ],
        ) {
            let field = text(&kept(&given));
            let is_reserved = matches!(field.as_str(), "-" | "");
            proptest::prop_assert!(!is_reserved && field.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            match field.as_str() {
                "(empty)" => proptest::prop_assert_eq!(given, b""),
                _ => proptest::prop_assert_eq!(unescaped(&field), given),
            }
        }
    }
}
