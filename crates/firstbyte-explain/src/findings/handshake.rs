//! The TLS handshake: its version, a second ClientHello, slow servers.

use std::time::Duration;

use super::{Seen, ms, part};
use crate::replay::Fault;
use crate::{Finding, FindingKind, Saving, TimeSaved, WayKind};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::{Handshake, PhaseName, TlsFacts};

/// Fetching a certificate from a file or an agent takes a client longer than checking one.
const SLOW_CLIENT: Duration = Duration::from_millis(5);
/// A lost segment is retransmitted after at least 200 ms (Linux, TCP_RTO_MIN) or two round trips.
const RETRANSMISSION: Duration = Duration::from_millis(150);

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    version(seen, found);
    hello_retry_request(seen, found);
    slow(seen, found);
}

fn tls(connection: &AttributedConnection) -> Option<&TlsFacts> {
    connection.connection.facts.tls.as_ref()
}

fn version(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let is_12 =
        |c: &AttributedConnection| tls(c).is_some_and(|t| t.version.as_deref() == Some("TLSv1.2"));
    let full =
        |c: &AttributedConnection| tls(c).is_some_and(|t| t.handshake != Some(Handshake::Resumed));
    let (true, Some(rtt)) = (seen.most(|c| is_12(c) && full(c)), seen.rtt) else { return };
    let Some(saved) = seen.saved(Fault::Tls12) else { return };
    let of_it = seen.how_many(is_12);
    let refused = seen.evidence.way(WayKind::Tls13).is_some_and(|way| way.proven.is_empty());
    let refused = if refused { "; the server refuses TLS 1.3 alone" } else { "" };
    found.push(Finding {
        kind: FindingKind::Tls12,
        title: "The server chooses TLS 1.2, which takes one round trip more than TLS 1.3".into(),
        cost: saved.total,
        evidence: format!(
            "The server chose TLS 1.2 in {of_it} of {} handshakes; a round trip takes {}{refused}.",
            seen.count(),
            ms(rtt)
        ),
        advice: "Enable TLS 1.3 on the server (nginx: ssl_protocols TLSv1.2 TLSv1.3).".into(),
        avoided_by: None,
        concerns: None,
        saving: Saving {
            predicted: Some(saved),
            measured: seen
                .evidence
                .way(WayKind::Tls13)
                .and_then(|way| way.saves_against(seen.subject)),
        },
    });
}

fn hello_retry_request(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let retried = |c: &AttributedConnection| {
        tls(c).is_some_and(|t| t.handshake == Some(Handshake::FullWithHelloRetryRequest))
    };
    let (true, Some(rtt)) = (seen.most(retried), seen.rtt) else { return };
    let group = seen.subject.middle().and_then(tls).and_then(|t| t.group.clone());
    let wanted = group.map_or_else(String::new, |group| format!(" with a key share for {group}"));
    found.push(Finding {
        kind: FindingKind::HelloRetryRequest,
        title: "The server asks for another key share (HelloRetryRequest)".into(),
        cost: rtt,
        evidence: format!(
            "{} of {} handshakes had a second ClientHello{wanted}.",
            seen.how_many(retried),
            seen.count()
        ),
        advice:
            "Allow a group on the server that clients send a key share for: X25519MLKEM768, X25519 \
             (nginx: ssl_ecdh_curve)."
                .into(),
        avoided_by: None,
        concerns: None,
        saving: Saving {
            measured: seen
                .evidence
                .way(WayKind::ServersGroup)
                .and_then(|way| way.saves_against(seen.subject)),
            ..Saving::before_first_byte(rtt)
        },
    });
}

/// The server's own time in the handshake, and its possible causes.
fn slow(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let server = |c: &AttributedConnection| part(c, PhaseName::Tls, |parts| parts.server);
    let client = |c: &AttributedConnection| part(c, PhaseName::Tls, |parts| parts.client);
    let lossy = |c: &AttributedConnection| {
        c.connection.facts.tcp.as_ref().and_then(|t| t.retransmits).is_some_and(|n| n > 0)
            && server(c) + part(c, PhaseName::Tls, |parts| parts.pause) >= RETRANSMISSION
    };
    let lost = seen.how_many(lossy);
    if lost > 0 {
        let paid =
            |c: &AttributedConnection| server(c) + part(c, PhaseName::Tls, |parts| parts.pause);
        let cost: Duration = seen.connections().filter(|c| lossy(c)).map(paid).sum();
        let cost = cost / u32::try_from(lost).unwrap_or(u32::MAX);
        found.push(Finding {
            title: "Segments of the TLS handshake are lost".into(),
            evidence: format!(
                "{lost} of {} connections retransmitted segments in the TLS handshake and waited \
                 {}.",
                seen.count(),
                ms(cost)
            ),
            advice: "Look for packet loss on the path. Some middleboxes drop large \
                     ClientHellos."
                .into(),
            concerns: (lost < seen.count()).then_some("some connections"),
            ..Finding::before_first_byte(FindingKind::HandshakeLoss, cost)
        });
    }
    let saved = seen.saved(Fault::Handshake).filter(|_| lost * 2 <= seen.count());
    let beyond = |saved: &TimeSaved| {
        saved.total.min(seen.above_syn(PhaseName::Tls)).min(seen.usual(server)) >= seen.uncertain()
    };
    if let Some(saved) = saved.filter(beyond) {
        let time = saved.total;
        found.push(Finding {
            title: "The server takes long to send its handshake messages".into(),
            evidence: format!(
                "{} of the TLS handshake are neither round trips nor client time (median of {} \
                 connections).",
                ms(time),
                seen.count()
            ),
            advice: seen.advise_server(
                "Examine what the server does before its ServerHello: OCSP responses fetched on \
                 demand, keys on another machine, a full queue, large RSA keys.",
            ),
            ..Finding::saving(FindingKind::SlowHandshake, saved)
        });
    }
    let asked = |c: &AttributedConnection| {
        c.connection
            .flights
            .iter()
            .any(|f| f.messages.iter().any(|m| m.contains("CertificateRequest")))
    };
    let time = seen.median(client);
    if seen.most(asked) && time >= SLOW_CLIENT {
        found.push(Finding {
            kind: FindingKind::ClientCertificate,
            title: "The server asks for a client certificate".into(),
            cost: time,
            evidence: format!(
                "{} of {} handshakes had a CertificateRequest; the client took {} in the \
                 handshake.",
                seen.how_many(asked),
                seen.count(),
                ms(time)
            ),
            advice:
                "Ask for client certificates only where they are needed, and keep the client's \
                     keys close to it."
                    .into(),
            avoided_by: None,
            concerns: None,
            saving: Saving::default(),
        });
    }
}

/// Time of the TLS handshake, besides round trips, that a resumed one would not take.
pub(super) fn certificates_take(connection: &AttributedConnection) -> Duration {
    let split = &connection.split;
    split.phase(PhaseName::Tls).map_or(Duration::ZERO, |tls| tls.parts.server + tls.parts.client)
}
