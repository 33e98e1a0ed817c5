//! What the built-in server answers.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

/// The largest body that `/bytes/N` gives.
const MAX_BYTES: usize = 100_000_000;

/// Answers the requests of one connection until it ends.
pub(super) async fn serve<S>(
    stream: S,
    h2: bool,
    page_bytes: usize,
    think_time: Duration,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| async move {
        // A connection closed on an unread body ends in a reset, which may overtake the response.
        while let Some(Ok(_)) = request.body_mut().frame().await {}
        if !think_time.is_zero() {
            tokio::time::sleep(think_time).await;
        }
        let mut response = respond(request.uri().path(), page_bytes);
        if request.method() == Method::HEAD {
            // Over HTTP/2 hyper would send the body all the same.
            let length = response.body().size_hint().exact().unwrap_or(0);
            response.headers_mut().insert(CONTENT_LENGTH, length.into());
            *response.body_mut() = Full::default();
        }
        Ok::<_, Infallible>(response)
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

fn respond(path: &str, page_bytes: usize) -> Response<Full<Bytes>> {
    let bytes = path.strip_prefix("/bytes/").and_then(|number| number.parse::<usize>().ok());
    match (path, bytes) {
        ("/", _) => with_body(StatusCode::OK, page_bytes),
        ("/redirect", _) => {
            let mut response = with_body(StatusCode::FOUND, 0);
            response.headers_mut().insert(LOCATION, hyper::header::HeaderValue::from_static("/"));
            response
        }
        (_, Some(bytes)) if bytes <= MAX_BYTES => with_body(StatusCode::OK, bytes),
        _ => with_body(StatusCode::NOT_FOUND, 0),
    }
}

fn with_body(status: StatusCode, bytes: usize) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page(bytes))));
    *response.status_mut() = status;
    let text = hyper::header::HeaderValue::from_static("text/plain");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// Text of exactly this many bytes.
pub(crate) fn page(bytes: usize) -> Vec<u8> {
    b"The quick brown fox jumps over the lazy dog.\n".iter().copied().cycle().take(bytes).collect()
}
