//! Which connections are shown and written: by server, by what their session is, by number.

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::diff::is_server;
use firstbyte_passive::{Failed, Observed};

use crate::plans::{ConnectionChoice, WireSession};

/// Whether `observed` is of the servers and sessions that were asked for; without such, all are.
pub(super) fn is_chosen(choice: &ConnectionChoice, observed: &Observed) -> bool {
    let ConnectionChoice { servers, sessions, .. } = choice;
    let of_server = servers.iter().any(|pattern| is_server(pattern, observed));
    let of_session = sessions.iter().any(|session| is_session(*session, observed));
    (servers.is_empty() || of_server) && (sessions.is_empty() || of_session)
}

/// Whether its row and its packets are to be written: of those chosen, the flows that were named; all without.
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
