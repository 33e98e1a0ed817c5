//! Finds the connections of an explanation in the server's access log.

use std::path::Path;

use firstbyte_explain::{Evidence, ServerLogSearch, Way};

use crate::cli::commands::report::server_log::read;
use crate::cli::exit::{self, Problem};
use crate::cli::terminal;
use firstbyte_report::units::count;
use firstbyte_report::warning::Warning;

/// Looks for `evidence`'s connections in the log at `path`. Warns about lines that are not log entries.
pub(super) fn search<'a>(
    path: &Path,
    evidence: &'a Evidence,
) -> Result<ServerLogSearch<'a>, Problem> {
    let mut search = ServerLogSearch::for_evidence(evidence);
    let mut strange = None;
    let broken_off = read(path, |number, line| match line {
        Ok(request) => search.add(request),
        Err(error) => {
            strange.get_or_insert((number, error, 0_u64)).2 += 1;
        }
    })?;
    if let Some((line, error, n)) = strange {
        let others = if n > 1 { format!("; {} more", count(n - 1, "line")) } else { String::new() };
        let (file, line) = (path.to_owned(), usize::try_from(line).unwrap_or(usize::MAX));
        terminal::warn(&Warning::UnreadLine { file, line, detail: format!("{error}{others}") });
    }
    if let Some(detail) = broken_off {
        terminal::warn(&Warning::LogBrokenOff { file: path.to_owned(), detail });
    }
    Ok(search)
}

/// The error that none of `way`'s connections is in the log with its time.
pub(super) fn not_found(path: &Path, lines: u64, way: &Way) -> Problem {
    let message = format!(
        "--server-log {}: contains none of the {}, of {}",
        path.display(),
        count(way.proven.len() as u64, "connection"),
        count(lines, "request")
    );
    Problem::new(exit::READ, message).hint(
        "requests are matched by the client's port and the time: the log needs both (firstbyte \
         log-format), the clocks must differ by less than a minute, and nothing on the path may \
         change ports",
    )
}
