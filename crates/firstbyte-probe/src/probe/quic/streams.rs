//! QUIC streams as the HTTP/3 stack reads and writes them.
//!
//! One task polls everything, and polls again after every datagram, so nothing here wakes a task.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::quic::{
    BidiStream as Bidi, Connection as H3Connection, ConnectionErrorIncoming, OpenStreams,
    RecvStream, SendStream, StreamErrorIncoming, StreamId as H3StreamId, WriteBuf,
};
use quinn_proto::{ConnectionError, Dir, ReadError, ReadableError, StreamId, VarInt, WriteError};

use super::connection::{Lost, SharedConnection};

/// The streams of one connection.
#[derive(Clone)]
pub(in crate::probe) struct Streams(pub SharedConnection);

impl Streams {
    fn open(&self, direction: Dir) -> Poll<Result<StreamId, ConnectionErrorIncoming>> {
        let mut connection = self.0.borrow_mut();
        if let Some(lost) = &connection.lost {
            return Poll::Ready(Err(incoming(lost)));
        }
        match connection.quic.streams().open(direction) {
            Some(id) => Poll::Ready(Ok(id)),
            None => Poll::Pending,
        }
    }
}

impl OpenStreams<Bytes> for Streams {
    type BidiStream = Stream;
    type SendStream = Stream;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, StreamErrorIncoming>> {
        self.open(Dir::Bi).map(|opened| {
            let id = opened.map_err(on_stream)?;
            self.0.borrow_mut().begin_request(id);
            Ok(Stream::new(self, id))
        })
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, StreamErrorIncoming>> {
        self.open(Dir::Uni).map(|opened| Ok(Stream::new(self, opened.map_err(on_stream)?)))
    }

    fn close(&mut self, code: h3::error::Code, reason: &[u8]) {
        let mut connection = self.0.borrow_mut();
        let code = VarInt::from_u64(code.value()).unwrap_or(VarInt::MAX);
        let now = firstbyte_clock::timer_now().into_std();
        connection.quic.close(now, code, Bytes::copy_from_slice(reason));
    }
}

impl H3Connection<Bytes> for Streams {
    type RecvStream = Stream;
    type OpenStreams = Self;

    fn poll_accept_recv(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        self.accept(Dir::Uni)
    }

    fn poll_accept_bidi(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        self.accept(Dir::Bi)
    }

    fn opener(&self) -> Self {
        self.clone()
    }
}

impl Streams {
    fn accept(&self, direction: Dir) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        let mut connection = self.0.borrow_mut();
        match connection.quic.streams().accept(direction) {
            Some(id) => Poll::Ready(Ok(Stream::new(self, id))),
            None => match &connection.lost {
                Some(lost) => Poll::Ready(Err(incoming(lost))),
                None => Poll::Pending,
            },
        }
    }
}

/// A stream, or one direction of it.
pub(in crate::probe) struct Stream {
    streams: Streams,
    id: StreamId,
    writing: Option<WriteBuf<Bytes>>,
}

impl Stream {
    fn new(streams: &Streams, id: StreamId) -> Self {
        Self { streams: streams.clone(), id, writing: None }
    }

    fn h3_id(&self) -> H3StreamId {
        // quinn-proto and h3 both number streams as in RFC 9000 §2.1.
        u64::from(self.id).try_into().unwrap_or_else(|_| unreachable!("a QUIC stream's number"))
    }
}

impl SendStream<Bytes> for Stream {
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut connection = self.streams.0.borrow_mut();
        let Some(data) = &mut self.writing else { return Poll::Ready(Ok(())) };
        while data.has_remaining() {
            match connection.quic.send_stream(self.id).write(data.chunk()) {
                Ok(bytes) => {
                    data.advance(bytes);
                    if let Some(request) = &mut connection.request
                        && request.stream == self.id
                    {
                        request.written += bytes as u64;
                    }
                }
                Err(WriteError::Blocked) => match &connection.lost {
                    Some(lost) => return Poll::Ready(Err(on_stream(incoming(lost)))),
                    None => return Poll::Pending,
                },
                Err(WriteError::Stopped(code)) => {
                    let error_code = code.into_inner();
                    return Poll::Ready(Err(StreamErrorIncoming::StreamTerminated { error_code }));
                }
                Err(error @ WriteError::ClosedStream) => {
                    let error = match &connection.lost {
                        Some(lost) => on_stream(incoming(lost)),
                        None => StreamErrorIncoming::Unknown(Box::new(error)),
                    };
                    return Poll::Ready(Err(error));
                }
            }
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        let mut connection = self.streams.0.borrow_mut();
        let finished = connection.quic.send_stream(self.id).finish();
        Poll::Ready(finished.map_err(|error| StreamErrorIncoming::Unknown(Box::new(error))))
    }

    fn reset(&mut self, code: u64) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let _ = self.streams.0.borrow_mut().quic.send_stream(self.id).reset(code);
    }

    fn send_id(&self) -> H3StreamId {
        self.h3_id()
    }
}

impl RecvStream for Stream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        _: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        let mut connection = self.streams.0.borrow_mut();
        let result = {
            let mut stream = connection.quic.recv_stream(self.id);
            match stream.read(true) {
                Ok(mut chunks) => {
                    let next = chunks.next(usize::MAX);
                    let _ = chunks.finalize();
                    next.map(|chunk| chunk.map(|chunk| chunk.bytes))
                }
                Err(ReadableError::ClosedStream) => Ok(None),
                Err(error @ ReadableError::IllegalOrderedRead) => {
                    return Poll::Ready(Err(StreamErrorIncoming::Unknown(Box::new(error))));
                }
            }
        };
        match result {
            Ok(data) => Poll::Ready(Ok(data)),
            Err(ReadError::Reset(code)) => {
                Poll::Ready(Err(StreamErrorIncoming::StreamTerminated {
                    error_code: code.into_inner(),
                }))
            }
            Err(ReadError::Blocked) => match &connection.lost {
                Some(lost) => Poll::Ready(Err(on_stream(incoming(lost)))),
                None => Poll::Pending,
            },
        }
    }

    fn stop_sending(&mut self, code: u64) {
        let code = VarInt::from_u64(code).unwrap_or(VarInt::MAX);
        let _ = self.streams.0.borrow_mut().quic.recv_stream(self.id).stop(code);
    }

    fn recv_id(&self) -> H3StreamId {
        self.h3_id()
    }
}

impl Bidi<Bytes> for Stream {
    type SendStream = Self;
    type RecvStream = Self;

    fn split(self) -> (Self, Self) {
        let receiving = Self::new(&self.streams, self.id);
        (self, receiving)
    }
}

fn on_stream(connection_error: ConnectionErrorIncoming) -> StreamErrorIncoming {
    StreamErrorIncoming::ConnectionErrorIncoming { connection_error }
}

fn incoming(lost: &Lost) -> ConnectionErrorIncoming {
    match lost {
        Lost::Quic(ConnectionError::ApplicationClosed(close)) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into_inner() }
        }
        Lost::Quic(ConnectionError::TimedOut) => ConnectionErrorIncoming::Timeout,
        Lost::Quic(error) => ConnectionErrorIncoming::Undefined(Arc::new(error.clone())),
        Lost::Socket { kind, .. } => {
            ConnectionErrorIncoming::Undefined(Arc::new(std::io::Error::from(*kind)))
        }
    }
}
