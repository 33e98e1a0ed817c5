//! `firstbyte lab …`: real servers behind emulated links.

mod capacity;
mod expect;
mod export;
mod story;
pub(in crate::cli) mod study;
mod traffic;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use firstbyte_core::access::AccessProfile;
use firstbyte_core::timeline::ProcessorTime;
use firstbyte_core::units::print_time;
use firstbyte_lab::scenario::{Family, Role};
use firstbyte_lab::{
    Lab, LabError, LabOptions, RunningLab, Scenario, ServerReport, run as run_lab, up,
};

use crate::cli::exit::{self, Problem};
use crate::cli::exports;
use crate::cli::files::Files;
use crate::cli::terminal::{self, note};
use crate::plans::{ColorChoice, CommandWords, Destination, LabPlan, NewLabPlan};
use firstbyte_probe::probe::Secret;
use firstbyte_report::Style;
use firstbyte_report::style::wrap;
use firstbyte_report::warning::Warning;

pub(in crate::cli) fn run(plan: &LabPlan) -> Result<u8, Problem> {
    match plan {
        LabPlan::Run { lab, command } => run_command(lab, command),
        LabPlan::Shell { lab } => shell(lab),
        LabPlan::Up { lab } => start(lab),
        LabPlan::Exec { scenario, host, command } => {
            exec(scenario, host.as_deref(), &mut made(command))
        }
        LabPlan::Status => status(),
        LabPlan::Down { scenario } => down(scenario.as_deref()),
        LabPlan::Study(plan) => study::run(plan),
        LabPlan::Export(plan) => export::run(plan),
        LabPlan::List => list(),
        LabPlan::Show { scenario, source } => show(scenario, *source),
    }
}

fn run_command(plan: &NewLabPlan, command: &CommandWords) -> Result<u8, Problem> {
    let scenario = prepared(plan)?;
    run_in(&scenario, &plan.options, || made(command))
}

/// Creates a lab and runs a command on its client.
fn run_in(
    scenario: &Scenario,
    options: &LabOptions,
    command: impl FnOnce() -> Command,
) -> Result<u8, Problem> {
    let code = run_lab(scenario, options, |lab| {
        introduce(lab);
        let client = &lab.scenario().client().name;
        let code = lab.run_command(client, command()).unwrap_or_else(|error| {
            note(&problem(error).to_string());
            i32::from(exit::LAB)
        });
        take_leave(lab);
        code
    });
    code.map(exit_code).map_err(problem)
}

fn shell(plan: &NewLabPlan) -> Result<u8, Problem> {
    // A running lab cannot be changed: asking for other options creates a new one.
    let as_it_is = plan.options == LabOptions::default() && plan.access.is_none();
    if as_it_is && let Ok(lab) = running(&plan.scenario) {
        let name = lab.scenario();
        note(&format!("lab {name}: a shell on its client; exit leaves it, and the lab stays"));
        return exec(name, None, &mut shell_command(name));
    }
    let scenario = prepared(plan)?;
    run_in(&scenario, &plan.options, || {
        note("a shell on its client; exit ends the lab");
        shell_command(&scenario.name)
    })
}

/// The user's shell. Its prompt names the lab if bash is set up as on Debian and Ubuntu.
fn shell_command(lab: &str) -> Command {
    let mut shell = Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into()));
    shell.env("debian_chroot", format!("lab {lab}"));
    shell
}

fn start(plan: &NewLabPlan) -> Result<u8, Problem> {
    let scenario = prepared(plan)?;
    if running(&scenario.name).is_ok() {
        let name = &scenario.name;
        return Err(Problem::new(exit::LAB, format!("the lab {name} is already up"))
            .hint(format!("enter it with: firstbyte lab shell {name}")));
    }
    let lab = up(&scenario, &plan.options).map_err(problem)?;
    let name = lab.scenario();
    note(&format!("lab {name} is up (process {}): {}", lab.pid(), servers(lab.servers())));
    note(&format!("enter it with: firstbyte lab shell {name}"));
    note(&format!("stop it with: firstbyte lab down {name}"));
    Ok(exit::OK)
}

fn exec(scenario: &str, host: Option<&str>, command: &mut Command) -> Result<u8, Problem> {
    running(scenario)?.run(host, command).map(exit_code).map_err(problem)
}

fn status() -> Result<u8, Problem> {
    let labs = RunningLab::all();
    if labs.is_empty() {
        note("no lab is up; start one with: firstbyte lab up SCENARIO");
    }
    let mut text = String::new();
    for lab in labs {
        let up_for = firstbyte_clock::wall_time_since(lab.started()).as_secs();
        text += &format!(
            "{:<12} process {:<8} up {}:{:02}:{:02}  {}\n",
            lab.scenario(),
            lab.pid(),
            up_for / 3600,
            up_for / 60 % 60,
            up_for % 60,
            servers(lab.servers())
        );
        let ended = lab.ended_servers();
        if !ended.is_empty() {
            text += &format!("{:<12} no longer running: {}\n", "", servers(&ended));
        }
    }
    print(&text)
}

fn down(scenario: Option<&str>) -> Result<u8, Problem> {
    let labs = match scenario {
        Some(name) => {
            vec![running(name).map_err(|p| p.hint("firstbyte lab status lists the running labs"))?]
        }
        None => {
            let (here, others): (Vec<_>, Vec<_>) =
                RunningLab::all().into_iter().partition(RunningLab::is_of_this_session);
            for lab in &others {
                let name = lab.scenario();
                note(&format!(
                    "lab {name} (process {}) was started elsewhere and stays; stop it with: \
                     firstbyte lab down {name}",
                    lab.pid()
                ));
            }
            if here.is_empty() && others.is_empty() {
                note("no lab is up");
            }
            here
        }
    };
    for lab in labs {
        lab.down().map_err(problem)?;
        note(&format!("lab {} is down", lab.scenario()));
    }
    Ok(exit::OK)
}

fn list() -> Result<u8, Problem> {
    let text: Vec<String> =
        Scenario::shipped().map(|(name, about)| filled(&format!("{name:<15} "), &about)).collect();
    print(&text.concat())
}

fn show(name: &str, source: bool) -> Result<u8, Problem> {
    let scenario = load(name)?;
    if source {
        // A file or pipe gets the exact source; a terminal gets it without control sequences.
        if io::stdout().is_terminal() {
            return print(&scenario.source);
        }
        exports::whole(&Destination::StandardOutput, scenario.source.as_bytes())?;
        return Ok(exit::OK);
    }
    let mut text = filled("", &format!("{}: {}", scenario.name, scenario.description));
    for paragraph in scenario.story.trim().split("\n\n").filter(|text| !text.is_empty()) {
        text += &format!("\n{}", filled("", paragraph));
    }
    let client = scenario.client();
    text += "\nhost          role     round trip IPv4  round trip IPv6  names\n";
    for host in &scenario.hosts {
        let round_trip = |family: Family, there: bool| {
            if !there || host.role == Role::Client {
                return "-".to_owned();
            }
            let rtt = scenario.round_trip(client, host, family);
            format!("{:.1} ms", rtt.as_secs_f64() * 1e3)
        };
        let role = match host.role {
            Role::Client => "client",
            Role::Server => "server",
            Role::Resolver => "resolver",
        };
        text += format!(
            "{:<13} {role:<8} {:>15}  {:>15}  {}",
            host.name,
            round_trip(Family::V4, host.ipv4.is_some()),
            round_trip(Family::V6, host.ipv6.is_some()),
            host.names.first().map_or("", String::as_str)
        )
        .trim_end();
        text.push('\n');
        for name in host.names.iter().skip(1) {
            text += &format!("{:57}{name}\n", "");
        }
    }
    for change in &scenario.changes {
        text += &format!(
            "\nafter {} it changes: {}\n",
            print_time(change.after),
            change.hosts.join(", ")
        );
    }
    print(&text)
}

/// Wraps `text` to the terminal's width; the first line begins with `first`.
fn filled(first: &str, text: &str) -> String {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let width = terminal::style(ColorChoice::Never).width;
    wrap(first, &words, width).iter().map(|line| format!("{line}\n")).collect()
}

/// Loads the scenario and checks its files.
fn prepared(plan: &NewLabPlan) -> Result<Scenario, Problem> {
    let options = &plan.options;
    Files::default()
        .reads(&file(&plan.scenario))
        .records(options.capture.as_ref(), options.logs.as_ref())
        .check()?;
    let scenario = load(&plan.scenario)?;
    let Some(name) = &plan.access else { return Ok(scenario) };
    let profile = AccessProfile::named(name)
        .ok_or_else(|| Problem::new(exit::USAGE, format!("unknown access network {name:?}")))?;
    Ok(scenario.with_access(profile))
}

/// The file that `scenario` names, unless it is a shipped scenario.
fn file(scenario: &str) -> Option<PathBuf> {
    Some(PathBuf::from(scenario)).filter(|path| path.is_file())
}

pub(in crate::cli) fn load(name: &str) -> Result<Scenario, Problem> {
    Scenario::load(name).map_err(|e| Problem::new(exit::LAB, e.to_string()))
}

fn running(scenario: &str) -> Result<RunningLab, Problem> {
    RunningLab::all().into_iter().find(|lab| lab.scenario() == scenario).ok_or_else(|| {
        Problem::new(exit::LAB, format!("the lab {scenario} is not up"))
            .hint(format!("start it with: firstbyte lab up {scenario}"))
    })
}

/// Describes the new lab on standard error.
pub(in crate::cli) fn introduce(lab: &Lab) {
    note(&format!("lab {}: {}", lab.scenario().name, servers(&lab.servers())));
    for warning in lab.warnings() {
        terminal::warn(&Warning::Lab(*warning));
    }
    if let Some(directory) = lab.capture_dir() {
        note(&format!("captures are in {}", directory.display()));
    }
    if let Some(directory) = lab.log_dir() {
        note(&format!("the servers' logs will be in {}", directory.display()));
    }
}

/// Says on standard error which servers have ended.
pub(in crate::cli) fn warn_of_ended(lab: &Lab) {
    for end in lab.ended_servers() {
        let last: Vec<&str> = end.output.lines().rev().take(3).collect();
        let said = last.iter().rev().map(|line| format!("\n  {line}")).collect::<String>();
        let server = format!("{} on {}", end.kind, end.host);
        terminal::warn(&Warning::LabServerEnded { server, reason: end.reason + &said });
    }
}

/// Reports on standard error, before the lab goes, what the user should know.
fn take_leave(lab: &Lab) {
    for change in lab.changes() {
        if let Some(reason) = change.failure {
            let hosts = change.hosts.join(", ");
            terminal::warn(&Warning::LabDidNotChange { after: change.after, hosts, reason });
        }
    }
    warn_of_ended(lab);
    let stats = lab.forwarder_stats();
    let unwanted = stats.ring_full + stats.send_failed;
    if unwanted > 0 {
        let of = stats.forwarded + unwanted;
        terminal::warn(&Warning::MachineTooBusy { lost: unwanted, of });
    }
    for server in lab.server_times() {
        let ProcessorTime { user, system } = server.taken;
        if server.taken.sum() < Duration::from_millis(10) {
            continue;
        }
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let [sum, user, system] = [server.taken.sum(), user, system].map(seconds);
        let host = &server.host;
        note(&format!(
            "processor time of the server on {host}: {sum} ({user} user, {system} system)"
        ));
    }
    if let Err(error) = lab.save_logs() {
        terminal::warn(&Warning::LogsNotSaved { reason: error.to_string() });
    }
    for capture in lab.capture_stats() {
        if capture.dropped > 0 {
            let file = capture.file.clone();
            terminal::warn(&Warning::CaptureLacksFrames { file, frames: capture.dropped });
        }
        if let Some(reason) = capture.failure {
            terminal::warn(&Warning::CaptureIncomplete { file: capture.file, reason });
        }
    }
}

/// Servers grouped by kind: "london, sydney: nginx 1.22.1".
fn servers(reports: &[ServerReport]) -> String {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for report in reports {
        match kinds.iter_mut().find(|(kind, _)| *kind == report.kind) {
            Some((_, hosts)) => hosts.push(&report.host),
            None => kinds.push((&report.kind, vec![&report.host])),
        }
    }
    let text: Vec<String> =
        kinds.iter().map(|(kind, hosts)| format!("{kind} on {}", hosts.join(", "))).collect();
    text.join("; ")
}

fn made(command: &CommandWords) -> Command {
    let mut words = command.iter().map(Secret::reveal);
    let mut made = Command::new(words.next().map_or("".as_ref(), OsString::as_os_str));
    made.args(words);
    made
}

fn exit_code(code: i32) -> u8 {
    u8::try_from(code).unwrap_or(exit::LAB)
}

pub(in crate::cli) fn problem(error: LabError) -> Problem {
    Problem::new(exit::LAB, error.to_string())
}

/// Prints a text without colours.
fn print(text: &str) -> Result<u8, Problem> {
    exports::print(&Style::default().safe_lines(text))?;
    Ok(exit::OK)
}
