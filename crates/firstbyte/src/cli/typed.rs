//! The parsed command line, flag by flag. The type of a value marks those that may contain secrets.
//!
//! So a command can be shown and reconstructed without parsing its words again.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::fmt;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches};

use super::args::{Cli, Command};
use super::{first_word, help, misplaced};
use firstbyte_core::shown_url::{HIDDEN, shown_url, shown_urls_within};

/// A header field as given to `-H`.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct FieldText(pub String);
/// A body, or `@` and the name of a file with the body.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct BodyText(pub String);
/// A body that is never read from a file.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RawBodyText(pub String);
/// A URL, perhaps without a scheme.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct UrlText(pub String);
/// A text that may contain URLs: an axis and its values.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct AxisText(pub String);

/// Renders a text without its secrets.
type Shown = fn(&str) -> String;

/// The types of values that may contain secrets.
fn secret_types() -> [(TypeId, Shown); 5] {
    [
        (TypeId::of::<FieldText>(), field),
        (TypeId::of::<BodyText>(), |text| match text.starts_with('@') {
            true => text.to_owned(),
            false => HIDDEN.to_owned(),
        }),
        (TypeId::of::<RawBodyText>(), |_| HIDDEN.to_owned()),
        (TypeId::of::<UrlText>(), shown_url),
        (TypeId::of::<AxisText>(), shown_urls_within),
    ]
}

macro_rules! secret_text {
    ($($name:ident)+) => {$(
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(HIDDEN)
            }
        }
    )+};
}
secret_text!(FieldText BodyText RawBodyText UrlText AxisText);

#[derive(Clone, Debug)]
pub(super) struct Typed {
    command: String,
    flags: Vec<TypedFlag>,
}

/// A flag or an operand, with one value.
#[derive(Clone, Debug)]
struct TypedFlag {
    id: String,
    /// Its position on the command line.
    at: usize,
    /// Absent for operands.
    long: Option<String>,
    /// Whether the value follows an equals sign.
    is_joined: bool,
    value: Option<OsString>,
    shown: Option<String>,
}

impl Typed {
    /// Parses `arguments`, the program's name first.
    ///
    /// # Errors
    /// The parse error, or the requested help.
    pub(super) fn read(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(Cli, Self), clap::Error> {
        let mut definition = help::long(Cli::command());
        let words: Vec<OsString> = arguments.into_iter().collect();
        let matches = definition.try_get_matches_from_mut(&words).map_err(|error| {
            // clap reports `-h` and `--help` as the same error.
            let is_short = error.kind() == ErrorKind::DisplayHelp
                && words.iter().any(|word| word.to_str().is_some_and(asks_for_short_help));
            let short = || help::short(Cli::command()).try_get_matches_from_mut(&words).err();
            let error = is_short.then(short).flatten().unwrap_or(error);
            misplaced::explained(error, &words)
        })?;
        check_operands(&definition, &matches)?;
        let cli =
            Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))?;
        let typed = match matches.subcommand() {
            Some((name, own)) => match definition.find_subcommand(name) {
                Some(command) => Self::new(name, command, own),
                None => Self { command: name.to_owned(), flags: Vec::new() },
            },
            None => Self::new("", &definition, &matches),
        };
        match (&cli.command, definition.find_subcommand("monitor")) {
            (None, _) => {
                let urls: Vec<&str> = cli.probe.urls.iter().map(|url| &*url.0).collect();
                first_word::check(&definition, &urls)?;
            }
            (Some(Command::Monitor(args)), Some(monitor)) => {
                let urls: Vec<&str> = args.urls.iter().map(|url| &*url.0).collect();
                first_word::check_monitor(monitor, &urls)?;
            }
            _ => {}
        }
        Ok((cli, typed))
    }

    fn new(name: &str, command: &clap::Command, matches: &ArgMatches) -> Self {
        let flags = command.get_arguments().flat_map(|argument| TypedFlag::all(argument, matches));
        let mut flags: Vec<TypedFlag> = flags.collect();
        flags.sort_by_key(|flag| flag.at);
        Self { command: name.to_owned(), flags }
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.flags.iter().any(|flag| flag.id == id)
    }

    /// The first typed argument that is not one of `ids`.
    pub(super) fn other_than(&self, ids: &[String]) -> Option<String> {
        let other = self.flags.iter().find(|flag| !ids.contains(&flag.id))?;
        Some(other.long.as_ref().map_or_else(|| other.id.clone(), |long| format!("--{long}")))
    }

    /// The words that repeat the command line after the command's name, without the arguments `but`.
    pub(super) fn words_but(&self, but: &[&str]) -> Vec<OsString> {
        let mut words = Vec::new();
        for flag in self.flags.iter().filter(|flag| !but.contains(&flag.id.as_str())) {
            match (&flag.long, &flag.value) {
                (Some(long), Some(value)) => {
                    let mut word = OsString::from(format!("--{long}="));
                    word.push(value);
                    words.push(word);
                }
                (Some(long), None) => words.push(format!("--{long}").into()),
                (None, value) => words.extend(value.clone()),
            }
        }
        words
    }

    /// The command without secrets, so that it can be shown to anyone.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut words = vec!["firstbyte".to_owned()];
        words.extend(Some(self.command.clone()).filter(|name| !name.is_empty()));
        for flag in &self.flags {
            let long = flag.long.as_ref().map(|long| format!("--{long}"));
            match (long, &flag.shown) {
                // These values stand for a flag without one: `--concurrent`, `--json`.
                (Some(long), Some(value)) if flag.is_joined && matches!(&**value, "" | "-") => {
                    words.push(long);
                }
                (Some(long), Some(value)) if flag.is_joined => {
                    words.push(format!("{long}={value}"));
                }
                (long, value) => {
                    words.extend(long);
                    words.extend(value.clone());
                }
            }
        }
        words
    }
}

/// Whether a word is `-h`, alone or among short flags that take no value.
fn asks_for_short_help(word: &str) -> bool {
    let flags = word.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
    flags.is_some_and(|flags| {
        flags.ends_with('h') && flags.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Checks the operands of the command and of its subcommands.
fn check_operands(
    mut command: &clap::Command,
    mut matches: &ArgMatches,
) -> Result<(), clap::Error> {
    while let Some((name, own)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { return Ok(()) };
        (command, matches) = (found, own);
    }
    misplaced::check(command, matches)
}

impl TypedFlag {
    fn all(argument: &Arg, matches: &ArgMatches) -> Vec<Self> {
        let id = argument.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            return Vec::new();
        }
        let places = matches.indices_of(id).into_iter().flatten();
        let flag = |at, value: Option<&OsStr>| Self {
            id: id.to_owned(),
            at,
            long: argument.get_long().map(str::to_owned),
            is_joined: argument.is_require_equals_set(),
            value: value.map(OsStr::to_owned),
            shown: value.map(|value| shown(argument, value)),
        };
        if argument.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            places.zip(values).map(|(at, value)| flag(at, Some(value))).collect()
        } else {
            places.take(1).map(|at| flag(at, None)).collect()
        }
    }
}

fn shown(argument: &Arg, value: &OsStr) -> String {
    let text = value.to_string_lossy();
    let of = argument.get_value_parser().type_id();
    match secret_types().into_iter().find(|(secret, _)| of == *secret) {
        Some((_, shown)) => shown(&text),
        None => text.into_owned(),
    }
}

/// Names, or prefixes of names, of fields whose values are not secret.
///
/// All others are treated as secrets, because nobody can list the names of all secret fields.
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

/// The field given to `-H`, with its value hidden if it may be secret.
pub(super) fn field(text: &str) -> String {
    match text.split_once(':') {
        Some((name, value)) if !value.trim().is_empty() && !is_harmless(name) => {
            format!("{name}: {HIDDEN}")
        }
        Some(_) => text.to_owned(),
        // If the colon is missing, the value starts after the first space.
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

    fn read(words: &[&str]) -> (Cli, Typed) {
        let words = ["firstbyte"].iter().chain(words).map(OsString::from);
        Typed::read(words).unwrap_or_else(|error| panic!("{error}"))
    }

    fn shown(words: &[&str]) -> String {
        let words = [&["compare", "a.test", "--aa"], words].concat();
        let shown = read(&words).1.shown();
        assert_eq!(shown[..4], ["firstbyte", "compare", "a.test", "--aa"]);
        shown[4..].join("|")
    }

    #[test]
    fn values_that_let_somebody_in_are_hidden_however_they_are_typed() {
        for (words, expected) in [
            (&["-H", "Authorization: Basic x"] as &[&str], "--header|Authorization: <hidden>"),
            (&["-Hcookie:a=b"], "--header|cookie: <hidden>"),
            (&["-H=Cookie: a"], "--header|Cookie: <hidden>"),
            (
                &["-sk4HProxy-Authorization: x", "-6"],
                "--silent|--insecure|--ipv4|--header|Proxy-Authorization: <hidden>|--ipv6",
            ),
            (&["--header=X-Token: x"], "--header|X-Token: <hidden>"),
            (&["-H", "X-Nobody-Knows:x"], "--header|X-Nobody-Knows: <hidden>"),
            (&["-H", " Authorization : x"], "--header| Authorization : <hidden>"),
            (&["-H", "Authorization Bearer x"], "--header|Authorization <hidden>"),
            (&["-H", "Referer: https://a/?x"], "--header|Referer: <hidden>"),
            (&["-d", "user=x"], "--data|<hidden>"),
            (
                &["-d@body", "--data", "@body", "--data-raw", "@x"],
                "--data|@body|--data|@body|--data-raw|<hidden>",
            ),
            (
                &["-du=x", "--data-binary=x", "--data-ascii", "x"],
                "--data|<hidden>|--data-binary|<hidden>|--data|<hidden>",
            ),
            (
                &["--vary", "site=a:http://x@a:1/?k=x&y,b:https://b/@c"],
                "--vary|site=a:http://<hidden>@a:1/?k=<hidden>&<hidden>,b:https://b/@c",
            ),
        ] {
            let words: Vec<&str> = words
                .iter()
                .map(|word| if *word == "-6" { "--compressed" } else { word })
                .collect();
            assert_eq!(shown(&words), expected.replace("--ipv6", "--compressed"));
        }
        let (_, typed) = read(&["https://me@a.test/?k=x#y"]);
        assert_eq!(typed.shown(), ["firstbyte", "https://<hidden>@a.test/?k=<hidden>"]);
    }

    #[test]
    fn all_else_is_shown_as_it_was_meant() {
        let words = [
            "--header",
            "Accept: x",
            "--header",
            "Cookie:",
            "--header",
            "Cookie;",
            "--user-agent",
            "Hd",
        ];
        assert_eq!(shown(&words), words.join("|"));
        assert_eq!(shown(&["-n", "3", "--concurrent"]), "--samples|3|--concurrent");
        assert_eq!(shown(&["--concurrent=tls", "--color=never"]), "--concurrent=tls|--color|never");
    }

    #[test]
    fn what_was_typed_can_be_typed_again_but_for_some() {
        let words = [
            "compare",
            "--plan",
            "p.toml",
            "-n3",
            "-H",
            "A: b",
            "-d-x",
            "--concurrent",
            "--",
            "a.test",
        ];
        let (_, typed) = read(&words);
        assert!(typed.has("samples") && !typed.has("seed"));
        assert_eq!(
            typed.other_than(&["plan".into(), "samples".into()]).as_deref(),
            Some("--header")
        );
        let again = typed.words_but(&["plan"]);
        let again: Vec<&str> = again.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(again, ["--samples=3", "--header=A: b", "--data=-x", "--concurrent=", "a.test"]);
        let again = [&["compare"], &again[..]].concat();
        assert_eq!(read(&again).1.words_but(&[]), typed.words_but(&["plan"]));
    }

    #[test]
    fn secrets_do_not_print() {
        let (cli, typed) = read(&[
            "-H",
            "Cookie: s3cret",
            "-d",
            "s3cret",
            "--data-raw",
            "s3cret",
            "a.test?s3cret",
        ]);
        assert!(!format!("{cli:?}").contains("s3cret"));
        assert!(!typed.shown().concat().contains("s3cret"));
    }
}
