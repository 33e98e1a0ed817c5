//! tcpdump as the user that it is started by, in labs of root and of ordinary users.
//!
//! In a lab everybody is root, and tcpdump changes to another user then; with `-Z root` it changes to the one that it
//! is already. Either way `initgroups` comes first, which the kernel refuses in a namespace that an ordinary user has
//! made (user_namespaces(7), "setgroups"). There is nothing to change, and that call is made to do nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UNCHANGED: &str = "int initgroups(const char *user, unsigned group) { return 0; }\n";

/// What `LD_PRELOAD` has to name when tcpdump is started with `-Z root`; it is made in `directory`.
///
/// # Panics
/// Without a C compiler, which building firstbyte needs too.
pub(crate) fn unchanged_groups(directory: &Path) -> PathBuf {
    let library = directory.join("unchanged-groups.so");
    let mut compiler = Command::new("cc")
        .args(["-shared", "-fPIC", "-x", "c", "-", "-o"])
        .arg(&library)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler is needed (apt-get install gcc libc6-dev)");
    compiler.stdin.take().unwrap().write_all(UNCHANGED.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    library
}
