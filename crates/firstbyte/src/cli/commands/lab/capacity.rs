//! A study by load, which finds the load above which throughput no longer rises.
//!
//! Few and many clients at once connect to one server, with full handshakes and with resumed ones. The capture's
//! estimate is compared with the result.
//!
//! In: a plan with `[load]`. Out: connections per second, the server's processor time per connection, and next to
//! them the estimate of `wire --capacity`. The fields are described in `docs/plans.md`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use firstbyte_core::toml_errors::describe_toml_error;
use firstbyte_core::units::{BareShare, parse_share};
use firstbyte_lab::load::{Load, LoadReport, LoadTarget};
use firstbyte_lab::{Lab, Scenario};
use firstbyte_passive::capacity::{Capacities, ServerCapacity};
use firstbyte_report::capacity_study::{self, Step, Steps};
use firstbyte_report::study::{Estimate, FigureUnit, MeasuredFigure, PublishedFigure, StoryFigure};
use serde::Deserialize;

use super::story::{print_story, sentence_problem, story_of_study};
use super::study::{Captures, in_lab, makes_a_capture_alone};
use crate::cli::commands::wire::connections;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::plan::plan_file::StoryPlan;
use crate::cli::signals::Attention;
use crate::cli::terminal::{self, note};
use crate::plans::LabStudyPlan;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CapacityPlan {
    load: LoadSettings,
    story: Option<StoryPlan>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadSettings {
    host: String,
    /// Concurrent connections of each step.
    clients: Vec<usize>,
    /// How often all steps are repeated, so that other activity on the machine affects all of them alike.
    rounds: u32,
    /// Longest duration of a step within a round, in seconds.
    seconds: f64,
    /// Most connections of a step within a round.
    connections: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    say: String,
    /// How close the capture's estimates must be.
    within: String,
}

/// Upper limit for concurrent clients.
const MOST_CLIENTS: usize = 256;
/// Upper limit for the seconds of load.
const LONGEST: f64 = 600.0;

/// The plan in `text`, if it is a study by load.
pub(super) fn plan(text: &str) -> Result<Option<CapacityPlan>, String> {
    let described =
        |error: toml::de::Error| describe_toml_error(text, error.message(), error.span());
    let table: toml::Table = toml::from_str(text).map_err(described)?;
    if !table.contains_key("load") {
        return Ok(None);
    }
    let plan: CapacityPlan = toml::from_str(text).map_err(described)?;
    let load = &plan.load;
    if load.clients.is_empty() || load.clients.iter().any(|n| !(1..=MOST_CLIENTS).contains(n)) {
        return Err(format!("clients: expected one or more steps, each from 1 to {MOST_CLIENTS}"));
    }
    if load.seconds.is_nan() || load.seconds <= 0.0 || load.connections == 0 {
        return Err("seconds and connections: expected more than 0".to_owned());
    }
    load.check_length(load.rounds)?;
    for expectation in &plan.expect {
        share(&expectation.within)?;
    }
    let steps = [false, true].map(|resumed| Steps { resumed, steps: Vec::new() });
    let figures = plan.figures(&steps, None);
    let names: Vec<&str> = figures.iter().map(|figure| &*figure.name).collect();
    match sentence_problem(plan.story.as_ref(), &names) {
        Some(why) => Err(why),
        None => Ok(Some(plan)),
    }
}

impl LoadSettings {
    fn check_length(&self, rounds: u32) -> Result<(), String> {
        let seconds = self.seconds * f64::from(rounds) * self.clients.len() as f64 * 2.0;
        match rounds > 0 && seconds <= LONGEST {
            true => Ok(()),
            false => Err(format!(
                "{rounds} rounds of {seconds:.0} s in total: expected at least 1 round and at most \
                 {LONGEST} s"
            )),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    parse_share(text, BareShare::Refused)
        .map_err(|error| format!("`{text}`: {error}; {}", error.advice()))
}

/// Runs the study in a lab and reports the result.
pub(super) fn run(
    asked: &LabStudyPlan,
    plan: &CapacityPlan,
    scenario: &Scenario,
) -> Result<u8, Problem> {
    makes_a_capture_alone(asked, &scenario.name, "firstbyte wire --capacity")?;
    let rounds = asked.samples.unwrap_or(plan.load.rounds);
    plan.load.check_length(rounds).map_err(|why| Problem::new(exit::USAGE, why))?;
    let captures = Captures::for_study(&asked.lab.options, true)?;
    in_lab(scenario, &captures.options, |lab| {
        let attention = Attention::begin();
        let target = target(&plan.load, lab)?;
        let steps = drive(&plan.load, rounds, &target, lab, &attention)?;
        lab.write_out_captures();
        if let Some(signal) = attention.asked() {
            note("interrupted: an incomplete load gives no result");
            return Ok(signal.exit_code());
        }
        let seen = seen(&captures.of_client().unwrap_or_default(), target.address)?;
        judge(asked, plan, &scenario.name, &steps, seen.as_ref())
    })
}

fn target(load: &LoadSettings, lab: &Lab) -> Result<LoadTarget, Problem> {
    let host = lab.scenario().hosts.iter().find(|host| host.name == load.host);
    let found = host.and_then(|host| Some((host.addresses().next()?, host.names.first()?)));
    let (address, name) = found.ok_or_else(|| {
        Problem::new(exit::USAGE, format!("the lab has no server on a host {}", load.host))
    })?;
    Ok(LoadTarget {
        address: SocketAddr::new(address, 443),
        name: name.clone(),
        root_pem: lab.ca_pem().to_owned(),
    })
}

/// Runs all steps, round by round, with full handshakes and with resumed ones.
fn drive(
    load: &LoadSettings,
    rounds: u32,
    target: &LoadTarget,
    lab: &Lab,
    attention: &Attention,
) -> Result<[Steps; 2], Problem> {
    let prepared = |resumed| -> Result<Vec<Load>, Problem> {
        let ready = load.clients.iter().map(|clients| Load::prepare(target, *clients, resumed));
        ready.collect::<Result<_, _>>().map_err(|error| {
            let message = format!("the server of {} cannot be loaded: {error}", target.name);
            Problem::new(exit::LAB, message)
        })
    };
    let loads = [prepared(false)?, prepared(true)?];
    let time = Duration::from_secs_f64(load.seconds);
    let mut steps = [false, true].map(|resumed| Steps {
        resumed,
        steps: load.clients.iter().map(|clients| Step::new(*clients)).collect(),
    });
    for _ in 0..rounds {
        for (steps, loads) in steps.iter_mut().zip(&loads) {
            for (step, ready) in steps.steps.iter_mut().zip(loads) {
                if attention.asked().is_some() {
                    break;
                }
                let before = taken(load, lab);
                let LoadReport { full, resumed, failed, elapsed } =
                    ready.run(load.connections, time);
                let processor = taken(load, lab).zip(before).map(|(after, before)| after - before);
                step.add([full, resumed, failed], elapsed, processor);
            }
        }
    }
    Ok(steps)
}

/// Processor time that the server has used so far.
fn taken(load: &LoadSettings, lab: &Lab) -> Option<Duration> {
    lab.server_times().into_iter().find(|server| server.host == load.host).map(|s| s.taken.sum())
}

/// The estimate of the server's capacity from the client's capture.
fn seen(capture: &Path, server: SocketAddr) -> Result<Option<ServerCapacity>, Problem> {
    let mut capacities = Capacities::default();
    connections(capture, |observed| capacities.add(observed))?;
    let of_server = |seen: &ServerCapacity| seen.server.socket_addr() == server;
    Ok(capacities.summaries().into_iter().find(of_server))
}

/// Reports what the load and the capture show, and whether that matches the expectations.
fn judge(
    asked: &LabStudyPlan,
    plan: &CapacityPlan,
    name: &str,
    steps: &[Steps; 2],
    seen: Option<&ServerCapacity>,
) -> Result<u8, Problem> {
    let style = terminal::style(asked.render.colors);
    print(&style.plain(&capacity_study::text(steps, seen, &style)))?;
    let story = story_of_study(name, plan.story.as_ref(), "by load", plan.figures(steps, seen));
    print_story(&story, &asked.render)?;
    Ok(if story.is_reproduced() { exit::OK } else { exit::CONDITION_MET })
}

impl CapacityPlan {
    /// The server's sustained rates, full and resumed, by load and by capture.
    fn figures(&self, steps: &[Steps; 2], seen: Option<&ServerCapacity>) -> Vec<StoryFigure> {
        let of = |expectation: &Expectation, steps: &Steps| {
            let sustained = steps.sustained().unwrap_or_default();
            let estimate = seen.and_then(|seen| seen.sustained(steps.resumed));
            let estimate =
                estimate.map(|(value, interval)| Estimate { value, interval: Some(interval) });
            let near = share(&expectation.within).unwrap_or_default();
            let is_near = |_| steps.error(seen).is_some_and(|error| error.abs() <= near);
            StoryFigure {
                name: format!("{}, {}", expectation.say, steps.name()),
                variant: String::new(),
                unit: FigureUnit::Rate,
                published: PublishedFigure {
                    text: format!("{sustained:.0} a second"),
                    low: sustained,
                    high: sustained,
                    is_own_bound: false,
                },
                measured: MeasuredFigure::judge(estimate, is_near),
            }
        };
        let expected = self.expect.iter();
        expected.flat_map(|expected| steps.iter().map(|steps| of(expected, steps))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_by_load_when_it_has_one() {
        let shipped = include_str!("../../../../studies/capacity.toml");
        assert!(plan(shipped).unwrap().is_some());
        assert!(plan(include_str!("../../../../studies/nam.toml")).unwrap().is_none());
        let with = |from: &str, to: &str| plan(&shipped.replace(from, to)).unwrap_err();
        assert!(with("seconds = 0.5", "seconds = 50").contains("at most 600 s"));
        assert!(with("seconds = 0.5", "seconds = nan").contains("expected more than 0"));
        assert!(with("[1, 2, 4, 8, 16]", "[1, 1000]").contains("1 to 256"));
        assert!(with("15 %", "15").contains("`15`"));
    }

    /// A missing estimate is not close to anything.
    #[test]
    fn what_the_capture_does_not_say_is_not_as_expected() {
        let plan = plan(include_str!("../../../../studies/capacity.toml")).unwrap().unwrap();
        let mut step = Step::new(4);
        step.add([100, 0, 0], Duration::from_secs(1), None);
        let steps = [false, true].map(|resumed| Steps { resumed, steps: vec![step] });
        let figures = plan.figures(&steps, None);
        assert_eq!(figures.len(), 2);
        assert!(figures.iter().all(|figure| figure.measured == MeasuredFigure::Missed(None)));
    }
}
