//! Writes a file of field data: whole lines, one process at a time.
//!
//! A line is handed to the kernel in one write before its beacon is answered, so that nothing that was answered is lost when
//! this process is killed; on the disk it is once a second. Where a write fails, the file is cut back to the line before;
//! what a process that was killed within a write left of a line goes when the file is continued.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use firstbyte_sources::field_data::{FieldHeader, FieldLine, FieldLineError};

/// Mode of the file: what people's browsers said is for its owner.
const OWNER_ONLY: u32 = 0o600;
/// No line is longer: a beacon has 64 KiB.
const LONGEST_LINE: u64 = 4 << 20;

/// A file of field data that is being written.
#[derive(Debug)]
pub struct FieldWriter {
    file: File,
    /// Length of what is whole.
    length: u64,
    /// How long it may become.
    most: u64,
    /// What is left of a line that was being written when the process before ended.
    torn: u64,
    buffer: Vec<u8>,
}

/// Why a file cannot be written to.
#[derive(Debug)]
pub enum FieldFileError {
    /// Another process writes it.
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// There is something else in it.
    NotFieldData {
        /// Which.
        path: PathBuf,
        /// Why it is none.
        error: FieldLineError,
    },
    /// The system refuses.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for FieldFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path } => {
                write!(f, "{} is being written by another process", path.display())
            }
            Self::NotFieldData { path, error } => {
                write!(f, "{} is not a file of field data: {error}", path.display())
            }
            Self::Io { path, source } => {
                let why = firstbyte_probe::probe::describe_io(source);
                write!(f, "cannot write {}: {why}", path.display())
            }
        }
    }
}

impl std::error::Error for FieldFileError {}

/// Why a line is not in the file.
#[derive(Debug)]
pub enum NotWritten {
    /// The file is as long as it may become.
    AtLimit,
    /// The system refuses: the disk is full, or broken.
    Io(io::Error),
}

impl FieldWriter {
    /// Begins the file at `path`, or goes on with it; `most` bytes are the longest that it may become.
    ///
    /// # Errors
    /// When another process writes it, something else is in it, or it cannot be written.
    pub fn open(path: &Path, header: &FieldHeader, most: u64) -> Result<Self, FieldFileError> {
        let failed = |source| FieldFileError::Io { path: path.to_owned(), source };
        // A pipe would be waited for, with all who send.
        if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
            let what = "is not a regular file; field data needs one";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, what)));
        }
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(OWNER_ONLY)
            .open(path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FieldFileError::Locked { path: path.to_owned() });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let length = file.metadata().map_err(failed)?.len();
        let whole = whole_length(&file, length).map_err(failed)?;
        if whole > 0 {
            let mut first = Vec::new();
            let mut reader = BufReader::new(&file);
            reader.seek(SeekFrom::Start(0)).map_err(failed)?;
            io::Read::take(reader, LONGEST_LINE).read_until(b'\n', &mut first).map_err(failed)?;
            FieldHeader::parse(&first)
                .map_err(|error| FieldFileError::NotFieldData { path: path.to_owned(), error })?;
        } else if length > 0 && !header_begins(&file, length).map_err(failed)? {
            let detail = "no complete line in it".to_owned();
            let error = FieldLineError::Malformed { detail };
            return Err(FieldFileError::NotFieldData { path: path.to_owned(), error });
        }
        let torn = length - whole;
        if torn > 0 {
            file.set_len(whole).map_err(failed)?;
        }
        let mut writer = Self { file, length: whole, most, torn, buffer: Vec::new() };
        if whole == 0 {
            let line = serde_json::to_vec(header).map_err(io::Error::other).map_err(failed)?;
            writer.buffer.extend(line);
            writer.buffer.push(b'\n');
            writer.flush().map_err(failed)?;
        }
        Ok(writer)
    }

    /// Bytes that were cut off when it was opened: what another process had begun to write.
    pub const fn torn(&self) -> u64 {
        self.torn
    }

    /// Writes lines: all of them, or none.
    ///
    /// # Errors
    /// When they cannot be written. The file ends with the line before, and another attempt may be made.
    pub fn append(&mut self, lines: &[FieldLine]) -> Result<(), NotWritten> {
        self.buffer.clear();
        for line in lines {
            serde_json::to_writer(&mut self.buffer, line)
                .map_err(|error| NotWritten::Io(error.into()))?;
            self.buffer.push(b'\n');
        }
        if self.length + self.buffer.len() as u64 > self.most {
            return Err(NotWritten::AtLimit);
        }
        self.flush().map_err(NotWritten::Io)
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = (&self.file).write_all(&self.buffer);
        match written {
            Ok(()) => {
                self.length += self.buffer.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Best effort: if this fails too, what is torn goes when the file is continued.
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }

    /// The same file, for who hands it to the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn to_sync(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for FieldWriter {
    fn drop(&mut self) {
        // Where these fail, the kernel does the same in its own time.
        let _ = self.file.sync_data();
        let _ = self.file.unlock();
    }
}

/// Up to where a file of `length` is whole lines.
fn whole_length(file: &File, length: u64) -> io::Result<u64> {
    let from = length.saturating_sub(LONGEST_LINE);
    let mut end = vec![0; (length - from) as usize];
    file.read_exact_at(&mut end, from)?;
    let newline = memchr::memrchr(b'\n', &end);
    Ok(newline.map_or(0, |at| from + at as u64 + 1))
}

/// Whether a file without a whole line is a header that was being written.
fn header_begins(file: &File, length: u64) -> io::Result<bool> {
    let mut begin = vec![0; length.min(64) as usize];
    file.read_exact_at(&mut begin, 0)?;
    let known = b"{\"format\":\"firstbyte/field\"";
    let shared = begin.len().min(known.len());
    Ok(begin[..shared] == known[..shared] && length < LONGEST_LINE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use super::*;

    fn line(n: u64) -> FieldLine {
        FieldLine::Refused(BTreeMap::from([("why".to_owned(), n)]))
    }

    fn open(path: &Path) -> Result<FieldWriter, FieldFileError> {
        FieldWriter::open(path, &FieldHeader::new(7, "0"), 1_000)
    }

    #[test]
    fn a_file_is_continued_wherever_its_writer_was_killed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("field.ndjson");
        let mut writer = open(&path).unwrap();
        writer.append(&[line(1), line(2)]).unwrap();
        drop(writer);
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut writer = open(&path).unwrap_or_else(|error| panic!("{cut}: {error}"));
            writer.append(&[line(3)]).unwrap();
            drop(writer);
            let text = fs::read_to_string(&path).unwrap();
            let mut lines = text.lines();
            FieldHeader::parse(lines.next().unwrap().as_bytes()).unwrap();
            let all: Vec<FieldLine> =
                lines.map(|line| FieldLine::parse(line.as_bytes()).unwrap()).collect();
            assert_eq!(all.last(), Some(&line(3)), "{cut}");
        }
    }

    #[test]
    fn what_is_something_else_stays_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["DNS,Connect\n1,2\n", "no line", "{\"format\":\"firstbyte/run\"}\n", "\n"] {
            let path = directory.path().join("other");
            fs::write(&path, text).unwrap();
            let error = open(&path).unwrap_err();
            assert!(matches!(error, FieldFileError::NotFieldData { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn one_process_writes_and_no_more_than_it_may() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("field.ndjson");
        let mut writer = open(&path).unwrap();
        assert!(matches!(open(&path).unwrap_err(), FieldFileError::Locked { .. }));
        let written = (0..1_000).take_while(|n| writer.append(&[line(*n)]).is_ok()).count();
        assert!(matches!(writer.append(&[line(1)]), Err(NotWritten::AtLimit)));
        drop(writer);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 1_000 && text.lines().count() == written + 1 && written > 10);
    }

    /// A device that is always full.
    #[test]
    fn a_full_disk_is_said() {
        let error = open(Path::new("/dev/full")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
    }
}
