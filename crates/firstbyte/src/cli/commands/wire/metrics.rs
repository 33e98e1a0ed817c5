//! Serves metrics over HTTP/1.1: `GET /metrics` and nothing else.
//!
//! Clients are limited in number, bytes and time, because whoever may connect must not be able to disturb the
//! capture. It is written by hand, since a connection carries only one request.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::cli::exit::{self, Problem};
use firstbyte_probe::probe::describe_io;
use firstbyte_report::wire::metrics::Metrics;

const AT_ONCE: usize = 8;
const REQUEST_BYTES: usize = 8 * 1024;
const PATIENCE: Duration = Duration::from_secs(10);

/// The server for metrics.
pub(super) struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    metrics: Arc<Mutex<Metrics>>,
}

impl Endpoint {
    pub(super) fn bind(at: SocketAddr) -> Result<Self, Problem> {
        let bound = TcpListener::bind(at).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = bound.map_err(|error| {
            let why = describe_io(&error);
            let problem = Problem::new(exit::USAGE, format!("cannot serve metrics at {at}: {why}"));
            match error.kind() {
                io::ErrorKind::AddrInUse => problem.hint("another program uses that port"),
                _ => problem,
            }
        })?;
        Ok(Self { listener, address, metrics: Arc::default() })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The metrics being served, for the capture to update.
    pub(super) fn metrics(&self) -> Arc<Mutex<Metrics>> {
        Arc::clone(&self.metrics)
    }

    /// Serves forever.
    pub(super) async fn serve(self) {
        let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) else { return };
        let mut askers: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors: wait until others are closed.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let metrics = Arc::clone(&self.metrics);
            askers.retain(|asker| !asker.is_finished());
            // New clients are answered at once: the oldest connection is idle or slow, so drop it.
            if askers.len() >= AT_ONCE
                && let Some(oldest) = askers.pop_front()
            {
                oldest.abort();
            }
            let asker = tokio::spawn(async move {
                // A client that goes away or is slow gets no answer; that is not an error here.
                let _ = timeout(PATIENCE, answer(stream, &metrics)).await;
            });
            askers.push_back(asker.abort_handle());
        }
    }
}

async fn answer(mut stream: TcpStream, metrics: &Mutex<Metrics>) -> io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await?;
        if read == 0 || request.len() + read > REQUEST_BYTES {
            return Ok(());
        }
        request.extend_from_slice(&piece[..read]);
    }
    let line = String::from_utf8_lossy(&request);
    let line = line.lines().next().unwrap_or_default();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            let text = metrics.lock().unwrap_or_else(PoisonError::into_inner).text();
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text)
        }
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain; charset=utf-8", "metrics are at /metrics\n".into())
        }
        _ => ("405 Method Not Allowed\r\nallow: GET, HEAD", "text/plain", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn idle_connections_keep_nobody_from_the_metrics() {
        let endpoint = Endpoint::bind(([127, 0, 0, 1], 0).into()).unwrap();
        let at = endpoint.address();
        let serving = tokio::spawn(endpoint.serve());
        let mut idle = Vec::new();
        for n in 0..3 * AT_ONCE {
            let mut stream = TcpStream::connect(at).await.unwrap();
            // Half of them have begun a request.
            if n % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\n").await.unwrap();
            }
            idle.push(stream);
        }
        let asking = async {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = timeout(PATIENCE / 5, asking).await.expect("the idle hold the place");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        serving.abort();
    }
}
