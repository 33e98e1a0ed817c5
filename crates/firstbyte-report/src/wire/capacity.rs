//! How many connections per second servers sustain, as sentences and a table; or why that is unknown.
//!
//! Input: results of captures for each server. Output: text. Definitions: `docs/measurement.md`, "Capacity".

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::stats::Interval;
use firstbyte_passive::capacity::{AtOnce, Capacity, Demand, KINDS, ServerCapacity, Standing};

use super::{count, counted, fit, time};
use crate::Style;
use crate::style::{Ink, wrap};

/// Prefix of a sentence that is an item of a list.
pub(super) const POINT: &str = "- ";
const NAMES: [&str; KINDS] = ["full", "resumed"];

/// One paragraph for each of the first `most` servers.
pub fn capacities(servers: &[ServerCapacity], most: usize, left_out: u64, style: &Style) -> String {
    let mut text = String::new();
    if servers.is_empty() {
        text.push_str("Capacity: no handshake is known to be full or resumed\n\n");
    }
    for server in servers.iter().take(most) {
        let head = fit(&format!("Capacity of {}", name(server, style)), style.columns());
        let _ = writeln!(text, "{}", style.paint(Ink::Strong, &head));
        for sentence in sentences(server) {
            let (first, rest) = match sentence.strip_prefix(POINT) {
                Some(rest) => ("    - ", rest),
                None => ("    ", sentence.as_str()),
            };
            let words: Vec<String> = rest.split(' ').map(str::to_owned).collect();
            for line in wrap(first, &words, style.columns()) {
                let _ = writeln!(text, "{line}");
            }
        }
        text.push_str(&table(&server.capacity, style));
        text.push('\n');
    }
    if servers.len() > most {
        let all = count(servers.len() as u64);
        let _ = writeln!(
            text,
            "capacity of {most} of {all} servers, those with the most \
                                handshakes\n"
        );
    }
    if left_out > 0 {
        let connections = counted(left_out, "connection");
        let _ = writeln!(text, "capacity leaves out {connections} of servers beyond the limit\n");
    }
    text
}

fn name(server: &ServerCapacity, style: &Style) -> String {
    let (address, carrier) = (server.server.socket_addr(), server.carrier.name());
    match server.sni.as_deref() {
        Some(sni) => format!("{address} {carrier} ({})", style.safe(sni)),
        None => format!("{address} {carrier}"),
    }
}

/// The known and the observed figures, and the reasons why others are unknown.
pub(super) fn sentences(server: &ServerCapacity) -> Vec<String> {
    let capacity = &server.capacity;
    let mut sentences = match capacity.standing {
        Standing::Queueing { in_order, .. } => sustained(server, in_order),
        _ => vec![unknown(server)],
    };
    if !matches!(capacity.standing, Standing::Queueing { .. } | Standing::TooFew) {
        sentences.extend(alone(capacity));
    }
    sentences.extend(seen(server));
    sentences
}

/// "497 a second (95 % interval 468 to 527)"
fn rate((rate, Interval { low, high }): (f64, Interval)) -> String {
    let digits =
        |rate: f64| if rate < 99.5 { format!("{rate:.1}") } else { count(rate.round() as u64) };
    let [rate, low, high] = [rate, low, high].map(digits);
    format!("{rate} a second (95 % interval {low} to {high})")
}

fn seconds(seconds: f64) -> String {
    time(Duration::from_secs_f64(seconds))
}

fn sustained(server: &ServerCapacity, in_order: bool) -> Vec<String> {
    let capacity = &server.capacity;
    let mut sentences =
        vec!["handshakes wait for each other; during that time the server sustains:".to_owned()];
    for (name, demand) in NAMES.iter().zip(&capacity.demands) {
        let Some(Demand { seconds: each, handshakes, .. }) = demand else { continue };
        let rate = demand.map(|demand| rate(demand.rate())).unwrap_or_default();
        let of = count(*handshakes);
        sentences.push(format!("- {name}: {rate}, service demand {} (n {of})", seconds(*each)));
    }
    let both = server.handshakes.iter().all(|number| *number > 0);
    if let Some((demand, resumed)) = capacity.mixed.filter(|_| both || !in_order) {
        let (rate, share) = (rate(demand.rate()), resumed * 100.0);
        let each = seconds(demand.seconds);
        sentences.push(format!("- as mixed ({share:.0} % resumed): {rate}, service demand {each}"));
    }
    let missing =
        (0..KINDS).filter(|kind| server.handshakes[*kind] > 0 && capacity.demands[*kind].is_none());
    sentences.extend(missing.map(|kind| {
        let name = NAMES[kind];
        match in_order {
            true => format!("- {name}: unknown, too few of them waited"),
            false => format!("- {name}: unknown, the server handles several of both kinds at once"),
        }
    }));
    sentences
}

fn unknown(server: &ServerCapacity) -> String {
    let capacity = &server.capacity;
    let at_least = match server.most_per_second {
        Some(most) => format!("; the server completes at least {} a second", count(most)),
        None => String::new(),
    };
    let why = match capacity.standing {
        Standing::TooFew => {
            format!("only {} with times", counted(capacity.handshakes, "handshake"))
        }
        Standing::InDoubt => format!(
            "the times of {} of {} handshakes are in doubt",
            count(server.untimed),
            count(server.untimed + capacity.handshakes)
        ),
        Standing::OneAtATime if capacity.most_at_once < 2 => {
            "the server never had more than one handshake at a time".to_owned()
        }
        Standing::OneAtATime => {
            "the server rarely had more than one handshake at a time".to_owned()
        }
        Standing::NoQueue => format!(
            "up to {} handshakes ran at once without waiting for each other: not saturated",
            capacity.most_at_once
        ),
        Standing::Unclear | Standing::Queueing { .. } => format!(
            "up to {} handshakes ran at once; whether they waited for each other is unknown",
            capacity.most_at_once
        ),
    };
    format!("capacity unknown: {why}{at_least}")
}

/// Time of a single connection, and the bound that it implies.
fn alone(capacity: &Capacity) -> Vec<String> {
    let each = NAMES.iter().zip(&capacity.alone).filter_map(|(name, demand)| {
        let demand = (*demand)?;
        let ms = seconds(demand.seconds);
        Some(format!(
            "- {name}, alone in the server: {ms}; one after the other, {}",
            rate(demand.rate())
        ))
    });
    let mut sentences: Vec<String> = each.collect();
    if !sentences.is_empty() {
        sentences.push(
            "one after the other is the limit of a single worker that does nothing else, not a \
             capacity"
                .to_owned(),
        );
    }
    sentences
}

fn seen(server: &ServerCapacity) -> Vec<String> {
    let capacity = &server.capacity;
    let mut parts = Vec::new();
    parts.extend(server.most_per_second.map(|most| format!("most per second: {}", count(most))));
    parts.extend(capacity.busy_share.map(|share| {
        let periods = counted(capacity.busy_periods, "busy period");
        format!("the server has a handshake {:.0} % of the time, in {periods}", share * 100.0)
    }));
    if server.untimed > 0 {
        parts.push(format!("{} in doubt", count(server.untimed)));
    }
    if parts.is_empty() { parts } else { vec![parts.join("; ")] }
}

/// Times by number of concurrent connections.
fn table(capacity: &Capacity, style: &Style) -> String {
    let mut text = String::new();
    if capacity.standing == Standing::TooFew {
        return text;
    }
    let head = format!(
        "    {:>12}{:>10}{:>18}{:>22}",
        "others", "n", "in server p50", "between departures"
    );
    let _ = writeln!(text, "{}", style.paint(Ink::Faint, &head));
    for AtOnce { others: (least, most), visits, stayed_seconds, spent_seconds } in &capacity.at_once
    {
        let others = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let _ = writeln!(
            text,
            "    {others:>12}{:>10}{:>18}{:>22}",
            count(*visits),
            seconds(*stayed_seconds),
            seconds(*spent_seconds)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use firstbyte_passive::Carrier;
    use firstbyte_passive::layers::Endpoint;

    use super::*;

    fn demand(seconds: f64) -> Option<Demand> {
        let interval = Interval { low: seconds * 0.9, high: seconds * 1.1 };
        Some(Demand { seconds, interval, handshakes: 1_234 })
    }

    fn server(standing: Standing, most_at_once: u32) -> ServerCapacity {
        let stands = matches!(standing, Standing::Queueing { .. });
        ServerCapacity {
            carrier: Carrier::Tcp,
            server: Endpoint::new(Ipv4Addr::new(198, 51, 100, 1).into(), 443),
            sni: Some("www.\u{1b}[31mcapacity.test".into()),
            handshakes: [1_500, 1_600],
            untimed: 3,
            most_per_second: Some(2_500),
            slots: (Duration::ZERO, Vec::new()),
            capacity: Capacity {
                standing,
                handshakes: 3_097,
                busy_periods: 1,
                busy_share: Some(0.876),
                most_at_once,
                demands: if stands { [demand(0.002), None] } else { [None; 2] },
                mixed: demand(0.001).filter(|_| stands).map(|demand| (demand, 0.516)),
                alone: [demand(0.004), None],
                at_once: vec![AtOnce {
                    others: (2, 3),
                    visits: 10_000,
                    stayed_seconds: 0.1,
                    spent_seconds: 2e-6,
                }],
            },
        }
    }

    fn shown(standing: Standing, most: u32) -> String {
        let style = Style::default();
        let text = capacities(&[server(standing, most)], 20, 0, &style);
        assert!(text.lines().all(|line| line.chars().count() <= style.columns()), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_is_known_has_its_interval_and_what_is_not_its_reason() {
        let grows = Interval { low: 0.9, high: 1.1 };
        let queueing = |in_order| Standing::Queueing { others: 1, grows, in_order };
        let text = shown(queueing(true), 16);
        for part in [
            "full: 500 a second (95 % interval 455 to 556), service demand 2.00 ms (n 1,234)",
            "as mixed (52 % resumed): 1,000 a second (95 % interval 909 to 1,111)",
            "resumed: unknown, too few of them waited",
            "most per second: 2,500; the server has a handshake 88 % of the time, in 1 busy \
             period; 3 in doubt",
            "2 to 3 10,000 100 ms 2 µs",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(shown(queueing(false), 16).contains("the server handles several"));
    }

    #[test]
    fn no_capacity_is_stated_where_there_is_none() {
        for (standing, most, why) in [
            (Standing::TooFew, 3, "only 3,097 handshakes with times"),
            (Standing::InDoubt, 3, "the times of 3 of 3,100 handshakes are in doubt"),
            (Standing::OneAtATime, 1, "the server never had more than one handshake"),
            (Standing::OneAtATime, 2, "the server rarely had more than one"),
            (Standing::NoQueue, 7, "up to 7 handshakes ran at once without waiting"),
            (Standing::Unclear, 7, "whether they waited for each other is unknown"),
        ] {
            let text = shown(standing, most);
            assert!(text.contains("capacity unknown: ") && text.contains(why), "{why}: {text}");
            assert!(text.contains("the server completes at least 2,500 a second"), "{text}");
            assert!(!text.contains("service demand") && !text.contains("sustains"), "{text}");
            let bound = text.contains("full, alone in the server: 4.00 ms");
            assert_eq!(bound, standing != Standing::TooFew, "{text}");
        }
    }
}
