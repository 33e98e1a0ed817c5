//! Passes on frames in capture order, each with its connection. Frames after a fragment wait until its connection is
//! known.

use std::collections::VecDeque;

use firstbyte_core::pcap::{Frame, LinkType};
use firstbyte_passive::Time;
use firstbyte_passive::layers::{self, Endpoint, Fragment, Unread};

/// A frame of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owned<'a> {
    pub(super) number: u64,
    pub(super) at: Time,
    pub(super) link: LinkType,
    pub(super) captured: &'a [u8],
    pub(super) wire_bytes: u32,
}

/// Output of the queue, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    Frame(Owned<'a>),
    /// This connection has ended; the flag says whether it is chosen.
    Over(u64, bool),
}

/// Limits for frames waiting behind a fragment: their number, their bytes, and their age.
const MOST_WAITING: usize = 4_096;
/// See [`MOST_WAITING`].
const MOST_BYTES: usize = 16 << 20;
/// See [`MOST_WAITING`].
const MOST_NS: i64 = 30_000_000_000;

/// Identifies the datagram that a fragment belongs to.
type Datagram = (Endpoint, Endpoint, u32, u8);

struct Waiting {
    at: Time,
    link: LinkType,
    captured: Vec<u8>,
    wire_bytes: u32,
    whose: Whose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Of(u64),
    /// A fragment of this datagram, whose connection is not yet known.
    PieceOf(Datagram),
    /// Not a frame: this connection has ended.
    Over(u64, bool),
}

/// Frames waiting to be passed on.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    last: Time,
}

impl Queue {
    /// Adds a frame and its connection. Frames without a connection are dropped, except fragments.
    pub(super) fn add(
        &mut self,
        frame: &Frame<'_>,
        owner: Option<u64>,
        out: &mut dyn FnMut(Event<'_>),
    ) {
        // A frame without a time gets that of the previous one, as in the analysis.
        self.last = frame.at.unwrap_or(self.last);
        let piece_of = piece_of(frame);
        let whose = match (owner, piece_of) {
            (None, None) => return self.let_go(MOST_WAITING, out),
            (None, Some(datagram)) => Whose::PieceOf(datagram),
            (Some(number), None) => Whose::Of(number),
            (Some(number), Some(datagram)) => {
                let pieces = self.waiting.iter_mut();
                pieces
                    .filter(|waiting| waiting.whose == Whose::PieceOf(datagram))
                    .for_each(|piece| piece.whose = Whose::Of(number));
                Whose::Of(number)
            }
        };
        let (at, link, wire_bytes) = (self.last, frame.link, frame.wire_bytes);
        if let (true, Whose::Of(number)) = (self.waiting.is_empty(), whose) {
            return out(Event::Frame(Owned {
                number,
                at,
                link,
                captured: frame.captured,
                wire_bytes,
            }));
        }
        self.bytes += frame.captured.len();
        let captured = frame.captured.to_vec();
        self.waiting.push_back(Waiting { at, link, captured, wire_bytes, whose });
        self.let_go(MOST_WAITING, out);
    }

    /// Marks the end of a connection, after all frames added so far.
    pub(super) fn over(&mut self, number: u64, is_chosen: bool, out: &mut dyn FnMut(Event<'_>)) {
        if self.waiting.is_empty() {
            return out(Event::Over(number, is_chosen));
        }
        self.waiting.push_back(Waiting {
            at: self.last,
            link: LinkType(0),
            captured: Vec::new(),
            wire_bytes: 0,
            whose: Whose::Over(number, is_chosen),
        });
    }

    /// Passes on what remains. Fragments without a connection are dropped.
    pub(super) fn finish(&mut self, out: &mut dyn FnMut(Event<'_>)) {
        self.let_go(0, out);
    }

    /// Passes on the frames at the front whose connection is known. Drops a fragment at the front that waited too
    /// long, or if more than `most` frames wait.
    fn let_go(&mut self, most: usize, out: &mut dyn FnMut(Event<'_>)) {
        while let Some(first) = self.waiting.front() {
            let too_many = self.waiting.len() > most || self.bytes > MOST_BYTES;
            let too_old = self.last.signed_since(first.at) > MOST_NS;
            if matches!(first.whose, Whose::PieceOf(_)) && !too_many && !too_old {
                break;
            }
            let Some(Waiting { at, link, captured, wire_bytes, whose }) = self.waiting.pop_front()
            else {
                break;
            };
            self.bytes -= captured.len();
            match whose {
                Whose::PieceOf(_) => {}
                Whose::Over(number, is_chosen) => out(Event::Over(number, is_chosen)),
                Whose::Of(number) => {
                    let captured = captured.as_slice();
                    out(Event::Frame(Owned { number, at, link, captured, wire_bytes }));
                }
            }
        }
    }
}

fn piece_of(frame: &Frame<'_>) -> Option<Datagram> {
    match layers::packet(frame.link, frame.captured, frame.wire_bytes) {
        Err(Unread::Fragment(fragment)) => {
            let Fragment { source, destination, identification, protocol, .. } = fragment;
            Some((source, destination, identification, protocol))
        }
        _ => None,
    }
}
