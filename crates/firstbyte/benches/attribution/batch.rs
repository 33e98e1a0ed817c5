//! Measures cases in one lab. Each case has a server host with its own path; captures at both ends give the truth.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use firstbyte::runs::Run;
use firstbyte_core::timeline::Connection;
use firstbyte_truth::{Captured, Known, Truth, base};

use crate::case::Case;
use crate::packets::{self, Flows, Key};
use crate::reading::{Reading, readings};
use crate::score::Outcome;
use crate::secrets::{self, Log};
use crate::strace::{self, Witness, Writes};
use crate::taps::{Tap, Taps};
use crate::zoo::Zoo;

/// Called with each sample of a case: the case, the sample's number, the connection and its truth.
pub(crate) type Show<'a> = &'a dyn Fn(&Case, u32, &Connection, &Truth);

/// File in a lab's directory; written once the lab's measurements are complete.
const MEASURED: &str = "measured";

/// Servers per lab.
const HOSTS: usize = 12;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");

/// Groups cases into labs of twelve; cases with a slow name service get separate labs.
pub(crate) fn batches(cases: Vec<Case>) -> Vec<Vec<Case>> {
    let (late, others): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.names.are_late());
    others.chunks(HOSTS).chain(late.chunks(HOSTS)).map(<[Case]>::to_vec).collect()
}

/// Measurement options.
#[derive(Clone, Debug)]
pub(crate) struct How {
    pub(crate) samples: u32,
    /// Number of cases measured at a time.
    pub(crate) lanes: usize,
    /// Traces one case in this many; zero traces none.
    pub(crate) trace: u64,
    /// Directory for captures and runs, one subdirectory per lab. Labs already there are not measured again.
    pub(crate) keep: Option<PathBuf>,
}

/// Measures `cases` and scores each of their samples. Calls `show` for each.
///
/// Results are kept in a directory below `how.keep`, if set; results already there are not measured again.
///
/// # Errors
/// If the lab does not run, or a file cannot be read.
pub(crate) fn measure(
    cases: &[Case],
    how: &How,
    show: Show<'_>,
    zoo: &Zoo,
) -> Result<Vec<Outcome>, String> {
    let temporary = tempfile::tempdir().map_err(|e| e.to_string())?;
    let directory =
        how.keep.as_deref().map_or_else(|| temporary.path().to_owned(), |keep| kept(keep, cases));
    let traced = |(index, case): (usize, &Case)| {
        let drawn = how.trace > 0 && case.seed.is_multiple_of(how.trace);
        let trace = directory.join(format!("s{index}.strace"));
        Case { trace: drawn.then_some(trace), ..case.clone() }
    };
    let cases: Vec<Case> = cases.iter().enumerate().map(traced).collect();
    let cases = &cases[..];
    if !is_measured(cases, &directory)? {
        std::fs::create_dir_all(&directory).map_err(|e| e.to_string())?;
        // An interrupted lab may have left run files. They cannot be overwritten, and their captures are gone.
        for index in 0..cases.len() {
            let _ = std::fs::remove_file(directory.join(format!("s{index}.run")));
        }
        run(cases, how, &directory, zoo)?;
        std::fs::write(directory.join(MEASURED), named(cases)).map_err(|e| e.to_string())?;
    }
    let client = packets::read(&directory.join("client.pcapng"))?;
    let mut outcomes = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let server = packets::read(&directory.join(format!("server-s{index}.pcapng")))?;
        let run = directory.join(format!("s{index}.run"));
        match connections(&run) {
            Ok(connections) => {
                let log = secrets::log(&keys(&directory, index));
                let flows = [&client, &server];
                outcomes.extend(score(case, index, &connections, flows, &log, show))
            }
            Err(reason) => outcomes.push(Outcome::untold(case, 0, &reason)),
        }
    }
    Ok(outcomes)
}

/// Directory for the results of `cases`, named after the first case's seed.
fn kept(keep: &Path, cases: &[Case]) -> PathBuf {
    let (seed, late) = cases.first().map_or((0, false), |c| (c.seed, c.names.are_late()));
    // A seed is drawn once per server, so the same seed can occur in both kinds of labs.
    keep.join(format!("{seed}{}", if late { "-late" } else { "" }))
}

/// Contents of the `measured` file. Seed and server identify a case.
fn named(cases: &[Case]) -> String {
    cases.iter().map(|case| format!("{} {}\n", case.seed, case.server.name())).collect()
}

/// Whether `cases` were completely measured in `directory`. It is an error if other cases were: their captures would be
/// scored as those of a different path.
fn is_measured(cases: &[Case], directory: &Path) -> Result<bool, String> {
    let measured = directory.join(MEASURED);
    match std::fs::read_to_string(&measured) {
        Ok(text) if text == named(cases) => Ok(true),
        Ok(_) => Err(format!("{}: it is of other cases", measured.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(format!("{}: {error}", measured.display())),
    }
}

/// Runs the lab, which leaves captures and run files in `directory`.
fn run(cases: &[Case], how: &How, directory: &Path, zoo: &Zoo) -> Result<(), String> {
    let (file, script) = (directory.join("cases.toml"), directory.join("measure.sh"));
    std::fs::write(&file, scenario(cases, zoo)?).map_err(|e| e.to_string())?;
    std::fs::write(&script, commands(cases, how.samples, how.lanes, directory))
        .map_err(|e| e.to_string())?;
    let mut lab = Command::new(PROGRAM);
    lab.args(["lab", "run"]).arg(&file).arg("--capture").arg(directory).args(["--", "sh"]);
    let output = lab.arg(&script).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("in the lab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

pub(crate) fn scenario(cases: &[Case], zoo: &Zoo) -> Result<String, String> {
    let seed = cases.first().map_or(1, |case| case.seed & 0x7fff_ffff);
    let mut text = format!(
        "description = \"drawn cases\"\nseed = {seed}\n\
         [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\n\
         ipv6 = \"2001:db8:0:1::10\"\n\
         [[host]]\nname = \"resolver\"\nrole = \"resolver\"\nipv4 = \"192.0.2.53\"\n\
         ipv6 = \"2001:db8:0:1::53\"\n\
         up = {{ delay = \"{}us\" }}\ndown = {{ delay = \"1ms\" }}\n",
        seed % 40_000
    );
    if cases.iter().any(|case| case.names.are_late()) {
        text += "resolver = { answer_delay = \"120ms\", aaaa_delay = \"200ms\" }\n";
    }
    for (index, case) in cases.iter().enumerate() {
        text += &case.host(index, zoo)?;
    }
    Ok(text)
}

/// A shell script with `lanes` lists of commands in parallel. A failed visit is a valid result.
fn commands(cases: &[Case], samples: u32, lanes: usize, directory: &Path) -> String {
    let mut lists = vec![String::new(); lanes.max(1)];
    let count = lists.len();
    for (index, case) in cases.iter().enumerate() {
        let run = directory.join(format!("s{index}.run"));
        let mut words = Vec::new();
        if case.http == "3" {
            // The QUIC secrets are needed to read what each datagram carried.
            words.push("env".to_owned());
            words.push(format!("SSLKEYLOGFILE={}", keys(directory, index).display()));
        }
        words.push(PROGRAM.to_owned());
        words.extend(case.command(index, samples));
        words.extend(["--run".into(), run.display().to_string()]);
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let said = directory.join(format!("s{index}.said"));
        lists[index % count] += &format!("{} > '{}' 2>&1; ", words.join(" "), said.display());
    }
    let lists: Vec<String> =
        lists.iter().filter(|l| !l.is_empty()).map(|l| format!("({l}) &\n")).collect();
    lists.concat() + "wait\n"
}

/// The file for a case's TLS secrets, logged by the client.
fn keys(directory: &Path, index: usize) -> PathBuf {
    directory.join(format!("s{index}.keys"))
}

/// The run's connections except warm-up, with their sample numbers.
fn connections(run: &Path) -> Result<Vec<(u32, Connection)>, String> {
    let read = Run::read(run).map_err(|error| said(run).unwrap_or_else(|| error.to_string()))?;
    let mut connections = Vec::new();
    for (index, taken) in read.each_taken().enumerate() {
        let taken = taken.map_err(|error| error.to_string())?;
        if !taken.sample.warmup {
            connections.push((index as u32, taken.sample.connection));
        }
    }
    Ok(connections)
}

/// The last line of the command's output.
fn said(run: &Path) -> Option<String> {
    let said: PathBuf = run.with_extension("said");
    let text = std::fs::read_to_string(said).ok()?;
    text.lines().rfind(|line| line.contains("error")).map(str::to_owned)
}

fn score(
    case: &Case,
    index: usize,
    connections: &[(u32, Connection)],
    [client, server]: [&Flows; 2],
    log: &Log,
    show: Show<'_>,
) -> Vec<Outcome> {
    let address = [198, 51, 100, (index + 1) as u8];
    let key = |connection: &Connection| {
        let port = connection.facts.local?.port();
        Some((address, port, connection.facts.quic.is_none()))
    };
    let taps = Taps::from_flows(client, server);
    let writes = writes_of(case);
    let captured = |connection: &Connection| {
        let key = key(connection)?;
        let of = |flows: &Flows| flows.packets.get(&key).cloned();
        let other = |(host, at): &(u16, i64)| (usize::from(*host) == index + 1).then_some(*at);
        let other_attempts = client.ipv6_attempts.iter().filter_map(other).collect();
        let mut captured = Captured { client: of(client)?, server: of(server)?, other_attempts };
        packets::open(&mut captured, [client, server], log);
        Some(captured)
    };
    let all: Vec<Captured> = connections.iter().filter_map(|(_, c)| captured(c)).collect();
    let ways = base(&all, case.up.ns_per_byte(), case.down.ns_per_byte());
    connections
        .iter()
        .map(|(number, connection)| {
            let (Some([up, down]), Some(captured)) = (ways, captured(connection)) else {
                return Outcome::untold(case, *number, "not in the captures");
            };
            let known = Known {
                up,
                down,
                answers_after_finished: case.answers_after_finished(),
                application: case.application(),
                pauses: case.pauses(),
                window: case.quic_window(),
            };
            match firstbyte_truth::truth(connection, &captured, &known) {
                Ok(truth) if !truth.opened => {
                    Outcome::untold(case, *number, "datagrams that could not be opened")
                }
                Ok(truth) => {
                    show(case, *number, connection, &truth);
                    let wire = read(connection, &captured, &known, &taps, key(connection));
                    let witness = case.trace.is_some().then(|| {
                        writes.as_ref().map_or_else(
                            |why| Witness::Untraced(why.clone()),
                            |writes| strace::witness(&truth, connection, writes),
                        )
                    });
                    let outcome = Outcome::score(case, *number, connection, &truth);
                    Outcome { wire, witness, ..outcome }
                }
                Err(reason) => {
                    let failure = connection.failure.as_ref().map(ToString::to_string);
                    let reason = failure.unwrap_or_else(|| format!("{reason:?}"));
                    Outcome::untold(case, *number, &reason)
                }
            }
        })
        .collect()
}

/// The server's writes, if they were traced.
fn writes_of(case: &Case) -> Result<Writes, String> {
    match &case.trace {
        Some(file) if case.server.can_be_traced() => Writes::read(file),
        _ => Err("the lab starts this server by itself".into()),
    }
}

/// The passive reader's results for the connection at each tap, with the truth.
fn read(
    connection: &Connection,
    captured: &Captured,
    known: &Known,
    taps: &Taps,
    key: Option<Key>,
) -> Vec<Reading> {
    let truth = firstbyte_truth::passage(connection, captured, known);
    let (Ok(truth), Some(key)) = (truth, key) else { return Vec::new() };
    let begun = captured.client.first().map_or(0, |packet| packet.at);
    let said = |tap: Tap| Some(readings(tap, taps.said(tap, &key, begun)?, &truth));
    Tap::ALL.into_iter().filter_map(said).flatten().collect()
}
