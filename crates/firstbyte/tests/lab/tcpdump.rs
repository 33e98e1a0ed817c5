//! Runs tcpdump without changing its user, in labs of root and of ordinary users.
//!
//! In a lab everybody is root, and tcpdump then switches to another user; with `-Z root` it switches to the one it
//! already is. Either way it calls `initgroups` first, which the kernel refuses in a namespace made by an ordinary user
//! (user_namespaces(7), "setgroups"). Since there is nothing to change, this module makes that call do nothing.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const UNCHANGED: &str = "int initgroups(const char *user, unsigned group) { return 0; }\n";

/// Builds a library in `directory`, and returns its path for the `LD_PRELOAD` of a tcpdump started with `-Z root`.
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
