//! A scenario's own program as a server of the lab: writes its files and fills in its placeholders.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use super::spawned::{Spawned, find_program, write_pages};
use crate::ca::ServerCertificate;
use crate::network::HostNetwork;
use crate::scenario::{CommandSettings, Paths};

/// A program that is installed.
pub(super) struct Program {
    path: PathBuf,
    arguments: Vec<String>,
    /// Its name, for people.
    pub(super) name: String,
}

/// Finds the program of a command.
///
/// # Errors
/// The program is not installed; the error is its name.
pub(super) fn find(settings: &CommandSettings, paths: &Paths) -> Result<Program, String> {
    let mut words = settings.words(paths);
    let name = words.remove(0);
    let path = if name.contains('/') {
        Some(PathBuf::from(&name)).filter(|path| path.is_file())
    } else {
        find_program(&name)
    };
    let path = path.ok_or_else(|| name.clone())?;
    let name = path.file_name().map_or(name, |name| name.to_string_lossy().into_owned());
    Ok(Program { path, arguments: words, name })
}

impl Program {
    pub(super) fn start(
        &self,
        settings: &CommandSettings,
        paths: &Paths,
        page_bytes: usize,
        certificate: &ServerCertificate,
        place: &HostNetwork,
    ) -> io::Result<Spawned> {
        let directory = &paths.directory;
        write_pages(directory, page_bytes)?;
        fs::write(paths.chain(), &certificate.chain_pem)?;
        fs::write(paths.key(), &certificate.key_pem)?;
        let both = format!("{}{}", certificate.chain_pem, certificate.key_pem);
        fs::write(paths.pem(), both)?;
        for (name, content) in settings.files(paths) {
            fs::write(directory.join(name), content)?;
        }
        let mut command = Command::new(&self.path);
        command.args(&self.arguments).current_dir(directory);
        Spawned::start(command, directory, place)
    }
}
