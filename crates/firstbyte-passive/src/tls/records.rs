//! Finds the TLS records of one direction: reads headers, and passes on the payloads that are needed.
//!
//! In: the stream's bytes in order, in segments whose ends may be missing. Out: calls to the session. After the
//! handshake payloads are skipped without being read. If the record boundaries are lost, they are searched for at the
//! start of segments.

use super::session::{Place, Session};
use crate::table::Side;

/// The largest record (RFC 8446 §5.2, RFC 5246 §6.2.3), plus what old stacks added.
const LONGEST: u16 = (1 << 14) + 2048;
const HEADER: usize = 5;
/// How far into a stream to search for the start of TLS (STARTTLS, proxies).
const SEARCHED: u32 = 1 << 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// At the start of the stream, which may be TLS or something else.
    #[default]
    AtStart,
    /// Records follow each other.
    Records,
    /// Searching for a record at the start of each segment.
    Seeking,
    /// No TLS in this stream.
    NotTls,
}

/// Reads the records of one direction.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    mode: Mode,
    wanted: bool,
    found_before: bool,
    have: u8,
    header: [u8; HEADER],
    /// Payload bytes of the current record still to come.
    left: u16,
    searched: u32,
}

impl Reader {
    /// A reader that begins in the middle of a stream.
    pub(crate) fn mid_stream() -> Self {
        Self { mode: Mode::Seeking, ..Self::default() }
    }

    /// Whether the next `bytes` can be skipped without looking at them.
    #[inline]
    pub(crate) fn skips(&self, bytes: u32) -> bool {
        match self.mode {
            Mode::Records => !self.wanted && u32::from(self.left) >= bytes,
            Mode::NotTls => true,
            Mode::AtStart | Mode::Seeking => false,
        }
    }

    /// Takes the next segment: `bytes` long on the wire, with `captured` as the part that was captured.
    #[inline]
    pub(crate) fn segment(
        &mut self,
        session: &mut Session,
        side: Side,
        place: Place,
        captured: &[u8],
        bytes: u32,
    ) {
        if self.mode == Mode::Records && !self.wanted && u32::from(self.left) > bytes {
            self.left -= bytes as u16;
            return;
        }
        self.any_segment(session, side, place, captured, bytes);
    }

    fn any_segment(
        &mut self,
        session: &mut Session,
        side: Side,
        mut place: Place,
        captured: &[u8],
        bytes: u32,
    ) {
        if self.mode == Mode::NotTls || bytes == 0 {
            return;
        }
        if self.mode == Mode::Seeking && !self.seek(session, side, captured, bytes) {
            return;
        }
        let mut rest = captured;
        while !rest.is_empty() && matches!(self.mode, Mode::Records | Mode::AtStart) {
            let before = rest.len();
            rest = self.step(session, side, place, rest);
            place.position = place.position.wrapping_add((before - rest.len()) as u32);
        }
        let missing = bytes - (captured.len() as u32).min(bytes);
        if missing > 0 {
            self.missing(session, side, place, missing);
        }
    }

    /// Notes that `bytes` of the stream were not captured.
    pub(crate) fn missing(&mut self, session: &mut Session, side: Side, place: Place, bytes: u32) {
        match self.mode {
            Mode::Records if u32::from(self.left) >= bytes => {
                self.left -= bytes as u16;
                if self.wanted {
                    session.content_missing(side, place, bytes);
                }
                if self.left == 0 && self.have as usize == HEADER {
                    self.end(session, side, place);
                }
            }
            Mode::Records | Mode::AtStart => {
                // The current record was there up to its end, even though its bytes were not captured.
                if self.left > 0 && !self.wanted {
                    self.end(session, side, place);
                }
                session.records_lost(side, place);
                self.lose();
            }
            Mode::Seeking | Mode::NotTls => {}
        }
    }

    fn step<'a>(
        &mut self,
        session: &mut Session,
        side: Side,
        place: Place,
        bytes: &'a [u8],
    ) -> &'a [u8] {
        if self.left > 0 {
            let taken = bytes.len().min(self.left.into());
            if self.wanted {
                session.content(side, place, &bytes[..taken]);
            }
            self.left -= taken as u16;
            if self.left == 0 {
                self.end(session, side, place);
            }
            return &bytes[taken..];
        }
        let taken = match bytes.first_chunk::<HEADER>() {
            Some(header) if self.have == 0 => {
                self.header = *header;
                HEADER
            }
            _ => {
                let have = usize::from(self.have);
                let taken = bytes.len().min(HEADER - have);
                self.header[have..have + taken].copy_from_slice(&bytes[..taken]);
                taken
            }
        };
        self.have += taken as u8;
        if self.mode == Mode::AtStart && !may_begin(self.header[0]) {
            // A record type of another protocol, however short the segment: PostgreSQL agrees to TLS with one byte.
            self.lose();
        } else if self.have as usize == HEADER {
            self.begin(session, side, place);
        }
        &bytes[taken..]
    }

    fn begin(&mut self, session: &mut Session, side: Side, place: Place) {
        let [kind, major, minor, a, b] = self.header;
        let length = u16::from_be_bytes([a, b]);
        if self.mode == Mode::AtStart && is_sslv2_hello(&self.header) {
            let length = u16::from_be_bytes([kind & 0x7f, major]);
            self.wanted = session.sslv2_hello(side, place, length.into());
            session.content(side, place, &self.header[2..]);
            self.left = length.saturating_sub(3);
            self.mode = Mode::Records;
            return;
        }
        if self.mode == Mode::AtStart && kind & 0x80 != 0 && major != 3 && self.header[2] == 4 {
            session.sslv2_answer(side);
            self.mode = Mode::NotTls;
            return;
        }
        if !is_header(kind, major, minor, length) {
            if self.mode == Mode::Records {
                session.records_lost(side, place);
            }
            self.lose();
            return;
        }
        self.mode = Mode::Records;
        self.found_before = true;
        self.left = length;
        self.wanted = session.record(side, place, kind, length);
        if length == 0 {
            self.end(session, side, place);
        }
    }

    fn end(&mut self, session: &mut Session, side: Side, place: Place) {
        self.have = 0;
        self.wanted = false;
        session.record_end(side, place);
    }

    fn lose(&mut self) {
        self.mode = Mode::Seeking;
        (self.have, self.left, self.wanted) = (0, 0, false);
    }

    /// Whether the segment begins with a record.
    fn seek(&mut self, session: &Session, side: Side, captured: &[u8], bytes: u32) -> bool {
        self.searched = self.searched.saturating_add(bytes);
        if !self.found_before && !session.any_tls() && self.searched > SEARCHED {
            self.mode = Mode::NotTls;
            return false;
        }
        let Some(&[kind, major, minor, a, b]) = captured.first_chunk::<HEADER>() else {
            return false;
        };
        let length = u16::from_be_bytes([a, b]);
        if !is_header(kind, major, minor, length) || length == 0 {
            return false;
        }
        // A stream that has not been TLS so far begins with a hello, or continues with data in whole records.
        let begins = match kind {
            22 => matches!(captured.get(HEADER), Some(1 | 2)) || session.in_handshake(side),
            23 => {
                captured.len() > HEADER + usize::from(length) || session.any_tls() || {
                    captured.len() == HEADER + usize::from(length) || bytes > 1000
                }
            }
            _ => session.any_tls(),
        };
        if begins {
            self.mode = Mode::Records;
        }
        begins
    }
}

/// Whether a record, or a hello in SSL 2.0 format, may begin with this byte.
const fn may_begin(first: u8) -> bool {
    matches!(first, 20..=24) || first & 0x80 != 0
}

fn is_header(kind: u8, major: u8, minor: u8, length: u16) -> bool {
    matches!(kind, 20..=24) && major == 3 && minor <= 4 && length <= LONGEST
}

/// Two bytes of length, the message type, a version (RFC 6101 §E).
fn is_sslv2_hello(header: &[u8; HEADER]) -> bool {
    header[0] & 0x80 != 0 && header[2] == 1 && matches!(header[3..], [3, 0..=4] | [0, 2])
}
