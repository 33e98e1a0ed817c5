//! Turns the arguments of `compare`, `explain`, `check` and `report` into plans.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;

use super::monitor_events::moment;
use super::plan_file::PlanFile;
use super::{SAMPLE_TIMEOUT, interval, needed_by_visits, options, render, requests, target, usage};
use crate::cli::args::{CheckArgs, Command, CompareArgs, ExplainArgs, RenderArgs, ReportArgs};
use crate::cli::exit::Problem;
use crate::cli::typed::{AxisText, Typed, UrlText};
use crate::plans::{
    CheckPlan, CheckSource, ComparisonPlan, ComparisonSource, ExplainPlan, ExplanationSource,
    Outputs, RenderPlan, ReportPlan,
};
use firstbyte_probe::experiment::{ExperimentPlan, ExplanationPlan};
use firstbyte_probe::probe::Secret;

/// Rounds after which `--until` gives up, unless told otherwise.
const MAX_ROUNDS: u32 = 1_000;

pub(super) fn comparison(args: &CompareArgs, typed: &Typed) -> Result<ComparisonPlan, Problem> {
    match (&args.resume, &args.plan) {
        (Some(file), _) => continued(file, args, typed),
        (None, Some(file)) => {
            let mut words = PlanFile::read(file)?.words(args.urls.is_empty());
            words.extend(typed.words_but(&["plan"]));
            let mut plan = of_words(words, &whence(file))?;
            plan.reads.push(file.clone());
            Ok(plan)
        }
        (None, None) => begun(args, typed),
    }
}

/// Describes where the words of a plan file come from, for error messages.
pub(in crate::cli) fn whence(file: &Path) -> String {
    format!("--plan {}", file.display())
}

/// The comparison that a plan file's words describe; `whence` names the file in errors.
pub(in crate::cli) fn of_words(
    words: Vec<OsString>,
    whence: &str,
) -> Result<ComparisonPlan, Problem> {
    let words = [OsString::from("firstbyte"), OsString::from("compare")].into_iter().chain(words);
    let (cli, typed) = Typed::read(words).map_err(|error| {
        let text = error.to_string();
        // Later paragraphs are about the command line, which the user did not type.
        let what = text.trim_start_matches("error: ").split("\n\n").next().unwrap_or_default();
        usage(format!("{whence}: {}", what.trim_end()))
    })?;
    match cli.command {
        Some(Command::Compare(args)) => begun(&args, &typed),
        _ => Err(usage(format!("{whence}: not possible with `compare`"))),
    }
}

/// Plans a new comparison.
fn begun(args: &CompareArgs, typed: &Typed) -> Result<ComparisonPlan, Problem> {
    let experiment = Box::new(experiment(args)?);
    Ok(ComparisonPlan {
        what: ComparisonSource::New { experiment, run: args.run.clone() },
        command: typed.shown(),
        reads: needed_by_visits(&args.visit),
        dry_run: args.dry_run,
        render: render(&args.render),
        silent: args.silent,
    })
}

/// Plans a comparison that continues the one in `run`.
fn continued(run: &Path, args: &CompareArgs, typed: &Typed) -> Result<ComparisonPlan, Problem> {
    if let Some(other) = typed.other_than(&beside_continue()) {
        return Err(usage(format!(
            "{other}: not possible with --continue, which continues the experiment as it was \
             started"
        ))
        .hint(
            "only -n, --max-samples and outputs may be added; start another run for anything else",
        ));
    }
    Ok(ComparisonPlan {
        what: ComparisonSource::Continued {
            run: run.to_owned(),
            rounds: typed.has("samples").then_some(args.samples),
            max_rounds: args.max_samples,
        },
        command: typed.shown(),
        reads: Vec::new(),
        dry_run: args.dry_run,
        render: render(&args.render),
        silent: args.silent,
    })
}

/// Names of the arguments allowed next to `--continue`.
fn beside_continue() -> Vec<String> {
    let outputs = RenderArgs::augment_args(clap::Command::new("outputs"));
    let outputs = outputs.get_arguments().map(|argument| argument.get_id().to_string());
    let others = ["resume", "samples", "max_samples", "silent", "dry_run"].map(str::to_owned);
    outputs.chain(others).collect()
}

/// The experiment to run.
fn experiment(args: &CompareArgs) -> Result<ExperimentPlan, Problem> {
    let url = args.urls.first();
    let url = url.ok_or_else(|| usage("no URL: give one here or in the plan"))?;
    if args.visit.location {
        return Err(usage("-L: a comparison measures single connections")
            .hint("compare the URL that the redirects lead to"));
    }
    let mut options = options(&args.visit, None, Some(SAMPLE_TIMEOUT))?;
    options.requests = requests(&args.several)?;
    let rounds = match (&args.until, args.max_samples) {
        (Some(_), most) => most.unwrap_or(MAX_ROUNDS),
        (None, None) => args.samples,
        (None, Some(most)) => {
            return Err(usage("--max-samples limits --until, which is missing").hint(format!(
                "-n {most} measures {most} rounds; --until median±1% measures until the \
                     intervals are that narrow"
            )));
        }
    };
    let secrets = |texts: &[AxisText]| -> Vec<Secret<String>> {
        texts.iter().map(|text| Secret::new(text.0.clone())).collect()
    };
    let concurrent = args.concurrent.as_deref().map(|names| {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    });
    let interval = interval(args.interval.as_deref())?;
    Ok(ExperimentPlan {
        url: Secret::new(url.0.clone()),
        vary: sites(&args.urls)?.into_iter().chain(secrets(&args.vary)).collect(),
        ways: secrets(&args.variant),
        warmup: args.warmup,
        rounds,
        until: args.until.clone(),
        interval_ns: interval.map(|i| u64::try_from(i.as_nanos()).unwrap_or(u64::MAX)),
        concurrent,
        aa: args.aa,
        seed: args.seed,
        early_data_any_method: args.early_data_any_method,
        options,
    })
}

/// Several URLs form an axis. Each is named after its host, or all by number if hosts repeat or contain colons.
fn sites(urls: &[UrlText]) -> Result<Option<Secret<String>>, Problem> {
    if urls.len() < 2 {
        return Ok(None);
    }
    let hosts = urls.iter().map(|url| target(&url.0).map(|target| target.host));
    let hosts: Vec<String> = hosts.collect::<Result<_, _>>()?;
    let are_names = |hosts: &[String]| {
        let distinct: std::collections::BTreeSet<&String> = hosts.iter().collect();
        distinct.len() == hosts.len() && !hosts.iter().any(|host| host.contains(':'))
    };
    let are_hosts = are_names(&hosts);
    let mut values = Vec::new();
    for (number, (url, host)) in urls.iter().zip(hosts).enumerate() {
        if url.0.contains(',') {
            let what = "URLs that are compared cannot contain a comma";
            return Err(usage(what).hint("write the comma as %2C"));
        }
        let name = if are_hosts { host } else { format!("URL {}", number + 1) };
        values.push(format!("{name}:{}", url.0));
    }
    Ok(Some(Secret::new(format!("site={}", values.join(",")))))
}

pub(super) fn explanation(args: &ExplainArgs, typed: &Typed) -> Result<ExplainPlan, Problem> {
    let what = match &args.from {
        Some(run) => ExplanationSource::Run(run.clone()),
        None => {
            let url = args.url.as_ref().ok_or_else(|| usage("no URL"))?;
            let plan = ExplanationPlan {
                url: Secret::new(url.0.clone()),
                rounds: args.samples,
                seed: args.seed,
                options: options(&args.visit, None, Some(SAMPLE_TIMEOUT))?,
            };
            ExplanationSource::New {
                plan: Box::new(plan),
                run: args.run.clone(),
                command: typed.shown(),
                reads: needed_by_visits(&args.visit),
                silent: args.silent,
            }
        }
    };
    Ok(ExplainPlan {
        what,
        server_log: args.server_log_ms,
        capture: args.capture.clone(),
        access_log: args.server_log.clone(),
        outputs: Outputs {
            json: args.json.clone(),
            html: args.html.clone(),
            svg: args.svg.clone(),
            png: args.png.clone(),
            ..Outputs::default()
        },
        colors: args.color,
    })
}

pub(super) fn check(args: &CheckArgs) -> Result<CheckPlan, Problem> {
    let what = match (&args.from, &args.plan) {
        (Some(run), _) => CheckSource::Run(run.clone()),
        (None, Some(plan)) => CheckSource::Plan {
            plan: plan.clone(),
            samples: args.samples,
            run: args.run.clone(),
            silent: args.silent,
        },
        (None, None) => return Err(usage("nothing to check: give a plan or a run")),
    };
    Ok(CheckPlan {
        what,
        baseline: args.baseline.clone(),
        fail_if: args.fail_if.clone(),
        summary: args.summary.clone(),
    })
}

pub(super) fn report(args: &ReportArgs) -> Result<ReportPlan, Problem> {
    let render = RenderPlan { packets: args.packets.clone(), ..render(&args.render) };
    let averages = args.averages.clone();
    let (hosts, requests, paths) = (args.hosts, args.requests, args.paths);
    Ok(ReportPlan {
        files: args.files.clone(),
        averages,
        hosts,
        requests,
        paths,
        since: moment("--since", args.since.as_deref())?,
        until: moment("--until", args.until.as_deref())?,
        targets: args.target.clone(),
        render,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_counts_more_than_the_plan() {
        let text = "url = 'https://a.test/'\nvary = ['tls=1.2,1.3']\nsamples = 5\nflags = ['-k']\nconcurrent = ''\n";
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("p");
        std::fs::write(&file, text).unwrap();
        let beside = |typed: &[&str]| {
            let file = file.to_str().unwrap();
            let words = [&["firstbyte", "compare", "--plan", file], typed].concat();
            let (cli, typed) = Typed::read(words.into_iter().map(OsString::from)).unwrap();
            let Some(Command::Compare(args)) = cli.command else { panic!() };
            let plan = comparison(&args, &typed).unwrap();
            let ComparisonSource::New { experiment, .. } = plan.what else { panic!() };
            (experiment, plan.command)
        };
        let (plan, command) = beside(&["--samples", "9"]);
        assert_eq!((plan.url.reveal().as_str(), plan.rounds), ("https://a.test/", 9));
        assert!(plan.options.tls.insecure && plan.concurrent == Some(Vec::new()));
        assert_eq!(plan.vary[0].reveal(), "tls=1.2,1.3");
        assert_eq!(beside(&["b.test", "-n9"]).0.url.reveal(), "b.test");
        assert_eq!(
            command.join(" "),
            "firstbyte compare --vary tls=1.2,1.3 --concurrent --insecure https://a.test/ --samples 9"
        );
    }
}
