//! A ring of blocks with captured frames (TPACKET_V3, Linux, `Documentation/networking/packet_mmap.rst`). The only
//! unsafe module of this crate.
//!
//! In: an interface and a filter program. Out: frames with the kernel's times, as a capture file would have them: a
//! VLAN tag removed by the kernel is put back, and frames without an Ethernet header get a `LINKTYPE_LINUX_SLL2`
//! header.
#![allow(unsafe_code, reason = "a ring shared with the kernel")]

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::Time;
use firstbyte_passive::filter::{Begin, Filter};
use firstbyte_rings::{PacketSocket, RingMemory, hardware_type};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::SocketError;

/// Block size; the kernel hands over whole blocks. Large enough for the longest possible frame.
pub(super) const BLOCK_BYTES: usize = 512 * 1024;
/// The kernel hands over a partly filled block after this time, in milliseconds.
pub(super) const RETIRE_MS: u32 = 64;
/// Reserved space before each frame, for the headers put there.
const RESERVE: libc::c_uint = 32;
/// A VLAN tag's size, and its offset in an Ethernet header.
const TAG_BYTES: usize = 4;
const TAG_AT: usize = 12;
/// Length of the `LINKTYPE_LINUX_SLL2` header.
const COOKED_BYTES: usize = 20;
const ETHERNET: LinkType = LinkType(1);
const LINUX_SLL2: LinkType = LinkType(276);

/// Configuration of a ring.
pub(super) struct Wanted<'a> {
    /// Index of the interface; `None` means all interfaces.
    pub(super) interface: Option<u32>,
    pub(super) filter: &'a Filter,
    pub(super) snaplen: u32,
    pub(super) buffer_bytes: usize,
    pub(super) promiscuous: bool,
}

/// A step that the kernel refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) step: &'static str,
    pub(super) error: Errno,
}

fn refused(step: &'static str) -> impl Fn(Errno) -> Refused {
    move |error| Refused { step, error }
}

/// A packet socket with its ring.
#[derive(Debug)]
pub(super) struct Ring {
    ring: RingMemory,
    blocks: usize,
    next: usize,
    hardware: u16,
    cooked: bool,
}

impl Ring {
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Self, Refused> {
        let asked = wanted.interface.map(hardware_type).transpose();
        let hardware = asked.map_err(refused("ask what kind of interface it is"))?.unwrap_or(0);
        let cooked = !matches!(hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        let socket = PacketSocket::open(!cooked).map_err(refused("open a packet socket"))?;
        socket.ask_for_times().map_err(refused("ask for the kernel's times"))?;
        if hardware == libc::ARPHRD_LOOPBACK {
            socket.ignore_outgoing().map_err(refused("leave out outgoing packets"))?;
        }
        socket.attach(&mut program(wanted, cooked)).map_err(refused("attach the filter"))?;
        socket.choose_blocks(RESERVE).map_err(refused("choose TPACKET_V3"))?;
        if let (Some(interface), true) = (wanted.interface, wanted.promiscuous) {
            socket.be_promiscuous(interface).map_err(refused("switch on promiscuous mode"))?;
        }
        let blocks = (wanted.buffer_bytes / BLOCK_BYTES).max(2);
        let ring = socket.map_blocks(BLOCK_BYTES, blocks, RETIRE_MS);
        let ring = ring.map_err(refused("make the buffer"))?;
        // Bind last, so that nothing is received before the filter and the ring are set up.
        ring.receive_from(wanted.interface.unwrap_or(0))
            .map_err(refused("bind to the interface"))?;
        Ok(Self { ring, blocks, next: 0, hardware, cooked })
    }

    pub(super) const fn is_loopback(&self) -> bool {
        self.hardware == libc::ARPHRD_LOOPBACK
    }

    pub(super) const fn is_cooked(&self) -> bool {
        self.cooked
    }

    /// Passes the frames of the next block to `each` and returns the block to the kernel. Returns the time of its last
    /// frame, or `None` if the kernel has not handed over a block.
    pub(super) fn next_block(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> Option<Time> {
        let offset = self.next * BLOCK_BYTES;
        // SAFETY: `next` is below `blocks`, so that the block lies within the mapping, which lives as long
        // as `self` and is page aligned.
        let start = unsafe { self.ring.start().add(offset) };
        let described = start.cast::<libc::tpacket_block_desc>().as_ptr();
        // SAFETY: a block begins with its description, in which the status is an aligned u32 that the kernel
        // and we access atomically.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*described).hdr.bh1.block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the kernel has filled the block, and does not touch it until we return the
        // status below; `bh1` is the only form of a description that exists.
        let header = unsafe { (*described).hdr.bh1 };
        let mut last = Time::default();
        let mut at = header.offset_to_first_pkt as usize;
        for _ in 0..header.num_pkts {
            if at + size_of::<libc::tpacket3_hdr>() > BLOCK_BYTES {
                break;
            }
            // SAFETY: the block is ours (above) and the header is within it; the kernel aligns headers.
            let frame = unsafe { self.frame(start.add(at)) };
            let Some((frame, next)) = frame else { break };
            if let Some(frame) = &frame {
                last = frame.at.unwrap_or(last);
                each(frame);
            }
            at += next;
        }
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        Some(last)
    }

    /// Returns the frame behind a header, with its removed headers restored, and the offset of the next header. The
    /// frame is `None` if it is the outgoing copy of a packet on a loopback device.
    ///
    /// # Safety
    /// `header` points to a `tpacket3_hdr` that the kernel wrote, in a block that we own for now.
    unsafe fn frame(&self, header: NonNull<u8>) -> Option<(Option<Frame<'_>>, usize)> {
        // SAFETY: this function's contract.
        let head = unsafe { header.cast::<libc::tpacket3_hdr>().as_ref() };
        let next = head.tp_next_offset as usize;
        let begin = header.as_ptr() as usize - self.ring.start().as_ptr() as usize;
        let (mac, kept) = (usize::from(head.tp_mac), head.tp_snaplen as usize);
        let room = BLOCK_BYTES - begin % BLOCK_BYTES;
        if mac < RESERVE as usize || mac + kept > room {
            return None;
        }
        let address_at = size_of::<libc::tpacket3_hdr>().next_multiple_of(16);
        // SAFETY: a `sockaddr_ll` stands between header and frame, aligned to 16 as TPACKET_ALIGN says.
        let address = unsafe { &*header.as_ptr().add(address_at).cast::<libc::sockaddr_ll>() };
        if address.sll_pkttype == libc::PACKET_OUTGOING
            && address.sll_hatype == libc::ARPHRD_LOOPBACK
        {
            return Some((None, next));
        }
        let tagged = head.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        let added = match self.cooked {
            true => COOKED_BYTES,
            false if tagged && kept >= TAG_AT => TAG_BYTES,
            false => 0,
        };
        // SAFETY: we asked for RESERVE bytes of room before the frame, more than are added, and the frame with them is
        // within the block (above), which nobody else accesses.
        let bytes = unsafe {
            let start = header.as_ptr().add(mac - added);
            std::slice::from_raw_parts_mut(start, kept + added)
        };
        if self.cooked {
            bytes[..COOKED_BYTES].copy_from_slice(&cooked_header(address));
        } else if added > 0 {
            let has_type = head.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let kind = if has_type { head.hv1.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
            bytes.copy_within(TAG_BYTES..TAG_BYTES + TAG_AT, 0);
            bytes[TAG_AT..TAG_AT + 2].copy_from_slice(&kind.to_be_bytes());
            let control = head.hv1.tp_vlan_tci as u16;
            bytes[TAG_AT + 2..TAG_AT + 4].copy_from_slice(&control.to_be_bytes());
        }
        let at = i64::from(head.tp_sec) * 1_000_000_000 + i64::from(head.tp_nsec);
        let frame = Frame {
            at: Some(Time::from_unix_ns(at)),
            link: if self.cooked { LINUX_SLL2 } else { ETHERNET },
            captured: bytes,
            wire_bytes: head.tp_len + added as u32,
        };
        Some((Some(frame), next))
    }

    /// Waits until a block is ready, or for `at_most_ms`.
    pub(super) fn wait(&self, at_most_ms: u16) -> Result<(), Errno> {
        let mut fds = [PollFd::new(self.ring.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(at_most_ms)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        if fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
            let error = getsockopt(&self.ring, SocketError)?;
            if error != 0 {
                return Err(Errno::from_raw(error));
            }
        }
        Ok(())
    }

    /// Frames that passed the filter but found the ring full, since the last call.
    pub(super) fn take_drops(&self) -> Result<u64, Errno> {
        self.ring.take_drops()
    }
}

/// The filter program, which also truncates to the snap length.
fn program(wanted: &Wanted<'_>, cooked: bool) -> Vec<libc::sock_filter> {
    let begin = if cooked { Begin::Cooked } else { Begin::Ethernet };
    let program = wanted.filter.program(begin, wanted.snaplen).into_iter();
    program
        .map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k })
        .collect()
}

/// A `LINKTYPE_LINUX_SLL2` header: protocol, interface, device type, direction, sender's address.
fn cooked_header(address: &libc::sockaddr_ll) -> [u8; COOKED_BYTES] {
    let mut header = [0; COOKED_BYTES];
    // Already in network byte order.
    header[..2].copy_from_slice(&address.sll_protocol.to_ne_bytes());
    header[4..8].copy_from_slice(&address.sll_ifindex.to_be_bytes());
    header[8..10].copy_from_slice(&address.sll_hatype.to_be_bytes());
    header[10] = address.sll_pkttype;
    header[11] = address.sll_halen;
    header[12..].copy_from_slice(&address.sll_addr);
    header
}
