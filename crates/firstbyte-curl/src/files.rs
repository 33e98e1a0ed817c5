//! What a command line reads besides its words.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

/// Files, standard input and the environment, behind one trait: tests have them in memory.
pub trait LineFiles {
    /// A whole file; `-` is a file's name here.
    ///
    /// # Errors
    /// When it cannot be read, or is larger than a body may be.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;
    /// All of standard input that is left.
    ///
    /// # Errors
    /// As above.
    fn read_stdin(&self) -> io::Result<Vec<u8>>;
    /// The size of a regular file; absent for others, and if there is none.
    fn size(&self, name: &str) -> Option<u64>;
    /// When a file was changed.
    fn modified(&self, name: &str) -> Option<SystemTime>;
    /// A variable of the environment, if it is set and not empty.
    fn variable(&self, name: &str) -> Option<String>;
    /// Now.
    fn now(&self) -> SystemTime;
    /// Random bytes, for boundaries and nonces.
    fn random(&self, bytes: &mut [u8]);
}

/// Reads `@name` values: `-` is standard input.
pub(crate) fn read_named(files: &dyn LineFiles, name: &str) -> io::Result<Vec<u8>> {
    match name {
        "-" => files.read_stdin(),
        _ => files.read(name),
    }
}

/// Files in memory, for tests.
#[derive(Debug)]
pub struct MemoryFiles {
    /// Names and contents.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Standard input.
    pub stdin: RefCell<Vec<u8>>,
    /// The environment.
    pub variables: BTreeMap<String, String>,
    /// The time of everything.
    pub now: SystemTime,
}

impl Default for MemoryFiles {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            stdin: RefCell::default(),
            variables: BTreeMap::new(),
            now: SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600),
        }
    }
}

impl MemoryFiles {
    /// These files.
    pub fn with(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
        Self { files: files.collect(), ..Self::default() }
    }
}

impl LineFiles for MemoryFiles {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.files.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        Ok(self.stdin.take())
    }

    fn size(&self, name: &str) -> Option<u64> {
        self.files.get(name).map(|bytes| bytes.len() as u64)
    }

    fn modified(&self, name: &str) -> Option<SystemTime> {
        self.files.contains_key(name).then_some(self.now)
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).filter(|text| !text.is_empty()).cloned()
    }

    fn now(&self) -> SystemTime {
        self.now
    }

    fn random(&self, bytes: &mut [u8]) {
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::try_from(at % 256).unwrap_or(0);
        }
    }
}

/// A directory before a name: `$HOME/.netrc`.
pub(crate) fn in_home(files: &dyn LineFiles, name: &str) -> Option<PathBuf> {
    files.variable("HOME").map(|home| PathBuf::from(home).join(name))
}
