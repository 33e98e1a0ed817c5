//! Writing captures: frames to pcapng, with nanoseconds (draft-ietf-opsawg-pcapng).
//!
//! In: frames of any link types, with their times. Out: one section with an interface for each link type
//! that came up. Frames are written as they were captured: bytes, length on the wire, time.

use std::io::{self, Write};

use firstbyte_core::passive::Time;
use firstbyte_core::passive::pcap::LinkType;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const OPT_TSRESOL: u16 = 9;

/// Writes a pcapng file.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    out: W,
    links: Vec<LinkType>,
    block: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, links: Vec::new(), block: Vec::new() };
        writer.block.extend(BYTE_ORDER.to_le_bytes());
        // Version 1.0, of a length that is not said.
        writer.block.extend([1, 0, 0, 0]);
        writer.block.extend((-1i64).to_le_bytes());
        writer.write(SECTION_HEADER)?;
        Ok(writer)
    }

    /// Adds a frame.
    ///
    /// # Errors
    /// Those of `out`, and a time before 1970.
    pub fn frame(
        &mut self,
        at: Time,
        link: LinkType,
        captured: &[u8],
        wire_bytes: u32,
    ) -> io::Result<()> {
        let ns = u64::try_from(at.unix_ns())
            .map_err(|_| io::Error::other("a packet from before 1970 has no time in pcapng"))?;
        let interface = match self.links.iter().position(|known| *known == link) {
            Some(place) => place,
            None => self.interface(link)?,
        };
        for field in [
            interface as u32,
            (ns >> 32) as u32,
            ns as u32,
            captured.len() as u32,
            wire_bytes.max(captured.len() as u32),
        ] {
            self.block.extend(field.to_le_bytes());
        }
        self.block.extend(captured);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
        self.write(ENHANCED_PACKET)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// The end of the file.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn interface(&mut self, link: LinkType) -> io::Result<usize> {
        self.block.extend(link.0.to_le_bytes());
        // Reserved; no limit on packets' lengths.
        self.block.extend([0; 6]);
        self.block.extend(OPT_TSRESOL.to_le_bytes());
        self.block.extend([1, 0, 9, 0, 0, 0]);
        // The end of the options.
        self.block.extend([0; 4]);
        self.write(INTERFACE_DESCRIPTION)?;
        self.links.push(link);
        Ok(self.links.len() - 1)
    }

    /// Writes what was gathered as a block of this type.
    fn write(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length)?;
        self.out.write_all(&self.block)?;
        self.out.write_all(&length)?;
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::passive::pcap::{Read, Reader};

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let frames: [(i64, u16, &[u8], u32); 3] = [
            (1_700_000_000_123_456_789, 1, b"hello", 60),
            (1_700_000_000_123_456_790, 113, b"", 0),
            (1_700_000_000_000_000_001, 1, b"four", 4),
        ];
        let mut writer = CaptureWriter::new(Vec::new()).unwrap();
        for (at, link, bytes, wire) in frames {
            writer.frame(Time::from_unix_ns(at), LinkType(link), bytes, wire).unwrap();
        }
        let file = writer.finish().unwrap();
        let (mut reader, mut at, mut read) = (Reader::default(), 0, Vec::new());
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
        let mut writer = CaptureWriter::new(Vec::new()).unwrap();
        assert!(writer.frame(Time::from_unix_ns(-1), LinkType(1), b"", 0).is_err());
    }
}
