//! Reads files written by people. Endless ones (a device, a pipe) are refused at a size limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Size limit in bytes of a text file, such as a plan or a bundle of certificates.
pub const MOST_TEXT: u64 = 16 << 20;
/// Size limit in bytes of a body that is held in memory.
pub const MOST_BODY: u64 = 256 << 20;

/// Reads the file at `path`, of at most `most` bytes.
///
/// # Errors
/// The file cannot be read, or is larger.
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_all(File::open(path)?, most)
}

/// Like [`read_file`], for text.
///
/// # Errors
/// Those of [`read_file`], or the text is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let no_text =
        |_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8");
    String::from_utf8(read_file(path, most)?).map_err(no_text)
}

/// Reads `from` to its end, at most `most` bytes.
///
/// # Errors
/// It cannot be read, or has more bytes.
pub fn read_all(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::other(format!("more than {} MB", most >> 20))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_read_no_further_than_it_may_be() {
        let error = read_all(io::repeat(0), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "more than 1 MB");
        assert_eq!(read_all(io::repeat(0).take(1 << 20), 1 << 20).unwrap().len(), 1 << 20);
        let zero = read_file(Path::new("/dev/zero"), 2 << 20).unwrap_err();
        assert_eq!(zero.to_string(), "more than 2 MB");
    }
}
