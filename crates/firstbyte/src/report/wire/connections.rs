//! Connections: one line each.

use std::fmt::Write as _;

use firstbyte_core::passive::{Observed, names};
use firstbyte_core::timeline::Handshake;

use super::{fit, time, time_or_blank};
use crate::report::Style;

/// Width of the columns that are always there.
const FIXED: usize = 80;

/// A table of `connections`.
pub fn connections(connections: &[Observed], style: &Style) -> String {
    let room = style.columns().saturating_sub(FIXED);
    let names = room.min(40);
    let mut text = format!(
        "{:>5} {:<9} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>4} {:<3}",
        "#", "version", "session", "rtt", "hshake", "network", "server", "client", "exch", "?"
    );
    if names >= 10 {
        let _ = write!(text, " {}", fit("server name", names));
    }
    end_line(&mut text);
    for observed in connections {
        let split = observed.handshake_time;
        let exchanges = observed.exchanges.count.map(|n| n.to_string()).unwrap_or_default();
        let approximate = if observed.exchanges.approximate { "~" } else { "" };
        let _ = write!(
            text,
            "{:>5} {:<9} {:<8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>4} {:<3}",
            observed.number,
            version(observed),
            session(observed),
            time_or_blank(observed.round_trips.path()),
            split.map(|s| time(s.total())).unwrap_or_default(),
            time_or_blank(split.map(|s| s.network)),
            time_or_blank(split.map(|s| s.server)),
            time_or_blank(split.map(|s| s.client)),
            format!("{approximate}{exchanges}"),
            mark(observed),
        );
        if names >= 10 {
            let sni = observed.tls.as_ref().and_then(|tls| tls.sni.as_deref());
            let name = sni.map_or_else(|| observed.server.socket_addr().to_string(), str::to_owned);
            let _ = write!(text, " {}", fit(&style.safe(&name), names));
        }
        end_line(&mut text);
    }
    text
}

/// Ends a line, without the blanks of columns that are empty.
fn end_line(text: &mut String) {
    text.truncate(text.trim_end().len());
    text.push('\n');
}

pub(super) fn version(observed: &Observed) -> &'static str {
    let Some(tls) = &observed.tls else { return "no TLS" };
    match tls.version {
        Some(version) => match names::version(version).unwrap_or("unknown") {
            "TLSv1.3 draft" => "1.3-draft",
            name => name,
        },
        None => "",
    }
}

/// How the handshake went, or the connection ended instead.
pub(super) fn session(observed: &Observed) -> &'static str {
    let tls = observed.tls.as_deref();
    match tls.and_then(|tls| tls.handshake) {
        Some(Handshake::Resumed) => {
            match tls.and_then(|tls| tls.early_data).filter(|early| early.bytes > 0) {
                Some(early) if early.accepted == Some(true) => "0-RTT",
                Some(_) => "0-RTT no",
                None => "resumed",
            }
        }
        Some(Handshake::Full) if tls.is_some_and(|tls| tls.resumption.declined) => "declined",
        Some(Handshake::Full) => "full",
        Some(Handshake::FullWithHelloRetryRequest) => "full+HRR",
        None => match observed.ending.name() {
            "refused" => "refused",
            "unanswered" => "silent",
            _ => "",
        },
    }
}

/// `!` where something is in doubt, `A` for an alert, `R` for a reset.
pub(super) fn mark(observed: &Observed) -> String {
    use firstbyte_core::passive::Ending;
    let mut mark = String::new();
    if !observed.doubts.is_empty() {
        mark.push('!');
    }
    if observed.tls.as_ref().is_some_and(|tls| tls.alert.is_some()) {
        mark.push('A');
    }
    if matches!(observed.ending, Ending::ResetByClient | Ending::ResetByServer) {
        mark.push('R');
    }
    mark
}
