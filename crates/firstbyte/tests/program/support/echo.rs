//! An HTTP/1.1 server that records its requests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::peer::{Peer, drain, read_head};

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Method, path and version.
    pub(crate) line: String,
    /// Fields in lower case, sorted: neither case nor order matters.
    pub(crate) fields: Vec<String>,
    pub(crate) body: String,
}

impl Request {
    fn read(stream: &mut impl Read) -> Option<Self> {
        let head = read_head(stream);
        let mut lines = head.lines();
        let line = lines.next()?.to_owned();
        let lower = |field: &str| {
            let (name, value) = field.split_once(':')?;
            Some(format!("{}: {}", name.to_lowercase(), value.trim()))
        };
        let mut fields: Vec<String> = lines.filter_map(lower).collect();
        fields.sort();
        let length = fields.iter().find_map(|f| f.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).ok()?;
        Some(Self { line, fields, body: String::from_utf8_lossy(&body).into_owned() })
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.fields.iter().find_map(|field| field.strip_prefix(&prefix))
    }

    pub(crate) fn path(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }
}

/// The server, and its requests so far.
pub(crate) struct Echo {
    pub(crate) peer: Peer,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Echo {
    /// Answers every request with the result of `respond`: a whole response, head and body.
    pub(crate) fn start(respond: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let peer = Peer::tcp(move |mut stream: TcpStream| {
            if let Some(request) = Request::read(&mut stream) {
                let response = respond(&request);
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(&response);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                drain(&mut stream);
            }
        });
        Self { peer, requests }
    }

    /// Takes the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// A response with these header fields (each with its line end) and this body.
pub(crate) fn response(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{fields}Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
