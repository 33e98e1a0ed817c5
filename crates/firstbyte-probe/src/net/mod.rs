//! Instrumented sockets: bytes in, bytes out, and when each of them left or arrived.
//!
//! `sys` is the only unsafe module; `socket` is what a socket says, the kernel's or a simulated one; `tcp` and `udp`
//! connect, send and receive over it; `recorder` turns what they noted into the flights of a `Connection`; `order` says
//! which stamps tell when bytes were there, `segments` how many segments they were; `syn` sees SYNs where the process
//! may look at packets.

mod order;
mod recorder;
mod segments;
#[cfg(test)]
pub(crate) mod simulated;
mod socket;
mod syn;
mod sys;
mod tcp;
mod udp;

pub use recorder::{Arrival, Place, Recorder, SegmentGaps, SendId};
pub use syn::SynWatch;
pub use tcp::{Bind, ConnectError, Connected, TcpStream, connect};
pub use udp::UdpSocket;
