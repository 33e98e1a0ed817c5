//! A request as described by the browser's own network code.
//!
//! Input: the JSON of `watch.js`. Output: [`Channel`]s. Times have two sources: the activities of the socket thread
//! (`nsISocketTransport`, `nsIHttpActivityObserver`), and the channel (`nsITimedChannel`), whose times are rewritten
//! for pages: with early data, it reports the start of the connection as the end of the handshake and as the start of
//! the request, and over HTTP/1.1 its response starts with the session tickets. So activities are preferred if they are
//! available.

use std::net::{IpAddr, SocketAddr};

use firstbyte_core::timeline::{Header, Mark};
use serde_json::Value;

/// Activities by number (`nsISocketTransport.idl`, `nsIHttpActivityObserver.idl`).
mod activity {
    pub(super) const RESOLVING: u64 = 0x4b_0003;
    pub(super) const RESOLVED: u64 = 0x4b_000b;
    pub(super) const CONNECTING_TO: u64 = 0x4b_0007;
    pub(super) const CONNECTED_TO: u64 = 0x4b_0004;
    pub(super) const TLS_HANDSHAKE_STARTING: u64 = 0x4b_000c;
    pub(super) const TLS_HANDSHAKE_ENDED: u64 = 0x4b_000d;
    pub(super) const SENDING_TO: u64 = 0x4b_0005;
    pub(super) const WAITING_FOR: u64 = 0x4b_000a;
    pub(super) const RECEIVING_FROM: u64 = 0x4b_0006;
    pub(super) const RESPONSE_COMPLETE: u64 = 0x5005;
}

/// Policy type of a document (`nsIContentPolicy.TYPE_DOCUMENT`).
const DOCUMENT: u64 = 6;
/// Result of a redirected request.
const REDIRECTED: &str = "NS_BINDING_REDIRECTED";

/// A connection that was started, whether or not it was used later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) quic: bool,
    /// When it was requested, microseconds since the Unix epoch: before the name lookup.
    pub(super) at_us: i64,
}

impl Begun {
    /// Reads one from JSON.
    pub(super) fn read(said: &Value) -> Option<Self> {
        Some(Self {
            host: said.get("host")?.as_str()?.to_owned(),
            port: u16::try_from(said.get("port")?.as_i64()?).ok()?,
            quic: said.get("http3")?.as_bool()?,
            at_us: time(said, "time")?,
        })
    }

    /// Host and port, as in a URL.
    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A request, as far as it got.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Channel {
    pub(super) url: String,
    pub(super) method: String,
    /// It belongs to the browser itself, and was kept from the network.
    pub(super) beside: bool,
    /// It has ended.
    pub(super) stopped: bool,
    pub(super) document: bool,
    /// The browser's number of the tab.
    pub(super) page: u64,
    /// Name of its error; empty if it succeeded.
    pub(super) result: String,
    pub(super) protocol: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) remote: Option<SocketAddr>,
    pub(super) local: Option<SocketAddr>,
    pub(super) encoded_bytes: Option<u64>,
    pub(super) decoded_bytes: Option<u64>,
    pub(super) transferred_bytes: Option<u64>,
    pub(super) headers: Vec<Header>,
    pub(super) security: Option<Value>,
    /// When it was opened, microseconds since the Unix epoch.
    pub(super) opened_us: i64,
    /// When it was handed to the connection manager.
    pub(super) pending_us: Option<i64>,
    pub(super) marks: Vec<(Mark, i64)>,
}

impl Channel {
    /// Reads one from JSON.
    pub(super) fn read(said: &Value) -> Option<Self> {
        let text = |name: &str| said.get(name).and_then(Value::as_str).map(str::to_owned);
        let number = |name: &str| said.get(name).and_then(Value::as_u64);
        let truth = |name: &str| said.get(name).and_then(Value::as_bool) == Some(true);
        let address = |host: &str, port: &str| {
            let address: IpAddr = said.get(host)?.as_str()?.parse().ok()?;
            let port = u16::try_from(number(port)?).ok().filter(|port| *port > 0)?;
            Some(SocketAddr::new(address, port))
        };
        let mut channel = Self {
            url: text("url")?,
            method: text("requestMethod").unwrap_or_default(),
            beside: truth("beside"),
            stopped: truth("stopped"),
            document: number("policy") == Some(DOCUMENT),
            page: number("page").unwrap_or(0),
            result: text("result").unwrap_or_default(),
            protocol: text("protocolVersion").filter(|protocol| !protocol.is_empty()),
            status: number("responseStatus").and_then(|s| u16::try_from(s).ok()).filter(|s| *s > 0),
            remote: address("remoteAddress", "remotePort"),
            local: address("localAddress", "localPort"),
            encoded_bytes: number("encodedBodySize"),
            decoded_bytes: number("decodedBodySize"),
            transferred_bytes: number("transferSize").filter(|bytes| *bytes > 0),
            headers: headers(said),
            security: said.get("security").cloned(),
            opened_us: time(said, "asyncOpenTime")?,
            pending_us: time(said, "transactionPendingTime"),
            marks: Vec::new(),
        };
        channel.marks = marks(said, &channel);
        Some(channel)
    }

    pub(super) fn at(&self, mark: Mark) -> Option<i64> {
        self.marks.iter().find(|(known, _)| *known == mark).map(|(_, at)| *at)
    }

    pub(super) fn quic(&self) -> bool {
        self.protocol.as_deref().is_some_and(|protocol| protocol.starts_with("h3"))
    }

    /// Whether it redirected to another URL.
    pub(super) fn redirected(&self) -> bool {
        self.result == REDIRECTED
    }

    /// Its error, if that is a network error.
    pub(super) fn error(&self) -> Option<&str> {
        let security = self.security.as_ref().and_then(|s| s.get("errorCodeString"));
        let security = security.and_then(Value::as_str).filter(|name| !name.is_empty());
        let failed = !self.result.is_empty() && !self.redirected();
        failed.then(|| security.unwrap_or(&self.result))
    }

    /// The value of a field in the response's header, including fields that Firefox adds.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value.as_str())
    }
}

fn headers(said: &Value) -> Vec<Header> {
    let headers = said.get("headers").and_then(Value::as_array).into_iter().flatten();
    let headers = headers.filter_map(|header| {
        let (name, value) = (header.get(0)?.as_str()?, header.get(1)?.as_str()?);
        Some(Header { name: name.to_ascii_lowercase(), value: value.to_owned() })
    });
    headers.collect()
}

/// A time of the channel; 0 means absent.
fn time(said: &Value, name: &str) -> Option<i64> {
    said.get(name)?.as_i64().filter(|time| *time > 0)
}

fn marks(said: &Value, channel: &Channel) -> Vec<(Mark, i64)> {
    let activities = said.get("activities").and_then(Value::as_array);
    let activities: Vec<(u64, i64)> = activities
        .into_iter()
        .flatten()
        .filter_map(|activity| Some((activity.get(0)?.as_u64()?, activity.get(1)?.as_i64()?)))
        .collect();
    let first = |code: u64| activities.iter().find(|(known, _)| *known == code).map(|(_, at)| *at);
    let mut marks = Vec::new();
    let mut set = |mark: Mark, at: Option<i64>| marks.extend(at.map(|at| (mark, at)));
    set(
        Mark::DomainLookupStart,
        first(activity::RESOLVING).or_else(|| time(said, "domainLookupStartTime")),
    );
    set(
        Mark::DomainLookupEnd,
        first(activity::RESOLVED).or_else(|| time(said, "domainLookupEndTime")),
    );
    let connecting = first(activity::CONNECTING_TO).or_else(|| time(said, "connectStartTime"));
    set(Mark::ConnectStart, connecting);
    let connected = first(activity::CONNECTED_TO);
    if channel.quic() {
        set(Mark::SecureConnectionStart, connecting);
        // For QUIC, the "connected" activity is the end of the handshake.
        set(Mark::HandshakeComplete, connected);
    } else {
        set(Mark::TcpConnected, connected.or_else(|| time(said, "tcpConnectEndTime")));
        let starting = first(activity::TLS_HANDSHAKE_STARTING);
        if starting.is_some() {
            set(Mark::SecureConnectionStart, connected.or(starting));
            // A failed handshake ends too.
            let secure = channel.error().is_none() || first(activity::SENDING_TO).is_some();
            set(Mark::HandshakeComplete, first(activity::TLS_HANDSHAKE_ENDED).filter(|_| secure));
        }
    }
    let sending = first(activity::SENDING_TO);
    set(Mark::RequestStart, sending);
    // They are reported from different places, within microseconds of each other.
    let waiting = first(activity::WAITING_FOR).zip(sending).map(|(at, sending)| at.max(sending));
    set(Mark::RequestEnd, waiting);
    let receiving = first(activity::RECEIVING_FROM);
    set(Mark::ResponseStart, receiving);
    let whole = channel.stopped && channel.error().is_none() && receiving.is_some();
    let ended = first(activity::RESPONSE_COMPLETE).or_else(|| time(said, "responseEndTime"));
    set(Mark::ResponseEnd, ended.filter(|at| whole && receiving.is_some_and(|start| start <= *at)));
    marks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// As Firefox 153 reported HTTP/1.1 with early data, shortened.
    fn early() -> Value {
        let at = |us: i64| 1_795_401_782_000_000 + us;
        json!({
            "id": 51, "url": "https://site.test/", "beside": false, "stopped": true, "policy": 6, "page": 11,
            "requestMethod": "GET", "protocolVersion": "http/1.1", "responseStatus": 200, "result": "",
            "asyncOpenTime": at(716_815), "transactionPendingTime": at(724_281), "tcpConnectEndTime": at(726_426),
            "connectEndTime": at(726_426), "requestStartTime": at(726_426), "responseEndTime": at(838_394),
            "remoteAddress": "127.0.0.1", "remotePort": 443, "localAddress": "127.0.0.1", "localPort": 36752,
            "security": { "errorCodeString": "", "resumed": true },
            "headers": [["X-Firefox-Early-Data", "accepted"]],
            "activities": [
                [0x5001, at(736_634), 0], [0x4b_0003, at(724_295), 0], [0x4b_000b, at(726_009), 0],
                [0x4b_0007, at(726_327), 0], [0x4b_0004, at(726_427), 0], [0x4b_000c, at(726_447), 0],
                [0x4b_0005, at(727_099), 0], [0x4b_000a, at(727_104), 0], [0x4b_000d, at(769_202), 0],
                [0x4b_000a, at(769_698), 0], [0x4b_0006, at(838_113), 2187], [0x5005, at(838_395), 2000],
            ],
        })
    }

    #[test]
    fn a_request_in_early_data_leaves_before_the_handshake_ends() {
        let channel = Channel::read(&early()).unwrap();
        let at = |mark| channel.at(mark).unwrap() - 1_795_401_782_000_000;
        assert_eq!(at(Mark::TcpConnected), 726_427);
        assert_eq!(at(Mark::SecureConnectionStart), 726_427);
        assert_eq!((at(Mark::RequestStart), at(Mark::RequestEnd)), (727_099, 727_104));
        assert_eq!(at(Mark::HandshakeComplete), 769_202);
        assert_eq!((at(Mark::ResponseStart), at(Mark::ResponseEnd)), (838_113, 838_395));
        assert_eq!(channel.header("x-firefox-early-data"), Some("accepted"));
        assert_eq!((channel.error(), channel.status), (None, Some(200)));
    }

    #[test]
    fn over_quic_connected_is_the_end_of_the_handshake() {
        let mut said = early();
        said["protocolVersion"] = json!("h3");
        let channel = Channel::read(&said).unwrap();
        assert_eq!(channel.at(Mark::TcpConnected), None);
        assert_eq!(channel.at(Mark::SecureConnectionStart), channel.at(Mark::ConnectStart));
        assert!(channel.at(Mark::HandshakeComplete).is_some());
    }

    #[test]
    fn what_failed_has_neither_an_end_nor_a_handshake() {
        let mut said = early();
        said["result"] = json!("NS_ERROR_NET_RESET");
        said["security"]["errorCodeString"] = json!("SEC_ERROR_UNKNOWN_ISSUER");
        said["activities"] =
            json!([[0x4b_0007, 5, 0], [0x4b_0004, 6, 0], [0x4b_000c, 7, 0], [0x4b_000d, 9, 0]]);
        let channel = Channel::read(&said).unwrap();
        assert_eq!(channel.error(), Some("SEC_ERROR_UNKNOWN_ISSUER"));
        assert_eq!(channel.at(Mark::TcpConnected), Some(6));
        for mark in
            [Mark::HandshakeComplete, Mark::RequestStart, Mark::ResponseStart, Mark::ResponseEnd]
        {
            assert_eq!(channel.at(mark), None, "{mark:?}");
        }
    }

    #[test]
    fn what_is_not_said_is_absent() {
        let channel = Channel::read(&json!({ "url": "http://h/", "asyncOpenTime": 1 })).unwrap();
        assert_eq!((channel.status, channel.remote, channel.protocol), (None, None, None));
        assert!(channel.marks.is_empty() && channel.headers.is_empty());
        assert_eq!(Channel::read(&json!({ "url": "http://h/", "asyncOpenTime": 0 })), None);
    }
}
