//! Detects a mistyped command such as `firstbyte explan`, which would otherwise be looked up as a host.
//!
//! In: the command line's grammar and the typed URLs. Out: an error that suggests what to type. It never queries DNS.

use clap::Command;
use clap::error::ErrorKind;

/// Names of other tools and of tasks, with the corresponding command.
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

/// Refuses a bare word that is close to a command, names a task, or comes before a URL.
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

/// Words typed after `firstbyte monitor` that belong elsewhere, with what to type instead.
const MONITOR_TASKS: [(&str, &str); 6] = [
    ("check", "monitor --config FILE --check-config"),
    ("list", "monitor status"),
    ("note", "monitor annotate TEXT"),
    ("report", "report DIR --since 7d"),
    ("reload", "monitor --config FILE, and send it SIGHUP"),
    ("start", "monitor --config FILE"),
];

/// Refuses a first word after `firstbyte monitor` that is neither a command nor looks like a URL.
///
/// Otherwise it would be monitored as a host, and nobody would notice for months.
pub(super) fn check_monitor(monitor: &Command, urls: &[&str]) -> Result<(), clap::Error> {
    let Some(word) = urls.first().filter(|word| !looks_like_url(word)) else { return Ok(()) };
    let names = monitor.get_subcommands().map(Command::get_name);
    let all: Vec<&str> = names.filter(|name| *name != "help").collect();
    let task = MONITOR_TASKS.iter().find(|(task, _)| task == word);
    let (guess, remedy) = match (task, nearest(word, all.iter().copied())) {
        (Some((_, task)), _) => (String::new(), format!("try: firstbyte {task}")),
        (None, Some(name)) => {
            (format!("; did you mean {name}?"), format!("try: firstbyte monitor {name}"))
        }
        (None, None) => (String::new(), format!("its commands: {}", all.join(", "))),
    };
    let text = format!(
        "\"{word}\" is not a command of monitor{guess}\n  {remedy}\n  to measure a host of this name: \
         firstbyte monitor https://{word}/\n"
    );
    Err(clap::Error::raw(ErrorKind::InvalidSubcommand, text))
}

/// Whether a word may be meant as a URL or a host.
fn looks_like_url(word: &str) -> bool {
    word.contains(['.', '/', ':']) || word.eq_ignore_ascii_case("localhost")
}

fn is_bare(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphabetic() || c == '-') && word != "localhost"
}

/// Suggests what to type after `firstbyte` instead of `word`.
fn meant(command: &Command, word: &str) -> Option<String> {
    if let Some((_, task)) = TASKS.iter().find(|(task, _)| *task == word) {
        return Some((*task).to_owned());
    }
    nearest(word, command.get_subcommands().map(Command::get_name)).map(str::to_owned)
}

fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let (distance, name) =
        names.map(|name| (strsim::damerau_levenshtein(word, name), name)).min()?;
    // Allow one wrong letter in a short word, two in a longer one.
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
        for (word, part) in [
            ("evnets", "did you mean events?\n  try: firstbyte monitor events\n"),
            ("evnts", "did you mean events?"),
            ("statsu", "did you mean status?"),
            ("report", "try: firstbyte report DIR --since 7d\n"),
            ("intranet", "its commands: demo, status, events, annotate, export\n"),
            ("web1", "firstbyte monitor https://web1/\n"),
        ] {
            let text = refused(&["monitor", word]).unwrap_or_else(|| panic!("{word} is a host"));
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(refused(&["monitor", "status"]), None);
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
            &["monitor", "intranet:80"],
            &["monitor", "localhost"],
            &["monitor", "http://intranet"],
            &["monitor", "[::1]"],
        ] {
            assert_eq!(refused(words), None, "{words:?}");
        }
    }

    #[test]
    fn the_list_of_tasks_is_sorted() {
        assert!(TASKS.is_sorted_by_key(|(task, _)| *task));
    }
}
