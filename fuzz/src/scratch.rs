//! A file for readers that need a path; nothing is left of it when the process ends, however it ends.

use std::fs::{self, File};
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::LazyLock;

static FILE: LazyLock<PathBuf> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("firstbyte-fuzz.{}", std::process::id()));
    let file = File::create(&path).expect("a file");
    // The file has no name any more, and exists as long as it is open.
    fs::remove_file(&path).expect("the file just made");
    PathBuf::from(format!("/proc/self/fd/{}", file.into_raw_fd()))
});

/// A file with these bytes, until the next call.
pub fn holding(bytes: &[u8]) -> &'static PathBuf {
    fs::write(&*FILE, bytes).expect("the file");
    &FILE
}
