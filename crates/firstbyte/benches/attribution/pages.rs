//! Findings of `firstbyte explain` on static pages whose only fault is their size.
//!
//! Each page is explained twice. The truth is its median total minus that of a 2 kB page of the same server and round
//! trip, averaged over both runs. Slow start must cost that much, and no other finding may affect every visit.

use std::path::Path;

use crate::batch;
use crate::case::Case;
use crate::explain;
use crate::zoo::{Server, Zoo};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");

/// Server, round trip in milliseconds, sizes in kB: 28 pages.
const PAGES: [(Server, u64, &[u64]); 10] = [
    (Server::Nginx, 20, &[15, 20, 30, 40, 50, 60, 100]),
    (Server::Nginx, 80, &[15, 20, 30, 40, 50, 60, 100]),
    (Server::Caddy, 20, &[15, 40]),
    (Server::Caddy, 80, &[20, 100]),
    (Server::Apache, 20, &[20, 60]),
    (Server::Apache, 80, &[30, 50]),
    (Server::Go, 20, &[15, 50]),
    (Server::Go, 80, &[40]),
    (Server::Builtin, 20, &[30, 100]),
    (Server::Builtin, 80, &[15]),
];
/// Fits into any window.
const SMALL_BYTES: u64 = 2_000;
const RUNS: usize = 2;

/// One run's explanation of a page, milliseconds.
struct PageExplanation {
    /// The median total of the unchanged visits.
    total: f64,
    /// Findings that affect every visit and their costs, by kind.
    findings: Vec<(String, f64)>,
}

impl PageExplanation {
    fn read(file: &Path, page_bytes: u64) -> Result<Self, String> {
        let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|e| {
            let errors = std::fs::read_to_string(file.with_extension("errors"));
            format!("explain --json: {e}\n{}", errors.unwrap_or_default())
        })?;
        let mut variants = value["variants"].as_array().into_iter().flatten();
        let own = variants.find(|variant| variant["variant"] == "as it is");
        let middle = own.map(|own| &own["connection"]);
        let total = middle
            .filter(|middle| middle["http"]["body_bytes"] == page_bytes)
            .and_then(|middle| middle["total_ns"].as_f64())
            .ok_or_else(|| format!("explain --json: the page does not have {page_bytes} bytes"))?;
        let mut findings = explain::findings(&text)?;
        findings.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self { total: total / 1e6, findings })
    }

    fn is_right(&self, truth: f64) -> bool {
        // As in `findings::Seen::least`.
        let is_expected = truth >= (self.total * 0.03).max(1.0);
        match &self.findings[..] {
            [] => !is_expected,
            [(kind, cost)] => {
                let off = (cost - truth).abs();
                is_expected && kind == "slow-start" && off <= (truth * 0.1).max(1.0)
            }
            _ => false,
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        self.findings.len() == other.findings.len()
            && self.findings.iter().zip(&other.findings).all(|((kind, cost), (same, again))| {
                kind == same && (cost - again).abs() <= cost.max(*again) * 0.1
            })
    }

    fn shown(&self, truth: f64) -> String {
        let slow_start = self.findings.iter().find(|(kind, _)| kind == "slow-start");
        let cost = slow_start.map_or_else(|| "–".to_owned(), |(_, cost)| format!("{cost:.1}"));
        if self.is_right(truth) { cost } else { format!("{cost} (wrong)") }
    }
}

/// Explains all pages, prints the table, and returns whether at most one page is wrong in each run.
///
/// # Errors
/// If a lab does not run, or an explanation cannot be read.
pub(crate) fn measure(seed: u64, lanes: usize, zoo: &Zoo) -> Result<bool, String> {
    let mut cases = Vec::new();
    for (server, rtt_ms, sizes_kb) in PAGES {
        let sizes = sizes_kb.iter().map(|kb| kb * 1_000);
        for bytes in std::iter::once(SMALL_BYTES).chain(sizes) {
            let seed = seed * 1_000 + cases.len() as u64;
            cases.push(Case::quiet(seed, server, "2", rtt_ms, 0, bytes));
        }
    }
    let mut explained = Vec::new();
    for batch in &batch::batches(cases.clone()) {
        eprint!("\r{} of {} pages", explained.len(), cases.len());
        explained.extend(explain_pages(batch, lanes, zoo)?);
    }
    eprintln!();
    Ok(print(&cases, &explained))
}

/// Explains the pages of one lab, `lanes` at a time, then all of them again.
fn explain_pages(
    cases: &[Case],
    lanes: usize,
    zoo: &Zoo,
) -> Result<Vec<[PageExplanation; RUNS]>, String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let directory = directory.path();
    let mut lists = vec![String::new(); lanes.clamp(1, cases.len().max(1))];
    let count = lists.len();
    for run in 0..RUNS {
        for (index, case) in cases.iter().enumerate() {
            let (address, url) = (format!("198.51.100.{}", index + 1), page_url(case, index));
            let said = directory.join(format!("{index}-{run}"));
            lists[index % count] += &format!(
                "'{PROGRAM}' explain -s --json -4 -n 10 --http2 --resolve '*:*:{address}' '{url}' \
                 > '{0}.json' 2> '{0}.errors'; ",
                said.display()
            );
        }
    }
    let lists: String = lists.iter().map(|list| format!("({list}) &\n")).collect();
    explain::run_in_lab(cases, &(lists + "wait\n"), directory, zoo)?;
    let read = |index: usize, run: usize| {
        let (case, file) = (&cases[index], directory.join(format!("{index}-{run}.json")));
        PageExplanation::read(&file, case.body)
            .map_err(|e| format!("{} {}: {e}", case.server.name(), page_url(case, index)))
    };
    (0..cases.len()).map(|index| Ok([read(index, 0)?, read(index, 1)?])).collect()
}

/// URL of the server's file of the case's size; the Go server has no files.
fn page_url(case: &Case, index: usize) -> String {
    let path = match case.server {
        Server::Go => format!("/bytes/{}", case.body),
        // Apache is configured without `mod_dir`.
        Server::Apache => "/index.html".to_owned(),
        _ => "/".to_owned(),
    };
    format!("https://s{index}.oracle.test{path}")
}

fn print(cases: &[Case], explained: &[[PageExplanation; RUNS]]) -> bool {
    println!("| server | round trip, ms | bytes | truth, ms | run 1 | run 2 | other findings |");
    println!("|---|---:|---:|---:|---:|---:|---|");
    let (mut pages, mut right, mut alike, mut wrong) = (0, 0, 0, [0; RUNS]);
    let mut small = 0.0;
    for (case, runs) in cases.iter().zip(explained) {
        let total = runs.iter().map(|run| run.total).sum::<f64>() / RUNS as f64;
        if case.body == SMALL_BYTES {
            small = total;
            continue;
        }
        let truth = total - small;
        let is_right = [0, 1].map(|run: usize| runs[run].is_right(truth));
        for (wrong, is_right) in wrong.iter_mut().zip(is_right) {
            *wrong += usize::from(!is_right);
        }
        pages += 1;
        right += usize::from(is_right == [true; RUNS]);
        alike += usize::from(runs[0].is_like(&runs[1]));
        let others = runs.iter().flat_map(|run| &run.findings);
        let others = others.filter(|(kind, _)| kind != "slow-start");
        let others: Vec<String> = others.map(|(kind, cost)| format!("{kind} {cost:.1}")).collect();
        println!(
            "| {} | {} | {} | {truth:.1} | {} | {} | {} |",
            case.server.name(),
            case.rtt_us() / 1_000,
            case.body,
            runs[0].shown(truth),
            runs[1].shown(truth),
            others.join(", ")
        );
    }
    println!("\n{right} of {pages} right, {alike} of {pages} runs alike");
    wrong.iter().all(|wrong| *wrong <= 1)
}
