//! System calls that no safe crate wraps: packet stamps, `TCP_INFO`, a packet socket for SYNs.
//!
//! Linux only; elsewhere the functions return no stamps and no information.

#[cfg(target_os = "linux")]
pub(super) use linux::{
    enable_stamps, holds_nothing, open_syn_watch, peek, receive, receive_syns, sent_stamp,
    sent_stamps, tcp_info,
};
#[cfg(not(target_os = "linux"))]
pub(super) use other::{
    enable_stamps, holds_nothing, open_syn_watch, peek, receive, receive_syns, sent_stamp,
    sent_stamps, tcp_info,
};

use std::time::Duration;

use firstbyte_clock::Realtime;

/// The kernel's report about sent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentStamp {
    /// The segment with the last of these bytes was handed to the device.
    Departed {
        /// Offset of that byte in the stream, modulo 2³².
        last_byte: u32,
        /// When the segment was handed over.
        at: Realtime,
    },
    /// The peer's TCP acknowledged that byte.
    Acknowledged {
        /// Offset of that byte in the stream, modulo 2³².
        last_byte: u32,
        /// When the kernel processed the acknowledgement.
        at: Realtime,
    },
}

/// The fields of `TCP_INFO` that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TcpInfo {
    /// Whether the handshake is complete and neither end has closed.
    pub established: bool,
    pub send_mss: u32,
    pub rtt: Duration,
    pub min_rtt: Option<Duration>,
    pub total_retransmits: u32,
    /// Segments sent but not acknowledged.
    pub unacknowledged: u32,
    /// Unacknowledged segments that the peer has received out of order (RFC 2018).
    pub sacked: u32,
    /// Time since in-order bytes last arrived, in ticks of the kernel's clock.
    pub since_data: Duration,
    /// Segments that arrived out of order.
    pub out_of_order: Option<u32>,
    /// How long the peer's receive window kept data from being sent, if more than two ticks.
    pub receive_window_limited: Option<Duration>,
    /// Segments that arrived.
    pub segments: u32,
    /// Segments that arrived with data.
    pub data_segments: u32,
    /// Payload size of the largest segment that arrived, as the kernel estimates it.
    pub received_mss: u32,
    /// Bytes that arrived in order.
    pub received_bytes: u64,
}

/// The longest IPv4 header, and a TCP header without options.
pub(super) const SYN_BYTES: usize = 60 + 20;

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
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

    use nix::time::{ClockId, clock_getres};
    use socket2::{Domain, Protocol, SockFilter, Socket, Type};

    use super::{Duration, Realtime, SYN_BYTES, SentStamp, TcpInfo};

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

    // include/net/tcp_states.h
    const TCP_ESTABLISHED: u8 = 1;

    // include/uapi/asm-generic/socket.h
    const SO_MEMINFO: libc::c_int = 55;

    /// Asks for stamps of everything received and sent.
    ///
    /// Call this once the socket is connecting: before that, the kernel refuses to number bytes (`OPT_ID` on an
    /// unconnected TCP socket is EINVAL).
    pub(crate) fn enable_stamps(fd: BorrowedFd<'_>) -> io::Result<()> {
        let base = RX_SOFTWARE | TX_SOFTWARE | TX_ACK | SOFTWARE | OPT_ID | OPT_TSONLY;
        // `OPT_ID_TCP` (Linux 6.2) counts from the next byte written, whatever is in flight; older kernels count from
        // the first unacknowledged byte, which is the SYN.
        set_timestamping(fd, base | OPT_ID_TCP).or_else(|_| set_timestamping(fd, base))
    }

    fn set_timestamping(fd: BorrowedFd<'_>, flags: u32) -> io::Result<()> {
        // SAFETY: the option value is a u32 that outlives the call, and its length is passed.
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

    /// Ancillary data buffer, aligned as control messages require. A stamp takes 64 bytes of it, a report 64 more.
    #[repr(C, align(8))]
    #[derive(Clone, Copy)]
    struct Control([u8; 256]);

    impl Control {
        const EMPTY: Self = Self([0; 256]);
    }

    /// Receives into `buffer`; the stamp is that of the last segment from which bytes were taken.
    pub(crate) fn receive(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
    ) -> io::Result<(usize, Option<Realtime>)> {
        receive_stamped(fd, buffer, 0)
    }

    /// Like [`receive`], but leaves the bytes in the socket.
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

    /// Takes one report about sent bytes from the error queue; `None` if there is none.
    pub(crate) fn sent_stamp(fd: BorrowedFd<'_>) -> Option<SentStamp> {
        let mut report = Report::default();
        receive_message(fd, &mut [], libc::MSG_ERRQUEUE, |level, kind, data| {
            report.read(level, kind, data);
        })
        .ok()?;
        report.stamp()
    }

    /// Takes all reports about sent bytes from the error queue, several per call; each send has two.
    pub(crate) fn sent_stamps(fd: BorrowedFd<'_>, take: &mut dyn FnMut(SentStamp)) {
        receive_all::<8, 0>(fd, libc::MSG_ERRQUEUE, |message| {
            let mut report = Report::default();
            message.control(|level, kind, data| report.read(level, kind, data));
            if let Some(stamp) = report.stamp() {
                take(stamp);
            }
        });
    }

    /// The contents of one report.
    #[derive(Default)]
    struct Report {
        at: Option<Realtime>,
        /// Kind of event, and the number of the byte.
        of: Option<(u32, u32)>,
    }

    impl Report {
        fn read(&mut self, level: libc::c_int, kind: libc::c_int, data: &[u8]) {
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => self.at = software_stamp(data),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => {
                    // struct sock_extended_err: errno u32, origin u8, type, code, pad u8,
                    // info u32, data u32.
                    if let (Some(SO_EE_ORIGIN_TIMESTAMPING), Some(info), Some(last_byte)) =
                        (data.get(4).copied(), u32_at(data, 8), u32_at(data, 12))
                    {
                        self.of = Some((info, last_byte));
                    }
                }
                _ => {}
            }
        }

        fn stamp(self) -> Option<SentStamp> {
            match (self.of?, self.at?) {
                ((SCM_TSTAMP_SND, last_byte), at) => Some(SentStamp::Departed { last_byte, at }),
                ((SCM_TSTAMP_ACK, last_byte), at) => {
                    Some(SentStamp::Acknowledged { last_byte, at })
                }
                _ => None,
            }
        }
    }

    fn receive_message(
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        flags: libc::c_int,
        control_message: impl FnMut(libc::c_int, libc::c_int, &[u8]),
    ) -> io::Result<usize> {
        let mut control = Control::EMPTY;
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: msghdr is plain data; all-zero is a valid value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len() as _;
        // SAFETY: the message points to buffers that outlive the call, with their lengths.
        let received =
            unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, flags | libc::MSG_DONTWAIT) };
        if received < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel filled the control buffer, which is still alive, and set its length.
        unsafe { control_messages(&message, control_message) };
        Ok(usize::try_from(received).unwrap_or(0))
    }

    /// Calls `each` for each control message, with its level, type and data.
    ///
    /// # Safety
    /// The kernel must have filled the message, and its control buffer must still be alive.
    unsafe fn control_messages(
        message: &libc::msghdr,
        mut each: impl FnMut(libc::c_int, libc::c_int, &[u8]),
    ) {
        // SAFETY: guaranteed by the caller. `CMSG_FIRSTHDR` and `CMSG_NXTHDR` stay within the buffer, and `cmsg_len`
        // covers the header and data of each entry.
        unsafe {
            let mut header = libc::CMSG_FIRSTHDR(message);
            while let Some(entry) = header.as_ref() {
                let data = libc::CMSG_DATA(header);
                let length = (entry.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let bytes = std::slice::from_raw_parts(data, length);
                each(entry.cmsg_level, entry.cmsg_type, bytes);
                header = libc::CMSG_NXTHDR(message, header);
            }
        }
    }

    /// One of several messages received with one call.
    struct Received<'a> {
        message: &'a libc::msghdr,
        bytes: &'a [u8],
        from: &'a libc::sockaddr_ll,
    }

    impl Received<'_> {
        fn control(&self, each: impl FnMut(libc::c_int, libc::c_int, &[u8])) {
            // SAFETY: `receive_all` creates this only from messages that the kernel filled, while their buffers are
            // alive.
            unsafe { control_messages(self.message, each) };
        }
    }

    /// Receives everything that waits, up to `MANY` messages of up to `BYTES` bytes per call. A call that returns fewer
    /// has emptied the queue; receiving one by one would need another call to find out.
    fn receive_all<const MANY: usize, const BYTES: usize>(
        fd: BorrowedFd<'_>,
        flags: libc::c_int,
        mut take: impl FnMut(&Received<'_>),
    ) {
        let mut buffers = [[0; BYTES]; MANY];
        let mut controls = [Control::EMPTY; MANY];
        loop {
            // SAFETY: these three are plain data; all-zero is a valid value.
            let (mut messages, mut froms, mut iovs): (
                [libc::mmsghdr; MANY],
                [libc::sockaddr_ll; MANY],
                [libc::iovec; MANY],
            ) = unsafe { mem::zeroed() };
            for at in 0..MANY {
                iovs[at].iov_base = buffers[at].as_mut_ptr().cast();
                iovs[at].iov_len = BYTES;
                let header = &mut messages[at].msg_hdr;
                header.msg_iov = &raw mut iovs[at];
                header.msg_iovlen = 1;
                header.msg_name = (&raw mut froms[at]).cast();
                header.msg_namelen = mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                header.msg_control = controls[at].0.as_mut_ptr().cast();
                header.msg_controllen = controls[at].0.len() as _;
            }
            // SAFETY: the messages point to buffers that outlive the call, with their lengths.
            let received = unsafe {
                libc::recvmmsg(
                    fd.as_raw_fd(),
                    messages.as_mut_ptr(),
                    MANY as libc::c_uint,
                    (flags | libc::MSG_DONTWAIT) as _,
                    std::ptr::null_mut(),
                )
            };
            let received = usize::try_from(received).unwrap_or(0);
            for (at, message) in messages.iter().enumerate().take(received) {
                let bytes = &buffers[at][..(message.msg_len as usize).min(BYTES)];
                take(&Received { message: &message.msg_hdr, bytes, from: &froms[at] });
            }
            if received < MANY {
                break;
            }
        }
    }

    /// Opens a socket that receives every SYN and SYN/ACK that passes a device from now on, starting at the IP header.
    pub(crate) fn open_syn_watch() -> io::Result<OwnedFd> {
        // Without a protocol, it receives nothing yet.
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(0)))?;
        socket.set_nonblocking(true)?;
        // As much as the kernel allows.
        let _ = socket.set_recv_buffer_size(2 * 1024 * 1024);
        socket
            .attach_filter(&SYN_FILTER.map(|(code, jt, jf, k)| SockFilter::new(code, jt, jf, k)))?;
        set_timestamping(socket.as_fd(), RX_SOFTWARE | SOFTWARE)?;
        // SAFETY: sockaddr_ll is plain data; all-zero is a valid value.
        let mut all: libc::sockaddr_ll = unsafe { mem::zeroed() };
        all.sll_family = libc::AF_PACKET as u16;
        all.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: the address outlives the call, and its length is passed.
        let result = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const all).cast(),
                mem::size_of_val(&all) as libc::socklen_t,
            )
        };
        if result == 0 { Ok(socket.into()) } else { Err(io::Error::last_os_error()) }
    }

    /// The filter's load offset for a packet's direction, `PACKET_OUTGOING` or another (linux/filter.h: `SKF_AD_OFF` +
    /// `SKF_AD_PKTTYPE`).
    const PASSED: u32 = -0x1000_i32 as u32 + 4;
    const OUTGOING: u32 = libc::PACKET_OUTGOING as u32;

    /// Accepts outgoing SYNs and incoming SYN/ACKs, over IPv4 (first fragments only) and IPv6 (without extension
    /// headers). On a loopback path, each also passes in the other direction.
    const SYN_FILTER: [(u16, u8, u8, u32); 23] = [
        (0x30, 0, 0, 0),                // ldb [0]
        (0x54, 0, 0, 0xf0),             // and #0xf0
        (0x15, 0, 7, 0x40),             // jeq #0x40, next, 10
        (0x30, 0, 0, 9),                // ldb [9]: protocol
        (0x15, 0, 17, 6),               // jeq #6, next, 22
        (0x28, 0, 0, 6),                // ldh [6]: fragment offset
        (0x45, 15, 0, 0x1fff),          // jset #0x1fff, 22, next
        (0xb1, 0, 0, 0),                // ldxb 4*([0]&0xf)
        (0x50, 0, 0, 13),               // ldb [x + 13]: flags
        (0x05, 0, 0, 4),                // ja 14
        (0x15, 0, 11, 0x60),            // jeq #0x60, next, 22
        (0x30, 0, 0, 6),                // ldb [6]: next header
        (0x15, 0, 9, 6),                // jeq #6, next, 22
        (0x30, 0, 0, 53),               // ldb [53]: flags
        (0x54, 0, 0, 0x12),             // and #0x12: SYN and ACK
        (0x15, 3, 0, 0x02),             // jeq #2, 19, next
        (0x15, 0, 5, 0x12),             // jeq #0x12, next, 22
        (0x30, 0, 0, PASSED),           // ldb how it passed
        (0x15, 3, 2, OUTGOING),         // jeq outgoing, 22, 21
        (0x30, 0, 0, PASSED),           // ldb how it passed
        (0x15, 0, 1, OUTGOING),         // jeq outgoing, next, 22
        (0x06, 0, 0, SYN_BYTES as u32), // ret
        (0x06, 0, 0, 0),                // ret #0
    ];

    /// Takes all waiting packets, several per call; a connection has two. Calls `take` with each, whether it is
    /// outgoing, and when it passed.
    pub(crate) fn receive_syns(
        fd: BorrowedFd<'_>,
        mut take: impl FnMut(&[u8], bool, Option<Realtime>),
    ) {
        receive_all::<4, SYN_BYTES>(fd, 0, |packet| {
            let mut stamp = None;
            packet.control(|level, kind, data| {
                if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) {
                    stamp = software_stamp(data);
                }
            });
            take(packet.bytes, packet.from.sll_pkttype == libc::PACKET_OUTGOING as u8, stamp);
        });
    }

    /// The first of the three stamps of `struct scm_timestamping`: software. Zero means absent.
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

    fn u64_at(data: &[u8], at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(data.get(at..at + 8)?.try_into().ok()?))
    }

    /// One jiffy, the unit of `tcpi_rwnd_limited` (net/ipv4/tcp.c, `tcp_get_info_chrono_stats`).
    fn kernel_tick() -> Duration {
        clock_getres(ClockId::CLOCK_MONOTONIC_COARSE)
            .map_or(Duration::from_millis(10), Duration::from)
    }

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
            established: info.first() == Some(&TCP_ESTABLISHED),
            send_mss: u32_at(info, 16)?,
            rtt: micros(u32_at(info, 68)?),
            total_retransmits: u32_at(info, 100)?,
            unacknowledged: u32_at(info, 24)?,
            sacked: u32_at(info, 28)?,
            min_rtt: u32_at(info, 148).filter(|us| *us != u32::MAX && *us != 0).map(micros),
            since_data: Duration::from_millis(u64::from(u32_at(info, 52)?)),
            out_of_order: u32_at(info, 224),
            receive_window_limited: u64_at(info, 176)
                .map(Duration::from_micros)
                .filter(|limited| *limited > kernel_tick() * 2),
            segments: u32_at(info, 140)?,
            data_segments: u32_at(info, 152)?,
            received_mss: u32_at(info, 20)?,
            received_bytes: u64_at(info, 128)?,
        })
    }

    /// Whether the socket holds no received bytes, neither readable nor behind a hole.
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
        // The first entry is `SK_MEMINFO_RMEM_ALLOC`.
        result == 0 && memory[0] == 0
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use super::{Realtime, SentStamp, TcpInfo};

    pub(crate) fn open_syn_watch() -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn receive_syns(_: BorrowedFd<'_>, _: impl FnMut(&[u8], bool, Option<Realtime>)) {}

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

    pub(crate) fn sent_stamps(_: BorrowedFd<'_>, _: &mut dyn FnMut(SentStamp)) {}

    pub(crate) fn tcp_info(_: BorrowedFd<'_>) -> Option<TcpInfo> {
        None
    }

    pub(crate) fn holds_nothing(_: BorrowedFd<'_>) -> bool {
        false
    }
}
