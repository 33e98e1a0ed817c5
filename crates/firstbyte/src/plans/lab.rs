//! What is done with labs.

use std::ffi::OsString;
use std::path::PathBuf;

use firstbyte_lab::LabOptions;
use serde::{Deserialize, Serialize};

use super::measuring::RenderPlan;
use firstbyte_probe::probe::Secret;

/// What is done with a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabPlan {
    /// A command is run on the client of a lab made for it.
    Run {
        /// The lab.
        lab: NewLabPlan,
        /// The command and its arguments.
        #[serde(with = "words")]
        command: CommandWords,
    },
    /// A shell on the client: of the lab that is up, or of one made for it.
    Shell {
        /// The lab.
        lab: NewLabPlan,
    },
    /// A lab is started that stays.
    Up {
        /// The lab.
        lab: NewLabPlan,
    },
    /// A command is run in a lab that is up.
    Exec {
        /// Its scenario.
        scenario: String,
        /// Host to run on; the client when absent.
        host: Option<String>,
        /// The command and its arguments.
        #[serde(with = "words")]
        command: CommandWords,
    },
    /// Which labs are up.
    Status,
    /// Labs are taken down.
    Down {
        /// That of this scenario; those of this terminal when absent.
        scenario: Option<String>,
    },
    /// A study, held against what is expected.
    Study(Box<LabStudyPlan>),
    /// A project for a host of one's own.
    Export(LabExportPlan),
    /// The shipped scenarios.
    List,
    /// A scenario, described.
    Show {
        /// A shipped scenario's name, or a file.
        scenario: String,
        /// Its file instead.
        source: bool,
    },
}

/// A command and its arguments, in which may be what lets somebody in.
pub type CommandWords = Vec<Secret<OsString>>;

/// A lab that is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLabPlan {
    /// A shipped scenario's name, or a file.
    pub scenario: String,
    /// The client's access network, by its name; none when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// How it is run.
    pub options: LabOptions,
}

/// A study in a lab of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabStudyPlan {
    /// The lab.
    pub lab: NewLabPlan,
    /// What is measured and expected; the study that comes with the scenario when absent.
    pub plan: Option<PathBuf>,
    /// Rounds that count; the study's when absent.
    pub samples: Option<u32>,
    /// The run file; under a name of its own when absent.
    pub run: Option<PathBuf>,
    /// How it is shown.
    pub render: RenderPlan,
    /// No progress is shown.
    pub silent: bool,
}

/// A docker-compose project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabExportPlan {
    /// Where it is written.
    pub directory: PathBuf,
    /// nginx takes early data.
    pub early_data: bool,
    /// Size of the page.
    pub page_bytes: u32,
    /// Size of the image.
    pub image_bytes: u32,
    /// Although there is something in the directory.
    pub force: bool,
}

/// As text. As with names of files, what is no text cannot be stored.
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
