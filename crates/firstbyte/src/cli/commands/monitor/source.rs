//! Where a configuration comes from: URLs on the command line, or a file and the files that it names.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use firstbyte_monitor::configuration::{Configuration, UrlSettings};
use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::describe_io;
use firstbyte_report::units::count;

use super::{demo, safe};
use crate::cli::exit::{self, Problem};
use crate::plans::MonitorSource;

/// Size limit of a configuration, or of a list of URLs.
const MOST_BYTES: u64 = 16 << 20;

/// Files with their stamps from just before they were read.
#[derive(Default)]
pub(super) struct Files {
    read: Vec<(PathBuf, Option<Stamp>)>,
    /// Stamps at the last check, if they differed from those in `read`.
    changed: Option<Vec<Option<Stamp>>>,
}

/// Identifies a version of a file: modification time (seconds, nanoseconds), length, inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(i64, i64, u64, u64);

impl Stamp {
    /// Returns `None` if the file does not exist.
    fn of_file(path: &Path) -> Option<Self> {
        let file = path.metadata().ok()?;
        Some(Self(file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
    }
}

impl Files {
    fn note(&mut self, path: &Path) {
        self.read.push((path.to_owned(), Stamp::of_file(path)));
    }

    /// Whether a file has changed since it was read and none since the last check, so that nobody is still writing.
    pub(super) fn have_changed(&mut self) -> bool {
        let now: Vec<_> = self.read.iter().map(|(path, _)| Stamp::of_file(path)).collect();
        if now.iter().eq(self.read.iter().map(|(_, stamp)| stamp)) {
            self.changed = None;
            return false;
        }
        let settled = self.changed.as_ref() == Some(&now);
        self.changed = Some(now);
        settled
    }
}

/// Reads and checks the configuration. Notes in `files` the files that it was read from.
pub(super) fn read(source: &MonitorSource, files: &mut Files) -> Result<Configuration, Problem> {
    match source {
        MonitorSource::File(file) => read_file(file, files),
        MonitorSource::Demo => demo::configuration(),
        MonitorSource::Urls { urls, every, max_time, vary } => {
            let urls: Vec<String> = urls.iter().map(|url| url.reveal().clone()).collect();
            let axes: Result<Vec<Axis>, String> =
                vary.iter().map(|axis| Axis::read(axis.reveal())).collect();
            let axes = axes.map_err(|why| Problem::new(exit::USAGE, format!("--vary: {why}")))?;
            let settings = UrlSettings { every: *every, timeout: *max_time, axes };
            Configuration::of_urls(&urls, settings).map_err(|(url, why)| {
                let url = firstbyte_core::shown_url::shown_url(&url);
                Problem::new(exit::USAGE, format!("{url:?}: {why}"))
            })
        }
    }
}

fn read_file(file: &Path, files: &mut Files) -> Result<Configuration, Problem> {
    let name = file.display();
    files.note(file);
    let text = text_of(file)
        .map_err(|error| Problem::new(exit::READ, format!("cannot read {name}: {error}")))?;
    // Files that it names are relative to its directory.
    let directory = file.parent().unwrap_or(Path::new(""));
    let mut read_named = |name: &str| {
        let path = directory.join(name);
        files.note(&path);
        text_of(&path)
    };
    let configuration = Configuration::read(&text, &mut read_named).map_err(|mistakes| {
        let lines: Vec<String> =
            mistakes.iter().map(|mistake| safe(&format!("{name}:{mistake}"))).collect();
        let all = count(mistakes.len() as u64, "mistake");
        Problem::new(exit::USAGE, format!("{name}: {all}\n{}", lines.join("\n")))
    });
    let mut configuration = configuration?;
    for target in &mut configuration.targets {
        let (certificate, key) = match &mut target.client_certificate {
            Some((certificate, key)) => (Some(certificate), key.as_mut()),
            None => (None, None),
        };
        for file in [target.cacert.as_mut(), certificate, key].into_iter().flatten() {
            *file = directory.join(&*file);
        }
    }
    Ok(configuration)
}

/// Reads a text file of at most [`MOST_BYTES`] bytes.
fn text_of(file: &Path) -> io::Result<String> {
    let described = |error: io::Error| io::Error::new(error.kind(), describe_io(&error));
    let mut text = String::new();
    let read =
        File::open(file).and_then(|file| file.take(MOST_BYTES + 1).read_to_string(&mut text));
    match read.map_err(described)? as u64 {
        bytes if bytes > MOST_BYTES => {
            Err(io::Error::other(format!("more than {MOST_BYTES} bytes")))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_has_changed_once_it_is_no_longer_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("monitor.toml");
        fs::write(&path, "[[target]]\nurl = \"https://a.test/\"\n").unwrap();
        let source = MonitorSource::File(path.clone());
        let mut files = Files::default();
        read(&source, &mut files).unwrap();
        assert!(!files.have_changed() && !files.have_changed());
        fs::write(&path, "[[target]]\n").unwrap();
        assert!(!files.have_changed());
        fs::write(&path, "[[target]]\nurl = \"https://").unwrap();
        assert!(!files.have_changed(), "it is being written");
        assert!(files.have_changed());
        // A removed file is a change too, and so is one that reappears unchanged.
        fs::remove_file(&path).unwrap();
        assert!(!files.have_changed() && files.have_changed());
        let mut files = Files::default();
        assert!(read(&source, &mut files).is_err());
        assert!(!files.have_changed());
        fs::write(&path, "").unwrap();
        assert!(!files.have_changed() && files.have_changed());
    }

    #[test]
    fn files_that_a_configuration_names_are_looked_at_too() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("monitor.toml");
        fs::write(&path, "[[target]]\nurls_file = \"urls\"\n").unwrap();
        fs::write(directory.path().join("urls"), "https://a.test/\n").unwrap();
        let mut files = Files::default();
        let configuration = read(&MonitorSource::File(path), &mut files).unwrap();
        assert_eq!(configuration.targets.len(), 1);
        fs::write(directory.path().join("urls"), "https://a.test/\nhttps://b.test/\n").unwrap();
        assert!(!files.have_changed() && files.have_changed());
    }
}
