//! Properties of every visit, whatever the peer does and when; without sockets and without waiting.
//!
//! Peers are in memory (`peers`): state machines of rustls, h2 and quinn, or scripts. `visit` drives the steps of the
//! probe against them over a simulated path, on the runtime's paused clock, so times are exact.

mod close;
mod dialling;
mod early;
mod flights;
mod kept;
mod limits;
mod name_servers;
mod peers;
mod proxy;
mod quic;
mod segments;
mod visit;
