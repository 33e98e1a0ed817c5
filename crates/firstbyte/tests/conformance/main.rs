//! Compares firstbyte's reading of captures with their known truth: `cargo test -p firstbyte --test conformance`.
//!
//! The captures are not part of the project: `FIRSTBYTE_CAPTURES` names their folder; the default is
//! `../shared/captures` next to the checkout. Without them the suite fails and says what to set; `scripts/test` runs it
//! only if captures exist. Disagreements are printed in tables; a disagreement without an explanation there is a
//! failure.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test with a main of its own"
)]

mod delay;
mod mix;
mod public;
mod quic;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use firstbyte_capture::{self, Ended};
use firstbyte_passive::{Analyzer, Hygiene, Limits, Observed};

fn main() -> ExitCode {
    let root = match captures() {
        Ok(root) => root,
        Err(why) => {
            eprintln!("conformance: not run: {why}");
            eprintln!("  FIRSTBYTE_CAPTURES=DIR names the folder of captures (own/, public/)");
            return ExitCode::FAILURE;
        }
    };
    println!("captures: {}", root.display());
    mix::every_handshake_is_what_clients_and_server_logged(&root);
    delay::the_split_is_the_same_wherever_the_tap_is(&root);
    public::handshakes_are_those_that_tshark_finds(&root);
    quic::every_connection_is_what_its_client_logged(&root);
    quic::handshakes_are_those_that_tshark_finds(&root);
    println!("conformance: every disagreement is explained");
    ExitCode::SUCCESS
}

/// The folder of captures: the one in `FIRSTBYTE_CAPTURES`, or the one next to the checkout.
fn captures() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("FIRSTBYTE_CAPTURES").map(PathBuf::from) {
        let no_folder = || format!("{} is not a folder", named.display());
        return named.is_dir().then_some(named.clone()).ok_or_else(no_folder);
    }
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut beside =
        ["../shared/captures", "../../shared/captures"].iter().map(|path| checkout.join(path));
    beside.find(|path| path.is_dir()).ok_or_else(|| "there are no captures".to_owned())
}

/// Connections, hygiene counts, and how the file ended.
type Outcome = (Vec<Observed>, Hygiene, Ended);

/// All connections of a file, in order, and how it ended. Also checks that the number of threads makes no difference.
fn read(path: &Path) -> Result<Outcome, firstbyte_capture::CaptureFileError> {
    let alone = read_on(1, path);
    for threads in [2, 3] {
        let (one, many) = (as_given(&alone), read_on(threads, path));
        assert!(one == as_given(&many), "{}: {threads} threads", path.display());
    }
    let (mut all, hygiene, ended) = alone?;
    all.sort_by_key(|observed| observed.number);
    Ok((all, hygiene, ended))
}

fn read_on(threads: usize, path: &Path) -> Result<Outcome, firstbyte_capture::CaptureFileError> {
    let mut analyzer = Analyzer::new(Limits { exchanges: 1000, ..Limits::default() });
    let mut all = Vec::new();
    let mut emit = |observed: &Observed| all.push(observed.clone());
    let ended = firstbyte_capture::read_on(threads, path, &mut analyzer, &mut emit)?;
    firstbyte_capture::finish_on(threads, &mut analyzer, &mut emit);
    Ok((all, *analyzer.hygiene(), ended))
}

/// The comparable parts of a result, in output order.
fn as_given(
    read: &Result<Outcome, firstbyte_capture::CaptureFileError>,
) -> Result<&Outcome, String> {
    read.as_ref().map_err(ToString::to_string)
}

/// Rows of a tab-separated table, without its heading.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().skip(1);
    lines.map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// Connections by the client's address and port, as text.
fn by_client(all: &[Observed]) -> HashMap<String, Vec<&Observed>> {
    let mut map: HashMap<String, Vec<&Observed>> = HashMap::new();
    for observed in all {
        map.entry(observed.client.socket_addr().to_string()).or_default().push(observed);
    }
    map
}

/// Whether the connection was resumed, if known.
fn resumed(observed: &Observed) -> Option<bool> {
    use firstbyte_core::timeline::Handshake;
    Some(observed.tls.as_ref()?.handshake? == Handshake::Resumed)
}

/// Disagreements: place, values, and the reason if it is a known one.
#[derive(Default)]
struct Table {
    lines: Vec<(String, String, Option<&'static str>)>,
    agreed: usize,
}

impl Table {
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        place: &str,
        ours: T,
        theirs: T,
        why: Option<&'static str>,
    ) {
        if ours == theirs {
            self.agreed += 1;
        } else {
            let what = format!("ours {ours:?}, theirs {theirs:?}");
            self.lines.push((place.to_owned(), what, why));
        }
    }

    /// Prints the table; fails if a disagreement is not explained.
    fn end(self, name: &str) {
        println!("{name}: {} facts agree, {} disagree", self.agreed, self.lines.len());
        for (place, what, why) in &self.lines {
            println!("  {place}: {what}: {}", why.unwrap_or("NOT EXPLAINED"));
        }
        let unexplained = self.lines.iter().filter(|line| line.2.is_none()).count();
        assert_eq!(unexplained, 0, "{name}: disagreements that are not explained");
        assert!(self.agreed > 0, "{name}: nothing was compared");
    }
}
