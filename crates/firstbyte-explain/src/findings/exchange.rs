//! Request and response: redirects, a slow server, pauses, a slow link, and a slow client.

use std::time::Duration;

use super::{Seen, held, ms, part};
use crate::replay::Fault;
use crate::{Finding, FindingKind, Saving};
use firstbyte_core::split::AttributedConnection;
use firstbyte_core::timeline::PhaseName;

/// Smallest client time that is reported; it must also be a tenth of the total.
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
    let cost = hops.iter().map(|hop| hop.split.total()).sum();
    let each: Vec<String> = hops
        .iter()
        .map(|hop| {
            let status = hop.connection.facts.http.as_ref().and_then(|h| h.status);
            let status = status.map_or_else(String::new, |s| format!(" ({s})"));
            format!("{}{status} took {}", hop.connection.url, ms(hop.split.total()))
        })
        .collect();
    let n = hops.len();
    let upgrades = hops.iter().filter(|hop| hop.connection.url.starts_with("http://")).count();
    let hsts = if upgrades > 0 {
        " Announce HTTPS (Strict-Transport-Security, HTTPS records in DNS), so that clients do not \
         start with HTTP."
    } else {
        ""
    };
    found.push(Finding {
        title: match n {
            1 => "A redirect comes before the response".into(),
            n => format!("{n} redirects come before the response, each over a new connection"),
        },
        evidence: format!("{}.", each.join(", then ")),
        advice: format!("Link to the final URL, or redirect to it directly.{hsts}"),
        ..Finding::before_first_byte(FindingKind::Redirects, cost)
    });
}

/// The server's time before the response.
pub(super) fn think(connection: &AttributedConnection) -> Duration {
    part(connection, PhaseName::Wait, |parts| parts.server)
}

fn slow_server(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(saved) = seen.saved(Fault::Think) else { return };
    let time = saved.total;
    // Other connections show the think time that was hidden while the response was held back.
    let hidden = time.saturating_sub(seen.median(think));
    let beyond = seen.above_syn(PhaseName::Wait).min(seen.usual(think)) + hidden;
    if time.min(beyond) < seen.uncertain() {
        return;
    }
    found.push(Finding {
        title: "The server takes long to respond".into(),
        evidence: format!(
            "The first byte came {} later than one round trip after the request (median of {} \
             connections).",
            ms(time),
            seen.count()
        ),
        advice: seen.advise_server(
            "Examine the application and what it waits for (databases, other services), or cache \
             the response. Server-Timing headers show which part is slow.",
        ),
        ..Finding::saving(FindingKind::SlowServer, saved)
    });
}

/// Pauses, excluding those caused by delayed acknowledgements.
pub(super) fn paused(connection: &AttributedConnection) -> Duration {
    let split = &connection.split;
    let delayed: Duration = split.held.iter().map(|held| held.delayed).sum();
    split.parts.pause.saturating_sub(delayed)
}

fn pause(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let Some(saved) = seen.saved(Fault::Pause) else { return };
    let time = saved.total;
    let place = |c: &AttributedConnection| {
        let phases = &c.split.phases;
        phases.iter().max_by_key(|p| p.parts.pause).map(|p| p.phase.name)
    };
    let place = seen.subject.middle().and_then(place);
    let place = match place {
        Some(PhaseName::Tls | PhaseName::Quic) => "within its handshake messages",
        _ => "within its response",
    };
    let with = seen.how_many(|c| !paused(c).is_zero());
    if with * 2 <= seen.count() {
        return;
    }
    found.push(Finding {
        title: format!("The server pauses {place}"),
        evidence: format!(
            "The server paused for {} (median) in {with} of {} connections; waiting for \
             acknowledgements does not explain it.",
            ms(time),
            seen.count()
        ),
        advice: "Find out what the server does after it starts to answer. Lost segments look the \
                 same."
            .into(),
        ..Finding::saving(FindingKind::Pause, saved)
    });
}

/// The link's rate, if most connections show it, and the time it takes to transfer the data.
fn slow_link(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let (Some(saved), Some(rate)) = (seen.saved(Fault::Link), seen.costs.rate) else { return };
    let time = saved.total;
    let rate = rate as f64 / 1e6;
    found.push(Finding {
        title: format!("The link to the client is slow ({rate:.1} Mbit/s)"),
        evidence: format!(
            "Segments arrived at the pace of such a link, and the client waited {} for them \
             (median of {} connections).",
            ms(time),
            seen.count()
        ),
        advice: "Send less (compression, splitting, a shorter certificate chain), or find the \
                 slowest link of the path."
            .into(),
        ..Finding::saving(FindingKind::SlowLink, saved)
    });
}

fn slow_client(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let time = seen.median(|c| c.split.parts.client);
    let total = seen.median(|c| c.split.total());
    let asked = found.iter().any(|finding| finding.kind == FindingKind::ClientCertificate);
    let usual = seen.usual(|c| c.split.parts.client);
    if asked || time.min(usual) < SLOW_CLIENT.max(total / 10) {
        return;
    }
    found.push(Finding {
        kind: FindingKind::SlowClient,
        title: "This client is slow".into(),
        cost: time,
        evidence: format!(
            "The client itself took {} between flights (median of {} connections).",
            ms(time),
            seen.count()
        ),
        advice: "Measure from a less busy machine. Users' devices may be just as slow.".into(),
        avoided_by: None,
        concerns: None,
        saving: Saving::default(),
    });
}
