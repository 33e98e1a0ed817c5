//! The command line: parsing (`args`), interpretation (`plan`), execution (`commands`, one file each, which see only
//! plans), and exit codes (`exit`).

mod args;
mod commands;
mod condition;
#[cfg(test)]
mod examples;
mod exit;
mod exports;
mod files;
mod first_word;
mod generated;
mod help;
mod log;
mod measuring;
mod misplaced;
mod plan;
mod progress;
mod qlog;
mod render;
mod signals;
mod terminal;
mod typed;
mod unpacked;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use firstbyte_monitor::watch::{Series, Watched};
use firstbyte_probe::experiment::Visitor;
use firstbyte_probe::probe::{Equipment, SetupError};
use firstbyte_report::Style;

use crate::plans::{CommandPlan, MonitorPlan};
use crate::recording::Recorded;
use crate::runs::{Run, RunError};
use args::{Cli, Command};
use exit::Problem;
use typed::Typed;

/// Shown for `firstbyte` without arguments.
const GREETING: &str = "\
Where did the time before the first byte go?

  firstbyte https://example.com/                              one connection
  firstbyte compare https://example.com/ --vary tls=1.2,1.3   TLS 1.2 and 1.3
  firstbyte demo                                              without a network

firstbyte -h lists commands and flags.
";

/// Runs the command line `arguments` (the program's name first) and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.len() < 2 {
        let _ = io::stderr().write_all(GREETING.as_bytes());
        return ExitCode::from(exit::USAGE);
    }
    let (cli, typed) = match Typed::read(arguments) {
        Ok(read) => read,
        Err(error) => {
            // Help and version go to standard output and are not errors.
            print_clap(&error);
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { exit::OK });
        }
    };
    if let Err(problem) = log::begin() {
        return report(&problem);
    }
    // A lab forks, which requires a single thread; it handles signals itself.
    if !matches!(cli.command, Some(Command::Lab(_) | Command::Demo(_))) {
        signals::stand_in();
    }
    match plan::command(&cli, &typed).and_then(|plan| commands::carry_out(&plan)) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => report(&problem),
    }
}

/// Carries out `plan` without a command line and returns its exit code. Messages go to the standard streams.
pub fn carry_out(plan: &CommandPlan) -> ExitCode {
    match commands::carry_out(plan) {
        Ok(code) => ExitCode::from(code),
        Err(problem) => report(&problem),
    }
}

/// The options of a probe, parsed from command-line arguments. For benchmarks and tests.
///
/// # Errors
/// The message that a user would see.
pub fn options_for(arguments: &[&str]) -> Result<firstbyte_probe::probe::options::Options, String> {
    let arguments = ["firstbyte"].iter().chain(arguments);
    let cli = Cli::try_parse_from(arguments).map_err(|e| e.to_string())?;
    plan::probe(&cli.probe).map(|plan| plan.options).map_err(|e| e.to_string())
}

/// Result of a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitored {
    /// Counts of the samples measured.
    pub watched: Watched,
    /// The raw file written last.
    pub path: PathBuf,
    /// Samples that could not be written.
    pub lost: u64,
}

/// Runs `firstbyte monitor` with visitors that `visitor` creates. For benchmarks, whose probers send nothing.
///
/// # Errors
/// The message that a user would see.
pub fn monitor_by(
    plan: &MonitorPlan,
    visitor: &dyn Fn(&Series, &Equipment) -> Result<Visitor, SetupError>,
) -> Result<Monitored, String> {
    let measured = commands::monitor::measure(plan, visitor);
    let (watched, Recorded { path, lost }) = measured.map_err(|problem| problem.to_string())?;
    Ok(Monitored { watched, path, lost })
}

/// Describes why a run file cannot be used.
fn run_problem(error: RunError) -> Problem {
    let code = match error {
        RunError::Exists { .. } | RunError::Locked { .. } => exit::WRITE,
        RunError::NotRegular { .. } => exit::USAGE,
        RunError::Io { operation: "create" | "write", .. } => exit::WRITE,
        _ => exit::READ,
    };
    let problem = Problem::new(code, error.to_string());
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// Reads a run file, and warns of lines that are left out.
fn read_run(path: &Path) -> Result<Run, Problem> {
    let run = Run::read(path).map_err(run_problem)?;
    run.warnings().iter().for_each(terminal::warn);
    Ok(run)
}

/// Prints clap's message. It repeats the user's arguments, so control characters are escaped.
fn print_clap(error: &clap::Error) {
    let text = error.render().to_string();
    let safe = Style::default().safe_lines(&text);
    if !error.use_stderr() || safe == text {
        let _ = error.print();
    } else {
        let _ = io::stderr().write_all(safe.as_bytes());
    }
}

fn report(problem: &Problem) -> ExitCode {
    // A reader that has seen enough (`firstbyte … | head`) is not an error.
    if !problem.is_broken_pipe() {
        terminal::note(&problem.to_string());
    }
    ExitCode::from(problem.code())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_that_advice_names_exist() {
        let text = include_str!("../../../firstbyte-report/src/advice.rs")
            .split("#[cfg(test)]")
            .next()
            .unwrap();
        let command = Cli::command();
        let probe = command.get_subcommands().find(|sub| sub.get_name() == "probe").unwrap();
        let known =
            |name: &str| probe.get_arguments().any(|argument| argument.get_long() == Some(name));
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-.".contains(c)));
        let mut named = 0;
        for flag in words.filter_map(|word| word.strip_prefix("--")) {
            assert!(known(flag), "there is no --{flag}");
            named += 1;
        }
        assert!(named > 12, "{named} flags");
    }

    /// Commands see plans only, never the parsed arguments.
    #[test]
    fn commands_see_plans_alone() {
        fn sources(path: &Path, found: &mut Vec<PathBuf>) {
            match fs::read_dir(path) {
                Ok(entries) => {
                    entries.for_each(|entry| sources(&entry.unwrap().path(), found));
                }
                Err(_) => found.push(path.to_owned()),
            }
        }
        let cli = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
        let mut found = Vec::new();
        let parts = ["commands", "render", "exports.rs", "files.rs", "measuring.rs", "terminal.rs"];
        for part in parts.map(|part| cli.join(part)).into_iter().chain([cli.join("../plans")]) {
            sources(&part, &mut found);
        }
        found.retain(|path| {
            let name = path.file_name().unwrap();
            path.extension().is_some_and(|ending| ending == "rs") && name != "tests.rs"
        });
        for path in &found {
            let text = fs::read_to_string(path).unwrap();
            for of_typed in ["clap::", "args::", "typed::"] {
                assert!(!text.contains(of_typed), "{} has {of_typed}", path.display());
            }
        }
        assert!(found.len() > 35, "{} files", found.len());
    }

    /// Passes every command to `then` with its full name, including nested ones.
    fn all(command: &clap::Command, names: &str, then: &mut dyn FnMut(&str, &clap::Command)) {
        then(names, command);
        for own in command.get_subcommands() {
            all(own, &format!("{names} {}", own.get_name()), then);
        }
    }

    /// Checks the rules in `docs/flags.md`.
    #[test]
    fn flags_mean_the_same_in_every_command() {
        let mut seen = 0;
        all(&Cli::command(), "", &mut |names, command| {
            for argument in command.get_arguments() {
                let long = argument.get_long().unwrap_or_default();
                let place = format!("{names} --{long}");
                let value = argument.get_value_names().and_then(<[_]>::first).map(|v| v.as_str());
                let expected = match long {
                    // `monitor` prints events as they come, and never gets to an end where text could follow.
                    "json" if names == " monitor" => value,
                    "json" | "csv" => {
                        assert!(argument.is_require_equals_set(), "{place}");
                        Some("FILE")
                    }
                    "html" | "parquet" | "har" | "run" => Some("FILE"),
                    "svg" | "png" => Some("DIR"),
                    "from" => Some("RUN"),
                    "samples" => {
                        assert_eq!(argument.get_short(), Some('n'), "{place}");
                        Some("N")
                    }
                    _ => value,
                };
                assert_eq!(value, expected, "{place}");
                let of_probe = matches!(names, "" | " probe");
                match argument.get_short() {
                    Some('n') => assert_eq!(long, "samples", "{place}"),
                    // A command with a single result writes it there.
                    Some('o') => {
                        assert!((of_probe || names == " har clean") && long == "output", "{place}");
                    }
                    // As with tcpdump; this is the only exception.
                    Some('w') if names == " wire" => assert_eq!(long, "pcap-out"),
                    Some('w') => assert!(of_probe && long == "write-out", "{place}"),
                    _ => continue,
                }
                seen += 1;
            }
        });
        assert!(seen > 10, "{seen} flags");
    }
}
