//! Sessions from earlier connections, kept to be offered to the same server again.
//!
//! A TLS 1.3 ticket is used only once (RFC 8446 §C.4), the newest one first. Sessions are not written to disk: they
//! live as long as the prober.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of tickets kept per server.
const TICKETS: usize = 8;

/// Sessions by server name.
#[derive(Debug, Default)]
pub(in crate::probe) struct SessionStore(Mutex<HashMap<ServerName<'static>, Sessions>>);

#[derive(Debug, Default)]
struct Sessions {
    tls12: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
    /// The protocol in use when the last session was received.
    spoken: Option<Spoken>,
}

/// The protocol used over a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Spoken {
    /// The protocol that the server chose by ALPN; absent if it chose none.
    pub alpn: Option<Vec<u8>>,
}

impl Spoken {
    pub(in crate::probe) fn is_http2(&self) -> bool {
        self.alpn.as_deref() == Some(b"h2")
    }
}

impl SessionStore {
    fn sessions(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Sessions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::probe) fn has_session(&self, server: &ServerName<'static>) -> bool {
        let sessions = self.sessions();
        let of_server = sessions.get(server);
        of_server.is_some_and(|s| s.tls12.is_some() || !s.tickets.is_empty())
    }

    pub(in crate::probe) fn has_tls12_session(&self, server: &ServerName<'static>) -> bool {
        self.sessions().get(server).is_some_and(|s| s.tls12.is_some())
    }

    /// Records the protocol used with `server`: early data must use it again
    /// (RFC 8446 §4.2.10).
    pub(in crate::probe) fn remember_protocol(
        &self,
        server: &ServerName<'static>,
        alpn: Option<&[u8]>,
    ) {
        let spoken = Spoken { alpn: alpn.map(<[u8]>::to_vec) };
        self.sessions().entry(server.clone()).or_default().spoken = Some(spoken);
    }

    /// The protocol last used with `server`.
    pub(in crate::probe) fn spoken(&self, server: &ServerName<'static>) -> Option<Spoken> {
        self.sessions().get(server)?.spoken.clone()
    }
}

impl ClientSessionStore for SessionStore {
    /// If the group were remembered, a resumed handshake would differ in more than the session.
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.sessions().entry(server).or_default().tls12 = Some(value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions().get(&server.to_owned())?.tls12.clone()
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        if let Some(sessions) = self.sessions().get_mut(server) {
            sessions.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        let mut sessions = self.sessions();
        let tickets = &mut sessions.entry(server).or_default().tickets;
        if tickets.len() == TICKETS {
            tickets.pop_front();
        }
        tickets.push_back(value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.sessions().get_mut(server)?.tickets.pop_back()
    }
}
