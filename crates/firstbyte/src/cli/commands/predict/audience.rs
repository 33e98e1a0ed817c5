//! `--population`: predicts a whole audience, before and after a change.

use std::io;

use firstbyte_predict::{Http, Way};
use firstbyte_probe::probe::{MOST_TEXT, describe_io, read_file};

use super::{problem, setup, threads, ways};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::files::cannot_write;
use crate::cli::render;
use crate::cli::signals::Attention;
use crate::cli::terminal;
use crate::plans::{AudiencePlan, PredictionPlan};
use crate::prediction::player;
use crate::prediction::ways::Ways;
use firstbyte_predict::audience::{Audience, Played};
use firstbyte_report::chart;
use firstbyte_report::warning::Warning;
use firstbyte_report::{audience, units};

/// Up to this loss rate, predictions over QUIC were checked against the state machines.
const HELD: f64 = 0.06;

pub(super) fn run(plan: &PredictionPlan, asked: &AudiencePlan) -> Result<u8, Problem> {
    let file = &asked.population;
    let (mut setup, _) = setup::setup_for(plan)?;
    setup.path.seed = plan.seed;
    let [before, after] = change(plan, asked)?;
    let unreadable = |why: String| {
        Problem::new(exit::READ, format!("--population {}: {why}", file.display()))
            .hint("expected a CSV file with the header rtt_ms,weight and optionally loss")
    };
    let text = read_file(file, MOST_TEXT).map_err(|e| unreadable(describe_io(&e)))?;
    let crowd = Audience::read(&text, setup.path.up.loss).map_err(unreadable)?;
    let mut warnings = Vec::new();
    let quic = [before, after].iter().any(|way| way.http == Http::V3);
    if quic && crowd.most_loss() > HELD {
        warnings.push(Warning::BeyondChecked { loss: HELD });
        warnings.iter().for_each(terminal::warn);
    }
    let begun = firstbyte_clock::timer_now();
    let player = |way| player(&setup, way, &crowd.range()).map_err(problem);
    let (one, other) = (player(&before)?, player(&after)?);
    let prepared = begun.elapsed();
    let attention = Attention::begin();
    let goes_on = || attention.asked().is_none();
    let played = crowd.play([&one, &other], asked.visitors, plan.seed, threads(), &goes_on);
    let ended_by = attention.asked();
    drop(attention);
    terminal::note(&format!(
        "{} connections in {:.1} s, {:.1} s of that to prepare",
        units::grouped(played.visitors * 2),
        begun.elapsed().as_secs_f64(),
        prepared.as_secs_f64(),
    ));
    let Some(signal) = ended_by else {
        show(plan, &played, [&before.label(), &after.label()], &warnings)?;
        return Ok(exit::OK);
    };
    if played.visitors == 0 {
        let text = "interrupted before any results";
        return Err(Problem::new(signal.exit_code(), text));
    }
    warnings.push(Warning::Interrupted);
    show(plan, &played, [&before.label(), &after.label()], &warnings)?;
    terminal::note(&format!(
        "interrupted: results of {} of {} visitors, spread over the whole audience",
        units::grouped(played.visitors),
        units::grouped(asked.visitors.into())
    ));
    Ok(signal.exit_code())
}

/// The two ways to compare.
fn change(plan: &PredictionPlan, asked: &AudiencePlan) -> Result<[Way; 2], Problem> {
    let found = if asked.change.is_empty() {
        ways(&plan.vary, None)?
    } else {
        Ways::change(&asked.change, &plan.vary)
            .map_err(|why| Problem::new(exit::USAGE, format!("--change {why}")))?
    };
    match found.ways.as_slice() {
        [(_, before), (_, after)] => Ok([*before, *after]),
        others => Err(Problem::new(
            exit::USAGE,
            format!("--population needs two variants, got {}", others.len()),
        )
        .hint("write --change tls=1.2:1.3, or --vary with two values")),
    }
}

fn show(
    plan: &PredictionPlan,
    played: &Played,
    labels: [&str; 2],
    warnings: &[Warning],
) -> Result<(), Problem> {
    let outputs = &plan.outputs;
    render::pictures(&[chart::audience(played, labels)], outputs)?;
    if let Some(to) = &outputs.html {
        whole(to, audience::page(played, labels).as_bytes())?;
    }
    if let Some(to) = &outputs.json {
        let json = audience::json(played, labels, warnings);
        let json = json.map_err(|e| cannot_write(to.path(), &io::Error::other(e)))? + "\n";
        whole(to, json.as_bytes())?;
    }
    if outputs.use_stdout() {
        return Ok(());
    }
    print(&audience::table(played, labels, &terminal::style(plan.colors)))
}
