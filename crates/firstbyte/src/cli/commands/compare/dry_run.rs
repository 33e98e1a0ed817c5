//! `compare --dry-run`: prints what would be measured.

use std::fmt::Write;
use std::time::Duration;

use super::Study;
use crate::cli::exit::{self, Problem};
use crate::cli::exports;
use firstbyte_core::shown_url::shown_url;
use firstbyte_probe::experiment::{Lanes, Visit};
use firstbyte_probe::probe::options::{HttpVersion, SessionUse, TlsVersion};
use firstbyte_report::Style;

/// The round-trip times for which the duration is estimated.
const ROUND_TRIPS: [Duration; 3] =
    [Duration::from_millis(10), Duration::from_millis(50), Duration::from_millis(200)];

pub(super) fn print(study: &Study) -> Result<u8, Problem> {
    exports::print(&Style::default().safe_lines(&describe(study).unwrap_or_default()))?;
    Ok(exit::OK)
}

fn describe(study: &Study) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let variants = &study.experiment.matrix.variants;
    writeln!(text, "variants: {}", variants.len())?;
    for variant in variants {
        writeln!(text, "  {}  ({})", variant.cell.name(), shown_url(&variant.cell.url))?;
    }
    if !study.experiment.matrix.left_out.is_empty() {
        writeln!(text, "left out: {}", study.experiment.matrix.left_out.len())?;
    }
    for (cell, why) in &study.experiment.matrix.left_out {
        writeln!(text, "  {}: {why}", cell.name())?;
    }
    let design = &study.experiment.design;
    match &study.experiment.until {
        Some(until) => writeln!(
            text,
            "rounds: until {}, at most {}, after {} to warm up",
            until.describe(),
            design.rounds,
            design.warmup
        )?,
        None => writeln!(text, "rounds: {}, after {} to warm up", design.rounds, design.warmup)?,
    }
    writeln!(
        text,
        "samples: {}, in random order (seed {})",
        design.samples(variants.len()),
        design.seed
    )?;
    let rounds = design.warmup.saturating_add(design.rounds);
    if let Some(interval) = design.interval.filter(|interval| !interval.is_zero()) {
        let visits = longest_lane(study, |_| 1);
        let took = interval * visits;
        writeln!(text, "expected duration: {}", in_words(took * rounds))?;
        return Ok(text);
    }
    let per_round = longest_lane(study, |cell| round_trips(&variants[cell].visit));
    writeln!(text, "expected duration ({per_round} round trips per round):")?;
    for rtt in ROUND_TRIPS {
        let took = rtt * per_round * rounds;
        writeln!(
            text,
            "  {:>4} ms round-trip time: {}",
            rtt.as_millis(),
            in_words(took * 11 / 10)
        )?;
    }
    Ok(text)
}

/// The largest sum of `of_cell` over the cells of a lane.
fn longest_lane(study: &Study, of_cell: impl Fn(usize) -> u32) -> u32 {
    let cells = 0..study.experiment.matrix.variants.len();
    match &study.experiment.design.lanes {
        Lanes::One => cells.map(of_cell).sum(),
        Lanes::Abreast => cells.map(of_cell).max().unwrap_or(0),
        Lanes::Several(lanes) => {
            let sums = lanes.iter().map(|lane| lane.iter().map(|cell| of_cell(*cell)).sum());
            sums.max().unwrap_or(0)
        }
    }
}

/// Round trips of one visit and its preparation. One of them is for DNS, whose server may be nearer.
fn round_trips(visit: &Visit) -> u32 {
    let (tls, options) = (visit.target.tls, &visit.options);
    if options.reuse {
        return 1;
    }
    let quic = options.http.version == HttpVersion::Http3;
    let full = match (tls, quic, options.tls.max) {
        (_, true, _) => 1,
        (false, ..) => 1,
        (true, _, TlsVersion::V1_2) => 3,
        (true, _, TlsVersion::V1_3) => 2,
    };
    let exchange = 1 + 1;
    match options.tls.session {
        SessionUse::Full => full + exchange,
        SessionUse::Resume(_) if !quic && options.tls.max == TlsVersion::V1_2 => 2 + exchange,
        SessionUse::Resume(_) => full + exchange,
        // A connection before it obtains the session.
        SessionUse::EarlyData { .. } => full + exchange + (full - 1) + exchange,
    }
}

/// Formats a duration: "1 h 2 min", "3 min 20 s", "45 s".
pub(super) fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3600, seconds % 3600 / 60, seconds % 60) {
        (0, 0, seconds) => format!("{} s", seconds.max(1)),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}
