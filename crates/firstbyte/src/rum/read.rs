//! Reads files of field data line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use firstbyte_sources::field_data::{FieldHeader, FieldLine, FieldLineError};

/// Maximum length of a valid line, in bytes.
const LONGEST_LINE: u64 = 4 << 20;

/// Reason why field data cannot be read.
#[derive(Debug)]
pub enum UnreadFieldData {
    /// The system's error.
    Io(io::Error),
    /// The first line is not a field data header.
    Header(FieldLineError),
}

/// Checks that the file at `path` begins as field data does.
///
/// # Errors
/// If it cannot be read or is not field data.
pub fn check_field_data(path: &Path) -> Result<(), UnreadFieldData> {
    let file = BufReader::new(File::open(path).map_err(UnreadFieldData::Io)?);
    let mut line = Vec::new();
    file.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(UnreadFieldData::Io)?;
    line.pop_if(|end| *end == b'\n');
    FieldHeader::parse(&line).map(drop).map_err(UnreadFieldData::Header)
}

/// Gives each line of the file at `path` to `take`, and the number and error of each invalid line to `skip`.
///
/// Bytes after the last newline are a line still being written, and are ignored.
///
/// # Errors
/// If it cannot be read or is not field data.
pub fn read_field_data(
    path: &Path,
    mut take: impl FnMut(FieldLine),
    mut skip: impl FnMut(usize, FieldLineError),
) -> Result<(), UnreadFieldData> {
    let mut file =
        BufReader::with_capacity(1 << 16, File::open(path).map_err(UnreadFieldData::Io)?);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        read.map_err(UnreadFieldData::Io)?;
        let is_whole = line.pop_if(|end| *end == b'\n').is_some();
        if number == 1 {
            FieldHeader::parse(&line).map_err(UnreadFieldData::Header)?;
        } else if is_whole || line.len() as u64 == LONGEST_LINE {
            match FieldLine::parse(&line) {
                Ok(line) => take(line),
                Err(error) => skip(number, error),
            }
        }
        if !is_whole && (line.len() as u64) < LONGEST_LINE {
            break;
        }
    }
    Ok(())
}
