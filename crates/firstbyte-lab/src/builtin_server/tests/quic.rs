//! HTTP/3 against a plain quinn and h3 client.

use std::net::Ipv4Addr;

use bytes::Buf;
use h3::client::SendRequest;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Connecting, Endpoint};
use rustls::version::TLS13;

use super::*;

/// A client that remembers sessions, on its own runtime.
struct Client {
    endpoint: Endpoint,
    server: SocketAddr,
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

impl Client {
    fn new(subject: &Subject) -> Self {
        let mut tls = subject.client(&[&TLS13]);
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.enable_early_data = true;
        let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        endpoint.set_default_client_config(ClientConfig::new(Arc::new(crypto)));
        Self { endpoint, server: subject.server.quic_addr().unwrap() }
    }

    fn connect(&self) -> Connecting {
        self.endpoint.connect(self.server, NAME).unwrap()
    }

    /// Sends a request on a new connection and returns status, headers and body size. `in_early_data` sends
    /// the request in early data and reports whether it was accepted.
    async fn get(&self, path: &str, in_early_data: bool) -> Answer {
        let connecting = self.connect();
        let (connection, accepted) = if in_early_data {
            let Ok((connection, accepted)) = connecting.into_0rtt() else {
                panic!("there is no ticket that allows early data")
            };
            (connection, Some(accepted))
        } else {
            (connecting.await.unwrap(), None)
        };
        let quic = connection.clone();
        let (mut driver, mut requests) =
            h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
        let driving = tokio::spawn(async move { driver.wait_idle().await });
        let (status, headers, bytes) = send(&mut requests, path).await.unwrap();
        let early_data_accepted = match accepted {
            Some(accepted) => Some(accepted.await),
            None => None,
        };
        if in_early_data {
            // Tickets follow the client's Finished, so they arrive before the response to a later request.
            let (_, headers, _) = send(&mut requests, path).await.unwrap();
            assert_eq!(headers["x-firstbyte-early-data"], "0");
        }
        drop(requests);
        let _ = driving.await;
        quic.close(0_u32.into(), b"");
        Answer { status, headers, bytes, early_data_accepted }
    }
}

struct Answer {
    status: u16,
    headers: hyper::HeaderMap,
    bytes: usize,
    early_data_accepted: Option<bool>,
}

type Requests = SendRequest<h3_quinn::OpenStreams, bytes::Bytes>;

async fn send(
    requests: &mut Requests,
    path: &str,
) -> Result<(u16, hyper::HeaderMap, usize), h3::error::StreamError> {
    let request = hyper::Request::get(format!("https://{NAME}{path}")).body(()).unwrap();
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    let mut bytes = 0;
    while let Some(part) = stream.recv_data().await? {
        bytes += part.remaining();
    }
    Ok((response.status().as_u16(), response.headers().clone(), bytes))
}

#[test]
fn serves_pages_and_says_what_it_did() {
    let subject = start(|config| config.page_bytes = 12_345);
    block_on(async {
        let client = Client::new(&subject);
        let answer = client.get("/", false).await;
        assert_eq!((answer.status, answer.bytes), (200, 12_345));
        assert_eq!(answer.headers["x-firstbyte-resumed"], "0");
        assert_eq!(answer.headers["x-firstbyte-early-data"], "0");
        assert_eq!(client.get("/bytes/3000000", false).await.bytes, 3_000_000);
        assert_eq!(client.get("/nowhere", false).await.status, 404);
        assert_eq!(client.get("/redirect", false).await.headers["location"], "/");
    });
    let entries = subject.log.entries();
    assert_eq!((entries[0].protocol.as_str(), entries[0].resumed), ("HTTP/3.0", Some(false)));
    // The first connection's ticket had arrived when the second connection began.
    assert_eq!(entries[1].resumed, Some(true));
}

#[test]
fn sessions_are_resumed_unless_that_is_off() {
    for (resumption, resumed) in
        [(Resumption::Both, true), (Resumption::SessionIds, true), (Resumption::None, false)]
    {
        let subject = start(|config| config.resumption = resumption);
        block_on(async {
            let client = Client::new(&subject);
            client.get("/", false).await;
            client.get("/", false).await;
        });
        assert_eq!(subject.requests(), [(false, false, 200), (resumed, false, 200)]);
    }
}

#[test]
fn early_data_is_accepted_again_and_again() {
    for accepted in [EarlyData::Accept, EarlyData::AfterFinished] {
        let subject = start(|config| config.early_data = accepted);
        block_on(async {
            let client = Client::new(&subject);
            client.get("/", false).await;
            for _ in 0..3 {
                let answer = client.get("/", true).await;
                assert_eq!((answer.status, answer.early_data_accepted), (200, Some(true)));
                assert_eq!(answer.headers["x-firstbyte-early-data"], "1");
            }
        });
        let (early, late) = ((true, true, 200), (true, false, 200));
        let expected = [(false, false, 200), early, late, early, late, early, late];
        assert_eq!(subject.requests(), expected);
    }
}

#[test]
fn early_data_can_be_off_or_rejected_or_too_early() {
    let subject = start(|_| ());
    block_on(async {
        let client = Client::new(&subject);
        client.get("/", false).await;
        assert!(client.connect().into_0rtt().is_err(), "off: the ticket does not allow it");
    });

    let subject = start(|config| config.early_data = EarlyData::Reject);
    block_on(async {
        let client = Client::new(&subject);
        client.get("/", false).await;
        for _ in 0..2 {
            let Ok((connection, accepted)) = client.connect().into_0rtt() else {
                panic!("the ticket allows it")
            };
            assert!(!accepted.await);
            // Everything sent in the rejected early data is lost; a new exchange works on the connection.
            let (mut driver, mut requests) =
                h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
            let driving = tokio::spawn(async move { driver.wait_idle().await });
            let (status, headers, _) = send(&mut requests, "/").await.unwrap();
            assert_eq!((status, &headers["x-firstbyte-resumed"]), (200, &"1".parse().unwrap()));
            drop(requests);
            let _ = driving.await;
        }
    });
    assert_eq!(subject.requests(), [(false, false, 200), (true, false, 200), (true, false, 200)]);

    let subject = start(|config| config.early_data = EarlyData::TooEarly);
    block_on(async {
        let client = Client::new(&subject);
        client.get("/", false).await;
        assert_eq!(client.get("/", true).await.status, 425);
    });
    assert_eq!(subject.requests(), [(false, false, 200), (true, true, 425), (true, false, 200)]);
}

/// A client sends its ClientHello in an Initial and, after a Retry, in another. Without a Retry it always
/// needs the same number of datagrams.
#[test]
fn a_retry_comes_when_it_was_asked_for() {
    let hellos = |retry| {
        let subject = start(|config| config.retry = retry);
        block_on(async {
            let client = Client::new(&subject);
            let connection = client.connect().await.unwrap();
            let sent = connection.stats().frame_tx.crypto;
            connection.close(0_u32.into(), b"");
            assert_eq!(client.get("/", false).await.status, 200);
            sent
        })
    };
    assert_eq!(hellos(true), hellos(false) + 1);
}
