//! Compares the findings of `firstbyte explain` with the time that removing each fault saves.
//!
//! A case has up to three faults. It is measured unchanged, and once without each fault; the difference is the fault's
//! true cost. A fault should be found if its removal lowers the median total by more than 1 ms and 3 %. From outside, a
//! pause that the first byte waits for cannot be told from the server's response time, so that part of its cost is
//! expected as a slow server. The unchanged case is measured twice, before `explain` and after: if the two differ by
//! more than the minimum cost of a finding, the case is inconclusive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use firstbyte_core::run::Metric;
use serde::{Deserialize, Serialize};

use crate::case::{Case, Names, Writes};
use crate::zoo::{Server, Zoo};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");

/// A fault that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Fault {
    ThinkTime,
    HandshakeDelay,
    Nagle,
    SmallWindow,
    LargeChain,
    LargeBody,
    Tls12,
    SlowLink,
    Pause,
}

impl Fault {
    pub(crate) const ALL: [Self; 9] = [
        Self::ThinkTime,
        Self::HandshakeDelay,
        Self::Nagle,
        Self::SmallWindow,
        Self::LargeChain,
        Self::LargeBody,
        Self::Tls12,
        Self::SlowLink,
        Self::Pause,
    ];

    /// Kinds of findings that name the fault.
    const fn names(self) -> &'static [&'static str] {
        match self {
            Self::SmallWindow => &["small-window"],
            Self::LargeChain => &["large-chain"],
            Self::LargeBody => &["slow-start", "large-response"],
            _ => self.kinds(),
        }
    }

    /// The kinds that name the fault, and others also true: less data would wait if a small window were smaller.
    const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::ThinkTime => &["slow-server"],
            Self::HandshakeDelay => &["slow-handshake"],
            Self::Nagle => &["nagle"],
            Self::SmallWindow => &["small-window", "large-chain", "slow-start", "large-response"],
            Self::LargeChain => &["large-chain", "small-window"],
            Self::LargeBody => &["slow-start", "large-response", "small-window"],
            Self::Tls12 => &["tls-1.2"],
            Self::SlowLink => &["slow-link", "large-response", "large-chain"],
            Self::Pause => &["pause"],
        }
    }

    fn is_in(self, case: &Case) -> bool {
        match self {
            Self::ThinkTime => case.think_us > 0,
            Self::HandshakeDelay => case.handshake_us > 0,
            Self::Nagle => case.nagle,
            Self::SmallWindow => case.window < 10,
            Self::LargeChain => case.chain > 0,
            // Many small writes also fill a window that is counted in packets.
            Self::LargeBody => case.body > 12_000 || matches!(case.writes, Writes::Many { .. }),
            Self::Tls12 => case.tls == "1.2",
            Self::SlowLink => case.down.kbit.is_some(),
            Self::Pause => case.pauses(),
        }
    }

    fn removed(self, case: &mut Case) {
        match self {
            Self::ThinkTime => case.think_us = 0,
            Self::HandshakeDelay => case.handshake_us = 0,
            Self::Nagle => case.nagle = false,
            Self::SmallWindow => case.window = 10,
            Self::LargeChain => case.chain = 0,
            Self::LargeBody => {
                case.body = 1_000;
                if let Writes::Many { .. } = case.writes {
                    case.writes = Writes::One;
                }
            }
            Self::Tls12 => case.tls = "1.3",
            Self::SlowLink => case.down.kbit = None,
            Self::Pause => case.writes = Writes::One,
        }
    }
}

/// The expected and the reported findings of one case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Explained {
    pub(crate) seed: u64,
    /// The median total, ms.
    pub(crate) total: f64,
    /// The faults with their true costs.
    pub(crate) faults: Vec<Cost>,
    /// Uncertainty of the medians, ms: the larger of half the distance between the middle samples (the mean over the
    /// servers), and the difference between both measurements of the unchanged case.
    pub(crate) noise: f64,
    /// Findings that affect every visit, with their costs in ms.
    pub(crate) said: Vec<(String, f64)>,
}

/// A fault's cost, ms: how much the total, and the time to the first byte, fall when only that fault is removed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) fault: Fault,
    pub(crate) alone: f64,
    pub(crate) first_byte: f64,
}

/// A finding that is expected because of one or more of a case's faults.
struct Expected {
    fault: Fault,
    cost: f64,
}

impl Explained {
    /// The expected findings, with their costs. The time of the response's first byte cannot distinguish a pause before
    /// it from think time.
    fn expected(&self) -> Vec<Expected> {
        let mut expected: Vec<Expected> = Vec::new();
        let mut think = 0.0;
        for Cost { fault, alone, first_byte } in self.faults.iter().copied() {
            match fault {
                Fault::Pause => {
                    think += first_byte;
                    expected.push(Expected { fault, cost: alone - first_byte });
                }
                Fault::ThinkTime => think += alone,
                _ => expected.push(Expected { fault, cost: alone }),
            }
        }
        expected.push(Expected { fault: Fault::ThinkTime, cost: think });
        expected
    }
}

/// A case for `explain`: a full handshake on a path without loss, with at most three faults.
pub(crate) fn drawn(seed: u64) -> (Case, Vec<Fault>) {
    let mut random = fastrand::Rng::with_seed(!seed);
    let servers = [Server::Builtin, Server::Builtin, Server::Nginx, Server::Go, Server::Python];
    let mut case = Case::drawn(seed, servers[random.usize(0..servers.len())]);
    for way in [&mut case.up, &mut case.down] {
        way.loss_permille = 0;
        way.jitter_us = 0;
    }
    (case.names, case.session, case.reused) = (Names::Told, "full", false);
    if case.http == "3" {
        case.http = "2";
    }
    let mut faults: Vec<Fault> = Fault::ALL.into_iter().filter(|f| f.is_in(&case)).collect();
    random.shuffle(&mut faults);
    for left_out in faults.drain(faults.len().min(3)..) {
        left_out.removed(&mut case);
    }
    (case, faults)
}

/// Measures a case unchanged and without each of its faults in one lab, and runs `explain` on it.
///
/// # Errors
/// If the lab does not run, or its outputs cannot be read.
pub(crate) fn measure(seed: u64, zoo: &Zoo, kept: Option<&Path>) -> Result<Explained, String> {
    let (case, faults) = drawn(seed);
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let directory = directory.path();
    let without = |fault: &Fault| {
        let mut variant = case.clone();
        fault.removed(&mut variant);
        variant
    };
    let variants: Vec<Case> =
        std::iter::once(case.clone()).chain(faults.iter().map(without)).collect();
    let mut text = String::from("set -e\n");
    let quoted =
        |words: Vec<String>| -> String { words.iter().map(|word| format!("'{word}' ")).collect() };
    let visits = |index: usize, name: &str| {
        let mut words = vec![PROGRAM.to_owned()];
        words.extend(variants[index].command(index, 5));
        words.extend(["--run".into(), directory.join(name).display().to_string()]);
        format!("{} > /dev/null\n", quoted(words))
    };
    for index in 0..variants.len() {
        text += &visits(index, &format!("{index}.run"));
    }
    let mut words = vec![PROGRAM.to_owned()];
    words.extend("explain -s --json -4 -n 7 --resolve *:*:198.51.100.1".split(' ').map(Into::into));
    words.extend([format!("--http{}", case.http), case.url(0)]);
    let said = directory.join("explained.json");
    if let Some(kept) = kept {
        let run = run_of(seed, kept);
        let _ = std::fs::remove_file(&run);
        words.extend(["--run".into(), run.display().to_string()]);
    }
    text += &format!("{} > '{}'\n", quoted(words), said.display());
    text += &visits(0, "again.run");
    run_in_lab(&variants, &text, directory, zoo)?;
    let median_of = |metric, name: &str| median_time(metric, &directory.join(name));
    let (mut totals, mut first_bytes, mut noise) = (Vec::new(), Vec::new(), 0.0);
    for index in 0..variants.len() {
        let name = format!("{index}.run");
        let (total, apart) = median_of(Metric::Total, &name)?;
        totals.push(total);
        first_bytes.push(median_of(Metric::Ttfb, &name)?.0);
        noise += apart / variants.len() as f64;
    }
    noise = noise.max((totals[0] - median_of(Metric::Total, "again.run")?.0).abs());
    let cost = |(index, fault): (usize, &Fault)| Cost {
        fault: *fault,
        alone: totals[0] - totals[index + 1],
        first_byte: first_bytes[0] - first_bytes[index + 1],
    };
    let costs = faults.iter().enumerate().map(cost).collect();
    let said = std::fs::read_to_string(&said).map_err(|e| e.to_string())?;
    Ok(Explained { seed, total: totals[0], faults: costs, noise, said: findings(&said)? })
}

/// Runs a shell script in a lab with a server for each case. The files are in `directory`.
///
/// # Errors
/// If the lab does not run.
pub(crate) fn run_in_lab(
    cases: &[Case],
    script: &str,
    directory: &Path,
    zoo: &Zoo,
) -> Result<(), String> {
    let (file, shell) = (directory.join("case.toml"), directory.join("measure.sh"));
    std::fs::write(&shell, script).map_err(|e| e.to_string())?;
    std::fs::write(&file, crate::batch::scenario(cases, zoo)?).map_err(|e| e.to_string())?;
    let mut lab = Command::new(PROGRAM);
    lab.args(["lab", "run"]).arg(&file).args(["--", "sh"]).arg(&shell).stdin(Stdio::null());
    let output = lab.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(format!("in the lab: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// Runs the current `explain` on the kept run of a case again.
///
/// # Errors
/// If the run cannot be explained.
pub(crate) fn again(explained: &mut Explained, kept: &Path) -> Result<(), String> {
    let run = run_of(explained.seed, kept);
    let output =
        Command::new(PROGRAM).args(["explain", "-s", "--json", "--from"]).arg(run).output();
    let output = output.map_err(|e| e.to_string())?;
    explained.said = findings(&String::from_utf8_lossy(&output.stdout))
        .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(())
}

fn run_of(seed: u64, kept: &Path) -> PathBuf {
    kept.join(format!("{seed}.run"))
}

/// The median, and half of the distance between its neighbours.
fn median_time(metric: Metric, run: &Path) -> Result<(f64, f64), String> {
    let run = firstbyte::runs::Run::read(run).map_err(|e| e.to_string())?;
    let rows = run.rows.iter().filter(|row| !row.warmup);
    let mut times: Vec<f64> =
        rows.filter_map(|row| row.metrics.get(metric)).map(|ns| ns as f64 / 1e6).collect();
    times.sort_by(f64::total_cmp);
    let middle = times.len() / 2;
    let median = *times.get(middle).ok_or("no visit came to its end")?;
    let beside = |index: usize| times.get(index).copied().unwrap_or(median);
    Ok((median, (beside(middle + 1) - beside(middle.saturating_sub(1))) / 2.0))
}

/// Kinds and costs of the findings that affect every visit.
pub(crate) fn findings(text: &str) -> Result<Vec<(String, f64)>, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let all = value["findings"].as_array().ok_or("explain --json has no findings")?;
    let of_all = all.iter().filter(|finding| finding["concerns"].is_null());
    Ok(of_all
        .filter_map(|f| Some((f["kind"].as_str()?.to_owned(), f["cost_ns"].as_f64()? / 1e6)))
        .collect())
}

/// Whether some fault of the cases causes this kind of finding. Other kinds are not judged.
fn is_judged(kind: &str) -> bool {
    Fault::ALL.iter().any(|fault| fault.kinds().contains(&kind))
}

/// Prints how many faults were found and missed, the false findings, and the errors of costs.
pub(crate) fn print(all: &[Explained]) -> bool {
    let (mut found, mut missed, mut wrong) = ([0; 9], [0; 9], Vec::new());
    let (mut false_ones, mut costs, mut untold) = (0, Vec::new(), 0);
    for case in all {
        let least = (case.total * 0.03).max(1.0);
        if case.noise > least {
            // The noise hides whether any fault reaches the minimum cost of a finding.
            untold += 1;
            continue;
        }
        let mut explained: Vec<&str> = Vec::new();
        // A fault that only delays the first byte also explains a finding.
        for cost in case.faults.iter().filter(|cost| cost.first_byte > least / 2.0 - case.noise) {
            explained.extend(cost.fault.kinds());
        }
        for Expected { fault, cost } in case.expected() {
            let names = fault.names();
            let index = Fault::ALL.iter().position(|f| *f == fault).unwrap_or_default();
            // A fault of small cost may or may not be found.
            if cost > least / 2.0 - case.noise {
                explained.extend(fault.kinds());
            }
            if cost <= least + case.noise {
                continue;
            }
            let is_it = |(kind, _): &&(String, f64)| names.contains(&kind.as_str());
            let Some((kind, said)) = case.said.iter().find(is_it) else {
                missed[index] += 1;
                wrong.push(format!("{}: {fault:?} of {cost:.1} ms missed", case.seed));
                continue;
            };
            found[index] += 1;
            // Errors below the noise of the medians do not count.
            let off = ((said - cost).abs() - case.noise).max(0.0);
            costs.push(off / cost);
            if off > cost * 0.1 {
                wrong.push(format!("{}: {kind} {said:.1} for {cost:.1} ms", case.seed));
            }
        }
        for (kind, cost) in &case.said {
            if is_judged(kind) && !explained.contains(&kind.as_str()) {
                false_ones += 1;
                wrong.push(format!("{}: {kind} of {cost:.1} ms is not there", case.seed));
            }
        }
    }
    println!(
        "\nFindings of `explain`, {} cases, {untold} of them measured too roughly to say\n\n| fault | found | missed |\n|---|---:|---:|",
        all.len()
    );
    for (index, fault) in Fault::ALL.iter().enumerate() {
        println!("| {fault:?} | {} | {} |", found[index], missed[index]);
    }
    let (found, missed): (usize, usize) = (found.iter().sum(), missed.iter().sum());
    let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
    let (recall, precision) = (share(found, found + missed), share(found, found + false_ones));
    let within = costs.iter().filter(|error| **error <= 0.1).count();
    let median = 100.0 * firstbyte_core::stats::median(&costs).unwrap_or(f64::NAN);
    println!("\n| findings | is | to reach |\n|---|---:|---:|");
    println!("| recall, % | {recall:.1} | 93 |\n| precision, % | {precision:.1} | 95 |");
    println!("| median error of a cost, % | {median:.1} | 10 |");
    println!("| costs within 10 %, % | {:.1} | |", share(within, costs.len()));
    println!("\nWrong:\n");
    for line in wrong.iter().take(40) {
        println!("- `-- --explain-case {line}`");
    }
    recall >= 93.0 && precision >= 95.0 && median <= 10.0
}
