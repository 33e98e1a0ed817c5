//! Connections, one line each.

use std::fmt::Write as _;

use firstbyte_core::timeline::Handshake;
use firstbyte_passive::{Carrier, Observed, names};

use super::{fit, time, time_or_blank};
use crate::Style;

/// Width of all columns except the last.
const FIXED: usize = 67;

/// A table of `connections`. The server's name gets the remaining width, and its beginning is cut if necessary.
pub fn connections(connections: &[Observed], style: &Style) -> String {
    let names = style.columns().saturating_sub(FIXED).min(60);
    let mut text = format!(
        "{:>5} {:<3} {:<8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>4} {:<2} {}",
        "#",
        "TLS",
        "session",
        "rtt",
        "hshake",
        "network",
        "server",
        "client",
        "exch",
        "?",
        fit("server name", names)
    );
    end_line(&mut text);
    for observed in connections {
        let split = observed.handshake_time;
        let exchanges = observed.exchanges.count.map(|n| n.to_string()).unwrap_or_default();
        let approximate = if observed.exchanges.approximate { "~" } else { "" };
        let name = server(observed);
        let _ = write!(
            text,
            "{:>5} {:<3} {:<8} {:>7} {:>7} {:>7} {:>7} {:>7} {:>4} {:<2} {}",
            observed.number,
            short_version(observed),
            session(observed),
            time_or_blank(observed.round_trips.path()),
            split.map(|s| time(s.total())).unwrap_or_default(),
            time_or_blank(split.map(|s| s.network)),
            time_or_blank(split.map(|s| s.server)),
            time_or_blank(split.map(|s| s.client)),
            format!("{approximate}{exchanges}"),
            mark(observed),
            fit_end(&style.safe(&name), names),
        );
        end_line(&mut text);
    }
    text
}

/// The server's name, or its address if the client sent no name.
pub(super) fn server(observed: &Observed) -> String {
    let sni = observed.tls.as_ref().and_then(|tls| tls.sni.as_deref());
    sni.map_or_else(|| observed.server.socket_addr().to_string(), str::to_owned)
}

/// The version's number; `-` without TLS.
fn short_version(observed: &Observed) -> &'static str {
    match version(observed) {
        "no TLS" => "-",
        "1.3-draft" => "1.3",
        name => name.strip_prefix("TLSv").or(name.strip_prefix("SSLv")).unwrap_or(name),
    }
}

/// The end of `text`, at most `width` characters wide, because addresses differ at the end.
fn fit_end(text: &str, width: usize) -> String {
    let all = text.chars().count();
    if all <= width {
        return text.to_owned();
    }
    ['…'].into_iter().chain(text.chars().skip(all + 1 - width)).collect()
}

/// Ends a line, and removes the trailing blanks of empty columns.
fn end_line(text: &mut String) {
    text.truncate(text.trim_end().len());
    text.push('\n');
}

pub(super) fn version(observed: &Observed) -> &'static str {
    // QUIC always has TLS, but the Initial packets of unknown versions cannot be decrypted.
    let unread = if observed.carrier == Carrier::Quic { "" } else { "no TLS" };
    let Some(tls) = &observed.tls else { return unread };
    match tls.version {
        Some(version) => match names::version(version).unwrap_or("unknown") {
            "TLSv1.3 draft" => "1.3-draft",
            name => name,
        },
        None => "",
    }
}

/// Kind of the handshake, or how the connection ended before it.
pub(super) fn session(observed: &Observed) -> &'static str {
    let tls = observed.tls.as_deref();
    match tls.and_then(|tls| tls.handshake) {
        Some(Handshake::Resumed) => {
            match tls.and_then(|tls| tls.early_data).filter(|early| early.bytes > 0) {
                Some(early) if early.accepted == Some(true) => "0-RTT",
                Some(early) if early.accepted == Some(false) => "0-RTT no",
                Some(_) => "0-RTT ?",
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

/// `!` for a doubtful connection, `A` for an alert, `R` for a reset.
pub(super) fn mark(observed: &Observed) -> String {
    use firstbyte_passive::Ending;
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
