//! Request and response: redirects, a slow server, pauses, a slow link; and the client.

use std::time::Duration;

use super::{Seen, held, ms, part};
use crate::replay::Fault;
use crate::{Finding, FindingKind, Saving};
use firstbyte_core::split::Split;
use firstbyte_core::timeline::{Connection, PhaseName};

/// What the client is at work for is small.
const SLOW_CLIENT: Duration = Duration::from_millis(10);

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    redirects(seen, found);
    held::find(seen, found);
    slow_server(seen, found);
    pause(seen, found);
    slow_link(seen, found);
    slow_client(seen, found);
}

fn redirects(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let hops = &seen.evidence.redirects;
    if hops.is_empty() {
        return;
    }
    let cost = hops.iter().map(|hop| Split::attribute(hop).total()).sum();
    let each: Vec<String> = hops
        .iter()
        .map(|hop| {
            let status = hop.facts.http.as_ref().and_then(|h| h.status);
            let status = status.map_or_else(String::new, |s| format!(" {s}"));
            format!("{}{status} {}", hop.url, ms(Split::attribute(hop).total()))
        })
        .collect();
    let n = hops.len();
    let upgrades = hops.iter().filter(|hop| hop.url.starts_with("http://")).count();
    let hsts = if upgrades > 0 {
        "; announce https (Strict-Transport-Security, HTTPS records in DNS), so that clients do not \
         come by http"
    } else {
        ""
    };
    found.push(Finding {
        kind: FindingKind::Redirects,
        title: match n {
            1 => "a redirect comes first".into(),
            n => format!("{n} redirects come first, each on a connection of its own"),
        },
        cost,
        evidence: each.join(", then "),
        advice: format!("link to where it ends, or redirect there at once{hsts}"),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(cost), measured: None },
    });
}

/// The server's time before the response.
pub(super) fn think(connection: &Connection) -> Duration {
    part(connection, PhaseName::Wait, |parts| parts.server)
}

fn slow_server(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(time) = seen.cost(Fault::Think) else { return };
    // What was held back meanwhile is known from other connections.
    let hidden = time.saturating_sub(seen.median(think));
    let beyond = seen.above_syn(PhaseName::Wait).min(seen.usual(think)) + hidden;
    if time.min(beyond) < seen.uncertain() {
        return;
    }
    found.push(Finding {
        kind: FindingKind::SlowServer,
        title: "the server takes long over the response".into(),
        cost: time,
        evidence: format!(
            "the first byte came {} after a round trip, in the median of {}",
            ms(time),
            seen.count()
        ),
        advice:
            "look at the application and what it waits for (databases, other services), or cache \
                 the response; Server-Timing headers would say which"
                .into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
}

/// Pauses, but for acknowledgements that were delayed.
pub(super) fn paused(connection: &Connection) -> Duration {
    let split = Split::attribute(connection);
    let delayed: Duration = split.held.iter().map(|held| held.delayed).sum();
    split.parts.pause.saturating_sub(delayed)
}

fn pause(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(time) = seen.cost(Fault::Pause) else { return };
    let place = |c: &Connection| {
        let phases = Split::attribute(c).phases;
        phases.iter().max_by_key(|p| p.parts.pause).map(|p| p.phase.name)
    };
    let place = seen.subject.middle().and_then(place);
    let place = match place {
        Some(PhaseName::Tls | PhaseName::Quic) => "in the middle of its handshake messages",
        _ => "in the middle of its response",
    };
    let with = seen.how_many(|c| !paused(c).is_zero());
    found.push(Finding {
        kind: FindingKind::Pause,
        title: format!("the server stands still {place}"),
        cost: time,
        evidence: format!(
            "for {} in the median, in {with} of {} connections; acknowledgements do not explain it",
            ms(time),
            seen.count()
        ),
        advice: "see what the server does once it has begun to answer; lost segments look the same"
            .into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
}

/// The link's rate, where most connections prove it, and what it takes for what is sent.
fn slow_link(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let (Some(time), Some(rate)) = (seen.cost(Fault::Link), seen.costs.rate) else { return };
    let rate = rate as f64 / 1e6;
    found.push(Finding {
        kind: FindingKind::SlowLink,
        title: format!("the link to the client is slow: {rate:.1} Mbit/s"),
        cost: time,
        evidence: format!(
            "segments arrived as far apart as it takes for each, and it was waited for {} in the median of {}",
            ms(time),
            seen.count()
        ),
        advice: "send less (compress, split, a shorter chain), or find the slowest link of the way".into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
}

fn slow_client(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let time = seen.median(|c| Split::attribute(c).parts.client);
    let total = seen.median(|c| Split::attribute(c).total());
    let asked = found.iter().any(|finding| finding.kind == FindingKind::ClientCertificate);
    let usual = seen.usual(|c| Split::attribute(c).parts.client);
    if asked || time.min(usual) < SLOW_CLIENT.max(total / 10) {
        return;
    }
    found.push(Finding {
        kind: FindingKind::SlowClient,
        title: "this client takes long".into(),
        cost: time,
        evidence: format!(
            "{} of its own between flights, in the median of {}",
            ms(time),
            seen.count()
        ),
        advice: "measure from a machine that is less busy; users' devices may be as slow".into(),
        avoided_by: None,
        concerns: None,
        change: None,
        saving: Saving::default(),
    });
}
