//! Takes the samples that an explanation rests on.
//!
//! First a visit like any client's, which also follows redirects and shows what the server offers.
//! Then rounds, each of which connects in every way once, in random order. A way whose first
//! connection fails is given up: what it costs to fail is not paid again and again.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::run::{Standing, Taken};
use firstbyte_core::timeline::Sample;

use super::{Measured, ways};
use crate::cli::args::ExplainArgs;
use crate::cli::commands::compare::{named, typed};
use crate::cli::commands::probe::{interrupt, setup_problem};
use crate::cli::exit::{self, Problem};
use crate::cli::progress::Progress;
use crate::cli::{plan, run_problem, terminal};
use crate::clock::Realtime;
use crate::experiment::{Axis, Design, Lanes, Matrix, Visit, Visited, Visitor};
use crate::probe::options::Options;
use crate::probe::{NetProber, Prober, Target};
use crate::runs::{Creation, RunWriter, environment};

/// Rounds before those that count. In the first, each way connects for the first time; the user's
/// own way does so in both, before all others, and follows redirects.
pub(super) const WARMUP: u32 = 2;
/// A way that is only tried is not waited for as long as the user's own.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn measure(args: &ExplainArgs) -> Result<Measured, Problem> {
    let url = args.url.as_deref().unwrap_or_default();
    let command = typed(std::env::args_os())?;
    let options = plan::options(&args.visit, None, Some(plan::SAMPLE_TIMEOUT))?;
    let target = plan::target(url)?;
    let runtime = terminal::runtime()?;
    let local = tokio::task::LocalSet::new();
    let first = local.block_on(&runtime, async {
        let options = Options { max_redirects: Some(20), ..options.clone() };
        let prober = NetProber::new(options).map_err(setup_problem)?;
        tokio::select! {
            biased;
            () = interrupt() => Err(interrupted()),
            samples = visits(&prober, &target) => Ok(samples),
        }
    })?;
    let seen = &first[1].connection;
    if let Some(failure) = first[1].failure() {
        return Err(super::unexplained(&seen.url, failure));
    }
    let target = Target::parse(&seen.url)
        .map_err(|error| Problem::new(exit::BAD_URL, format!("{:?}: {error}", seen.url)))?;
    let mut base = Visit { target, options: Options { max_redirects: None, ..options } };
    follow(&first[1], &mut base);
    let axis = ways::ways(&base.target, &base.options, seen)
        .map_err(|why| Problem::new(exit::USAGE, why))?;
    let experiment = Experiment::new(args, &axis, &base, command)?;
    let (taken, interrupted) = experiment.run(args, &first, &runtime, &local)?;
    Ok(Measured::of(experiment.header, taken, interrupted))
}

/// Asks as the last request of `visit` did: what was meant for one origin is not sent to another.
fn follow(visit: &Sample, base: &mut Visit) {
    let hops = visit.redirects.iter().chain([&visit.connection]);
    let urls: Vec<_> = hops.filter_map(|hop| Target::parse(&hop.url).ok()).collect();
    for (hop, ends) in visit.redirects.iter().zip(urls.windows(2)) {
        base.options.http.redirected(hop.facts.http.as_ref(), &ends[0].url, &ends[1].url);
    }
}

/// The very first visit, and one after it, when names are in caches.
async fn visits(prober: &NetProber, target: &Target) -> [Sample; 2] {
    let first = prober.probe(target).await;
    [first, prober.probe(target).await]
}

fn interrupted() -> Problem {
    Problem::new(exit::INTERRUPTED, "interrupted before there was anything to explain")
}

/// The ways, and how they are visited.
struct Experiment {
    matrix: Matrix,
    design: Design,
    header: RunHeader,
}

impl Experiment {
    fn new(
        args: &ExplainArgs,
        axis: &Axis,
        base: &Visit,
        command: Vec<String>,
    ) -> Result<Self, Problem> {
        let mut matrix = Matrix::new(std::slice::from_ref(axis), base);
        for variant in matrix.variants.iter_mut().skip(1) {
            let limit = &mut variant.visit.options.max_time;
            *limit = Some(limit.unwrap_or(PATIENCE).min(PATIENCE));
        }
        let design = Design {
            warmup: WARMUP,
            rounds: args.samples,
            seed: args.seed,
            interval: Some(Duration::ZERO),
            lanes: Lanes::One,
        };
        let header = RunHeader {
            format: RUN_FORMAT.into(),
            version: RUN_VERSION,
            created_unix_ns: Realtime::now().unix_nanos(),
            firstbyte_version: env!("CARGO_PKG_VERSION").into(),
            command: named(command),
            plan: serde_json::Value::Null,
            design: DesignRecord {
                warmup: design.warmup,
                rounds: Some(design.rounds),
                until: None,
                seed: design.seed,
                concurrent: 1,
                interval_ns: Some(0),
            },
            axes: vec![AxisRecord {
                name: axis.name.to_owned(),
                values: axis.values.iter().map(|value| value.written.clone()).collect(),
            }],
            cells: matrix.variants.iter().map(|v| CellRecord::of(&v.cell)).collect(),
            environment: environment::gather(),
        };
        Ok(Self { matrix, design, header })
    }

    /// Takes the samples; says whether it was interrupted.
    fn run(
        &self,
        args: &ExplainArgs,
        first: &[Sample; 2],
        runtime: &tokio::runtime::Runtime,
        local: &tokio::task::LocalSet,
    ) -> Result<(Vec<Taken>, bool), Problem> {
        let variants = &self.matrix.variants;
        let visitors: Vec<Visitor<NetProber>> = runtime.block_on(async {
            let visitor = |variant: &crate::experiment::Variant| {
                let prober = variant.prober().map_err(setup_problem)?;
                Ok(Rc::new((prober, variant.visit.target.clone())))
            };
            variants.iter().map(visitor).collect::<Result<_, Problem>>()
        })?;
        let writer = match &args.run {
            Some(path) => {
                Some(RunWriter::create(path, &self.header, Creation::New).map_err(run_problem)?)
            }
            None => None,
        };
        let writer = RefCell::new(writer);
        let taken = RefCell::new(Vec::new());
        let given_up = RefCell::new(vec![false; variants.len()]);
        let progress = Progress::new(self.design.samples(variants.len()), args.silent);
        let keep = |cell: usize, lateness: Duration, sample: Sample| {
            progress.took(&sample);
            let standing = variants[cell].standing(&sample.connection);
            if sample.warmup && standing == Standing::Failed && cell > 0 {
                given_up.borrow_mut()[cell] = true;
            }
            let cell = u16::try_from(cell).unwrap_or(u16::MAX);
            let sample = Taken { cell, standing, lateness, sample };
            if let Some(writer) = writer.borrow_mut().as_mut() {
                writer.append(&sample).map_err(|error| full(args, &error))?;
            }
            taken.borrow_mut().push(sample);
            Ok(())
        };
        for (round, sample) in (0..).zip(first) {
            let sample = Sample { sequence: round, warmup: true, ..sample.clone() };
            keep(0, Duration::ZERO, sample)?;
        }
        let done = |round: u32, cell: usize| {
            let first = round < WARMUP && (cell == 0 || round > 0);
            let skip = first || given_up.borrow()[cell];
            if skip && round > 0 && cell > 0 {
                progress.skip_one();
            }
            skip
        };
        let took = |visited: Visited| keep(visited.cell, visited.lateness, visited.sample);
        let finished = self.design.run(&visitors, done, |_| true, took);
        let interrupted = local.block_on(runtime, async {
            tokio::select! {
                biased;
                () = interrupt() => Ok(true),
                result = finished => result.map(|()| false),
            }
        });
        progress.finish();
        Ok((taken.into_inner(), interrupted?))
    }
}

fn full(args: &ExplainArgs, error: &std::io::Error) -> Problem {
    let path = args.run.as_deref().map_or_else(String::new, |path| path.display().to_string());
    let why = crate::probe::describe_io(error);
    Problem::new(exit::WRITE, format!("cannot write {path}: {why}"))
        .hint("what was measured before is in the file; --from FILE explains it")
}
