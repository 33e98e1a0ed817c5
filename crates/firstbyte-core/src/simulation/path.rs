//! A network path: what it does to packets, and how a sender fills it.

use std::time::Duration;

/// A network path.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// From the client to the server.
    pub up: Link,
    /// From the server to the client.
    pub down: Link,
    /// TCP payload of a full segment, bytes. Ethernet's 1,500 less the headers of IPv4 and TCP with
    /// timestamps, which Linux sends: 1,448.
    pub mss: u32,
    /// Decides which packets are lost.
    pub seed: u64,
}

impl Path {
    /// With half of `rtt` each way, nothing lost, and no limit to the rate.
    pub fn with_rtt(rtt: Duration) -> Self {
        let up = Link { delay: rtt / 2, ..Link::default() };
        let down = Link { delay: rtt - rtt / 2, ..Link::default() };
        Self { up, down, mss: 1_448, seed: 0 }
    }

    /// The round trip of a small packet on the idle path, serialisation apart.
    pub fn rtt(&self) -> Duration {
        self.up.delay + self.down.delay
    }

    /// Has packets get lost in both directions with this probability.
    pub fn lose(&mut self, probability: f64) {
        self.up.loss = probability;
        self.down.loss = probability;
    }
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Time that every packet takes.
    pub delay: Duration,
    /// Bits per second of IP packets; as much as comes, when absent.
    pub rate: Option<u64>,
    /// How long a packet may wait for its turn at that rate before it is dropped.
    pub queue: Duration,
    /// Probability with which a packet is lost, each by itself.
    pub loss: f64,
    /// So much longer a packet may take, uniformly; their order is kept.
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
    /// All there are.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::Reno, Self::Bbr];

    /// The one that Linux calls so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }

    /// What Linux calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Reno => "reno",
            Self::Bbr => "bbr",
        }
    }
}
