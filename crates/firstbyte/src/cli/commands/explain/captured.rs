//! The server's time by a capture from either end of the path.

use std::path::Path;
use std::time::Duration;

use firstbyte_core::explain::Way;
use firstbyte_core::passive::{Analyzer, Limits, Observed};
use firstbyte_core::stats::median;
use firstbyte_core::timeline::Connection;

use crate::capture;
use crate::cli::exit::{self, Problem};

/// What the capture in `path` says the server took for the responses of `way`'s connections: the median
/// over those that are in it, and how many these are.
///
/// At the tap: from the last byte of the request to the first of the response, less one round trip from
/// there to the server.
pub(super) fn server_time(path: &Path, way: &Way) -> Result<(Duration, usize), Problem> {
    let mut analyzer = Analyzer::new(Limits { seed: fastrand::u64(..), ..Limits::default() });
    let mut times: Vec<f64> = Vec::new();
    let mut found = 0;
    let mut emit = |observed: Observed| {
        if way.connections().any(|connection| is_same(connection, &observed)) {
            found += 1;
            times.extend(took(&observed).map(|time| time.as_nanos() as f64));
        }
    };
    let problem = |message: String| Problem::new(exit::READ, format!("--capture {message}"));
    capture::read(path, &mut analyzer, &mut emit).map_err(|error| problem(error.to_string()))?;
    analyzer.finish(&mut emit);
    match median(&times) {
        Some(time) => Ok((Duration::from_nanos(time as u64), times.len())),
        None if found > 0 => Err(problem(format!(
            "{}: the requests of the {found} connections in it cannot be told apart",
            path.display()
        ))),
        None => Err(problem(format!(
            "{}: none of the {} connections is in it",
            path.display(),
            way.proven.len()
        ))
        .hint(
            "capture while `explain --run FILE` measures, at either end; then explain --from FILE \
             --capture CAPTURE",
        )),
    }
}

/// Whether both are the same connection. A client's address may be translated on the way, and its port
/// is kept where that is possible.
fn is_same(connection: &Connection, observed: &Observed) -> bool {
    let (Some(local), Some(remote)) = (connection.facts.local, connection.facts.remote) else {
        return false;
    };
    let (client, server) = (observed.client.socket_addr(), observed.server.socket_addr());
    local.port() == client.port() && remote == server
}

fn took(observed: &Observed) -> Option<Duration> {
    let exchange = observed.exchanges.first.first()?;
    let waited = exchange.response_start?.since(exchange.request_end);
    waited.checked_sub(observed.round_trips.server_min.or(observed.round_trips.server_syn)?)
}
