//! Bounds how many tests run side by side, in all suites of labs and browsers together.
//!
//! Most of these tests sleep through emulated round trips, so several at once take little longer than one. A test takes
//! one permit, a browser two, and a test whose bounds are tighter than a busy machine allows takes all of them, as does
//! a browser in a lab.
//!
//! A permit is a lock (flock(2)) on a source file of this suite: locks need only the right to read, processes of all
//! users share them, and the kernel releases them however a process ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

const SUITE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../firstbyte-lab/tests/lab");
/// Two processors run this many labs without making any of them late by more than a few milliseconds.
const FILES: [&str; 6] =
    ["acks.rs", "captures.rs", "changes.rs", "http3.rs", "life.rs", "links.rs"];
pub(crate) const COUNT: usize = FILES.len();

/// Released when dropped.
pub(crate) struct Permits(Vec<File>);

impl Permits {
    /// For a test whose bounds hold on a busy machine.
    pub(crate) fn one() -> Self {
        Self::take(1)
    }

    /// For a test of a browser, which uses both processors.
    pub(crate) fn browser() -> Self {
        Self::take(2)
    }

    /// For a test of exact times, or of other processes on the machine.
    pub(crate) fn all() -> Self {
        Self::take(COUNT)
    }

    /// Waits until `count` permits are free at once, and holds none meanwhile: tests that need few go first.
    fn take(count: usize) -> Self {
        loop {
            let mut taken = Self(Vec::new());
            for (index, name) in FILES.iter().enumerate() {
                let file = open(name);
                if file.try_lock().is_ok() {
                    taken.0.push(file);
                }
                let left = COUNT - index - 1;
                if taken.0.len() == count {
                    return taken;
                } else if taken.0.len() + left < count {
                    break;
                }
            }
            drop(taken);
            std::thread::sleep(Duration::from_millis(20));
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
