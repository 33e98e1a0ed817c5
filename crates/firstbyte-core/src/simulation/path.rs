//! A network path: its effect on packets, and how a sender fills it.

use std::time::Duration;

/// A network path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// From the client to the server.
    pub up: Link,
    /// From the server to the client.
    pub down: Link,
    /// TCP payload of a full segment, bytes: 1,448, which is Ethernet's 1,500 minus the headers of IPv4 and of TCP
    /// with timestamps, which Linux sends.
    pub mss: u32,
    /// Seed that decides which packets are lost.
    pub seed: u64,
}

impl Path {
    /// A path with half of `rtt` each way, no loss, and unlimited rate.
    pub fn with_rtt(rtt: Duration) -> Self {
        let up = Link { delay: rtt / 2, ..Link::default() };
        let down = Link { delay: rtt - rtt / 2, ..Link::default() };
        Self { up, down, mss: 1_448, seed: 0 }
    }

    /// Round trip of a small packet on the idle path, without serialisation.
    pub fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Sets the loss probability in both directions.
    pub fn lose(&mut self, probability: f64) {
        self.up.loss = probability;
        self.down.loss = probability;
    }
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Delay of every packet.
    pub delay: Duration,
    /// Bits per second of IP packets; unlimited if absent.
    pub rate: Option<u64>,
    /// Longest time that a packet queues at that rate before it is dropped.
    pub queue: Duration,
    /// Loss probability of each packet, independently.
    pub loss: f64,
    /// Largest extra delay of a packet, uniformly distributed; packets stay in order.
    pub jitter: Duration,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            rate: None,
            queue: Duration::from_millis(100),
            loss: 0.0,
            jitter: Duration::ZERO,
        }
    }
}

/// How a sender's congestion window grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CongestionControl {
    /// Linux's default: slow start with HyStart, then CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    Reno,
    /// BBR, version 1 as in Linux: paced from the first flight on.
    Bbr,
}

impl CongestionControl {
    /// All algorithms.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// Finds an algorithm by Linux's name for it.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }

    /// Linux's name for the algorithm.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}
