//! System calls of packet sockets as safe functions, and the memory mapping of a ring.
#![allow(
    unsafe_code,
    reason = "socket options that no safe crate has, memory shared with the kernel"
)]

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// `PACKET_IGNORE_OUTGOING` of `linux/if_packet.h`, Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `enum tpacket_versions` of `linux/if_packet.h`.
const TPACKET_V2: libc::c_int = 1;
const TPACKET_V3: libc::c_int = 2;

/// A packet socket without a ring.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Opens a socket that receives nothing until it is bound. Frames are whole, or without their link headers.
    ///
    /// # Errors
    /// Missing privilege (`CAP_NET_RAW`).
    pub fn open(link_headers: bool) -> nix::Result<Self> {
        let kind = if link_headers { SockType::Raw } else { SockType::Datagram };
        // Without a protocol the socket receives nothing until `bind` names one.
        socket(AddressFamily::Packet, kind, SockFlag::SOCK_CLOEXEC, None).map(Self)
    }

    /// Enables kernel timestamps, in nanoseconds.
    ///
    /// # Errors
    /// The system's error.
    pub fn ask_for_times(&self) -> nix::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)
    }

    /// Ignores packets sent by this host.
    ///
    /// # Errors
    /// The system's error.
    pub fn ignore_outgoing(&self) -> nix::Result<()> {
        self.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)
    }

    /// Attaches a filter program.
    ///
    /// # Errors
    /// The kernel rejects the program.
    pub fn attach(&self, program: &mut [libc::sock_filter]) -> nix::Result<()> {
        let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::EINVAL)?;
        let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// Receives everything that passes `interface`, whatever its destination.
    ///
    /// # Errors
    /// The system's error.
    pub fn be_promiscuous(&self, interface: u32) -> nix::Result<()> {
        let membership = libc::packet_mreq {
            mr_ifindex: interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
    }

    /// Selects a ring of slots, one per frame (TPACKET_V2).
    ///
    /// # Errors
    /// The system's error.
    pub fn choose_slots(&self) -> nix::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)
    }

    /// Selects a ring of blocks (TPACKET_V3), with `reserve` bytes of room before each frame.
    ///
    /// # Errors
    /// The system's error.
    pub fn choose_blocks(&self, reserve: libc::c_uint) -> nix::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V3)?;
        self.set(libc::SOL_PACKET, libc::PACKET_RESERVE, &reserve)
    }

    /// Creates the selected ring of slots: `blocks` of `block_bytes` contiguous memory, in slots of `slot_bytes`.
    ///
    /// # Errors
    /// Sizes that the kernel does not accept, or too little memory.
    pub fn map_slots(
        self,
        block_bytes: usize,
        blocks: usize,
        slot_bytes: usize,
    ) -> nix::Result<RingMemory> {
        let slots = blocks * (block_bytes / slot_bytes);
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        self.map(block_bytes * blocks)
    }

    /// Creates the selected ring of blocks. The kernel hands over a partly filled block after `retire_ms`.
    ///
    /// # Errors
    /// As [`Self::map_slots`].
    pub fn map_blocks(
        self,
        block_bytes: usize,
        blocks: usize,
        retire_ms: u32,
    ) -> nix::Result<RingMemory> {
        // Meaningless in this version, but the kernel checks it.
        const FRAME_BYTES: usize = 2048;
        let request = libc::tpacket_req3 {
            tp_block_size: block_bytes as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME_BYTES as u32,
            tp_frame_nr: (block_bytes * blocks / FRAME_BYTES) as u32,
            tp_retire_blk_tov: retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        self.map(block_bytes * blocks)
    }

    fn map(self, bytes: usize) -> nix::Result<RingMemory> {
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choosing aliases nothing; its length is the length
        // that the ring was just given.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &self.0, 0) }?;
        Ok(RingMemory { socket: self, memory: memory.cast(), length })
    }

    fn bind(&self, interface: u32, protocol: u16) -> nix::Result<()> {
        let address = link_address(interface, protocol);
        // SAFETY: the address and its length belong together and outlive the call.
        let result = unsafe {
            libc::bind(
                self.0.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop)
    }

    fn set<T>(&self, level: libc::c_int, option: libc::c_int, value: &T) -> nix::Result<()> {
        // SAFETY: pointer and length describe `value`, which outlives the call; the callers above pass
        // the type that each option is defined with.
        let result = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop)
    }
}

/// Device type of an interface (`ARPHRD_…` of `linux/if_arp.h`).
///
/// # Errors
/// Missing privilege, or no such interface.
pub fn hardware_type(interface: u32) -> nix::Result<u16> {
    let socket = PacketSocket::open(true)?;
    socket.bind(interface, 0)?;
    let mut address = link_address(0, 0);
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address of a packet socket is a `sockaddr_ll`, whose size is the length given.
    let result = unsafe {
        libc::getsockname(socket.0.as_raw_fd(), (&raw mut address).cast(), &raw mut length)
    };
    Errno::result(result)?;
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

/// A packet socket with the memory of its ring. The contents are for the caller to read.
#[derive(Debug)]
pub struct RingMemory {
    socket: PacketSocket,
    memory: NonNull<u8>,
    length: NonZeroUsize,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for RingMemory {}

impl RingMemory {
    /// Starts to receive the packets of `interface`; 0 means all interfaces.
    ///
    /// # Errors
    /// No such interface, or it is down.
    pub fn receive_from(&self, interface: u32) -> nix::Result<()> {
        self.socket.bind(interface, libc::ETH_P_ALL as u16)
    }

    /// Start of the memory, page aligned; mapped as long as this value lives.
    pub const fn start(&self) -> NonNull<u8> {
        self.memory
    }

    /// Number of frames that passed the filter but found the ring full since the last call.
    ///
    /// # Errors
    /// The interface went away.
    pub fn take_drops(&self) -> nix::Result<u64> {
        // TPACKET_V3's structure begins with the same fields, and the kernel returns only as much as fits.
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: PACKET_STATISTICS writes at most `length` bytes, which is the size of `counts`.
        let result = unsafe {
            libc::getsockopt(
                self.socket.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut length,
            )
        };
        Errno::result(result)?;
        Ok(counts.tp_drops.into())
    }

    /// Sends a frame from the interface that the socket receives from.
    ///
    /// # Errors
    /// The system's error.
    pub fn send(&self, frame: &[u8]) -> nix::Result<()> {
        // SAFETY: the buffer is valid for its length during the call.
        let sent =
            unsafe { libc::send(self.socket.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        Errno::result(sent).map(drop)
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`; borrows of it end with this value.
        let _ = unsafe { munmap(self.memory.cast(), self.length.get()) };
    }
}

impl AsFd for RingMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}
