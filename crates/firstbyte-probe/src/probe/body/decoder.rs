//! Decodes content codings (RFC 9110 §8.4.1) while writing. Each decoder knows whether the coding was complete.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use flate2::write::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::{raw, zio};

/// A decoder as a writer, with an explicit end.
pub(super) trait Decoder: Write {
    /// Ends the input.
    ///
    /// # Errors
    /// The error of the underlying writer, or an incomplete coding.
    fn end(&mut self) -> io::Result<()>;

    /// Number of bytes after the end of the coding.
    fn behind(&self) -> u64 {
        0
    }
}

/// The decoder of `encoding` (in lower case); `None` if the encoding is not known.
pub(super) fn decoder(
    encoding: &str,
    sink: Box<dyn Write>,
) -> io::Result<Option<Box<dyn Decoder>>> {
    Ok(Some(match encoding {
        "" | "identity" => Box::new(Plain(sink)),
        "gzip" | "x-gzip" => Box::new(Gzip::new(sink)),
        "deflate" => Box::new(Deflate { sink, inflate: None, complete: false }),
        "br" => Box::new(brotli_decompressor::DecompressorWriter::new(sink, 4096)),
        "zstd" => Box::new(Zstd::new(sink, raw::Decoder::new()?)),
        _ => return Ok(None),
    }))
}

struct Plain(Box<dyn Write>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Decoder for Plain {
    fn end(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// gzip as browsers accept it: members one after another (RFC 1952 §2.2), followed by anything.
struct Gzip {
    sink: SharedSink,
    member: GzDecoder<SharedSink>,
    place: GzipPlace,
    behind: u64,
}

/// Position of the next byte in a gzip file.
#[derive(Clone, Copy)]
enum GzipPlace {
    InMember,
    /// After a member, and after this many bytes of the magic number of another.
    BehindMember(usize),
    BehindAll,
}

/// The first bytes of a member (RFC 1952 §2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The sink that all members are written to.
#[derive(Clone)]
struct SharedSink(Rc<RefCell<Box<dyn Write>>>);

impl Write for SharedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

impl Gzip {
    fn new(sink: Box<dyn Write>) -> Self {
        let sink = SharedSink(Rc::new(RefCell::new(sink)));
        let member = GzDecoder::new(sink.clone());
        Self { sink, member, place: GzipPlace::InMember, behind: 0 }
    }
}

impl Write for Gzip {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = bytes;
        while let Some(first) = left.first() {
            match self.place {
                GzipPlace::InMember => match self.member.write(left)? {
                    // The member accepts no more: it has ended, if its checksum is right.
                    0 => {
                        self.member.try_finish()?;
                        self.place = GzipPlace::BehindMember(0);
                    }
                    taken => left = &left[taken..],
                },
                GzipPlace::BehindMember(seen) if GZIP_MAGIC[seen] != *first => {
                    self.behind = seen as u64;
                    self.place = GzipPlace::BehindAll;
                }
                GzipPlace::BehindMember(seen) => {
                    left = &left[1..];
                    self.place = GzipPlace::BehindMember(seen + 1);
                    if seen + 1 == GZIP_MAGIC.len() {
                        self.member = GzDecoder::new(self.sink.clone());
                        self.member.write_all(&GZIP_MAGIC)?;
                        self.place = GzipPlace::InMember;
                    }
                }
                GzipPlace::BehindAll => {
                    self.behind += left.len() as u64;
                    left = &[];
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Decoder for Gzip {
    fn end(&mut self) -> io::Result<()> {
        match self.place {
            GzipPlace::InMember => self.member.try_finish()?,
            GzipPlace::BehindMember(seen) => self.behind = seen as u64,
            GzipPlace::BehindAll => {}
        }
        self.sink.flush()
    }

    fn behind(&self) -> u64 {
        self.behind
    }
}

impl Decoder for brotli_decompressor::DecompressorWriter<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.close()
    }
}

/// The zstd writer that reports whether the frame is complete.
type Zstd = zio::Writer<Box<dyn Write>, raw::Decoder<'static>>;

impl Decoder for Zstd {
    fn end(&mut self) -> io::Result<()> {
        self.finish()?;
        self.writer_mut().flush()
    }
}

/// `deflate` means zlib (RFC 9110 §8.4.1.2), but some servers send the bare deflate stream.
struct Deflate {
    sink: Box<dyn Write>,
    inflate: Option<Decompress>,
    complete: bool,
}

impl Deflate {
    /// Decodes some of `bytes`; returns how many were consumed, and how many came out.
    fn step(&mut self, bytes: &[u8], flush: FlushDecompress) -> io::Result<(usize, usize)> {
        const METHOD_DEFLATE: u8 = 8;
        // The low half of zlib's first byte is the method (RFC 1950 §2.2).
        let zlib = bytes.first().is_some_and(|first| first & 0x0f == METHOD_DEFLATE);
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(zlib));
        let mut piece = [0; 16 * 1024];
        let (total_in, total_out) = (inflate.total_in(), inflate.total_out());
        let status = inflate
            .decompress(bytes, &mut piece, flush)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "invalid deflate stream"))?;
        self.complete = status == Status::StreamEnd;
        let taken = usize::try_from(inflate.total_in() - total_in).unwrap_or(bytes.len());
        let given = usize::try_from(inflate.total_out() - total_out).unwrap_or(piece.len());
        self.sink.write_all(&piece[..given])?;
        Ok((taken, given))
    }
}

impl Write for Deflate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut left = bytes;
        while !left.is_empty() && !self.complete {
            let (taken, given) = self.step(left, FlushDecompress::None)?;
            left = &left[taken..];
            if taken + given == 0 {
                break;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl Decoder for Deflate {
    fn end(&mut self) -> io::Result<()> {
        // Write the output for which there was no room with the last input.
        while !self.complete {
            let (_, given) = self.step(&[], FlushDecompress::None)?;
            if given == 0 && !self.complete {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.sink.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{self, Write};
    use std::rc::Rc;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::decoder;

    #[derive(Clone, Default)]
    struct Out(Rc<RefCell<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The decoded form of `packed`, fed in pieces of `size` bytes; `None` if it is not complete.
    fn decoded(encoding: &str, packed: &[u8], size: usize) -> Option<Vec<u8>> {
        let out = Out::default();
        let mut decoder = decoder(encoding, Box::new(out.clone())).unwrap().unwrap();
        for piece in packed.chunks(size) {
            decoder.write_all(piece).ok()?;
        }
        decoder.end().ok()?;
        drop(decoder);
        Some(out.0.take())
    }

    #[test]
    fn deflate_is_zlib_or_bare_and_tells_when_it_is_cut_short() {
        let plain = b"a body that repeats itself, ".repeat(4_000);
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        zlib.write_all(&plain).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        bare.write_all(&plain).unwrap();
        for packed in [zlib.finish().unwrap(), bare.finish().unwrap()] {
            for size in [1, 7, packed.len()] {
                assert!(decoded("deflate", &packed, size).unwrap() == plain, "pieces of {size}");
            }
            assert_eq!(decoded("deflate", &packed[..packed.len() - 3], 7), None);
        }
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_members_and_what_stands_behind_them() {
        let plain = b"a body that repeats itself, ".repeat(400);
        let (one, twice) = (gzip(&plain), plain.repeat(2));
        for (behind, expected) in [
            (&b""[..], &plain),
            (b"\0\0\0", &plain),
            (b"\x1f", &plain),
            (b"\x1fx", &plain),
            (b"trailing bytes", &plain),
            (&one, &twice),
            (&[&one[..], b"\x1f\x1f"].concat(), &twice),
        ] {
            let packed = [&one[..], behind].concat();
            for size in [1, 7, packed.len()] {
                let out = decoded("gzip", &packed, size);
                assert!(out.as_ref() == Some(expected), "{behind:?} in pieces of {size}");
            }
        }
        let mut wrong_sum = one.clone();
        wrong_sum[one.len() - 6] ^= 1;
        for (bad, size) in [(&one[..one.len() - 3], 7), (&one[..20], 1), (&wrong_sum, 7)] {
            assert_eq!(decoded("gzip", bad, size), None);
        }
        let mut decoder = decoder("gzip", Box::new(io::sink())).unwrap().unwrap();
        decoder.write_all(&[&one[..], b"\x1fbytes"].concat()).unwrap();
        decoder.end().unwrap();
        assert_eq!(decoder.behind(), 6);
    }

    #[test]
    fn zstd_tells_when_it_is_cut_short() {
        let plain = b"a body that repeats itself, ".repeat(4_000);
        let packed = zstd::encode_all(plain.as_slice(), 3).unwrap();
        for size in [1, 7, packed.len()] {
            assert!(decoded("zstd", &packed, size).unwrap() == plain, "pieces of {size}");
        }
        assert_eq!(decoded("zstd", &packed[..packed.len() - 3], 7), None);
    }
}
