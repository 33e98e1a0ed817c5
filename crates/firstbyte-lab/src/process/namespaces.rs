//! New user, mount, process and IPC namespaces for a lab.

use std::fs;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::unistd::{getegid, geteuid};

use crate::error::LabError;

/// Moves the calling process into new namespaces; its next child becomes process 1 of a new process
/// namespace.
///
/// Root (with CAP_SYS_ADMIN) stays in its user namespace. Other users get a new one, in which they are root.
pub(crate) fn enter_new() -> Result<(), LabError> {
    let flags = CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWIPC;
    match unshare(flags) {
        Ok(()) => return Ok(()),
        Err(Errno::EPERM) => {}
        Err(error) => return Err(refused(error.desc())),
    }
    let (user, group) = (geteuid(), getegid());
    unshare(flags | CloneFlags::CLONE_NEWUSER).map_err(|error| refused(error.desc()))?;
    // If the program's file has capabilities (`setcap cap_net_raw=ep`), the kernel hides the process from
    // its own user: its files in /proc belong to root, including those written below and those by which a
    // lab is found. In the new namespace it has nothing to hide.
    prctl::set_dumpable(true).map_err(|error| refused(error.desc()))?;
    let maps = [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("0 {user} 1")),
        ("/proc/self/gid_map", format!("0 {group} 1")),
    ];
    for (file, content) in maps {
        fs::write(file, content).map_err(|error| refused(&format!("{file}: {error}")))?;
    }
    Ok(())
}

/// The error if the kernel refuses namespaces, with the setting that forbids them if it is a known one.
pub(super) fn refused(reason: &str) -> LabError {
    let set_to = |file: &str, value: &str| {
        fs::read_to_string(file).is_ok_and(|content| content.trim() == value)
    };
    let cause = if set_to("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        Some(
            "AppArmor restricts user namespaces: run as root, or once as root: \
             sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        )
    } else if set_to("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        Some(
            "only root may use user namespaces: run as root, or once as root: \
             sysctl kernel.unprivileged_userns_clone=1",
        )
    } else if set_to("/proc/sys/user/max_user_namespaces", "0") {
        Some(
            "the limit of user namespaces is 0: run as root, or once as root: \
             sysctl user.max_user_namespaces=10000",
        )
    } else {
        None
    };
    LabError::Namespaces { reason: reason.to_owned(), cause: cause.map(str::to_owned) }
}
