//! A server host's own program: its command line and its files.
//!
//! In: the file's `command`, `package` and `files`. Out: words and texts with placeholders that the
//! running lab fills in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::error::ScenarioError;
use super::place::{Place, quoted};

/// Files that the lab itself writes into a server's directory.
const OF_THE_LAB: [&str; 6] =
    ["chain.pem", "key.pem", "server.pem", "access.log", "stderr", "html"];

/// A program that serves on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// The program, by name or path, and its arguments; never empty.
    words: Vec<String>,
    /// The Debian package of the program, named by the error if the program is missing.
    pub package: Option<String>,
    /// Files in the server's directory: name and content.
    files: BTreeMap<String, String>,
}

/// Paths that replace `{chain}`, `{key}` and so on in commands and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `{directory}`: the server's own directory, in memory, where the program starts. Static files that the
    /// lab serves are in `html`.
    pub directory: PathBuf,
    /// `{log}`: the access log, for programs that write the lab's format (see [`crate::access_log`]).
    pub log: PathBuf,
    /// `{scenario}`: the directory of the scenario's file.
    pub scenario: PathBuf,
}

impl Paths {
    /// `{chain}`: leaf and intermediate, PEM.
    pub fn chain(&self) -> PathBuf {
        self.directory.join("chain.pem")
    }

    /// `{key}`: the leaf's private key, PEM (PKCS #8).
    pub fn key(&self) -> PathBuf {
        self.directory.join("key.pem")
    }

    /// `{pem}`: chain and key in one file.
    pub fn pem(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    fn fill_in(&self, text: &str) -> String {
        let places: [(&str, &Path); 6] = [
            ("{directory}", &self.directory),
            ("{log}", &self.log),
            ("{scenario}", &self.scenario),
            ("{chain}", &self.chain()),
            ("{key}", &self.key()),
            ("{pem}", &self.pem()),
        ];
        places.iter().fold(text.to_owned(), |text, (word, path)| {
            text.replace(word, &path.display().to_string())
        })
    }
}

impl CommandSettings {
    /// The program and its arguments.
    pub fn words(&self, paths: &Paths) -> Vec<String> {
        self.words.iter().map(|word| paths.fill_in(word)).collect()
    }

    /// Names and contents of the files for the server's directory.
    pub fn files<'a>(&'a self, paths: &'a Paths) -> impl Iterator<Item = (&'a str, String)> {
        self.files.iter().map(|(name, content)| (name.as_str(), paths.fill_in(content)))
    }
}

pub(super) fn check(
    server: &Place<'_>,
    command: Option<Vec<String>>,
    package: Option<String>,
    files: BTreeMap<String, String>,
) -> Result<Option<CommandSettings>, ScenarioError> {
    let Some(words) = command else {
        let only = r#"only with kind = "command""#;
        return match (files.is_empty(), &package) {
            (true, None) => Ok(None),
            (false, _) => Err(server.at("files").bad("{ … }", only)),
            (true, Some(package)) => Err(server.at("package").bad(quoted(package), only)),
        };
    };
    if words.first().is_none_or(String::is_empty) {
        let allowed = r#"the program and its arguments, such as ["haproxy", "-db"]"#;
        return Err(server.at("command").bad(format!("{words:?}"), allowed));
    }
    for name in files.keys() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let hidden = name.starts_with('.') || name.is_empty();
        if hidden || !name.chars().all(plain) || OF_THE_LAB.contains(&name.as_str()) {
            let others = OF_THE_LAB.join(", ");
            let allowed = format!("plain file names other than {others}");
            return Err(server.at("files").bad(quoted(name), allowed));
        }
    }
    Ok(Some(CommandSettings { words, package, files }))
}
