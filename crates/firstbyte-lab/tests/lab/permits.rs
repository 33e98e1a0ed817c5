//! How many tests run side by side, in all suites of labs and browsers together.
//!
//! Most of these tests sleep through emulated round trips, so several at once take little longer than one. A test takes
//! one permit, a browser two, and a test whose bounds are tighter than a busy machine allows takes all of them.
//!
//! A permit is a lock (flock(2)) on a source file of this suite: locks need only the right to read, processes of all
//! users share them, and the kernel releases them however a process ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../firstbyte-lab/tests/lab");
/// Two processors run this many labs without making any of them late by more than a few milliseconds.
const FILES: [&str; 5] = ["acks.rs", "captures.rs", "changes.rs", "http3.rs", "life.rs"];
pub(crate) const COUNT: usize = FILES.len();
/// Held while a test gathers several permits, so that two tests never hold half of what both need.
const GATHERING: &str = "permits.rs";

/// Released when dropped.
pub(crate) struct Permits(Vec<File>);

impl Permits {
    /// For a test whose bounds hold on a busy machine.
    pub(crate) fn one() -> Self {
        Self::take(1)
    }

    /// For a test of a browser, which uses both processors.
    #[allow(dead_code, reason = "the suite of firstbyte-lab has no browsers")]
    pub(crate) fn browser() -> Self {
        Self::take(2)
    }

    /// For a test of exact times, or of what else runs on the machine.
    pub(crate) fn all() -> Self {
        Self::take(COUNT)
    }

    fn take(count: usize) -> Self {
        let gathering = (count > 1).then(|| open(GATHERING));
        if let Some(file) = &gathering {
            file.lock().expect("flock(2) works on the file system of the sources");
        }
        let mut left: Vec<File> = FILES.iter().map(|name| open(name)).collect();
        let mut taken = Vec::new();
        loop {
            for file in std::mem::take(&mut left) {
                if taken.len() < count && file.try_lock().is_ok() {
                    taken.push(file);
                } else {
                    left.push(file);
                }
            }
            if taken.len() == count {
                return Self(taken);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Permits {
    fn drop(&mut self) {
        // A process that was forked meanwhile may still have the file open: closing it would not release the lock.
        for file in &self.0 {
            let _ = file.unlock();
        }
    }
}

fn open(name: &str) -> File {
    let path = Path::new(SUITE).join(name);
    File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
