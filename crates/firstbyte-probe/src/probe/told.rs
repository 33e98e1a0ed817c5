//! Logs completed visits, if logging is enabled (`FIRSTBYTE_LOG`).

use firstbyte_core::timeline::{Connection, Offset, Sample};
use tracing::{Level, debug, enabled, info, trace};

use firstbyte_core::shown_url::shown_url;

/// Logs a sample.
pub(super) fn sample(sample: &Sample) {
    if !enabled!(Level::INFO) {
        return;
    }
    for hop in sample.redirects.iter().chain([&sample.connection]) {
        connection(hop);
    }
}

fn connection(connection: &Connection) {
    let (url, facts) = (shown_url(&connection.url), &connection.facts);
    if let Some(failure) = &connection.failure {
        info!(%url, failure = %failure.cause, phase = %failure.phase, "failed");
    }
    for lookup in &connection.lookups {
        debug!(%url, kind = ?lookup.record_type, addresses = ?lookup.addresses, "looked up");
        for one in &lookup.tries {
            let took = one.end.map(|end| end.since(one.start));
            let (server, transport) = (one.server, one.transport.name());
            debug!(%url, %server, transport, ?took, error = one.error.as_deref(), "asked");
        }
    }
    for attempt in &connection.attempts {
        debug!(%url, remote = %attempt.remote, "connection attempt");
    }
    let tls = facts.tls.as_ref();
    debug!(
        %url,
        remote = facts.remote.map(tracing::field::display),
        proxy = facts.proxy.as_ref().map(|proxy| proxy.authority.as_str()),
        reused = facts.reused,
        tls = tls.and_then(|tls| tls.version.as_deref()),
        handshake = tls.and_then(|tls| tls.handshake).map(tracing::field::debug),
        status = facts.http.as_ref().and_then(|http| http.status),
        "visited"
    );
    for (mark, stamp) in connection.marks.iter() {
        let after = stamp.at.since(Offset::ZERO);
        trace!(%url, mark = mark.name(), ?after, clock = ?stamp.clock, "marked");
    }
    for flight in &connection.flights {
        let messages = flight.messages.len();
        trace!(%url, direction = ?flight.direction, bytes = flight.bytes(), messages, "flight");
    }
}
