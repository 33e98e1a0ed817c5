//! A small client for Chromium's DevTools protocol, over `--remote-debugging-pipe`: JSON messages that end with NUL.
//!
//! Input: a [`ClientProcess`] whose pipes speak it. Output: results of commands, and events in their order. Messages
//! stay `serde_json::Value`s: what is unknown, or added by a later version, is passed over. There is no time without
//! a limit, and no message without one to its size.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdin, ChildStdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Value, json};

use crate::deadline::Deadline;
use crate::process::{ClientError, ClientProcess, system};

/// A message that is longer than this is none that was asked for.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// Events that nobody waited for; the oldest are dropped.
const KEPT_EVENTS: usize = 20_000;
/// How often an interruption is looked for.
const INTERRUPTION_INTERVAL: Duration = Duration::from_millis(50);

/// Something that the browser said without being asked.
#[derive(Clone, Debug, PartialEq)]
pub struct DevToolsEvent {
    /// Its name, with its domain: "Network.responseReceived".
    pub method: String,
    /// The session with a target that it belongs to, if any.
    pub session: Option<String>,
    /// What it says.
    pub params: Value,
}

/// A connection to a browser.
#[derive(Debug)]
pub struct DevTools {
    process: ClientProcess,
    to_browser: ChildStdin,
    from_browser: ChildStdout,
    received: Vec<u8>,
    /// How much of `received` is known to hold no end of a message.
    searched: usize,
    last_id: u64,
    events: VecDeque<DevToolsEvent>,
    interrupted: Arc<AtomicBool>,
}

impl DevTools {
    /// Takes over the pipes of `process`. Where `interrupted` gets set, whatever waits ends with
    /// [`ClientError::Interrupted`].
    ///
    /// # Errors
    /// Its pipes were taken before.
    pub fn over(
        mut process: ClientProcess,
        interrupted: Arc<AtomicBool>,
    ) -> Result<Self, ClientError> {
        let pipes = process.to_program.take().zip(process.from_program.take());
        let (to_browser, from_browser) = pipes.ok_or_else(|| ClientError::Refused {
            command: "speaking with the client".to_owned(),
            detail: "somebody else does".to_owned(),
        })?;
        Ok(Self {
            process,
            to_browser,
            from_browser,
            received: Vec::new(),
            searched: 0,
            last_id: 0,
            events: VecDeque::new(),
            interrupted,
        })
    }

    /// The program behind it.
    pub const fn process(&self) -> &ClientProcess {
        &self.process
    }

    /// Runs a command, and returns its result.
    ///
    /// # Errors
    /// The browser refuses it, ends, or takes longer than `limit`.
    pub fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, ClientError> {
        let deadline = Deadline::after(limit);
        let id = self.send(session, method, params)?;
        loop {
            let mut message = self.message(&deadline, method)?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.keep(message);
                continue;
            }
            if let Some(error) = message.get("error") {
                let detail = error.get("message").and_then(Value::as_str).unwrap_or("no reason");
                let (command, detail) = (method.to_owned(), detail.to_owned());
                return Err(ClientError::Refused { command, detail });
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// The first event that `wanted` makes something of: of those that came before, or that comes within `limit`.
    /// Those before it are kept for others.
    ///
    /// # Errors
    /// None comes, or the browser ends.
    pub fn wait<T>(
        &mut self,
        waiting_for: &str,
        limit: Duration,
        mut wanted: impl FnMut(&DevToolsEvent) -> Option<T>,
    ) -> Result<T, ClientError> {
        let deadline = Deadline::after(limit);
        let mut looked_at = 0;
        loop {
            while let Some(event) = self.events.get(looked_at) {
                if let Some(found) = wanted(event) {
                    self.events.remove(looked_at);
                    return Ok(found);
                }
                looked_at += 1;
            }
            let message = self.message(&deadline, waiting_for)?;
            let before = self.events.len();
            self.keep(message);
            // Where the oldest was dropped, places have moved.
            looked_at = before.min(self.events.len().saturating_sub(1));
        }
    }

    /// The events so far that nobody waited for.
    pub fn take_events(&mut self) -> VecDeque<DevToolsEvent> {
        std::mem::take(&mut self.events)
    }

    /// Gives back an event that was waited for and is needed again.
    pub fn put_back(&mut self, event: DevToolsEvent) {
        self.events.push_back(event);
    }

    fn send(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<u64, ClientError> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        match self.to_browser.write_all(&bytes) {
            Ok(()) => Ok(self.last_id),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(self.process.ended()),
            Err(error) => Err(system("write to the browser")(error)),
        }
    }

    fn keep(&mut self, mut message: Value) {
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            // The answer to a command that was given up.
            return;
        };
        if self.events.len() >= KEPT_EVENTS {
            self.events.pop_front();
        }
        let session = message.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        self.events.push_back(DevToolsEvent { method, session, params });
    }

    /// The next whole message.
    fn message(&mut self, deadline: &Deadline, waiting_for: &str) -> Result<Value, ClientError> {
        loop {
            let unsearched = &self.received[self.searched..];
            if let Some(end) = unsearched.iter().position(|byte| *byte == 0) {
                let end = self.searched + end;
                let message = serde_json::from_slice(&self.received[..end]);
                self.received.drain(..=end);
                self.searched = 0;
                return message.map_err(|error| ClientError::Refused {
                    command: waiting_for.to_owned(),
                    detail: format!("what came is no JSON: {error}"),
                });
            }
            self.searched = self.received.len();
            if self.received.len() > MESSAGE_LIMIT_BYTES {
                let what = "a message of the browser's";
                return Err(ClientError::TooMuch { what, limit_bytes: MESSAGE_LIMIT_BYTES });
            }
            self.read_more(deadline, waiting_for)?;
        }
    }

    fn read_more(&mut self, deadline: &Deadline, waiting_for: &str) -> Result<(), ClientError> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(ClientError::Interrupted);
            }
            let left = deadline.left().ok_or_else(|| ClientError::TimedOut {
                waiting_for: waiting_for.to_owned(),
                limit: deadline.limit(),
            })?;
            let wait = left.min(INTERRUPTION_INTERVAL).max(Duration::from_millis(1));
            let timeout = PollTimeout::try_from(wait).unwrap_or(PollTimeout::ZERO);
            let mut pipes = [PollFd::new(self.from_browser.as_fd(), PollFlags::POLLIN)];
            match poll(&mut pipes, timeout) {
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => break,
                Err(error) => return Err(system("wait for the browser")(error.into())),
            }
        }
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
