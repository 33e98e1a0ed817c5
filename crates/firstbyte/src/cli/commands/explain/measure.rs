//! Takes the samples for an explanation.
//!
//! First come visits like any client's, which follow redirects and show what the server offers. Then each round
//! connects once in every way, in random order. A way whose first connection fails is given up, so that its failure
//! is not waited for repeatedly.

use std::path::Path;
use std::time::Duration;

use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;
use firstbyte_core::timeline::Sample;

use super::{Measured, smaller_hello, ways};
use crate::cli::commands::compare::stored;
use crate::cli::exit::{self, Problem};
use crate::cli::measuring::Measuring;
use crate::cli::plan::target as target_of;
use crate::cli::progress::Progress;
use crate::cli::run_problem;
use crate::cli::signals::{self, asked_to_end};
use crate::runs::{Creation, RunWriter, run_header};
use firstbyte_core::shown_url::shown_url;
use firstbyte_probe::experiment::{
    Axis, Before, Campaign, Control, Design, ExplanationPlan, Matrix, RunPlan, Visit,
};
use firstbyte_probe::probe::options::{Client, Options};
use firstbyte_probe::probe::{Prober, Target};
use firstbyte_report::advice;

/// Number of rounds before those that count.
///
/// In the first, each way connects for the first time. The user's own way takes its samples of both rounds before all
/// others, and follows redirects.
pub(super) const WARMUP: u32 = 2;
/// Time limit for the additional ways, which are not worth waiting for as long as the user's own.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure(
    plan: &ExplanationPlan,
    run: Option<&Path>,
    command: &[String],
    silent: bool,
) -> Result<Measured, Problem> {
    let target = target_of(plan.url.reveal())?;
    // Other clients read data late, which would count as the server's time. So the explanation uses firstbyte's own
    // client, and another client is only measured next to it.
    let other_client = Some(plan.options.client).filter(|client| *client != Client::Firstbyte);
    let options = Options { client: Client::Firstbyte, ..plan.options.clone() };
    let stored_plan = stored(&RunPlan::Explain(Box::new(plan.clone())))?;
    let measuring = Measuring::new()?;
    let usage = |why: String| Problem::new(exit::USAGE, why);
    measuring.clients().check(&target, &plan.options).map_err(usage)?;
    let prober = measuring.prober(&Options { max_redirects: Some(20), ..options.clone() })?;
    let first = measuring.wait_for(async {
        tokio::select! {
            biased;
            _ = asked_to_end() => Err(interrupted()),
            samples = visits(&*prober, &target) => Ok(samples),
        }
    })?;
    let seen = &first[1].connection;
    if let Some(failure) = first[1].failure() {
        let too_large = smaller_hello::try_smaller(&measuring, &options, &target, &first[1])?;
        let advice = || advice::for_sample(&first[1]);
        return Err(too_large.unwrap_or_else(|| super::unexplained(&seen.url, failure, advice())));
    }
    let target = Target::parse(&seen.url).map_err(|error| {
        Problem::new(exit::BAD_URL, format!("{:?}: {error}", shown_url(&seen.url)))
    })?;
    let mut base = Visit { target, options: Options { max_redirects: None, ..options }.into() };
    follow(&first[1], &mut base);
    let axis = ways::ways(&base.target, &base.options, seen, other_client).map_err(usage)?;
    let matrix = matrix(&axis, &base);
    let design = Design {
        warmup: WARMUP,
        rounds: plan.rounds,
        seed: plan.seed,
        interval: Some(Duration::ZERO),
        gives_up: true,
        ..Design::default()
    };
    let campaign = Campaign { cells: &matrix.variants, design: &design, until: None };
    let header = run_header(&campaign, &[axis], command, stored_plan);
    let visitors = measuring.visitors(&campaign)?;
    let mut kept = Kept::begin(run, &header)?;
    for (round, sample) in (0..).zip(first) {
        let sample = Sample { sequence: round, warmup: true, ..sample };
        kept.take_in(campaign.judge_sample(0, Duration::ZERO, sample))?;
    }
    let cells = campaign.cells.len();
    let control = Control::default();
    let progress = Progress::new(design.samples(cells), silent);
    let is_done = |round: u32, cell: usize| round < WARMUP && (cell == 0 || round > 0);
    // The first-round sample of the user's own way, and the whole second round.
    let samples = cells as u64 + 1;
    let before = Before { done: Some(&is_done), samples, ..Before::default() };
    progress.skip(samples);
    let mut sink = |taken: Taken| {
        progress.took_as(control.taken(), &taken.sample);
        kept.take_in(taken)
    };
    let ended = measuring.conduct(&campaign, &visitors, before, &control, &mut sink);
    progress.finish();
    let interrupted = ended?.stopped;
    Ok(Measured::from_taken(header, kept.taken, interrupted))
}

/// Applies the redirects of `visit` to the request: what is meant for one origin must not be sent to another.
fn follow(visit: &Sample, base: &mut Visit) {
    let hops = visit.redirects.iter().chain([&visit.connection]);
    let urls: Vec<_> = hops.filter_map(|hop| Target::parse(&hop.url).ok()).collect();
    for (hop, ends) in visit.redirects.iter().zip(urls.windows(2)) {
        base.options.http.redirected(hop.facts.http.as_ref(), &ends[0].url, &ends[1].url);
    }
}

/// The very first visit, and a second one with cached names.
pub(super) async fn visits(prober: &dyn Prober, target: &Target) -> [Sample; 2] {
    let first = prober.probe(target).await;
    [first, prober.probe(target).await]
}

pub(super) fn interrupted() -> Problem {
    Problem::new(signals::exit_code(), "interrupted before there was anything to explain")
}

/// The ways; each is visited once per round.
fn matrix(axis: &Axis, base: &Visit) -> Matrix {
    let mut matrix = Matrix::new(std::slice::from_ref(axis), base);
    for variant in matrix.variants.iter_mut().skip(1) {
        let limit = &mut variant.visit.options.max_time;
        *limit = Some(limit.unwrap_or(PATIENCE).min(PATIENCE));
    }
    matrix
}

/// The samples, which are also written to the run file if there is one.
struct Kept<'a> {
    run: Option<(&'a Path, RunWriter)>,
    taken: Vec<Taken>,
}

impl<'a> Kept<'a> {
    fn begin(run: Option<&'a Path>, header: &RunHeader) -> Result<Self, Problem> {
        let create = |path: &'a Path| {
            RunWriter::create(path, header, Creation::New).map(|writer| (path, writer))
        };
        let run = run.map(create).transpose().map_err(run_problem)?;
        Ok(Self { run, taken: Vec::new() })
    }

    fn take_in(&mut self, taken: Taken) -> Result<(), Problem> {
        if let Some((path, writer)) = &mut self.run {
            writer.append(&taken).map_err(|error| full(path, &error))?;
        }
        self.taken.push(taken);
        Ok(())
    }
}

fn full(path: &Path, error: &std::io::Error) -> Problem {
    let why = firstbyte_probe::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
        .hint("earlier samples are in the file; --from FILE explains them")
}
