//! Response patterns of `/w`: parsing of the query, and the body that it describes.
//!
//! `/w?think=12&head=300&writes=1000,400@50x3`: after 12 ms the server writes a head of 300 bytes with the
//! first 1,000 bytes of the body, then three times 400 bytes, each 50 ms after the previous write.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use firstbyte_core::units::{BareTime, parse_time};
use hyper::body::{Body, Frame, SizeHint};

use super::filling::Filling;
use super::pause::pause;

/// Upper bound; no response needs more.
const MAX_WRITES: usize = 10_000;
const MAX_BYTES: usize = 100_000_000;
const MAX_WAIT: Duration = Duration::from_secs(60);
const DEFAULT_BYTES: usize = 2_000;

/// How a response is written.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    /// Time between the request and the head.
    pub(super) think_time: Duration,
    /// Approximate minimum size of the head over HTTP/1.1, bytes.
    pub(super) head_bytes: usize,
    writes: Vec<Write>,
}

/// A part of the body with its own write.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Write {
    bytes: usize,
    /// Time since the previous write; `None` means at once. Without a wait, the first write goes out with
    /// the head, any other by itself.
    wait: Option<Duration>,
}

impl Pattern {
    /// Parses the pattern of a query; `None` if the query is malformed.
    pub(super) fn parse(query: &str) -> Option<Self> {
        let mut pattern = Self { think_time: Duration::ZERO, head_bytes: 0, writes: Vec::new() };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=')? {
                ("think", time) => pattern.think_time = milliseconds(time)?,
                ("head", bytes) => pattern.head_bytes = bytes.parse().ok()?,
                ("writes", writes) => pattern.writes = parse_writes(writes)?,
                _ => return None,
            }
        }
        if pattern.writes.is_empty() {
            pattern.writes.push(Write { bytes: DEFAULT_BYTES, wait: None });
        }
        (pattern.bytes()? <= MAX_BYTES).then_some(pattern)
    }

    /// Size of the whole body.
    fn bytes(&self) -> Option<usize> {
        self.writes.iter().try_fold(0_usize, |sum, write| sum.checked_add(write.bytes))
    }
}

fn parse_writes(text: &str) -> Option<Vec<Write>> {
    let mut writes = Vec::new();
    for step in text.split(',') {
        let (step, times) = match step.split_once('x') {
            Some((step, times)) => (step, times.parse::<usize>().ok()?),
            None => (step, 1),
        };
        let (bytes, wait) = match step.split_once('@') {
            Some((bytes, wait)) => (bytes, Some(milliseconds(wait)?)),
            None => (step, None),
        };
        if writes.len().checked_add(times)? > MAX_WRITES {
            return None;
        }
        let write = Write { bytes: bytes.parse().ok()?, wait };
        writes.extend(std::iter::repeat_n(write, times));
    }
    Some(writes)
}

/// Parses a duration; a number without unit is in milliseconds.
fn milliseconds(text: &str) -> Option<Duration> {
    parse_time(text, BareTime::Milliseconds).ok().filter(|wait| *wait <= MAX_WAIT)
}

/// A body written in parts.
pub(super) struct Written {
    writes: std::vec::IntoIter<Write>,
    /// The part being written, in pieces.
    part: Filling,
    left: usize,
    /// How much of the response has been handed to HTTP; initially the head.
    state: State,
}

enum State {
    /// Only the head has been handed over: the next part may follow at once.
    WithTheHead,
    /// A part is being handed to HTTP, which writes it once the body has no more data ready.
    Flushing,
    Waiting(Pin<Box<dyn Future<Output = ()> + Send>>),
    Writing,
}

impl Written {
    pub(super) fn new(pattern: Pattern) -> Self {
        let left = pattern.bytes().unwrap_or_default();
        let writes = pattern.writes.into_iter();
        Self { writes, part: Filling::new(0), left, state: State::WithTheHead }
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }
}

impl Body for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let State::Waiting(wait) = &mut self.state {
                std::task::ready!(wait.as_mut().poll(cx));
                self.state = State::Writing;
            }
            if let Some(piece) = self.part.next() {
                self.left -= piece.len();
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let Some(write) = self.writes.as_slice().first().copied() else {
                return Poll::Ready(None);
            };
            match (&self.state, write.wait) {
                (State::WithTheHead, None) | (State::Writing, _) => {
                    self.writes.next();
                    self.part = Filling::new(write.bytes);
                    self.state = State::Flushing;
                }
                (_, wait) => {
                    // Yields first, so that the earlier writes leave.
                    let wait = wait.unwrap_or_default();
                    self.state = State::Waiting(Box::pin(async move {
                        tokio::task::yield_now().await;
                        pause(wait).await;
                    }));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(bytes: usize, wait_ms: Option<u64>) -> Write {
        Write { bytes, wait: wait_ms.map(Duration::from_millis) }
    }

    #[test]
    fn a_query_says_how_an_answer_is_written() {
        let pattern = Pattern::parse("think=12.5&head=300&writes=1000,400@50x2,7@0").unwrap();
        assert_eq!(pattern.think_time, Duration::from_micros(12_500));
        assert_eq!(pattern.head_bytes, 300);
        assert_eq!(
            pattern.writes,
            [write(1_000, None), write(400, Some(50)), write(400, Some(50)), write(7, Some(0))]
        );
        assert_eq!(Pattern::parse("").unwrap().writes, [write(DEFAULT_BYTES, None)]);
    }

    #[test]
    fn other_queries_are_none() {
        for query in [
            "size=3",
            "think",
            "think=-1",
            "think=inf",
            "think=60001",
            "writes=",
            "writes=5,",
            "writes=5@",
            "writes=5@1x",
            "writes=@5",
            "writes=1x10001",
            "writes=100000001",
            "head=x",
        ] {
            assert_eq!(Pattern::parse(query), None, "{query}");
        }
    }
}
