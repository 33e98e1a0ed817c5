//! The TCP handshake and the path: lost SYNs, addresses that do not answer, distant addresses.

use std::time::Duration;

use super::{Seen, ms};
use crate::{Finding, FindingKind, Saving, TimeSaved, WayKind};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::{AttemptOutcome, PhaseName};

/// The first retransmission of a SYN comes after one second (RFC 6298 §2.1).
const SYN_TIMEOUT: Duration = Duration::from_millis(900);
/// Smallest round-trip saving for which a nearer address is reported; it must also be a fifth of the round trip.
const NEARER: Duration = Duration::from_millis(5);

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    syn_loss(seen, found);
    fallback(seen, found);
    far_address(seen, found);
    slow_tunnel(seen, found);
}

fn variation(connection: &AttributedConnection) -> Duration {
    super::part(connection, PhaseName::Connect, |parts| parts.variation)
}

fn syn_loss(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let lost: Vec<Duration> =
        seen.connections().map(variation).filter(|time| *time >= SYN_TIMEOUT).collect();
    let Some(longest) = lost.iter().max() else { return };
    let cost = lost.iter().sum::<Duration>() / u32::try_from(lost.len()).unwrap_or(u32::MAX);
    found.push(Finding {
        title: "SYN segments are lost".into(),
        evidence: format!(
            "{} of {} connections took {} longer than a round trip to open (at most {}): the \
             client resends an unanswered SYN after 1 s, then after another 2 s.",
            lost.len(),
            seen.count(),
            ms(cost),
            ms(*longest)
        ),
        advice:
            "Find out what drops SYN segments: a full accept queue (ListenOverflows in nstat), \
                 a firewall, SYN flood protection or a lossy link."
                .into(),
        concerns: (lost.len() < seen.count()).then_some("some connections"),
        ..Finding::before_first_byte(FindingKind::SynLoss, cost)
    });
}

/// The proxy's own time for the tunnel, if no other part of any phase takes longer.
fn slow_tunnel(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let own = |c: &AttributedConnection| super::part(c, PhaseName::Tunnel, |parts| parts.server);
    let is_largest = |c: &AttributedConnection| {
        let parts = c.split.phases.iter().flat_map(|phase| phase.parts.named());
        parts.map(|(_, time)| time).max() == Some(own(c))
    };
    let time = seen.median(own);
    if time < seen.least().max(seen.uncertain()) || !seen.most(is_largest) {
        return;
    }
    found.push(Finding {
        title: "The proxy takes long to open the tunnel".into(),
        evidence: format!(
            "The proxy's answer came {} later than one round trip after it was asked (median of {} connections): it \
             looks up the name and connects to the server meanwhile.",
            ms(time),
            seen.count()
        ),
        advice: "Examine the proxy's load, its name servers and its path to the server.".into(),
        ..Finding::before_first_byte(FindingKind::SlowTunnel, time)
    });
}

fn fallback(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let cost = seen.median(|c| c.split.parts.fallback);
    if cost.is_zero() {
        return;
    }
    let gave_up = seen.connections().find_map(|c| {
        let lost = c.connection.attempts.iter().find(|a| a.outcome != AttemptOutcome::Won)?;
        let winner = c.connection.attempts.iter().find(|a| a.outcome == AttemptOutcome::Won)?;
        Some((lost, winner.remote))
    });
    let Some((lost, winner)) = gave_up else { return };
    let first = lost.remote;
    // A failed address either answered with an error or could not be sent to.
    let (does, was) = match lost.outcome {
        AttemptOutcome::Failed { .. } => ("fails", "failed and cost"),
        _ => ("does not answer", "was tried for"),
    };
    let (of, own, way) = if first.is_ipv6() {
        ("IPv6", WayKind::Ipv6, WayKind::Ipv4)
    } else {
        ("IPv4", WayKind::Ipv4, WayKind::Ipv6)
    };
    let alone = match seen.evidence.way(own) {
        Some(way) if way.proven.is_empty() && way.unproven.is_empty() && way.asked() > 0 => {
            format!("; over {of} alone, none of {} connections succeeded", way.asked())
        }
        _ => String::new(),
    };
    found.push(Finding {
        kind: FindingKind::Fallback,
        title: format!("The client first tries an {of} address that {does}"),
        cost,
        evidence: format!(
            "{} {was} {} before the client connected to {} (RFC 8305 §5){alone}.",
            first.ip(),
            ms(cost),
            winner.ip()
        ),
        advice: format!("Fix {of} to this address, or remove the address from DNS."),
        avoided_by: Some(way),
        concerns: None,
        saving: Saving {
            predicted: Some(TimeSaved::before_first_byte(cost)),
            measured: seen.evidence.way(way).and_then(|way| way.saves_against(seen.subject)),
        },
    });
}

/// The name has another address with a shorter round trip than the connected one.
fn far_address(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(rtt) = seen.rtt else { return };
    let remote = |c: &AttributedConnection| c.connection.facts.remote.map(|r| r.ip());
    let used = seen.subject.middle().and_then(remote);
    let nearest = [WayKind::Ipv4, WayKind::Ipv6]
        .into_iter()
        .filter_map(|kind| {
            let way = seen.evidence.way(kind)?;
            Some((way.median(|c| c.split.rtt)?, way.middle().and_then(remote)?, way))
        })
        .min_by_key(|(rtt, ..)| *rtt);
    let (Some((nearest, address, way)), Some(used)) = (nearest, used) else { return };
    let gain = rtt.saturating_sub(nearest);
    if address == used || gain < NEARER.max(rtt / 5) {
        return;
    }
    let trips = seen.subject.middle().map_or(0, |c| c.split.round_trips);
    found.push(Finding {
        kind: FindingKind::FarAddress,
        title: "Another address of the same name is nearer".into(),
        cost: gain * trips,
        evidence: format!(
            "The round trip takes {} to {used} and {} to {address}; a connection takes {}.",
            ms(rtt),
            ms(nearest),
            super::round_trips(trips)
        ),
        advice: "Find out why the paths differ (peering, tunnels, where the edge announces the \
                 address)."
            .into(),
        avoided_by: None,
        concerns: None,
        saving: Saving {
            measured: way.saves_against(seen.subject),
            ..Saving::before_first_byte(gain * trips)
        },
    });
}
