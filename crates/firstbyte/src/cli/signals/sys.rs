//! The one query about signals that no safe crate offers.
#![allow(unsafe_code, reason = "sigaction")]

/// Whether this process was started to ignore `signal`, as nohup(1) does with SIGHUP.
pub(super) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`: it consists of integers and a pointer that may be null.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action nothing is changed; the present one is written to `action`, which outlives the
    // call.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    result == 0 && action.sa_sigaction == libc::SIG_IGN
}
