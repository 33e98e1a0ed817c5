//! Instrumented sockets: bytes in, bytes out, and when each of them left or arrived.
//!
//! `sys` is the only unsafe module; `tcp` connects, sends and receives; `recorder` turns what they
//! noted into the flights of a `Connection`.

mod recorder;
mod sys;
mod tcp;

pub use recorder::{Arrival, Recorder, SendId};
pub use tcp::{Bind, ConnectError, Connected, TcpStream, connect};
