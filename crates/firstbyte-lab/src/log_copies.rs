//! Copies the servers' access logs out of the lab's own file system before it disappears.
//!
//! In: a directory, running servers. Out: `server-NAME.log` there, as the server wrote it. The files are
//! created with the lab, so that an unwritable one is noticed before anything is measured.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::LabError;
use crate::servers::Servers;

/// nginx and Caddy log a request after its response has left; this is time enough for that.
const LAST_LINES: Duration = Duration::from_millis(100);

/// The files to copy the logs to.
pub(crate) struct LogCopies {
    directory: PathBuf,
    copies: Vec<LogCopy>,
}

struct LogCopy {
    log: PathBuf,
    path: PathBuf,
    file: File,
}

impl LogCopies {
    /// Creates the files.
    pub(crate) fn start(directory: &Path, servers: &Servers) -> Result<Self, LabError> {
        fs::create_dir_all(directory).map_err(|error| failed(directory, &error))?;
        let copies = servers.logs().map(|(host, log)| {
            let path = directory.join(format!("server-{host}.log"));
            let file = File::create(&path).map_err(|error| failed(&path, &error))?;
            Ok(LogCopy { log: log.to_owned(), path, file })
        });
        Ok(Self { directory: directory.to_owned(), copies: copies.collect::<Result<_, _>>()? })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Copies the logs as they are now.
    pub(crate) fn save(&self) -> Result<(), LabError> {
        std::thread::sleep(LAST_LINES);
        self.copies.iter().try_for_each(|copy| {
            // A server that has logged nothing may not have created its log.
            copy.log.exists().then(|| copy.save()).transpose().map(drop)
        })
    }
}

impl LogCopy {
    fn save(&self) -> Result<(), LabError> {
        let copied = || {
            let mut to = &self.file;
            to.rewind()?;
            to.set_len(0)?;
            io::copy(&mut File::open(&self.log)?, &mut to)
        };
        copied().map(drop).map_err(|error| failed(&self.path, &error))
    }
}

fn failed(path: &Path, error: &io::Error) -> LabError {
    let words = |code| nix::errno::Errno::from_raw(code).desc().to_lowercase();
    let reason = error.raw_os_error().map_or_else(|| error.to_string(), words);
    LabError::Log { file: path.display().to_string(), reason }
}
