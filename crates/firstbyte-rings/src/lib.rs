//! Packet sockets (AF_PACKET) and the memory of their rings: what live captures and the lab's forwarder have in
//! common (`Documentation/networking/packet_mmap.rst`). Linux only; elsewhere the crate is empty.
//!
//! A socket is opened deaf, is given its options, its filter and its ring, and is bound last: nothing is received
//! before all that is there. What stands in the ring is read by who has asked for it, and differs with what they
//! need. The lab polls for the next single frame, which has to go on at once (TPACKET_V2, a slot a frame); a
//! capture wants many frames for one look and one system call (TPACKET_V3, blocks).

#[cfg(target_os = "linux")]
mod sys;

#[cfg(target_os = "linux")]
pub use sys::{PacketSocket, RingMemory, hardware_type};
