//! Measures connections: [`net`] provides the sockets, [`probe`] makes visits, [`experiment`] makes visits in many
//! ways.

pub mod experiment;
pub mod net;
pub mod probe;
