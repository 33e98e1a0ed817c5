//! The way through a proxy: TLS to the proxy, which carries everything else, and the opening of a tunnel.
//!
//! An inner byte has the times of the outer TLS record that carried it, because it cannot be read before that record.

use std::io::{self, BufRead, Write};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use firstbyte_core::timeline::{Cause, Mark};

use super::records::{TlsLayer, process_record};
use super::{Stream, io_cause};
use crate::net::{Arrival, SendId};
use crate::probe::observation::When;
use crate::probe::tls::Session;

/// Bytes of a record's header, content type and authentication tag, and the explicit nonce of TLS 1.2 (RFC 8446 §5.2,
/// RFC 5288 §3).
pub(super) const RECORD_OVERHEAD: usize = 32;

/// TLS to a proxy, after its handshake.
pub(super) struct OuterTls {
    pub(super) layer: Box<TlsLayer>,
    /// Bytes received but not decrypted.
    sealed: BytesMut,
    /// Bytes encrypted but not sent.
    outgoing: BytesMut,
    /// Bytes of the inner stream in `outgoing`.
    carried: usize,
    ended: bool,
}

impl OuterTls {
    fn encrypt(&mut self, bytes: &[u8]) -> io::Result<()> {
        let connection = &mut self.layer.session.connection;
        if !bytes.is_empty() {
            self.carried += connection.writer().write(bytes)?;
        }
        while connection.wants_write() {
            connection.write_tls(&mut (&mut self.outgoing).writer())?;
        }
        Ok(())
    }

    /// Accepts bytes from the proxy; an empty slice marks the end.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sealed.extend_from_slice(bytes);
        if bytes.is_empty() {
            self.ended = true;
            self.layer.session.connection.read_tls(&mut io::empty())?;
        }
        Ok(())
    }
}

impl Stream {
    /// Performs the TLS handshake with a proxy. Its last flight leaves with the bytes that follow.
    pub(in crate::probe) async fn handshake_with_proxy(
        &mut self,
        session: Box<Session>,
    ) -> Result<(), Cause> {
        self.handshake_mark = Mark::ProxyHandshakeComplete;
        self.handshake(session).await?;
        let Some(layer) = self.tls.take() else { return Ok(()) };
        let sealed = BytesMut::from(&self.buffer[self.undigested.clone()]);
        self.undigested = 0..0;
        let outgoing = std::mem::take(&mut self.outgoing);
        if !outgoing.is_empty() {
            self.outgoing_names.push("ChangeCipherSpec".into());
        }
        if layer.session.connection.wants_write() {
            self.outgoing_names.push("{Finished}".into());
        }
        if !std::mem::take(&mut self.handshake_complete_marked) {
            self.next_departure.push(Mark::ProxyHandshakeComplete);
        }
        self.handshake_mark = Mark::HandshakeComplete;
        self.held = false;
        self.outer = Some(Box::new(OuterTls { layer, sealed, outgoing, carried: 0, ended: false }));
        Ok(())
    }

    /// Says that the next bytes ask a proxy for a tunnel.
    pub(in crate::probe) fn begin_tunnel(&mut self) {
        self.next_departure.push(Mark::TunnelStart);
    }

    /// Sends `bytes` to the proxy, under the given name.
    pub(in crate::probe) async fn tell_proxy(
        &mut self,
        bytes: &[u8],
        name: String,
    ) -> Result<(), Cause> {
        self.outgoing.extend_from_slice(bytes);
        self.outgoing_names.push(name);
        let sent = std::future::poll_fn(|cx| self.poll_send_all(cx)).await;
        sent.map_err(|error| self.fault.take().unwrap_or_else(|| io_cause(&error, "send")))
    }

    /// Bytes from the proxy that were not taken yet; an empty slice marks the end.
    pub(in crate::probe) async fn hear_proxy(&mut self) -> Result<&[u8], Cause> {
        if self.undigested.is_empty() {
            let received = std::future::poll_fn(|cx| self.poll_receive(cx, usize::MAX)).await;
            let received = received.map_err(|error| {
                self.fault.take().unwrap_or_else(|| io_cause(&error, "receive"))
            })?;
            self.undigested = 0..received;
        }
        Ok(&self.buffer[self.undigested.clone()])
    }

    /// Takes `bytes` of those from [`Self::hear_proxy`]: they are the proxy's own message, called `name`.
    pub(in crate::probe) fn take_from_proxy(&mut self, bytes: usize, name: &str) {
        self.tcp.recorder().borrow_mut().name_answer(name);
        self.undigested.start += bytes;
        self.proxy_bytes += bytes as u64;
    }

    /// Says that the last byte taken opened the tunnel.
    pub(in crate::probe) fn end_tunnel(&mut self) {
        let last = self.proxy_bytes.checked_sub(1);
        if let Some(arrival) = last.and_then(|last| self.arrival_from_proxy(last)) {
            self.seen.borrow_mut().mark(Mark::TunnelEnd, When::Arrival(arrival));
            self.tunnel_end = Some(arrival);
        }
        let recorder = self.tcp.recorder();
        let recorder = recorder.borrow();
        self.before_tunnel = (recorder.sent_bytes(), recorder.received_bytes());
    }

    /// When the tunnel was open, if there is one.
    pub(in crate::probe) const fn tunnel_end(&self) -> Option<Arrival> {
        self.tunnel_end
    }

    /// Whether the stream travels in TLS to a proxy.
    pub(in crate::probe) const fn is_inside_tls(&self) -> bool {
        self.outer.is_some()
    }

    /// When the byte at `offset` of the inner stream became readable.
    pub(super) fn arrival_below(&self, offset: u64) -> Option<Arrival> {
        self.arrival_from_proxy(self.proxy_bytes + offset)
    }

    /// Like `arrival_below`, with the offset counted from the proxy's first byte.
    fn arrival_from_proxy(&self, offset: u64) -> Option<Arrival> {
        let offset = match &self.outer {
            Some(outer) => outer.layer.stream_offsets(offset)?[1],
            None => offset,
        };
        let recorder = self.tcp.recorder();
        recorder.borrow().arrival_of(offset)
    }

    /// Sends at most `limit` of the ready bytes; returns how many left, and the send that took the last of them.
    pub(super) fn poll_send_ready(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<io::Result<(usize, SendId)>> {
        let Some(outer) = self.outer.as_deref_mut() else {
            return self.tcp.poll_send(cx, &self.outgoing[..limit]);
        };
        if outer.carried == 0 {
            outer.encrypt(&self.outgoing[..limit])?;
        }
        loop {
            let (sent, id) = ready!(self.tcp.poll_send(cx, &outer.outgoing))?;
            outer.outgoing.advance(sent);
            if outer.outgoing.is_empty() {
                return Poll::Ready(Ok((std::mem::take(&mut outer.carried), id)));
            }
        }
    }

    /// Sends the ready bytes as far as possible without waiting, and ends the stream.
    pub(super) fn send_last(&mut self) {
        let sent = match self.outer.as_deref_mut() {
            None if self.outgoing.is_empty() => return,
            None => self.tcp.send_last(&self.outgoing),
            Some(outer) => {
                let carried = outer.carried;
                let encrypted = outer.encrypt(&self.outgoing[carried..]);
                outer.layer.session.connection.send_close_notify();
                if encrypted.and_then(|()| outer.encrypt(&[])).is_err() {
                    return;
                }
                self.outgoing_names.push("close_notify".into());
                self.tcp.send_last(&outer.outgoing).map(|(_, id)| (self.outgoing.len(), id))
            }
        };
        if let Ok((bytes, id)) = sent {
            self.note_sent(bytes, id);
            self.outgoing.advance(bytes);
        }
    }

    /// Receives at most `room` bytes from the target or the proxy into `buffer`; 0 means the end.
    pub(super) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.outer.is_some()
                && let Some(bytes) = self.decrypt(room)?
            {
                return Poll::Ready(Ok(bytes));
            }
            let limit = self.read_limit();
            let room = room.min(self.buffer.len());
            let received = ready!(self.tcp.poll_receive(cx, &mut self.buffer[..room], limit));
            let bytes = received.map_err(|e| self.note_io(e, "receive"))?;
            self.note_read(bytes, limit);
            match self.outer.as_deref_mut() {
                Some(outer) => outer.take(&self.buffer[..bytes])?,
                None => return Poll::Ready(Ok(bytes)),
            }
        }
    }

    /// Takes the contents of one record from the outer TLS, if one is complete; 0 means the end.
    fn decrypt(&mut self, room: usize) -> io::Result<Option<usize>> {
        let Some(outer) = self.outer.as_deref_mut() else { return Ok(None) };
        loop {
            let mut reader = outer.layer.session.connection.reader();
            match reader.fill_buf() {
                Ok(decrypted) => {
                    let bytes = decrypted.len().min(room).min(self.buffer.len());
                    self.buffer[..bytes].copy_from_slice(&decrypted[..bytes]);
                    reader.consume(bytes);
                    outer.layer.read += bytes as u64;
                    return Ok(Some(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !outer.ended => {}
                Err(_) => return Ok(Some(0)),
            }
            if outer.sealed.is_empty() {
                return Ok(None);
            }
            match process_record(&mut outer.layer, &outer.sealed, &self.tcp.recorder()) {
                Ok(taken) => outer.sealed.advance(taken),
                Err(cause) => {
                    self.fault.get_or_insert(cause);
                    return Err(io::ErrorKind::InvalidData.into());
                }
            }
        }
    }
}
