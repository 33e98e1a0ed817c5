//! Frames in the order of the capture, each with its connection: what stands behind a fragment waits until
//! it is known whose that is.

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

/// What comes out, in order.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event<'a> {
    Frame(Owned<'a>),
    /// This connection has ended, and is chosen or not.
    Over(u64, bool),
}

/// Frames behind a fragment wait for it: at most so many, so many bytes, so long.
const MOST_WAITING: usize = 4_096;
/// See [`MOST_WAITING`].
const MOST_BYTES: usize = 16 << 20;
/// See [`MOST_WAITING`].
const MOST_NS: i64 = 30_000_000_000;

/// Which datagram a fragment is of.
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
    /// A piece of this datagram, of which it is not known yet whose it is.
    PieceOf(Datagram),
    /// No frame: this connection has ended.
    Over(u64, bool),
}

/// Frames on their way.
#[derive(Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    last: Time,
}

impl Queue {
    /// The next frame, and the connection it was read as. Nobody's are left out.
    pub(super) fn add(
        &mut self,
        frame: &Frame<'_>,
        owner: Option<u64>,
        out: &mut dyn FnMut(Event<'_>),
    ) {
        // Frames without a time have that of the one before, as in the analysis.
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

    /// A connection has ended, after all frames so far.
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

    /// Nothing more comes: pieces nobody claimed are left out.
    pub(super) fn finish(&mut self, out: &mut dyn FnMut(Event<'_>)) {
        self.let_go(0, out);
    }

    /// Lets go of the oldest: of what is known, and of pieces until no more than `most` wait.
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
