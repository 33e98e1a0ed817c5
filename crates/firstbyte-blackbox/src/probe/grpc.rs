//! `grpc`: checks health (`grpc.health.v1.Health/Check`) over HTTP/2.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use firstbyte_clock::Monotonic;
use firstbyte_core::timeline::{FailureType, PhaseName};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};

use super::certificates::Set;
use super::failure::NetworkStep;
use super::tcp::connect;
use super::{Probe, port_number, split_host_port};
use crate::Compat;
use crate::configuration::GrpcModule;

const DURATION: (&str, &str) = ("probe_grpc_duration_seconds", "Duration of gRPC request by phase");
/// Health statuses of a service, by number.
const SERVING: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
/// Size limit of an answer, in bytes; a real one has two.
const MOST_BYTES: usize = 4096;

/// gRPC status codes.
const OK: u32 = 0;
const UNKNOWN: u32 = 2;
const DEADLINE_EXCEEDED: u32 = 4;
const INTERNAL: u32 = 13;
const UNAVAILABLE: u32 = 14;

/// Result of the health check.
struct Answer {
    code: u32,
    /// The service's health, if the code is OK.
    health: Option<usize>,
    why: String,
    /// Whether a server answered.
    heard: bool,
}

impl Answer {
    fn failed(code: u32, why: impl Into<String>) -> Self {
        Self { code, health: None, why: why.into(), heard: false }
    }
}

impl Probe<'_> {
    pub(super) async fn grpc(&mut self) -> bool {
        let usual = GrpcModule::default();
        let module = self.module.grpc.as_ref().unwrap_or(&usual);
        self.grpc_gauges(0.0, 0.0);
        if self.tools.compat == Compat::V0_23 {
            // Later versions report certificates only if there are any.
            let help = "Returns last SSL chain expiry in unixtime";
            self.metrics.gauge("probe_ssl_earliest_cert_expiry", help, 0.0);
        }
        let target = self.target.split_once("://").map_or(self.target, |(_, rest)| rest);
        let authority = target.split('/').next().unwrap_or_default();
        let (host, port) = match split_host_port(authority) {
            Ok((host, port)) => (host, Some(port)),
            Err(_) => (authority, None),
        };
        let port = match port.filter(|port| !port.is_empty()).map(port_number) {
            None => Ok(if module.tls { 443 } else { 80 }),
            Some(port) => port,
        };
        let (address, taken) = self.address(host, &module.address).await;
        let resolved = if address.is_ok() { taken } else { 0.0 };
        self.metrics.add(DURATION.0, DURATION.1, &[("phase", "resolve")], resolved);
        let Ok(address) = address else { return false };
        let begun = Monotonic::now();
        let (answer, ssl) = match port {
            Err(error) => {
                self.note_setup_failure();
                (Answer::failed(UNAVAILABLE, error), false)
            }
            Ok(port) => {
                let remote = SocketAddr::new(address, port);
                let asking = self.ask(module, host, authority, remote);
                asking.await
            }
        };
        let taken = Monotonic::now().since(begun).as_secs_f64();
        self.metrics.add(DURATION.0, DURATION.1, &[("phase", "check")], taken);
        for (number, name) in SERVING.iter().enumerate() {
            let value = f64::from(u8::from(answer.health == Some(number)));
            let help = "Response HealthCheck response";
            let labels = [("serving_status", *name)];
            self.metrics.labelled("probe_grpc_healthcheck_response", help, &labels, value);
        }
        self.grpc_gauges(f64::from(u8::from(ssl && answer.heard)), answer.code.into());
        let success = answer.code == OK && answer.health == Some(1);
        if !success {
            let health = answer.health.and_then(|h| SERVING.get(h)).copied().unwrap_or_default();
            let code = answer.code.to_string();
            let values = [("status_code", code.as_str()), ("health", health), ("err", &answer.why)];
            self.log.error("can't connect grpc server:", &values);
        }
        success
    }

    fn grpc_gauges(&mut self, ssl: f64, code: f64) {
        let help = "Indicates if SSL was used for the connection";
        self.metrics.gauge("probe_grpc_ssl", help, ssl);
        self.metrics.gauge("probe_grpc_status_code", "Response gRPC status code", code);
    }

    /// Connects and checks the health. Also returns whether that was over TLS.
    async fn ask(
        &mut self,
        module: &GrpcModule,
        host: &str,
        authority: &str,
        remote: SocketAddr,
    ) -> (Answer, bool) {
        let stream = match self.in_time(NetworkStep::Connect, connect(remote, None)).await {
            Ok(stream) => stream,
            Err(error) => return (Answer::failed(UNAVAILABLE, error), false),
        };
        if !module.tls {
            return (self.check(stream, module, authority).await, false);
        }
        match self.handshake(stream, &module.tls_config, host, &["h2"]).await {
            Err(error) => (Answer::failed(UNAVAILABLE, error), false),
            Ok(stream) => {
                let mut shown = crate::metrics::Metrics::default();
                std::mem::swap(&mut shown, &mut self.metrics);
                self.tls_session_metrics(&stream, &module.tls_config, Set::WithoutVerifiedChain);
                std::mem::swap(&mut shown, &mut self.metrics);
                let answer = self.check(stream, module, authority).await;
                if answer.heard {
                    self.metrics.merge(shown);
                }
                (answer, true)
            }
        }
    }

    async fn check<S>(&self, stream: S, module: &GrpcModule, authority: &str) -> Answer
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let left = self.left();
        let checking = async {
            let (sender, connection) = h2::client::handshake(stream).await?;
            let driver = tokio::task::spawn_local(async move {
                // The request reports the connection's errors too.
                let _ = connection.await;
            });
            let answer = exchange(sender, module, authority, left).await;
            driver.abort();
            answer
        };
        match tokio::time::timeout_at(self.deadline, checking).await {
            Err(_) => {
                self.note_failure(PhaseName::Wait, FailureType::HttpTimedOut);
                Answer::failed(DEADLINE_EXCEEDED, "the probe's timeout has passed")
            }
            Ok(Err(error)) => {
                self.note_failure(PhaseName::Wait, FailureType::HttpProtocolError);
                Answer::failed(UNAVAILABLE, error.to_string())
            }
            Ok(Ok(answer)) => answer,
        }
    }
}

async fn exchange(
    sender: SendRequest<Bytes>,
    module: &GrpcModule,
    authority: &str,
    left: Duration,
) -> Result<Answer, h2::Error> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(format!(
            "{}://{authority}/grpc.health.v1.Health/Check",
            if module.tls { "https" } else { "http" }
        ))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", format!("{}m", left.as_millis()));
    for (name, values) in &module.metadata {
        for value in values {
            request = request.header(name, value);
        }
    }
    let request = match request.body(()) {
        Ok(request) => request,
        Err(error) => return Ok(Answer::failed(INTERNAL, error.to_string())),
    };
    let mut sender = sender.ready().await?;
    let (response, mut body) = sender.send_request(request, false)?;
    body.send_data(question(&module.service), true)?;
    let response = response.await?;
    let (head, mut stream) = response.into_parts();
    let mut data = BytesMut::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk?;
        let _ = stream.flow_control().release_capacity(chunk.len());
        if data.len() + chunk.len() > MOST_BYTES {
            return Ok(Answer::failed(INTERNAL, "the response is too long"));
        }
        data.extend_from_slice(&chunk);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    Ok(answer(head.status.as_u16(), &head.headers, &trailers, &data))
}

/// Encodes a `HealthCheckRequest`: field 1 is the service.
fn question(service: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !service.is_empty() {
        message.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(&message);
    framed.freeze()
}

fn answer(status: u16, head: &HeaderMap, trailers: &HeaderMap, data: &[u8]) -> Answer {
    let field = |name: &str| trailers.get(name).or_else(|| head.get(name));
    let code = field("grpc-status").and_then(|v| v.to_str().ok()).and_then(|v| v.parse().ok());
    let why = field("grpc-message").map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
    let Some(code) = code else {
        // The code for the HTTP status of a server without gRPC (gRPC's table of HTTP statuses).
        let code = match status {
            400 => INTERNAL,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502 | 503 | 504 => UNAVAILABLE,
            _ => UNKNOWN,
        };
        return Answer::failed(
            code,
            format!("the response has no grpc-status; HTTP status {status}"),
        );
    };
    let health = (code == OK).then(|| health(data)).flatten();
    Answer { code, health, why: why.unwrap_or_default(), heard: code == OK }
}

/// Decodes a `HealthCheckResponse`: field 1 is a number, 0 if omitted.
fn health(data: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(data.get(1..5)?.try_into().ok()?) as usize;
    match data.get(5..5 + length)? {
        [] => Some(0),
        [0x08, value, ..] => Some(usize::from(*value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{ProbeLog, ProbeLogOptions};

    #[test]
    fn messages_are_framed() {
        assert_eq!(&question("")[..], [0, 0, 0, 0, 0]);
        assert_eq!(&question("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(health(&[0, 0, 0, 0, 2, 8, 1]), Some(1));
        assert_eq!(health(&[0, 0, 0, 0, 0]), Some(0));
        assert_eq!(health(&[0, 0, 0]), None);
    }

    /// Answers one request with `code` and `health`, and returns the request's message.
    async fn serve_once(
        listener: tokio::net::TcpListener,
        code: &'static str,
        health: &'static [u8],
    ) -> Vec<u8> {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
        let mut body = request.into_body();
        let answering = async {
            let mut asked = Vec::new();
            while let Some(piece) = body.data().await {
                asked.extend_from_slice(&piece.unwrap());
            }
            let mut stream = respond.send_response(http::Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(health), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", code.parse().unwrap());
            stream.send_trailers(trailers).unwrap();
            asked
        };
        let asked = tokio::select! {
            asked = answering => asked,
            _ = std::future::poll_fn(|context| connection.poll_closed(context)) => Vec::new(),
        };
        connection.graceful_shutdown();
        // Wait until the client has gone.
        let _ = std::future::poll_fn(|context| connection.poll_closed(context)).await;
        asked
    }

    #[test]
    fn a_health_check_is_what_the_server_says() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let configuration = crate::configuration::Configuration::parse(
            "modules: {m: {prober: grpc, grpc: {service: shop}}}",
        );
        let configuration = configuration.unwrap();
        let tools = crate::probe::Tools::new(&configuration, Compat::V0_28);
        for (code, health, success, status, serving) in [
            ("0", &[0, 0, 0, 0, 2, 8, 1][..], 1, 0, "SERVING"),
            ("0", &[0, 0, 0, 0, 2, 8, 2][..], 0, 0, "NOT_SERVING"),
            ("5", &[][..], 0, 5, ""),
        ] {
            let local = tokio::task::LocalSet::new();
            let (text, asked) = local.block_on(&runtime, async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let target = listener.local_addr().unwrap().to_string();
                let server = tokio::task::spawn_local(serve_once(listener, code, health));
                let module = &configuration.modules["m"];
                let limit = Duration::from_secs(20);
                let log = ProbeLog::new("m", &target, ProbeLogOptions::default());
                let outcome = crate::probe::probe(log, module, &target, "", limit, &tools).await;
                (outcome.metrics.text(), server.await.unwrap())
            });
            assert_eq!(asked, question("shop"), "what was asked");
            for line in [
                format!("probe_success {success}"),
                format!("probe_grpc_status_code {status}"),
                "probe_grpc_ssl 0".to_owned(),
            ] {
                assert!(text.contains(&format!("\n{line}\n")), "{line}: {text}");
            }
            for name in SERVING {
                let value = u8::from(name == serving);
                let line = format!(
                    "probe_grpc_healthcheck_response{{serving_status=\"{name}\"}} {value}\n"
                );
                assert!(text.contains(&line), "{line}: {text}");
            }
        }
    }
}
