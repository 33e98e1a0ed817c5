//! Errors of writing and reading run files.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_probe::probe::describe_io;

/// Reason why a run file cannot be written, continued or read.
#[derive(Debug)]
#[allow(missing_docs, reason = "the fields say what the variants' docs say, by name")]
pub enum RunError {
    /// The file exists and may not be overwritten.
    Exists { path: PathBuf },
    /// The path is a pipe or a device.
    NotRegular { path: PathBuf },
    /// Another process is writing the file.
    Locked { path: PathBuf },
    /// The file is not a run file.
    NotARun { path: PathBuf },
    /// The file has a later version of the format.
    Version { path: PathBuf, version: u32 },
    /// The header is damaged.
    Header { path: PathBuf, detail: String },
    /// The run measures something else than the one to continue.
    Differs { path: PathBuf, what: &'static str },
    /// A line is damaged.
    Line { path: PathBuf, line: u64, detail: String },
    /// A sample is damaged after the part of its line that the row is read from.
    Sample { path: PathBuf, offset: u64, detail: String },
    /// A table cannot be read.
    Table { path: PathBuf, line: usize, detail: String },
    /// Reading or writing failed.
    Io { path: PathBuf, operation: &'static str, source: io::Error },
}

impl RunError {
    pub(crate) fn io(path: &Path, operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), operation, source }
    }

    /// Advice on how to fix the error, if there is any.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists { .. } => {
                "give another name, or continue it: firstbyte compare --continue FILE".into()
            }
            Self::NotRegular { .. } => {
                "a run is read again from its beginning: give the name of a file".into()
            }
            Self::Locked { path } if path.extension().is_some_and(|ending| ending == "lock") => {
                "a monitor uses this store; give another --store DIR".into()
            }
            Self::Locked { .. } => "wait until the other process ends, or give another name".into(),
            Self::NotARun { .. } => "check the file name".into(),
            Self::Version { .. } => "a newer firstbyte wrote it: use that version".into(),
            Self::Header { .. } => "a run cannot be read without its first line".into(),
            Self::Differs { path, .. } => format!(
                "repeat the command that started it (`head -n 1 {}` shows it), or give another \
                 name",
                path.display()
            ),
            Self::Line { .. } => "firstbyte report shows the undamaged samples".into(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some disk space, then continue the run: earlier samples are in the \
                 file"
                    .into()
            }
            Self::Sample { .. } | Self::Table { .. } | Self::Io { .. } => return None,
        })
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { path } => write!(f, "{} already exists", path.display()),
            Self::NotRegular { path } => {
                write!(f, "{} is a pipe or a device, not a file", path.display())
            }
            Self::Locked { path } => {
                write!(f, "{} is being written by another firstbyte", path.display())
            }
            Self::NotARun { path } => write!(f, "{} is not a run file", path.display()),
            Self::Version { path, version } => {
                write!(f, "{} has format version {version}", path.display())
            }
            Self::Header { path, detail } => {
                write!(f, "the first line of {} is damaged: {detail}", path.display())
            }
            Self::Differs { path, what } => {
                write!(f, "{} is a run with {what}", path.display())
            }
            Self::Line { path, line, detail } => {
                write!(f, "line {line} of {} is damaged: {detail}", path.display())
            }
            Self::Sample { path, offset, detail } => {
                write!(f, "the sample at byte {offset} of {} is damaged: {detail}", path.display())
            }
            Self::Table { path, line, detail } => {
                write!(f, "{}, line {line}: {detail}", path.display())
            }
            Self::Io { path, operation, source } => {
                write!(f, "cannot {operation} {}: {}", path.display(), describe_io(source))
            }
        }
    }
}

impl std::error::Error for RunError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
