//! Plans of the `lab` commands.

use std::ffi::OsString;
use std::path::PathBuf;

use firstbyte_lab::LabOptions;
use serde::{Deserialize, Serialize};

use super::measuring::RenderPlan;
use firstbyte_probe::probe::Secret;

/// Plan of `lab`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabPlan {
    /// Runs a command on the client of a new lab.
    Run {
        /// The lab.
        lab: NewLabPlan,
        /// The command and its arguments.
        #[serde(with = "words")]
        command: CommandWords,
    },
    /// Opens a shell on the client of the running lab or of a new one.
    Shell {
        /// The lab.
        lab: NewLabPlan,
    },
    /// Starts a lab that keeps running.
    Up {
        /// The lab.
        lab: NewLabPlan,
    },
    /// Runs a command in a running lab.
    Exec {
        /// Scenario of the lab.
        scenario: String,
        /// Host to run on; the client if absent.
        host: Option<String>,
        /// The command and its arguments.
        #[serde(with = "words")]
        command: CommandWords,
    },
    /// Lists running labs.
    Status,
    /// Takes labs down.
    Down {
        /// Scenario of the lab; the labs of this terminal if absent.
        scenario: Option<String>,
    },
    /// Runs a study and checks it against its expectations.
    Study(Box<LabStudyPlan>),
    /// Exports a project for your own host.
    Export(LabExportPlan),
    /// Lists the shipped scenarios.
    List,
    /// Describes a scenario.
    Show {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// Prints the scenario file instead.
        source: bool,
    },
}

/// A command and its arguments, which may contain credentials.
pub type CommandWords = Vec<Secret<OsString>>;

/// A new lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLabPlan {
    /// A shipped scenario's name, or a file.
    pub scenario: String,
    /// Name of the client's access network; without one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// How to run it.
    pub options: LabOptions,
}

/// A study in its own lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStudyPlan {
    /// The lab.
    pub lab: NewLabPlan,
    /// File with measurements and expectations; the scenario's own study if absent.
    pub plan: Option<PathBuf>,
    /// Rounds that count; the study's number if absent.
    pub samples: Option<u32>,
    /// The run file; a generated name if absent.
    pub run: Option<PathBuf>,
    /// How to show the result.
    pub render: RenderPlan,
    /// Shows no progress.
    pub silent: bool,
}

/// A docker-compose project to export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabExportPlan {
    /// Directory to write to.
    pub directory: PathBuf,
    /// Lets nginx accept early data.
    pub early_data: bool,
    /// Size of the page, in bytes.
    pub page_bytes: u32,
    /// Size of the image, in bytes.
    pub image_bytes: u32,
    /// Writes even if the directory is not empty.
    pub force: bool,
}

/// Stores the words as text. Like file names, words that are not valid Unicode cannot be stored.
mod words {
    use std::ffi::OsString;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::Error};

    use super::CommandWords;
    use firstbyte_probe::probe::Secret;

    pub(super) fn serialize<S: Serializer>(words: &CommandWords, to: S) -> Result<S::Ok, S::Error> {
        let text = |word: &Secret<OsString>| word.reveal().to_str().map(str::to_owned);
        let words: Option<Vec<String>> = words.iter().map(text).collect();
        words.ok_or_else(|| S::Error::custom("a word of the command is not UTF-8"))?.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<CommandWords, D::Error> {
        let words = Vec::<String>::deserialize(from)?;
        Ok(words.into_iter().map(|word| Secret::new(OsString::from(word))).collect())
    }
}
