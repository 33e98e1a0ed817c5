//! Shell completions and manual pages, generated from the command line's own grammar.
//!
//! In: the grammar, and the known values: scenarios, axes, clients. Out: text.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command};
use clap_complete::Shell;
use firstbyte_lab::Scenario;
use firstbyte_probe::experiment::axis;

use crate::plans::GeneratedFile;
use crate::prediction::ways;

const NAME: &str = "firstbyte";
const CLIENTS: [&str; 4] = ["firstbyte", "curl", "chromium", "firefox"];

/// The completion script for a shell.
pub(super) fn completions(shell: Shell, command: Command) -> GeneratedFile {
    let mut command = with_known_values(command);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, NAME, &mut script);
    if shell == Shell::Fish {
        script.extend(scenarios_for_fish().into_bytes());
    }
    GeneratedFile { name: format!("{NAME}.{shell}"), content: script }
}

/// `clap_complete` does not complete values of operands in fish, so add the scenarios by hand.
fn scenarios_for_fish() -> String {
    let names: Vec<&str> = Scenario::shipped().map(|(name, _)| name).collect();
    format!(
        "complete -c {NAME} -n \"__fish_{NAME}_using_subcommand lab; and __fish_seen_subcommand_from run shell \
         up exec down study show\" -f -a \"{}\"\n",
        names.join(" ")
    )
}

/// The manual pages: `firstbyte(1)` first, then one for each command.
pub(super) fn manual_pages(command: Command) -> std::io::Result<Vec<GeneratedFile>> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_page(&command, NAME, &mut pages)?;
    Ok(pages)
}

fn add_page(command: &Command, name: &str, pages: &mut Vec<GeneratedFile>) -> std::io::Result<()> {
    let mut content = Vec::new();
    clap_mangen::Man::new(command.clone().name(name.to_owned())).render(&mut content)?;
    pages.push(GeneratedFile { name: format!("{name}.1"), content });
    let commands = command.get_subcommands().filter(|command| command.get_name() != "help");
    commands
        .into_iter()
        .try_for_each(|own| add_page(own, &format!("{name}-{}", own.get_name()), pages))
}

/// Adds known values that are parsed elsewhere. Only completions use this: a scenario can also be a file.
fn with_known_values(command: Command) -> Command {
    let in_predict = command.get_name() == "predict";
    command
        .mut_args(|argument| {
            let values: Vec<String> = match argument.get_id().as_str() {
                "scenario" => Scenario::shipped().map(|(name, _)| name.to_owned()).collect(),
                "vary" if in_predict => ways::axes().map(complete_axis).collect(),
                "vary" => axis::axes().map(complete_axis).collect(),
                "client" => CLIENTS.map(str::to_owned).to_vec(),
                "resolver" => listed("dns, system"),
                "parallel" => listed("1, 6, h2, h3"),
                _ => return argument,
            };
            offering(argument, values)
        })
        .mut_subcommands(with_known_values)
}

fn offering(argument: Arg, values: Vec<String>) -> Arg {
    argument.value_parser(PossibleValuesParser::new(values))
}

/// `tls=1.2,1.3` if all values are known, else just `site=`.
fn complete_axis((name, values): (&str, &str)) -> String {
    let known = listed(values);
    match known.len() {
        0 | 1 => format!("{name}="),
        _ => format!("{name}={}", known.join(",")),
    }
}

/// The plain words at the beginning of a list; the part in parentheses is an explanation for people.
fn listed(values: &str) -> Vec<String> {
    let values = values.split(" (").next().unwrap_or_default().split(", ");
    let is_plain =
        |value: &&str| value.chars().all(|c| c.is_ascii_lowercase() || ".0123456789".contains(c));
    values.take_while(is_plain).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::super::args::Cli;
    use super::*;

    fn script(shell: Shell) -> String {
        String::from_utf8(completions(shell, Cli::command()).content).unwrap()
    }

    #[test]
    fn completions_know_scenarios_axes_and_values() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            // In fish scripts, commas are escaped.
            let text = script(shell).replace("\\,", ",");
            for known in [
                "curl-length",
                "tls=1.2,1.3",
                "session=full,resumed,0rtt",
                "tls=none,1.2,1.3",
                "site=",
            ] {
                assert!(text.contains(known), "{shell}: {known}");
            }
        }
    }

    #[test]
    fn every_command_has_a_manual_page_with_all_of_its_flags() {
        let pages = manual_pages(Cli::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|page| &*page.name).collect();
        assert_eq!(names[0], "firstbyte.1");
        for name in ["firstbyte-compare.1", "firstbyte-lab-run.1", "firstbyte-wire-diff.1"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let compare = pages.iter().find(|page| page.name == "firstbyte-compare.1").unwrap();
        let compare = String::from_utf8_lossy(&compare.content).replace('\\', "");
        for flag in ["--vary", "--resolve", "--until", "--tlsv1.3"] {
            assert!(compare.contains(flag), "{flag} is missing:\n{compare}");
        }
    }
}
