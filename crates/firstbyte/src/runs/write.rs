//! Writes a run: every sample is on the disk before the next one is begun.
//!
//! One process writes a run at a time (an exclusive lock on the file, which the kernel takes back
//! when the process ends, however it ends). A sample is one write and one `fdatasync`; when that
//! fails the file is cut back to the sample before, so that it is a valid run at every moment but
//! within a write, and what a killed process leaves of a line is cut off when the run is continued.
//! A monitor, which has samples all the time, writes each at once and syncs those of a second together.

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
/// Files next to a run that keep its damaged parts, at most.
const MOST_ASIDE: u32 = 1_000;

/// What to do with a file that has the name of a run to be begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// Leave it as it is, and fail. An empty file is no obstacle.
    New,
    /// Begin anew: what is in it is lost.
    Overwrite,
}

/// What becomes of a run that is damaged in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    CutOff,
    Refused,
}

/// A run that is being written.
#[derive(Debug)]
pub struct RunWriter {
    file: Locked,
    path: PathBuf,
    urls: Vec<String>,
    interner: Interner,
    /// What goes before the next sample.
    preamble: Vec<u8>,
    buffer: Vec<u8>,
    /// Length of what is valid.
    length: u64,
    /// Length of the part that is on the disk.
    synced: u64,
    /// What is behind that and goes before the next sample again if it is cut off.
    unsynced: Vec<u8>,
}

/// What was found of a run that is continued.
#[derive(Debug)]
pub struct Resumed {
    /// The run, as it was found.
    pub run: Run,
    /// Which samples it has.
    pub done: Done,
    /// Bytes that were cut off: a half-written line, or a damaged line and everything behind it.
    pub torn_bytes: u64,
    /// The damaged line where the cut was made; absent if only a half-written line was cut off.
    pub damaged: Option<BadLine>,
    /// The file that keeps the bytes, if they hold a whole line.
    pub aside: Option<PathBuf>,
}

/// The samples that a run has, by round and cell.
#[derive(Clone, Debug, Default)]
pub struct Done(HashSet<(u32, u16)>);

impl Done {
    /// Whether there is a sample of `cell` in `round`.
    pub fn contains(&self, round: u32, cell: usize) -> bool {
        u16::try_from(cell).is_ok_and(|cell| self.0.contains(&(round, cell)))
    }

    /// For each of `cells` cells the round after its last.
    pub fn next_rounds(&self, cells: usize) -> Vec<u32> {
        let mut next = vec![0; cells];
        for (round, cell) in &self.0 {
            if let Some(next) = next.get_mut(usize::from(*cell)) {
                *next = round.saturating_add(1).max(*next);
            }
        }
        next
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
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
    /// Begins a run at `path`.
    ///
    /// # Errors
    /// When the file is there already (unless it is to be overwritten), is being written by another
    /// process, or cannot be written.
    pub fn create(path: &Path, header: &RunHeader, creation: Creation) -> Result<Self, RunError> {
        tracing::info!(path = %path.display(), ?creation, "starting a run");
        regular(path)?;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            // The command is in it, with what `-H` and `-d` say.
            .mode(OWNER_ONLY)
            .open(path)
            .map_err(RunError::io(path, "create"))?;
        let file = Locked::lock(file, path)?;
        // Only who holds the lock may look at what there is, or throw it away.
        let length = file.metadata().map_err(RunError::io(path, "create"))?.len();
        if length > 0 {
            if creation == Creation::New {
                return Err(RunError::Exists { path: path.to_owned() });
            }
            file.set_len(0).map_err(RunError::io(path, "overwrite"))?;
        }
        // One that was there already may have been for others to read. Somebody else's stays as it is.
        let _ = file.set_permissions(Permissions::from_mode(OWNER_ONLY));
        let urls = header.cells.iter().map(|cell| cell.url.clone()).collect();
        let preamble =
            header.line().map_err(|e| RunError::io(path, "write")(io::Error::other(e)))?;
        let mut writer = Self::new(file, path, urls, Interner::default(), 0);
        writer.preamble = preamble;
        writer.append_all(&[]).map_err(RunError::io(path, "write"))?;
        // The file's name is to outlive a crash as well; not every file system can promise that.
        let directory = path.parent().filter(|d| !d.as_os_str().is_empty());
        let _ = File::open(directory.unwrap_or(Path::new("."))).and_then(|d| d.sync_all());
        Ok(writer)
    }

    /// Continues the run at `path` from the last line that precedes any damage. Everything behind that line is cut off. If
    /// it holds a whole line, it is kept in a file next to the run. A sample cannot be read without the facts that it refers
    /// to, and the damaged line may hold one of them.
    ///
    /// `expected` is what the caller would begin anew: the run has to be one of the same cells,
    /// options, seed and load, and a line before the next sample says what is new since (command,
    /// number of rounds, environment). Without it the run is taken as it is.
    ///
    /// # Errors
    /// When there is no such run, another process is writing it, or its samples and those to come
    /// cannot be told apart.
    pub fn resume(path: &Path, expected: Option<&RunHeader>) -> Result<(Self, Resumed), RunError> {
        Self::go_on(path, expected, Damage::CutOff)
    }

    /// Continues a run if no line but the last is damaged. A run with other damage is not changed.
    ///
    /// # Errors
    /// Those of [`Self::resume`], and that a line is damaged.
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

    /// Where it is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes `taken`. When it returns the sample is on the disk, as far as the system can tell.
    ///
    /// # Errors
    /// When it cannot be written; the run then ends with the sample before it, and another attempt
    /// may be made.
    pub fn append(&mut self, taken: &Taken) -> io::Result<()> {
        self.append_all(std::slice::from_ref(taken))
    }

    /// Writes all of `taken` by one write, whole or not at all. When it returns they are on the disk, as far as the system can
    /// tell.
    ///
    /// # Errors
    /// When they cannot be written; the run then ends with the sample before them, and another attempt may be made.
    pub fn append_all(&mut self, taken: &[Taken]) -> io::Result<()> {
        self.write_all(taken)?;
        self.sync()
    }

    /// Writes all of `taken` by one write, whole or not at all. They are on the disk after the next [`Self::sync`].
    ///
    /// # Errors
    /// When they cannot be written; the run then ends with the sample before them, and another attempt may be made.
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
            // Facts that were given numbers are to be written before whoever refers to them.
            self.preamble.extend_from_slice(&facts);
            // Best effort: if this fails too, the torn line is cut off when the run is continued.
            let _ = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += self.preamble.len() as u64;
        self.unsynced.extend_from_slice(&self.preamble[..before]);
        self.unsynced.extend_from_slice(&facts);
        self.preamble.clear();
        Ok(())
    }

    /// Waits until all that was written is on the disk, as far as the system can tell.
    ///
    /// # Errors
    /// When it cannot be put there. Then all samples since the last time are cut off, and another attempt may be made to write them.
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

    /// Length of what is written, bytes.
    pub const fn length(&self) -> u64 {
        self.length
    }
}

/// Copies the run at `path` from offset `from` on into a file next to it.
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

/// A file that only this process writes, for as long as it lives.
///
/// The lock is given back and not just forgotten: a process that another thread of this one is starting has the file
/// too, until it has become another program.
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
        // Where this fails, closing it does the same.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a process that is being started has.
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
