//! Limits on time and memory, as multiples of the input size.

use std::time::Duration;

use crate::sys;

/// Measures from its creation to [`Bounds::hold`].
pub struct Bounds {
    time: Duration,
    live: usize,
}

/// Instrumented code is about twenty times as slow as the shipped program.
const NS_PER_BYTE: u64 = 20_000;
const AT_LEAST: Duration = Duration::from_millis(200);

impl Bounds {
    pub fn begin() -> Self {
        Self { time: sys::thread_time(), live: sys::mark() }
    }

    /// Asserts the limits after `input` bytes were read. `state`: bytes that the reader may hold whatever the input.
    pub fn hold(self, input: usize, state: usize) {
        let took = sys::thread_time() - self.time;
        let most = AT_LEAST + Duration::from_nanos(NS_PER_BYTE * input as u64);
        assert!(took <= most, "{input} bytes took {took:?} of processor time");
        let memory = sys::peak() - self.live;
        let most = state + 64 * input;
        assert!(memory <= most, "{input} bytes took {memory} bytes of memory, of {most}");
    }
}
