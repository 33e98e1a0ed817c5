//! `firstbyte demo`: measures six ways to connect to three edges over IPv4 and IPv6, on this machine.

use std::fs;
use std::path::Path;

use firstbyte_lab::LabOptions;

use super::compare::{RunFile, Study, measure};
use super::lab::{self, study};
use crate::cli::exit::Problem;
use crate::cli::files::{Files, cannot_write};
use crate::cli::plan::plan_file::{NumberOrText, PlanFile};
use crate::cli::terminal::note;
use crate::cli::{render, signals};
use crate::plans::{DemoPlan, Destination, Outputs, RenderPlan};

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

pub(in crate::cli) fn run(asked: &DemoPlan) -> Result<u8, Problem> {
    let scenario = lab::load("govuk")?;
    let directory = &asked.output_dir;
    fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
    let file = |name: &str| directory.join(name);
    let outputs = Outputs {
        html: Some(Destination::File(file("firstbyte-demo.html"))),
        csv: Some(Destination::File(file("firstbyte-demo.csv"))),
        ..Outputs::default()
    };
    let kept = file("firstbyte-demo.run");
    let opened = Files::default().keeps([&kept]).exports_of_responses(&outputs).open()?;
    let plan = plan(asked);
    let (seed, server) = (Some(asked.seed), asked.server);
    let options = LabOptions { seed, server, ..LabOptions::default() };
    let code = study::in_lab(&scenario, &options, |lab| {
        let whence = "the demo's plan";
        let mut study = Study::new(study::with_issuer(&plan, lab).comparison(whence)?)?;
        study.run = RunFile::Overwritten(kept.clone());
        note(&format!(
            "{} variants, in random order; {} rounds, after one warm-up round",
            study.experiment.matrix.variants.len(),
            asked.samples
        ));
        let measured = measure(&study)?;
        let render = RenderPlan { outputs: outputs.clone(), ..RenderPlan::default() };
        render::run(measured.read_run()?, &render)?;
        tell(&outputs, &measured.path);
        if measured.interrupted {
            note("interrupted: only complete samples are shown");
            return Ok(signals::exit_code());
        }
        Ok(measured.code())
    })?;
    opened.keep();
    Ok(code)
}

fn plan(asked: &DemoPlan) -> PlanFile {
    let edges = EDGES.map(|edge| format!("{edge}:https://{edge}.govuk.test/"));
    PlanFile {
        url: Some(format!("https://{}.govuk.test/", EDGES[0])),
        variant: WAYS.map(str::to_owned).to_vec(),
        vary: vec![format!("site={}", edges.join(",")), "family=4,6".to_owned()],
        samples: Some(asked.samples),
        interval: Some(NumberOrText("0".to_owned())),
        seed: Some(asked.seed),
        concurrent: Some("site,family".to_owned()),
        ..PlanFile::default()
    }
}

/// Prints where the results are, and what to try next.
fn tell(outputs: &Outputs, run: &Path) {
    let shown = |to: &Option<Destination>| {
        to.as_ref().map_or_else(String::new, |to| to.path().display().to_string())
    };
    note(&format!("report:  {}", shown(&outputs.html)));
    note(&format!("samples: {}", shown(&outputs.csv)));
    note(&format!("again:   firstbyte report {}", run.display()));
    note("next:    firstbyte lab run govuk -- firstbyte https://sydney.govuk.test/");
}
