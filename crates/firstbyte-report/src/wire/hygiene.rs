//! What was removed from a capture, and what could not be read.

use std::fmt::Write as _;

use firstbyte_passive::{Hygiene, names};

use super::count;

/// The amount of data read, and the count of every anomaly.
pub fn hygiene(hygiene: &Hygiene) -> String {
    let mut text = format!(
        "{} frames, {} TCP and {} UDP",
        count(hygiene.frames),
        count(hygiene.tcp_packets),
        count(hygiene.udp_packets)
    );
    if let Some((first, last)) = hygiene.span {
        let _ = write!(text, ", {:.3} s", last.since(first).as_secs_f64());
    }
    text.push('\n');
    if let Some(dropped) = hygiene.dropped {
        let what = match dropped {
            0 => "frames were dropped",
            _ => "frames were dropped: the capture could not keep up",
        };
        let _ = writeln!(text, "  {:>9}  {what}", count(dropped));
    }
    let findings = [
        (hygiene.duplicates, "copies of packets made by the capture were removed"),
        (hygiene.port_reuses, "times a port was reused: a new connection each"),
        (hygiene.cut_payloads, "packets were cut by the snap length: read up to the cut"),
        (hygiene.cut_headers, "packets were cut within their headers: not read"),
        (hygiene.malformed, "packets have headers that contradict each other: not read"),
        (hygiene.unknown_links, "frames have an unknown link type: not read"),
        (hygiene.untimed, "frames have no time: the time of the frame before is used"),
        (hygiene.fragments, "fragments of IP"),
        (hygiene.reassembled, "datagrams reassembled from fragments"),
        (hygiene.not_ip, "frames without IP"),
        (hygiene.other_transports, "packets that are neither TCP nor UDP"),
        (hygiene.out_of_order_times, "frames are older than the one before, by less than a second"),
        (hygiene.clock_steps, "times the capture's clock went backwards"),
        (hygiene.idle, "connections were dropped after a long silence"),
        (hygiene.evicted, "connections were dropped because there were too many"),
        (hygiene.half_open_evicted, "half-open connections were dropped, and are not shown"),
        (hygiene.held_overflow, "times more data was out of order than the buffer holds"),
    ];
    let unread = &hygiene.unread_quic;
    if unread.connections() > 0 {
        let versions: Vec<String> = unread
            .versions()
            .map(|(version, many)| format!("{} {}", names::quic_version(version), count(many)))
            .collect();
        let _ = writeln!(
            text,
            "  {:>9}  QUIC connections have unsupported versions: {}",
            count(unread.connections()),
            versions.join(", ")
        );
    }
    for (number, what) in findings.into_iter().filter(|(number, _)| *number > 0) {
        let _ = writeln!(text, "  {:>9}  {what}", count(number));
    }
    text
}

/// A one-line status of a live capture.
pub fn live_line(hygiene: &Hygiene, connections: u64, handshakes_per_second: f64) -> String {
    format!(
        "{} packets  {} connections  {handshakes_per_second:.0} handshakes/s  {} dropped",
        count(hygiene.frames),
        count(connections),
        count(hygiene.dropped.unwrap_or(0))
    )
}
