//! Upper limits of what is kept of a capture, whoever keeps it.

/// Upper limits of what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at once, of TCP and of QUIC each.
    pub connections: usize,
    /// Of these, TCP connections that did not get beyond the SYN exchange.
    pub half_open: usize,
    /// Silence after which a connection is given up, nanoseconds.
    pub idle_ns: i64,
    /// Bytes held for segments out of order and messages that are not whole yet, of TCP and of QUIC each.
    pub held_bytes: usize,
    /// Exchanges of a connection that are kept one by one.
    pub exchanges: usize,
    /// Parts that flows of TCP are divided among, by addresses and ports. Each has its share of the limits
    /// above; nothing else depends on how many there are, and nothing on how many threads follow them.
    pub shards: usize,
    /// Seed of the hashes; to be chosen at random where packets may be hostile.
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
