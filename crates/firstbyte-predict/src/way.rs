//! The ways to connect that predictions compare.

use super::{KexGroup, PredictError};
use firstbyte_core::timeline::{Connection, Handshake, Parallel, TlsFacts};

/// Encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tls {
    /// Plain HTTP.
    None,
    /// TLS 1.2 (RFC 5246).
    V1_2,
    /// TLS 1.3 (RFC 8446).
    V1_3,
}

/// Use of an earlier session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Session {
    /// No session: a full handshake.
    Full,
    /// A session is resumed.
    Resumed,
    /// A session is resumed, with the request as early data.
    ZeroRtt,
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Http {
    /// HTTP/1.1 over TCP.
    V1_1,
    /// HTTP/2 over TCP.
    V2,
    /// HTTP/3 over QUIC.
    V3,
}

/// Whether a new connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reuse {
    /// A new connection.
    New,
    /// An open connection: the exchange is its second, after a rest.
    Reused,
}

/// Several requests whose total time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Several {
    /// Number of requests.
    pub count: u32,
    /// How they are distributed over connections.
    pub parallel: Parallel,
}

impl Several {
    /// Streams that servers allow at once on one connection: quinn 100, nginx 128, hyper 200.
    pub const MOST_STREAMS: u32 = 100;
}

/// One way to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Encryption.
    pub tls: Tls,
    /// Use of an earlier session.
    pub session: Session,
    /// The version of HTTP.
    pub http: Http,
    /// The only key-exchange group that the client offers; if absent, the groups of the [`Client`](super::Client).
    pub group: Option<KexGroup>,
    /// Whether a new connection is opened.
    pub reuse: Reuse,
    /// Several requests instead of one.
    pub several: Option<Several>,
}

impl Default for Way {
    /// The most common kind of visit: TLS 1.3, full handshake, HTTP/2, new connection.
    fn default() -> Self {
        let (tls, session, http) = (Tls::V1_3, Session::Full, Http::V2);
        Self { tls, session, http, group: None, reuse: Reuse::New, several: None }
    }
}

impl Way {
    /// The way that `connection` was made, with the client's groups. Absent if its facts do not say.
    pub fn from_connection(connection: &Connection) -> Option<Self> {
        let facts = &connection.facts;
        let tls = match facts.tls.as_ref().map(|tls| tls.version.as_deref()) {
            None => Tls::None,
            Some(Some("TLSv1.3")) => Tls::V1_3,
            Some(Some("TLSv1.2")) => Tls::V1_2,
            Some(_) => return None,
        };
        let http = match facts.http.as_ref()?.version.as_deref()? {
            "3" => Http::V3,
            "2" => Http::V2,
            "1.1" | "1.0" => Http::V1_1,
            _ => return None,
        };
        let early = |tls: &TlsFacts| tls.early_data.is_some_and(|e| e.accepted == Some(true));
        let session = match facts.tls.as_ref() {
            Some(tls) if early(tls) => Session::ZeroRtt,
            Some(tls) if tls.handshake == Some(Handshake::Resumed) => Session::Resumed,
            _ => Session::Full,
        };
        let reuse = if facts.reused { Reuse::Reused } else { Reuse::New };
        let way = Self { tls, session, http, group: None, reuse, several: None };
        way.check().is_ok().then_some(way)
    }

    /// Every valid way, with the client's groups.
    pub fn all() -> Vec<Self> {
        let mut ways = Vec::new();
        for tls in [Tls::None, Tls::V1_2, Tls::V1_3] {
            for session in [Session::Full, Session::Resumed, Session::ZeroRtt] {
                for http in [Http::V1_1, Http::V2, Http::V3] {
                    for reuse in [Reuse::New, Reuse::Reused] {
                        let way = Self { tls, session, http, group: None, reuse, several: None };
                        ways.extend(way.check().is_ok().then_some(way));
                    }
                }
            }
        }
        ways
    }

    /// Checks that the combination of options is valid.
    ///
    /// # Errors
    /// Names the options that exclude each other.
    pub fn check(&self) -> Result<(), PredictError> {
        let impossible = |why| Err(PredictError::NoSuchWay { why });
        match self {
            Self { tls: Tls::None | Tls::V1_2, http: Http::V3, .. } => {
                impossible("HTTP/3 always uses TLS 1.3 (RFC 9001)")
            }
            Self { tls: Tls::None, http: Http::V2, .. } => {
                impossible("without TLS, HTTP/2 is not negotiated: browsers speak HTTP/1.1")
            }
            Self { tls: Tls::None, session: Session::Resumed | Session::ZeroRtt, .. } => {
                impossible("without TLS there are no sessions")
            }
            Self { tls: Tls::V1_2, session: Session::ZeroRtt, .. } => {
                impossible("early data needs TLS 1.3 (RFC 8446)")
            }
            Self { reuse: Reuse::Reused, session: Session::Resumed | Session::ZeroRtt, .. } => {
                impossible("an open connection needs no handshake")
            }
            Self { tls: Tls::None, group: Some(_), .. } => {
                impossible("without TLS there is no key exchange")
            }
            Self { tls: Tls::V1_2, group: Some(KexGroup::X25519MlKem768), .. } => {
                impossible("hybrid groups need TLS 1.3")
            }
            Self { several: Some(several), .. } => self.check_several(several),
            _ => Ok(()),
        }
    }

    fn check_several(&self, several: &Several) -> Result<(), PredictError> {
        let impossible = |why| Err(PredictError::NoSuchWay { why });
        match (several.parallel, self.http) {
            (Parallel::Connections(_), Http::V1_1)
            | (Parallel::Http2, Http::V2)
            | (Parallel::Http3, Http::V3) => {}
            (Parallel::Connections(_), _) => {
                return impossible("parallel connections use HTTP/1.1");
            }
            (Parallel::Http2, _) => return impossible("h2 is one HTTP/2 connection"),
            (Parallel::Http3, _) => return impossible("h3 is one HTTP/3 connection"),
        }
        if self.session == Session::ZeroRtt {
            return impossible("several requests are only measured without early data");
        }
        if self.reuse == Reuse::Reused {
            return impossible("several requests are only measured on new connections");
        }
        if several.count < u32::from(several.parallel.connections()) {
            return impossible("more connections than requests");
        }
        let streams = !matches!(several.parallel, Parallel::Connections(_));
        if streams && several.count > Several::MOST_STREAMS {
            return impossible("more than 100 requests at once: servers may allow fewer streams");
        }
        Ok(())
    }

    /// Text such as `TLS 1.3 resumed, HTTP/2, X25519`.
    pub fn label(&self) -> String {
        let mut words = String::new();
        words += match self.tls {
            Tls::None => "no TLS",
            Tls::V1_2 => "TLS 1.2",
            Tls::V1_3 => "TLS 1.3",
        };
        words += match (self.tls, self.reuse, self.session) {
            (_, Reuse::Reused, _) => " kept alive",
            (Tls::None, ..) => "",
            (_, _, Session::Full) => " full",
            (_, _, Session::Resumed) => " resumed",
            (_, _, Session::ZeroRtt) => " 0-RTT",
        };
        words += match self.http {
            _ if self.several.is_some() => "",
            Http::V1_1 => ", HTTP/1.1",
            Http::V2 => ", HTTP/2",
            Http::V3 => ", HTTP/3",
        };
        if let Some(several) = self.several {
            words += ", ";
            words += &several.parallel.label();
        }
        if let Some(group) = self.group {
            words += ", ";
            words += group.name();
        }
        words
    }
}
