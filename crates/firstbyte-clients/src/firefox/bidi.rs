//! A small client for WebDriver BiDi: JSON messages over a WebSocket to a port on loopback.
//!
//! Input: a [`ClientProcess`] that listens there. Output: results of commands, and events in order. Messages stay
//! `serde_json::Value`s, so that unknown members and those of later versions are ignored. All waiting has a time limit,
//! and all messages have a size limit.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::handshake::HandshakeError;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, Message, WebSocket};

use crate::deadline::Deadline;
use crate::interruption::Interruption;
use crate::process::{ClientError, ClientProcess, system};

/// Longer messages are not expected.
const MESSAGE_LIMIT_BYTES: usize = 64 << 20;
/// Maximum number of kept events; the oldest are dropped.
const KEPT_EVENTS: usize = 20_000;
/// Maximum size of all messages between two calls of `take_events`.
const KEPT_BYTES: usize = 256 << 20;
/// Interval of checks for interruption and time limit.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// An event that the browser sent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BidiEvent {
    /// Its name, with its module: "network.responseCompleted".
    pub(super) method: String,
    pub(super) params: Value,
}

/// Durations of the document's phases from BiDi's times, as tools that use BiDi show them.
///
/// Absent if a time is 0, which means that the step did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BidiTimings {
    /// `dnsStart` to `dnsEnd`.
    pub dns: Option<Duration>,
    /// `connectStart` to `connectEnd`: TLS is part of it.
    pub connect: Option<Duration>,
    /// `tlsStart` to `tlsEnd`, which are not in the specification.
    pub tls: Option<Duration>,
    /// `requestStart` to `responseStart`.
    pub waiting: Option<Duration>,
    /// `responseStart` to `responseEnd`.
    pub receiving: Option<Duration>,
    /// `requestTime` to `responseEnd`.
    pub total: Option<Duration>,
}

impl BidiTimings {
    /// Reads `network.FetchTimingInfo`.
    pub(super) fn read(timings: &Value) -> Self {
        let at = |name: &str| timings.get(name)?.as_f64().filter(|ms| *ms > 0.0);
        let between = |from: &str, to: &str| {
            let ms = at(to)? - at(from)?;
            // Milliseconds since the Unix epoch, with fractions down to microseconds.
            Duration::try_from_secs_f64(ms / 1000.0).ok().map(|d| Duration::from_micros(rounded(d)))
        };
        Self {
            dns: between("dnsStart", "dnsEnd"),
            connect: between("connectStart", "connectEnd"),
            tls: between("tlsStart", "tlsEnd"),
            waiting: between("requestStart", "responseStart"),
            receiving: between("responseStart", "responseEnd"),
            total: between("requestTime", "responseEnd"),
        }
    }
}

fn rounded(duration: Duration) -> u64 {
    u64::try_from((duration.as_nanos() + 500) / 1000).unwrap_or(u64::MAX)
}

/// A connection to a browser.
#[derive(Debug)]
pub(super) struct Bidi {
    process: ClientProcess,
    socket: WebSocket<TcpStream>,
    last_id: u64,
    events: VecDeque<BidiEvent>,
    /// Bytes received since the events were last taken.
    kept_bytes: usize,
    interrupted: Arc<Interruption>,
}

impl Bidi {
    /// Connects to `process`, which listens on `port`. If `interrupted` is set, waiting ends with
    /// [`ClientError::Interrupted`].
    pub(super) fn over(
        process: ClientProcess,
        port: u16,
        interrupted: Arc<Interruption>,
        deadline: &Deadline,
    ) -> Result<Self, ClientError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let left = deadline.left().unwrap_or(LOOK_INTERVAL);
        let stream = TcpStream::connect_timeout(&address, left);
        let stream = stream.map_err(system("connect to the browser"))?;
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(LOOK_INTERVAL)))
            .and_then(|()| stream.set_write_timeout(Some(LOOK_INTERVAL)));
        prepared.map_err(system("prepare a connection"))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MESSAGE_LIMIT_BYTES))
            .max_frame_size(Some(MESSAGE_LIMIT_BYTES));
        let url = format!("ws://{address}/session");
        let mut under_way = tungstenite::client::client_with_config(url, stream, Some(config));
        let socket = loop {
            match under_way {
                Ok((socket, _)) => break socket,
                Err(HandshakeError::Interrupted(rest)) => {
                    still_time(&interrupted, deadline, "the browser's WebSocket")?;
                    under_way = rest.handshake();
                }
                Err(HandshakeError::Failure(error)) => {
                    let command = "the WebSocket".to_owned();
                    return Err(ClientError::Refused { command, detail: error.to_string() });
                }
            }
        };
        Ok(Self {
            process,
            socket,
            last_id: 0,
            events: VecDeque::new(),
            kept_bytes: 0,
            interrupted,
        })
    }

    /// The browser's process.
    pub(super) const fn process(&self) -> &ClientProcess {
        &self.process
    }

    /// Runs a command, and returns its result.
    ///
    /// # Errors
    /// If the browser rejects it, ends, or takes longer than until `deadline`.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: &Value,
        deadline: &Deadline,
    ) -> Result<Value, ClientError> {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "id": id, "method": method, "params": params }).to_string();
        let mut sent = self.socket.send(Message::text(message));
        while let Err(error) = sent {
            // Unwritten data is kept and written by the next flush.
            self.endure(error, deadline, method)?;
            sent = self.socket.flush();
        }
        loop {
            let mut message = self.message(deadline, method)?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                self.keep(message);
                continue;
            }
            if let Some(error) = message.get("error").and_then(Value::as_str) {
                let detail = message.get("message").and_then(Value::as_str).unwrap_or(error);
                let (command, detail) = (method.to_owned(), detail.to_owned());
                return Err(ClientError::Refused { command, detail });
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    /// Waits for the first event for which `wanted` returns a value, among those already received and those that arrive
    /// in time. All events are kept.
    ///
    /// # Errors
    /// If none arrives, or the browser ends.
    pub(super) fn wait_until<T>(
        &mut self,
        waiting_for: &str,
        deadline: &Deadline,
        mut wanted: impl FnMut(&BidiEvent) -> Option<T>,
    ) -> Result<T, ClientError> {
        if let Some(found) = self.events.iter().find_map(&mut wanted) {
            return Ok(found);
        }
        loop {
            let message = self.message(deadline, waiting_for)?;
            self.keep(message);
            if let Some(found) = self.events.back().and_then(&mut wanted) {
                return Ok(found);
            }
        }
    }

    /// Removes and returns the events so far.
    pub(super) fn take_events(&mut self) -> VecDeque<BidiEvent> {
        self.kept_bytes = 0;
        std::mem::take(&mut self.events)
    }

    fn keep(&mut self, mut message: Value) {
        let Some(method) = message.get("method").and_then(Value::as_str).map(str::to_owned) else {
            // The answer to an abandoned command.
            return;
        };
        let params = message.get_mut("params").map(Value::take).unwrap_or_default();
        self.events.push_back(BidiEvent { method, params });
        if self.events.len() > KEPT_EVENTS {
            self.events.pop_front();
        }
    }

    fn message(&mut self, deadline: &Deadline, waiting_for: &str) -> Result<Value, ClientError> {
        loop {
            // Check before each message: a page that never falls silent gets no more time than others.
            still_time(&self.interrupted, deadline, waiting_for)?;
            match self.socket.read() {
                Ok(Message::Text(text)) => {
                    self.kept_bytes += text.len();
                    if self.kept_bytes > KEPT_BYTES {
                        let what = "the browser's report on one visit";
                        return Err(ClientError::TooMuch { what, limit_bytes: KEPT_BYTES });
                    }
                    return serde_json::from_str(text.as_str()).map_err(|error| {
                        ClientError::Refused {
                            command: waiting_for.to_owned(),
                            detail: format!("the browser's message is not JSON: {error}"),
                        }
                    });
                }
                // The crate answers pings.
                Ok(_) => {}
                Err(error) => self.endure(error, deadline, waiting_for)?,
            }
        }
    }

    /// Returns an error unless `error` only means that nothing could be read or written for a while.
    fn endure(
        &mut self,
        error: Error,
        deadline: &Deadline,
        waiting_for: &str,
    ) -> Result<(), ClientError> {
        match error {
            Error::Io(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    still_time(&self.interrupted, deadline, waiting_for)
                }
                _ => Err(self.process.ended()),
            },
            Error::ConnectionClosed | Error::AlreadyClosed | Error::Protocol(_) => {
                Err(self.process.ended())
            }
            Error::Capacity(_) => {
                let what = "a message from the browser";
                Err(ClientError::TooMuch { what, limit_bytes: MESSAGE_LIMIT_BYTES })
            }
            other => {
                let (command, detail) = (waiting_for.to_owned(), other.to_string());
                Err(ClientError::Refused { command, detail })
            }
        }
    }
}

fn still_time(
    interrupted: &Interruption,
    deadline: &Deadline,
    waiting_for: &str,
) -> Result<(), ClientError> {
    if interrupted.is_set() {
        return Err(ClientError::Interrupted);
    }
    if deadline.left().is_none() {
        let (waiting_for, limit) = (waiting_for.to_owned(), deadline.limit());
        return Err(ClientError::TimedOut { waiting_for, limit });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_happen_is_absent() {
        let timings = json!({
            "timeOrigin": 0, "requestTime": 1_795_401_296_856.735, "dnsStart": 0, "dnsEnd": 0, "connectStart": 0,
            "connectEnd": 0, "tlsStart": 0, "tlsEnd": 0, "requestStart": 1_795_401_296_860.788,
            "responseStart": 1_795_401_296_937.652, "responseEnd": 1_795_401_296_937.692,
        });
        let read = BidiTimings::read(&timings);
        assert_eq!((read.dns, read.connect, read.tls), (None, None, None));
        assert_eq!(read.waiting, Some(Duration::from_micros(76_864)));
        assert_eq!(read.total, Some(Duration::from_micros(80_957)));
        assert_eq!(BidiTimings::read(&json!({})), BidiTimings::default());
    }
}
