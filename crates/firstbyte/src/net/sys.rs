//! The system calls that no safe crate wraps: packet stamps and `TCP_INFO`.
//!
//! Linux only; elsewhere the functions say that there is no stamp and no information.

#[cfg(target_os = "linux")]
pub(super) use linux::{enable_stamps, holds_nothing, peek, receive, sent_stamp, tcp_info};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{enable_stamps, holds_nothing, peek, receive, sent_stamp, tcp_info};

use std::time::Duration;

use crate::clock::Realtime;

/// What the kernel reports about bytes that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentStamp {
    /// The segment with the last of these bytes was handed to the device.
    Departed {
        /// Offset of that byte in the stream, modulo 2³².
        last_byte: u32,
        /// When.
        at: Realtime,
    },
    /// The peer's TCP acknowledged that byte.
    Acknowledged {
        /// Offset of that byte in the stream, modulo 2³².
        last_byte: u32,
        /// When.
        at: Realtime,
    },
}

/// The fields of `TCP_INFO` that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpInfo {
    pub send_mss: u32,
    pub rtt: Duration,
    pub min_rtt: Option<Duration>,
    pub total_retransmits: u32,
    /// How long ago bytes in order arrived, to the tick of the kernel's clock.
    pub since_data: Duration,
    /// Segments that arrived out of order.
    pub out_of_order: Option<u32>,
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "socket options and ancillary data")]
#[allow(
    clippy::unnecessary_cast,
    clippy::useless_conversion,
    reason = "the widths of C's types differ between targets"
)]
mod linux {
    use std::io;
    use std::mem;
    use std::os::fd::{AsRawFd, BorrowedFd};

    use super::{Duration, Realtime, SentStamp, TcpInfo};

    // include/uapi/linux/net_tstamp.h
    const TX_SOFTWARE: u32 = 1 << 1;
    const RX_SOFTWARE: u32 = 1 << 3;
    const SOFTWARE: u32 = 1 << 4;
    const OPT_ID: u32 = 1 << 7;
    const TX_ACK: u32 = 1 << 9;
    const OPT_TSONLY: u32 = 1 << 11;
    const OPT_ID_TCP: u32 = 1 << 16;

    // include/uapi/linux/errqueue.h
    const SO_EE_ORIGIN_TIMESTAMPING: u8 = 4;
    const SCM_TSTAMP_SND: u32 = 0;
    const SCM_TSTAMP_ACK: u32 = 2;

    // include/uapi/asm-generic/socket.h
    const SO_MEMINFO: libc::c_int = 55;

    /// Asks for stamps of everything received and sent.
    ///
    /// To be called once the socket is connecting: before, the kernel refuses to number bytes
    /// (`OPT_ID` on an unconnected TCP socket is EINVAL).
    pub(crate) fn enable_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
        let base = RX_SOFTWARE | TX_SOFTWARE | TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY;
        // OPT_ID_TCP (Linux 6.2) counts from the next byte to be written whatever is in flight;
        // older kernels count from the first unacknowledged one, which is the SYN.
        set_timestamping(fd, base | OPT_ID_TCP).or_else(|_| set_timestamping(fd, base))
    }

    fn set_timestamping(fd: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
        // SAFETY: the option value is a u32 that lives through the call, and its length is given.
        let result = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPING,
                (&raw const flags).cast(),
                mem::size_of::<u32>() as libc::socklen_t,
            )
        };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Ancillary data buffer, aligned as control messages have to be.
    #[repr(C, align(8))]
    struct Control([u8; 512]);

    /// Receives into `buffer`; the stamp is that of the last segment from which bytes were taken.
    pub(crate) fn receive(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<Realtime>)> {
        receive_stamped(fd, buffer, 0)
    }

    /// As [`receive`], but what is received stays to be received.
    pub(crate) fn peek(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<Realtime>)> {
        receive_stamped(fd, buffer, libc::MSG_PEEK)
    }

    fn receive_stamped(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: libc::c_int,
    ) -> io::Result<(usize, Option<Realtime>)> {
        let mut stamp = None;
        let received = receive_message(fd, buffer, flags, |level, kind, data| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
                stamp = software_stamp(data);
            }
        })?;
        Ok((received, stamp))
    }

    /// Takes one report about sent bytes from the error queue; `None` when there is none.
    pub(crate) fn sent_stamp(fd: BorrowedFd<'_>) -> Option<SentStamp> {
        let mut at = None;
        let mut report = None;
        receive_message(fd, &mut [], libc::MSG_ERRQUEUE, |level, kind, data| {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => at = software_stamp(data),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    // struct sock_extended_err: errno u32, origin u8, type, code, pad u8,
                    // info u32, data u32.
                    if let (Some(SO_EE_ORIGIN_TIMESTAMPING), Some(info), Some(last_byte)) =
                        (data.get(4).copied(), u32_at(data, 8), u32_at(data, 12))
                    {
                        report = Some((info, last_byte));
                    }
                }
                _ => {}
            }
        })
        .ok()?;
        match (report?, at?) {
            ((SCM_TSTAMP_SND, last_byte), at) => Some(SentStamp::Departed { last_byte, at }),
            ((SCM_TSTAMP_ACK, last_byte), at) => Some(SentStamp::Acknowledged { last_byte, at }),
            _ => None,
        }
    }

    fn receive_message(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: libc::c_int,
        mut control_message: impl FnMut(libc::c_int, libc::c_int, &[u8]),
    ) -> io::Result<usize> {
        let mut control = Control([0; 512]);
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is plain data; all-zero is a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: the message points to buffers that live through the call, with their lengths.
        let received =
            unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel filled the control buffer and set its length; CMSG_FIRSTHDR and
        // CMSG_NXTHDR stay within it, and cmsg_len covers header and data of each entry.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(&raw const message);
            while let Some(entry) = header.as_ref() {
                let data = libc::CMSG_DATA(header);
                let length = (entry.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let bytes = std::slice::from_raw_parts(data, length);
                control_message(entry.cmsg_level, entry.cmsg_type, bytes);
                header = libc::CMSG_NXTHDR(&raw const message, header);
            }
        }
        Ok(usize::try_from(received).unwrap_or(0))
    }

    /// The first of the three stamps of `struct scm_timestamping`: software. Zero is "none".
    fn software_stamp(data: &[u8]) -> Option<Realtime> {
        let word = |at: usize| {
            Some(libc::c_long::from_ne_bytes(
                data.get(at..at + mem::size_of::<libc::c_long>())?.try_into().ok()?,
            ))
        };
        let (seconds, nanoseconds) = (word(0)?, word(mem::size_of::<libc::c_long>())?);
        (seconds != 0 || nanoseconds != 0)
            .then(|| Realtime::from_timespec(i64::from(seconds), i64::from(nanoseconds)))
    }

    fn u32_at(data: &[u8], at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(data.get(at..at + 4)?.try_into().ok()?))
    }

    /// Reads `TCP_INFO`.
    pub(crate) fn tcp_info(fd: BorrowedFd<'_>) -> Option<TcpInfo> {
        let mut info = [0u8; 256];
        let mut length = info.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into a buffer of that length.
        let result = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let info = (result == 0).then_some(&info[..length as usize])?;
        // Offsets in struct tcp_info, include/uapi/linux/tcp.h: fields are only ever appended.
        let micros = |us: u32| Duration::from_micros(u64::from(us));
        Some(TcpInfo {
            send_mss: u32_at(info, 16)?,
            rtt: micros(u32_at(info, 68)?),
            total_retransmits: u32_at(info, 100)?,
            min_rtt: u32_at(info, 148).filter(|us| *us != u32::MAX && *us != 0).map(micros),
            since_data: Duration::from_millis(u64::from(u32_at(info, 52)?)),
            out_of_order: u32_at(info, 224),
        })
    }

    /// Whether the socket holds no received bytes: none to be read, none behind a hole.
    pub(crate) fn holds_nothing(fd: BorrowedFd<'_>) -> bool {
        let mut memory = [u32::MAX; 9];
        let mut length = mem::size_of_val(&memory) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into a buffer of that length.
        let result = unsafe {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_MEMINFO,
                memory.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        // The first of them is SK_MEMINFO_RMEM_ALLOC.
        result == 0 && memory[0] == 0
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd};

    use super::{Realtime, SentStamp, TcpInfo};

    pub(crate) fn enable_stamps(_: BorrowedFd<'_>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn receive(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<Realtime>)> {
        Ok((nix::unistd::read(fd.as_fd(), buffer)?, None))
    }

    pub(crate) fn peek(_: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<(usize, Option<Realtime>)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn sent_stamp(_: BorrowedFd<'_>) -> Option<SentStamp> {
        None
    }

    pub(crate) fn tcp_info(_: BorrowedFd<'_>) -> Option<TcpInfo> {
        None
    }

    pub(crate) fn holds_nothing(_: BorrowedFd<'_>) -> bool {
        false
    }
}
