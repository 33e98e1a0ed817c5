//! A busy mix of connections, compared with the logs of clients and server.

use std::collections::HashMap;
use std::path::Path;

use firstbyte_passive::{Carrier, Ending, Failed, Observed, names};

use super::{Table, by_client, read, resumed, rows};

pub(super) fn every_handshake_is_what_clients_and_server_logged(root: &Path) {
    let own = root.join("own");
    let (all, hygiene, _) = read(&own.join("mix.pcap")).unwrap();
    assert!(all.iter().all(|observed| observed.carrier == Carrier::Tcp));
    let mut table = Table::default();
    // From the description of the captures, and from tshark 4.0.17 on the same file.
    table.compare("connections", all.len(), 584, None);
    // One client used the same address and port towards two server ports; tshark also counts 584 streams.
    table.compare("clients' addresses and ports", by_client(&all).len(), 583, None);
    table.compare("five-tuples used again", hygiene.port_reuses, 0, None);
    let tls = |o: &Observed| o.tls.clone().unwrap_or_default();
    let hellos: usize =
        all.iter().map(|o| usize::from(tls(o).client_hello) + usize::from(second_hello(o))).sum();
    table.compare("ClientHello messages", hellos, 603, None);
    let answers: usize = all
        .iter()
        .map(|o| usize::from(tls(o).server_hello) + usize::from(tls(o).hello_retry_request))
        .sum();
    table.compare("ServerHello messages", answers, 595, None);
    clients(&own, &all, &mut table);
    server(&own, &all, &mut table);
    table.end("mix");
}

/// Whether the client answered a HelloRetryRequest.
fn second_hello(observed: &Observed) -> bool {
    let hellos = observed
        .flights
        .iter()
        .flat_map(|flight| &flight.messages)
        .filter(|message| **message == "ClientHello");
    hellos.count() > 1
}

/// Compares with the clients' own logs, for client addresses used only once.
fn clients(own: &Path, all: &[Observed], table: &mut Table) {
    let map = by_client(all);
    for row in rows(&own.join("mix.client-groundtruth.tsv")) {
        let [kind, local, _, version, _, group, was_resumed, alpn, _, _, exchanges, error] =
            &row[..]
        else {
            panic!("{row:?}")
        };
        let place = format!("client {local} {kind}");
        let seen = map.get(local).map(Vec::as_slice).unwrap_or_default();
        let [observed] = seen else {
            table.compare(&place, seen.len(), 1, None);
            continue;
        };
        let tls = observed.tls.clone().unwrap_or_default();
        let failed = match kind.as_str() {
            kind if kind.starts_with("alert_") => Some("alert"),
            "rst_midhs" => Some("reset"),
            _ => None,
        };
        let ours = Failed::judge(observed).map(Failed::name);
        table.compare(&format!("{place} failed"), ours, failed, cut(observed));
        // Go sends a session ID whether it has a session or not; only one server declines sessions.
        if kind != "noresume_server" {
            let declined = tls.resumption.declined;
            table.compare(&format!("{place} declined"), declined, false, None);
        }
        if was_resumed != "-" {
            let truth = Some(was_resumed == "true");
            table.compare(&format!("{place} resumed"), resumed(observed), truth, cut(observed));
            let ours = tls.version.and_then(names::version).map(|v| v.replace('v', " "));
            table.compare(&format!("{place} version"), ours, Some(version.clone()), cut(observed));
            if group != "-" && !group.is_empty() && tls.group.is_some() {
                // Group names as Go spells them.
                let group = match group.as_str() {
                    "CurveP256" => "secp256r1",
                    "CurveP384" => "secp384r1",
                    "CurveP521" => "secp521r1",
                    other => other,
                };
                let ours = tls.group.map(names::group);
                table.compare(&format!("{place} group"), ours, Some(group.to_owned()), None);
            }
            if let Some(ours) = tls.alpn.as_deref() {
                table.compare(&format!("{place} ALPN"), ours, alpn, None);
            }
            if error == "-" && tls.complete {
                let truth = exchanges.split([';', ',']).filter(|e| !e.is_empty()).count() as u32;
                let ours = observed.exchanges.answered;
                table.compare(&format!("{place} exchanges"), ours, truth, unfinished(observed));
            }
        }
    }
}

/// Compares with nginx's log: one row for each request that ended before the cut.
fn server(own: &Path, all: &[Observed], table: &mut Table) {
    let map = by_client(all);
    let mut requests: HashMap<(String, String), Vec<Vec<String>>> = HashMap::new();
    for row in rows(&own.join("mix.server-groundtruth.tsv")) {
        let client = format!("{}:{}", row[1], row[2]);
        requests.entry((client, row[3].clone())).or_default().push(row);
    }
    for ((client, port), rows) in requests {
        let place = format!("server {client} {port}");
        let seen: Vec<&&Observed> = map
            .get(&client)
            .into_iter()
            .flatten()
            .filter(|o| o.server.socket_addr().port().to_string() == port)
            .collect();
        let (Some(first), Some(observed)) = (rows.first(), seen.first()) else {
            table.compare(&place, seen.len(), 1, None);
            continue;
        };
        if seen.len() > 1 {
            continue;
        }
        let truth = Some(first[7] == "r");
        table.compare(&format!("{place} resumed"), resumed(observed), truth, cut(observed));
        let early = observed.tls.as_ref().and_then(|tls| tls.early_data);
        let took = early.is_some_and(|early| early.bytes > 0 && early.accepted == Some(true));
        let truth = rows.iter().any(|row| row[8] == "1");
        let late = "nginx says 1 only while the handshake is not over (ngx_http_ssl_module, \
                    $ssl_early_data); the client's EndOfEarlyData proves that it was taken";
        let why = (took && !truth).then_some(late);
        table.compare(&format!("{place} early data"), took, truth, why);
        let http2 = rows.iter().any(|row| row[10] == "h2");
        let why = if http2 { Some("HTTP/2 multiplexes") } else { unfinished(observed) };
        let ours = observed.exchanges.answered;
        table.compare(&format!("{place} exchanges"), ours, rows.len() as u32, why);
    }
}

/// The connection was still open when the capture was cut.
fn unfinished(observed: &Observed) -> Option<&'static str> {
    let open = observed.ending == Ending::Open;
    open.then_some("open when the capture was cut: the last exchange is incomplete in one of both")
}

/// The connection was cut before the answer, or refused before the hello.
fn cut(observed: &Observed) -> Option<&'static str> {
    match observed.ending {
        Ending::Refused => {
            return Some("refused: the client's log has defaults, nothing of TLS was sent");
        }
        Ending::Unanswered => return Some("the capture was cut behind the SYN"),
        _ => {}
    }
    let open = observed.tls.as_ref().is_none_or(|tls| tls.handshake.is_none());
    let at_end = observed.ending == Ending::Open;
    (open && at_end).then_some("the capture was cut before the server's answer")
}
