//! The lab's view of the file system: its own scratch space, its own DNS configuration.
//!
//! All mounts are in the lab's own mount namespace and disappear with it; nothing is written to the
//! machine's disks.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};

use super::namespaces::refused;
use crate::error::LabError;
use crate::warning::LabWarning;

/// Directories that usually exist and are empty.
const OFTEN_EMPTY: [&str; 11] = [
    "/srv",
    "/media",
    "/mnt",
    "/opt",
    "/var/opt",
    "/var/local",
    "/var/empty",
    "/usr/local/src",
    "/usr/local/games",
    "/usr/local/etc",
    "/boot",
];

/// Sockets through which the machine's name services would answer, bypassing the lab's DNS.
const NAME_SERVICE_SOCKETS: [&str; 2] = ["/run/nscd", "/var/run/nscd"];

/// Detaches this mount namespace from the machine's and shows the processes of the lab in `/proc`.
pub(super) fn make_private() -> Result<(), LabError> {
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .map_err(|error| match error {
            // AppArmor forbids user namespaces in this way: it creates one whose root has no rights.
            Errno::EPERM | Errno::EACCES => refused(error.desc()),
            other => failed("make mounts private", other),
        })?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Containers refuse this. `/proc` then shows the machine's processes, which is harmless.
    let _ = mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>);
    Ok(())
}

/// Mounts memory over an empty directory that contains neither `needed` nor the working directory.
pub(super) fn scratch(needed: &[PathBuf]) -> Result<PathBuf, LabError> {
    let needed: Vec<PathBuf> = needed
        .iter()
        .cloned()
        .chain(std::env::current_dir())
        .map(|path| fs::canonicalize(&path).unwrap_or(path))
        .collect();
    let free = |directory: &&Path| {
        let empty = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none());
        empty && !needed.iter().any(|path| path.starts_with(directory))
    };
    let directory =
        OFTEN_EMPTY.iter().map(Path::new).find(free).ok_or_else(|| LabError::System {
            step: "find a directory for the lab's files".to_owned(),
            reason: format!("one of these directories must be empty: {}", OFTEN_EMPTY.join(", ")),
        })?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("firstbyte-lab"), directory, Some("tmpfs"), flags, Some("mode=755"))
        .map_err(|error| failed(&format!("mount tmpfs on {}", directory.display()), error))?;
    Ok(directory.to_owned())
}

/// Makes the C library, and programs that read its files, use the DNS server at these addresses.
///
/// Returns warnings about what could not be arranged.
pub(super) fn use_resolver(
    addresses: &[IpAddr],
    scratch: &Path,
) -> Result<Vec<LabWarning>, LabError> {
    let nameservers: String =
        addresses.iter().map(|address| format!("nameserver {address}\n")).collect();
    let mut warnings = Vec::new();
    // The machine's `hosts` line may name services that would answer instead of that server.
    for (file, content) in
        [("/etc/resolv.conf", nameservers), ("/etc/nsswitch.conf", without_other_name_services())]
    {
        let Ok(target) = fs::canonicalize(file) else {
            if file == "/etc/resolv.conf" {
                warnings.push(LabWarning::NoResolvConf);
            }
            continue;
        };
        let replacement = scratch.join(Path::new(file).file_name().unwrap_or_default());
        fs::write(&replacement, content).map_err(|error| LabError::System {
            step: format!("write {}", replacement.display()),
            reason: error.to_string(),
        })?;
        bind(&replacement, &target)?;
    }
    for directory in NAME_SERVICE_SOCKETS.map(Path::new) {
        if directory.join("socket").exists() {
            let empty = scratch.join("empty");
            // It may exist from the previous directory.
            let _ = fs::create_dir(&empty);
            bind(&empty, directory)?;
        }
    }
    Ok(warnings)
}

fn without_other_name_services() -> String {
    let file = fs::read_to_string("/etc/nsswitch.conf").unwrap_or_default();
    let others = file.lines().filter(|line| !line.trim_start().starts_with("hosts:"));
    others.map(|line| format!("{line}\n")).chain(["hosts: files dns\n".to_owned()]).collect()
}

fn bind(source: &Path, target: &Path) -> Result<(), LabError> {
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND, None::<&str>)
        .map_err(|error| failed(&format!("replace {}", target.display()), error))
}

fn failed(step: &str, errno: Errno) -> LabError {
    LabError::System { step: step.to_owned(), reason: errno.desc().to_owned() }
}
