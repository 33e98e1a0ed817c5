//! Packet sockets (AF_PACKET) and the memory of their rings, for live captures and the lab's forwarder
//! (`Documentation/networking/packet_mmap.rst`). Linux only; elsewhere the crate is empty.
//!
//! A new socket receives nothing. The caller sets its options, its filter and its ring, and binds it last, so nothing
//! is received before all of these are in place. Each caller reads its ring by itself, because their needs differ. The
//! lab polls for each single frame, which must be forwarded at once (TPACKET_V2, one slot per frame). A capture wants
//! many frames for each poll and system call (TPACKET_V3, blocks).

#[cfg(target_os = "linux")]
mod sys;

#[cfg(target_os = "linux")]
pub use sys::{PacketSocket, RingMemory, hardware_type};
