//! Content codings (RFC 9110 §8.4.1), undone while writing. Each knows whether it came to its end.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::{raw, zio};

/// A writer that decodes, and that has an end.
pub(super) trait Decoder: Write {
    /// There is no more.
    ///
    /// # Errors
    /// That of the writer below, or that the coding is not complete.
    fn end(&mut self) -> io::Result<()>;
}

/// The decoder of `encoding`, in lower case; none for one that is not known.
pub(super) fn decoder(
    encoding: &str,
    sink: Box<dyn Write>,
) -> io::Result<Option<Box<dyn Decoder>>> {
    Ok(Some(match encoding {
        "" | "identity" => Box::new(Plain(sink)),
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(sink)),
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

impl Decoder for MultiGzDecoder<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().flush()
    }
}

impl Decoder for brotli_decompressor::DecompressorWriter<Box<dyn Write>> {
    fn end(&mut self) -> io::Result<()> {
        self.close()
    }
}

/// The one of zstd's writers that tells whether the frame is complete.
type Zstd = zio::Writer<Box<dyn Write>, raw::Decoder<'static>>;

impl Decoder for Zstd {
    fn end(&mut self) -> io::Result<()> {
        self.finish()?;
        self.writer_mut().flush()
    }
}

/// `deflate` is zlib (RFC 9110 §8.4.1.2), but some servers send the bare deflate stream.
struct Deflate {
    sink: Box<dyn Write>,
    inflate: Option<Decompress>,
    complete: bool,
}

impl Deflate {
    /// Decodes some of `bytes`, and says how many of them, and how many came out.
    fn step(&mut self, bytes: &[u8], flush: FlushDecompress) -> io::Result<(usize, usize)> {
        const METHOD_DEFLATE: u8 = 8;
        // The low half of zlib's first byte names the method (RFC 1950 §2.2).
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
        // What had no room with the last input still comes out.
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
    use flate2::write::{DeflateEncoder, ZlibEncoder};

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

    /// What comes out of `packed`, fed in pieces of `size` bytes; none if it is not complete.
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
