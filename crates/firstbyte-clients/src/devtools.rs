//! A small client for Chromium's DevTools protocol, over `--remote-debugging-pipe`: JSON messages that end with NUL.
//!
//! Input: a [`ClientProcess`] whose pipes speak the protocol. Output: results of commands, and events in order.
//! Messages stay `serde_json::Value`s, so that unknown members and those of later versions are ignored. All waiting has
//! a time limit, and all messages have a size limit.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::interruption::Interruption;
use crate::process::{ClientError, ClientProcess, system};

/// Longer messages are not expected.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// Maximum number of events that nobody waited for; the oldest are dropped.
const KEPT_EVENTS: usize = 20_000;
/// Maximum total size of their messages.
const KEPT_EVENT_BYTES: usize = 64 << 20;
/// Interval of checks for interruption.
const INTERRUPTION_INTERVAL: Duration = Duration::from_millis(50);

/// An event that the browser sent.
#[derive(Clone, Debug, PartialEq)]
pub struct DevToolsEvent {
    /// Its name, with its domain: "Network.responseReceived".
    pub method: String,
    /// The target session that it belongs to, if any.
    pub session: Option<String>,
    /// Its parameters.
    pub params: Value,
    /// Length of its message.
    pub message_bytes: usize,
}

#[derive(Clone, Copy)]
enum Pipe {
    ToBrowser,
    FromBrowser,
}

/// A connection to a browser.
#[derive(Debug)]
pub struct DevTools {
    process: ClientProcess,
    to_browser: ChildStdin,
    from_browser: ChildStdout,
    received: Vec<u8>,
    /// Length of the part of `received` that has been searched for the end of a message.
    searched: usize,
    last_id: u64,
    events: KeptEvents,
    interrupted: Arc<Interruption>,
}

/// Events that nobody waited for, the oldest first, up to the limits.
#[derive(Debug, Default)]
struct KeptEvents {
    events: VecDeque<DevToolsEvent>,
    bytes: usize,
}

impl KeptEvents {
    fn push(&mut self, event: DevToolsEvent) {
        self.bytes += event.message_bytes;
        self.events.push_back(event);
        while self.events.len() > KEPT_EVENTS || self.bytes > KEPT_EVENT_BYTES {
            self.remove(0);
        }
    }

    fn remove(&mut self, place: usize) {
        if let Some(event) = self.events.remove(place) {
            self.bytes -= event.message_bytes;
        }
    }
}

impl DevTools {
    /// Takes over the pipes of `process`. If `interrupted` is set, waiting ends with [`ClientError::Interrupted`].
    ///
    /// # Errors
    /// If its pipes were taken before.
    pub fn over(
        mut process: ClientProcess,
        interrupted: Arc<Interruption>,
    ) -> Result<Self, ClientError> {
        let pipes = process.to_program.take().zip(process.from_program.take());
        let (to_browser, from_browser) = pipes.ok_or_else(|| ClientError::Refused {
            command: "the connection to the client".to_owned(),
            detail: "its pipes are already in use".to_owned(),
        })?;
        // A browser that stops reading would fill the pipe and block us. Its own end is a separate description, and
        // stays blocking.
        fcntl(&to_browser, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))
            .map_err(|error| system("prepare a pipe")(error.into()))?;
        Ok(Self {
            process,
            to_browser,
            from_browser,
            received: Vec::new(),
            searched: 0,
            last_id: 0,
            events: KeptEvents::default(),
            interrupted,
        })
    }

    /// The browser's process.
    pub const fn process(&self) -> &ClientProcess {
        &self.process
    }

    /// Runs a command, and returns its result.
    ///
    /// # Errors
    /// If the browser rejects it, ends, or takes longer than `limit`.
    pub fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, ClientError> {
        self.call_until(session, method, params, &Deadline::after(limit))
    }

    /// The same, with a deadline shared by several calls.
    pub(crate) fn call_until(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        deadline: &Deadline,
    ) -> Result<Value, ClientError> {
        let id = self.send(session, method, params, deadline)?;
        loop {
            let (mut message, bytes) = self.message(deadline, method)?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.keep(message, bytes);
                continue;
            }
            if let Some(error) = message.get("error") {
                let detail =
                    error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
                let (command, detail) = (method.to_owned(), detail.to_owned());
                return Err(ClientError::Refused { command, detail });
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Waits for the first event for which `wanted` returns a value, among those already received and those that arrive
    /// in time. Other events are kept.
    ///
    /// # Errors
    /// If none arrives, or the browser ends.
    pub(crate) fn wait_until<T>(
        &mut self,
        waiting_for: &str,
        deadline: &Deadline,
        mut wanted: impl FnMut(&DevToolsEvent) -> Option<T>,
    ) -> Result<T, ClientError> {
        let mut looked_at = 0;
        loop {
            while let Some(event) = self.events.events.get(looked_at) {
                if let Some(found) = wanted(event) {
                    self.events.remove(looked_at);
                    return Ok(found);
                }
                looked_at += 1;
            }
            let (message, bytes) = self.message(deadline, waiting_for)?;
            let before = self.events.events.len();
            self.keep(message, bytes);
            // If the oldest events were dropped, indices have moved.
            looked_at = before.min(self.events.events.len().saturating_sub(1));
        }
    }

    /// Removes and returns the events so far that nobody waited for.
    pub fn take_events(&mut self) -> VecDeque<DevToolsEvent> {
        std::mem::take(&mut self.events).events
    }

    /// Whether any of the kept events satisfies `wanted`.
    pub(crate) fn has_event(&self, wanted: impl FnMut(&DevToolsEvent) -> bool) -> bool {
        self.events.events.iter().any(wanted)
    }

    /// Drops the kept events that satisfy `unwanted`.
    pub(crate) fn forget_events(&mut self, mut unwanted: impl FnMut(&DevToolsEvent) -> bool) {
        self.events.events.retain(|event| !unwanted(event));
        self.events.bytes = self.events.events.iter().map(|event| event.message_bytes).sum();
    }

    /// Puts back an event that is needed again.
    pub fn put_back(&mut self, event: DevToolsEvent) {
        self.events.push(event);
    }

    fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        deadline: &Deadline,
    ) -> Result<u64, ClientError> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.to_browser.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.wait_for(Pipe::ToBrowser, deadline, method)?;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                    return Err(self.process.ended());
                }
                Err(error) => return Err(system("write to the browser")(error)),
            }
        }
        Ok(self.last_id)
    }

    fn keep(&mut self, mut message: Value, message_bytes: usize) {
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            // The answer to an abandoned command.
            return;
        };
        let session = message.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        self.events.push(DevToolsEvent { method, session, params, message_bytes });
    }

    /// The next complete message, and its length.
    fn message(
        &mut self,
        deadline: &Deadline,
        waiting_for: &str,
    ) -> Result<(Value, usize), ClientError> {
        loop {
            let unsearched = &self.received[self.searched..];
            if let Some(end) = unsearched.iter().position(|byte| *byte == 0) {
                let end = self.searched + end;
                let message = serde_json::from_slice(&self.received[..end]);
                self.received.drain(..=end);
                self.searched = 0;
                let message = message.map(|message| (message, end));
                return message.map_err(|error| ClientError::Refused {
                    command: waiting_for.to_owned(),
                    detail: format!("the browser's message is not JSON: {error}"),
                });
            }
            self.searched = self.received.len();
            if self.received.len() > MESSAGE_LIMIT_BYTES {
                let what = "a message from the browser";
                return Err(ClientError::TooMuch { what, limit_bytes: MESSAGE_LIMIT_BYTES });
            }
            self.read_more(deadline, waiting_for)?;
        }
    }

    /// Waits until something can be written to, or read from, the browser.
    fn wait_for(
        &self,
        pipe: Pipe,
        deadline: &Deadline,
        waiting_for: &str,
    ) -> Result<(), ClientError> {
        let (descriptor, ready) = match pipe {
            Pipe::ToBrowser => (self.to_browser.as_fd(), PollFlags::POLLOUT),
            Pipe::FromBrowser => (self.from_browser.as_fd(), PollFlags::POLLIN),
        };
        loop {
            if self.interrupted.is_set() {
                return Err(ClientError::Interrupted);
            }
            let left = deadline.left().ok_or_else(|| ClientError::TimedOut {
                waiting_for: waiting_for.to_owned(),
                limit: deadline.limit(),
            })?;
            let wait = left.min(INTERRUPTION_INTERVAL).max(Duration::from_millis(1));
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
            match poll(&mut [PollFd::new(descriptor, ready)], timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(system("wait for the browser")(error.into())),
            }
        }
    }

    fn read_more(&mut self, deadline: &Deadline, waiting_for: &str) -> Result<(), ClientError> {
        self.wait_for(Pipe::FromBrowser, deadline, waiting_for)?;
        let mut buffer = [0; 64 * 1024];
        match self.from_browser.read(&mut buffer) {
            Ok(0) => Err(self.process.ended()),
            Ok(read) => {
                self.received.extend_from_slice(&buffer[..read]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(system("read from the browser")(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_up_to_a_number_and_a_size() {
        let event = |number: usize, message_bytes| DevToolsEvent {
            method: number.to_string(),
            session: None,
            params: Value::Null,
            message_bytes,
        };
        let mut kept = KeptEvents::default();
        for number in 0..KEPT_EVENTS + 3 {
            kept.push(event(number, 10));
        }
        assert_eq!((kept.events.len(), kept.bytes), (KEPT_EVENTS, KEPT_EVENTS * 10));
        assert_eq!(kept.events[0].method, "3");
        kept.push(event(0, KEPT_EVENT_BYTES - 25));
        assert_eq!((kept.events.len(), kept.bytes), (3, KEPT_EVENT_BYTES - 5));
        kept.remove(2);
        assert_eq!(kept.bytes, 20);
    }
}
