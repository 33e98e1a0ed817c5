//! Errors of scenarios. Every message names the file, the key and the permitted values.

use std::fmt;

/// Why a scenario cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScenarioError {
    /// No shipped scenario has this name.
    Unknown {
        /// The requested name.
        name: String,
        /// Names of the shipped scenarios.
        shipped: Vec<String>,
    },
    /// The file cannot be read.
    Read {
        /// The file.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// The file is not TOML, has an unknown key, or has a value of the wrong type.
    Syntax {
        /// The file.
        file: String,
        /// The TOML reader's message, with line and column.
        reason: String,
    },
    /// A value is out of range or malformed.
    Value {
        /// The file.
        file: String,
        /// The value's place in the file.
        key: String,
        /// The value in the file.
        value: String,
        /// The permitted values.
        allowed: String,
    },
    /// Something that must be unique occurs twice.
    Duplicate {
        /// The file.
        file: String,
        /// Place of the second occurrence.
        key: String,
        /// The duplicate value.
        value: String,
        /// Key of the first occurrence.
        first: String,
    },
    /// Something required is missing.
    Missing {
        /// The file.
        file: String,
        /// Its place in the file.
        key: String,
        /// The missing thing.
        needed: String,
    },
}

/// Suggests a scenario with a similar name, if there is one.
fn meant(name: &str, shipped: &[String]) -> String {
    let distance = |known: &&String| strsim::damerau_levenshtein(name, known);
    let nearest = shipped.iter().min_by_key(distance).filter(|known| distance(known) <= 2);
    nearest.map(|known| format!("; did you mean {known}?")).unwrap_or_default()
}

/// Why a file cannot be read, without the system's error number.
pub(super) fn reason_of(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::InvalidData => "not a text file".to_owned(),
        _ => error.to_string(),
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, shipped } => write!(
                f,
                "unknown scenario \"{name}\"{}\n  shipped: {}\n  give a file by its path, such as \
                 ./{name}.toml",
                meant(name, shipped),
                shipped.join(", ")
            ),
            Self::Read { file, reason } => write!(f, "cannot read scenario {file}: {reason}"),
            Self::Syntax { file, reason } => write!(f, "scenario {file}: {reason}"),
            Self::Value { file, key, value, allowed } => {
                write!(f, "scenario {file}: {key} = {value} is not allowed\n  allowed: {allowed}")
            }
            Self::Duplicate { file, key, value, first } => {
                write!(f, "scenario {file}: {key} = {value} is already used by {first}")
            }
            Self::Missing { file, key, needed } => {
                write!(f, "scenario {file}: {key} is missing\n  needed: {needed}")
            }
        }
    }
}

impl std::error::Error for ScenarioError {}
