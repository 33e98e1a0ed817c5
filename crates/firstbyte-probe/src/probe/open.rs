//! An open connection of any kind.

use firstbyte_core::timeline::{Cause, Connection};

use super::body::Body;
use super::observation::Shared;
use super::options::HttpOptions;
use super::stream::SharedTimes;
use super::target::Target;
use super::{http, http3};

/// A connection for exchanges.
pub(super) enum Open {
    /// HTTP/1.1 or HTTP/2 over TCP.
    Tcp(http::Open),
    /// HTTP/3 over QUIC.
    Quic(Box<http3::Open>),
}

impl Open {
    /// Sends the request and receives the response to its end.
    pub(super) async fn exchange(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        body: &mut Body,
        seen: &Shared,
    ) -> Result<(), Cause> {
        match self {
            Self::Tcp(open) => open.exchange(target, options, body, seen).await,
            Self::Quic(open) => open.exchange(target, options, body, seen).await,
        }
    }

    /// Sends one request for each observation, all at once, and receives all responses completely. The first
    /// observation is the connection's; `times` receives when each was requested and answered.
    pub(super) async fn exchanges_at_once(
        &mut self,
        target: &Target,
        options: &HttpOptions,
        seen: &[Shared],
        times: &SharedTimes,
    ) -> Result<(), Cause> {
        match self {
            Self::Tcp(open) => open.exchanges_at_once(target, options, seen, times).await,
            Self::Quic(open) => open.exchanges_at_once(target, options, seen, times).await,
        }
    }

    /// Whether another exchange can follow; call it between exchanges.
    pub(super) async fn is_usable(&mut self) -> bool {
        match self {
            Self::Tcp(open) => open.is_usable().await,
            Self::Quic(open) => open.is_usable().await,
        }
    }

    /// Leaves the connection idle until the next exchange. Over TCP the kernel handles everything meanwhile.
    pub(super) fn rest(&mut self) {
        match self {
            Self::Tcp(_) => {}
            Self::Quic(open) => open.rest(),
        }
    }

    /// Waits until the server has sent a session for another connection.
    pub(super) async fn await_session(&self) -> Result<(), Cause> {
        match self {
            Self::Tcp(open) => open.await_session().await,
            Self::Quic(open) => open.await_session().await,
        }
    }

    /// Records what the kernel knows by now about a connection that stays open.
    pub(super) fn note_kernel(&self) {
        match self {
            Self::Tcp(open) => open.note_kernel(),
            Self::Quic(open) => open.note_kernel(),
        }
    }

    /// Records what an exchange on an open connection inherits from `first`, the exchange that it was opened for.
    pub(super) fn note_reuse(seen: &Shared, first: &Connection) {
        let mut seen = seen.borrow_mut();
        let facts = &mut seen.connection.facts;
        (facts.remote, facts.local) = (first.facts.remote, first.facts.local);
        facts.reused = true;
        facts.tls.clone_from(&first.facts.tls);
        facts.proxy.clone_from(&first.facts.proxy);
    }

    /// Closes the connection as far as possible without waiting.
    pub(super) fn close(self) {
        match self {
            Self::Tcp(open) => open.close(),
            Self::Quic(open) => open.close(),
        }
    }
}
