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
    ("diff", "wire diff BEFORE AFTER"),
    ("dig", "URL"),
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
    if !is_bare(word) {
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

/// Refuses a bare word after `firstbyte monitor` that is close to one of its commands.
pub(super) fn check_monitor(monitor: &Command, urls: &[&str]) -> Result<(), clap::Error> {
    let Some(word) = urls.first().filter(|word| is_bare(word)) else { return Ok(()) };
    let names = monitor.get_subcommands().map(Command::get_name);
    let all: Vec<&str> = names.filter(|name| *name != "help").collect();
    let is_task = ["status", "list", "report", "help", "demo", "start", "stop"].contains(word);
    let nearest = nearest(word, all.iter().copied());
    if nearest.is_none() && !is_task {
        return Ok(());
    }
    let remedy = match nearest {
        Some(name) => format!("try: firstbyte monitor {name}"),
        None => format!("its commands: {}", all.join(", ")),
    };
    let text = format!(
        "\"{word}\" is not a command of monitor\n  {remedy}\n  to measure a host of this name: firstbyte monitor \
         https://{word}/\n"
    );
    Err(clap::Error::raw(ErrorKind::InvalidSubcommand, text))
}

fn is_bare(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphabetic() || c == '-') && word != "localhost"
}

/// What to type after `firstbyte` instead of `word`.
fn meant(command: &Command, word: &str) -> Option<String> {
    if let Some((_, task)) = TASKS.iter().find(|(task, _)| *task == word) {
        return Some((*task).to_owned());
    }
    nearest(word, command.get_subcommands().map(Command::get_name)).map(str::to_owned)
}

fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let (distance, name) =
        names.map(|name| (strsim::damerau_levenshtein(word, name), name)).min()?;
    // One letter of a short word, two of a longer one.
    let is_close = distance <= 1 + usize::from(word.len() > 4);
    is_close.then_some(name)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::TASKS;
    use crate::cli::typed::Typed;

    fn refused(words: &[&str]) -> Option<String> {
        let words = ["firstbyte"].iter().chain(words).map(OsString::from);
        Typed::read(words).err().map(|error| error.to_string())
    }

    #[test]
    fn a_word_that_is_meant_as_a_command_is_refused_with_what_to_type() {
        for (word, meant) in [
            ("explan", "firstbyte explain\n"),
            ("comapre", "firstbyte compare\n"),
            ("predcit", "firstbyte predict\n"),
            ("trace", "firstbyte --sequence URL\n"),
            ("ping", "firstbyte -n 10 URL\n"),
            ("bench", "firstbyte -n 100 URL\n"),
            ("httpstat", "firstbyte URL\n"),
            ("events", "firstbyte monitor events\n"),
        ] {
            for words in [&[word] as &[&str], &[word, "https://example.com/"]] {
                let text = refused(words).unwrap_or_else(|| panic!("{words:?} is a URL"));
                assert!(text.contains(meant), "{words:?}: {text}");
                assert!(text.contains(&format!("firstbyte https://{word}/")), "{text}");
            }
        }
        let text = refused(&["monitor", "evnts"]).unwrap();
        assert!(text.contains("try: firstbyte monitor events\n"), "{text}");
        assert!(refused(&["monitor", "status"]).is_some());
        let text = refused(&["frobnicate", "https://example.com/"]).unwrap();
        assert!(text.contains("\"frobnicate\" is not a command"), "{text}");
    }

    #[test]
    fn hosts_stay_hosts() {
        for words in [
            &["localhost"] as &[&str],
            &["intranet"],
            &["nas"],
            &["example.com"],
            &["explan.test"],
            &["localhost:8080"],
            &["probe", "ping"],
            &["https://ping/"],
            &["10.0.0.1"],
            &["monitor", "intranet"],
        ] {
            assert_eq!(refused(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_list_of_tasks_is_sorted() {
        assert!(TASKS.is_sorted_by_key(|(task, _)| *task));
    }
}
