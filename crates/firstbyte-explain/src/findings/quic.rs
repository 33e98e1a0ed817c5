//! QUIC: Retry, and the anti-amplification limit of three times the bytes that the client sent.

use super::{Seen, bytes};
use crate::{Finding, FindingKind, WayKind};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::{QuicFacts, TlsFacts};

const OVER_HTTP3: &str = "connections over HTTP/3";

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let quic = |c: &AttributedConnection| c.connection.facts.quic.is_some();
    let (way, concerns) = match seen.evidence.way(WayKind::Http3) {
        _ if seen.most(quic) => (seen.subject, None),
        Some(way) if !way.proven.is_empty() => (way, Some(OVER_HTTP3)),
        _ => return,
    };
    let Some(rtt) = way.median(|c| c.split.rtt) else { return };
    let n = way.proven.len();
    let facts = |c: &AttributedConnection| c.connection.facts.quic.clone().unwrap_or_default();
    let how_many =
        |are: fn(&QuicFacts) -> bool| way.connections().filter(|c| are(&facts(c))).count();

    let retried = how_many(|quic| quic.retry);
    if retried * 2 > n {
        found.push(Finding {
            title: "QUIC connections start with a Retry".into(),
            evidence: format!("{retried} of {n} handshakes had a Retry packet."),
            advice:
                "Send Retry only under attack; give clients address tokens (NEW_TOKEN, RFC 9000 \
                 §8.1.3)."
                    .into(),
            concerns,
            ..Finding::before_first_byte(FindingKind::QuicRetry, rtt)
        });
    }
    let stalled = how_many(|quic| quic.amplification_stall.is_some());
    // A chain that also exceeds TCP's window has already been reported there.
    let known = found.iter().any(|finding| finding.kind == FindingKind::LargeChain);
    if stalled * 2 > n && !known {
        let cost = way.median(|c| facts(c).amplification_stall).unwrap_or(rtt);
        let chain = way
            .middle()
            .and_then(|c| c.connection.facts.tls.as_ref())
            .and_then(TlsFacts::certificate_chain_bytes);
        let chain =
            chain.map_or_else(String::new, |n| format!("; the certificates have {}", bytes(n)));
        found.push(Finding {
            title: "The certificates exceed what a QUIC server may send before it has validated \
                    the client's address"
                .into(),
            evidence: format!(
                "The server stopped at three times the client's bytes in {stalled} of {n} \
                 handshakes{chain}."
            ),
            advice:
                "Send a chain below about 3,000 bytes (no root, ECDSA, certificate compression)."
                    .into(),
            concerns,
            ..Finding::before_first_byte(FindingKind::AmplificationLimit, cost)
        });
    }
}
