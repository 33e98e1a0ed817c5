//! Instrumented sockets: bytes in, bytes out, and when each of them left or arrived.
//!
//! `sys` is the only unsafe module. `socket` defines what a socket reports, whether the kernel's or a simulated one;
//! `tcp` and `udp` connect, send and receive over it. `recorder` turns the recorded events into the flights of a
//! `Connection`. `order` decides which stamps are arrival times of readable bytes; `segments` counts segments. `syn`
//! observes SYNs if the process may look at packets.

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
