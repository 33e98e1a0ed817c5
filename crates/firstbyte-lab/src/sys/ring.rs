//! A ring of received frames, one per slot (TPACKET_V2, `Documentation/networking/packet_mmap.rst`).
//!
//! A ring instead of `recvmsg`: an ordinary user cannot raise socket buffer limits, but may have rings of
//! any size. Checking for the next frame is only a memory read, which makes polling cheap.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use firstbyte_rings::{PacketSocket, RingMemory};

/// Size of a block. The kernel allocates each block as contiguous memory.
const BLOCK_BYTES: usize = 65_536;
/// Bytes before a frame in its slot: `tpacket2_hdr`, `sockaddr_ll`, alignment.
const SLOT_OVERHEAD: usize = 96;

/// Number and maximum length of a ring's frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingSize {
    /// Number of frames.
    pub(crate) frames: usize,
    /// Length of the longest frame in bytes, including the Ethernet header.
    pub(crate) frame_bytes: usize,
}

/// A packet socket bound to one interface.
#[derive(Debug)]
pub(crate) struct PacketRing {
    ring: RingMemory,
    slot_bytes: usize,
    slots: usize,
    next: usize,
}

/// A received frame, still in the ring; its slot is free again when this is dropped.
pub(crate) struct RingFrame<'a> {
    slot: &'a Slot,
    /// The frame from its Ethernet header on.
    pub(crate) bytes: &'a [u8],
    /// When the kernel saw it (CLOCK_REALTIME).
    pub(crate) realtime_ns: u64,
    /// Whether this host sent it.
    pub(crate) outgoing: bool,
}

/// The start of a slot. The rest is read through pointers once `status` says who owns the slot.
#[repr(C)]
struct Slot {
    status: AtomicU32,
}

impl PacketRing {
    /// Opens a ring on the interface with this index, in the calling thread's network namespace.
    ///
    /// With `own`, the ring also gets frames that this side sends, as a capture needs.
    pub(crate) fn open(interface: u32, size: RingSize, own: bool) -> nix::Result<Self> {
        let slot_bytes = (size.frame_bytes + SLOT_OVERHEAD).next_power_of_two().min(BLOCK_BYTES);
        let blocks = (size.frames * slot_bytes).div_ceil(BLOCK_BYTES);
        let slots = blocks * (BLOCK_BYTES / slot_bytes);
        let socket = PacketSocket::open(true)?;
        socket.ask_for_times()?;
        socket.choose_slots()?;
        if !own {
            socket.ignore_outgoing()?;
        }
        let ring = socket.map_slots(BLOCK_BYTES, blocks, slot_bytes)?;
        // Bound last, so that nothing is received before the ring exists.
        ring.receive_from(interface)?;
        Ok(Self { ring, slot_bytes, slots, next: 0 })
    }

    /// The oldest frame not yet seen, if there is one.
    pub(crate) fn next(&mut self) -> Option<RingFrame<'_>> {
        // SAFETY: `next` is below `slots`, so that the slot lies within the mapping, which is page
        // aligned and lives as long as `self`; a slot starts with a u32 that the kernel and we
        // access atomically.
        let slot: &Slot = unsafe { self.ring.start().add(self.offset()).cast().as_ref() };
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
        self.ring.send(frame)
    }

    /// Number of frames that found the ring full since the last call.
    pub(crate) fn take_drops(&self) -> u64 {
        self.ring.take_drops().unwrap_or(0)
    }

    fn offset(&self) -> usize {
        self.next * self.slot_bytes
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl Drop for RingFrame<'_> {
    fn drop(&mut self) {
        self.slot.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}
