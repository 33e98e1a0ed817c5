//! The files that a command reads and writes.
//!
//! No output may be an input under another name, and no two outputs may be the same file. This is checked before
//! anything is measured, read or truncated.
//!
//! Files are compared by device and inode, which sees through both kinds of links and through other mounts. Pipes and
//! devices (`/dev/null`) lose nothing when written twice, so they are not checked.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::exit::{self, Problem};
use crate::plans::{Destination, Outputs};
use firstbyte_report::write_out::Format;

/// How many links of a dangling chain are followed, as many as in the kernel.
const MOST_LINKS: usize = 40;

/// How a command uses a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    /// Written by the holder of its lock.
    Run,
    /// Created at first, and truncated once there is something to write; `private` if the contents may be secret.
    Written {
        private: bool,
    },
    /// Appended to.
    Added,
    /// A picture that exists in a directory and may be replaced.
    Picture,
    StandardOutput,
}

#[derive(Debug)]
struct Named {
    path: PathBuf,
    to: Use,
}

/// The files of a command, collected before they are checked.
#[derive(Debug, Default)]
pub(in crate::cli) struct Files {
    named: Vec<Named>,
    directories: Vec<Directory>,
}

/// A directory to write files into.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// Suffix of the names of files in it.
    ending: &'static str,
    /// Whether it is created here, and not by the code that fills it.
    is_ours: bool,
}

impl Files {
    /// Files that are read; `-` is standard input.
    pub(in crate::cli) fn reads<'a>(self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.add(paths, Use::Read)
    }

    /// The run file, which is begun or continued.
    pub(in crate::cli) fn keeps<'a>(self, runs: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.add(runs, Use::Run)
    }

    pub(in crate::cli) fn writes<'a>(
        self,
        outputs: impl IntoIterator<Item = &'a Destination>,
    ) -> Self {
        self.add(outputs.into_iter().map(Destination::path), Use::Written { private: false })
    }

    /// The results of a command.
    pub(in crate::cli) fn exports(self, outputs: &Outputs) -> Self {
        self.exported(outputs, false)
    }

    /// Results that contain responses: forms with header fields, such as cookies, are readable by the owner only.
    pub(in crate::cli) fn exports_of_responses(self, outputs: &Outputs) -> Self {
        self.exported(outputs, true)
    }

    fn exported(self, outputs: &Outputs, with_responses: bool) -> Self {
        let Outputs {
            json,
            csv,
            percentiles,
            parquet,
            zeek,
            har,
            html,
            markdown,
            packets,
            svg,
            png,
            qlog,
        } = outputs;
        let plain =
            [csv, percentiles, parquet, zeek, html, markdown, packets].into_iter().flatten();
        let with_fields = [json, har].into_iter().flatten().map(Destination::path);
        self.writes(plain)
            .add(with_fields, Use::Written { private: with_responses })
            .fills(svg.as_ref(), "svg", true)
            .fills(png.as_ref(), "png", true)
            .fills(qlog.as_ref(), firstbyte_report::qlog::ENDING, true)
    }

    /// A lab's directories for captures and logs, which the lab creates.
    pub(in crate::cli) fn records(
        self,
        captures: Option<&PathBuf>,
        logs: Option<&PathBuf>,
    ) -> Self {
        self.fills(captures, "pcapng", false).fills(logs, "log", false)
    }

    fn fills(mut self, path: Option<&PathBuf>, ending: &'static str, is_ours: bool) -> Self {
        self.directories.extend(path.map(|path| Directory { path: path.clone(), ending, is_ours }));
        self
    }

    /// The files that a format names.
    pub(in crate::cli) fn formats(mut self, format: &Format) -> Self {
        // A format may name a file more than once.
        let files: BTreeSet<(&str, bool)> = format.files().collect();
        self.named.extend(files.into_iter().map(|(path, is_added)| {
            let to = if is_added { Use::Added } else { Use::Written { private: false } };
            Named { path: path.into(), to }
        }));
        self
    }

    fn add<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>, to: Use) -> Self {
        let named = |path: P| Named { path: path.as_ref().to_owned(), to };
        self.named.extend(paths.into_iter().map(named));
        self
    }

    /// Checks that every output is a separate file.
    pub(in crate::cli) fn check(&self) -> Result<(), Problem> {
        let stdout = Named { path: Destination::STREAM.into(), to: Use::StandardOutput };
        let pictures = self.pictures();
        let mut seen: Vec<(&Named, Option<Identity>)> = Vec::new();
        for named in self.named.iter().chain([&stdout]).chain(&pictures) {
            let is = named.identity();
            let same = |other: &(&Named, Option<Identity>)| {
                !goes_together(named, other.0) && is.is_some() && other.1 == is
            };
            if let Some((other, _)) = seen.iter().find(|other| same(other)) {
                return Err(twice(other, named));
            }
            seen.push((named, is));
        }
        Ok(())
    }

    /// Creates missing outputs and leaves existing ones unchanged. On failure, nothing created stays behind.
    pub(in crate::cli) fn open(&self) -> Result<Opened, Problem> {
        self.check()?;
        let mut made = Opened::default();
        self.make(&mut made)?;
        // A link that dangled before may now make two outputs the same file.
        self.check()?;
        Ok(made)
    }

    fn make(&self, made: &mut Opened) -> Result<(), Problem> {
        for Named { path, to } in &self.named {
            let private = match to {
                Use::Written { private } => *private,
                Use::Added => false,
                Use::Read | Use::Run | Use::Picture | Use::StandardOutput => continue,
            };
            if is_stdio(path) {
                continue;
            }
            let there = fs::metadata(path);
            // Opening and closing a pipe would look like its end to the reader.
            if there.as_ref().is_ok_and(|it| !it.is_file() && !it.is_dir()) {
                continue;
            }
            let is_new = there.is_err();
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            if private {
                options.mode(0o600);
            }
            options.open(path).map_err(|error| cannot_write(path, &error))?;
            if is_new {
                made.files.extend(fs::canonicalize(path));
            }
        }
        for Directory { path, .. } in self.directories.iter().filter(|directory| directory.is_ours)
        {
            let is_new = fs::metadata(path).is_err();
            fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
            if is_new {
                made.directories.extend(fs::canonicalize(path));
            }
        }
        Ok(())
    }

    /// Files that the directories already contain.
    fn pictures(&self) -> Vec<Named> {
        let mut pictures = Vec::new();
        for Directory { path, ending, .. } in &self.directories {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path());
            let ours = paths.filter(|path| path.extension().is_some_and(|end| end == *ending));
            pictures.extend(ours.map(|path| Named { path, to: Use::Picture }));
        }
        pictures
    }
}

/// Outputs created for a command.
///
/// Removes those that are still empty if the command does not complete.
#[derive(Debug, Default)]
#[must_use = "removes empty files when dropped"]
pub(in crate::cli) struct Opened {
    files: Vec<PathBuf>,
    directories: Vec<PathBuf>,
}

impl Opened {
    /// Call when the command is complete: an output without rows is valid too.
    pub(in crate::cli) fn keep(mut self) {
        self.files.clear();
        self.directories.clear();
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // A failed write has already been reported, and an output that cannot be removed is empty.
        for path in &self.files {
            if fs::symlink_metadata(path).is_ok_and(|now| now.is_file() && now.len() == 0) {
                let _ = fs::remove_file(path);
            }
        }
        for path in &self.directories {
            let _ = fs::remove_dir(path);
        }
    }
}

impl Named {
    fn identity(&self) -> Option<Identity> {
        match (self.to, is_stdio(&self.path)) {
            (Use::Read, true) => Identity::from_stream(&io::stdin()),
            // Standard output counts wherever it goes, because text for people goes there too.
            (Use::StandardOutput, _) => Identity::from_stream(&io::stdout()),
            (_, true) => Some(Identity::StandardOutput),
            (_, false) => Identity::from_path(&self.path),
        }
    }

    fn shown(&self) -> String {
        match (self.to, is_stdio(&self.path)) {
            (Use::Read, true) => "standard input".into(),
            (_, true) => "standard output".into(),
            (_, false) => self.path.display().to_string(),
        }
    }
}

/// Identifies a file, whatever its name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    /// The place of a file that does not exist yet.
    Place(PathBuf),
    /// Requested by its name, `-`.
    StandardOutput,
}

impl Identity {
    fn from_path(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(metadata) => Self::from_metadata(&metadata),
            Err(_) => Some(Self::Place(place(&followed(path)))),
        }
    }

    fn from_stream(stream: &impl AsFd) -> Option<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
        Self::from_metadata(&file.metadata().ok()?)
    }

    fn from_metadata(metadata: &fs::Metadata) -> Option<Self> {
        let file = || Self::File { device: metadata.dev(), inode: metadata.ino() };
        metadata.is_file().then(file)
    }
}

fn is_stdio(path: &Path) -> bool {
    path == Path::new(Destination::STREAM)
}

/// Follows the links of `path`, even if nothing exists at their end.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
    }
    path
}

/// The canonical directory of `path`, with its last part unresolved.
fn place(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).unwrap_or_default();
    parent.join(path.file_name().unwrap_or(path.as_os_str()))
}

/// Whether both uses may share one file.
fn goes_together(one: &Named, other: &Named) -> bool {
    let both = |to: Use| one.to == to && other.to == to;
    let pair = |a: Use, b: Use| (one.to, other.to) == (a, b) || (one.to, other.to) == (b, a);
    both(Use::Read)
        || both(Use::Picture)
        || both(Use::Added)
        || pair(Use::Added, Use::Written { private: false })
        || pair(Use::Added, Use::StandardOutput)
}

/// The error that two uses share one file.
fn twice(one: &Named, other: &Named) -> Problem {
    let [first, second] = [one.shown(), other.shown()];
    let are_paths = !is_stdio(&one.path) && !is_stdio(&other.path);
    let same_name = first == second || are_paths && place(&one.path) == place(&other.path);
    let kept = |named: &Named| match named.to {
        Use::Read => Some("is read"),
        Use::Run => Some("is the run file"),
        _ => None,
    };
    let (kept_one, is, output) = match (kept(one), kept(other)) {
        (Some(is), _) => (one, is, other),
        (None, Some(is)) => (other, is, one),
        (None, None) => {
            let message = match first == second {
                true => format!("two outputs to {first}"),
                false => format!("two outputs to one file: {first} and {second}"),
            };
            return usage(message).hint("give each a file of its own");
        }
    };
    let message = match same_name {
        true => format!("{} {is} and cannot be written as well", output.shown()),
        false => format!(
            "{} is the same file as {}, which {is} and cannot be written as well",
            output.shown(),
            kept_one.shown()
        ),
    };
    usage(message).hint("give the output another name")
}

fn usage(message: String) -> Problem {
    Problem::new(exit::USAGE, message)
}

/// The error that `path` could not be written.
pub(in crate::cli) fn cannot_write(path: &Path, error: &io::Error) -> Problem {
    if is_stdio(path) {
        return Problem::output(error);
    }
    let why = firstbyte_probe::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
}
