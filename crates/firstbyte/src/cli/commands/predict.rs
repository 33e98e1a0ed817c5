//! `firstbyte predict`: predicts how long connections would take, without a network.

mod access;
mod audience;
mod setup;

use std::io::{self, Write};
use std::time::Duration;

use firstbyte_core::run::{Cell, Metric, Metrics, Standing, Taken};
use firstbyte_core::timeline::Sample;
use firstbyte_predict::{Http, PredictError, Range, Setup, Way, derived_seed, predict_sample};

use crate::cli::exit::{self, Problem};
use crate::cli::exports::{Exporter, Exports, Lines, Sink, print};
use crate::cli::files::Files;
use crate::cli::signals::{Attention, EndSignal};
use crate::cli::terminal::{self, note};
use crate::plans::PredictionPlan;
use crate::prediction::player;
use crate::prediction::ways::{Requests, Ways};
use firstbyte_report::csv::RunCsvWriter;
use firstbyte_report::prediction::{Lossy, Predicted, table};
use firstbyte_report::{flights, ndjson, waterfall};

pub(in crate::cli) fn run(plan: &PredictionPlan) -> Result<u8, Problem> {
    let population = plan.audience.iter().map(|audience| &audience.population);
    let opened =
        Files::default().reads(plan.from.iter().chain(population)).exports(&plan.outputs).open()?;
    let code = match &plan.audience {
        Some(audience) => audience::run(plan, audience)?,
        None if !plan.access.is_empty() => access::run(plan)?,
        None => ways_of_one(plan)?,
    };
    opened.keep();
    Ok(code)
}

/// Predicts every way for a single visitor.
fn ways_of_one(plan: &PredictionPlan) -> Result<u8, Problem> {
    let (setup, requests) = setup::setup_for(plan)?;
    let ways = ways(&plan.vary, requests.as_ref())?;
    let rows = exports(plan, &ways)?;
    if !rows.is_empty() {
        let code = export(plan, &setup, &ways, rows)?;
        if code != exit::OK || plan.outputs.use_stdout() {
            return Ok(code);
        }
    }
    let mut predicted = Vec::new();
    let mut refused = None;
    for (_, way) in &ways.ways {
        match of_way(plan, &setup, way) {
            Ok(way) => predicted.push(way),
            Err(why) => {
                left_out(way, &why);
                refused = Some(why);
            }
        }
    }
    if let (true, Some(why)) = (predicted.is_empty(), refused) {
        return Err(why);
    }
    let style = terminal::style(plan.colors);
    let mut text = String::new();
    if plan.verbose {
        for way in &predicted {
            text += &format!("{}\n", way.label);
            text += &waterfall::waterfall(&way.sample, &style);
            text += &format!("\n{}\n", flights::flights(&way.sample.connection, &style));
        }
    }
    text += &table(&predicted, &style);
    print(&text)?;
    Ok(exit::OK)
}

/// The ways of `--vary`. Reports combinations that were left out.
fn ways(vary: &[String], requests: Option<&Requests>) -> Result<Ways, Problem> {
    let ways = Ways::read(vary, requests)
        .map_err(|why| Problem::new(exit::USAGE, format!("--vary {why}")))?;
    for (name, why) in &ways.left_out {
        note(&format!("left out: {name}: {why}"));
    }
    Ok(ways)
}

fn of_way(plan: &PredictionPlan, setup: &Setup, way: &Way) -> Result<Predicted, Problem> {
    let mut calm = setup.clone();
    calm.path.lose(0.0);
    let sample = sample(&calm, way, 0)?;
    let lossy = if setup.path.up.loss > 0.0 { Some(lossy(plan, setup, way)?) } else { None };
    Ok(Predicted { label: way.label(), sample, lossy })
}

/// Seed of the losses of connection `number`: each connection and each way has its own stream of random numbers.
fn seed(plan: &PredictionPlan, way: &Way, number: u32) -> u64 {
    let of_way = way.label().bytes().fold(plan.seed, |seed, byte| derived_seed(seed, byte.into()));
    derived_seed(of_way, number.into())
}

/// Simulates the requested number of connections with losses.
///
/// For a single visitor, a table of single losses is not enough: over QUIC the state machines play every connection.
fn lossy(plan: &PredictionPlan, setup: &Setup, way: &Way) -> Result<Lossy, Problem> {
    if way.http == Http::V3 || way.several.is_some() {
        return played(plan.samples, |number| {
            let mut setup = setup.clone();
            setup.path.seed = seed(plan, way, number);
            let metrics = Metrics::from_sample(&sample(&setup, way, number).ok()?);
            Some([metrics.get(Metric::Ttfb)?, metrics.get(Metric::Total)?])
        });
    }
    let (rtt, loss) = (setup.path.rtt(), setup.path.up.loss);
    let range = Range { shortest: rtt, longest: rtt, losses: Some([loss; 2]), members: 0 };
    let player = player(setup, way, &range).map_err(problem)?;
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    played(plan.samples, |number| {
        let outcome = player.play(rtt, loss, seed(plan, way, number))?;
        Some([ns(outcome.first_byte), ns(outcome.total)])
    })
}

/// Plays connections in parallel. Each yields its first-byte time and its total, if it is established.
fn played(
    connections: u32,
    play: impl Fn(u32) -> Option<[u64; 2]> + Sync,
) -> Result<Lossy, Problem> {
    let lanes = u32::try_from(threads()).unwrap_or(1);
    let lane = |lane: u32| -> Vec<Option<[u64; 2]>> {
        // A single vector for all of them would take too much memory with billions of connections.
        let mut outcomes = Vec::new();
        for number in (lane..connections).step_by(lanes as usize) {
            outcomes.push(play(number));
        }
        outcomes
    };
    let lane = &lane;
    let lanes: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|n| scope.spawn(move || lane(n))).collect();
        lanes.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let died = |_| Problem::new(exit::USAGE, "a thread died");
    let lanes = lanes.into_iter().collect::<Result<Vec<_>, _>>().map_err(died)?;
    let mut lossy = Lossy::default();
    for outcome in lanes.into_iter().flatten() {
        match outcome {
            Some([first_byte, total]) => {
                lossy.first_byte.push(first_byte);
                lossy.total.push(total);
            }
            None => lossy.failed += 1,
        }
    }
    if lossy.total.is_empty() {
        return Err(Problem::new(exit::USAGE, "no connection succeeded"));
    }
    lossy.first_byte.sort_unstable();
    lossy.total.sort_unstable();
    Ok(lossy)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn sample(setup: &Setup, way: &Way, sequence: u32) -> Result<Sample, Problem> {
    let base = firstbyte_clock::timer_now().into_std();
    let sample = predict_sample(setup, way, base).map_err(problem)?;
    Ok(Sample { sequence, ..sample })
}

fn problem(error: PredictError) -> Problem {
    Problem::new(exit::USAGE, error.to_string())
}

/// Wraps `sample` as one of cell `cell`.
fn taken(cell: u16, sample: Sample) -> Taken {
    let failed = sample.failure().is_some();
    let standing = if failed { Standing::Failed } else { Standing::Proven };
    Taken { stands_for: None, cell, standing, lateness: Duration::ZERO, sample }
}

/// Exports every connection as a sample: one per way, or the requested number if packets get lost.
///
/// A connection that fails is a sample with its failure; an impossible way is left out.
fn export(
    plan: &PredictionPlan,
    setup: &Setup,
    ways: &Ways,
    mut rows: Exports<'_, Exported>,
) -> Result<u8, Problem> {
    let attention = Attention::begin();
    let samples = if setup.path.up.loss > 0.0 { plan.samples } else { 1 };
    let (mut refused, mut exported) = (None, 0);
    'ways: for (index, (cell, way)) in (0u16..).zip(&ways.ways) {
        let cell = Cell { url: setup.exchange.url.clone(), ..cell.clone() };
        for sequence in 0..samples {
            if attention.asked().is_some() {
                break 'ways;
            }
            let mut setup = setup.clone();
            setup.path.seed = seed(plan, way, sequence);
            let sample = match sample(&setup, way, sequence) {
                Ok(sample) => sample,
                Err(why) => {
                    left_out(way, &why);
                    refused = Some(why);
                    continue 'ways;
                }
            };
            let taken = taken(index, sample);
            rows.export(&Exported { cell: cell.clone(), taken })?;
            exported += 1;
        }
    }
    if let (0, Some(why)) = (exported, refused) {
        return Err(why);
    }
    rows.finish(&())?;
    Ok(attention.asked().map_or(exit::OK, EndSignal::exit_code))
}

/// A sample, with its way as a cell.
struct Exported {
    cell: Cell,
    taken: Taken,
}

/// Opens the requested outputs for rows.
fn exports<'a>(plan: &'a PredictionPlan, ways: &Ways) -> Result<Exports<'a, Exported>, Problem> {
    let mut rows = Exports::default();
    rows.open(&plan.outputs.json, |out| {
        Ok(Lines {
            out,
            line: |row: &Exported, out: &mut dyn Write| ndjson::taken(&row.cell, &row.taken, out),
        })
    })?;
    rows.open(&plan.outputs.csv, |out| RunCsvWriter::new(out, &ways.axes))?;
    Ok(rows)
}

impl Exporter<Exported> for RunCsvWriter<Sink> {
    fn export(&mut self, row: &Exported) -> io::Result<()> {
        self.taken(&row.cell, &row.taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        // Nobody reads along: a prediction is over at once.
        Ok(())
    }

    fn finish(self: Box<Self>, (): &()) -> io::Result<()> {
        Self::finish(*self)
    }
}

fn left_out(way: &Way, why: &Problem) {
    note(&format!("left out: {}: {}", way.label(), why.message()));
}
