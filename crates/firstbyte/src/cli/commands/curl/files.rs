//! Files, standard input and the environment for curl's command line.

use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use firstbyte_curl::files::LineFiles;
use firstbyte_probe::probe::{MOST_BODY, read_all, read_file};

/// The files of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct SystemFiles;

impl LineFiles for SystemFiles {
    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        read_file(Path::new(name), MOST_BODY)
    }

    fn read_stdin(&self) -> io::Result<Vec<u8>> {
        read_all(io::stdin().lock(), MOST_BODY)
    }

    fn size(&self, name: &str) -> Option<u64> {
        let file = fs::metadata(name).ok().filter(fs::Metadata::is_file)?;
        Some(file.len())
    }

    fn modified(&self, name: &str) -> Option<SystemTime> {
        fs::metadata(name).ok()?.modified().ok()
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|text| !text.is_empty())
    }

    fn now(&self) -> SystemTime {
        firstbyte_clock::wall_time()
    }

    fn random(&self, bytes: &mut [u8]) {
        // Fails only if the system has no randomness, and then no handshake succeeds either.
        let _ = aws_lc_rs::rand::fill(bytes);
    }
}
