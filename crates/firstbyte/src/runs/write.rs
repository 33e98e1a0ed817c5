//! Writes a run: every sample is on the disk before the next one starts.
//!
//! One process writes a run at a time. It holds an exclusive lock on the file, which the kernel releases when the
//! process ends, however it ends. A sample is one write and one `fdatasync`. If that fails, the file is truncated to
//! the previous sample, so the file is a valid run except during a write. When a run is continued, a partial line left
//! by a killed process is cut off. A monitor, which receives samples all the time, writes each one at once and syncs
//! once a second.

use std::collections::HashSet;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use firstbyte_core::document::Interner;
use firstbyte_core::document::run::{ContinuedRecord, RunHeader, sample_line};
use firstbyte_core::run::Taken;

use super::RunError;
use super::read::{BadLine, Run, regular};
use firstbyte_report::advice;

/// Mode of a run file.
const OWNER_ONLY: u32 = 0o600;
/// Maximum number of files next to a run that keep its damaged parts.
const MOST_ASIDE: u32 = 1_000;

/// What to do if a file with the new run's name exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// Keep it and fail. An empty file is reused.
    New,
    /// Overwrite it; its contents are lost.
    Overwrite,
}

/// What to do with a run that is damaged in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    CutOff,
    Refused,
}

/// A run being written.
#[derive(Debug)]
pub struct RunWriter {
    file: Locked,
    path: PathBuf,
    urls: Vec<String>,
    interner: Interner,
    /// Bytes to write before the next sample.
    preamble: Vec<u8>,
    buffer: Vec<u8>,
    /// Length of the valid part, in bytes.
    length: u64,
    /// Length of the part that is on the disk, in bytes.
    synced: u64,
    /// Preamble bytes after `synced`; written again before the next sample if they are cut off.
    unsynced: Vec<u8>,
}

/// State of a run that is continued.
#[derive(Debug)]
pub struct Resumed {
    /// The run as it was read.
    pub run: Run,
    /// Samples that the run contains.
    pub done: Done,
    /// Bytes cut off: a partial line, or a damaged line and everything after it.
    pub torn_bytes: u64,
    /// The damaged line where the file was cut; absent if only a partial line was cut off.
    pub damaged: Option<BadLine>,
    /// The file that keeps the cut-off bytes, if they hold a whole line.
    pub aside: Option<PathBuf>,
}

/// Samples of a run, by round and cell.
#[derive(Clone, Debug, Default)]
pub struct Done(HashSet<(u32, u16)>);

impl Done {
    /// Whether `cell` has a sample in `round`.
    pub fn contains(&self, round: u32, cell: usize) -> bool {
        u16::try_from(cell).is_ok_and(|cell| self.0.contains(&(round, cell)))
    }

    /// The round after the last one of each of `cells` cells.
    pub fn next_rounds(&self, cells: usize) -> Vec<u32> {
        let mut next = vec![0; cells];
        for (round, cell) in &self.0 {
            if let Some(next) = next.get_mut(usize::from(*cell)) {
                *next = round.saturating_add(1).max(*next);
            }
        }
        next
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(u32, u16)> for Done {
    fn from_iter<I: IntoIterator<Item = (u32, u16)>>(samples: I) -> Self {
        Self(samples.into_iter().collect())
    }
}

impl RunWriter {
    /// Starts a run at `path`.
    ///
    /// # Errors
    /// If the file exists (unless it may be overwritten), another process is writing it, or it cannot be written.
    pub fn create(path: &Path, header: &RunHeader, creation: Creation) -> Result<Self, RunError> {
        tracing::info!(path = %path.display(), ?creation, "starting a run");
        regular(path)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            // It contains the command line, which may hold secrets in `-H` and `-d`.
            .mode(OWNER_ONLY)
            .open(path)
            .map_err(RunError::io(path, "create"))?;
        let file = Locked::lock(file, path)?;
        // Inspect or truncate the contents only while holding the lock.
        let length = file.metadata().map_err(RunError::io(path, "create"))?.len();
        if length > 0 {
            if creation == Creation::New {
                return Err(RunError::Exists { path: path.to_owned() });
            }
            file.set_len(0).map_err(RunError::io(path, "overwrite"))?;
        }
        // An existing file may have been readable by others. Fails for another user's file, which stays as it is.
        let _ = file.set_permissions(Permissions::from_mode(OWNER_ONLY));
        let urls = header.cells.iter().map(|cell| cell.url.clone()).collect();
        let preamble =
            header.line().map_err(|e| RunError::io(path, "write")(io::Error::other(e)))?;
        let mut writer = Self::new(file, path, urls, Interner::default(), 0);
        writer.preamble = preamble;
        writer.append_all(&[]).map_err(RunError::io(path, "write"))?;
        // Sync the directory so that the file name survives a crash too; not every file system can promise that.
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
        let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|d| d.sync_all());
        Ok(writer)
    }

    /// Continues the run at `path` after the last line before any damage.
    ///
    /// Everything after that line is cut off. If it holds a whole line, it is kept in a file next to the run. A sample
    /// cannot be read without the facts that it refers to, and the damaged line may hold one of them.
    ///
    /// `expected` is the header that the caller would write for a new run. The existing run must have the same cells,
    /// options, seed and load. A line before the next sample records what changed (command, number of rounds,
    /// environment). Without `expected`, the run is accepted as it is.
    ///
    /// # Errors
    /// If there is no such run, another process is writing it, or its samples cannot be told apart from new ones.
    pub fn resume(path: &Path, expected: Option<&RunHeader>) -> Result<(Self, Resumed), RunError> {
        Self::go_on(path, expected, Damage::CutOff)
    }

    /// Continues a run if only its last line is damaged. A run with other damage is not changed.
    ///
    /// # Errors
    /// The errors of [`Self::resume`], and any damaged line before the last.
    pub fn resume_whole(
        path: &Path,
        expected: Option<&RunHeader>,
    ) -> Result<(Self, Resumed), RunError> {
        Self::go_on(path, expected, Damage::Refused)
    }

    fn go_on(
        path: &Path,
        expected: Option<&RunHeader>,
        damage: Damage,
    ) -> Result<(Self, Resumed), RunError> {
        tracing::info!(path = %path.display(), "continuing a run");
        regular(path)?;
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .open(path)
            .map_err(RunError::io(path, "open"))?;
        let file = Locked::lock(file, path)?;
        let mut run = Run::read(path)?;
        if let Some(what) = expected.and_then(|header| run.header.difference(header)) {
            return Err(RunError::Differs { path: path.to_owned(), what });
        }
        let damaged = run.bad_lines.first().cloned();
        let amid = damaged.as_ref().filter(|bad| bad.offset < run.valid_bytes);
        let mut aside = None;
        if let Some(bad) = amid {
            if damage == Damage::Refused {
                return Err(bad.error(path));
            }
            aside = Some(set_aside(path, bad.offset)?);
        }
        let whole = amid.map_or(run.valid_bytes, |bad| bad.offset);
        let length = file.metadata().map_err(RunError::io(path, "read"))?.len();
        let torn_bytes = length.saturating_sub(whole);
        if torn_bytes > 0 {
            file.set_len(whole)
                .and_then(|()| file.sync_data())
                .map_err(RunError::io(path, "cut"))?;
            run = Run::read(path)?;
        }
        let done = run.rows.iter().map(|row| (row.round, row.cell)).collect();
        let urls = run.header.cells.iter().map(|cell| cell.url.clone()).collect();
        let interner = Interner::after(run.facts());
        let mut writer = Self::new(file, path, urls, interner, run.valid_bytes);
        if let Some(header) = expected
            && let Ok(line) = ContinuedRecord::from_header(header).line()
        {
            writer.preamble = line;
        }
        Ok((writer, Resumed { run, done, torn_bytes, damaged, aside }))
    }

    fn new(file: Locked, path: &Path, urls: Vec<String>, interner: Interner, length: u64) -> Self {
        let (path, synced) = (path.to_owned(), length);
        let (preamble, buffer, unsynced) = (Vec::new(), Vec::new(), Vec::new());
        Self { file, path, urls, interner, preamble, buffer, length, synced, unsynced }
    }

    /// Path of the run file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `taken`. When it returns, the sample is on the disk, as far as the system can tell.
    ///
    /// # Errors
    /// If it cannot be written. The run then ends with the previous sample, and the caller may try again.
    pub fn append(&mut self, taken: &Taken) -> io::Result<()> {
        self.append_all(std::slice::from_ref(taken))
    }

    /// Writes all of `taken` in one write, whole or not at all. When it returns, they are on the disk, as far as the
    /// system can tell.
    ///
    /// # Errors
    /// If they cannot be written. The run then ends with the previous sample, and the caller may try again.
    pub fn append_all(&mut self, taken: &[Taken]) -> io::Result<()> {
        self.write_all(taken)?;
        self.sync()
    }

    /// Writes all of `taken` in one write, whole or not at all. They are on the disk after the next [`Self::sync`].
    ///
    /// # Errors
    /// If they cannot be written. The run then ends with the previous sample, and the caller may try again.
    pub fn write_all(&mut self, taken: &[Taken]) -> io::Result<()> {
        self.buffer.clear();
        let mut facts = Vec::new();
        for one in taken {
            let url = self.urls.get(usize::from(one.cell)).ok_or_else(no_such_cell)?;
            let one = advice::on_taken(one);
            sample_line(&one, url, &mut self.interner, &mut self.buffer)?;
            facts.extend(self.interner.fresh().iter().flat_map(|line| line.bytes()));
            self.interner.stored();
        }
        let before = self.preamble.len();
        self.preamble.extend_from_slice(&self.buffer);
        let written = (&*self.file).write_all(&self.preamble);
        if let Err(error) = written {
            self.preamble.truncate(before);
            // Facts that already have numbers must be written before the samples that refer to them.
            self.preamble.extend_from_slice(&facts);
            // Best effort: if this fails too, the partial line is cut off when the run is continued.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.preamble.len() as u64;
        self.unsynced.extend_from_slice(&self.preamble[..before]);
        self.unsynced.extend_from_slice(&facts);
        self.preamble.clear();
        Ok(())
    }

    /// Waits until everything written is on the disk, as far as the system can tell.
    ///
    /// # Errors
    /// If the sync fails. All samples since the last sync are then cut off, and the caller may write them again.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.synced == self.length {
            return Ok(());
        }
        if let Err(error) = self.file.sync_data() {
            let _ = self.file.set_len(self.synced).and_then(|()| self.file.sync_data());
            self.length = self.synced;
            self.unsynced.append(&mut self.preamble);
            std::mem::swap(&mut self.unsynced, &mut self.preamble);
            return Err(error);
        }
        self.synced = self.length;
        self.unsynced.clear();
        Ok(())
    }

    /// Length of the written file, in bytes.
    pub const fn length(&self) -> u64 {
        self.length
    }
}

/// Copies the run at `path` from offset `from` to its end into a file next to it.
fn set_aside(path: &Path, from: u64) -> Result<PathBuf, RunError> {
    for number in 1..=MOST_ASIDE {
        let mut name = path.as_os_str().to_owned();
        name.push(match number {
            1 => ".damaged".to_owned(),
            _ => format!(".damaged-{number}"),
        });
        let aside = PathBuf::from(name);
        let made = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(&aside);
        let mut kept = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => made.map_err(RunError::io(&aside, "create"))?,
        };
        let copied = File::open(path).and_then(|mut run| {
            run.seek(SeekFrom::Start(from))?;
            io::copy(&mut run, &mut kept)?;
            kept.sync_all()
        });
        return copied.map(|()| aside.clone()).map_err(RunError::io(&aside, "write"));
    }
    let many = io::Error::other(format!("{MOST_ASIDE} files with damaged parts already exist"));
    Err(RunError::io(path, "cut")(many))
}

fn no_such_cell() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a sample of a variant that is not in the run")
}

/// A file locked so that only this process writes it.
///
/// `Drop` unlocks the file explicitly. Closing it is not enough: if another thread is starting a process, the child
/// shares the open file until it calls `exec`.
#[derive(Debug)]
struct Locked(File);

impl Locked {
    fn lock(file: File, path: &Path) -> Result<Self, RunError> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(RunError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(RunError::io(path, "lock")(source)),
        }
    }
}

impl std::ops::Deref for Locked {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // If this fails, closing the file releases the lock as well.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cloned file stands for the one that a starting child process inherits.
    #[test]
    fn a_lock_ends_with_its_writer_whoever_else_has_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.run");
        let open = || OpenOptions::new().append(true).create(true).open(&path).unwrap();
        let first = Locked::lock(open(), &path).unwrap();
        let _copy = first.try_clone().unwrap();
        assert!(matches!(Locked::lock(open(), &path), Err(RunError::Locked { .. })));
        drop(first);
        Locked::lock(open(), &path).unwrap();
    }
}
