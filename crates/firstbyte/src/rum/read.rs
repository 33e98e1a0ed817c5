//! Reads files of field data, a line at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use firstbyte_sources::field_data::{FieldHeader, FieldLine, FieldLineError};

/// A line that is longer is none.
const LONGEST_LINE: u64 = 4 << 20;

/// A line that cannot be read, or the first one.
#[derive(Debug)]
pub enum UnreadFieldData {
    /// The system's error.
    Io(io::Error),
    /// The first line is none.
    Header(FieldLineError),
}

/// Whether the file at `path` begins as field data does.
///
/// # Errors
/// When it cannot be read, or is no field data.
pub fn check_field_data(path: &Path) -> Result<(), UnreadFieldData> {
    let file = BufReader::new(File::open(path).map_err(UnreadFieldData::Io)?);
    let mut line = Vec::new();
    file.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(UnreadFieldData::Io)?;
    line.pop_if(|end| *end == b'\n');
    FieldHeader::parse(&line).map(drop).map_err(UnreadFieldData::Header)
}

/// Gives each line of the file at `path` to `take`, and each that is none to `skip`, with its number and why. What stands
/// behind the last end of a line is being written, and is no line yet.
///
/// # Errors
/// When it cannot be read, or is no field data.
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
