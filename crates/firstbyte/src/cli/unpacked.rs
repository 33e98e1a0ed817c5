//! Reads files of other programs, decompressing them if necessary.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::plans::Destination;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The contents of a file, decompressed if it is gzip or zstd; `-` is standard input.
pub(in crate::cli) fn unpacked(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file: Box<dyn Read> = match path.as_os_str() == Destination::STREAM {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path)?),
    };
    let mut magic = Vec::with_capacity(ZSTD.len());
    file.by_ref().take(ZSTD.len() as u64).read_to_end(&mut magic)?;
    let (is_gzip, is_zstd) = (magic.starts_with(&GZIP), magic == ZSTD);
    let whole = io::Cursor::new(magic).chain(file);
    Ok(match () {
        () if is_gzip => Box::new(MultiGzDecoder::new(whole)),
        () if is_zstd => Box::new(zstd::Decoder::with_buffer(BufReader::new(whole))?),
        () => Box::new(whole),
    })
}
