//! Limits of the state kept for one capture.

/// Limits of the state kept in memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections in progress, for TCP and QUIC each.
    pub connections: usize,
    /// Of these, TCP connections that have not got beyond the SYN exchange.
    pub half_open: usize,
    /// Silence after which a connection is dropped, nanoseconds.
    pub idle_ns: i64,
    /// Bytes buffered for out-of-order segments and incomplete messages, for TCP and QUIC each.
    pub held_bytes: usize,
    /// Exchanges kept per connection.
    pub exchanges: usize,
    /// Number of shards for TCP flows, by addresses and ports. Each has its share of the limits above. Apart from
    /// these, the results depend neither on this number nor on the number of threads.
    pub shards: usize,
    /// Seed of the hashes; choose it at random if packets may be hostile.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1 << 18,
            half_open: 1 << 15,
            idle_ns: 300_000_000_000,
            held_bytes: 32 << 20,
            exchanges: 8,
            shards: 8,
            seed: 0x5851_f42d_4c95_7f2d,
        }
    }
}
