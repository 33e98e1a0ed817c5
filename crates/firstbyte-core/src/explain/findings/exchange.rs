//! Request and response: redirects, a slow server, pauses, a window that has to grow; and the client.

use std::time::Duration;

use super::{Seen, bytes, ms, part, round_trips, stalls};
use crate::explain::{Change, Finding, FindingKind, Saving, WayKind};
use crate::split::Split;
use crate::timeline::{Connection, Direction, Mark, PhaseName};

/// A static page takes a server less than a millisecond.
const THINKING: Duration = Duration::from_millis(5);
/// What the client is at work for is small.
const SLOW_CLIENT: Duration = Duration::from_millis(10);

pub(super) fn find(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    redirects(seen, found);
    let held = held_response(seen, found);
    slow_server(seen, held, found);
    pause(seen, found);
    slow_start(seen, found);
    slow_client(seen, found);
}

fn redirects(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let hops = &seen.evidence.redirects;
    if hops.is_empty() {
        return;
    }
    let cost = hops.iter().map(|hop| Split::of(hop).total()).sum();
    let each: Vec<String> = hops
        .iter()
        .map(|hop| {
            let status = hop.facts.http.as_ref().and_then(|h| h.status);
            let status = status.map_or_else(String::new, |s| format!(" {s}"));
            format!("{}{status} {}", hop.url, ms(Split::of(hop).total()))
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
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(cost), measured: None },
    });
}

/// How long before the response the last thing that is not of it had arrived (session tickets, the
/// server's settings); absent where nothing had.
fn after_tickets(connection: &Connection) -> Option<Duration> {
    let (asked, answered) =
        (connection.marks.at(Mark::RequestEnd)?, connection.marks.at(Mark::ResponseStart)?);
    let received = connection.flights.iter().filter(|f| f.direction == Direction::Received);
    let chunks = received.flat_map(|flight| &flight.chunks).map(|chunk| chunk.stamp.at);
    let last = chunks.filter(|at| *at > asked && *at < answered).max()?;
    Some(answered.since(last))
}

fn think(connection: &Connection) -> Duration {
    part(connection, PhaseName::Wait, |parts| parts.server)
}

/// A response that Nagle's algorithm holds back behind session tickets. It looks like a slow server, but
/// for two things: it comes a delayed acknowledgement and a round trip after the tickets, and where
/// there are none, on an open connection, it is fast. Gives what it costs.
fn held_response(seen: &Seen<'_>, found: &mut Vec<Finding>) -> Duration {
    let Some(rtt) = seen.rtt else { return Duration::ZERO };
    let delayed = |c: &Connection| {
        let rtt = Split::of(c).rtt.unwrap_or(rtt);
        after_tickets(c).and_then(|gap| gap.checked_sub(rtt)).is_some_and(is_delay)
    };
    let reused = seen.evidence.way(WayKind::Reused).and_then(|way| way.median(|c| Some(think(c))));
    let time = seen.median(|c| think(c).min(after_tickets(c).unwrap_or_default()));
    let Some(reused) = reused.filter(|reused| *reused < time / 4) else { return Duration::ZERO };
    if !seen.most(delayed) {
        return Duration::ZERO;
    }
    found.push(Finding {
        kind: FindingKind::Nagle,
        title: NAGLE.into(),
        cost: time,
        evidence: format!(
            "in {} of {} connections the response came a round trip and the delay of an \
             acknowledgement (40 or 200 ms) after the session tickets; on an open connection, where \
             there are none, the server takes {}",
            seen.how_many(delayed),
            seen.count(),
            ms(reused)
        ),
        advice: NODELAY.into(),
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
    time
}

const NAGLE: &str = "the server waits for a delayed acknowledgement (Nagle's algorithm)";
const NODELAY: &str = "turn Nagle's algorithm off at the server (TCP_NODELAY; nginx: tcp_nodelay on), \
                       or write all that is there at once";

/// `held` of the server's time is known not to be its work.
fn slow_server(seen: &Seen<'_>, held: Duration, found: &mut Vec<Finding>) {
    let time = seen.median(think).saturating_sub(held);
    let total = seen.median(|c| Split::of(c).total());
    let uncertain = seen.subject.median(|c| Split::of(c).server_uncertainty()).unwrap_or_default();
    if time < THINKING.max(total / 20).max(uncertain) {
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
        concerns: None,
        change: None,
        saving: Saving { predicted: Some(time), measured: None },
    });
}

/// Whether a pause is a delayed acknowledgement's: 40 ms on Linux, 200 ms elsewhere, whatever the
/// round trip; with the round trip in it where the server had sent less than a segment.
fn is_delayed_ack(pause: Duration, rtt: Duration) -> bool {
    is_delay(pause) || pause.checked_sub(rtt).is_some_and(is_delay)
}

/// Whether acknowledgements are delayed by so much.
fn is_delay(time: Duration) -> bool {
    let ms = time.as_secs_f64() * 1e3;
    (36.0..=55.0).contains(&ms) || (190.0..=225.0).contains(&ms)
}

fn pause(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let paused = |c: &Connection| Split::of(c).parts.pause;
    let time = seen.median(paused);
    let Some(rtt) = seen.rtt.filter(|_| !time.is_zero()) else { return };
    let place = |c: &Connection| {
        let phases = Split::of(c).phases;
        phases.iter().find(|p| !p.parts.pause.is_zero()).map(|p| p.phase.name)
    };
    let place = seen.subject.middle().and_then(place);
    let place = match place {
        Some(PhaseName::Tls | PhaseName::Quic) => "in the middle of its handshake messages",
        _ => "in the middle of its response",
    };
    let delayed = seen.how_many(|c| is_delayed_ack(paused(c), Split::of(c).rtt.unwrap_or(rtt)));
    let with = seen.how_many(|c| !paused(c).is_zero());
    let finding = if delayed * 2 > seen.count() {
        Finding {
            kind: FindingKind::Nagle,
            title: NAGLE.into(),
            cost: time,
            evidence: format!(
                "it stood still {place} for {}, in {delayed} of {} connections: 40 or 200 ms beyond \
                 round trips are the delay of acknowledgements",
                ms(time),
                seen.count()
            ),
            advice: NODELAY.into(),
            concerns: None,
            change: None,
            saving: Saving { predicted: Some(time), measured: None },
        }
    } else {
        Finding {
            kind: FindingKind::Pause,
            title: format!("the server stands still {place}"),
            cost: time,
            evidence: format!(
                "for {} in the median, in {with} of {} connections; acknowledgements do not explain it",
                ms(time),
                seen.count()
            ),
            advice:
                "see what the server does once it has begun to answer; lost segments look the same"
                    .into(),
            concerns: None,
            change: None,
            saving: Saving { predicted: Some(time), measured: None },
        }
    };
    found.push(finding);
}

fn slow_start(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let stalls = stalls(seen.subject, PhaseName::Receive);
    let (Some(rtt), Some(middle)) = (seen.rtt, seen.subject.middle()) else { return };
    if stalls == 0 {
        return;
    }
    let size = middle.facts.http.as_ref().and_then(|http| http.body_bytes);
    let size =
        size.map_or_else(|| "the response".into(), |n| format!("a response of {}", bytes(n)));
    found.push(Finding {
        kind: FindingKind::SlowStart,
        title: "the response outgrows the server's congestion window".into(),
        cost: rtt * stalls,
        evidence: format!("{size} stood still for {}", round_trips(stalls)),
        advice:
            "send less before it is needed (compress, split), keep connections open so that the \
                 window has grown, or begin with a larger one"
                .into(),
        concerns: None,
        change: Some(Change::LargeWindow),
        saving: Saving::default(),
    });
}

fn slow_client(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    let time = seen.median(|c| Split::of(c).parts.client);
    let total = seen.median(|c| Split::of(c).total());
    let asked = found.iter().any(|finding| finding.kind == FindingKind::ClientCertificate);
    if asked || time < SLOW_CLIENT.max(total / 10) {
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
        concerns: None,
        change: None,
        saving: Saving::default(),
    });
}
