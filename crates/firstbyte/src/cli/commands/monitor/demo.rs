//! `firstbyte monitor demo`: three edges of one name in a lab; one of them enables TLS 1.3 while it is monitored.
//!
//! The lab has its own network, but whoever views the monitor's page is outside it. So the server starts to listen
//! before the lab is created.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use firstbyte_lab::{Lab, LabOptions};
use firstbyte_monitor::configuration::Configuration;

use firstbyte_monitor::watch::Series;

use super::{MonitorSignals, conclude, serving, source::Files, watch_all};
use crate::cli::commands::lab::{self, study};
use crate::cli::exit::{self, Problem};
use crate::cli::terminal::note;
use crate::plans::MonitorPlan;

const SCENARIO: &str = "monitor";
/// Two samples per second, so that the demo takes minutes instead of months.
const EVERY: Duration = Duration::from_millis(500);
const CONFIGURATION: &str = r#"
place = "demo"
[[target]]
name = "www.monitor.test"
url = "https://www.monitor.test/"
edges = "all"
every = "1s"
timeout = "5s"
"#;

pub(super) fn run(plan: &MonitorPlan) -> Result<u8, Problem> {
    let configuration = configuration()?;
    let scenario = lab::load(SCENARIO)?;
    let listen = plan.listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let plan = MonitorPlan { listen: Some(listen), ..plan.clone() };
    let listening = serving::listen(&plan, &configuration)?;
    let temporary = match &plan.store {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Problem::new(exit::WRITE, format!("cannot make a temporary directory: {error}"))
                .hint("give --store DIR")
        })?),
    };
    let in_temporary = || temporary.as_ref().map(|directory| directory.path().to_owned());
    let store = plan.store.clone().or_else(in_temporary).unwrap_or_default();
    study::in_lab(&scenario, &LabOptions::default(), |lab| {
        for change in &lab.scenario().changes {
            let hosts = change.hosts.join(", ");
            note(&format!("in {} s something changes at {hosts}", change.after.as_secs()));
        }
        let configuration = trusting(configuration, lab);
        let files = Files::default();
        let signals = MonitorSignals::heed(&plan.source);
        let visitor = &Series::visitor;
        let (watched, recorded) =
            watch_all(&plan, configuration, files, &store, listening, visitor, signals)?;
        conclude(&plan, &watched, &recorded)
    })
}

/// The configuration of the demo.
pub(super) fn configuration() -> Result<Configuration, Problem> {
    let mut no_files = |_: &str| Err(std::io::Error::other("there is none"));
    let mut configuration =
        Configuration::read(CONFIGURATION, &mut no_files).map_err(|mistakes| {
            let all: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            Problem::new(exit::USAGE, all.join("\n"))
        })?;
    configuration.targets.iter_mut().for_each(|target| target.every = EVERY);
    Ok(configuration)
}

/// Makes all targets trust the lab's own issuer.
fn trusting(mut configuration: Configuration, lab: &Lab) -> Configuration {
    let issuer = lab.environment().iter().find(|(name, _)| name == "SSL_CERT_FILE");
    for target in &mut configuration.targets {
        target.cacert = issuer.map(|(_, path)| path.into());
    }
    configuration
}
