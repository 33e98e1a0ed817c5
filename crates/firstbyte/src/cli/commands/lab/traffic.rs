//! A study by capture: records traffic to several servers and compares groups of them.
//!
//! In: a plan with `[traffic]`. Out: the differences that `wire diff` finds in the client's capture, and whether they
//! match the expectations. The fields are described in `docs/plans.md`.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::run::Taken;
use firstbyte_core::toml_errors::describe_toml_error;
use firstbyte_core::units::{BareShare, parse_share};
use firstbyte_lab::{Lab, Scenario};
use firstbyte_passive::diff::{Change, Changes, Pair, changes};
use serde::Deserialize;

use super::story::{print_story, sentence_problem, story_of_study};
use super::study::{Captures, in_lab, makes_a_capture_alone, with_issuer};
use crate::cli::commands::compare::Study;
use crate::cli::commands::wire::diff::{held, servers};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::measuring::Measuring;
use crate::cli::plan::plan_file::{PlanFile, StoryPlan};
use crate::cli::signals::{self, EndSignal};
use crate::cli::terminal::{self, note};
use crate::plans::{LabStudyPlan, PacketFilter, ServerGroup};
use firstbyte_core::shown_url::shown_url;
use firstbyte_probe::experiment::{Before, Campaign, Control, Design, EachVisit, Variant};
use firstbyte_report::study::{Estimate, FigureUnit, MeasuredFigure, PublishedFigure, StoryFigure};
use firstbyte_report::warning::Warning;
use firstbyte_report::wire;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TrafficPlan {
    traffic: Traffic,
    group: [ServerGroup; 2],
    story: Option<StoryPlan>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Traffic {
    urls: Vec<String>,
    /// Connections to each URL.
    connections: u32,
    /// Requests on each connection.
    exchanges: NonZeroU32,
    /// Further flags, as for `compare`.
    #[serde(default)]
    flags: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    say: String,
    /// The change that must be named.
    what: Option<String>,
    /// Whether it must be the costliest change.
    #[serde(default)]
    first: bool,
    /// Whether the bounds are published by others.
    #[serde(default)]
    published: bool,
    /// Bounds, as shares, for the group before and the group after.
    before: Option<[String; 2]>,
    after: Option<[String; 2]>,
    full_to_short: Option<[f64; 2]>,
    /// Changes that may be named; any other one is a miss.
    nothing_but: Option<Vec<String>>,
}

/// The plan in `text`, if it is a study by capture.
pub(super) fn plan(text: &str) -> Result<Option<TrafficPlan>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| described(text, &error))?;
    if !table.contains_key("traffic") {
        return Ok(None);
    }
    let plan: TrafficPlan = toml::from_str(text).map_err(|error| described(text, &error))?;
    for expectation in &plan.expect {
        for bounds in [&expectation.before, &expectation.after].into_iter().flatten() {
            shares(bounds)?;
        }
        if expectation.what.is_none() && expectation.nothing_but.is_none() {
            return Err(format!("`{}`: needs what or nothing_but", expectation.say));
        }
    }
    let figures = plan.figures(&Changes::default());
    let names: Vec<&str> = figures.iter().map(|figure| &*figure.name).collect();
    match sentence_problem(plan.story.as_ref(), &names) {
        Some(why) => Err(why),
        None => Ok(Some(plan)),
    }
}

fn described(text: &str, error: &toml::de::Error) -> String {
    describe_toml_error(text, error.message(), error.span())
}

fn shares(bounds: &[String; 2]) -> Result<[f64; 2], String> {
    let share = |text: &String| {
        parse_share(text, BareShare::Refused)
            .map_err(|error| format!("`{text}`: {error}; {}", error.advice()))
    };
    Ok([share(&bounds[0])?, share(&bounds[1])?])
}

/// Runs the study in a lab and reports the result.
pub(super) fn run(
    asked: &LabStudyPlan,
    plan: &TrafficPlan,
    scenario: &Scenario,
) -> Result<u8, Problem> {
    makes_a_capture_alone(asked, &scenario.name, "firstbyte wire")?;
    let captures = Captures::for_study(&asked.lab.options, true)?;
    let connections = asked.samples.unwrap_or(plan.traffic.connections);
    let code = in_lab(scenario, &captures.options, |lab| drive(&plan.traffic, connections, lab))?;
    let interrupted = EndSignal::from_exit_code(code);
    if code != exit::OK && interrupted.is_none() {
        return Ok(code);
    }
    let judged = judge(asked, plan, &scenario.name, &captures.of_client().unwrap_or_default())?;
    match interrupted {
        Some(signal) => {
            note("interrupted before all traffic was sent; the captured part is shown");
            Ok(signal.exit_code())
        }
        None => Ok(judged),
    }
}

/// Connects to every URL, in rounds of random order, and offers a session whenever one was left.
///
/// Returns the signal's exit code if a signal ended it early.
fn drive(traffic: &Traffic, connections: u32, lab: &Lab) -> Result<u8, Problem> {
    let cells: Vec<Variant> =
        traffic.urls.iter().map(|url| way(url, traffic, lab)).collect::<Result<_, _>>()?;
    let design = Design {
        warmup: 0,
        rounds: connections,
        seed: lab.scenario().seed,
        interval: Some(Duration::ZERO),
        each_visit: EachVisit::Connection(traffic.exchanges),
        ..Design::default()
    };
    let campaign = Campaign { cells: &cells, design: &design, until: None };
    let measuring = Measuring::new()?;
    let visitors = measuring.visitors(&campaign)?;
    let mut failed = 0_u32;
    let mut count = |taken: Taken| {
        failed += u32::from(taken.sample.failure().is_some());
        Ok(())
    };
    let (before, control) = (Before::default(), Control::default());
    let ended = measuring.conduct(&campaign, &visitors, before, &control, &mut count)?;
    if failed > 0 {
        terminal::warn(&Warning::ExchangesFailed { failed });
    }
    Ok(if ended.stopped { signals::exit_code() } else { exit::OK })
}

/// How to connect to `url`: several exchanges share each connection.
fn way(url: &str, traffic: &Traffic, lab: &Lab) -> Result<Variant, Problem> {
    let plan = PlanFile {
        url: Some(url.to_owned()),
        vary: vec!["session=resumed".to_owned()],
        flags: traffic.flags.clone(),
        ..PlanFile::default()
    };
    let whence = format!("the traffic to {}", shown_url(url));
    let study = Study::new(with_issuer(&plan, lab).comparison(&whence)?)?;
    let mut variant = study.experiment.matrix.variants.into_iter().next().ok_or_else(|| {
        let url = shown_url(url);
        Problem::new(exit::USAGE, format!("{url}: cannot be visited with the plan's flags"))
    })?;
    variant.visit.options.reuse = true;
    Ok(variant)
}

/// Reports what the capture shows, and whether that matches the expectations.
fn judge(
    asked: &LabStudyPlan,
    plan: &TrafficPlan,
    name: &str,
    capture: &Path,
) -> Result<u8, Problem> {
    let mut code = Ok(exit::OK);
    let seen = servers(capture, &PacketFilter::default(), &mut code, &mut Vec::new())?;
    code?;
    let [base, other] = &plan.group;
    let pairs: [Pair; 1] = [held(&seen, base, other)?];
    let found = changes(&pairs);
    let style = terminal::style(asked.render.colors);
    print(&wire::diff::diff(&found, &pairs, [&[], &[]], &style))?;
    let figures = plan.figures(&found);
    let story = story_of_study(name, plan.story.as_ref(), "published", figures);
    print_story(&story, &asked.render)?;
    Ok(if story.is_reproduced() { exit::OK } else { exit::CONDITION_MET })
}

impl TrafficPlan {
    /// One or more figures for each expectation, in their order.
    fn figures(&self, found: &Changes) -> Vec<StoryFigure> {
        let groups = [0, 1].map(|group| self.group[group].name.as_str());
        self.expect.iter().flat_map(|expectation| expectation.figures(groups, found)).collect()
    }
}

impl Expectation {
    /// A figure for each bound, or the rank of the change if it has no bounds.
    fn figures(&self, [before, after]: [&str; 2], found: &Changes) -> Vec<StoryFigure> {
        let named = |change: &Change, what: &String| change.what.name() == what;
        let ranked = self.what.as_ref().and_then(|what| {
            let mut ranked = found.changes.iter().zip(1_u32..);
            ranked.find(|(change, _)| named(change, what))
        });
        // A change that is ranked too low counts as missed.
        let change = ranked.filter(|(_, rank)| !self.first || *rank == 1).map(|(change, _)| change);
        let figure = |name: String, unit, bound: PublishedFigure, value: Option<f64>| {
            let published = PublishedFigure { is_own_bound: !self.published, ..bound };
            let estimate = value.map(|value| Estimate { value, interval: None });
            let measured = MeasuredFigure::judge(estimate, |value| published.holds(value));
            StoryFigure { name, variant: String::new(), unit, published, measured }
        };
        let mut figures = Vec::new();
        for (bounds, group, value) in [
            (&self.before, before, change.map(|change| change.before.value)),
            (&self.after, after, change.map(|change| change.after.value)),
        ] {
            let Some(bounds) = bounds else { continue };
            let [low, high] = shares(bounds).unwrap_or_default();
            let published = PublishedFigure::own_bound(range_text(bounds), [low, high]);
            let name = format!("{}, {group}", self.say);
            figures.push(figure(name, FigureUnit::Share, published, value));
        }
        if let Some([low, high]) = self.full_to_short {
            let ratio = change.and_then(|change| change.handshakes.as_ref()?.ratio());
            let published =
                PublishedFigure::own_bound(format!("{low} to {high} times"), [low, high]);
            figures.push(figure(self.say.clone(), FigureUnit::Factor, published, ratio));
        }
        if let Some(known) = &self.nothing_but {
            let others = found.changes.iter();
            let others = others.filter(|change| !known.iter().any(|what| named(change, what)));
            let published = PublishedFigure::own_bound("0".to_owned(), [0.0; 2]);
            let others = Some(others.count() as f64);
            figures.push(figure(self.say.clone(), FigureUnit::Number, published, others));
        }
        if figures.is_empty() {
            let last = if self.first { 1.0 } else { f64::INFINITY };
            let published = PublishedFigure::own_bound("named".to_owned(), [1.0, last]);
            let rank = ranked.map(|(_, rank)| f64::from(rank));
            figures.push(figure(self.say.clone(), FigureUnit::Number, published, rank));
        }
        figures
    }
}

/// "95 % to 100 %"; a single value if both ends are equal.
fn range_text([low, high]: &[String; 2]) -> String {
    if low == high { low.clone() } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::stats;
    use firstbyte_passive::Failed;
    use firstbyte_passive::diff::{Cost, Figure, FullAndShort, Of, What, Within};

    use super::*;

    fn found(what: What, after: f64) -> Changes {
        let change = Change {
            pair: 0,
            what,
            of: Of::Returning,
            within: Within::default(),
            replaced: None,
            also: Vec::new(),
            before: Figure { value: 0.99, count: Some(99), of: 100 },
            after: Figure { value: after, count: None, of: 100 },
            difference: stats::Estimate { value: after - 0.99, interval: None, p_value: None },
            p_adjusted: 0.0,
            cost: Some(Cost { per_connection: 0.002, interval: None, per_second: None }),
            server_time: None,
            handshakes: Some(FullAndShort {
                full: 0.004,
                full_count: 100,
                short: 0.001,
                short_count: 100,
            }),
            round_trips: None,
            projected: Vec::new(),
        };
        Changes { changes: vec![change], tested: 1, ..Changes::default() }
    }

    #[test]
    fn the_shipped_study_is_held_against_what_is_named() {
        let plan = plan(include_str!("../../../../studies/nam.toml")).unwrap().unwrap();
        let holds = |found: &Changes| -> Vec<bool> {
            let figures = plan.figures(found).into_iter();
            figures.map(|f| matches!(f.measured, MeasuredFigure::Reproduced(_))).collect()
        };
        assert_eq!(holds(&found(What::Resumption, 0.0)), [true; 4]);
        assert_eq!(holds(&found(What::Resumption, 0.5)), [true, false, true, true]);
        assert_eq!(holds(&found(What::Failed(Failed::Refused), 0.5)), [false; 4]);
        assert_eq!(holds(&Changes::default()), [false, false, false, true]);
    }

    #[test]
    fn a_plan_is_by_capture_when_it_has_traffic() {
        assert!(plan(include_str!("../../../../studies/govuk.toml")).unwrap().is_none());
        assert!(plan("[traffic]\nurls = []\n").unwrap_err().contains("connections"));
    }
}
