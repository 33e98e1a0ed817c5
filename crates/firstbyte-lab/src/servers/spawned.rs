//! An installed server as a process on a host: found, started with its output in a file, killed when dropped.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::SigSet;

use crate::builtin_server::page;
use crate::network::HostNetwork;
use crate::sys::{start_in_network, start_with_signals};

/// Where packages install servers that are not on an ordinary user's PATH.
const USUAL_PLACES: [&str; 4] =
    ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/local/nginx/sbin"];
/// Sizes available at `/bytes/N`, one static file each.
const SIZES: [u64; 6] = [0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// Finds a program on the PATH or where packages install it.
pub(super) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(USUAL_PLACES.iter().map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|program| program.is_file())
}

/// Writes a server's static files into `html` in `directory`.
pub(super) fn write_pages(directory: &Path, page_bytes: usize) -> io::Result<()> {
    fs::create_dir_all(directory.join("html/bytes"))?;
    fs::write(directory.join("html/index.html"), page(page_bytes))?;
    for size in SIZES {
        let file = File::create(directory.join(format!("html/bytes/{size}")))?;
        file.set_len(size)?;
    }
    Ok(())
}

/// A running server; dropping this kills it.
pub(super) struct Spawned {
    child: Child,
    stderr: PathBuf,
    /// Whether its end has been reported.
    is_told: bool,
}

impl Spawned {
    /// Starts `command` on a host; its stderr is kept in `directory`.
    pub(super) fn start(
        mut command: Command,
        directory: &Path,
        place: &HostNetwork,
    ) -> io::Result<Self> {
        let stderr = directory.join("stderr");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&stderr)?);
        start_in_network(&mut command, place.namespace.descriptor()?);
        start_with_signals(&mut command, SigSet::empty());
        Ok(Self { child: command.spawn()?, stderr, is_told: false })
    }

    /// Its process ID.
    pub(super) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Why it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("the program ended with {status}"))
    }

    /// As `ended`, but only the first time.
    pub(super) fn ended_anew(&mut self) -> Option<String> {
        let reason = self.ended().filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(reason)
    }

    pub(super) fn output(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
