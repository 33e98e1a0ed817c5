//! What is nobody else's business, left out of what is shown: a page is sent around and a pipeline's log is read by
//! many. Run files keep the command as it was typed, and are their owner's.

use crate::probe::shown_url::{HIDDEN, without_users};

/// Fields whose values are no secret, and beginnings of their names. All others may let somebody in, by names that
/// nobody can list.
const HARMLESS: [&str; 22] = [
    "accept",
    "accept-*",
    "cache-control",
    "connection",
    "content-*",
    "date",
    "dnt",
    "early-data",
    "expect",
    "host",
    "if-*",
    "origin",
    "pragma",
    "priority",
    "range",
    "save-data",
    "sec-ch-*",
    "sec-fetch-*",
    "te",
    "trailer",
    "upgrade-insecure-requests",
    "user-agent",
];
/// Short flags that have a value behind them; all others can stand together.
const VALUED: &str = "nwomEHXdA";

/// What a flag's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Field,
    Body { can_be_a_file: bool },
}

/// `command` without the values of fields such as `Authorization` and `Cookie`, without bodies, and without users in
/// URLs. Names of files are no secrets.
pub(super) fn secrets(command: &[String]) -> Vec<String> {
    let mut expected = None;
    let mut shown = Vec::with_capacity(command.len());
    for word in command {
        if let Some(value) = expected.take() {
            shown.push(hide(value, word));
            continue;
        }
        let (value, at) = flag(word);
        match (value, at) {
            (Some(value), Some(at)) => {
                let (flag, text) = word.split_at(at);
                shown.push(format!("{flag}{}", hide(value, text)));
            }
            (value, _) => {
                expected = value;
                shown.push(without_users(word));
            }
        }
    }
    shown
}

/// What the value of the flag in `word` is, where it has one to hide, and where in the word it begins,
/// if it does not follow as the next one.
fn flag(word: &str) -> (Option<Value>, Option<usize>) {
    let file = Value::Body { can_be_a_file: true };
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        let value = match name {
            "header" => Value::Field,
            "data" | "data-ascii" | "data-binary" => file,
            "data-raw" => Value::Body { can_be_a_file: false },
            _ => return (None, None),
        };
        return (Some(value), word.find('=').map(|at| at + 1));
    }
    let Some(short) = word.strip_prefix('-') else { return (None, None) };
    let Some((at, flag)) = short.char_indices().find(|(_, flag)| VALUED.contains(*flag)) else {
        return (None, None);
    };
    let value = match flag {
        'H' => Value::Field,
        'd' => file,
        _ => return (None, None),
    };
    let rest = at + 2;
    let rest = rest + usize::from(word[rest..].starts_with('='));
    (Some(value), (rest < word.len()).then_some(rest))
}

fn hide(value: Value, text: &str) -> String {
    match value {
        Value::Body { can_be_a_file: true } if text.starts_with('@') => text.to_owned(),
        Value::Body { .. } => HIDDEN.to_owned(),
        Value::Field => field(text),
    }
}

/// What `-H` says, without a value that may let somebody in.
pub(super) fn field(text: &str) -> String {
    match text.split_once(':') {
        Some((name, value)) if !value.trim().is_empty() && !is_harmless(name) => {
            format!("{name}: {HIDDEN}")
        }
        Some(_) => text.to_owned(),
        // Where the colon was forgotten, the value is behind the first space.
        None => match text.trim_start().split_once(' ') {
            Some((name, value)) if !value.trim().is_empty() => format!("{name} {HIDDEN}"),
            _ => text.to_owned(),
        },
    }
}

fn is_harmless(name: &str) -> bool {
    let name = name.trim().to_ascii_lowercase();
    HARMLESS.iter().any(|harmless| match harmless.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *harmless,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        secrets(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join("|")
    }

    #[test]
    fn values_that_let_somebody_in_are_hidden_however_they_are_typed() {
        for (words, expected) in [
            (&["-H", "Authorization: Basic x"] as &[&str], "-H|Authorization: <hidden>"),
            (&["-Hcookie:a=b"], "-Hcookie: <hidden>"),
            (&["-H=Cookie: a"], "-H=Cookie: <hidden>"),
            (&["-sk4HProxy-Authorization: x", "-s"], "-sk4HProxy-Authorization: <hidden>|-s"),
            (&["-sH", "Cookie: x"], "-sH|Cookie: <hidden>"),
            (&["--header", "X-Api-Key: x"], "--header|X-Api-Key: <hidden>"),
            (&["--header=X-Token: x"], "--header=X-Token: <hidden>"),
            (&["-H", "X-Nobody-Knows:x"], "-H|X-Nobody-Knows: <hidden>"),
            (&["-H", " Authorization : x"], "-H| Authorization : <hidden>"),
            (&["-H", "Authorization Bearer x"], "-H|Authorization <hidden>"),
            (&["-LsH", "Cookie: x"], "-LsH|Cookie: <hidden>"),
            (&["-H", "Referer: https://a/?x"], "-H|Referer: <hidden>"),
            (&["-d", "user=x"], "-d|<hidden>"),
            (
                &["-d@body", "--data", "@body", "--data-raw", "@x"],
                "-d@body|--data|@body|--data-raw|<hidden>",
            ),
            (
                &["-du=x", "--data-binary=x", "--data-ascii", "x"],
                "-d<hidden>|--data-binary=<hidden>|--data-ascii|<hidden>",
            ),
            (
                &["https://me:x@a/?q", "--vary", "site=a:http://x@a:1,b:https://b/@c"],
                "https://<hidden>@a/?q|--vary|site=a:http://<hidden>@a:1,b:https://b/@c",
            ),
        ] {
            assert_eq!(shown(words), expected);
        }
    }

    #[test]
    fn all_else_is_shown_as_it_was_typed() {
        let words = ["firstbyte", "compare", "https://a/?b@c", "-H", "Accept: x", "-H", "Cookie:"];
        assert_eq!(shown(&words), words.join("|"));
        let words = ["-H", "If-None-Match: x", "-HUser-Agent:x", "-H", "X-Empty;", "-H", "Cookie;"];
        assert_eq!(shown(&words), words.join("|"));
        let words = ["-nd", "-A", "Hd", "-XH", "--html", "H", "-4", "-", "--", "-ks", "-H"];
        assert_eq!(shown(&words), words.join("|"));
    }
    #[test]
    fn short_flags_with_values_are_those_of_the_command_line() {
        use clap::CommandFactory;
        let cli = crate::cli::args::Cli::command();
        let of = |command: &clap::Command| -> String {
            let valued = command.get_arguments().filter(|a| a.get_action().takes_values());
            valued.filter_map(clap::Arg::get_short).collect()
        };
        for command in ["probe", "compare", "explain"] {
            let command = cli.get_subcommands().find(|c| c.get_name() == command).unwrap();
            for flag in of(command).chars() {
                assert!(VALUED.contains(flag), "{flag} of {}", command.get_name());
            }
        }
        let probe = cli.get_subcommands().find(|c| c.get_name() == "probe").unwrap();
        assert!(VALUED.chars().all(|flag| of(probe).contains(flag)));
    }
}
