//! What repeated visits could save: session resumption, early data, persistent connections.

use std::time::Duration;

use super::handshake::certificates_take;
use super::{Seen, ms};
use crate::{Finding, FindingKind, Saving, WayKind};
use firstbyte_core::run::{Metric, Metrics, Shortfall};
use firstbyte_core::split::AttributedConnection;

const REPEATED: &str = "repeated visits";

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let resumes = resumption(seen, found);
    // A HelloRetryRequest rejects early data (RFC 8446 §4.2.10); it is a separate finding.
    let retried = found.iter().any(|f| f.kind == FindingKind::HelloRetryRequest);
    if resumes && !retried {
        early_data(seen, found);
    }
    reuse(seen, found);
}

/// Returns whether sessions are resumed.
fn resumption(seen: &Seen<'_>, found: &mut Vec<Finding>) -> bool {
    let Some(way) = seen.evidence.way(WayKind::Resumed) else { return false };
    let completed = way.proven.len() + way.unproven.len();
    if completed == 0 || way.proven.len() * 2 > completed {
        return !way.proven.is_empty();
    }
    let lacks = |wanted: Shortfall| way.unproven.iter().filter(|(why, _)| *why == wanted).count();
    let (none, refused) = (lacks(Shortfall::NoSession), lacks(Shortfall::NotResumed));
    let mut evidence = Vec::new();
    if none > 0 {
        evidence.push(format!("{none} of {completed} visits had no session to offer"));
    }
    if refused > 0 {
        evidence.push(format!("{refused} of {} sessions offered were declined", completed - none));
    }
    if evidence.is_empty() {
        return true;
    }
    let is_12 = |c: &AttributedConnection| {
        c.connection.facts.tls.as_ref().is_some_and(|tls| tls.version.as_deref() == Some("TLSv1.2"))
    };
    let round_trip = if seen.most(is_12) { seen.rtt.unwrap_or_default() } else { Duration::ZERO };
    found.push(Finding {
        kind: FindingKind::NoResumption,
        title: "The server does not resume sessions".into(),
        cost: round_trip + seen.median(certificates_take),
        evidence: format!("{}.", evidence.join("; ")),
        advice: "Enable session tickets, with one key for all servers behind the name (nginx: \
                 ssl_session_tickets, ssl_session_ticket_key)."
            .into(),
        avoided_by: None,
        concerns: Some(REPEATED),
        saving: Saving::default(),
    });
    !way.proven.is_empty()
}

fn early_data(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let (Some(way), Some(rtt)) = (seen.evidence.way(WayKind::EarlyData), seen.rtt) else { return };
    let completed = way.proven.len() + way.unproven.len();
    if completed == 0 || way.proven.len() * 2 > completed {
        return;
    }
    let lacks = |wanted: Shortfall| way.unproven.iter().filter(|(why, _)| *why == wanted).count();
    // If the client sent no early data although a ticket allows it, the server is not at fault.
    let (refused, rejected, too_early) = (
        lacks(Shortfall::EarlyDataNotAllowed),
        lacks(Shortfall::EarlyDataRejected),
        lacks(Shortfall::TooEarly),
    );
    let mut evidence = Vec::new();
    if refused > 0 {
        evidence.push(format!(
            "{refused} of {completed} visits had tickets that do not allow early \
                           data"
        ));
    }
    if rejected > 0 {
        evidence.push(format!("{rejected} of {completed} visits had their early data rejected"));
    }
    if too_early > 0 {
        evidence.push(format!("{too_early} of {completed} visits were answered 425 (Too Early)"));
    }
    if evidence.is_empty() {
        return;
    }
    found.push(Finding {
        kind: FindingKind::NoEarlyData,
        title: "The server resumes sessions, but the request waits for the handshake (no early \
                data)"
            .into(),
        cost: rtt,
        evidence: format!("{}.", evidence.join("; ")),
        advice:
            "Accept early data for requests that may be repeated (nginx: ssl_early_data on; the \
             application answers 425 where a repeat does harm, RFC 8470)."
                .into(),
        avoided_by: None,
        concerns: Some(REPEATED),
        saving: Saving::default(),
    });
}

fn reuse(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(way) = seen.evidence.way(WayKind::Reused) else { return };
    let completed = way.proven.len() + way.unproven.len();
    let is_other_status = |(why, _): &(Shortfall, _)| *why == Shortfall::OtherStatus;
    if completed == 0 || !way.proven.is_empty() || way.unproven.iter().any(is_other_status) {
        return;
    }
    let closes = |c: &AttributedConnection| {
        let http = c.connection.facts.http.as_ref();
        http.is_some_and(|h| {
            h.version.as_deref() == Some("1.0")
                || h.header("connection").is_some_and(|v| v.eq_ignore_ascii_case("close"))
        })
    };
    let said = seen.how_many(closes);
    let said = if said > 0 {
        format!("; {said} of {} responses announce it (Connection: close)", seen.count())
    } else {
        String::new()
    };
    let setup = |c: &AttributedConnection| {
        Metrics::from_connection(&c.connection).get(Metric::Setup).map(Duration::from_nanos)
    };
    let cost = seen.subject.median(setup).unwrap_or_default();
    found.push(Finding {
        title: "The server closes the connection after each response".into(),
        evidence: format!(
            "None of {completed} second requests found its connection open{said}; setting up a \
             connection takes {}.",
            ms(cost)
        ),
        advice: "Keep connections open (nginx: keepalive_timeout; HTTP/1.1 or HTTP/2 towards \
                 clients)."
            .into(),
        concerns: Some("further requests"),
        ..Finding::before_first_byte(FindingKind::NoReuse, cost)
    });
}
