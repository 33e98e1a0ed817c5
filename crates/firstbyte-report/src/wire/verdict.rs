//! What a server's figures mean, in a sentence: how it handles sessions, and what that costs.
//!
//! Input: [`ServerSummary`]. Output: text for both the terminal and the page. Defined in `docs/wire.md`,
//! "Verdicts". Counts cover all connections; a time is mentioned only if it was measured.

use std::cmp::Reverse;
use std::time::Duration;

use firstbyte_passive::Failed;
use firstbyte_passive::groups::{Compared, ServerSummary};

use super::{count, counted, time};

/// A server's figures in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Whether there is a problem to fix, such as declined sessions or failed connections.
    pub(super) is_finding: bool,
    /// The sentence without its full stop.
    pub(super) sentence: String,
}

/// The verdict on a server; absent if neither a handshake nor a failure was seen.
pub(super) fn verdict(summary: &ServerSummary) -> Option<Verdict> {
    let counts = &summary.counts;
    let mut parts: Vec<String> = Vec::new();
    let errors = counts.errors();
    if errors > 0 {
        let all = counted(counts.connections, "connection");
        let ways: Vec<String> = counts
            .failures()
            .map(|(way, number)| format!("{} {}", count(number), word(way)))
            .collect();
        parts.push(format!("{} of {all} failed ({})", count(errors), ways.join(", ")));
    }
    // Problems to fix come first.
    match sessions(summary) {
        Some(sessions) if counts.declined > 0 => parts.insert(0, sessions),
        other => parts.extend(other),
    }
    parts.extend(held_back(summary));
    let is_finding =
        counts.declined > 0 || errors > 0 || counts.held_back > 0 || issues_none(summary);
    (!parts.is_empty()).then(|| Verdict { is_finding, sentence: parts.join("; ") })
}

const fn word(way: Failed) -> &'static str {
    match way {
        Failed::Alert => "by alert",
        other => other.name(),
    }
}

/// A sentence if the server waits for delayed acknowledgements.
fn held_back(summary: &ServerSummary) -> Option<String> {
    let counts = &summary.counts;
    let each = summary.held_back?;
    Some(format!(
        "the server waits for delayed acknowledgements (Nagle's algorithm) in {} of {}, {} each: \
         disable the algorithm (TCP_NODELAY)",
        count(counts.held_back),
        counted(counts.connections, "connection"),
        time(each)
    ))
}

/// Whether clients cannot offer sessions because the server never issues any.
const fn issues_none(summary: &ServerSummary) -> bool {
    let counts = &summary.counts;
    counts.ticketless > 0 && counts.issuing == 0 && counts.resumed == 0 && counts.offered == 0
}

/// How it handles the sessions that clients offer.
fn sessions(summary: &ServerSummary) -> Option<String> {
    let counts = &summary.counts;
    let offered = counted(counts.offered, "session");
    let mut text = match (counts.declined, counts.offered) {
        (0, 0) if issues_none(summary) => {
            let (seen, all) = (counts.ticketless, counts.full);
            let of = match all {
                _ if seen == all => String::new(),
                all => format!(" (seen in {} of {})", count(seen), counted(all, "full handshake")),
            };
            return Some(format!(
                "the server issues no session ticket{of}, so clients have none to \
                                 offer"
            ));
        }
        (0, 0) if counts.resumed == 0 => {
            let all = counts.full > 0 && counts.undetermined == 0;
            let unseen = if counts.issuing > 0 {
                ""
            } else {
                "; whether the server issues any cannot be seen"
            };
            return all.then(|| format!("no client offers a session{unseen}"));
        }
        (0, offered) if offered > counts.resumed => {
            return (counts.resumed > 0).then(|| "the server declines no session".into());
        }
        (0, _) if counts.undetermined > 0 => {
            return Some("the server resumes every session known to be offered".into());
        }
        (0, _) => return Some("the server resumes every session that clients offer".into()),
        (1, 1) => "the server declines the only session offered".into(),
        (declined, all) if declined == all => format!("the server declines all {offered} offered"),
        (declined, all) => {
            let share = 100.0 * declined as f64 / all as f64;
            format!("the server declines {} of {offered} offered ({share:.1} %)", count(declined))
        }
    };
    if let Some(more) = summary.full_above_short() {
        text += &format!("; each full handshake takes {} longer than a short one", time(more));
    }
    Some(text)
}

/// The cost of a full handshake compared with a short one, and with the exchange it carries.
pub(super) fn costs(summary: &ServerSummary) -> Vec<String> {
    let p50 = |seconds: f64| time(Duration::from_secs_f64(seconds));
    let mut sentences = Vec::new();
    if let Some((Compared { version, full, short }, ratio)) =
        summary.compared.and_then(|both| Some((both, both.ratio()?)))
    {
        let of = version.map_or_else(String::new, |version| format!(" in {version}"));
        sentences.push(format!(
            "a full handshake takes {ratio:.1} times as long as a short one{of} (p50 {}, n {}; \
             short: {}, n {})",
            p50(full.p50_seconds),
            count(full.count),
            p50(short.p50_seconds),
            count(short.count)
        ));
    }
    if let Some(ratio) = summary.full_to_exchange() {
        sentences.push(format!(
            "a full handshake takes {ratio:.1} times as long as the exchange it \
                                carries"
        ));
    }
    sentences
}

/// Servers with a verdict, findings first: those with the most declined sessions, then those with the most
/// failures.
pub(super) fn by_weight(summaries: &[ServerSummary]) -> Vec<(&ServerSummary, Verdict)> {
    let mut all: Vec<_> =
        summaries.iter().filter_map(|summary| Some((summary, verdict(summary)?))).collect();
    // A stable sort keeps the order of servers that are equal.
    all.sort_by_key(|(summary, _)| Reverse((summary.counts.declined, summary.counts.errors())));
    all
}

#[cfg(test)]
pub(super) mod tests {
    use std::net::Ipv4Addr;

    use firstbyte_passive::groups::{Counts, Distribution, ServerKey};
    use firstbyte_passive::layers::Endpoint;
    use firstbyte_passive::{Carrier, Time};

    use super::*;

    pub(in crate::wire) fn server(counts: Counts, p50_seconds: [Option<f64>; 3]) -> ServerSummary {
        let server = Endpoint::new(Ipv4Addr::new(198, 51, 100, 1).into(), 443);
        let [full, short, exchange] = p50_seconds.map(|p50| {
            p50.map(|p50_seconds| Distribution {
                count: 10,
                p50_seconds,
                p90_seconds: p50_seconds,
                p99_seconds: p50_seconds,
                mean_seconds: p50_seconds,
            })
        });
        ServerSummary {
            key: ServerKey { carrier: Carrier::Tcp, server, sni: None },
            counts,
            span: (Time::from_unix_ns(0), Time::from_unix_ns(10)),
            held_back: None,
            full,
            short,
            compared: full.zip(short).map(|(full, short)| Compared { version: None, full, short }),
            exchange,
        }
    }

    fn said(counts: Counts, p50_seconds: [Option<f64>; 3]) -> (bool, String) {
        let verdict = verdict(&server(counts, p50_seconds)).unwrap();
        (verdict.is_finding, verdict.sentence)
    }

    #[test]
    fn every_session_declined_is_a_finding() {
        let counts =
            Counts { connections: 43, full: 43, offered: 12, declined: 12, ..Counts::default() };
        assert_eq!(
            said(counts, [None; 3]),
            (
                true,
                "the server declines all 12 sessions \
                                                    offered"
                    .into()
            )
        );
        let one = Counts { offered: 1, declined: 1, ..counts };
        assert_eq!(
            said(one, [None; 3]),
            (
                true,
                "the server declines the only session \
                                                 offered"
                    .into()
            )
        );
    }

    #[test]
    fn costs_need_times_of_both() {
        let counts = Counts::default();
        let told = costs(&server(counts, [Some(0.004), Some(0.001), Some(0.002)]));
        let expected = [
            "a full handshake takes 4.0 times as long as a short one (p50 4.00 ms, n 10; short: \
             1.00 ms, n 10)",
            "a full handshake takes 2.0 times as long as the exchange it carries",
        ];
        assert_eq!(told, expected);
        assert_eq!(costs(&server(counts, [Some(0.004), None, None])), [""; 0]);
    }

    #[test]
    fn some_declined_cost_what_short_handshakes_would_have_saved() {
        let counts = Counts {
            connections: 180,
            full: 70,
            resumed: 110,
            offered: 122,
            declined: 12,
            failed: [0, 0, 4, 2, 0],
            ..Counts::default()
        };
        let expected = "the server declines 12 of 122 sessions offered (9.8 %); each full \
                        handshake takes 1.40 ms longer than a short one; 6 of 180 connections \
                        failed (4 by alert, 2 reset)";
        assert_eq!(said(counts, [Some(0.0038), Some(0.0024), None]), (true, expected.into()));
        // If the short handshake takes longer, it saves nothing.
        let none = said(counts, [Some(0.002), Some(0.0024), None]).1;
        assert!(
            none.starts_with("the server declines 12 of 122 sessions offered (9.8 %); 6 of"),
            "{none}"
        );
    }

    #[test]
    fn a_server_that_waits_for_acknowledgements_is_named() {
        let counts = Counts { connections: 9, held_back: 4, ..Counts::default() };
        let held_back = Some(Duration::from_millis(40));
        let verdict = verdict(&ServerSummary { held_back, ..server(counts, [None; 3]) }).unwrap();
        let expected = "the server waits for delayed acknowledgements (Nagle's algorithm) in 4 of \
                        9 connections, 40.0 ms each: disable the algorithm (TCP_NODELAY)";
        assert_eq!((verdict.is_finding, &*verdict.sentence), (true, expected));
    }

    #[test]
    fn nothing_to_be_mended_is_no_finding() {
        let all = Counts { connections: 9, full: 1, resumed: 8, offered: 8, ..Counts::default() };
        let taken = "the server resumes every session that clients offer";
        assert_eq!(said(all, [None; 3]), (false, taken.into()));
        // For one offered session, the end of the handshake was not seen.
        let unseen = Counts { offered: 9, ..all };
        assert_eq!(said(unseen, [None; 3]), (false, "the server declines no session".into()));
        let failed = Counts { connections: 2, full: 1, offered: 1, ..Counts::default() };
        assert_eq!(verdict(&server(failed, [None; 3])), None);
        let unknown = Counts { undetermined: 1, ..all };
        let taken = "the server resumes every session known to be offered";
        assert_eq!(said(unknown, [None; 3]), (false, taken.into()));
        let full = Counts { connections: 2, full: 2, ..Counts::default() };
        let unknown = Counts { undetermined: 1, ..full };
        assert_eq!(verdict(&server(unknown, [None; 3])), None);
        let issuing = Counts { issuing: 1, ..full };
        assert_eq!(said(issuing, [None; 3]), (false, "no client offers a session".into()));
        let unseen = "no client offers a session; whether the server issues any cannot be seen";
        assert_eq!(said(full, [None; 3]), (false, unseen.into()));
    }

    #[test]
    fn a_server_that_issues_no_ticket_is_why_no_client_offers_one() {
        let full = Counts { connections: 9, full: 9, ticketless: 9, ..Counts::default() };
        let none = "the server issues no session ticket, so clients have none to offer";
        assert_eq!(said(full, [None; 3]), (true, none.into()));
        let some = Counts { ticketless: 4, ..full };
        let seen = "the server issues no session ticket (seen in 4 of 9 full handshakes), so \
                    clients have none to offer";
        assert_eq!(said(some, [None; 3]), (true, seen.into()));
        // A server that issues some sessions, or was offered one, does issue sessions.
        let issuing = Counts { issuing: 1, ticketless: 8, ..full };
        assert_eq!(said(issuing, [None; 3]), (false, "no client offers a session".into()));
        let declined = Counts { offered: 1, declined: 1, ..full };
        assert_eq!(
            said(declined, [None; 3]),
            (
                true,
                "the server declines the only session \
                                                      offered"
                    .into()
            )
        );
    }

    #[test]
    fn of_failures_and_silence_no_more_is_said_than_was_seen() {
        let failed = Counts { connections: 1, failed: [1, 0, 0, 0, 0], ..Counts::default() };
        let expected = "1 of 1 connection failed (1 refused)";
        assert_eq!(said(failed, [None; 3]), (true, expected.into()));
        let unseen = Counts { connections: 3, ..Counts::default() };
        assert_eq!(verdict(&server(unseen, [None; 3])), None);
    }

    #[test]
    fn findings_come_before_servers_with_more_connections() {
        let of = |connections, declined, errors| {
            let counts = Counts {
                connections,
                full: connections,
                offered: declined,
                declined,
                failed: [errors, 0, 0, 0, 0],
                ..Counts::default()
            };
            server(counts, [None; 3])
        };
        let servers = [of(90, 0, 0), of(50, 0, 3), of(20, 2, 0), of(10, 7, 0)];
        let order: Vec<u64> =
            by_weight(&servers).iter().map(|(s, _)| s.counts.connections).collect();
        assert_eq!(order, [10, 20, 50, 90]);
    }
}
