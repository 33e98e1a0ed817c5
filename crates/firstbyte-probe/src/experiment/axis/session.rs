//! `session=full,resumed,0rtt`: whether to resume the TLS session of an earlier connection.

use std::rc::Rc;

use firstbyte_core::run::Shortfall;
use firstbyte_core::timeline::{Connection, Handshake, SessionMechanism};

use super::{Setting, Visit};
use crate::probe::options::{SessionUse, TlsVersion};

#[derive(Debug)]
struct Session(SessionUse);

pub(super) fn read(value: &str) -> Result<Rc<dyn Setting>, String> {
    let session = match value {
        "full" => SessionUse::Full,
        "resumed" => SessionUse::Resume(None),
        "session-id" => SessionUse::Resume(Some(SessionMechanism::SessionId)),
        "ticket" => SessionUse::Resume(Some(SessionMechanism::Ticket)),
        "psk" => SessionUse::Resume(Some(SessionMechanism::Psk)),
        "0rtt" | "0-rtt" => SessionUse::EarlyData { any_method: false },
        _ => return Err("unknown value".into()),
    };
    Ok(Rc::new(Session(session)))
}

impl Session {
    /// The range of TLS versions that support it.
    const fn versions(&self) -> (TlsVersion, TlsVersion) {
        match self.0 {
            SessionUse::Resume(Some(SessionMechanism::SessionId | SessionMechanism::Ticket)) => {
                (TlsVersion::V1_2, TlsVersion::V1_2)
            }
            SessionUse::Resume(Some(SessionMechanism::Psk)) | SessionUse::EarlyData { .. } => {
                (TlsVersion::V1_3, TlsVersion::V1_3)
            }
            SessionUse::Full | SessionUse::Resume(None) => (TlsVersion::V1_2, TlsVersion::V1_3),
        }
    }
}

impl Setting for Session {
    fn label(&self) -> String {
        match self.0 {
            SessionUse::Full => "full handshake".into(),
            SessionUse::Resume(None) => "resumed".into(),
            SessionUse::Resume(Some(SessionMechanism::SessionId)) => "resumed by session ID".into(),
            SessionUse::Resume(Some(SessionMechanism::Ticket)) => "resumed by ticket".into(),
            SessionUse::Resume(Some(SessionMechanism::Psk)) => "resumed by PSK".into(),
            SessionUse::EarlyData { .. } => "0-RTT".into(),
        }
    }

    fn apply(&self, visit: &mut Visit) -> Result<(), String> {
        let options = &mut *visit.options;
        let tls = &mut options.tls;
        let (lowest, highest) = self.versions();
        (tls.min, tls.max) = (tls.min.max(lowest), tls.max.min(highest));
        if tls.min > tls.max {
            let only = if lowest == TlsVersion::V1_3 { "TLS 1.3" } else { "TLS 1.2" };
            return Err(format!("only {only} supports this"));
        }
        tls.session = match (self.0, tls.session) {
            // Requested on the command line, for every cell.
            (SessionUse::EarlyData { .. }, SessionUse::EarlyData { any_method }) => {
                SessionUse::EarlyData { any_method }
            }
            (session, _) => session,
        };
        let method = &options.http.method;
        match tls.session {
            SessionUse::EarlyData { any_method: false } if !method.is_safe() => Err(format!(
                "{method} is not sent as early data: a server may receive it twice (RFC 8470); \
                 --early-data-any-method sends it anyway"
            )),
            _ => Ok(()),
        }
    }

    fn prove(&self, connection: &Connection) -> Result<(), Shortfall> {
        let Some(tls) = &connection.facts.tls else { return Err(Shortfall::OtherTlsVersion) };
        let resumed = tls.handshake == Some(Handshake::Resumed);
        match self.0 {
            SessionUse::Full if resumed => Err(Shortfall::Resumed),
            SessionUse::Full => Ok(()),
            // Some clients do not report what they offered.
            _ if tls.session_offered.is_none() && !resumed => Err(Shortfall::NoSession),
            _ if !resumed => Err(Shortfall::NotResumed),
            SessionUse::Resume(Some(mechanism)) if tls.session_offered != Some(mechanism) => {
                Err(Shortfall::OtherMechanism)
            }
            SessionUse::Resume(_) => Ok(()),
            SessionUse::EarlyData { .. } => match tls.early_data {
                _ if status(connection) == Some(425) => Err(Shortfall::TooEarly),
                _ if tls.early_data_allowed == Some(false) => Err(Shortfall::EarlyDataNotAllowed),
                Some(early) if early.bytes_before_server_hello == Some(0) => {
                    Err(Shortfall::EarlyDataNotSent)
                }
                Some(early) if early.accepted == Some(true) => Ok(()),
                Some(_) => Err(Shortfall::EarlyDataRejected),
                None => Err(Shortfall::EarlyDataNotSent),
            },
        }
    }
}

fn status(connection: &Connection) -> Option<u16> {
    connection.facts.http.as_ref()?.status
}
