//! The files of a command: what it reads and what it writes. No output is an input, whatever it is called, and no two
//! outputs are one file: that is known before anything is measured, read or emptied.
//!
//! Files are told apart by device and inode, so that links of both kinds, and other mounts, are seen through. Pipes and
//! devices (`/dev/null`) lose nothing by being written twice, and are not looked at.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::args::{RenderArgs, VisitArgs};
use super::exit::{self, Problem};
use super::plan::{RowFile, RowForm};
use firstbyte_report::write_out::Format;

const STDIO: &str = "-";

/// Links that lead nowhere are followed so far, as the kernel does.
const MOST_LINKS: usize = 40;

/// The files that visits need: certificates, keys, bodies.
pub(in crate::cli) fn needed_by_visits(args: &VisitArgs) -> Vec<PathBuf> {
    let bodies = args.data.iter().chain(&args.data_binary);
    let bodies = bodies.filter_map(|text| text.0.strip_prefix('@')).map(PathBuf::from);
    let issuers = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let certificates = args.cacert.iter().chain(&args.cert).chain(&args.key).cloned();
    certificates.chain(bodies).chain(issuers).collect()
}

/// What a command does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    /// Written by who holds its lock.
    Run,
    /// Made and emptied when there is something to write; `private` where what it holds may let somebody in.
    Written {
        private: bool,
    },
    /// Written behind what is in it.
    Added,
    /// A picture that a directory holds already, and that may be replaced.
    Picture,
    StandardOutput,
}

#[derive(Debug)]
struct Named {
    path: PathBuf,
    to: Use,
}

/// The files of a command, as they are being named.
#[derive(Debug, Default)]
pub(in crate::cli) struct Files {
    named: Vec<Named>,
    directories: Vec<Directory>,
}

/// A directory that is written into.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// How the names of files in it end.
    ending: &'static str,
    /// It is made here, and not by who fills it.
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

    /// Files that are written; `-` is standard output.
    pub(in crate::cli) fn writes<'a>(self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.add(paths, Use::Written { private: false })
    }

    /// Files that are written, and are for their owner alone.
    fn writes_privately<'a>(self, paths: impl IntoIterator<Item = &'a PathBuf>) -> Self {
        self.add(paths, Use::Written { private: true })
    }

    /// Files of rows. Those with the fields of responses, cookies among them, are for the owner alone.
    pub(in crate::cli) fn writes_rows(self, rows: &[RowFile]) -> Self {
        rows.iter().fold(self, |files, RowFile { path, form }| match form {
            RowForm::Ndjson => files.writes_privately([path]),
            RowForm::Csv => files.writes([path]),
        })
    }

    /// A directory for pictures whose names end like this.
    pub(in crate::cli) fn draws(self, directory: Option<&PathBuf>, ending: &'static str) -> Self {
        self.fills(directory, ending, true)
    }

    /// A lab's directories for captures and logs, which the lab makes.
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

    /// What `args` ask for. Samples with the fields of responses, cookies among them, are for the owner alone.
    pub(in crate::cli) fn renders(self, args: &RenderArgs) -> Self {
        self.writes(args.csv.iter().chain(&args.parquet).chain(&args.html))
            .writes_privately(args.json.iter().chain(&args.har))
            .draws(args.svg.as_ref(), "svg")
            .draws(args.png.as_ref(), "png")
    }

    /// What visits need: certificates, keys, bodies.
    pub(in crate::cli) fn visits(self, args: &VisitArgs) -> Self {
        self.reads(&needed_by_visits(args))
    }

    /// The files that a format names.
    pub(in crate::cli) fn formats(mut self, format: &Format) -> Self {
        // A format may come back to a file.
        let files: BTreeSet<(&str, bool)> = format.files().collect();
        self.named.extend(files.into_iter().map(|(path, is_added)| {
            let to = if is_added { Use::Added } else { Use::Written { private: false } };
            Named { path: path.into(), to }
        }));
        self
    }

    fn add<'a>(mut self, paths: impl IntoIterator<Item = &'a PathBuf>, to: Use) -> Self {
        self.named.extend(paths.into_iter().map(|path| Named { path: path.clone(), to }));
        self
    }

    /// Whether every output is a file of its own.
    pub(in crate::cli) fn check(&self) -> Result<(), Problem> {
        let stdout = Named { path: STDIO.into(), to: Use::StandardOutput };
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

    /// Makes what is to be written, as far as it is not there, and leaves what is in it as it is. Where that cannot be,
    /// nothing is left behind.
    pub(in crate::cli) fn open(&self) -> Result<(), Problem> {
        self.check()?;
        let mut made = Vec::new();
        // What was made may turn out to be one file, by a link that led nowhere until now.
        let opened = self.make(&mut made).and_then(|()| self.check());
        if opened.is_err() {
            for path in &made {
                // What is left is empty, and the problem says more.
                let _ = fs::remove_file(path);
            }
        }
        opened
    }

    fn make(&self, made: &mut Vec<PathBuf>) -> Result<(), Problem> {
        for Named { path, to } in &self.named {
            let private = match to {
                Use::Written { private } => *private,
                Use::Added => false,
                Use::Read | Use::Run | Use::Picture | Use::StandardOutput => continue,
            };
            if is_stdio(path) {
                continue;
            }
            let is_new = fs::metadata(path).is_err();
            let mut options = OpenOptions::new();
            options.append(true).create(true);
            if private {
                options.mode(0o600);
            }
            options.open(path).map_err(|error| cannot_write(path, &error))?;
            if is_new {
                made.extend(fs::canonicalize(path));
            }
        }
        for Directory { path, .. } in self.directories.iter().filter(|directory| directory.is_ours)
        {
            fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
        }
        Ok(())
    }

    /// What is in the directories already.
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

impl Named {
    fn identity(&self) -> Option<Identity> {
        match (self.to, is_stdio(&self.path)) {
            (Use::Read, true) => Identity::of_stream(&io::stdin()),
            // Whatever goes there: also what is shown for people.
            (Use::StandardOutput, _) => Identity::of_stream(&io::stdout()),
            (_, true) => Some(Identity::StandardOutput),
            (_, false) => Identity::of(&self.path),
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

/// What a file is, whatever it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    File {
        device: u64,
        inode: u64,
    },
    /// Where one would be made.
    Place(PathBuf),
    /// Asked for by its name, `-`.
    StandardOutput,
}

impl Identity {
    fn of(path: &Path) -> Option<Self> {
        match fs::metadata(path) {
            Ok(metadata) => Self::of_metadata(&metadata),
            Err(_) => Some(Self::Place(place(&followed(path)))),
        }
    }

    fn of_stream(stream: &impl AsFd) -> Option<Self> {
        let file = File::from(stream.as_fd().try_clone_to_owned().ok()?);
        Self::of_metadata(&file.metadata().ok()?)
    }

    fn of_metadata(metadata: &fs::Metadata) -> Option<Self> {
        let file = || Self::File { device: metadata.dev(), inode: metadata.ino() };
        metadata.is_file().then(file)
    }
}

fn is_stdio(path: &Path) -> bool {
    path == Path::new(STDIO)
}

/// Where `path` leads, also when there is nothing.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
    }
    path
}

/// Where `path` is, its last part unresolved.
fn place(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = fs::canonicalize(parent.unwrap_or(Path::new("."))).unwrap_or_default();
    parent.join(path.file_name().unwrap_or(path.as_os_str()))
}

/// Whether both can be one file.
fn goes_together(one: &Named, other: &Named) -> bool {
    let both = |to: Use| one.to == to && other.to == to;
    let pair = |a: Use, b: Use| (one.to, other.to) == (a, b) || (one.to, other.to) == (b, a);
    both(Use::Read)
        || both(Use::Picture)
        || both(Use::Added)
        || pair(Use::Added, Use::Written { private: false })
        || pair(Use::Added, Use::StandardOutput)
}

/// The problem that two uses are of one file.
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

/// Writing to `path` failed.
pub(in crate::cli) fn cannot_write(path: &Path, error: &io::Error) -> Problem {
    if is_stdio(path) {
        return Problem::output(error);
    }
    let why = firstbyte_probe::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
}
