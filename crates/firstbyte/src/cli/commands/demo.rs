//! `firstbyte demo`: six ways to connect to three edges over both families, on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use firstbyte_lab::{LabOptions, ServerChoice};

use super::compare::{NumberOrText, Outputs, PlanFile, measure};
use super::lab::{self, study};
use crate::cli::args::{DemoArgs, RenderArgs};
use crate::cli::exit::Problem;
use crate::cli::files::{Files, cannot_write};
use crate::cli::terminal::note;
use crate::cli::{render, run_problem, signals};
use crate::runs::Run;

/// The ways to connect; each is compared with the first.
const WAYS: [&str; 6] = [
    "TLS 1.2: tls=1.2 http=2 session=full",
    "TLS 1.3: tls=1.3 http=2 session=full",
    "TLS 1.3 resumed: tls=1.3 http=2 session=resumed",
    "TLS 1.3 0-RTT: tls=1.3 http=2 session=0rtt",
    "HTTP/3: http=3 session=full",
    "HTTP/3 0-RTT: http=3 session=0rtt",
];

const EDGES: [&str; 3] = ["london", "vancouver", "sydney"];

pub(in crate::cli) fn run(args: &DemoArgs) -> Result<u8, Problem> {
    let scenario = lab::load("govuk")?;
    fs::create_dir_all(&args.output_dir).map_err(|error| cannot_write(&args.output_dir, &error))?;
    let file = |name: &str| args.output_dir.join(name);
    let outputs = RenderArgs {
        html: Some(file("firstbyte-demo.html")),
        csv: Some(file("firstbyte-demo.csv")),
        ..RenderArgs::default()
    };
    let kept = file("firstbyte-demo.run");
    Files::default().keeps([&kept]).renders(&outputs).open()?;
    let plan = plan(args);
    let server = if args.builtin { ServerChoice::Builtin } else { ServerChoice::Auto };
    let options = LabOptions { seed: Some(args.seed), server, ..LabOptions::default() };
    study::in_lab(&scenario, &options, |lab| {
        let mut study = study::with_issuer(&plan, lab).study("the demo's plan")?;
        let run = Some(kept.clone());
        study.outputs = Outputs { run, overwrite: true, ..Outputs::default() };
        note(&format!(
            "{} ways to connect, in random order; rounds that count: {}, after one to warm up",
            study.experiment.matrix.variants.len(),
            args.samples
        ));
        let measured = measure(&study)?;
        let run = Run::read(&measured.path).map_err(run_problem)?;
        render::run(&run, &outputs)?;
        tell(&outputs, &measured.path);
        if measured.interrupted {
            note("interrupted: what was complete is shown");
            return Ok(signals::exit_code());
        }
        Ok(measured.code())
    })
}

fn plan(args: &DemoArgs) -> PlanFile {
    let edges = EDGES.map(|edge| format!("{edge}:https://{edge}.govuk.test/"));
    PlanFile {
        url: Some(format!("https://{}.govuk.test/", EDGES[0])),
        way: WAYS.map(str::to_owned).to_vec(),
        vary: vec![format!("site={}", edges.join(",")), "family=4,6".to_owned()],
        samples: Some(args.samples),
        interval: Some(NumberOrText("0".to_owned())),
        seed: Some(args.seed),
        concurrent: Some("site,family".to_owned()),
        ..PlanFile::default()
    }
}

/// Says where everything is, and what to try next.
fn tell(outputs: &RenderArgs, run: &Path) {
    let shown = |path: &Option<PathBuf>| {
        path.as_deref().map_or_else(String::new, |path| path.display().to_string())
    };
    note(&format!("report:  {}", shown(&outputs.html)));
    note(&format!("samples: {}", shown(&outputs.csv)));
    note(&format!("again:   firstbyte report {}", run.display()));
    note("next:    firstbyte lab run govuk -- firstbyte https://sydney.govuk.test/");
}
