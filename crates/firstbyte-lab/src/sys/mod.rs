//! The system calls that no safe crate wraps, each as a safe function. All `unsafe` of this crate is
//! here and in [`ring`].
#![allow(unsafe_code, reason = "namespaces, processes and rings need calls that no safe crate has")]

mod ring;

use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::SigSet;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::{ForkResult, Pid, fork};

pub(crate) use ring::{PacketRing, RingSize};

/// Runs `child` in a forked process, which ends with the exit code it returns.
///
/// The caller must have only one thread: in the child of a multi-threaded process even an allocation may
/// wait forever for a lock whose owner was not copied. [`crate::process`] checks that.
pub(crate) fn fork_with(child: impl FnOnce() -> i32) -> nix::Result<Pid> {
    // The child would write buffered output a second time.
    let _ = io::stdout().flush();
    // SAFETY: the process has one thread (this function's contract), so that the child is a
    // complete copy in which everything that was allowed before the fork still is.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            let run = std::panic::AssertUnwindSafe(child);
            let code = std::panic::catch_unwind(run).unwrap_or(101);
            std::process::exit(code)
        }
    }
}

/// Makes `command` start in this network namespace.
pub(crate) fn start_in_network(command: &mut Command, network: OwnedFd) -> &mut Command {
    let enter = move || setns(&network, CloneFlags::CLONE_NEWNET).map_err(io::Error::from);
    // SAFETY: between fork and exec `enter` only makes one system call; it neither allocates nor
    // takes a lock, and the descriptor lives as long as the closure does.
    unsafe { command.pre_exec(enter) }
}

/// Makes `command` start with exactly these signals blocked, instead of with this thread's.
pub(crate) fn start_with_signals(command: &mut Command, blocked: SigSet) -> &mut Command {
    let set = move || blocked.thread_set_mask().map_err(io::Error::from);
    // SAFETY: between fork and exec `set` only makes one system call; it neither allocates nor
    // takes a lock.
    unsafe { command.pre_exec(set) }
}

/// Gives the calling thread priority over all ordinary threads, if permitted.
pub(crate) fn prefer_this_thread() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: `priority` is a valid parameter block that outlives the call; thread 0 is the caller.
    // A refusal (an ordinary user) leaves everything as it was.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
}

/// Switches off the offloads by which an interface carries frames that no wire would: checksums left to
/// hardware, segments merged or not yet split.
pub(crate) fn disable_offloads(interface: &str) -> nix::Result<()> {
    // `ETHTOOL_S*` commands of `linux/ethtool.h`.
    const SET_RX_CHECKSUM: u32 = 0x15;
    const SET_TX_CHECKSUM: u32 = 0x17;
    const SET_SCATTER_GATHER: u32 = 0x19;
    const SET_TSO: u32 = 0x1f;
    const SET_GSO: u32 = 0x24;
    const SET_GRO: u32 = 0x2c;
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    for command in [SET_TSO, SET_GSO, SET_GRO, SET_SCATTER_GATHER, SET_TX_CHECKSUM, SET_RX_CHECKSUM]
    {
        match ethtool_set(&socket, interface, command, 0) {
            // The device does not have this offload, or has it fixed to off.
            Ok(()) | Err(Errno::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn ethtool_set(socket: &OwnedFd, interface: &str, command: u32, value: u32) -> nix::Result<()> {
    let mut request = [command, value];
    // SAFETY: all-zero bytes are a valid `ifreq`: it consists of integers and pointers.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    if interface.len() >= ifreq.ifr_name.len() {
        return Err(Errno::ENAMETOOLONG);
    }
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = request.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL reads an `ifreq` whose name is terminated (checked above) and whose data
    // points to a `struct ethtool_value`, two u32; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut ifreq) };
    Errno::result(result).map(drop)
}
