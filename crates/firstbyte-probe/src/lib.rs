//! Measures connections: [`net`] has the sockets, [`probe`] visits, [`experiment`] visits in many ways.

pub mod experiment;
pub mod net;
pub mod probe;
