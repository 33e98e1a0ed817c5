//! `firstbyte lab study`: runs a scenario's study and compares published figures with measured ones.

use std::path::PathBuf;

use firstbyte_core::run::Cell;
use firstbyte_lab::{Lab, LabOptions, run as run_lab};
use firstbyte_report::study::StoryFigure;

use super::expect::{Expectation, StudyMeasurements};
use super::story::{print_story, sentence_problem, story_of_study};
use super::{capacity, traffic};
use crate::cli::commands::compare::{RunFile, Study, measure};
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::plan::plan_file::PlanFile;
use crate::cli::signals;
use crate::cli::terminal::note;
use crate::cli::{render, run_problem};
use crate::plans::{LabStudyPlan, RenderPlan};
use crate::runs::{Dataset, RunError};

/// The plans that ship with firstbyte, by scenario.
const PLANS: [(&str, &str); 7] = [
    ("capacity", include_str!("../../../../studies/capacity.toml")),
    ("clients", include_str!("../../../../studies/clients.toml")),
    ("codavel", include_str!("../../../../studies/codavel.toml")),
    ("curl-length", include_str!("../../../../studies/curl-length.toml")),
    ("govuk", include_str!("../../../../studies/govuk.toml")),
    ("nam", include_str!("../../../../studies/nam.toml")),
    ("pq", include_str!("../../../../studies/pq.toml")),
];

pub(super) fn run(asked: &LabStudyPlan) -> Result<u8, Problem> {
    let scenario = super::prepared(&asked.lab)?;
    let options = &asked.lab.options;
    let files = Files::default()
        .reads(&asked.plan)
        .reads(&super::file(&asked.lab.scenario))
        .keeps(&asked.run)
        .exports_of_responses(&asked.render.outputs)
        .records(options.capture.as_ref(), options.logs.as_ref());
    files.check()?;
    let (whence, source) = text_of_plan(asked, &scenario.name)?;
    let wrong = |why| Problem::new(exit::USAGE, format!("{whence}: {why}"));
    if let Some(plan) = traffic::plan(&source).map_err(wrong)? {
        return traffic::run(asked, &plan, &scenario);
    }
    if let Some(plan) = capacity::plan(&source).map_err(wrong)? {
        return capacity::run(asked, &plan, &scenario);
    }
    let plan = PlanFile::parse(&source).map_err(wrong)?.with_samples(asked.samples)?;
    let expectations = Expectation::read(&plan.expect).map_err(wrong)?;
    let names: Vec<&str> = expectations.iter().map(|expectation| &*expectation.say).collect();
    if let Some(why) = sentence_problem(plan.story.as_ref(), &names) {
        return Err(wrong(why));
    }
    let opened = files.open()?;
    let captures = Captures::for_study(options, plan.capture)?;
    let code = in_lab(&scenario, &captures.options, |lab| {
        let study = Study::new(with_issuer(&plan, lab).comparison(&whence)?)?;
        study.note_left_out();
        let (run, silent) = (RunFile::New(asked.run.clone()), asked.silent);
        let study = Study { run, silent, render: RenderPlan::default(), ..study };
        let measured = measure(&study)?;
        let data = Dataset::from_run(measured.read_run()?);
        lab.write_out_captures();
        let packets = captures.of_client();
        let left_out = &study.experiment.matrix.left_out;
        let figures = judge(&expectations, &data, left_out).map_err(run_problem)?;
        let story = story_of_study(&scenario.name, plan.story.as_ref(), "published", figures);
        let told = (!measured.interrupted).then_some(&story);
        render::show_study(&data, &RenderPlan { packets, ..asked.render.clone() }, told)?;
        if measured.interrupted {
            note("interrupted: only complete samples are shown");
            return Ok(signals::exit_code());
        }
        print_story(&story, &asked.render)?;
        Ok(if story.is_reproduced() { measured.code() } else { exit::CONDITION_MET })
    })?;
    opened.keep();
    Ok(code)
}

/// Refuses a run file and reports for a study that produces neither. `reader` is the command that reads its capture.
pub(super) fn makes_a_capture_alone(
    asked: &LabStudyPlan,
    name: &str,
    reader: &str,
) -> Result<(), Problem> {
    if asked.run.is_none() && asked.render.outputs.are_none() {
        return Ok(());
    }
    let what = format!("the study of {name} makes a capture, and no run file or report");
    let hint = format!("keep the capture with --capture DIR, and read it with: {reader}");
    Err(Problem::new(exit::USAGE, what).hint(hint))
}

/// A study's captures, in the directory the user named, or in a temporary one if only the study needs them.
pub(super) struct Captures {
    pub(super) options: LabOptions,
    _temporary: Option<TemporaryDirectory>,
}

impl Captures {
    pub(super) fn for_study(asked: &LabOptions, needed: bool) -> Result<Self, Problem> {
        let mut options = asked.clone();
        let temporary = match options.capture {
            None if needed => Some(TemporaryDirectory::new()?),
            _ => None,
        };
        if let Some(temporary) = &temporary {
            options.capture = Some(temporary.0.clone());
        }
        Ok(Self { options, _temporary: temporary })
    }

    /// The client's capture.
    pub(super) fn of_client(&self) -> Option<PathBuf> {
        self.options.capture.as_ref().map(|directory| directory.join("client.pcapng"))
    }
}

/// A directory that is removed on drop.
struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    fn new() -> Result<Self, Problem> {
        let name = format!("firstbyte-study-{}-{:x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)
            .map_err(|error| Problem::new(exit::WRITE, format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Anything that cannot be removed stays in the system's directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a lab and runs `work` on its client.
pub(in crate::cli) fn in_lab(
    scenario: &firstbyte_lab::Scenario,
    options: &LabOptions,
    work: impl FnOnce(&Lab) -> Result<u8, Problem>,
) -> Result<u8, Problem> {
    let code = run_lab(scenario, options, |lab| {
        super::introduce(lab);
        let code = work(lab).unwrap_or_else(|problem| {
            note(&problem.to_string());
            problem.code()
        });
        super::take_leave(lab);
        i32::from(code)
    });
    code.map(super::exit_code).map_err(super::problem)
}

/// A copy of the plan that trusts the lab's own issuer.
pub(in crate::cli) fn with_issuer(plan: &PlanFile, lab: &Lab) -> PlanFile {
    let mut plan = plan.clone();
    let issuer = lab.environment().iter().find(|(name, _)| name == "SSL_CERT_FILE");
    if let Some((_, path)) = issuer {
        plan.flags.extend(["--cacert".to_owned(), path.clone()]);
    }
    plan
}

/// Where the plan comes from, and its text.
fn text_of_plan(asked: &LabStudyPlan, scenario: &str) -> Result<(String, String), Problem> {
    if let Some(path) = &asked.plan {
        return Ok((format!("--plan {}", path.display()), PlanFile::text(path)?));
    }
    let shipped = PLANS.iter().find(|(name, _)| *name == scenario);
    let (_, text) = shipped.ok_or_else(|| {
        let names: Vec<&str> = PLANS.iter().map(|(name, _)| *name).collect();
        Problem::new(exit::USAGE, format!("there is no study of {scenario}"))
            .hint(format!("there is one of {}; or give --plan FILE", names.join(", ")))
    })?;
    Ok((format!("the plan of {scenario}"), (*text).to_owned()))
}

fn judge(
    expectations: &[Expectation],
    data: &Dataset,
    left_out: &[(Cell, String)],
) -> Result<Vec<StoryFigure>, RunError> {
    let measured = StudyMeasurements::from_dataset(data, left_out, expectations)?;
    Ok(expectations.iter().flat_map(|expectation| expectation.judge(&measured)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::plan::plan_file::StoryPlan;

    /// Shipped studies can be read, and their sentences refer to existing figures.
    #[test]
    fn shipped_plans_tell_their_stories() {
        for (name, text) in PLANS {
            if traffic::plan(text).unwrap().is_some() || capacity::plan(text).unwrap().is_some() {
                continue;
            }
            let plan = PlanFile::parse(text).unwrap();
            let expectations = Expectation::read(&plan.expect).unwrap();
            let names: Vec<&str> = expectations.iter().map(|e| &*e.say).collect();
            assert_eq!(sentence_problem(plan.story.as_ref(), &names), None, "{name}");
            assert!(plan.story.is_some() || names.is_empty(), "{name} has no story");
        }
    }

    #[test]
    fn a_sentence_rests_on_figures_of_its_plan() {
        let story = |sentence: &str| StoryPlan { source: String::new(), sentence: sentence.into() };
        assert_eq!(sentence_problem(Some(&story("It took {page}.")), &["page"]), None);
        let why = sentence_problem(Some(&story("It took {pge}.")), &["page", "image"]).unwrap();
        assert!(why.contains("\"pge\"") && why.contains("page; image"), "{why}");
    }
}
