//! A first word that is meant as a command, but is not one: `firstbyte explan`. It would be looked up as a host.
//!
//! In: the command line's grammar and the URLs typed. Out: an error with what to type. It never asks DNS.

use clap::Command;
use clap::error::ErrorKind;

/// Names of other tools and of tasks, and the command for them.
const TASKS: [(&str, &str); 34] = [
    ("ab", "compare"),
    ("analyse", "wire FILE"),
    ("analyze", "wire FILE"),
    ("bench", "-n 100 URL"),
    ("benchmark", "-n 100 URL"),
    ("capture", "wire -i INTERFACE"),
    ("completion", "completions SHELL"),
    ("config", "monitor --config FILE"),
    ("dig", "URL"),
    ("diff", "wire diff BEFORE AFTER"),
    ("events", "monitor events"),
    ("hey", "-n 100 URL"),
    ("history", "monitor events"),
    ("httpstat", "URL"),
    ("hyperfine", "compare URL --vary AXIS=VALUE,VALUE"),
    ("import", "report FILE"),
    ("list", "lab list"),
    ("measure", "URL"),
    ("mtr", "--sequence URL"),
    ("netlog", "report FILE"),
    ("oha", "-n 100 URL"),
    ("ping", "-n 10 URL"),
    ("plan", "compare --plan FILE"),
    ("run", "lab run SCENARIO -- COMMAND"),
    ("scenarios", "lab list"),
    ("server", "serve"),
    ("sniff", "wire -i INTERFACE"),
    ("study", "lab study SCENARIO"),
    ("tcpdump", "wire -i INTERFACE"),
    ("test", "URL"),
    ("trace", "--sequence URL"),
    ("traceroute", "--sequence URL"),
    ("tshark", "wire FILE"),
    ("wireshark", "wire FILE"),
];

/// Refuses a bare word that is close to a command, is the name of a task, or stands before a URL.
pub(super) fn check(command: &Command, urls: &[&str]) -> Result<(), clap::Error> {
    let Some((word, rest)) = urls.split_first() else { return Ok(()) };
    let is_bare = word.chars().all(|c| c.is_ascii_alphabetic() || c == '-') && *word != "localhost";
    if !is_bare {
        return Ok(());
    }
    let word = word.to_ascii_lowercase();
    let remedy = match meant(command, &word) {
        Some(meant) => format!("try: firstbyte {meant}"),
        None if rest.iter().any(|other| other.contains("://")) => {
            "firstbyte -h lists the commands".to_owned()
        }
        None => return Ok(()),
    };
    let text = format!(
        "\"{word}\" is not a command\n  {remedy}\n  to measure a host of this name: firstbyte https://{word}/\n"
    );
    Err(clap::Error::raw(ErrorKind::InvalidSubcommand, text))
}

/// What to type after `firstbyte` instead of `word`.
fn meant(command: &Command, word: &str) -> Option<String> {
    if let Some((_, task)) = TASKS.iter().find(|(task, _)| *task == word) {
        return Some((*task).to_owned());
    }
    let names = command.get_subcommands().map(Command::get_name);
    let (distance, name) =
        names.map(|name| (strsim::damerau_levenshtein(word, name), name)).min()?;
    // One letter of a short word, two of a longer one.
    let is_close = distance <= 1 + usize::from(word.len() > 4);
    is_close.then(|| name.to_owned())
}
