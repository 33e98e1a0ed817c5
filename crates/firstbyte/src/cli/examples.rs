//! Tests: the command lines in the help and the documents can be typed.
//!
//! Each is accepted by the command line's own grammar, and names hosts of shipped scenarios or hosts reserved for
//! examples (RFC 2606, RFC 6761).

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use firstbyte_lab::Scenario;

use super::args::{Cli, Command};
use super::commands::compare::Study;
use super::plan;
use super::typed::Typed;
use crate::plans::{CommandPlan, ComparisonSource};
use crate::prediction::ways::{Requests, Ways};

/// Words that end a command line: what follows belongs to the shell, or is a comment.
const ENDS: [&str; 5] = ["|", ">", ">>", "#", "&&"];

/// Splits a command line into words, as a shell does, up to the end of the command. Two spaces begin a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            (' ', None) => {
                let ends = word.as_ref().is_some_and(|word: &String| word.ends_with(';'));
                words.extend(word.take().map(|word| word.trim_end_matches(';').to_owned()));
                if ends {
                    break;
                }
                let last = words.last().map_or("", String::as_str);
                if letters.peek() == Some(&' ') || ENDS.contains(&last) {
                    break;
                }
            }
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, Some(open)) if letter == open => quote = None,
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    if words.last().is_some_and(|word| ENDS.contains(&word.as_str())) {
        words.pop();
    }
    let url = |word: String| if word == "URL" { "https://example.com/".to_owned() } else { word };
    words.into_iter().map(url).collect()
}

/// Command lines of the program in a text: at the beginning of lines, continued by `\`.
fn command_lines(text: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", "\n\\");
    let mut lines: Vec<String> = Vec::new();
    for line in joined.lines() {
        match (line.strip_prefix('\\'), lines.last_mut()) {
            (Some(more), Some(last)) => {
                let whole = format!("{} {}", last.trim_end(), more.trim_start());
                *last = whole;
            }
            _ => lines.push(line.to_owned()),
        }
    }
    let begins = |line: &String| {
        let line = line.trim_start();
        let line = line.strip_prefix("Example:").unwrap_or(line).trim_start();
        let line = line.strip_prefix("$ ").unwrap_or(line);
        line.starts_with("firstbyte ").then(|| words(line))
    };
    // In a table, a line can begin with the client's name.
    lines.iter().filter_map(begins).filter(|words| words.len() > 1).collect()
}

/// The code in a document: fenced, or indented by four spaces.
fn code(document: &str) -> String {
    let mut fenced = false;
    let mut code = String::new();
    for line in document.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

/// The hosts of a command line's URLs.
fn hosts(words: &[String]) -> impl Iterator<Item = String> {
    let urls = words.iter().filter_map(|word| url::Url::parse(word).ok());
    urls.filter_map(|url| url.host_str().map(str::to_owned))
}

/// Whether the plan of a command line can be carried out, directly and after a round trip through JSON.
fn carried_over(cli: &Cli, typed: &Typed) -> Result<(), String> {
    let plan = plan::command(cli, typed).map_err(|problem| problem.to_string())?;
    let stored = serde_json::to_string(&plan).map_err(|error| error.to_string())?;
    let plan: CommandPlan = serde_json::from_str(&stored).map_err(|error| error.to_string())?;
    assert_eq!(serde_json::to_string(&plan).unwrap(), stored);
    // Values that clap accepts as text: axes and their values.
    match plan {
        CommandPlan::Compare(plan) if matches!(plan.what, ComparisonSource::New { .. }) => {
            Study::new(*plan).map(drop).map_err(|problem| problem.to_string())
        }
        CommandPlan::Predict(plan) => {
            let requests = plan.requests.map(|requests| Requests::every_way(requests.count));
            Ways::read(&plan.vary, requests.as_ref()).map(drop)
        }
        _ => Ok(()),
    }
}

/// What is wrong with a command line, if anything.
fn wrong(words: &[String]) -> Option<String> {
    let (cli, typed) = match Typed::read(words.iter().map(Into::into)) {
        Ok(read) => read,
        Err(error) => return Some(error.to_string()),
    };
    // The contents of files are not checked here.
    let reads_files = words.iter().any(|word| word.starts_with('@'))
        || matches!(&cli.command, Some(Command::Compare(args)) if args.plan.is_some());
    if !reads_files && let Err(why) = carried_over(&cli, &typed) {
        return Some(why);
    }
    let in_lab =
        words.iter().position(|word| word == "--").filter(|_| words[1..3] == ["lab", "run"]);
    let (own, inner) = words.split_at(in_lab.unwrap_or(words.len()));
    let inner = inner.get(1..).unwrap_or_default();
    let names = |scenario: &str| -> Vec<String> {
        let scenario = Scenario::load(scenario).unwrap();
        scenario.servers().flat_map(|server| server.names.clone()).collect()
    };
    let known: Vec<String> = match in_lab {
        Some(_) => names(&own[3]),
        None => Scenario::shipped().flat_map(|(scenario, _)| names(scenario)).collect(),
    };
    let for_examples = |host: &str| {
        ["example.com", "example.org", "localhost", "127.0.0.1"].iter().any(|name| {
            host.strip_suffix(name).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
        })
    };
    let nobody = hosts(words).find(|host| !known.contains(host) && !for_examples(host));
    if let Some(host) = nobody {
        return Some(format!("nobody is called {host}"));
    }
    (inner.first().map(String::as_str) == Some("firstbyte")).then(|| wrong(inner)).flatten()
}

fn check(place: &str, text: &str, wrong_ones: &mut Vec<String>) -> usize {
    let lines = command_lines(text);
    for line in &lines {
        if let Some(why) = wrong(line) {
            wrong_ones.push(format!("{place}: {}\n{why}", line.join(" ")));
        }
    }
    lines.len()
}

#[test]
fn examples_in_help_can_be_typed() {
    fn search(command: &clap::Command, wrong_ones: &mut Vec<String>) -> usize {
        let after = command.get_after_long_help().or(command.get_after_help());
        let text = after.map(ToString::to_string).unwrap_or_default();
        let own = check(&format!("{} --help", command.get_name()), &text, wrong_ones);
        let below: Vec<usize> =
            command.get_subcommands().map(|command| search(command, wrong_ones)).collect();
        own + below.iter().sum::<usize>()
    }
    let mut wrong_ones = Vec::new();
    let found = search(&Cli::command(), &mut wrong_ones);
    assert!(wrong_ones.is_empty(), "{}", wrong_ones.join("\n"));
    assert!(found >= 40, "only {found} examples found");
}

#[test]
fn command_lines_in_documents_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let (mut wrong_ones, mut found) = (Vec::new(), 0);
    for path in pages.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found += check(&name, &code(&text), &mut wrong_ones);
    }
    assert!(wrong_ones.is_empty(), "{}", wrong_ones.join("\n"));
    assert!(found >= 30, "only {found} command lines found");
}

#[test]
fn command_lines_end_where_the_shell_or_a_comment_begins() {
    let text = "  firstbyte compare URL --variant 'HTTP/2: http=2' \\\n      --variant b   two ways\n\
                Example: firstbyte -n 2 URL | jq .a\n$ firstbyte wire a # what";
    let found: Vec<String> = command_lines(text).iter().map(|words| words.join("|")).collect();
    assert_eq!(
        found,
        [
            "firstbyte|compare|https://example.com/|--variant|HTTP/2: http=2|--variant|b",
            "firstbyte|-n|2|https://example.com/",
            "firstbyte|wire|a",
        ]
    );
    let missing =
        ["firstbyte", "lab", "run", "curl-length", "--", "curl", "https://far.curl.test/"];
    let missing = wrong(&missing.map(str::to_owned)).unwrap();
    assert_eq!(missing, "nobody is called far.curl.test");
}
