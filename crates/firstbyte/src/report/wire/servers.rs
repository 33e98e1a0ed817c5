//! Servers: how many handshakes were full, how many short, what both cost, and a verdict.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::passive::groups::{Distribution, LeftOut, ServerSummary};

use super::{count, fit, time};
use crate::report::Style;

/// One paragraph per server.
pub fn servers(summaries: &[ServerSummary], style: &Style) -> String {
    let mut text = String::new();
    for summary in summaries {
        // Anyone can write anything into a ClientHello.
        let name = style.safe(summary.key.sni.as_deref().unwrap_or("(no server name)"));
        let address = summary.key.server.socket_addr();
        let carrier = summary.key.carrier.name();
        let _ =
            writeln!(text, "{}", fit(&format!("{name}  {address}  {carrier}"), style.columns()));
        let counts = &summary.counts;
        let _ = writeln!(
            text,
            "  {} connections: {} full, {} resumed, {} HelloRetryRequest, {} errors",
            count(counts.connections),
            count(counts.full),
            count(counts.resumed),
            count(counts.hello_retry_requests),
            count(counts.errors)
        );
        if counts.early_data > 0 {
            let _ = writeln!(
                text,
                "  {} sent early data, {} had it taken",
                count(counts.early_data),
                count(counts.early_data_accepted)
            );
        }
        for (what, times) in
            [("full", summary.full), ("short", summary.short), ("exchange", summary.exchange)]
        {
            if let Some(times) = times {
                let _ = writeln!(text, "  {what:<8} {}", distribution(&times));
            }
        }
        for sentence in verdict(summary) {
            let _ = writeln!(text, "  {sentence}");
        }
        text.push('\n');
    }
    text
}

fn distribution(times: &Distribution) -> String {
    let each = [
        ("p50", times.p50_seconds),
        ("p90", times.p90_seconds),
        ("p99", times.p99_seconds),
        ("mean", times.mean_seconds),
    ];
    let figures: Vec<String> = each
        .into_iter()
        .map(|(name, seconds)| format!("{name} {}", time(Duration::from_secs_f64(seconds))))
        .collect();
    format!("{}  n {}", figures.join("  "), count(times.count))
}

/// What the figures mean.
pub(super) fn verdict(summary: &ServerSummary) -> Vec<String> {
    let mut sentences = Vec::new();
    if let (Some(ratio), Some(full), Some(short)) =
        (summary.full_to_short(), summary.full, summary.short)
    {
        let seconds = Duration::from_secs_f64;
        sentences.push(format!(
            "full is {ratio:.1} × as long as short (p50 {}, n {}, against {}, n {})",
            time(seconds(full.p50_seconds)),
            count(full.count),
            time(seconds(short.p50_seconds)),
            count(short.count)
        ));
    }
    if let Some(ratio) = summary.full_to_exchange() {
        sentences.push(format!("a full handshake costs {ratio:.1} × the exchange it carries"));
    }
    let counts = &summary.counts;
    if counts.declined > 0 {
        sentences.push(format!(
            "declines {} of {} sessions offered",
            count(counts.declined),
            count(counts.offered)
        ));
    } else if counts.offered > 0 && counts.resumed == counts.offered {
        sentences.push("takes up every session that it is offered".into());
    } else if counts.offered == 0 && counts.full > 1 {
        sentences.push("no client offers a session".into());
    }
    if let Some(rate) = summary.handshakes_per_second() {
        sentences.push(format!("{rate:.1} handshakes per second"));
    }
    sentences
}

/// What of servers was beyond the limits, in sentences.
pub fn left_out(left_out: LeftOut) -> Vec<String> {
    let mut sentences = Vec::new();
    if left_out.connections > 0 {
        sentences.push(format!(
            "{} connections are of servers that are left out: those with the fewest, where there were too many",
            count(left_out.connections)
        ));
    }
    if let Some((kept, met)) = left_out.times {
        sentences.push(format!(
            "percentiles are of {} times out of {}, taken at random",
            count(kept),
            count(met)
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_said() {
        assert!(left_out(LeftOut::default()).is_empty());
        let told = left_out(LeftOut { connections: 1_234, times: Some((1_000, 2_500)) });
        assert!(told[0].starts_with("1,234 connections are of servers that are left out"));
        assert_eq!(told[1], "percentiles are of 1,000 times out of 2,500, taken at random");
    }
}
