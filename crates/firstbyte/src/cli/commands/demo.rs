//! `firstbyte demo`: TLS 1.2 against TLS 1.3 to three edges over both families, on this machine.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use firstbyte_core::split::{Split, total};
use firstbyte_core::timeline::Sample;
use firstbyte_lab::scenario::Host;
use firstbyte_lab::{Lab, LabOptions, ServerChoice, run as run_lab};

use super::lab;
use super::probe::setup_problem;
use crate::cli::args::{ColorChoice, DemoArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::progress::Progress;
use crate::cli::terminal::{self, note};
use crate::experiment::{Design, Visitor};
use crate::probe::options::{Family, Options, TlsVersion};
use crate::probe::{NetProber, Target};
use crate::report::chart::{self, Bar};
use crate::report::comparison::{self, Comparison};
use crate::report::csv::CsvWriter;

const CSV: &str = "firstbyte-demo.csv";
const SVG: &str = "firstbyte-demo.svg";

pub(in crate::cli) fn run(args: &DemoArgs) -> Result<u8, Problem> {
    let scenario = lab::load("govuk")?;
    // Outputs are opened before anything is measured.
    let outputs = Outputs::open(&args.output)?;
    let server = if args.builtin { ServerChoice::Builtin } else { ServerChoice::Auto };
    let options = LabOptions { capture: None, seed: Some(args.seed), server };
    let code = run_lab(&scenario, &options, |lab| {
        lab::introduce(lab);
        match demonstrate(args, lab, outputs) {
            Ok(code) => i32::from(code),
            Err(problem) => {
                note(&problem.to_string());
                i32::from(problem.code())
            }
        }
    });
    code.map(|code| u8::try_from(code).unwrap_or(exit::LAB)).map_err(lab::problem)
}

/// Where the results go.
struct Outputs {
    csv: (PathBuf, File),
    svg: (PathBuf, File),
}

impl Outputs {
    fn open(directory: &Path) -> Result<Self, Problem> {
        let failed = |path: &Path, e: &io::Error| {
            let why = crate::probe::describe_io(e);
            Problem::new(exit::WRITE, format!("cannot write {}: {why}", path.display()))
        };
        fs::create_dir_all(directory).map_err(|e| failed(directory, &e))?;
        let create = |name: &str| {
            let path = directory.join(name);
            let file = File::create(&path).map_err(|e| failed(&path, &e))?;
            Ok((path, file))
        };
        Ok(Self { csv: create(CSV)?, svg: create(SVG)? })
    }
}

/// A way to connect: one edge, one family, one TLS version.
struct Cell {
    edge: String,
    family: Family,
    tls: TlsVersion,
    visitor: Visitor<NetProber>,
}

const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

fn demonstrate(args: &DemoArgs, lab: &Lab, mut outputs: Outputs) -> Result<u8, Problem> {
    let design = Design {
        warmup: 1,
        rounds: args.rounds,
        seed: args.seed,
        interval: None,
        lanes: crate::experiment::Lanes::One,
    };
    let runtime = terminal::runtime()?;
    let cells = runtime.block_on(async { cells(lab) })?;
    note(&format!(
        "{} ways to connect, in random order; rounds that count: {}, after one to warm up",
        cells.len(),
        args.rounds
    ));
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); cells.len()];
    let progress = Progress::new(design.samples(cells.len()), false);
    let interrupted = take(&design, &cells, &runtime, &mut outputs, |cell, sample| {
        progress.took(&sample);
        samples[cell].push(sample);
    })?;
    progress.finish();

    let style = terminal::style(ColorChoice::Auto);
    let names: Vec<String> = pairs(&cells).map(|(cell, _)| cells[cell].path()).collect();
    let paths = pairs(&cells).zip(&names).map(|((base, variant), name)| comparison::Path {
        name,
        base: &samples[base],
        variant: &samples[variant],
    });
    let comparison = Comparison { base: "TLS 1.2", variant: "TLS 1.3", paths: paths.collect() };
    let mut out = io::stdout().lock();
    let svg = draw(&cells, &samples);
    let shown = out
        .write_all(comparison.text(&style).as_bytes())
        .and_then(|()| outputs.svg.1.write_all(svg.as_bytes()))
        .and_then(|()| writeln!(out, "samples: {}", outputs.csv.0.display()))
        .and_then(|()| writeln!(out, "chart:   {}", outputs.svg.0.display()))
        .and_then(|()| {
            writeln!(
                out,
                "next:    firstbyte lab run govuk -- firstbyte https://sydney.govuk.test/"
            )
        });
    shown.map_err(|e| Problem::output(&e))?;
    if interrupted {
        note("interrupted: what was complete is shown");
        return Ok(exit::INTERRUPTED);
    }
    let failed = samples.iter().flatten().filter_map(Sample::failure).next_back();
    Ok(failed.map_or(exit::OK, |failure| exit::code(&failure.cause)))
}

fn cells(lab: &Lab) -> Result<Vec<Cell>, Problem> {
    let ca_file = lab.environment().iter().find(|(name, _)| name == "SSL_CERT_FILE");
    let mut options = crate::cli::plan::default_options()?;
    options.tls.ca_file = ca_file.map(|(_, path)| PathBuf::from(path));
    let mut cells = Vec::new();
    for host in lab.scenario().servers() {
        for family in FAMILIES {
            for tls in [TlsVersion::V1_2, TlsVersion::V1_3] {
                cells.push(cell(host, family, tls, options.clone())?);
            }
        }
    }
    Ok(cells)
}

fn cell(
    host: &Host,
    family: Family,
    tls: TlsVersion,
    mut options: Options,
) -> Result<Cell, Problem> {
    let name = host.names.first().unwrap_or(&host.name);
    let target = Target::parse(&format!("https://{name}/"))
        .map_err(|e| Problem::new(exit::BAD_URL, e.to_string()))?;
    options.family = family;
    (options.tls.min, options.tls.max) = (tls, tls);
    let prober = NetProber::new(options).map_err(setup_problem)?;
    Ok(Cell { edge: capitalised(&host.name), family, tls, visitor: Rc::new((prober, target)) })
}

impl Cell {
    fn path(&self) -> String {
        format!("{} {}", self.edge, self.family.name())
    }
}

fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Takes the samples; every one is in the CSV file before the next one is begun. Says whether it
/// was interrupted.
fn take(
    design: &Design,
    cells: &[Cell],
    runtime: &tokio::runtime::Runtime,
    outputs: &mut Outputs,
    mut took: impl FnMut(usize, Sample),
) -> Result<bool, Problem> {
    let mut csv = CsvWriter::new(&outputs.csv.1).map_err(|e| Problem::output(&e))?;
    let visitors: Vec<Visitor<NetProber>> = cells.iter().map(|c| Rc::clone(&c.visitor)).collect();
    let taken = design.run(
        &visitors,
        |_, _| false,
        |_| true,
        |visited| {
            csv.sample(&visited.sample).map_err(|e| Problem::output(&e))?;
            took(visited.cell, visited.sample);
            Ok(())
        },
    );
    tokio::task::LocalSet::new().block_on(runtime, async {
        tokio::select! {
            biased;
            () = super::probe::interrupt() => Ok(true),
            result = taken => result.map(|()| false),
        }
    })
}

/// The cells that differ in the TLS version alone: TLS 1.2's index, then TLS 1.3's.
fn pairs(cells: &[Cell]) -> impl Iterator<Item = (usize, usize)> {
    cells.iter().enumerate().filter(|(_, cell)| cell.tls == TlsVersion::V1_2).filter_map(
        |(index, base)| {
            let same_path = |c: &&Cell| c.edge == base.edge && c.family == base.family;
            let other = cells.iter().filter(same_path).find(|c| c.tls == TlsVersion::V1_3)?;
            Some((index, cells.iter().position(|c| std::ptr::eq(c, other))?))
        },
    )
}

fn draw(cells: &[Cell], samples: &[Vec<Sample>]) -> String {
    let bars: Vec<(&Cell, &Sample)> = cells
        .iter()
        .zip(samples)
        .filter_map(|(cell, samples)| Some((cell, middle(samples)?)))
        .collect();
    let groups: Vec<chart::Group<'_>> = bars
        .chunk_by(|(a, _), (b, _)| a.edge == b.edge)
        .map(|bars| chart::Group { title: heading(bars), bars: bars.iter().map(bar).collect() })
        .collect();
    chart::stacked_phases(
        "Where the time goes: TLS 1.2 against TLS 1.3",
        "One visit to each edge, the one in the middle by total time; milliseconds per phase",
        &groups,
    )
}

/// "Sydney: round trip 280 ms over IPv4, 294 ms over IPv6"
fn heading(bars: &[(&Cell, &Sample)]) -> String {
    let mut round_trips: Vec<String> = Vec::new();
    for family in FAMILIES {
        let of_family = bars.iter().find(|(cell, _)| cell.family == family);
        if let Some(rtt) = of_family.and_then(|(_, s)| Split::of(&s.connection).rtt) {
            let ms = rtt.as_secs_f64() * 1e3;
            round_trips.push(format!("{ms:.0} ms over {}", family.name()));
        }
    }
    let edge = bars.first().map_or("", |(cell, _)| &cell.edge);
    format!("{edge}: round trip {}", round_trips.join(", "))
}

fn bar<'a>((cell, sample): &(&Cell, &'a Sample)) -> Bar<'a> {
    let version = if cell.tls == TlsVersion::V1_2 { "TLS 1.2" } else { "TLS 1.3" };
    Bar { label: format!("{} {version}", cell.family.name()), sample }
}

/// The sample in the middle by total, of those that count.
fn middle(samples: &[Sample]) -> Option<&Sample> {
    let mut counted: Vec<&Sample> =
        samples.iter().filter(|s| !s.warmup && s.failure().is_none()).collect();
    counted.sort_by_key(|s| total(&s.connection));
    counted.get(counted.len().saturating_sub(1) / 2).copied()
}
