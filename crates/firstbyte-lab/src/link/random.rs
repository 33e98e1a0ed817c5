//! SplitMix64 (Steele, Lea, Flood 2014): a small generator whose sequence will never change. A lab run that
//! must be repeatable by its seed depends on that.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// The stream with this name and seed.
    pub(super) fn new(seed: u64, stream: &str) -> Self {
        // FNV-1a, to spread names over the state space.
        let hash = stream.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut random = Self { state: seed };
        random.state = random.next() ^ hash;
        random
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference values of `splitmix64.c` for seed 1234567.
    #[test]
    fn follows_the_reference() {
        let mut random = Random { state: 1_234_567 };
        assert_eq!(random.next(), 6_457_827_717_110_365_317);
        assert_eq!(random.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| Random::new(seed, stream).unit().to_bits();
        assert_eq!(draw(1, "london/up/ipv4"), draw(1, "london/up/ipv4"));
        assert_ne!(draw(1, "london/up/ipv4"), draw(1, "london/up/ipv6"));
        assert_ne!(draw(1, "london/up/ipv4"), draw(2, "london/up/ipv4"));
    }
}
