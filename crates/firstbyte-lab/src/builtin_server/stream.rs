//! A TLS connection over TCP on which the server may write before the handshake has ended.
//!
//! In: a socket, the server's configurations. Out: a stream of plaintext. Existing stream types deliver
//! early data only once the client's Finished has arrived; then 0-RTT would save nothing.

use std::io::{self, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{Accepted, AcceptedAlert, Acceptor, ServerConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::hello::offers_tls13;
use super::pause::pause;
use super::tls::Tls;

/// A ClientHello with a hybrid key share and a ticket has about 1,900 bytes.
const HELLO_BUFFER: usize = 4_096;

/// When a server starts to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerFrom {
    /// From the first early data on.
    EarlyData,
    /// From the client's Finished on.
    Finished,
}

/// Accepts a connection. Returns when the handshake has ended, or when the server may answer early data.
pub(super) async fn accept(
    mut socket: TcpStream,
    tls: &Tls,
    handshake_delay: Duration,
    answer_from: AnswerFrom,
) -> io::Result<TlsStream> {
    let (accepted, config, rest) = hello(&mut socket, tls).await?;
    pause(handshake_delay).await;
    let mut connection = match accepted.into_connection(config) {
        Ok(connection) => connection,
        Err((error, alert)) => return Err(refuse(&mut socket, error, alert).await),
    };
    let mut rest = rest.as_slice();
    while !rest.is_empty() {
        connection.read_tls(&mut rest)?;
    }
    let early = Arc::new(AtomicBool::new(false));
    let mut stream = TlsStream { socket, tls: connection, early };
    std::future::poll_fn(|cx| stream.poll_handshake(cx, answer_from)).await?;
    Ok(stream)
}

/// Reads the ClientHello. Returns it, the configuration for it, and the bytes after it, not yet processed.
async fn hello(
    socket: &mut TcpStream,
    tls: &Tls,
) -> io::Result<(Accepted, Arc<ServerConfig>, Vec<u8>)> {
    let mut acceptor = Acceptor::default();
    let mut seen = Vec::with_capacity(HELLO_BUFFER);
    let mut given = 0;
    loop {
        if socket.read_buf(&mut seen).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while given < seen.len() {
            given += acceptor.read_tls(&mut &seen[given..])?;
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let config = tls.for_client(&accepted.client_hello(), offers_tls13(&seen));
                    return Ok((accepted, config, seen.split_off(given)));
                }
                Err((error, alert)) => return Err(refuse(socket, error, alert).await),
            }
        }
    }
}

/// Sends the alert that says why the server refuses the connection.
async fn refuse(
    socket: &mut TcpStream,
    error: rustls::Error,
    mut alert: AcceptedAlert,
) -> io::Error {
    let mut bytes = Vec::new();
    // A peer that is gone does not need the alert.
    if alert.write_all(&mut bytes).is_ok() {
        let _ = socket.write_all(&bytes).await;
    }
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// An accepted connection.
pub(super) struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
    early: Arc<AtomicBool>,
}

impl TlsStream {
    pub(super) fn tls(&self) -> &ServerConnection {
        &self.tls
    }

    /// Whether everything read from the stream so far came in early data.
    pub(super) fn early(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.early)
    }

    fn poll_handshake(
        &mut self,
        cx: &mut Context<'_>,
        answer_from: AnswerFrom,
    ) -> Poll<io::Result<()>> {
        loop {
            self.process(cx)?;
            ready!(self.poll_push(cx))?;
            if self.tls.early_data().is_some() {
                self.early.store(true, Ordering::Relaxed);
                if answer_from == AnswerFrom::EarlyData {
                    return Poll::Ready(Ok(()));
                }
            }
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_pull(cx))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Processes received records. On an error, sends as much of the alert as the socket accepts now.
    fn process(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.tls.process_new_packets().map(drop).map_err(|error| {
            let _ = self.poll_push(cx);
            io::Error::new(io::ErrorKind::InvalidData, error)
        })
    }

    /// Sends the records that TLS has ready.
    fn poll_push(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            let mut socket = Socket { socket: &mut self.socket, cx };
            match self.tls.write_tls(&mut socket) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads from the socket; 0 means end of stream.
    fn poll_pull(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        match self.tls.read_tls(&mut Socket { socket: &mut self.socket, cx }) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            done => Poll::Ready(done),
        }
    }

    fn poll_write_with(
        &mut self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            let taken = write(&mut self.tls.writer())?;
            let pushed = self.poll_push(cx)?;
            // If nothing was taken, rustls's buffer is full until some of it has been sent.
            if taken > 0 {
                return Poll::Ready(Ok(taken));
            }
            ready!(pushed);
        }
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(mut early_data) = this.tls.early_data() {
                let count = early_data.read(buffer.initialize_unfilled())?;
                if count > 0 {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
            }
            match this.tls.reader().read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    this.early.store(false, Ordering::Relaxed);
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(this.poll_pull(cx))?;
            this.process(cx)?;
            // Tickets follow the Finished. A peer that cannot take them yet gets them with the next write.
            let _ = this.poll_push(cx)?;
        }
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_write_with(cx, |writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        self.get_mut().poll_write_with(cx, |writer| writer.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_push(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // Responses to early data may be complete before the handshake is. Closing now would send no
        // tickets, and would answer the client's Finished with a reset that may overtake the response.
        while this.tls.is_handshaking() {
            match ready!(this.poll_pull(cx)) {
                Ok(count) if count > 0 && this.process(cx).is_ok() => {}
                // Do not wait for a client that is gone or sends invalid records.
                _ => break,
            }
        }
        // Sent once: rustls ignores a second call.
        this.tls.send_close_notify();
        ready!(this.poll_push(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

/// The socket with the interface that rustls needs: it returns an error instead of waiting.
struct Socket<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

fn or_would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Read for Socket<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(buffer);
        or_would_block(Pin::new(&mut *self.socket).poll_read(self.cx, &mut buffer))?;
        Ok(buffer.filled().len())
    }
}

impl Write for Socket<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.socket).poll_write(self.cx, bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.socket).poll_write_vectored(self.cx, parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
