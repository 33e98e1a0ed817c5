//! HTTP/2 frame headers (RFC 9113 §4.1).
//!
//! Input: the decrypted bytes of one direction, in order, in pieces of any size. Output: the type and offset of each
//! frame. Payloads are skipped, not kept.

/// Type of a frame (RFC 9113 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the RFC")]
pub enum FrameType {
    Data,
    Headers,
    Priority,
    RstStream,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown(u8),
}

impl FrameType {
    const fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            other => Self::Unknown(other),
        }
    }

    /// Name in the RFC.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "DATA",
            Self::Headers => "HEADERS",
            Self::Priority => "PRIORITY",
            Self::RstStream => "RST_STREAM",
            Self::Settings => "SETTINGS",
            Self::PushPromise => "PUSH_PROMISE",
            Self::Ping => "PING",
            Self::GoAway => "GOAWAY",
            Self::WindowUpdate => "WINDOW_UPDATE",
            Self::Continuation => "CONTINUATION",
            Self::Unknown(_) => "unknown frame",
        }
    }
}

/// A frame's header and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Frame type.
    pub frame_type: FrameType,
    /// Flags, as on the wire.
    pub flags: u8,
    /// Stream ID; 0 is the connection.
    pub stream: u32,
    /// Payload length, bytes.
    pub payload_bytes: u32,
    /// Offset in the stream of the header's first byte.
    pub offset: u64,
}

impl FrameHeader {
    /// Whether this is a SETTINGS or PING acknowledgement (RFC 9113 §6.5, §6.7).
    pub const fn is_ack(&self) -> bool {
        matches!(self.frame_type, FrameType::Settings | FrameType::Ping) && self.flags & 1 != 0
    }
}

/// Connection preface, which a client sends before its first frame (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads the frame headers of one direction.
#[derive(Clone, Debug, Default)]
pub struct FrameScanner {
    header: [u8; 9],
    header_len: usize,
    payload_left: u32,
    offset: u64,
}

impl FrameScanner {
    /// Feeds the next bytes; `found` is called when a frame's header is complete.
    pub fn feed(&mut self, mut bytes: &[u8], mut found: impl FnMut(FrameHeader)) {
        while !bytes.is_empty() {
            let skipped = bytes.len().min(self.payload_left as usize);
            self.payload_left -= u32::try_from(skipped).unwrap_or(self.payload_left);
            bytes = &bytes[skipped..];
            self.offset += skipped as u64;
            let taken = bytes.len().min(self.header.len() - self.header_len);
            self.header[self.header_len..self.header_len + taken].copy_from_slice(&bytes[..taken]);
            self.header_len += taken;
            bytes = &bytes[taken..];
            self.offset += taken as u64;
            if self.header_len == self.header.len() {
                self.header_len = 0;
                let [a, b, c, kind, flags, s0, s1, s2, s3] = self.header;
                self.payload_left = u32::from_be_bytes([0, a, b, c]);
                found(FrameHeader {
                    frame_type: FrameType::from_byte(kind),
                    flags,
                    stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
                    payload_bytes: self.payload_left,
                    offset: self.offset - self.header.len() as u64,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scan(pieces: &[&[u8]]) -> Vec<FrameHeader> {
        let mut scanner = FrameScanner::default();
        let mut frames = Vec::new();
        for piece in pieces {
            scanner.feed(piece, |frame| frames.push(frame));
        }
        frames
    }

    fn settings_then_headers() -> Vec<u8> {
        let mut bytes = vec![0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 128];
        bytes.extend([0, 0, 2, 1, 4, 0, 0, 0, 1, 0x88, 0x00]);
        bytes.extend([0, 0, 0, 4, 1, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn finds_each_frame() {
        let frames = scan(&[&settings_then_headers()]);
        let names: Vec<_> = frames.iter().map(|f| f.frame_type.name()).collect();
        assert_eq!(names, ["SETTINGS", "HEADERS", "SETTINGS"]);
        assert_eq!(frames.iter().map(|f| f.offset).collect::<Vec<_>>(), [0, 15, 26]);
        assert_eq!(frames[1].stream, 1);
        assert!(frames[2].is_ack() && !frames[0].is_ack());
    }

    proptest! {
        #[test]
        fn cutting_the_stream_changes_nothing(cut in 0usize..36) {
            let bytes = settings_then_headers();
            let cut = cut.min(bytes.len());
            prop_assert_eq!(scan(&[&bytes[..cut], &bytes[cut..]]), scan(&[&bytes]));
        }
    }
}
