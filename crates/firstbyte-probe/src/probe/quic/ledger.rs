//! The contents of each datagram: the connection's own packets, seen in plaintext where its keys are used.
//!
//! Input: the plaintext of encrypted and decrypted packets (`tls::quic_keys`), and their datagrams. Output:
//! [`QuicDatagram`]s. The ledger tracks bytes of the handshake and of the exchange: which datagram has them first, and
//! since when they were missing.

use std::collections::BTreeMap;

use firstbyte_core::timeline::{Direction, Offset, QuicDatagram};
use firstbyte_core::wire::frames::Space;

use crate::net::{Place, Recorder};
use crate::probe::tls::{Opened, Piece};

/// Maximum number of datagrams recorded for an exchange.
const DATAGRAMS: usize = 512;

/// The origin of bytes: the handshake in a packet number space, or a stream.
type Lane = (Option<Space>, u64);

#[derive(Debug, Default)]
pub(super) struct Ledger {
    noted: Vec<Noted>,
    sent: BTreeMap<Lane, Vec<Left>>,
    received: BTreeMap<Lane, Ranges>,
    /// The largest packet number received in each space.
    largest: BTreeMap<Space, u64>,
}

#[derive(Debug)]
struct Noted {
    direction: Direction,
    place: Place,
    packets: Vec<(Space, u64)>,
    elicits: bool,
    new: bool,
    missing_since: Option<Place>,
    skipped: u64,
    acknowledged: Option<(Place, u64)>,
}

/// Bytes sent, and the datagram that had them.
#[derive(Clone, Copy, Debug)]
struct Left {
    from: u64,
    to: u64,
    place: Place,
}

/// Received ranges, in order and disjoint, each with its first datagram: that one revealed a hole before it.
#[derive(Debug, Default)]
struct Ranges(Vec<(u64, u64, Place)>);

impl Ledger {
    /// Starts over for another exchange on the open connection.
    pub(super) fn restart(&mut self) {
        self.noted.clear();
        self.sent.clear();
        self.received.clear();
    }

    /// Records a datagram with these packets; `exchange` is the request's stream. Returns whether the datagram has
    /// bytes of that stream for the first time.
    pub(super) fn note(
        &mut self,
        direction: Direction,
        place: Place,
        packets: &[Opened],
        exchange: Option<u64>,
    ) -> bool {
        let mut of_exchange = false;
        let mut noted = Noted {
            direction,
            place,
            packets: packets.iter().map(|packet| (packet.space, packet.number)).collect(),
            elicits: packets.iter().any(|packet| packet.elicits),
            new: false,
            missing_since: None,
            skipped: 0,
            acknowledged: None,
        };
        for packet in packets {
            for piece in &packet.pieces {
                let lane = match piece.stream {
                    Some(id) if Some(id) != exchange => continue,
                    // Nobody waits for session tickets.
                    None if packet.space == Space::Application => continue,
                    Some(id) => (None, id),
                    None => (Some(packet.space), 0),
                };
                let missing = match direction {
                    Direction::Sent => self.leaves(lane, *piece, place),
                    Direction::Received => self.comes(lane, *piece, place),
                };
                let Some(missing) = missing else { continue };
                let new = direction == Direction::Received || missing.is_none();
                noted.new |= new;
                of_exchange |= new && piece.stream.is_some();
                noted.missing_since = earlier(noted.missing_since, missing);
            }
            if direction == Direction::Received {
                let next = self.largest.get(&packet.space).map_or(0, |largest| largest + 1);
                noted.skipped += packet.number.saturating_sub(next);
                self.largest.insert(packet.space, packet.number.max(next.saturating_sub(1)));
                self.acknowledge(packet, place);
            }
        }
        // A datagram that could not be decrypted is not recorded.
        if self.noted.len() < DATAGRAMS && !packets.is_empty() {
            self.noted.push(noted);
        }
        of_exchange
    }

    /// Records a Retry, after which the client starts over.
    pub(super) fn retried(&mut self, place: Place) {
        self.sent.clear();
        self.noted.push(Noted {
            direction: Direction::Received,
            place,
            packets: Vec::new(),
            elicits: false,
            new: true,
            missing_since: None,
            skipped: 0,
            acknowledged: None,
        });
    }

    /// Records that the server rejected the early data: its bytes will be sent as if for the first time.
    pub(super) fn rejected(&mut self) {
        self.sent.retain(|(space, _), _| space.is_some());
    }

    /// Records sent bytes: `None` without bytes. The inner value is the previous send of the same bytes, if there was
    /// one.
    #[expect(
        clippy::option_option,
        reason = "two questions: are there any, and are they sent again"
    )]
    fn leaves(&mut self, lane: Lane, piece: Piece, place: Place) -> Option<Option<Place>> {
        (piece.end > piece.start).then_some(())?;
        let left = self.sent.entry(lane).or_default();
        let before = left.iter().find(|l| l.from <= piece.start && piece.start < l.to);
        let before = before.map(|left| left.place);
        left.push(Left { from: piece.start, to: piece.end, place });
        Some(before)
    }

    /// Records received bytes: `None` if all had arrived before. The inner value says since when a hole was visible, if
    /// they fill one.
    #[expect(clippy::option_option, reason = "two questions: are there any, and was there a hole")]
    fn comes(&mut self, lane: Lane, piece: Piece, place: Place) -> Option<Option<Place>> {
        self.received.entry(lane).or_default().add(piece, place)
    }

    fn acknowledge(&mut self, packet: &Opened, place: Place) {
        if packet.acknowledges.is_empty() {
            return;
        }
        let has = |(space, number): &(Space, u64)| {
            *space == packet.space
                && packet.acknowledges.iter().any(|(low, high)| (low..=high).contains(&number))
        };
        let largest = packet.acknowledges.iter().map(|(_, high)| *high).max();
        for noted in &mut self.noted {
            let open = noted.direction == Direction::Sent && noted.acknowledged.is_none();
            if open && noted.elicits && noted.packets.iter().any(has) {
                // The delay applies to the largest packet number (RFC 9000 §13.2.5).
                let is_largest = noted.packets.iter().any(|(_, number)| Some(*number) == largest);
                let delay = if is_largest { packet.delay } else { u64::MAX };
                noted.acknowledged = Some((place, delay));
            }
        }
    }

    /// The recorded datagrams, in order.
    pub(super) fn datagrams(&self, recorder: &Recorder) -> Vec<QuicDatagram> {
        /// The default exponent of peers that do not send another one (RFC 9000 §18.2).
        const EXPONENT: u32 = 3;
        let at = |place: Place| recorder.stamp_of(place).map(|stamp| stamp.at);
        let datagram = |noted: &Noted| {
            let acknowledged: Option<Offset> = noted.acknowledged.and_then(|(place, _)| at(place));
            let delay = noted.acknowledged.map(|(_, delay)| delay).filter(|d| *d < u64::MAX);
            Some(QuicDatagram {
                direction: noted.direction,
                at: at(noted.place)?,
                new: noted.new,
                elicits: noted.elicits,
                missing_since: noted.missing_since.and_then(at),
                skipped: u32::try_from(noted.skipped).unwrap_or(u32::MAX),
                acknowledged,
                acknowledgement_delay: delay.map(|delay| {
                    std::time::Duration::from_micros(delay.saturating_mul(1 << EXPONENT))
                }),
            })
        };
        self.noted.iter().filter_map(datagram).collect()
    }
}

fn earlier(one: Option<Place>, other: Option<Place>) -> Option<Place> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

impl Ranges {
    #[expect(clippy::option_option, reason = "two questions: are there any, and was there a hole")]
    fn add(&mut self, piece: Piece, place: Place) -> Option<Option<Place>> {
        let (from, to) = (piece.start, piece.end);
        if from >= to || self.0.iter().any(|(a, b, _)| *a <= from && to <= *b) {
            return None;
        }
        // The first range behind the hole made it visible.
        let hole = self.0.iter().find(|(a, ..)| *a >= to).map(|(.., seen)| *seen);
        let first = self.0.partition_point(|(_, b, _)| *b < from);
        let behind = self.0.partition_point(|(a, ..)| *a <= to);
        let joined = self.0[first..behind]
            .iter()
            .fold((from, to, place), |(x, y, p), (a, b, q)| (x.min(*a), y.max(*b), p.min(*q)));
        self.0.splice(first..behind, [joined]);
        Some(hole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_clock::{Monotonic, Timebase};

    /// A recorder with datagrams in these directions, and their places.
    fn recorded(directions: &[Direction]) -> (Recorder, Vec<Place>) {
        let mut recorder = Recorder::new(Timebase::start());
        let mut places = Vec::new();
        for direction in directions {
            match direction {
                Direction::Sent => drop(recorder.sent(1_200, Monotonic::now())),
                Direction::Received => recorder.received(1_200, Monotonic::now(), None),
            }
            places.extend(recorder.last_place(*direction));
        }
        (recorder, places)
    }

    fn packet(number: u64, pieces: &[(Option<u64>, u64, u64)]) -> Opened {
        let piece = |(stream, start, end): &(Option<u64>, u64, u64)| Piece {
            stream: *stream,
            start: *start,
            end: *end,
        };
        Opened {
            space: Space::Application,
            number,
            elicits: !pieces.is_empty(),
            pieces: pieces.iter().map(piece).collect(),
            acknowledges: Vec::new(),
            delay: 0,
            frames: Vec::new(),
        }
    }

    #[test]
    fn what_is_sent_again_is_not_new_and_the_copy_is_acknowledged() {
        use Direction::{Received, Sent};
        let (recorder, places) = recorded(&[Sent, Sent, Received]);
        let mut ledger = Ledger::default();
        let request = [(Some(0), 0, 300)];
        assert!(ledger.note(Sent, places[0], &[packet(0, &request)], Some(0)));
        assert!(!ledger.note(Sent, places[1], &[packet(1, &request)], Some(0)));
        let ack = Opened { acknowledges: vec![(1, 1)], delay: 50, ..packet(0, &[]) };
        ledger.note(Received, places[2], &[ack], Some(0));
        let [lost, copy, answer] = ledger.datagrams(&recorder)[..] else { panic!() };
        assert_eq!((lost.new, lost.acknowledged), (true, None));
        assert_eq!((copy.new, copy.missing_since), (false, Some(lost.at)));
        assert_eq!(copy.acknowledged, Some(answer.at));
        // In units of 8 µs.
        assert_eq!(copy.acknowledgement_delay, Some(std::time::Duration::from_micros(400)));
        assert!(!answer.new && !answer.elicits);
    }

    #[test]
    fn after_a_retry_everything_is_said_for_the_first_time() {
        use Direction::{Received, Sent};
        let (recorder, places) = recorded(&[Sent, Received, Sent]);
        let mut ledger = Ledger::default();
        let hello = || [Opened { space: Space::Initial, ..packet(0, &[(None, 0, 300)]) }];
        ledger.note(Sent, places[0], &hello(), None);
        ledger.retried(places[1]);
        ledger.note(Sent, places[2], &hello(), None);
        let found = ledger.datagrams(&recorder);
        let said: Vec<_> = found.iter().map(|d| (d.direction, d.new, d.missing_since)).collect();
        assert_eq!(said, [(Sent, true, None), (Received, true, None), (Sent, true, None)]);
    }

    #[test]
    fn a_hole_is_seen_by_what_came_behind_it() {
        use Direction::Received;
        let (recorder, places) = recorded(&[Received; 4]);
        let mut ledger = Ledger::default();
        let pieces = [(0, 0, 100), (2, 200, 300), (3, 100, 200), (4, 100, 200)];
        for (place, (number, start, end)) in places.iter().zip(pieces) {
            let packets = [packet(number, &[(Some(0), start, end)])];
            ledger.note(Received, *place, &packets, Some(0));
        }
        let found = ledger.datagrams(&recorder);
        let new: Vec<bool> = found.iter().map(|datagram| datagram.new).collect();
        assert_eq!(new, [true, true, true, false]);
        let skipped: Vec<u32> = found.iter().map(|datagram| datagram.skipped).collect();
        assert_eq!(skipped, [0, 1, 0, 0]);
        assert_eq!((found[1].missing_since, found[2].missing_since), (None, Some(found[1].at)));
    }

    #[test]
    fn other_streams_and_tickets_are_nothing_that_is_waited_for() {
        use Direction::Received;
        let (recorder, places) = recorded(&[Received; 3]);
        let mut ledger = Ledger::default();
        ledger.note(Received, places[0], &[packet(0, &[(Some(3), 0, 9)])], Some(0));
        ledger.note(Received, places[1], &[packet(1, &[(None, 0, 200)])], Some(0));
        // Nothing could be decrypted, so nothing is recorded.
        ledger.note(Received, places[2], &[], Some(0));
        let found = ledger.datagrams(&recorder);
        assert_eq!(found.iter().map(|d| d.new).collect::<Vec<_>>(), [false, false]);
    }
}
