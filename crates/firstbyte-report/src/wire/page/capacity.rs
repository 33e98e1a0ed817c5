//! The page's section on the number of connections per second that servers sustain.

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_core::stats::Interval;
use firstbyte_passive::capacity::{Demand, ServerCapacity};

use super::super::capacity::{POINT, sentences};
use super::super::{count, time};
use super::left_out;
use super::tables::{TABLE_END, cell, table};
use crate::svg::escape;

/// Maximum number of servers in the table, and with sentences.
const LISTED: usize = 200;
const TOLD: usize = 12;

pub(super) fn section(html: &mut String, servers: &[ServerCapacity]) {
    let columns = [
        "server",
        "full",
        "resumed",
        "full a second",
        "resumed a second",
        "as mixed",
        "most per second",
        "at once",
        "busy",
    ];
    let note = "Connections per second that servers sustain, with 95 % intervals, if handshakes \
                waited for each other. A dash means unknown.";
    table(html, ["capacity", "Capacity", note], &columns, 1);
    for server in servers.iter().take(LISTED) {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(&name(server)));
        for number in server.handshakes {
            let _ = write!(html, "<td>{}</td>", count(number));
        }
        let capacity = &server.capacity;
        let [full, resumed] = capacity.demands;
        for demand in [full, resumed, capacity.mixed.map(|(demand, _)| demand)] {
            cell(html, demand.as_ref().map(rate));
        }
        cell(html, server.most_per_second.map(count));
        let _ = write!(html, "<td>{}</td>", capacity.most_at_once);
        cell(html, capacity.busy_share.map(|share| format!("{:.0} %", share * 100.0)));
        *html += "</tr>\n";
    }
    *html += TABLE_END;
    left_out(html, servers.len(), LISTED, "servers are left out");
    *html += "<ul>\n";
    for server in servers.iter().take(TOLD) {
        let told = sentences(server)
            .iter()
            .map(|told| told.strip_prefix(POINT).unwrap_or(told))
            .collect::<Vec<_>>()
            .join("; ")
            .replace(":; ", ": ");
        let (name, told) = (escape(&name(server)), escape(&told));
        let _ = write!(html, "<li><strong>{name}</strong>: {told}.");
        waits(html, server);
        *html += "</li>\n";
    }
    *html += "</ul>\n</section>\n";
}

/// Time in the server by number of concurrent connections, on one line.
fn waits(html: &mut String, server: &ServerCapacity) {
    let classes = server.capacity.at_once.iter().map(|class| {
        let (least, most) = class.others;
        let others = match (least, most) {
            (0, 0) => "alone".to_owned(),
            (1, 1) => "with 1 other".to_owned(),
            _ if least == most => format!("with {least} others"),
            _ => format!("with {least} to {most} others"),
        };
        format!("{} {others}", time(Duration::from_secs_f64(class.stayed_seconds)))
    });
    let classes: Vec<String> = classes.collect();
    if classes.len() > 1 {
        let _ = write!(html, " Median time in the server: {}.", classes.join(", "));
    }
}

fn name(server: &ServerCapacity) -> String {
    let address = format!("{} {}", server.server.socket_addr(), server.carrier.name());
    match server.sni.as_deref() {
        Some(sni) => format!("{sni} ({address})"),
        None => address,
    }
}

fn rate(demand: &Demand) -> String {
    let (rate, Interval { low, high }) = demand.rate();
    format!("{rate:.0} ({low:.0} to {high:.0})")
}
