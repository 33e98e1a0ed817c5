//! `firstbyte predict`: what connections would take, without a network.

mod audience;
mod setup;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use firstbyte_core::run::{Cell, Metric, Metrics, Standing, Taken};
use firstbyte_core::timeline::{Connection, Sample};
use firstbyte_predict::{Http, PredictError, Range, Setup, Way, derived_seed, predict};

use crate::cli::args::PredictArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::files::{Files, cannot_write};
use crate::cli::render;
use crate::cli::signals::{Attention, EndSignal};
use crate::cli::terminal::{self, note};
use crate::prediction::player;
use crate::prediction::ways::Ways;
use firstbyte_report::csv::RunCsvWriter;
use firstbyte_report::prediction::{Lossy, Predicted, table};
use firstbyte_report::{flights, ndjson, waterfall};

pub(in crate::cli) fn run(args: &PredictArgs) -> Result<u8, Problem> {
    Files::default()
        .reads(args.from.iter().chain(&args.population))
        .writes(args.html.iter().chain(&args.json).chain(&args.csv))
        .draws(args.svg.as_ref(), "svg")
        .draws(args.png.as_ref(), "png")
        .open()?;
    if let Some(file) = &args.population {
        return audience::run(args, file);
    }
    let setup = setup::of(args)?;
    let ways = ways(&args.vary)?;
    if args.json.is_some() || args.csv.is_some() {
        let code = export(args, &setup, &ways)?;
        if code != exit::OK || uses_stdout(args) {
            return Ok(code);
        }
    }
    let mut predicted = Vec::new();
    let mut refused = None;
    for (_, way) in &ways.ways {
        match of_way(args, &setup, way) {
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
    let connection = connection(&calm, way)?;
    let lossy = if setup.path.up.loss > 0.0 { Some(lossy(args, setup, way)?) } else { None };
    Ok(Predicted { label: way.label(), connection, lossy })
}

/// What decides the losses of a way's connections, each by its number: another stream of random numbers for
/// every one, and for every way.
fn seed(args: &PredictArgs, way: &Way, number: u32) -> u64 {
    let of_way = way.label().bytes().fold(args.seed, |seed, byte| derived_seed(seed, byte.into()));
    derived_seed(of_way, number.into())
}

/// As many connections as asked for. A table of single losses is not enough where one visitor is asked for:
/// over QUIC every connection is made by the state machines.
fn lossy(args: &PredictArgs, setup: &Setup, way: &Way) -> Result<Lossy, Problem> {
    if way.http == Http::V3 {
        return played(args.samples, |number| {
            let mut setup = setup.clone();
            setup.path.seed = seed(args, way, number);
            let metrics = Metrics::of(&connection(&setup, way).ok()?);
            Some([metrics.get(Metric::Ttfb)?, metrics.get(Metric::Total)?])
        });
    }
    let (rtt, loss) = (setup.path.rtt(), setup.path.up.loss);
    let range = Range { shortest: rtt, longest: rtt, losses: Some([loss; 2]), members: 0 };
    let player = player(setup, way, &range).map_err(problem)?;
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    played(args.samples, |number| {
        let outcome = player.play(rtt, loss, seed(args, way, number))?;
        Some([ns(outcome.first_byte), ns(outcome.total)])
    })
}

/// Plays connections side by side: each by itself gives its first-byte time and its total, if it comes about.
fn played(
    connections: u32,
    play: impl Fn(u32) -> Option<[u64; 2]> + Sync,
) -> Result<Lossy, Problem> {
    let lanes = u32::try_from(threads()).unwrap_or(1);
    let lane = |lane: u32| -> Vec<Option<[u64; 2]>> {
        (lane..connections).step_by(lanes as usize).map(&play).collect()
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
        return Err(Problem::new(exit::USAGE, "no connection came about"));
    }
    lossy.first_byte.sort_unstable();
    lossy.total.sort_unstable();
    Ok(lossy)
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn connection(setup: &Setup, way: &Way) -> Result<Connection, Problem> {
    predict(setup, way, firstbyte_clock::timer_now().into_std()).map_err(problem)
}

fn problem(error: PredictError) -> Problem {
    Problem::new(exit::USAGE, error.to_string())
}

fn sample(connection: Connection, sequence: u32) -> Sample {
    let requested_url = connection.url.clone();
    Sample { sequence, requested_url, connection, ..Sample::default() }
}

/// Every connection as a sample: one for each way, or as many as asked for where packets get lost. One that did
/// not come about is a sample with its failure; a way that there is none of is left out.
fn export(args: &PredictArgs, setup: &Setup, ways: &Ways) -> Result<u8, Problem> {
    let attention = Attention::begin();
    let mut json = rows(args.json.as_deref(), Ok)?;
    let mut csv = rows(args.csv.as_deref(), |out| RunCsvWriter::new(out, &ways.axes))?;
    let samples = if setup.path.up.loss > 0.0 { args.samples } else { 1 };
    let (mut refused, mut exported) = (None, 0);
    'ways: for (index, (cell, way)) in (0u16..).zip(&ways.ways) {
        let cell = Cell { url: setup.exchange.url.clone(), ..cell.clone() };
        for sequence in 0..samples {
            if attention.asked().is_some() {
                break 'ways;
            }
            let mut setup = setup.clone();
            setup.path.seed = seed(args, way, sequence);
            let connection = match connection(&setup, way) {
                Ok(connection) => connection,
                Err(why) => {
                    left_out(way, &why);
                    refused = Some(why);
                    continue 'ways;
                }
            };
            let failed = connection.failure.is_some();
            let taken = Taken {
                cell: index,
                standing: if failed { Standing::Failed } else { Standing::Proven },
                lateness: Duration::ZERO,
                sample: sample(connection, sequence),
            };
            if let Some((path, out)) = &mut json {
                let written = ndjson::taken(&cell, &taken, out);
                written.map_err(|error| cannot_write(path, &error))?;
            }
            if let Some((path, writer)) = &mut csv {
                let written = writer.taken(&cell, &taken);
                written.map_err(|error| cannot_write(path, &error))?;
            }
            exported += 1;
        }
    }
    if let (0, Some(why)) = (exported, refused) {
        return Err(why);
    }
    if let Some((path, mut out)) = json {
        out.flush().map_err(|error| cannot_write(path, &error))?;
    }
    if let Some((path, writer)) = csv {
        writer.finish().map_err(|error| cannot_write(path, &error))?;
    }
    Ok(attention.asked().map_or(exit::OK, EndSignal::exit_code))
}

/// Whether rows take the place of the table on standard output.
fn uses_stdout(args: &PredictArgs) -> bool {
    let outputs = [&args.json, &args.csv, &args.html];
    outputs.into_iter().flatten().any(|path| path == Path::new("-"))
}

/// What writes rows to `path`, where that was asked for.
fn rows<T>(
    path: Option<&Path>,
    begin: impl FnOnce(Box<dyn Write + Send>) -> io::Result<T>,
) -> Result<Option<(&Path, T)>, Problem> {
    let Some(path) = path else { return Ok(None) };
    let begun = render::sink(path).and_then(begin);
    begun.map(|begun| Some((path, begun))).map_err(|error| cannot_write(path, &error))
}

fn left_out(way: &Way, why: &Problem) {
    note(&format!("left out: {}: {}", way.label(), why.message()));
}
