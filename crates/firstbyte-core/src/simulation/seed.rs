//! Independent streams of random numbers.
//!
//! Users choose neighbouring seeds (1, 2, 3), and generators with neighbouring seeds may produce similar numbers. So
//! the start of each stream is a hash of its seed and its position.

/// Independent random decisions about one connection, each with its own stream.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Which packets to the server are lost.
    Up = 1,
    /// Which packets to the client are lost.
    Down,
    /// Phase of the kernels' timers within a tick.
    Timers,
    /// Phase of the QUIC server's clock within a millisecond.
    ServerClock,
    /// Connection IDs and the like.
    Identifiers,
    /// Which of the previously simulated connections a visitor gets.
    Table,
    /// Which datagrams are lost, by their number.
    Fate,
}

/// The random numbers of one stream of a connection.
pub fn random(seed: u64, stream: Stream) -> fastrand::Rng {
    fastrand::Rng::with_seed(derived(seed, stream as u64))
}

/// Derives a seed for item `number` from `seed`: different for every other pair.
pub fn derived(seed: u64, number: u64) -> u64 {
    mixed(mixed(seed).wrapping_add(mixed(number ^ 0x6a09_e667_f3bc_c909)))
}

/// The step of splitmix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, 2014): each bit of
/// the input affects about half of the output bits.
const fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Pair<'a> = &'a dyn Fn(u64) -> (f64, f64);

    /// Similarity of the first numbers of neighbouring seeds: their correlation is within chance, 4 standard errors.
    #[test]
    fn neighbouring_seeds_have_nothing_in_common() {
        const SEEDS: u64 = 20_000;
        let first = |seed: u64, stream| random(seed, stream).f64();
        let other_seed = |n: u64| (first(n, Stream::Up), first(n + 1, Stream::Up));
        let other_stream = |n: u64| (first(n, Stream::Up), first(n, Stream::Down));
        let other_number = |n: u64| {
            let of = |n| random(derived(7, n), Stream::Up).f64();
            (of(n), of(n + 1))
        };
        // Number n + 1 of one seed and number n of the next.
        let shifted = |n: u64| {
            let of = |seed, n| random(derived(seed, n), Stream::Up).f64();
            (of(1, n + 1), of(2, n))
        };
        let pairs: [(&str, Pair<'_>); 4] = [
            ("seed", &other_seed),
            ("stream", &other_stream),
            ("number", &other_number),
            ("shifted", &shifted),
        ];
        for (what, pair) in pairs {
            let products = (0..SEEDS).map(pair).map(|(a, b)| (a - 0.5) * (b - 0.5) * 12.0);
            let correlation = products.sum::<f64>() / SEEDS as f64;
            assert!(correlation.abs() < 4.0 / (SEEDS as f64).sqrt(), "{what}: {correlation}");
        }
    }
}
