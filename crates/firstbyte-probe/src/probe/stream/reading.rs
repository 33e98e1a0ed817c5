//! Reading: how much at a time, what it contains, and which marks to set.

use std::io::{self, BufRead};
use std::ops::Range;
use std::task::{Context, Poll, ready};

use firstbyte_core::timeline::{Cause, Direction, Mark, PhaseName};

use super::records::process_record;
use super::{FIRST_BUFFER, Stream};
use crate::net::Arrival;
use crate::probe::observation::When;

/// Maximum number of bytes per read when nothing is left to time.
pub(super) const BULK: usize = 64 * 1024;
/// This many bytes of a response are read segment by segment: the first rounds of a congestion window show what delayed
/// it.
const TIMED: usize = 128 * 1024;

impl Stream {
    /// Receives until the server has sent a session for another connection.
    pub(in crate::probe) fn poll_session(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.tls.as_ref().is_none_or(|tls| tls.session.left_a_session()) {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_read(cx, FIRST_BUFFER))?;
            if self.plaintext.is_empty() {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Receives at most `room` bytes of plaintext, available from [`Self::plaintext`]; empty means the end.
    pub(in crate::probe) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
    ) -> Poll<io::Result<()>> {
        self.plaintext.clear();
        loop {
            if let Some(tls) = &mut self.tls {
                let mut reader = tls.session.connection.reader();
                match reader.fill_buf() {
                    Ok(decrypted) => {
                        let bytes = decrypted.len().min(room);
                        self.plaintext.extend_from_slice(&decrypted[..bytes]);
                        reader.consume(bytes);
                        tls.read += bytes as u64;
                        break;
                    }
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock && !self.ended => {}
                    // Closed without `close_notify`; HTTP knows whether the response was complete.
                    Err(_) => {
                        self.ended_abruptly = true;
                        break;
                    }
                }
                ready!(self.poll_fill(cx))?;
            } else {
                if self.undigested.is_empty() {
                    self.undigested = 0..ready!(self.poll_receive(cx, room))?;
                }
                let Range { start, end } = self.undigested;
                let end = end.min(start.saturating_add(room));
                self.plaintext.extend_from_slice(&self.buffer[start..end]);
                self.undigested.start = end;
                break;
            }
        }
        self.note_plaintext();
        Poll::Ready(Ok(()))
    }

    /// The bytes last received by [`Self::poll_read`].
    pub(in crate::probe) fn plaintext(&self) -> &[u8] {
        &self.plaintext
    }

    /// Maximum number of bytes of the next read.
    ///
    /// A read that takes bytes from several segments has the stamp of the last of them. Timed data is therefore read
    /// segment by segment, and with TLS not beyond the record: a record then begins and ends with its own stamp,
    /// however small it is and however late the process reads.
    pub(super) fn read_limit(&self) -> usize {
        let outer = self.outer.as_ref().map(|outer| &outer.layer);
        match outer.or(self.tls.as_ref()) {
            _ if self.response_bytes >= TIMED => BULK,
            Some(tls) => tls.received.sure_of_record().min(self.segment_bytes - self.in_segment),
            None => self.segment_bytes - self.in_segment,
        }
    }

    /// Receives ciphertext and passes it to TLS up to the next plaintext, which must be read before TLS accepts more.
    /// Stops at the end of the handshake.
    pub(super) fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.undigested.is_empty() {
            if std::mem::take(&mut self.grow) {
                self.buffer.resize(self.buffer.len() * 2, 0);
            }
            let received = ready!(self.poll_receive(cx, usize::MAX))?;
            self.undigested = 0..received;
            self.grow = received == self.buffer.len() && received < BULK;
        }
        let Some(tls) = &mut self.tls else { return Poll::Ready(Ok(())) };
        if self.undigested.is_empty() {
            self.ended = true;
            tls.session.connection.read_tls(&mut io::empty())?;
            if tls.early.is_some() && self.is_handshaking() {
                self.fault.get_or_insert(Cause::ClosedInHandshake);
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
            return Poll::Ready(Ok(()));
        }
        let undecided = tls.early.as_ref().is_some_and(|early| early.accepted.is_none());
        let decrypted = tls.decrypted;
        let handshaking = tls.session.connection.is_handshaking();
        while !self.undigested.is_empty()
            && tls.decrypted == decrypted
            && tls.session.connection.is_handshaking() == handshaking
        {
            let bytes = &self.buffer[self.undigested.clone()];
            match process_record(tls, bytes, &self.tcp.recorder()) {
                Ok(taken) => {
                    self.undigested.start += taken;
                    if std::mem::take(&mut tls.renegotiates) {
                        self.seen.borrow_mut().renegotiates = true;
                    }
                }
                Err(cause) => {
                    self.fault.get_or_insert(cause);
                    // Send the alert that tells the server why; only the original error counts.
                    let _ = self.poll_send_all(cx);
                    return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
                }
            }
        }
        if undecided && !self.is_handshaking() {
            self.settle_early_data()?;
            // Bytes that cannot be sent now leave with the next flush.
            if let Poll::Ready(Err(error)) = self.poll_send_all(cx) {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Called when the handshake is complete. Sends the request again if the server rejected the early data, and the
    /// part that did not fit into it.
    fn settle_early_data(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        let spoken = tls.session.spoken_before.take().and_then(|spoken| spoken.alpn);
        tls.session.remember_protocol();
        let connection = &mut tls.session.connection;
        let Some(early) = &mut tls.early else { return Ok(()) };
        let accepted = connection.is_early_data_accepted();
        early.accepted = Some(accepted);
        if accepted {
            let rest = std::mem::take(&mut early.rest);
            io::Write::write_all(&mut connection.writer(), &rest)?;
        } else {
            if connection.alpn_protocol().map(<[u8]>::to_vec) != spoken {
                self.fault.get_or_insert(Cause::AlpnMismatch {
                    offered: tls.session.offered.alpn.clone(),
                });
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut again = std::mem::take(&mut early.sent);
            again.append(&mut early.rest);
            self.outgoing_names.append(&mut early.names);
            self.encrypt()?;
            self.request_at = Some(self.outgoing.len());
            (self.request_start_marked, self.request_end_marked) = (false, false);
            self.seen.borrow_mut().phase = PhaseName::Send;
            if let Some(tls) = &mut self.tls {
                io::Write::write_all(&mut tls.session.connection.writer(), &again)?;
            }
        }
        Ok(())
    }

    /// Records a read. Unless it reached exactly its limit, it ended with a segment: it took everything there was, or
    /// the rest of a segment.
    pub(super) fn note_read(&mut self, bytes: usize, limit: usize) {
        let ended = bytes != limit;
        self.in_segment = if ended { 0 } else { (self.in_segment + bytes) % self.segment_bytes };
        if self.watch.response_started {
            self.response_bytes += bytes;
        }
    }

    fn note_plaintext(&mut self) {
        if self.plaintext.is_empty() {
            return;
        }
        let begun = self.watch.response_started;
        let names = self.watch.received(&self.plaintext);
        let recorder = self.tcp.recorder();
        for name in names {
            recorder.borrow_mut().name_message(Direction::Received, name);
        }
        if let Some(offset) = self.watch.interim_offset.filter(|_| !self.interim_marked)
            && let Some([_, readable]) = self.arrivals_of(offset)
        {
            self.seen.borrow_mut().mark(Mark::InterimResponseStart, When::Arrival(readable));
            self.interim_marked = true;
        }
        if !begun {
            self.mark_response();
        }
        self.note_head_end();
        self.note_answered();
        if let Some(tls) = self.tls.as_mut().filter(|_| self.watch.response_started) {
            tls.records.clear();
        }
    }

    /// Called when HTTP has read the head of the final response.
    pub(in crate::probe) fn note_final_head(&mut self) {
        if !self.watch.response_started {
            self.watch.note_final_head();
            self.mark_response();
            self.note_head_end();
        }
    }

    /// Records when the last byte of the final response's head became readable, once it has.
    fn note_head_end(&mut self) {
        let watch = &self.watch;
        let Some(end) = watch.head_end.filter(|_| watch.response_started) else { return };
        if end < watch.received_bytes()
            && let Some([_, readable]) = self.arrivals_of(end)
        {
            self.watch.head_end = None;
            self.seen.borrow_mut().head_end = Some(readable);
        }
    }

    /// Marks the beginning of the final response, if it has begun.
    fn mark_response(&mut self) {
        if !self.watch.response_started {
            return;
        }
        let mut seen = self.seen.borrow_mut();
        seen.phase = PhaseName::Receive;
        // An early response ends the request at that point.
        if let Some(id) = self.request_sent.filter(|_| !self.request_end_marked) {
            seen.mark(Mark::RequestEnd, When::Departure(id));
            self.request_end_marked = true;
        }
        if let Some([first, readable]) = self.arrivals_of(self.watch.response_offset) {
            if first.stamp.at < readable.stamp.at {
                seen.mark(Mark::ResponseFirstPacket, When::Arrival(first));
            }
            seen.mark(Mark::ResponseStart, When::Arrival(readable));
        }
    }

    /// When the plaintext at `offset` arrived, and when it became readable because its record was complete.
    pub(super) fn arrivals_of(&self, offset: u64) -> Option<[Arrival; 2]> {
        let [first, last] = match &self.tls {
            Some(tls) => tls.stream_offsets(offset)?,
            None => [offset, offset],
        };
        Some([self.arrival_below(first)?, self.arrival_below(last)?])
    }
}
