//! Selects the connections to show and write: by server, by kind of session, by number.

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::diff::is_server;
use firstbyte_passive::{Failed, Observed};

use crate::plans::{ConnectionChoice, WireSession};

/// Whether `observed` matches the requested servers and sessions; everything matches if none are requested.
pub(super) fn is_chosen(choice: &ConnectionChoice, observed: &Observed) -> bool {
    let ConnectionChoice { servers, sessions, .. } = choice;
    let of_server = servers.iter().any(|pattern| is_server(pattern, observed));
    let of_session = sessions.iter().any(|session| is_session(*session, observed));
    (servers.is_empty() || of_server) && (sessions.is_empty() || of_session)
}

/// Whether to write its row and packets: it is chosen, and among the named flows if any are named.
pub(super) fn is_written(choice: &ConnectionChoice, observed: &Observed) -> bool {
    let flows = &choice.flows;
    is_chosen(choice, observed) && (flows.is_empty() || flows.contains(&observed.number))
}

fn is_session(session: WireSession, observed: &Observed) -> bool {
    let tls = observed.tls.as_deref();
    let handshake = tls.and_then(|tls| tls.handshake);
    match session {
        WireSession::Full => handshake.is_some_and(|kind| kind != Handshake::Resumed),
        WireSession::Declined => tls.is_some_and(|tls| tls.resumption.declined),
        WireSession::Hrr => tls.is_some_and(|tls| tls.hello_retry_request),
        WireSession::Resumed => handshake == Some(Handshake::Resumed),
        WireSession::EarlyData => {
            tls.and_then(|tls| tls.early_data).is_some_and(|early| early.bytes > 0)
        }
        WireSession::Failed => Failed::judge(observed).is_some(),
        WireSession::Unknown => handshake.is_none() && Failed::judge(observed).is_none(),
    }
}
