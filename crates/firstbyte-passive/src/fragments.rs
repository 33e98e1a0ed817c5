//! Reassembles IP fragments (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! In: fragments. Out: the datagram, when its last fragment arrives. The number of datagrams at once is bounded, and so
//! is their length, by the largest possible datagram. Overlapping fragments are refused, as RFC 5722 requires.

use super::Time;
use super::layers::{Endpoint, Fragment};

const MOST: usize = 64;
const LONGEST: usize = 65_535;
/// Most fragments of a datagram: the largest one has fewer, even at the smallest MTU in use.
const PIECES: usize = 128;
/// As long as hosts wait (RFC 8200 §4.5).
const PATIENCE_NS: i64 = 60_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Fragments {
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    of: (Endpoint, Endpoint, u32, u8),
    began: Time,
    bytes: Vec<u8>,
    /// Start and end of each fragment, sorted.
    pieces: Vec<(usize, usize)>,
    end: Option<usize>,
    /// Number of bytes received.
    there: usize,
}

impl Fragments {
    /// Adds a fragment. Returns the datagram if this completes it.
    pub(super) fn add(&mut self, at: Time, fragment: &Fragment<'_>) -> Option<Vec<u8>> {
        let payload = fragment.payload;
        if payload.captured.len() != payload.bytes as usize {
            return None;
        }
        let of =
            (fragment.source, fragment.destination, fragment.identification, fragment.protocol);
        self.pending.retain(|p| at.signed_since(p.began) < PATIENCE_NS);
        let place = match self.pending.iter().position(|p| p.of == of) {
            Some(place) => place,
            None => {
                if self.pending.len() == MOST {
                    self.pending.remove(0);
                }
                let (bytes, pieces) = (Vec::new(), Vec::new());
                self.pending.push(Pending { of, began: at, bytes, pieces, end: None, there: 0 });
                self.pending.len() - 1
            }
        };
        match self.pending[place].add(fragment) {
            Added::More => None,
            Added::Whole => Some(self.pending.swap_remove(place).bytes),
            Added::Bad => {
                self.pending.swap_remove(place);
                None
            }
        }
    }
}

enum Added {
    More,
    Whole,
    Bad,
}

impl Pending {
    fn add(&mut self, fragment: &Fragment<'_>) -> Added {
        let start = fragment.offset as usize;
        let end = start + fragment.payload.captured.len();
        if end > LONGEST || end == start {
            return Added::Bad;
        }
        let place = self.pieces.partition_point(|piece| piece.0 < start);
        if self.pieces.get(place) == Some(&(start, end)) {
            return Added::More;
        }
        let overlaps = place > 0 && self.pieces[place - 1].1 > start
            || self.pieces.get(place).is_some_and(|next| next.0 < end);
        let behind = self.pieces.last().is_some_and(|last| last.1 > end);
        let beyond =
            self.end.is_some_and(|last| end > last || !fragment.more) || !fragment.more && behind;
        if overlaps || beyond || self.pieces.len() == PIECES {
            return Added::Bad;
        }
        if !fragment.more {
            self.end = Some(end);
        }
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[start..end].copy_from_slice(fragment.payload.captured);
        self.pieces.insert(place, (start, end));
        self.there += end - start;
        // Fragments do not overlap, so an equal number of bytes means that all are there.
        if self.end == Some(self.there) { Added::Whole } else { Added::More }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::layers::Payload;
    use super::*;

    /// Length of the datagram reassembled from pieces (offset, length, whether more follow).
    fn whole(pieces: &[(u32, usize, bool)]) -> Option<usize> {
        let end = Endpoint::new(Ipv4Addr::LOCALHOST.into(), 0);
        let mut fragments = Fragments::default();
        let bytes = [7; 2_000];
        let add = |(offset, length, more): &(u32, usize, bool)| {
            let payload = Payload { captured: &bytes[..*length], bytes: *length as u32 };
            let fragment = Fragment {
                source: end,
                destination: end,
                identification: 1,
                protocol: 17,
                offset: *offset,
                more: *more,
                payload,
            };
            fragments.add(Time::default(), &fragment)
        };
        pieces.iter().filter_map(add).map(|whole| whole.len()).next()
    }

    #[test]
    fn pieces_make_a_whole_in_any_order_and_only_without_holes() {
        assert_eq!(whole(&[(0, 800, true), (800, 100, false)]), Some(900));
        assert_eq!(whole(&[(800, 100, false), (0, 800, true)]), Some(900));
        assert_eq!(whole(&[(0, 800, true), (0, 800, true), (800, 100, false)]), Some(900));
        assert_eq!(whole(&[(0, 400, true), (800, 100, false)]), None);
        // The right number of bytes, but some of them after the end.
        assert_eq!(whole(&[(24, 8, true), (8, 8, false)]), None);
        assert_eq!(whole(&[(0, 800, true), (792, 100, false)]), None);
    }

    #[test]
    fn many_small_pieces_are_no_datagram() {
        let pieces = |many: u32| -> Vec<(u32, usize, bool)> {
            (0..many).map(|n| (n * 8, 8, n + 1 < many)).collect()
        };
        assert_eq!(whole(&pieces(128)), Some(1_024));
        assert_eq!(whole(&pieces(129)), None);
    }
}
