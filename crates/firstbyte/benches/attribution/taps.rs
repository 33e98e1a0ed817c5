//! The passive reader's results at three taps: at the client, half-way, and at the server.
//!
//! There is no device half-way: the captures of both ends are merged as a reader in the middle of each packet's way
//! would see them. Of the lost packets, every second one gets as far as the middle.

use std::collections::HashMap;
use std::net::IpAddr;

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::{Analyzer, Limits, Observed, Time};
use firstbyte_truth::End;

use crate::packets::{Flows, Kept, Key};

const ETHERNET: LinkType = LinkType(1);

/// Position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tap {
    Client,
    HalfWay,
    Server,
}

impl Tap {
    pub(crate) const ALL: [Self; 3] = [Self::Client, Self::HalfWay, Self::Server];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::HalfWay => "half-way",
            Self::Server => "server",
        }
    }
}

/// The reader's results at all three taps.
pub(crate) struct Taps {
    seen: [HashMap<Key, Vec<Observed>>; 3],
}

impl Taps {
    /// Reads the captures at the client and at one server.
    pub(crate) fn from_flows(client: &Flows, server: &Flows) -> Self {
        let both = |kept: &&Kept| server.packets.contains_key(&kept.key);
        let here: Vec<&Kept> = client.frames.iter().filter(both).collect();
        let far: Vec<&Kept> = server.frames.iter().collect();
        let half = half_way(&here, &far);
        let timed =
            |kept: &[&Kept]| read(kept.iter().map(|kept| (kept.packet.at, &kept.bytes[..])));
        let seen = [timed(&here), read(half.into_iter()), timed(&far)];
        Self { seen }
    }

    /// The result at `tap` for the connection that began at about `at`.
    pub(crate) fn said(&self, tap: Tap, key: &Key, at: i64) -> Option<&Observed> {
        let of = self.seen[tap as usize].get(key)?;
        of.iter().min_by_key(|seen| (seen.started.unix_ns() - at).abs())
    }
}

/// Frames with the times at which they pass the middle of the path, in order.
fn half_way<'a>(client: &[&'a Kept], server: &[&'a Kept]) -> Vec<(i64, &'a [u8])> {
    let times = |kept: &[&Kept], from: End| -> HashMap<(Key, u64), i64> {
        let arrived = kept.iter().filter(|kept| kept.packet.from == from);
        arrived.map(|kept| ((kept.key, kept.packet.id), kept.packet.at)).collect()
    };
    let mut frames: Vec<(i64, &[u8])> = Vec::new();
    for (from, sent, arrivals) in [
        (End::Client, client, times(server, End::Client)),
        (End::Server, server, times(client, End::Server)),
    ] {
        let mut way = 0;
        for kept in sent.iter().filter(|kept| kept.packet.from == from) {
            match arrivals.get(&(kept.key, kept.packet.id)) {
                Some(arrived) => way = arrived - kept.packet.at,
                // Lost before the middle, or after it; then the delay is that of the packet before.
                None if kept.packet.id % 2 == 0 => continue,
                None => {}
            }
            frames.push((kept.packet.at + way / 2, &kept.bytes));
        }
    }
    frames.sort_by_key(|(at, _)| *at);
    frames
}

fn read<'a>(frames: impl Iterator<Item = (i64, &'a [u8])>) -> HashMap<Key, Vec<Observed>> {
    let mut analyzer = Analyzer::new(Limits::default());
    let mut seen: HashMap<Key, Vec<Observed>> = HashMap::new();
    let mut emit = |observed: &Observed| {
        let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
        if let IpAddr::V4(server) = server.ip() {
            let key = (server.octets(), client.port(), observed.quic.is_none());
            seen.entry(key).or_default().push(observed.clone());
        }
    };
    for (at, bytes) in frames {
        let frame = Frame {
            at: Some(Time::from_unix_ns(at)),
            link: ETHERNET,
            captured: bytes,
            wire_bytes: bytes.len() as u32,
        };
        analyzer.frame(&frame, &mut emit);
    }
    analyzer.finish(&mut emit);
    seen
}
