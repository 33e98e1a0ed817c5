//! An AF_PACKET socket with a ring of received frames in shared memory (TPACKET_V2,
//! `Documentation/networking/packet_mmap.rst`).
//!
//! A ring instead of `recvmsg`: an ordinary user cannot raise socket buffer limits, but may have
//! rings of any size; and looking for the next frame is a memory read, which makes polling cheap.

use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

/// Size of a block, of which the kernel allocates each as contiguous memory.
const BLOCK_BYTES: usize = 65_536;
/// What precedes a frame in its slot: `tpacket2_hdr`, `sockaddr_ll`, alignment.
const SLOT_OVERHEAD: usize = 96;
/// `PACKET_IGNORE_OUTGOING` of `linux/if_packet.h`, Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// `TPACKET_V2` of `enum tpacket_versions` there.
const TPACKET_V2: libc::c_int = 1;

/// How many frames a ring holds, and how long they may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSize {
    /// Frames.
    pub(crate) frames: usize,
    /// Bytes of the longest frame, Ethernet header included.
    pub(crate) frame_bytes: usize,
}

/// A packet socket bound to one interface.
#[derive(Debug)]
pub(crate) struct PacketRing {
    socket: OwnedFd,
    memory: NonNull<libc::c_void>,
    length: NonZeroUsize,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

/// A received frame, still in the ring; its slot is free again when this is dropped.
pub(crate) struct RingFrame<'a> {
    slot: &'a Slot,
    /// The frame from its Ethernet header on.
    pub(crate) bytes: &'a [u8],
    /// When the kernel saw it, CLOCK_REALTIME.
    pub(crate) realtime_ns: u64,
    /// Whether this host sent it.
    pub(crate) outgoing: bool,
}

/// The start of a slot; the rest of it is read through pointers once `status` says whose it is.
#[repr(C)]
struct Slot {
    status: AtomicU32,
}

// SAFETY: the mapping belongs to this value alone and is not tied to the thread that made it.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Opens a ring on the interface of this index in the calling thread's network namespace.
    ///
    /// With `own` the frames that this side sends are in it too, as a capture wants.
    pub(crate) fn open(interface: u32, size: RingSize, own: bool) -> nix::Result<Self> {
        let slot_bytes = (size.frame_bytes + SLOT_OVERHEAD).next_power_of_two().min(BLOCK_BYTES);
        let blocks = (size.frames * slot_bytes).div_ceil(BLOCK_BYTES);
        let slots = blocks * (BLOCK_BYTES / slot_bytes);
        let length = NonZeroUsize::new(blocks * BLOCK_BYTES).ok_or(Errno::EINVAL)?;

        let socket = socket(AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, None)?;
        set_option(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1_i32)?;
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &TPACKET_V2)?;
        if !own {
            set_option(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1_i32)?;
        }
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: slots as u32,
        };
        set_option(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new shared mapping at an address of the kernel's choosing aliases nothing; its
        // length is the one that the ring was just given.
        let memory = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &socket, 0) }?;
        let ring = Self { socket, memory, length, slot_bytes, slots, next: 0 };
        // Bound last: nothing is received before the ring is there.
        ring.bind(interface)?;
        Ok(ring)
    }

    /// The oldest frame not yet seen, if there is one.
    pub(crate) fn next(&mut self) -> Option<RingFrame<'_>> {
        // SAFETY: `next` is below `slots`, so that the slot lies within the mapping, which is page
        // aligned and lives as long as `self`; a slot starts with a u32 that the kernel and we
        // access atomically.
        let slot: &Slot = unsafe { self.memory.cast::<u8>().add(self.offset()).cast().as_ref() };
        if slot.status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.next = (self.next + 1) % self.slots;
        let start = (&raw const *slot).cast::<u8>();
        // SAFETY: the status says that the kernel has filled the slot and leaves it alone until
        // `RingFrame` is dropped: a `tpacket2_hdr`, then at its aligned end a `sockaddr_ll`, and at
        // `tp_mac` a frame of `tp_snaplen` bytes, all within the slot.
        unsafe {
            let header = &*start.cast::<libc::tpacket2_hdr>();
            let address_at = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
            let address = &*start.add(address_at).cast::<libc::sockaddr_ll>();
            let data = start.add(usize::from(header.tp_mac));
            Some(RingFrame {
                slot,
                bytes: std::slice::from_raw_parts(data, header.tp_snaplen as usize),
                realtime_ns: u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec),
                outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            })
        }
    }

    /// Sends a frame out of the interface.
    pub(crate) fn send(&self, frame: &[u8]) -> nix::Result<()> {
        // SAFETY: the buffer is valid for its length during the call.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        Errno::result(sent).map(drop)
    }

    /// How many frames found the ring full since this was last asked.
    pub(crate) fn take_drops(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: PACKET_STATISTICS of a TPACKET_V2 socket writes a `tpacket_stats`; the length
        // given is its size.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        if result == 0 { u64::from(stats.tp_drops) } else { 0 }
    }

    fn offset(&self) -> usize {
        self.next * self.slot_bytes
    }

    fn bind(&self, interface: u32) -> nix::Result<()> {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll`: it consists of integers.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        // SAFETY: the address and its length belong together and outlive the call.
        let result = unsafe {
            libc::bind(
                self.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop)
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `open`; frames borrow `self` and are gone.
        let _ = unsafe { munmap(self.memory, self.length.get()) };
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for RingFrame<'_> {
    fn drop(&mut self) {
        self.slot.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

fn set_option<T>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> nix::Result<()> {
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
