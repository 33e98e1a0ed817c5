//! Samples in raw files that the store does not have, after a crash or after the store was rebuilt.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use firstbyte_monitor::store::{Folded, SeriesId, Store, StoreError};

use super::labels::series_labels;
use super::raw::raw_files;
use crate::runs::{Run, RunError};

/// Samples to fold in before the thread looks at other work.
const PIECE: usize = 2_000;

/// Raw files, with the position up to which each is folded into the store.
#[derive(Default)]
pub(super) struct Backlog {
    files: VecDeque<(PathBuf, u64)>,
    open: Option<OpenRun>,
    /// Samples folded in so far.
    pub(super) samples: u64,
    /// Descriptions of everything that could not be read.
    pub(super) unread: Vec<String>,
}

struct OpenRun {
    run: Run,
    name: String,
    series: Vec<SeriesId>,
    next: usize,
    /// Start time of the last sample read.
    last: u64,
}

impl Backlog {
    /// The parts of the raw files in `directory` that the store does not have.
    pub(super) fn of_store(store: &Store, directory: &Path) -> Result<Self, StoreError> {
        let folded: HashMap<String, u64> =
            store.folded()?.into_iter().map(|Folded { file, bytes }| (file, bytes)).collect();
        let files = raw_files(directory)
            .map_err(|source| StoreError::Io { path: directory.to_owned(), source })?;
        let unfolded = files.into_iter().filter_map(|file| {
            let folded = folded.get(&file.name).copied().unwrap_or(0);
            (file.bytes > folded).then_some((file.path, folded))
        });
        Ok(Self { files: unfolded.collect(), ..Self::default() })
    }

    /// Adds a file that is folded in up to `bytes`.
    pub(super) fn push(&mut self, path: PathBuf, bytes: u64) {
        self.files.push_back((path, bytes));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.open.is_none()
    }

    /// Files that are not completely folded in.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let open = self.open.as_ref().map(|open| open.run.path().to_owned());
        open.into_iter().chain(self.files.iter().map(|(path, _)| path.clone())).collect()
    }

    /// Adds some samples to the store, to be flushed, and returns the new position in their file.
    pub(super) fn fold_some(&mut self, store: &mut Store) -> Result<Option<Folded>, StoreError> {
        if self.open.is_none() {
            let Some((path, folded)) = self.files.pop_front() else { return Ok(None) };
            match open(&path, folded, store)? {
                Ok(opened) => {
                    self.unread.extend(opened.run.warnings().iter().map(ToString::to_string));
                    self.open = Some(opened);
                }
                Err(why) => {
                    self.unread.push(why);
                    return Ok(None);
                }
            }
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let end = (open.next + PIECE).min(open.run.rows.len());
        for index in open.next..end {
            match open.run.taken(index) {
                Ok(taken) => {
                    let series = open.series.get(usize::from(taken.cell)).copied();
                    open.last = taken.sample.connection.started_unix_ns.unwrap_or(open.last);
                    if let Some(series) = series {
                        store.add(series, open.last, &taken);
                        self.samples += 1;
                    }
                }
                Err(error) => self.unread.push(error.to_string()),
            }
        }
        open.next = end;
        let folded = Folded { file: open.name.clone(), bytes: open.run.offset(end) };
        if end == open.run.rows.len() {
            self.open = None;
        }
        Ok(Some(folded))
    }
}

/// Opens a raw file, or explains why it cannot be read.
fn open(
    path: &Path,
    folded: u64,
    store: &mut Store,
) -> Result<Result<OpenRun, String>, StoreError> {
    let mut run = match Run::read(path) {
        Ok(run) => run,
        // Nothing has been written to it yet.
        Err(RunError::NotARun { .. }) if path.metadata().is_ok_and(|file| file.len() == 0) => {
            return Ok(Err(format!("{}: empty", path.display())));
        }
        Err(error) => return Ok(Err(error.to_string())),
    };
    let Some(labels) = series_labels(&run.header) else {
        return Ok(Err(format!("{}: not written by a monitor", path.display())));
    };
    let series = store.enrol(&labels)?;
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // Earlier bad lines were reported when the samples around them were folded in.
    run.bad_lines.retain(|bad| bad.offset >= folded);
    let (next, last) = (run.row_from(folded), run.header.created_unix_ns);
    Ok(Ok(OpenRun { run, name, series, next, last }))
}
