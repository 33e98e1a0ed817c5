//! HTTP/1.1 and HTTP/2 of the built-in server.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::respond::{Connection, Site};

/// Answers the requests of one connection until it ends. `early` says whether the bytes read last
/// arrived as early data.
pub(super) async fn serve<S>(
    stream: S,
    h2: bool,
    site: Arc<Site>,
    connection: Connection,
    early: Arc<AtomicBool>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        let early = early.load(Ordering::Relaxed);
        let (site, connection) = (Arc::clone(&site), connection.clone());
        async move {
            // A connection closed on an unread body ends in a reset, which may overtake the
            // response.
            while let Some(Ok(_)) = request.body_mut().frame().await {}
            let response = site.respond(&request, &connection, early).await;
            Ok::<_, Infallible>(response)
        }
    });
    let stream = TokioIo::new(stream);
    let served = if h2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .serve_connection(stream, service)
            .await
    } else {
        hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(stream, service)
            .await
    };
    served.map_err(io::Error::other)
}
