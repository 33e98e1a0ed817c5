//! Sends single `POST` requests to other HTTP servers, on a separate thread.
//!
//! In: a destination, header fields and a body. Out: the status of the response and, if requested, the beginning of its
//! body. Nothing is retried here, and errors contain no secrets.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use firstbyte_probe::probe::{Secret, Target, describe_io};
use http::header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// TLS client configuration with the trusted certificates.
pub(crate) type Tls = Arc<ClientConfig>;

/// Trusts the system's root certificates.
pub(crate) fn system_tls() -> io::Result<Tls> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    tls_with(roots)
}

pub(crate) fn tls_with(roots: RootCertStore) -> io::Result<Tls> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(io::Error::other)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

/// A task of a thread.
pub(crate) type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns a thread called `name` that runs all of `work` concurrently until it is done, or until `end` after `ending`
/// changes.
pub(crate) fn work_on_thread(
    name: &str,
    work: Vec<Work>,
    mut ending: watch::Receiver<bool>,
    end: Duration,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut all: JoinSet<()> = JoinSet::new();
            for one in work {
                all.spawn(one);
            }
            let finished = async { while all.join_next().await.is_some() {} };
            let time_is_up = async {
                // Also returns if the sender is gone.
                let _ = ending.changed().await;
                tokio::time::sleep(end).await;
            };
            tokio::select! {
                () = finished => {}
                () = time_is_up => {}
            }
        });
        // Do not wait for a running name lookup.
        runtime.shutdown_background();
    })
}

/// Destination of requests, and the headers of all of them.
pub(crate) struct Destination {
    host: String,
    port: u16,
    /// Path and query, which may be secret.
    path: Secret<String>,
    headers: HeaderMap,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Response to a request.
pub(crate) struct PostAnswer {
    pub(crate) status: StatusCode,
    /// Requested delay before the next attempt.
    pub(crate) retry_after: Option<Duration>,
    /// Beginning of the body.
    pub(crate) body: Vec<u8>,
}

impl Destination {
    /// Requests to `target` with `content_type`, unless `headers` override it.
    pub(crate) fn new(
        target: &Target,
        content_type: &'static str,
        headers: &[(String, Secret<String>)],
        tls: Option<&Tls>,
    ) -> io::Result<Self> {
        let mut all = HeaderMap::new();
        let host = HeaderValue::try_from(target.authority()).map_err(io::Error::other)?;
        all.insert(HOST, host);
        all.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let agent = concat!("firstbyte/", env!("CARGO_PKG_VERSION"));
        all.insert(USER_AGENT, HeaderValue::from_static(agent));
        for (name, value) in headers {
            let name = HeaderName::try_from(name.as_str()).map_err(io::Error::other)?;
            let mut value =
                HeaderValue::try_from(value.reveal().as_str()).map_err(io::Error::other)?;
            value.set_sensitive(true);
            all.insert(name, value);
        }
        let tls = match (target.tls, tls) {
            (false, _) => None,
            (true, None) => return Err(io::Error::other("no root certificates for https")),
            (true, Some(tls)) => {
                let name = ServerName::try_from(target.host.clone()).map_err(io::Error::other)?;
                Some((TlsConnector::from(Arc::clone(tls)), name))
            }
        };
        let query = target.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self {
            host: target.host.clone(),
            port: target.port,
            path: Secret::new(format!("{}{query}", target.url.path())),
            headers: all,
            tls,
        })
    }

    /// Posts `body` with further header fields over a new connection, and reads at most `kept` bytes of the response
    /// body.
    ///
    /// Errors are texts.
    pub(crate) async fn post(
        &self,
        further: &[(&'static str, &str)],
        body: Bytes,
        kept: usize,
    ) -> Result<PostAnswer, String> {
        let request = self.request(further, body)?;
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| describe_io(&error))?;
        match &self.tls {
            None => exchange(TokioIo::new(stream), request, kept).await,
            Some((connector, name)) => {
                let shaken = connector.connect(name.clone(), stream).await;
                let stream = shaken.map_err(|error| describe_io(&error))?;
                exchange(TokioIo::new(stream), request, kept).await
            }
        }
    }

    fn request(
        &self,
        further: &[(&'static str, &str)],
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::post(self.path.reveal().as_str())
            .body(Full::new(body))
            .map_err(|_| "its URL is not usable".to_owned())?;
        *request.headers_mut() = self.headers.clone();
        for (name, value) in further {
            // All values are ASCII.
            if let Ok(value) = HeaderValue::try_from(*value) {
                request.headers_mut().insert(*name, value);
            }
        }
        Ok(request)
    }
}

async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
    kept: usize,
) -> Result<PostAnswer, String>
where
    S: Read + Write + Unpin + Send + 'static,
{
    let in_words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = http1::handshake(stream).await.map_err(in_words)?;
    // Ends with this function.
    let mut beside = JoinSet::new();
    beside.spawn(async move { drop(connection.await) });
    let (head, body) = sender.send_request(request).await.map_err(in_words)?.into_parts();
    let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = beginning(body, kept).await;
    Ok(PostAnswer { status: head.status, retry_after: seconds.map(Duration::from_secs), body })
}

/// The first bytes of `body`, up to `kept`. Read errors are ignored, because the status is what matters.
async fn beginning(mut body: Incoming, kept: usize) -> Vec<u8> {
    let mut begun = Vec::new();
    while begun.len() < kept {
        let Some(Ok(frame)) = body.frame().await else { break };
        if let Some(data) = frame.data_ref() {
            begun.extend_from_slice(&data[..data.len().min(kept - begun.len())]);
        }
    }
    begun
}
