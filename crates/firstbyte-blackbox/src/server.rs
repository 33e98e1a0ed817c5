//! An HTTP/1.1 server on one thread with bounded resources, for an [`Exporter`] or any other source of responses.
//!
//! The number of connections is limited; when it is reached, a new connection replaces the one that has been idle
//! longest. There are time limits for sending a request's head and for reading its response.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Sleep, sleep};

use crate::{Answer, Exporter};

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Concurrent connections.
    pub connections: usize,
    /// Time for a request's head, and for silence between two requests: scrapers keep connections open.
    pub head: Duration,
    /// Time for reading a response.
    pub answer: Duration,
}

impl ServerLimits {
    /// Limits of an exporter: a scrape has one connection, and takes as long as its probe.
    pub const EXPORTER: Self =
        Self { connections: 4096, head: Duration::from_secs(150), answer: Duration::from_secs(60) };
}

/// Serves `exporter` at each of `listeners` until `end`.
///
/// # Errors
/// If it cannot listen.
pub async fn serve(
    exporter: &Exporter,
    listeners: Vec<TcpListener>,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let exporter = exporter.clone();
    let answer = move |request: Request<Incoming>| {
        let exporter = exporter.clone();
        async move {
            let (head, _) = request.into_parts();
            exporter.handle(&head.method, &head.uri, &head.headers).await
        }
    };
    serve_requests(answer, listeners, ServerLimits::EXPORTER, end).await
}

/// Serves the responses of `answer` at each of `listeners` until `end`; requests in progress are then dropped.
///
/// # Errors
/// If it cannot listen.
pub async fn serve_requests<A, F>(
    answer: A,
    listeners: Vec<TcpListener>,
    limits: ServerLimits,
    end: impl Future<Output = ()>,
) -> io::Result<()>
where
    A: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = Answer> + 'static,
{
    let local = LocalSet::new();
    let answer = Rc::new(answer);
    let places = Rc::new(RefCell::new(Places::default()));
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (answer, places) = (Rc::clone(&answer), Rc::clone(&places));
        local.spawn_local(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        // There are too many connections, and all are busy: refuse this one by closing it at once.
                        if let Some(place) = Place::take(&places, limits.connections) {
                            begin(Rc::clone(&answer), stream, place, limits);
                        }
                    }
                    // Perhaps there are no file descriptors left: wait until others are closed.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
    local.run_until(end).await;
    Ok(())
}

/// The open connections.
#[derive(Default)]
struct Places {
    taken: usize,
    /// Idle connections in the order in which they became idle, each with its means to end it.
    idle: BTreeMap<u64, Rc<Notify>>,
    next: u64,
}

/// The place of a connection, which is freed on drop.
struct Place {
    places: Rc<RefCell<Places>>,
    ended: Rc<Notify>,
    idle: RefCell<Option<u64>>,
}

impl Place {
    /// Takes one of `most` places; if all are taken, ends the connection that has been idle longest.
    fn take(places: &Rc<RefCell<Places>>, most: usize) -> Option<Self> {
        {
            let mut all = places.borrow_mut();
            if all.taken >= most {
                // That connection frees its place itself when it ends.
                let (_, oldest) = all.idle.pop_first()?;
                oldest.notify_one();
            }
            all.taken += 1;
        }
        let place =
            Self { places: Rc::clone(places), ended: Rc::default(), idle: RefCell::default() };
        place.is_idle();
        Some(place)
    }

    fn is_idle(&self) {
        let mut all = self.places.borrow_mut();
        let number = all.next;
        all.next += 1;
        all.idle.insert(number, Rc::clone(&self.ended));
        *self.idle.borrow_mut() = Some(number);
    }

    fn is_busy(&self) {
        if let Some(number) = self.idle.borrow_mut().take() {
            self.places.borrow_mut().idle.remove(&number);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_busy();
        self.places.borrow_mut().taken -= 1;
    }
}

fn begin<A, F>(answer: Rc<A>, stream: TcpStream, place: Place, limits: ServerLimits)
where
    A: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = Answer> + 'static,
{
    spawn_local(async move {
        let place = &place;
        let service = service_fn(|request: Request<Incoming>| {
            let answer = Rc::clone(&answer);
            async move {
                place.is_busy();
                let answer = answer(request).await;
                // Idle again while the client reads the response, so that a slow reader can be replaced.
                place.is_idle();
                Ok::<_, Infallible>(answer)
            }
        });
        let stream = Timed { stream, patience: limits.answer, until: None };
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            biased;
            () = place.ended.notified() => {}
            // A client that goes away ends its probe.
            _ = serving => {}
        }
    });
}

/// A stream that limits how long a client may take to read a response.
///
/// The time starts with the first byte written after something was read.
struct Timed {
    stream: TcpStream,
    patience: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl Timed {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let patience = self.patience;
        let until = self.until.get_or_insert_with(|| Box::pin(sleep(patience)));
        match until.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            self.until = None;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::SocketAddr;

    use bytes::Bytes;
    use http::Response;
    use http_body_util::Full;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const LIMITS: ServerLimits = ServerLimits {
        connections: 2,
        head: Duration::from_secs(60),
        answer: Duration::from_millis(100),
    };
    /// More bytes than socket buffers hold.
    const LARGE: usize = 64 << 20;

    /// Serves `/large`, `/never` and all other paths. Passes the address and the number of requests so far to `act`.
    fn with_server<F: Future<Output = ()>>(act: impl FnOnce(SocketAddr, Rc<Cell<usize>>) -> F) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let come = Rc::new(Cell::new(0));
        let seen = Rc::clone(&come);
        let answer = move |request: Request<Incoming>| {
            seen.set(seen.get() + 1);
            async move {
                if request.uri().path() == "/never" {
                    std::future::pending::<()>().await;
                }
                let size = if request.uri().path() == "/large" { LARGE } else { 2 };
                Response::new(Full::new(Bytes::from(vec![b'x'; size])))
            }
        };
        runtime
            .block_on(serve_requests(answer, vec![listener], LIMITS, act(address, come)))
            .unwrap();
    }

    async fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// The first bytes of a response; empty if the connection was closed.
    async fn begin_of(stream: &mut TcpStream) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        let read = stream.read(&mut bytes).await.unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    #[test]
    fn the_connection_that_is_idle_longest_gives_way() {
        with_server(|address, _| async move {
            let mut first = ask(address, "/").await;
            assert_eq!(begin_of(&mut first).await, b"HTTP/1.1 200");
            let mut second = ask(address, "/").await;
            assert_eq!(begin_of(&mut second).await, b"HTTP/1.1 200");
            let mut third = ask(address, "/").await;
            assert_eq!(begin_of(&mut third).await, b"HTTP/1.1 200");
            let mut rest = Vec::new();
            first.read_to_end(&mut rest).await.unwrap();
            // The second connection is still open.
            second.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n").await.unwrap();
            let mut more = vec![0; 400];
            let mut seen = Vec::new();
            while seen.windows(12).filter(|w| w == b"HTTP/1.1 200").count() < 1 {
                let read = second.read(&mut more).await.unwrap();
                assert!(read > 0, "the second connection was closed");
                seen.extend_from_slice(&more[..read]);
            }
        });
    }

    #[test]
    fn where_all_are_busy_the_next_one_is_closed() {
        with_server(|address, come| async move {
            let busy = [ask(address, "/never").await, ask(address, "/never").await];
            while come.get() < busy.len() {
                tokio::task::yield_now().await;
            }
            let mut next = ask(address, "/").await;
            assert_eq!(begin_of(&mut next).await, b"");
            drop(busy);
        });
    }

    #[test]
    fn an_answer_that_nobody_reads_ends() {
        with_server(|address, _| async move {
            let mut slow = ask(address, "/large").await;
            assert_eq!(begin_of(&mut slow).await, b"HTTP/1.1 200");
            sleep(LIMITS.answer * 3).await;
            let mut rest = Vec::new();
            // The connection is reset or closed before the whole response has been read.
            let _ = slow.read_to_end(&mut rest).await;
            assert!(rest.len() < LARGE, "{}", rest.len());
        });
    }
}
