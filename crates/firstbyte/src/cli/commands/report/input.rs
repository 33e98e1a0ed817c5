//! Recognises the input files of `report` by their content, and decides how they are shown together.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use firstbyte_sources::field_data::begins_field_data;
use firstbyte_sources::har::begins_archive;
use firstbyte_sources::netlog::net_export;
use firstbyte_sources::server_log::begins_server_log;

use super::store::{self, store_file};
use crate::cli::exit::{self, Problem};
use crate::cli::unpacked::unpacked;
use crate::runs::SampleFile;

/// How many bytes of a file are examined: the first lines of an archive or a log can be long.
const BEGIN_BYTES: u64 = 16 << 10;

/// Kind of an input file of `report`, recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportInput {
    /// A run, or a table of curl's timers.
    Samples(SampleFile),
    /// An HTTP Archive written by another program.
    Archive,
    /// A browser's network log.
    NetworkLog,
    /// Field data from visitors' browsers.
    FieldData,
    /// A web server's access log.
    ServerLog,
    /// A monitor's store, or the directory that contains it.
    Store,
    /// Unreadable, or a pipe, which cannot be read twice. The later reader reports problems.
    Unseen,
}

/// All input files together.
#[derive(Debug)]
pub(super) enum ReportInputs {
    /// Runs and tables, compared with each other.
    Samples(Vec<(PathBuf, SampleFile)>),
    /// Archives, shown one after the other.
    Archives,
    /// A network log.
    NetworkLog,
    /// Field data, summarised.
    FieldData,
    /// Server logs, summarised.
    ServerLogs,
    /// A monitor's store.
    Store(PathBuf),
}

impl ReportInputs {
    /// Recognises `files`, which must not be empty.
    ///
    /// # Errors
    /// If they cannot be shown together.
    pub(super) fn recognise(files: &[PathBuf]) -> Result<Self, Problem> {
        let inputs: Vec<(&PathBuf, ReportInput)> =
            files.iter().map(|path| (path, ReportInput::recognise(path))).collect();
        let mut seen = inputs.iter().filter(|(_, input)| *input != ReportInput::Unseen);
        let first = seen.next();
        if let Some((path, one)) = first
            && let Some((second, other)) = seen.find(|(_, other)| !one.goes_with(*other))
        {
            return Err(apart((path, *one), (second, *other)));
        }
        Ok(match first {
            Some((_, ReportInput::Archive)) => Self::Archives,
            Some((_, ReportInput::NetworkLog)) => Self::NetworkLog,
            Some((_, ReportInput::FieldData)) => Self::FieldData,
            Some((_, ReportInput::ServerLog)) => Self::ServerLogs,
            Some((path, ReportInput::Store)) => {
                Self::Store(store_file(path).unwrap_or_else(|| (*path).clone()))
            }
            Some((_, ReportInput::Samples(_) | ReportInput::Unseen)) | None => {
                let form = |input| match input {
                    ReportInput::Samples(form) => form,
                    _ => SampleFile::Run,
                };
                let files = inputs.iter().map(|(path, input)| ((*path).clone(), form(*input)));
                Self::Samples(files.collect())
            }
        })
    }
}

impl ReportInput {
    fn recognise(path: &Path) -> Self {
        if store_file(path).is_some() {
            return Self::Store;
        }
        if !path.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Self::Unseen;
        }
        let mut begin = Vec::new();
        // A compressed file may be truncated; what could be read is enough.
        let _ = unpacked(path).and_then(|file| file.take(BEGIN_BYTES).read_to_end(&mut begin));
        Self::from_begin(&begin, path)
    }

    /// Recognises the first bytes. The file name counts only for archives, whose beginning may be damaged.
    fn from_begin(begin: &[u8], path: &Path) -> Self {
        match () {
            () if begin.starts_with(store::BEGIN) => Self::Store,
            () if begins_field_data(begin) => Self::FieldData,
            () if net_export::begins_like(begin) => Self::NetworkLog,
            () if begins_archive(begin) => Self::Archive,
            () if memchr::memmem::find(begin, b"\"firstbyte/").is_some() => {
                Self::Samples(SampleFile::from_begin(begin))
            }
            () if begins_server_log(begin) => Self::ServerLog,
            () if is_called_archive(path) => Self::Archive,
            () => Self::Samples(SampleFile::from_begin(begin)),
        }
    }

    /// Whether both can be shown together.
    fn goes_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Samples(_), Self::Samples(_)) => true,
            // These cannot be compared with anything.
            (Self::NetworkLog | Self::Store, _) => false,
            _ => self == other,
        }
    }
}

impl fmt::Display for ReportInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Samples(SampleFile::Run) => "a run",
            Self::Samples(SampleFile::Table) => "a table of curl's timers",
            Self::Archive => "an HTTP Archive",
            Self::NetworkLog => "a network log",
            Self::FieldData => "field data",
            Self::Store => "a monitor's store",
            Self::ServerLog => "a server's log",
            Self::Unseen => "not examined",
        })
    }
}

fn is_called_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    [".har", ".har.gz", ".har.zst"].iter().any(|ending| name.ends_with(ending))
}

/// The error that two files cannot be shown together.
fn apart((first, one): (&Path, ReportInput), (second, other): (&Path, ReportInput)) -> Problem {
    let (first, second) = (first.display(), second.display());
    let message = match one == other {
        true => format!("{first} and {second} are each {one}; these are shown one at a time"),
        false => format!("{first} is {one} and {second} is {other}: they cannot be shown together"),
    };
    let is_samples = |input| matches!(input, ReportInput::Samples(_));
    Problem::new(exit::USAGE, message).hint(match is_samples(one) || is_samples(other) {
        true => {
            "only runs and tables of curl's timers can be compared; report other files \
                 separately"
        }
        false => "report them one at a time",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_first_bytes() {
        let known =
            |begin: &str, name: &str| ReportInput::from_begin(begin.as_bytes(), Path::new(name));
        let run = ReportInput::Samples(SampleFile::Run);
        let table = ReportInput::Samples(SampleFile::Table);
        for (begin, name, expected) in [
            ("{\"format\":\"firstbyte/run\"", "a", run),
            ("{\"format\":\"firstbyte/run\"", "a.har", run),
            ("DNS,Connect\n", "a", table),
            ("", "a", table),
            ("{\"log\": {\"version\": \"1.2\"", "a", ReportInput::Archive),
            ("oops", "a.HAR", ReportInput::Archive),
            ("{\"firstbyte\":\"nginx 1\"}\n", "a", ReportInput::ServerLog),
            (
                "::1 - - [01/Jan/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n",
                "a",
                ReportInput::ServerLog,
            ),
            ("\u{feff} {\"constants\": {", "a.har", ReportInput::NetworkLog),
        ] {
            assert_eq!(known(begin, name), expected, "{begin} {name}");
        }
    }
}
