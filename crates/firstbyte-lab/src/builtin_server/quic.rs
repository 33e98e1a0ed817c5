//! HTTP/3 of the built-in server, with quinn for connections and h3 for requests.

use std::collections::HashSet;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};
use h3::error::StreamError;
use h3::server::RequestResolver;
use http_body_util::BodyExt;
use quinn::congestion::CubicConfig;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connecting, Endpoint, EndpointConfig, Incoming, TokenLog, TokenReuseError, TokioRuntime,
    TransportConfig, ValidationTokenConfig, VarInt, ZeroRttAccepted,
};

use super::config::EarlyData;
use super::pause::pause;
use super::respond::{Connection, TlsFacts};
use super::tls::Tls;
use super::{Numbers, Server};

/// Address validation tokens (NEW_TOKEN) sent on each connection. A client that returns one can get
/// responses to early data longer than three times its request (RFC 9000 §8.1).
const ADDRESS_TOKENS: u32 = 2;
const MAX_USED_TOKENS: usize = 65_536;

/// Size of a datagram before the path is known to carry more (RFC 9000 §14).
const PACKET_BYTES: u64 = 1_200;

/// Time for open connections to learn that the server stops.
const FAREWELL: Duration = Duration::from_millis(100);

/// Makes an endpoint from a socket. Must be called within the runtime.
pub(super) fn endpoint(socket: UdpSocket, server: &Server) -> io::Result<Endpoint> {
    let runtime = Arc::new(TokioRuntime);
    Endpoint::new(EndpointConfig::default(), Some(server.quic.clone()), socket, runtime)
}

/// Serves an endpoint's connections until it is closed.
pub(super) async fn accept(endpoint: Endpoint, server: Arc<Server>, numbers: Arc<Numbers>) {
    while let Some(incoming) = endpoint.accept().await {
        if server.retry && incoming.may_retry() {
            // Fails only if the address was validated after all.
            let _ = incoming.retry();
            continue;
        }
        let (server, number) = (Arc::clone(&server), numbers.next());
        tokio::spawn(async move {
            // The peer sees a failure on the connection; nobody else needs to know.
            let _ = serve(incoming, server, number).await;
        });
    }
}

/// Tells all peers that the server is shutting down.
pub(super) async fn close(endpoint: &Endpoint) {
    endpoint.close(VarInt::from_u32(0), b"the server stops");
    // Bounded, so that a peer that is gone delays nothing.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// Configuration shared by all connections of an endpoint.
pub(super) fn config(
    tls: &Tls,
    initial_window: Option<u32>,
) -> Result<quinn::ServerConfig, rustls::Error> {
    let (tls, _) = tls.for_quic();
    let mut transport = TransportConfig::default();
    // The lab's devices have no offloads, and some kernels then refuse segmentation on the socket. quinn
    // would lose the datagrams by which it finds that out.
    transport.enable_segmentation_offload(false);
    if let Some(packets) = initial_window {
        let mut cubic = CubicConfig::default();
        // quinn sends while less than the window is in flight.
        cubic.initial_window(u64::from(packets) * PACKET_BYTES + 1);
        transport.congestion_controller_factory(Arc::new(cubic));
    }
    let mut tokens = ValidationTokenConfig::default();
    tokens.sent(ADDRESS_TOKENS).log(Arc::new(UsedTokens::default()));
    let mut config = quinn::ServerConfig::with_crypto(crypto(tls)?);
    config.transport_config(Arc::new(transport)).validation_token_config(tokens);
    Ok(config)
}

fn crypto(tls: rustls::ServerConfig) -> Result<Arc<QuicServerConfig>, rustls::Error> {
    let no_suite = |error| rustls::Error::General(format!("QUIC: {error}"));
    QuicServerConfig::try_from(tls).map(Arc::new).map_err(no_suite)
}

/// Address validation tokens that have been used: each is good for one connection (RFC 9000 §8.1.4).
#[derive(Default)]
struct UsedTokens(Mutex<HashSet<u128>>);

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        _: SystemTime,
        _: Duration,
    ) -> Result<(), TokenReuseError> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= MAX_USED_TOKENS {
            // Old tokens may then be used again, which is acceptable in a measurement server.
            used.clear();
        }
        if used.insert(nonce) { Ok(()) } else { Err(TokenReuseError) }
    }
}

async fn serve(incoming: Incoming, server: Arc<Server>, number: u64) -> io::Result<()> {
    pause(server.handshake_delay).await;
    // Each connection has its own TLS configuration, because quinn does not report what TLS did.
    let (tls, witness) = server.tls.for_quic();
    let mut config = server.quic.clone();
    config.crypto = crypto(tls).map_err(io::Error::other)?;
    let connecting = incoming.accept_with(Arc::new(config)).map_err(io::Error::other)?;
    let (connection, mut handshake) = established(connecting, &server).await?;
    let mut h3 = h3::server::builder()
        .send_grease(false)
        .build(h3_quinn::Connection::new(connection))
        .await
        .map_err(io::Error::other)?;
    loop {
        let request = match h3.accept().await {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        // Until the handshake is complete, only 0-RTT packets can be read.
        let early = handshake.as_mut().is_some_and(|complete| !is_complete(complete));
        if early && server.site.early_data == EarlyData::AfterFinished {
            if let Some(complete) = handshake.take() {
                complete.await;
            }
        } else if !early {
            handshake = None;
        }
        let connection = Connection {
            number,
            protocol: "HTTP/3.0",
            tls: Some(TlsFacts { version: "TLSv1.3", resumed: witness.resumed() }),
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // A request that fails does not affect the others.
            let _ = answer(request, &server, &connection, early).await;
        });
    }
}

/// Waits until the server may send on a connection: at once if it accepts early data, otherwise when the
/// handshake is complete.
///
/// In the first case, also returns a future that resolves when the handshake is complete.
async fn established(
    mut connecting: Connecting,
    server: &Server,
) -> io::Result<(quinn::Connection, Option<ZeroRttAccepted>)> {
    let takes_early_data = !matches!(server.site.early_data, EarlyData::Off | EarlyData::Reject);
    let connecting = if takes_early_data {
        // A post-quantum ClientHello takes two datagrams. Until it is complete the client's limits are
        // unknown, and a stream opened then would wait forever.
        connecting.handshake_data().await.map_err(io::Error::other)?;
        match connecting.into_0rtt() {
            Ok((connection, complete)) => return Ok((connection, Some(complete))),
            Err(connecting) => connecting,
        }
    } else {
        connecting
    };
    Ok((connecting.await.map_err(io::Error::other)?, None))
}

fn is_complete(handshake: &mut ZeroRttAccepted) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    Pin::new(handshake).poll(&mut context).is_ready()
}

async fn answer(
    request: RequestResolver<h3_quinn::Connection, Bytes>,
    server: &Server,
    connection: &Connection,
    early: bool,
) -> Result<(), StreamError> {
    let (request, mut stream) = request.resolve_request().await?;
    while let Some(mut part) = stream.recv_data().await? {
        part.advance(part.remaining());
    }
    let response = server.site.respond(&request, connection, early).await;
    let (head, mut body) = response.into_parts();
    stream.send_response(hyper::Response::from_parts(head, ())).await?;
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(piece) = frame.into_data() {
            stream.send_data(piece).await?;
        }
    }
    stream.finish().await
}
