//! A server of HTTP/1.1 for an [`Exporter`].

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use crate::Exporter;

/// Connections at once: a scrape has one, and takes as long as its probe.
const MOST_CONNECTIONS: usize = 4096;
/// How long a request's head may take, and how long a connection may be silent between two: scrapers keep theirs open.
const HEAD_PATIENCE: Duration = Duration::from_secs(150);

/// Serves at each of `listeners` until `end`.
///
/// # Errors
/// When it cannot listen.
pub async fn serve(
    exporter: &Exporter,
    listeners: Vec<TcpListener>,
    end: impl Future<Output = ()>,
) -> io::Result<()> {
    let local = LocalSet::new();
    let open = Rc::new(Cell::new(0_usize));
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let (exporter, open) = (exporter.clone(), Rc::clone(&open));
        local.spawn_local(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) if open.get() < MOST_CONNECTIONS => {
                        begin(exporter.clone(), stream, Place::taken(&open));
                    }
                    // Too many: closing says so at once.
                    Ok(_) => {}
                    // Out of descriptors, perhaps: others have to go first.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        });
    }
    local.run_until(end).await;
    Ok(())
}

/// A connection's place, free again when it is dropped.
struct Place(Rc<Cell<usize>>);

impl Place {
    fn taken(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

fn begin(exporter: Exporter, stream: TcpStream, place: Place) {
    spawn_local(async move {
        let _place = place;
        let service = service_fn(|request: Request<Incoming>| {
            let exporter = exporter.clone();
            async move {
                let (head, _) = request.into_parts();
                let answer = exporter.handle(&head.method, &head.uri, &head.headers).await;
                Ok::<_, Infallible>(answer)
            }
        });
        // Who goes away ends his probe.
        let _ = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_buf_size(64 * 1024)
            .serve_connection(TokioIo::new(stream), service)
            .await;
    });
}
