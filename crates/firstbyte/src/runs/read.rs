//! Reads a run: all of it as rows, or single samples completely.
//!
//! A run of a million samples is a gigabyte. Several threads read its rows in one pass, each with a part of the file
//! and a small buffer, and look only at the beginning of each line. Complete samples are read one at a time, by the
//! offset of their line.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use firstbyte_core::document::run::{
    BROKEN, ContinuedRecord, HeaderError, LineKind, RunHeader, SampleDetail, UNSEALED, failure,
    kind, row, taken_in_detail,
};
use firstbyte_core::document::{FactTable, Seal};
use firstbyte_core::run::{Row, Taken};
use firstbyte_report::warning::Warning;
use memchr::memchr;

use super::RunError;

/// A run file that was read.
#[derive(Debug)]
pub struct Run {
    /// The first line of the file.
    pub header: RunHeader,
    /// Lines that record where the run was continued.
    pub continued: Vec<ContinuedRecord>,
    /// Samples, reduced to rows, in the order in which they were taken.
    pub rows: Vec<Row>,
    /// Damaged lines; their samples are missing from `rows`.
    pub bad_lines: Vec<BadLine>,
    /// End of the valid part of the file. Later bytes were being written when the file was read, or when the process
    /// that wrote it was killed.
    pub valid_bytes: u64,
    /// Bytes after the last line end: a line being written, or the rest of a damaged one.
    pub unfinished_bytes: u64,
    path: PathBuf,
    file: File,
    /// Offset of the line of each row.
    offsets: Vec<u64>,
    facts: FactTable,
    urls: Vec<String>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Line number, from 1.
    pub line: u64,
    /// Offset of the line.
    pub offset: u64,
    /// What is wrong with the line.
    pub detail: String,
}

impl BadLine {
    pub(super) fn error(&self, path: &Path) -> RunError {
        RunError::Line { path: path.to_owned(), line: self.line, detail: self.detail.clone() }
    }
}

/// Bytes that each thread reads at once.
const BLOCK: usize = 1 << 20;
/// Maximum length of a line, in bytes.
const LONGEST_LINE: usize = 256 << 20;
/// Files smaller than this (in bytes) are read by one thread.
const WORTH_THREADS: u64 = 8 << 20;

impl Run {
    /// Reads the run at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, is not a run, or has a later version.
    pub fn read(path: &Path) -> Result<Self, RunError> {
        tracing::info!(path = %path.display(), "reading a run");
        regular(path)?;
        let failed = |e| RunError::io(path, "read")(e);
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let (header, begin) = header(&file, path)?;
        let rules = LineRules::from_header(&header);
        let threads = match std::thread::available_parallelism() {
            Ok(n) if length >= WORTH_THREADS => n.get().min(8) as u64,
            _ => 1,
        };
        let bound = |n: u64| begin + (length - begin) * n / threads;
        let parts: Vec<io::Result<Part>> = std::thread::scope(|scope| {
            let started: Vec<_> = (0..threads)
                .map(|n| {
                    let (from, to, file) = (bound(n), bound(n + 1), &file);
                    scope.spawn(move || Part::read(file, from, to, n > 0, rules))
                })
                .collect();
            started
                .into_iter()
                .map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread died")))
                })
                .collect()
        });
        let mut parts = parts.into_iter();
        let mut all = parts.next().unwrap_or_else(|| Ok(Part::default())).map_err(failed)?;
        for part in parts {
            all.append(part.map_err(failed)?);
        }
        // The header is line 1.
        all.bad_lines.iter_mut().for_each(|bad| bad.line += 1);
        let urls = header.cells.iter().map(|cell| cell.url.clone()).collect();
        Ok(Self {
            header,
            continued: all.continued,
            rows: all.rows,
            bad_lines: all.bad_lines,
            valid_bytes: all.valid.max(begin),
            unfinished_bytes: length.saturating_sub(all.end.max(begin)),
            path: path.to_owned(),
            file,
            offsets: all.offsets,
            facts: all.facts,
            urls,
        })
    }

    /// Reads only the first line of the run at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, is not a run, or has a later version.
    pub fn read_header(path: &Path) -> Result<RunHeader, RunError> {
        regular(path)?;
        let file = File::open(path).map_err(RunError::io(path, "read"))?;
        Ok(header(&file, path)?.0)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Warnings for the user about lines that are left out.
    pub fn warnings(&self) -> Vec<Warning> {
        let unread = self.bad_lines.iter().map(|bad| Warning::UnreadLine {
            file: self.path.clone(),
            line: usize::try_from(bad.line).unwrap_or(usize::MAX),
            detail: bad.detail.clone(),
        });
        let bytes = self.unfinished_bytes;
        let file = self.path.clone();
        let unfinished = (bytes > 0).then_some(Warning::UnfinishedLine { file, bytes });
        unread.chain(unfinished).collect()
    }

    pub(super) const fn facts(&self) -> &FactTable {
        &self.facts
    }

    /// The complete sample of `rows[index]`.
    ///
    /// # Errors
    /// If it cannot be read, or its line is damaged after the part that the row is read from.
    pub fn taken(&self, index: usize) -> Result<Taken, RunError> {
        let offset = self.offset(index);
        let mut line = Vec::new();
        read_line(&self.file, offset, &mut line).map_err(RunError::io(&self.path, "read"))?;
        self.sample(&line, offset, SampleDetail::Whole)
    }

    /// The samples of `rows[range]` in order, one at a time.
    pub fn taken_in(
        &self,
        range: Range<usize>,
        detail: SampleDetail,
    ) -> impl Iterator<Item = Result<Taken, RunError>> {
        let mut block = Block::default();
        range.map(move |index| {
            let offset = self.offset(index);
            let line = block.line(&self.file, offset);
            self.sample(line.map_err(RunError::io(&self.path, "read"))?, offset, detail)
        })
    }

    /// Keeps the rows for which `change` returns true, with its changes.
    pub fn keep_rows(&mut self, mut change: impl FnMut(&mut Row) -> bool) {
        let (rows, offsets) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.offsets));
        for (mut row, offset) in rows.into_iter().zip(offsets) {
            if change(&mut row) {
                self.rows.push(row);
                self.offsets.push(offset);
            }
        }
    }

    /// Index of the first row whose line begins at byte `offset` or later.
    pub fn row_from(&self, offset: u64) -> usize {
        self.offsets.partition_point(|begin| *begin < offset)
    }

    /// Offset of the line of `rows[index]`; after the last row, the end of the valid part.
    pub fn offset(&self, index: usize) -> u64 {
        self.offsets.get(index).copied().unwrap_or(self.valid_bytes)
    }

    /// Every complete sample in the order of `rows`, one at a time.
    pub fn each_taken(&self) -> impl Iterator<Item = Result<Taken, RunError>> + '_ {
        self.taken_in(0..self.offsets.len(), SampleDetail::Whole)
    }

    /// Why the sample of `rows[index]` failed; absent if it did not. Parses nothing else.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn failure(&self, index: usize) -> Result<Option<String>, RunError> {
        let offset = self.offset(index);
        let mut line = Vec::new();
        read_line(&self.file, offset, &mut line).map_err(RunError::io(&self.path, "read"))?;
        Ok(failure(&line))
    }

    fn sample(&self, line: &[u8], offset: u64, detail: SampleDetail) -> Result<Taken, RunError> {
        taken_in_detail(line, &self.urls, &self.facts, detail).map_err(|error| RunError::Sample {
            path: self.path.clone(),
            offset,
            detail: error.to_string(),
        })
    }
}

/// A piece of the file in memory, for reading consecutive lines.
#[derive(Default)]
struct Block {
    begin: u64,
    bytes: Vec<u8>,
}

/// Bytes to read at once when reading complete samples.
const WHOLE_BLOCK: usize = 128 << 10;

impl Block {
    /// The line that begins at `offset`, without its line end.
    fn line(&mut self, file: &File, offset: u64) -> io::Result<&[u8]> {
        let known = |block: &Self| {
            let from = usize::try_from(offset.checked_sub(block.begin)?).ok()?;
            let rest = block.bytes.get(from..)?;
            memchr(b'\n', rest).map(|length| from..from + length)
        };
        let mut line = known(self);
        if line.is_none() {
            self.begin = offset;
            self.bytes.resize(WHOLE_BLOCK, 0);
            let n = file.read_at(&mut self.bytes, offset)?;
            self.bytes.truncate(n);
            line = known(self);
        }
        let Some(line) = line else {
            // The line is longer than a block, or the last one.
            read_line(file, offset, &mut self.bytes)?;
            return Ok(&self.bytes);
        };
        Ok(&self.bytes[line])
    }
}

/// Reads the line that begins at `offset` into `line`, without its line end.
pub(super) fn read_line(file: &File, offset: u64, line: &mut Vec<u8>) -> io::Result<()> {
    line.clear();
    let mut block = 8 << 10;
    loop {
        let from = line.len();
        line.resize(from + block, 0);
        let n = file.read_at(&mut line[from..], offset + from as u64)?;
        line.truncate(from + n);
        if let Some(end) = memchr(b'\n', &line[from..]) {
            line.truncate(from + end);
            return Ok(());
        }
        if n == 0 {
            return Ok(());
        }
        if line.len() > LONGEST_LINE {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "an incomplete line"));
        }
        block = block.saturating_mul(2).min(BLOCK);
    }
}

/// Refuses pipes and devices at `path`. Opening a pipe would wait for its other end, and a run is read at many offsets.
pub(super) fn regular(path: &Path) -> Result<(), RunError> {
    match path.metadata() {
        Ok(there) if !there.is_file() && !there.is_dir() => {
            Err(RunError::NotRegular { path: path.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Reads the header. Also returns the offset of the next line.
pub(super) fn header(file: &File, path: &Path) -> Result<(RunHeader, u64), RunError> {
    let path = || path.to_owned();
    // The beginning shows whether the file is a run; other files may have no lines, and no end.
    let mut begin = [0; 512];
    let n = file.read_at(&mut begin, 0).map_err(RunError::io(&path(), "read"))?;
    let begin = &begin[..n];
    if !begin.trim_ascii_start().starts_with(b"{") {
        return Err(RunError::NotARun { path: path() });
    }
    let mut line = Vec::new();
    read_line(file, 0, &mut line).map_err(RunError::io(&path(), "read"))?;
    let end = line.len() as u64 + 1;
    let length = file.metadata().map_err(RunError::io(&path(), "read"))?.len();
    match RunHeader::parse(&line) {
        Ok(_) if end > length => {
            Err(RunError::Header { path: path(), detail: "it is incomplete".into() })
        }
        Ok(header) => Ok((header, end)),
        Err(HeaderError::NotARun) => Err(RunError::NotARun { path: path() }),
        Err(HeaderError::Version(version)) => Err(RunError::Version { path: path(), version }),
        Err(HeaderError::Invalid(detail)) => Err(RunError::Header { path: path(), detail }),
    }
}

/// Rules that every line of a run must meet.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRules {
    cells: usize,
    is_sealed: bool,
}

impl LineRules {
    pub(super) fn from_header(header: &RunHeader) -> Self {
        Self { cells: header.cells.len(), is_sealed: header.is_sealed() }
    }

    /// What is wrong with the checksum of `line`, if anything.
    fn broken(self, line: &[u8]) -> Option<&'static str> {
        match Seal::read(line) {
            Seal::Whole => None,
            Seal::Broken => Some(BROKEN),
            Seal::Absent => self.is_sealed.then_some(UNSEALED),
        }
    }
}

/// Result of one thread.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) rows: Vec<Row>,
    pub(super) offsets: Vec<u64>,
    facts: FactTable,
    continued: Vec<ContinuedRecord>,
    bad_lines: Vec<BadLine>,
    /// Number of lines that begin in this part.
    lines: u64,
    /// End of the last valid line.
    valid: u64,
    /// End of the last line.
    end: u64,
}

impl Part {
    /// Reads the lines that begin between `from` and `to`. If `is_inner`, `from` may be inside a line; reading then
    /// starts after the first line end at or after the byte before `from`.
    pub(super) fn read(
        file: &File,
        from: u64,
        to: u64,
        is_inner: bool,
        rules: LineRules,
    ) -> io::Result<Self> {
        let mut part = Self::default();
        let mut buffer = vec![0; BLOCK];
        // `buffer[begin..end]` holds the bytes that were read but not parsed yet; the buffer starts at `at` in the
        // file.
        let (mut begin, mut end) = (0, 0);
        let mut at = if is_inner { from - 1 } else { from };
        let mut skip = is_inner;
        loop {
            while let Some(n) = memchr(b'\n', &buffer[begin..end]) {
                let line = &buffer[begin..begin + n];
                if skip {
                    skip = false;
                } else if at >= to {
                    return Ok(part);
                } else {
                    part.line(line, at, rules);
                }
                begin += n + 1;
                at += n as u64 + 1;
            }
            if at >= to {
                return Ok(part);
            }
            buffer.copy_within(begin..end, 0);
            (begin, end) = (0, end - begin);
            if end == buffer.len() {
                if end >= LONGEST_LINE {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an incomplete line"));
                }
                buffer.resize(end * 2, 0);
            }
            let n = file.read_at(&mut buffer[end..], at + end as u64)?;
            if n == 0 {
                // A last line without a line end was not completely written.
                return Ok(part);
            }
            end += n;
        }
    }

    fn line(&mut self, line: &[u8], at: u64, rules: LineRules) {
        self.lines += 1;
        let end = at + line.len() as u64 + 1;
        self.end = end;
        if line.trim_ascii().is_empty() {
            return;
        }
        let bad = |detail: String, number| BadLine { line: number, offset: at, detail };
        if let Some(broken) = rules.broken(line) {
            self.bad_lines.push(bad(broken.to_owned(), self.lines));
            return;
        }
        match kind(line) {
            LineKind::Sample => match row(line) {
                Ok(row) if usize::from(row.cell) >= rules.cells => {
                    let detail = format!("variant {} is not in the first line", row.cell);
                    self.bad_lines.push(bad(detail, self.lines));
                    return;
                }
                Ok(row) if !line.ends_with(b"}") => {
                    let detail = format!("an incomplete sample of variant {}", row.cell);
                    self.bad_lines.push(bad(detail, self.lines));
                    return;
                }
                Ok(row) => {
                    self.rows.push(row);
                    self.offsets.push(at);
                }
                Err(error) => {
                    self.bad_lines.push(bad(error.to_string(), self.lines));
                    return;
                }
            },
            LineKind::Fact => {
                if let Err(error) = self.facts.take(line) {
                    self.bad_lines.push(bad(error.to_string(), self.lines));
                    return;
                }
            }
            LineKind::Other => {
                if let Ok(continued) = serde_json::from_slice(line) {
                    self.continued.push(continued);
                }
            }
        }
        self.valid = end;
    }

    fn append(&mut self, mut next: Self) {
        self.rows.append(&mut next.rows);
        self.offsets.append(&mut next.offsets);
        self.facts.merge(next.facts);
        self.continued.append(&mut next.continued);
        next.bad_lines.iter_mut().for_each(|bad| bad.line += self.lines);
        self.bad_lines.append(&mut next.bad_lines);
        self.lines += next.lines;
        self.valid = self.valid.max(next.valid);
        self.end = self.end.max(next.end);
    }
}
