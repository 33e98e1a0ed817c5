//! `firstbyte predict`: what connections would take, without a network.

mod audience;
mod setup;

use std::io::{self, Write};

use firstbyte_core::predict::{Http, PredictError, Setup, Way, predict};
use firstbyte_core::run::{Cell, Metric, Metrics, Standing, Taken};
use firstbyte_core::timeline::{Connection, Sample};

use crate::cli::args::PredictArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::terminal::{self, note};
use crate::clock;
use crate::prediction::audience::Audience;
use crate::prediction::ways::Ways;
use crate::report::csv::RunCsvWriter;
use crate::report::prediction::{Predicted, table};
use crate::report::{flights, ndjson, waterfall};

pub(in crate::cli) fn run(args: &PredictArgs) -> Result<u8, Problem> {
    Files::default()
        .reads(args.from.iter().chain(&args.population))
        .writes(&args.html)
        .draws(args.svg.as_ref(), "svg")
        .draws(args.png.as_ref(), "png")
        .open()?;
    if let Some(file) = &args.population {
        return audience::run(args, file);
    }
    let setup = setup::of(args)?;
    let ways = ways(&args.vary)?;
    if args.json || args.csv {
        export(args, &setup, &ways)?;
        return Ok(exit::OK);
    }
    let mut predicted = Vec::new();
    let mut refused = None;
    for (_, way) in &ways.ways {
        match of_way(args, &setup, way) {
            Ok(way) => predicted.push(way),
            Err(why) => {
                note(&format!("left out: {}: {}", way.label(), why.message()));
                refused = Some(why);
            }
        }
    }
    if let (true, Some(why)) = (predicted.is_empty(), refused) {
        return Err(why);
    }
    let style = terminal::style(args.color);
    let mut text = String::new();
    if args.verbose {
        for way in &predicted {
            let connection = way.connection.clone();
            text += &format!("{}\n", way.label);
            text += &waterfall::waterfall(&sample(connection, 0), &style);
            text += &format!("\n{}\n", flights::flights(&way.connection, &style));
        }
    }
    text += &table(&predicted, &style);
    io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Problem::output(&e))?;
    Ok(exit::OK)
}

/// The ways of `--vary`; says what was left out.
fn ways(vary: &[String]) -> Result<Ways, Problem> {
    let ways =
        Ways::read(vary).map_err(|why| Problem::new(exit::USAGE, format!("--vary {why}")))?;
    for (name, why) in &ways.left_out {
        note(&format!("left out: {name}: {why}"));
    }
    Ok(ways)
}

fn of_way(args: &PredictArgs, setup: &Setup, way: &Way) -> Result<Predicted, Problem> {
    let mut calm = setup.clone();
    calm.path.lose(0.0);
    let lossy = match (setup.path.up.loss > 0.0, way.http) {
        (false, _) => None,
        // A table of single losses is not enough where one visitor is asked for.
        (true, Http::V3) => Some(by_state_machines(args, setup, way)?),
        (true, _) => Some(by_packets(args, setup, way)?),
    };
    Ok(Predicted { label: way.label(), connection: connection(&calm, way)?, lossy })
}

/// First-byte times and totals, sorted, of as many connections as asked for.
type Times = [Vec<u64>; 2];

fn by_packets(args: &PredictArgs, setup: &Setup, way: &Way) -> Result<Times, Problem> {
    let visitors = format!("rtt_ms\n{}\n", setup.path.rtt().as_secs_f64() * 1e3);
    let audience = Audience::read(visitors.as_bytes(), setup.path.up.loss);
    let audience = audience.map_err(|why| Problem::new(exit::USAGE, why))?;
    let player = audience::player(setup, way, &audience.range())?;
    let played = audience.play([&player, &player], args.samples, args.seed, threads());
    let ([first_byte, _], [total, _]) = (played.first_byte, played.total);
    Ok([first_byte, total])
}

/// Every connection by itself. Those that do not come about have no times.
fn by_state_machines(args: &PredictArgs, setup: &Setup, way: &Way) -> Result<Times, Problem> {
    let lanes = u32::try_from(threads()).unwrap_or(1);
    let lane = |lane: u32| {
        let seeds = (lane..args.samples).step_by(lanes as usize);
        let metrics = seeds.filter_map(|number| {
            let mut setup = setup.clone();
            setup.path.seed = args.seed.wrapping_add(u64::from(number));
            let metrics = Metrics::of(&connection(&setup, way).ok()?);
            Some([metrics.get(Metric::Ttfb)?, metrics.get(Metric::Total)?])
        });
        metrics.collect::<Vec<[u64; 2]>>()
    };
    let played: Vec<[u64; 2]> = std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|n| scope.spawn(move || lane(n))).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap_or_default()).collect()
    });
    if played.is_empty() {
        return Err(Problem::new(exit::USAGE, "no connection came about"));
    }
    Ok([0, 1].map(|which| {
        let mut times: Vec<u64> = played.iter().map(|times| times[which]).collect();
        times.sort_unstable();
        times
    }))
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn connection(setup: &Setup, way: &Way) -> Result<Connection, Problem> {
    predict(setup, way, clock::timer_now().into_std()).map_err(problem)
}

fn problem(error: PredictError) -> Problem {
    Problem::new(exit::USAGE, error.to_string())
}

fn sample(connection: Connection, sequence: u32) -> Sample {
    let requested_url = connection.url.clone();
    Sample { sequence, requested_url, connection, ..Sample::default() }
}

/// Every connection as a sample: one for each way, or as many as asked for where packets get lost.
fn export(args: &PredictArgs, setup: &Setup, ways: &Ways) -> Result<(), Problem> {
    let mut csv = match args.csv {
        true => {
            let writer = RunCsvWriter::new(io::stdout().lock(), &ways.axes);
            Some(writer.map_err(|e| Problem::output(&e))?)
        }
        false => None,
    };
    let samples = if setup.path.up.loss > 0.0 { args.samples } else { 1 };
    for (index, (cell, way)) in (0u16..).zip(&ways.ways) {
        let cell = Cell { url: setup.exchange.url.clone(), ..cell.clone() };
        for sequence in 0..samples {
            let mut setup = setup.clone();
            setup.path.seed = args.seed.wrapping_add(u64::from(sequence));
            let taken = Taken {
                cell: index,
                standing: Standing::Proven,
                lateness: std::time::Duration::ZERO,
                sample: sample(connection(&setup, way)?, sequence),
            };
            let written = match &mut csv {
                Some(csv) => csv.taken(&cell, &taken),
                None => ndjson::taken(&cell, &taken, &mut io::stdout().lock()),
            };
            written.map_err(|e| Problem::output(&e))?;
        }
    }
    csv.map_or(Ok(()), RunCsvWriter::finish).map_err(|e| Problem::output(&e))
}
