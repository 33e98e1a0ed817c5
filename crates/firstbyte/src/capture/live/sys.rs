//! A packet socket whose frames are in a ring of blocks shared with the kernel (TPACKET_V3, Linux,
//! `Documentation/networking/packet_mmap.rst`). The only unsafe module here.
//!
//! In: an interface, a program that says what passes. Out: frames with the kernel's times, as a capture file
//! would have them: the VLAN tag that the kernel took out is put back, and without an Ethernet header a frame
//! begins with LINKTYPE_LINUX_SLL2's.
#![allow(unsafe_code, reason = "a ring shared with the kernel, socket options")]

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use firstbyte_core::passive::Time;
use firstbyte_core::passive::filter::{Begin, Filter};
use firstbyte_core::passive::pcap::{Frame, LinkType};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::sockopt::SocketError;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, getsockopt, socket};

/// A block; the kernel hands over whole ones. Holds the longest frame there is.
pub(super) const BLOCK_BYTES: usize = 512 * 1024;
/// A block that is not full is handed over after so long.
pub(super) const RETIRE_MS: u32 = 64;
/// Room before each frame, for what is put there.
const RESERVE: libc::c_uint = 32;
/// A VLAN tag, and where in an Ethernet header it stands.
const TAG_BYTES: usize = 4;
const TAG_AT: usize = 12;
/// LINKTYPE_LINUX_SLL2's header.
const COOKED_BYTES: usize = 20;
const ETHERNET: LinkType = LinkType(1);
const LINUX_SLL2: LinkType = LinkType(276);
/// `PACKET_IGNORE_OUTGOING` of `linux/if_packet.h`, Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `TPACKET_V3` of `enum tpacket_versions` there.
const TPACKET_V3: libc::c_int = 2;

/// What a ring is to be like.
pub(super) struct Wanted<'a> {
    /// Index of the interface; `None` is all of them.
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
    socket: OwnedFd,
    memory: NonNull<libc::c_void>,
    length: NonZeroUsize,
    blocks: usize,
    next: usize,
    hardware: u16,
    cooked: bool,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for Ring {}

impl Ring {
    pub(super) fn open(wanted: &Wanted<'_>) -> Result<Self, Refused> {
        let hardware = wanted.interface.map(hardware_type).transpose()?.unwrap_or(0);
        let cooked = !matches!(hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
        let kind = if cooked { SockType::Datagram } else { SockType::Raw };
        // Without a protocol nothing is received, until `bind` names one.
        let socket = packet_socket(kind)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
            .map_err(refused("ask for the kernel's times"))?;
        if hardware == libc::ARPHRD_LOOPBACK {
            set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)
                .map_err(refused("leave out outgoing packets"))?;
        }
        attach(&socket, wanted, cooked).map_err(refused("attach the filter"))?;
        let set_ring = |option, value: &libc::c_uint| set(&socket, libc::SOL_PACKET, option, value);
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)
            .and_then(|()| set_ring(libc::PACKET_RESERVE, &RESERVE))
            .map_err(refused("choose TPACKET_V3"))?;
        let blocks = (wanted.buffer_bytes / BLOCK_BYTES).max(2);
        let ring = Self::map(socket, blocks, hardware, cooked)?;
        if let (Some(interface), true) = (wanted.interface, wanted.promiscuous) {
            ring.be_promiscuous(interface).map_err(refused("switch on promiscuous mode"))?;
        }
        // Bound last: nothing is received before the filter and the ring are there.
        bind(&ring.socket, wanted.interface.unwrap_or(0), libc::ETH_P_ALL as u16)
            .map_err(refused("bind to the interface"))?;
        Ok(ring)
    }

    fn map(socket: OwnedFd, blocks: usize, hardware: u16, cooked: bool) -> Result<Self, Refused> {
        const FRAME_BYTES: usize = 2048;
        let bytes = blocks * BLOCK_BYTES;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (bytes / FRAME_BYTES) as u32,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        let step = refused("make the buffer");
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(&step)?;
        let length = NonZeroUsize::new(bytes).ok_or_else(|| step(Errno::EINVAL))?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choosing aliases nothing; its
        // length is the one that the ring was just given.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &socket, 0) };
        let memory = memory.map_err(step)?;
        Ok(Self { socket, memory, length, blocks, next: 0, hardware, cooked })
    }

    pub(super) const fn is_loopback(&self) -> bool {
        self.hardware == libc::ARPHRD_LOOPBACK
    }

    pub(super) const fn is_cooked(&self) -> bool {
        self.cooked
    }

    /// Gives the frames of the next block to `each` and the block back to the kernel. The time of its last
    /// frame, or `None` where the kernel has handed over no block.
    pub(super) fn next_block(&mut self, each: &mut dyn FnMut(&Frame<'_>)) -> Option<Time> {
        let offset = self.next * BLOCK_BYTES;
        // SAFETY: `next` is below `blocks`, so that the block lies within the mapping, which lives as long
        // as `self` and is page aligned.
        let start = unsafe { self.memory.cast::<u8>().add(offset) };
        let described = start.cast::<libc::tpacket_block_desc>().as_ptr();
        // SAFETY: a block begins with its description, in which the status is an aligned u32 that the kernel
        // and we access atomically.
        let status = unsafe { AtomicU32::from_ptr(&raw mut (*described).hdr.bh1.block_status) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the kernel has filled the block and leaves it alone until the status
        // is given back below; `bh1` is the only form of a description that there is.
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

    /// The frame behind a header, with what the kernel took from it put back, and how far the next header
    /// is. The frame is absent where it is the outgoing copy of one on a loopback device.
    ///
    /// # Safety
    /// `header` points to a `tpacket3_hdr` that the kernel wrote in a block that is ours meanwhile.
    unsafe fn frame(&self, header: NonNull<u8>) -> Option<(Option<Frame<'_>>, usize)> {
        // SAFETY: this function's contract.
        let head = unsafe { header.cast::<libc::tpacket3_hdr>().as_ref() };
        let next = head.tp_next_offset as usize;
        let begin = header.as_ptr() as usize - self.memory.as_ptr() as usize;
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
        // SAFETY: RESERVE bytes before the frame, more than are added, are room that was asked for, and
        // the frame with them is within the block (above), which nobody else looks at.
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

    /// Waits until there is a block.
    pub(super) fn wait(&self, at_most_ms: u16) -> Result<(), Errno> {
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::from(at_most_ms)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
        if fds[0].revents().is_some_and(|events| events.contains(PollFlags::POLLERR)) {
            let error = getsockopt(&self.socket, SocketError)?;
            if error != 0 {
                return Err(Errno::from_raw(error));
            }
        }
        Ok(())
    }

    /// Frames that passed the filter and found the ring full, since this was last asked.
    pub(super) fn take_drops(&self) -> Result<u64, Errno> {
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: PACKET_STATISTICS of a TPACKET_V3 socket writes a `tpacket_stats_v3`; the length given
        // is its size.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        Errno::result(result)?;
        Ok(counts.tp_drops.into())
    }

    fn be_promiscuous(&self, interface: u32) -> Result<(), Errno> {
        let membership = libc::packet_mreq {
            mr_ifindex: interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(&self.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; frames borrow `self` and are gone.
        let _ = unsafe { munmap(self.memory, self.length.get()) };
    }
}

fn packet_socket(kind: SockType) -> Result<OwnedFd, Refused> {
    socket(AddressFamily::Packet, kind, SockFlag::SOCK_CLOEXEC, None)
        .map_err(refused("open a packet socket"))
}

/// What kind of device an interface is (`ARPHRD_…` of `linux/if_arp.h`).
fn hardware_type(interface: u32) -> Result<u16, Refused> {
    let step = refused("ask what kind of interface it is");
    let socket = packet_socket(SockType::Raw)?;
    bind(&socket, interface, 0).map_err(&step)?;
    let mut address = link_address(0, 0);
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address of a packet socket is a `sockaddr_ll`, whose size is the length given.
    let result = unsafe {
        libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
    };
    Errno::result(result).map_err(step)?;
    Ok(address.sll_hatype)
}

const fn link_address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as libc::c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn bind(socket: &OwnedFd, interface: u32, protocol: u16) -> Result<(), Errno> {
    let address = link_address(interface, protocol);
    // SAFETY: the address and its length belong together and outlive the call.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}

/// Attaches the filter's program, which also cuts to the snap length.
fn attach(socket: &OwnedFd, wanted: &Wanted<'_>, cooked: bool) -> Result<(), Errno> {
    let begin = if cooked { Begin::Cooked } else { Begin::Ethernet };
    let program = wanted.filter.program(begin, wanted.snaplen);
    let mut program: Vec<libc::sock_filter> = program
        .into_iter()
        .map(|one| libc::sock_filter { code: one.code, jt: one.jt, jf: one.jf, k: one.k })
        .collect();
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// LINKTYPE_LINUX_SLL2: protocol, interface, kind of device, direction, sender's address.
fn cooked_header(address: &libc::sockaddr_ll) -> [u8; COOKED_BYTES] {
    let mut header = [0; COOKED_BYTES];
    // In the network's byte order already.
    header[..2].copy_from_slice(&address.sll_protocol.to_ne_bytes());
    header[4..8].copy_from_slice(&address.sll_ifindex.to_be_bytes());
    header[8..10].copy_from_slice(&address.sll_hatype.to_be_bytes());
    header[10] = address.sll_pkttype;
    header[11] = address.sll_halen;
    header[12..].copy_from_slice(&address.sll_addr);
    header
}

fn set<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    // SAFETY: pointer and length describe `value`, which outlives the call; the callers above pass
    // the type that each option is defined with.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}
