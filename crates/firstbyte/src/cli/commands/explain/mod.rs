//! `firstbyte explain URL`: connects in several ways and explains where the time goes.

mod captured;
mod logged;
mod measure;
mod savings;
mod smaller_hello;
mod stored;
mod ways;

use std::time::Duration;

use firstbyte_core::compare::{AnswerCounts, describe_answers};
use firstbyte_core::stats::FEWEST_ROUNDS;
use firstbyte_core::timeline::Failure;
use firstbyte_explain::reconcile::{Reconciled, Witness, reconcile, server_timing};
use firstbyte_explain::{Beside, Equation, Evidence, Span, TermKind, Way, WayKind, findings};

use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::files::Files;
use crate::cli::render;
use crate::cli::signals;
use crate::cli::terminal::{self, note};
use crate::plans::{ExplainPlan, ExplanationSource};
use firstbyte_core::shown_url::shown_url;
use firstbyte_report::explanation::{self, Explanation};
use firstbyte_report::warning::Warning;

pub(in crate::cli) fn run(plan: &ExplainPlan) -> Result<u8, Problem> {
    let (reads, run) = match &plan.what {
        ExplanationSource::New { reads, run, .. } => (reads.as_slice(), run.as_ref()),
        ExplanationSource::Run(path) => (std::slice::from_ref(path), None),
    };
    let outputs = &plan.outputs;
    let opened = Files::default()
        .reads(reads.iter().chain(&plan.capture).chain(&plan.access_log))
        .keeps(run)
        .exports_of_responses(outputs)
        .open()?;
    let measured = match &plan.what {
        ExplanationSource::Run(path) => stored::read(path)?,
        ExplanationSource::New { plan, run, command, silent, .. } => {
            measure::measure(plan, run.as_deref(), command, *silent)?
        }
    };
    let Some(explanation) = explain(plan, &measured)? else {
        return Err(nothing(&measured));
    };
    let is_unlike = |warning: &&Warning| matches!(warning, Warning::UnlikeAnswers { .. });
    explanation.warnings.iter().filter(is_unlike).for_each(terminal::warn);
    if let Some(to) = &outputs.html {
        whole(to, explanation::page(&explanation).as_bytes())?;
    }
    if outputs.draw() {
        render::pictures(&explanation::figures(&explanation), outputs)?;
    }
    if let Some(to) = &outputs.json {
        whole(to, explanation::json(&explanation).as_bytes())?;
    }
    if !outputs.use_stdout() {
        print(&explanation::text(&explanation, &terminal::style(plan.colors)))?;
    }
    opened.keep();
    if measured.interrupted {
        note("interrupted: only complete samples are explained");
        return Ok(signals::exit_code());
    }
    Ok(exit::OK)
}

/// The measured evidence, and the command behind it.
#[derive(Debug)]
struct Measured {
    url: String,
    evidence: Evidence,
    /// The command that repeats the measurement, without secrets.
    command: Vec<String>,
    date: String,
    /// Ways that were given up, and why.
    left_out: Vec<(WayKind, String)>,
    interrupted: bool,
}

fn explain(plan: &ExplainPlan, measured: &Measured) -> Result<Option<Explanation>, Problem> {
    let Some(subject) = measured.evidence.subject() else { return Ok(None) };
    let equation_of = |way: &Way| {
        let splits = way.connections().map(|c| &c.split);
        Equation::from_splits(splits, way.first.as_ref().map(|c| &c.split))
    };
    let Some(equation) = equation_of(subject) else { return Ok(None) };
    let ways = measured
        .evidence
        .ways
        .iter()
        // Another client's late reading does not belong to any term of an equation.
        .filter(|(kind, _)| *kind != WayKind::OtherClient)
        .filter_map(|(kind, way)| {
            let equation = equation_of(way)?;
            Some(explanation::WayView {
                kind: *kind,
                equation,
                asked: way.asked(),
                proven: way.proven.len(),
                middle: way.middle().cloned()?,
            })
        })
        .collect();
    let mut found = findings(&measured.evidence);
    savings::fill_in(&mut found.all, &measured.evidence);
    let reconciled = witnesses(plan, &measured.evidence, subject, &equation)?;
    let few = equation.interval.is_none();
    let too_few = Warning::NoIntervals { rounds: equation.of, needed: FEWEST_ROUNDS };
    let interrupted = measured.interrupted.then_some(Warning::Interrupted);
    let described = |(kind, counts): &(WayKind, AnswerCounts)| {
        let text = Some(describe_answers(counts)).filter(|text| !text.is_empty())?;
        Some(format!("{}: {text}", kind.name()))
    };
    let answers = measured.evidence.unlike_answers.iter();
    let answers: Vec<String> = answers.filter_map(described).collect();
    let unlike =
        (!answers.is_empty()).then_some(Warning::UnlikeAnswers { answers, compared: false });
    Ok(Some(Explanation {
        url: shown_url(&measured.url),
        date: measured.date.clone(),
        command: measured.command.clone(),
        findings: found,
        server: measured.evidence.fit.clone(),
        failed: subject.failed.len(),
        left_out: measured.left_out.clone(),
        redirects: measured.evidence.redirects.clone(),
        beside: measured
            .evidence
            .way(WayKind::OtherClient)
            .and_then(|other| Beside::from_ways(subject, other)),
        equation,
        ways,
        reconciled,
        warnings: few.then_some(too_few).into_iter().chain(unlike).chain(interrupted).collect(),
    }))
}

/// The server's time according to other witnesses.
fn witnesses(
    plan: &ExplainPlan,
    evidence: &Evidence,
    subject: &Way,
    equation: &Equation,
) -> Result<Vec<Reconciled>, Problem> {
    let server = (TermKind::Server, Some(Span::Request));
    let term = equation.terms.iter().find(|term| (term.kind, term.span) == server);
    let estimated = term.map_or(Duration::ZERO, |term| term.time);
    let interval = term.and_then(|term| term.interval);
    let uncertainty = subject.median(|c| c.split.response_uncertainty());
    let mut reconciled = Vec::new();
    if let Some(said) = plan.server_log {
        reconciled.push(reconcile(Witness::Log, said, estimated, interval, uncertainty));
    }
    if let Some(path) = &plan.access_log {
        let search = logged::search(path, evidence)?;
        let lines = search.lines();
        let found = search.finish(estimated, interval, uncertainty);
        reconciled.push(found.ok_or_else(|| logged::not_found(path, lines, subject))?);
    }
    if let Some(path) = &plan.capture {
        let (said, _) = captured::server_time(path, subject)?;
        reconciled.push(reconcile(Witness::Capture, said, estimated, interval, uncertainty));
    }
    let names =
        subject.connections().find_map(|c| server_timing(&c.connection).map(|(_, names)| names));
    let said = subject.median(|c| server_timing(&c.connection).map(|(said, _)| said));
    if let (Some(said), Some(names)) = (said, names) {
        let witness = Witness::ServerTiming(names);
        reconciled.push(reconcile(witness, said, estimated, interval, uncertainty));
    }
    Ok(reconciled)
}

/// The error that a failed connection leaves nothing to explain.
fn unexplained(url: &str, failure: &Failure, hint: Option<String>) -> Problem {
    let message = format!("{}: {failure}", shown_url(url));
    Problem::new(exit::code(&failure.cause), message)
        .hint(hint.as_deref().unwrap_or("there is nothing to explain until a connection succeeds"))
}

/// The error that there is nothing to explain.
fn nothing(measured: &Measured) -> Problem {
    let way = measured.evidence.subject();
    let failure = way.and_then(|way| {
        let first = way.first.as_ref().and_then(|first| first.connection.failure.as_ref());
        way.failed.first().or(first)
    });
    match failure {
        Some(failure) => {
            let hint = firstbyte_report::advice::for_failure(&failure.cause);
            unexplained(&measured.url, failure, hint)
        }
        None => Problem::new(exit::READ, "no connection could be explained"),
    }
}
