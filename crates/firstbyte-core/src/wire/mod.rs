//! Parses messages from bytes. Incremental, bounded in memory, never panics.

pub mod client_hello;
pub mod cursor;
pub mod frames;
pub mod http2;
pub mod quic;
pub mod tls;
