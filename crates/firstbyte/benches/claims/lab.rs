//! Runs the visits in a lab.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use firstbyte_clients::clients;
use firstbyte_core::timeline::{Connection, Handshake};
use firstbyte_probe::probe::options::Client;
use firstbyte_probe::probe::{Equipment, Target};
use serde::{Deserialize, Serialize};

use crate::ways::{CLIENTS, SERVERS, Way};

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
/// File for the secrets that clients log.
pub(crate) const SECRETS: &str = "secrets.log";

/// A client's claims about one visit; absent if it makes no claim.
#[derive(Serialize, Deserialize)]
pub(crate) struct Visit {
    pub(crate) client: String,
    pub(crate) way: String,
    /// Path and query of the URL, unique to this visit.
    pub(crate) path: String,
    pub(crate) protocol: Option<String>,
    pub(crate) resumed: Option<bool>,
    pub(crate) early: Option<bool>,
    pub(crate) reused: bool,
    pub(crate) failure: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Job {
    visits: u32,
    client: Option<String>,
}

/// Makes `visits` visits of each client, or only of the named one; leaves logs and captures in `directory`.
pub(crate) fn run(
    directory: &Path,
    visits: u32,
    client: Option<&str>,
) -> Result<Vec<Visit>, String> {
    let words = |error: std::io::Error| error.to_string();
    fs::create_dir_all(directory).map_err(words)?;
    let file = |name: &str| directory.join(name);
    fs::write(file("claims.toml"), scenario()).map_err(words)?;
    let job = Job { visits, client: client.map(str::to_owned) };
    let job = serde_json::to_vec(&job).map_err(|error| error.to_string())?;
    fs::write(file("job.json"), job).map_err(words)?;
    let own = std::env::current_exe().map_err(words)?;
    let mut command = Command::new(PROGRAM);
    command.args(["lab", "run"]).arg(file("claims.toml"));
    command.arg("--logs").arg(directory).arg("--capture").arg(directory);
    command.arg("--").arg(own).arg("--in-lab").arg(directory);
    command.env("SSLKEYLOGFILE", file(SECRETS));
    let status = command.stdin(Stdio::null()).status().map_err(words)?;
    if !status.success() {
        return Err(format!("the lab ended with {status}"));
    }
    let taken = fs::read(file("visits.json")).map_err(words)?;
    serde_json::from_slice(&taken).map_err(|error| error.to_string())
}

/// All servers are 30 ms away, so that early data arrives well before the client's Finished.
fn scenario() -> String {
    let mut scenario = "description = \"servers whose logs claims are held against\"\nseed = 7\n\
         [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.10\"\nipv6 = \"2001:db8:0:1::10\"\n\
         [[host]]\nname = \"resolver\"\nrole = \"resolver\"\nipv4 = \"192.0.2.53\"\nipv6 = \"2001:db8:0:1::53\"\n"
        .to_owned();
    for (index, (name, settings)) in SERVERS.into_iter().enumerate() {
        let number = index + 1;
        scenario.push_str(&format!(
            "[[host]]\nname = \"{name}\"\nrole = \"server\"\nipv4 = \"198.51.100.{number}\"\n\
             ipv6 = \"2001:db8:0:2::{number}\"\nnames = [\"{name}.claims.test\"]\n\
             up = {{ delay = \"15ms\" }}\ndown = {{ delay = \"15ms\" }}\nserver = {{ {settings} }}\n"
        ));
    }
    scenario
}

/// Runs within the lab: makes the visits that the job in `directory` lists.
pub(crate) fn visit(directory: &Path) -> Result<(), String> {
    let job = fs::read(directory.join("job.json")).map_err(|error| error.to_string())?;
    let job: Job = serde_json::from_slice(&job).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let mut taken = Vec::new();
    for client in CLIENTS {
        if job.client.as_deref().is_none_or(|name| name == client.name()) {
            let local = tokio::task::LocalSet::new();
            local.block_on(&runtime, visit_by(client, job.visits, &mut taken))?;
        }
    }
    let taken = serde_json::to_vec(&taken).map_err(|error| error.to_string())?;
    fs::write(directory.join("visits.json"), taken).map_err(|error| error.to_string())
}

async fn visit_by(client: Client, visits: u32, taken: &mut Vec<Visit>) -> Result<(), String> {
    let clients = clients();
    let equipment = Equipment::with_clients(clients.clone());
    let target = |way: &Way, path: &str| {
        let url = format!("https://{}.claims.test{path}", way.server);
        Target::parse(&url).map_err(|error| error.to_string())
    };
    let mut ways = Vec::new();
    for way in Way::all() {
        match clients.check(&target(&way, "/")?, &way.options(client)) {
            Ok(()) => ways.push(way),
            Err(why) => eprintln!("{} {}: left out: {why}", client.name(), way.name),
        }
    }
    for (index, way) in ways.iter().enumerate() {
        // The remainder goes to the first ways.
        let (visits, all) = (visits as usize, ways.len());
        let share = visits / all + usize::from(index < visits % all);
        eprintln!("{} {}: {share} visits", client.name(), way.name);
        let prober = equipment.prober(&way.options(client).into());
        let prober = prober.map_err(|error| format!("{error:?}"))?;
        for number in 0..share {
            let path = format!("/?{}-{}-{number}", client.name(), way.name);
            let target = target(way, &path)?;
            let prepared = prober.prepare(&target).await;
            let sample = prober.probe(&target).await;
            let failure = prepared.err().or_else(|| sample.failure().cloned());
            let mut visit = Visit {
                client: client.name().to_owned(),
                way: way.name.clone(),
                path,
                protocol: None,
                resumed: None,
                early: None,
                reused: false,
                failure: failure.map(|failure| failure.to_string()),
            };
            claim(&mut visit, &sample.connection);
            taken.push(visit);
        }
    }
    Ok(())
}

fn claim(visit: &mut Visit, connection: &Connection) {
    let facts = &connection.facts;
    visit.reused = facts.reused;
    visit.protocol = facts.http.as_ref().and_then(|http| http.version.clone());
    let Some(tls) = &facts.tls else { return };
    visit.resumed = tls.handshake.map(|handshake| handshake == Handshake::Resumed);
    visit.early = match tls.early_data {
        None => Some(false),
        Some(early) => early.accepted,
    };
}
