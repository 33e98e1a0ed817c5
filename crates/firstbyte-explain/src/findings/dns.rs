//! The name lookup: a slow resolver, silent name servers, and late IPv6 addresses.

use std::time::Duration;

use super::{Seen, ms};
use crate::{Finding, FindingKind, WayKind};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::{LookupTry, Mark, PhaseName, RecordType};

/// A resolver in the same building answers from its cache within a few milliseconds.
const SLOW: Duration = Duration::from_millis(20);
/// Answers to two queries sent together arrive closer together than this.
const APART: Duration = Duration::from_millis(10);

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let late = seen.median(late_aaaa);
    if late >= APART {
        let waited = seen.how_many(|c| late_aaaa(c) >= APART);
        found.push(Finding {
            title: "The connection waits for IPv6 addresses that arrive late".into(),
            evidence: format!(
                "In {waited} of {} lookups, the AAAA answer arrived {} after the A answer.",
                seen.count(),
                ms(late)
            ),
            advice: "Find out why the name servers answer AAAA queries slowly. A client can use \
                     IPv4 alone, or connect after the Resolution Delay of RFC 8305 (50 ms)."
                .into(),
            avoided_by: Some(WayKind::Ipv4),
            ..Finding::before_first_byte(FindingKind::LateAaaa, late)
        });
    }
    let silent = seen.median(silence);
    if silent >= SLOW {
        let waited = seen.how_many(|c| silence(c) >= SLOW);
        let mut tries =
            seen.connections().flat_map(|c| &c.connection.lookups).flat_map(|l| &l.tries);
        let server = tries.find(|one| one.silence().is_some()).map(|one| one.server.to_string());
        found.push(Finding {
            title: "A name server does not answer".into(),
            evidence: format!(
                "{} was silent in {waited} of {} lookups, which took {} longer.",
                server.unwrap_or_default(),
                seen.count(),
                ms(silent)
            ),
            advice: "Repair this name server, or take it out of /etc/resolv.conf: programs wait \
                     for it before they ask the next one."
                .into(),
            ..Finding::before_first_byte(FindingKind::DeadNameServer, silent)
        });
    }
    let slow = seen.median(|c| resolver(c).saturating_sub(late_aaaa(c) + silence(c)));
    if slow >= SLOW {
        let first = seen.subject.first.as_ref().map(resolver);
        let first =
            first.map_or_else(String::new, |first| format!(", {} for the first", ms(first)));
        found.push(Finding {
            title: "The name lookup is slow".into(),
            evidence: format!(
                "The resolver took {} (median of {} lookups{first}).",
                ms(slow),
                seen.count()
            ),
            advice: "Use a nearer or a caching resolver, or a longer TTL for the name's records."
                .into(),
            ..Finding::before_first_byte(FindingKind::SlowDns, slow)
        });
    }
}

fn resolver(connection: &AttributedConnection) -> Duration {
    connection.split.phase(PhaseName::Resolve).map_or(Duration::ZERO, |p| p.parts.resolver)
}

/// How long the client waited for silent name servers before the addresses arrived.
fn silence(connection: &AttributedConnection) -> Duration {
    let lookups = &connection.connection.lookups;
    let answered = lookups.iter().filter(|lookup| !lookup.addresses.is_empty());
    let silences =
        answered.map(|lookup| lookup.tries.iter().filter_map(LookupTry::silence).sum::<Duration>());
    silences.min().unwrap_or_default().min(resolver(connection))
}

/// How long the client waited for the AAAA answer after the A answer had arrived.
fn late_aaaa(connection: &AttributedConnection) -> Duration {
    let answered = |wanted: RecordType| {
        let lookup = connection.connection.lookups.iter().find(|l| l.record_type == wanted)?;
        (lookup.error.is_none() && !lookup.addresses.is_empty()).then_some(lookup.end)?
    };
    let (Some(a), Some(end)) =
        (answered(RecordType::A), connection.connection.marks.at(Mark::DomainLookupEnd))
    else {
        return Duration::ZERO;
    };
    if end > a { end.since(a) } else { Duration::ZERO }
}
