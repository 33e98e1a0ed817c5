//! HTTP/3 of the built-in server: quinn's connections, h3's requests.

use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::error::StreamError;
use h3::server::RequestResolver;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Connecting, Endpoint, EndpointConfig, Incoming, TokioRuntime, TransportConfig, VarInt,
    ZeroRttAccepted,
};

use super::config::EarlyData;
use super::respond::{Connection, TlsFacts};
use super::{Numbers, Server};

/// How long the connections that are open when the server stops may take to hear of it.
const FAREWELL: Duration = Duration::from_millis(100);

/// Makes an endpoint of a socket. The runtime must be the current one.
pub(super) fn endpoint(socket: UdpSocket, server: &Server) -> io::Result<Endpoint> {
    let (config, _) = connection_config(server)?;
    let runtime = Arc::new(TokioRuntime);
    Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)
}

/// Serves an endpoint's connections until it is closed.
pub(super) async fn accept(endpoint: Endpoint, server: Arc<Server>, numbers: Arc<Numbers>) {
    while let Some(incoming) = endpoint.accept().await {
        if server.retry && incoming.may_retry() {
            // What fails is an address that was validated after all.
            let _ = incoming.retry();
            continue;
        }
        let (server, number) = (Arc::clone(&server), numbers.next());
        tokio::spawn(async move {
            // The peer learns of a failure from the connection; nobody else asks.
            let _ = serve(incoming, server, number).await;
        });
    }
}

/// Tells all peers that the server is leaving.
pub(super) async fn close(endpoint: &Endpoint) {
    endpoint.close(VarInt::from_u32(0), b"the server stops");
    // A peer that is gone does not hold anybody up.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// A configuration for one connection, and what will say whether it resumed a session.
fn connection_config(server: &Server) -> io::Result<(quinn::ServerConfig, super::tls::Witness)> {
    let (tls, witness) = server.tls.for_quic();
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut transport = TransportConfig::default();
    // The lab's devices have no offloads, where some kernels refuse segmentation by the socket too:
    // the datagrams that taught quinn so would be lost.
    transport.enable_segmentation_offload(false);
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok((config, witness))
}

async fn serve(incoming: Incoming, server: Arc<Server>, number: u64) -> io::Result<()> {
    if !server.handshake_delay.is_zero() {
        tokio::time::sleep(server.handshake_delay).await;
    }
    let (config, witness) = connection_config(&server)?;
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
        // Before the handshake is complete, nothing but 0-RTT packets can be read.
        let early = handshake.as_mut().is_some_and(|complete| !is_complete(complete));
        if !early {
            handshake = None;
        }
        let connection = Connection {
            number,
            protocol: "HTTP/3.0",
            tls: Some(TlsFacts { version: "TLSv1.3", resumed: witness.resumed() }),
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            // One that breaks off concerns nobody else.
            let _ = answer(request, &server, &connection, early).await;
        });
    }
}

/// A connection on which the server may speak: at once where early data is taken, and what tells when
/// its handshake is complete; else when it is complete.
async fn established(
    connecting: Connecting,
    server: &Server,
) -> io::Result<(quinn::Connection, Option<ZeroRttAccepted>)> {
    let takes_early_data =
        matches!(server.site.early_data, EarlyData::Accept | EarlyData::TooEarly);
    let connecting = if takes_early_data {
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
    let response = server.site.respond(request.method(), request.uri(), connection, early).await;
    let (head, body) = response.into_parts();
    stream.send_response(hyper::Response::from_parts(head, ())).await?;
    if !body.is_empty() {
        stream.send_data(body).await?;
    }
    stream.finish().await
}
