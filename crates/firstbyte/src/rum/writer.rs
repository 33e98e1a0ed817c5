//! Writes a file of field data: whole lines, one process at a time.
//!
//! Each line is handed to the kernel in one write before its beacon is answered, so no acknowledged line is lost if
//! this process is killed. The file is synced to the disk once a second. If a write fails, the file is truncated to the
//! previous line. A partial line left by a killed process is removed when the file is continued.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use firstbyte_sources::field_data::{FieldHeader, FieldLine, FieldLineError};

/// Mode of the file: only its owner may read what people's browsers reported.
const OWNER_ONLY: u32 = 0o600;
/// Maximum length of a line, in bytes; a beacon has at most 64 KiB.
const LONGEST_LINE: u64 = 4 << 20;

/// A file of field data being written.
#[derive(Debug)]
pub struct FieldWriter {
    file: File,
    /// Length of the whole lines, in bytes.
    length: u64,
    /// Maximum length of the file, in bytes.
    most: u64,
    /// Bytes of a partial line left by the previous process.
    torn: u64,
    buffer: Vec<u8>,
}

/// Reason why a file cannot be written.
#[derive(Debug)]
pub enum FieldFileError {
    /// Another process is writing it.
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It contains something else.
    NotFieldData {
        /// The file.
        path: PathBuf,
        /// Why its contents are not field data.
        error: FieldLineError,
    },
    /// A system error.
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
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

/// Reason why a line was not written.
#[derive(Debug)]
pub enum NotWritten {
    /// The file has reached its maximum length.
    AtLimit,
    /// A system error, such as a full or broken disk.
    Io(io::Error),
}

impl FieldWriter {
    /// Creates or continues the file at `path`, which may grow to `most` bytes.
    ///
    /// # Errors
    /// If another process is writing it, it contains something else, or it cannot be written.
    pub fn open(path: &Path, header: &FieldHeader, most: u64) -> Result<Self, FieldFileError> {
        let failed = |source| FieldFileError::Io { path: path.to_owned(), source };
        // Opening a pipe would wait for its other end, and with it all clients.
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

    /// Bytes of a partial line, left by another process, that were cut off when the file was opened.
    pub const fn torn(&self) -> u64 {
        self.torn
    }

    /// Writes all of `lines` or none of them.
    ///
    /// # Errors
    /// If they cannot be written. The file then ends with the previous line, and the caller may try again.
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
                // Best effort: if this fails too, the partial line is cut off when the file is continued.
                let _ = self.file.set_len(self.length);
                Err(error)
            }
        }
    }

    /// A second handle of the file, for syncing it.
    ///
    /// # Errors
    /// The system's error.
    pub fn to_sync(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for FieldWriter {
    fn drop(&mut self) {
        // If these fail, the kernel eventually does the same.
        let _ = self.file.sync_data();
        let _ = self.file.unlock();
    }
}

/// Length of the whole lines in a file of `length` bytes.
fn whole_length(file: &File, length: u64) -> io::Result<u64> {
    let from = length.saturating_sub(LONGEST_LINE);
    let mut end = vec![0; (length - from) as usize];
    file.read_exact_at(&mut end, from)?;
    let newline = memchr::memrchr(b'\n', &end);
    Ok(newline.map_or(0, |at| from + at as u64 + 1))
}

/// Whether a file without a whole line begins with a partial header.
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

    /// `/dev/full` is a device that is always full.
    #[test]
    fn a_full_disk_is_said() {
        let error = open(Path::new("/dev/full")).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: "), "{error}");
    }
}
