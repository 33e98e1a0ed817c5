//! A network namespace that exists as long as a descriptor of it is open: no name, no file.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};

#[derive(Debug)]
pub(crate) struct Namespace {
    descriptor: OwnedFd,
}

impl Namespace {
    /// Makes a new namespace and moves the calling thread into it.
    pub(crate) fn create() -> nix::Result<Self> {
        unshare(CloneFlags::CLONE_NEWNET)?;
        Self::current()
    }

    /// The calling thread's namespace.
    pub(crate) fn current() -> nix::Result<Self> {
        let file = File::open("/proc/thread-self/ns/net")
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))?;
        Ok(Self { descriptor: file.into() })
    }

    /// Moves the calling thread into this namespace.
    pub(crate) fn enter(&self) -> nix::Result<()> {
        setns(&self.descriptor, CloneFlags::CLONE_NEWNET)
    }

    /// Runs `action` on the calling thread inside this namespace, then returns to the previous one.
    ///
    /// Sockets that `action` opens stay in this namespace.
    pub(crate) fn within<T>(&self, action: impl FnOnce() -> T) -> nix::Result<T> {
        let outside = Self::current()?;
        self.enter()?;
        let result = action();
        outside.enter()?;
        Ok(result)
    }

    /// Number of its descriptor in this process.
    pub(crate) fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Another descriptor of this namespace.
    pub(crate) fn descriptor(&self) -> nix::Result<OwnedFd> {
        self.descriptor
            .try_clone()
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }
}
