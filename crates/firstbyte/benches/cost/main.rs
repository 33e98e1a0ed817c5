//! The client's processor time for a measured connection, compared with other clients.
//!
//! All clients make the same small GET to the same nginx on loopback, one connection each, in turn: blocks of
//! firstbyte, bare rustls, curl, openssl and oha alternate. Prints the medians over the blocks, and the minimum: other
//! work on the machine only adds time, and adds more to clients that come back to cold caches more often.
//!
//! Bare rustls is a program that wants the page and nothing else: the same roots, provider, groups and socket options,
//! one GET, read to its end, closed. It neither sends `close_notify` nor closes first; the second variant does both,
//! has the same traffic as firstbyte, and shows what that costs. firstbyte's prober exists only during its own blocks:
//! the kernel timestamps packets for everybody while any socket asks for it.
//!
//!     cargo bench -p firstbyte --bench cost -- [--blocks N] [--connections N] [--oha PATH] [--only NAME]
//!
//! Before the last part: the cost of one more idle target, when everything that targets share is already loaded.
//!
//! The last part starts a process for each request, which shows the cost of start-up.
//!
//! `--only` runs a single client, for profiling.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a program for the terminal that has nobody to report to"
)]

mod bare;
mod server;
mod target;

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use bare::Manner;
use firstbyte::cli::options_for;
use firstbyte_core::stats::median;
use firstbyte_core::timeline::Handshake;
use firstbyte_probe::probe::options::SessionUse;
use firstbyte_probe::probe::{Equipment, NetProber, Prober, Target};
use nix::sys::resource::{UsageWho, getrusage};
use rustls::HandshakeKind;
use server::Nginx;

/// Processor time of one block, and its number of connections.
#[derive(Clone, Copy, Default)]
struct Cost {
    user: Duration,
    system: Duration,
    connections: u32,
}

impl Cost {
    fn per_connection(&self) -> [f64; 2] {
        let n = f64::from(self.connections.max(1));
        [self.user.as_secs_f64() / n * 1e6, (self.user + self.system).as_secs_f64() / n * 1e6]
    }
}

/// A client that makes connections.
struct Contender<'a> {
    name: String,
    /// Makes the given number of connections and returns their cost.
    work: Box<dyn FnMut(u32) -> Result<Cost, String> + 'a>,
    /// Divides the number of connections: a process for each is slow, and fewer show as much.
    share: u32,
    costs: Vec<[f64; 2]>,
}

impl<'a> Contender<'a> {
    /// `work` makes the given number of connections and returns how many it made.
    fn new(
        name: &str,
        who: UsageWho,
        share: u32,
        mut work: impl FnMut(u32) -> Result<u32, String> + 'a,
    ) -> Self {
        let work = move |connections| timed(who, || work(connections));
        Self { name: name.into(), work: Box::new(work), share, costs: Vec::new() }
    }

    fn block(&mut self, connections: u32) -> Result<(), String> {
        let cost = (self.work)((connections / self.share).max(1))?;
        self.costs.push(cost.per_connection());
        Ok(())
    }

    fn median(&self, column: usize) -> f64 {
        let values: Vec<f64> = self.costs.iter().map(|cost| cost[column]).collect();
        median(&values).unwrap_or(f64::NAN)
    }

    /// User and system time of the cheapest block.
    fn least(&self) -> f64 {
        self.costs.iter().map(|cost| cost[1]).fold(f64::NAN, f64::min)
    }
}

/// Cost of `work`, which returns the number of connections it made.
fn timed(who: UsageWho, work: impl FnOnce() -> Result<u32, String>) -> Result<Cost, String> {
    let before = usage(who);
    let connections = work()?;
    let after = usage(who);
    Ok(Cost { user: after.0 - before.0, system: after.1 - before.1, connections })
}

fn usage(who: UsageWho) -> (Duration, Duration) {
    let usage = getrusage(who).unwrap();
    let time =
        |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1_000);
    (time(usage.user_time()), time(usage.system_time()))
}

fn main() -> ExitCode {
    if std::env::args().any(|a| a == "--test") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|a| a != name).nth(1)
}

fn number(name: &str, default: u32) -> u32 {
    argument(name).and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn measure() -> Result<(), String> {
    let nginx = Nginx::start()?;
    let (blocks, connections) = (number("--blocks", 9), number("--connections", 300));
    println!(
        "processor time of a connection with a small GET, µs: user, user + system, the least of that"
    );
    println!("{}; {blocks} blocks of {connections} connections, in turn", nginx.version);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    target::show(&runtime)?;
    for (title, group, resumed) in [
        ("full handshake, TLS 1.3, X25519", "X25519", false),
        ("full handshake, TLS 1.3, X25519MLKEM768 offered first", "default", false),
        ("resumed, TLS 1.3", "X25519", true),
    ] {
        let mut contenders = vec![
            firstbyte(&runtime, &nginx, group, resumed)?,
            bare_rustls(&nginx, group, resumed, Manner::Leaves)?,
            bare_rustls(&nginx, group, resumed, Manner::SaysGoodbye)?,
        ];
        contenders.extend(others(&nginx, group, resumed));
        if let Some(only) = argument("--only") {
            contenders.retain(|contender| contender.name.starts_with(&only));
        }
        for contender in &mut contenders {
            contender.block(connections.min(30))?;
            contender.costs.clear();
        }
        for _ in 0..blocks {
            for contender in &mut contenders {
                contender.block(connections)?;
            }
        }
        show(title, &contenders);
    }
    let mut processes = processes(&nginx);
    for _ in 0..blocks {
        for contender in &mut processes {
            contender.block(connections)?;
        }
    }
    show("a process for one https request, start-up included: the bar is 2 x curl", &processes);
    Ok(())
}

/// firstbyte and curl, each started anew for every request.
fn processes(nginx: &Nginx) -> Vec<Contender<'_>> {
    [env!("CARGO_BIN_EXE_firstbyte"), "curl"]
        .into_iter()
        .filter(|program| exists(program))
        .map(|program| {
            let name = program.rsplit('/').next().unwrap_or(program);
            Contender::new(name, UsageWho::RUSAGE_CHILDREN, 10, move |connections| {
                for _ in 0..connections {
                    let arguments = ["-k", "-s", "-o", "/dev/null", &nginx.url()];
                    run(Command::new(program).args(arguments))?;
                }
                Ok(connections)
            })
        })
        .collect()
}

fn show(title: &str, contenders: &[Contender<'_>]) {
    println!("\n{title}");
    let Some(own) = contenders.first() else { return };
    for contender in contenders {
        println!(
            "  {:<28} {:>6.0} {:>6.0} {:>6.0}   firstbyte / it: {:.2}, {:.2}, {:.2}",
            contender.name,
            contender.median(0),
            contender.median(1),
            contender.least(),
            own.median(0) / contender.median(0),
            own.median(1) / contender.median(1),
            own.least() / contender.least(),
        );
    }
}

fn firstbyte<'a>(
    runtime: &'a tokio::runtime::Runtime,
    nginx: &'a Nginx,
    group: &str,
    resumed: bool,
) -> Result<Contender<'a>, String> {
    let ca = nginx.ca_file();
    let mut flags = vec!["--http1.1", "--tlsv1.3", "--cacert", &ca];
    if group != "default" {
        flags.extend(["--curves", group]);
    }
    let url = nginx.url();
    flags.push(&url);
    let mut options = options_for(&flags)?;
    if resumed {
        options.tls.session = SessionUse::Resume(None);
    }
    let equipment = Equipment::default();
    let target = Target::parse(&url).map_err(|e| e.to_string())?;
    let expected = if resumed { Handshake::Resumed } else { Handshake::Full };
    let work = move |connections| {
        let local = tokio::task::LocalSet::new();
        let prober = local
            .block_on(runtime, async { NetProber::new(options.clone(), &equipment) })
            .map_err(|_| "the prober cannot be made".to_owned())?;
        let prepare = async || prober.prepare(&target).await.map_err(|f| f.cause.to_string());
        local.block_on(runtime, prepare())?;
        let visits = async {
            for _ in 0..connections {
                prepare().await?;
                let sample = prober.probe(&target).await;
                if let Some(failure) = sample.failure() {
                    return Err(failure.cause.to_string());
                }
                let handshake = sample.connection.facts.tls.and_then(|tls| tls.handshake);
                if handshake != Some(expected) {
                    return Err(format!("{handshake:?} instead of {expected:?}"));
                }
            }
            Ok(connections)
        };
        timed(UsageWho::RUSAGE_SELF, || local.block_on(runtime, visits))
    };
    let (name, work) = ("firstbyte".into(), Box::new(work));
    Ok(Contender { name, work, share: 1, costs: Vec::new() })
}

fn bare_rustls<'a>(
    nginx: &'a Nginx,
    group: &str,
    resumed: bool,
    manner: Manner,
) -> Result<Contender<'a>, String> {
    let config = bare::config(&nginx.ca_pem, group, resumed, manner)?;
    let name = match manner {
        Manner::Leaves => "bare rustls",
        Manner::SaysGoodbye => "bare rustls, same traffic",
    };
    let mut warm = false;
    Ok(Contender::new(name, UsageWho::RUSAGE_SELF, 1, move |connections| {
        for _ in 0..connections {
            let kind = bare::get(&config, nginx.address, manner)?;
            // The first connection has nothing to resume.
            if resumed && warm && kind != HandshakeKind::Resumed {
                return Err(format!("bare rustls did not resume: {kind:?}"));
            }
            warm = true;
        }
        Ok(connections)
    }))
}

fn others<'a>(nginx: &'a Nginx, group: &str, resumed: bool) -> Vec<Contender<'a>> {
    let children = UsageWho::RUSAGE_CHILDREN;
    let mut others = Vec::new();
    if resumed {
        let oha = argument("--oha").unwrap_or_else(|| "oha".into());
        if exists(&oha) {
            others.push(Contender::new(
                "oha --disable-keepalive",
                children,
                1,
                move |connections| {
                    let count = connections.to_string();
                    let mut command = Command::new(&oha);
                    command.args(["-n", &count, "-c", "1", "--disable-keepalive", "--no-tui"]);
                    run(command.args(["--insecure", &nginx.url()]))?;
                    Ok(connections)
                },
            ));
        } else {
            println!("oha is not installed and is left out (cargo install oha, or --oha PATH)");
        }
        return others;
    }
    if exists("curl") {
        let group = (group != "default").then(|| group.to_owned());
        others.push(Contender::new("curl, a process each", children, 10, move |connections| {
            for _ in 0..connections {
                let mut command = Command::new("curl");
                command.args(["-s", "-o", "/dev/null", "--http1.1", "--tlsv1.3", "--cacert"]);
                command.arg(nginx.ca_file()).arg(nginx.url());
                if let Some(group) = &group {
                    command.args(["--curves", group]);
                }
                run(&mut command)?;
            }
            Ok(connections)
        }));
    } else {
        println!("curl is not installed and is left out");
    }
    if exists("openssl") && group == "X25519" {
        others.push(Contender::new("openssl s_time -new", children, 1, move |_| {
            let address = nginx.address.to_string();
            let mut command = Command::new("openssl");
            command.args(["s_time", "-connect", &address, "-new", "-time", "1", "-www", "/"]);
            let said = run(command.arg("-tls1_3"))?;
            // "512 connections in 0.31s; 1651.61 connections/user sec, bytes read 1024"
            let line = said.lines().find(|line| line.contains("connections in "));
            let made = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            made.ok_or_else(|| format!("openssl s_time does not say how many:\n{said}"))
        }));
    }
    others
}

fn exists(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(if program.ends_with("openssl") { "version" } else { "--version" });
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{:?} failed: {why}", command.get_program()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
