//! The server's time, from a capture at either end of the path.

use std::path::Path;
use std::time::Duration;

use firstbyte_core::stats::median;
use firstbyte_core::timeline::{Connection, Mark};
use firstbyte_explain::Way;
use firstbyte_passive::{Analyzer, Limits, Observed, Time};

use crate::cli::exit::{self, Problem};

/// The median server time of `way`'s connections in the capture at `path`, and the number of connections used.
///
/// The time at the tap runs from the last byte of the request to the first byte of the response, minus the round trip
/// from the tap to the server.
pub(super) fn server_time(path: &Path, way: &Way) -> Result<(Duration, usize), Problem> {
    let mut analyzer = Analyzer::new(Limits { seed: fastrand::u64(..), ..Limits::default() });
    let mut times: Vec<f64> = Vec::new();
    let mut found = 0;
    let mut emit = |observed: &Observed| {
        if let Some(connection) =
            way.connections().map(|c| &c.connection).find(|c| is_same(c, observed))
        {
            found += 1;
            times.extend(took(connection, observed).map(|time| time.as_nanos() as f64));
        }
    };
    let problem = |message: String| Problem::new(exit::READ, format!("--capture {message}"));
    firstbyte_capture::read(path, &mut analyzer, &mut emit)
        .map_err(|error| problem(error.to_string()))?;
    analyzer.finish(&mut emit);
    match median(&times) {
        Some(time) => Ok((Duration::from_nanos(time as u64), times.len())),
        None if found > 0 => Err(problem(format!(
            "{}: the requests of its {found} connections cannot be told apart",
            path.display()
        ))),
        None => Err(problem(format!(
            "{}: contains none of the {} connections",
            path.display(),
            way.proven.len()
        ))
        .hint(
            "capture at either end while `explain --run FILE` measures, then run explain --from \
             FILE --capture CAPTURE",
        )),
    }
}

/// Whether both are the same connection.
///
/// The client's address may be translated on the path, but translators keep its port if possible.
fn is_same(connection: &Connection, observed: &Observed) -> bool {
    let (Some(local), Some(remote)) = (connection.facts.local, connection.facts.remote) else {
        return false;
    };
    let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
    local.port() == client.port() && remote == server
}

/// The server's time as seen at the tap.
///
/// The tap sees only runs of bytes. The client's times tell which of them are request and response, as they differ
/// from the tap's only by the path between the two. The first byte of a response cannot be recognised in the capture,
/// because settings and tickets come before it. Its last byte can, and the client knows how much earlier the first
/// one arrived.
fn took(connection: &Connection, observed: &Observed) -> Option<Duration> {
    let at = |mark| connection.marks.at(mark);
    let begun = at(Mark::ConnectStart)?;
    let syn = observed.opening[0]?;
    let near = observed.round_trips.client_min.or(observed.round_trips.client_syn)?;
    let far = observed.round_trips.server_min.or(observed.round_trips.server_syn)?;
    let within = ((near + far) / 8).max(Duration::from_millis(2));
    let asked = at(Mark::RequestEnd)?.since(begun);
    let answered = at(Mark::ResponseEnd)?.since(begun).checked_sub(near)?;
    let first_packet = connection.marks.first_packet_of_response()?;
    let receiving = at(Mark::ResponseEnd)?.since(first_packet);
    let closest = |wanted: Duration, seen: &mut dyn Iterator<Item = Time>| {
        let off = |time: &Time| time.since(syn).abs_diff(wanted);
        seen.min_by_key(off).filter(|time| off(time) <= within)
    };
    let exchanges = &observed.exchanges.first;
    let request = closest(asked, &mut exchanges.iter().map(|e| e.request_end))?;
    let response = closest(answered, &mut exchanges.iter().filter_map(|e| e.response_end))?;
    response.since(request).checked_sub(receiving + far)
}
