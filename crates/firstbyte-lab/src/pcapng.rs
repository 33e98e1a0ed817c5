//! Writes packets as pcapng with nanosecond timestamps (draft-ietf-opsawg-pcapng).
//!
//! In: realtime stamps and Ethernet frames. Out: one section with one interface, which ends with
//! its statistics. Block layouts are the draft's, §4.1, §4.2, §4.3 and §4.6.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

const LINKTYPE_ETHERNET: u16 = 1;
const OPT_END: u16 = 0;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IFDROP: u16 = 5;

/// Which way a frame went, as the interface saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Into the host.
    Inbound,
    /// Out of the host.
    Outbound,
    /// Neither: seen in the middle of the network.
    Unknown,
}

/// A pcapng section that is being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section with one interface of this name.
    pub fn new(out: W, interface: &str) -> io::Result<Self> {
        let mut writer = Self { out, block: Vec::with_capacity(2_048) };
        writer.section_header()?;
        writer.interface_description(interface)?;
        Ok(writer)
    }

    /// Adds a frame; `realtime_ns` counts from 1970.
    pub fn packet(&mut self, realtime_ns: u64, way: Direction, frame: &[u8]) -> io::Result<()> {
        self.begin(ENHANCED_PACKET);
        self.u32(0);
        self.timestamp(realtime_ns);
        self.u32(frame.len() as u32);
        self.u32(frame.len() as u32);
        self.padded(frame);
        let flags: u32 = match way {
            Direction::Unknown => 0,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        self.option(EPB_FLAGS, &flags.to_le_bytes());
        self.option(OPT_END, &[]);
        self.end()
    }

    /// Hands everything written so far to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the section with the number of packets that the capture missed.
    pub fn finish(mut self, realtime_ns: u64, dropped: u64) -> io::Result<()> {
        self.begin(INTERFACE_STATISTICS);
        self.u32(0);
        self.timestamp(realtime_ns);
        self.option(ISB_IFDROP, &dropped.to_le_bytes());
        self.option(OPT_END, &[]);
        self.end()?;
        self.out.flush()
    }

    fn section_header(&mut self) -> io::Result<()> {
        self.begin(SECTION_HEADER);
        self.u32(0x1a2b_3c4d);
        self.u16(1);
        self.u16(0);
        self.block.extend_from_slice(&u64::MAX.to_le_bytes());
        self.option(SHB_USERAPPL, b"firstbyte lab");
        self.option(OPT_END, &[]);
        self.end()
    }

    fn interface_description(&mut self, name: &str) -> io::Result<()> {
        self.begin(INTERFACE_DESCRIPTION);
        self.u16(LINKTYPE_ETHERNET);
        self.u16(0);
        self.u32(0);
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TSRESOL, &[9]);
        self.option(OPT_END, &[]);
        self.end()
    }

    /// Every block is its type, its length, its body, its length again.
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

    fn timestamp(&mut self, realtime_ns: u64) {
        self.u32((realtime_ns >> 32) as u32);
        self.u32(realtime_ns as u32);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_drafts() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out, "eth0").unwrap();
        writer.packet(0x1122_3344_5566_7788, Direction::Outbound, b"hello").unwrap();
        writer.finish(1, 3).unwrap();
        let blocks = [
            // Section header: magic, version 1.0, length unknown, user application.
            "0a0d0d0a 34000000 4d3c2b1a 01000000 ffffffff ffffffff",
            "04000d00 66697273 74627974 65206c61 62000000 00000000 34000000",
            // Interface description: Ethernet, no snap length, name, 10^-9 s.
            "01000000 28000000 01000000 00000000 02000400 65746830",
            "09000100 09000000 00000000 28000000",
            // Enhanced packet: interface 0, stamp, lengths, data, outbound.
            "06000000 34000000 00000000 44332211 88776655 05000000 05000000",
            "68656c6c 6f000000 02000400 02000000 00000000 34000000",
            // Interface statistics: 3 dropped.
            "05000000 28000000 00000000 00000000 01000000",
            "05000800 03000000 00000000 00000000 28000000",
        ];
        let expected: String = blocks.concat().replace(' ', "");
        let written: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(written, expected);
    }
}
