//! Writes frames to pcapng with nanoseconds (draft-ietf-opsawg-pcapng §4.1, §4.2, §4.3 and §4.6).
//!
//! Input: frames of any link types, with their times. Output: one section that names its writer, with its interfaces.
//! Frames are written as captured: bytes, length on the wire, time, and direction if known. Getting the output to a
//! disk is up to `out`.

use std::io::{self, Write};

use super::LinkType;
use super::Time;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const OPT_END: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IFDROP: u16 = 5;

/// Direction of a frame, seen from the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Into the host.
    Inbound,
    /// Out of the host.
    Outbound,
}

/// An interface of the written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceNumber(u32);

/// Writes a pcapng file.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    out: W,
    /// Unnamed interfaces by link type.
    nameless: Vec<(LinkType, InterfaceNumber)>,
    interfaces: u32,
    block: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Starts a file that names `application` as its writer.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, application: &str) -> io::Result<Self> {
        let block = Vec::with_capacity(2_048);
        let mut writer = Self { out, nameless: Vec::new(), interfaces: 0, block };
        writer.begin(SECTION_HEADER);
        writer.u32(BYTE_ORDER);
        // Version 1.0, length unspecified.
        writer.u16(1);
        writer.u16(0);
        writer.block.extend_from_slice(&u64::MAX.to_le_bytes());
        writer.option(SHB_USERAPPL, application.as_bytes());
        writer.option(OPT_END, &[]);
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface named `name`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn interface(&mut self, link: LinkType, name: &str) -> io::Result<InterfaceNumber> {
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(link.0);
        self.u16(0);
        // No limit on packet lengths.
        self.u32(0);
        if !name.is_empty() {
            self.option(IF_NAME, name.as_bytes());
        }
        // Units of 10^-9 s.
        self.option(IF_TSRESOL, &[9]);
        self.option(OPT_END, &[]);
        self.end()?;
        self.interfaces += 1;
        Ok(InterfaceNumber(self.interfaces - 1))
    }

    /// The unnamed interface for frames of this link type, added at first use.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn nameless(&mut self, link: LinkType) -> io::Result<InterfaceNumber> {
        let known = self.nameless.iter().find(|(known, _)| *known == link);
        if let Some((_, number)) = known {
            return Ok(*number);
        }
        let number = self.interface(link, "")?;
        self.nameless.push((link, number));
        Ok(number)
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// Those of `out`, and a time before 1970.
    pub fn frame(
        &mut self,
        interface: InterfaceNumber,
        at: Time,
        captured: &[u8],
        wire_bytes: u32,
        way: Option<Direction>,
    ) -> io::Result<()> {
        let ns = nanoseconds(at)?;
        self.begin(ENHANCED_PACKET);
        self.u32(interface.0);
        self.timestamp(ns);
        self.u32(captured.len() as u32);
        self.u32(wire_bytes.max(captured.len() as u32));
        self.padded(captured);
        if let Some(way) = way {
            let flags: u32 = match way {
                Direction::Inbound => 1,
                Direction::Outbound => 2,
            };
            self.option(EPB_FLAGS, &flags.to_le_bytes());
            self.option(OPT_END, &[]);
        }
        self.end()
    }

    /// Records the number of frames that `interface` had missed by `at`.
    ///
    /// # Errors
    /// Those of `out`, and a time before 1970.
    pub fn dropped(
        &mut self,
        interface: InterfaceNumber,
        at: Time,
        dropped: u64,
    ) -> io::Result<()> {
        let ns = nanoseconds(at)?;
        self.begin(INTERFACE_STATISTICS);
        self.u32(interface.0);
        self.timestamp(ns);
        self.option(ISB_IFDROP, &dropped.to_le_bytes());
        self.option(OPT_END, &[]);
        self.end()
    }

    /// Flushes everything written so far to the destination of `out`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Finishes the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    /// Begins a block. Every block is its type, its length, its body, its length again.
    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        self.u32(0);
    }

    fn end(&mut self) -> io::Result<()> {
        let length = self.block.len() as u32 + 4;
        self.u32(length);
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }

    fn timestamp(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_le_bytes());
    }
}

fn nanoseconds(at: Time) -> io::Result<u64> {
    u64::try_from(at.unix_ns())
        .map_err(|_| io::Error::other("pcapng cannot hold the time of a packet from before 1970"))
}

#[cfg(test)]
mod tests {
    use super::super::{CaptureReader, Read};
    use super::*;

    const ETHERNET: LinkType = LinkType(1);

    #[test]
    fn what_is_written_is_read() {
        let frames: [(i64, u16, &[u8], u32); 3] = [
            (1_700_000_000_123_456_789, 1, b"hello", 60),
            (1_700_000_000_123_456_790, 113, b"", 0),
            (1_700_000_000_000_000_001, 1, b"four", 4),
        ];
        let mut writer = CaptureWriter::new(Vec::new(), "a test").unwrap();
        for (at, link, bytes, wire) in frames {
            let interface = writer.nameless(LinkType(link)).unwrap();
            writer.frame(interface, Time::from_unix_ns(at), bytes, wire, None).unwrap();
        }
        let file = writer.finish().unwrap();
        let (mut reader, mut at, mut read) = (CaptureReader::default(), 0, Vec::new());
        loop {
            match reader.read(&file[at..]).unwrap() {
                Read::Frame { frame, bytes } => {
                    let (time, link) = (frame.at.unwrap().unix_ns(), frame.link.0);
                    read.push((time, link, frame.captured, frame.wire_bytes));
                    at += bytes;
                }
                Read::Skipped { bytes } => at += bytes,
                Read::NeedMore { .. } => break,
            }
        }
        assert_eq!(at, file.len());
        assert_eq!(read, frames);
        let mut writer = CaptureWriter::new(Vec::new(), "").unwrap();
        let interface = writer.nameless(ETHERNET).unwrap();
        assert!(writer.frame(interface, Time::from_unix_ns(-1), b"", 0, None).is_err());
    }

    #[test]
    fn bytes_are_the_drafts() {
        let mut writer = CaptureWriter::new(Vec::new(), "firstbyte lab").unwrap();
        let interface = writer.interface(ETHERNET, "eth0").unwrap();
        let at = Time::from_unix_ns(0x1122_3344_5566_7788);
        writer.frame(interface, at, b"hello", 5, Some(Direction::Outbound)).unwrap();
        writer.dropped(interface, Time::from_unix_ns(1), 3).unwrap();
        let blocks = [
            // Section header: magic, version 1.0, length unknown, user application.
            "0a0d0d0a 34000000 4d3c2b1a 01000000 ffffffff ffffffff",
            "04000d00 66697273 74627974 65206c61 62000000 00000000 34000000",
            // Interface description: Ethernet, no snap length, name, 10^-9 s.
            "01000000 28000000 01000000 00000000 02000400 65746830",
            "09000100 09000000 00000000 28000000",
            // Enhanced packet: interface 0, timestamp, lengths, data, outbound.
            "06000000 34000000 00000000 44332211 88776655 05000000 05000000",
            "68656c6c 6f000000 02000400 02000000 00000000 34000000",
            // Interface statistics: 3 dropped.
            "05000000 28000000 00000000 00000000 01000000",
            "05000800 03000000 00000000 00000000 28000000",
        ];
        let expected: String = blocks.concat().replace(' ', "");
        let file = writer.finish().unwrap();
        let written: String = file.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, expected);
    }
}
