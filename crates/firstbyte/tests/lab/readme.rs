//! Runs the README's examples as typed and compares their output with the README. Figures may differ a little, and a
//! line `…` stands for any number of lines.

use std::path::Path;
use std::process::Command;

use crate::support::{PROGRAM, Permits};

/// Machines differ: figures above 100 may be off by this share …
const SHARE: f64 = 0.1;
/// … and all figures but small whole numbers by this amount: milliseconds of processor time.
const ABSOLUTE: f64 = 6.0;

/// It prints times of day and runs until it is stopped. The test of the demo compares it with the README.
const CHECKED_ELSEWHERE: &str = "firstbyte monitor demo";

/// A command line and its expected output.
struct Example {
    command: String,
    shown: Vec<String>,
}

/// The complete lines that the README shows for a command, without the `…` lines.
pub(crate) fn lines_shown(command: &str) -> Vec<String> {
    let examples = examples(include_str!("../../../../README.md"));
    let example = examples.into_iter().find(|example| example.command == command);
    let mut whole: Vec<String> = Vec::new();
    for line in example.unwrap_or_else(|| panic!("no example of {command}")).shown {
        match whole.last_mut() {
            // A line that is too long for the README continues on the next one, indented.
            Some(last) if line.starts_with(' ') => {
                last.push(' ');
                last.push_str(line.trim_start());
            }
            _ if line == "…" => {}
            _ => whole.push(line),
        }
    }
    whole
}

/// A line without times of day, dates and durations: "down from 13:28:04 to 13:36:10 (8 min 6 s)".
pub(crate) fn without_times(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let of_time = |(at, word): (usize, &&str)| {
        let plain = |c: char| !c.is_ascii_alphanumeric();
        let is_number = word.trim_matches(plain).chars().all(|c| c.is_ascii_digit());
        let next = words.get(at + 1).map_or("", |next| next.trim_matches(plain));
        let is_month = |word: &str| word.parse::<time::Month>().is_ok();
        let is_count = is_number && (["s", "min", "h"].contains(&next) || is_month(next));
        let is_clock = word.contains(':') && word.starts_with(|c: char| c.is_ascii_digit());
        is_count || is_clock || is_month(word.trim_matches(plain))
    };
    let all = words.iter().enumerate();
    let kept = all.map(|word| if of_time(word) { "TIME" } else { word.1 });
    kept.collect::<Vec<_>>().join(" ")
}

fn examples(readme: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in readme.split("```text\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => {
                    examples.push(Example { command: command.to_owned(), shown: Vec::new() });
                }
                None => examples.last_mut().unwrap().shown.push(line.to_owned()),
            }
        }
    }
    examples
}

/// The words of a line without drawing characters, and its figures.
fn taken_apart(line: &str) -> (String, Vec<String>) {
    let (mut words, mut figures) = (String::new(), Vec::new());
    let mut figure = String::new();
    for letter in line.chars().chain([' ']) {
        match letter {
            '0'..='9' => figure.push(letter),
            '.' | ',' if !figure.is_empty() => figure.push(letter),
            _ => {
                if !figure.is_empty() {
                    figures.push(std::mem::take(&mut figure).trim_end_matches('.').to_owned());
                    words.push('#');
                }
                if !"━┊┿▏▒▓█░▄◆┴─".contains(letter) {
                    words.push(letter);
                }
            }
        }
    }
    (words.split_whitespace().collect::<Vec<_>>().join(" "), figures)
}

fn is_close(shown: &str, printed: &str) -> bool {
    let number = |text: &str| text.replace(',', "").parse::<f64>();
    match (number(shown), number(printed)) {
        // Counts of samples, round trips, versions.
        (Ok(a), Ok(_)) if a < 100.0 && !shown.contains('.') => shown == printed,
        (Ok(a), Ok(b)) => (a - b).abs() <= (SHARE * a).max(ABSOLUTE),
        // An address.
        _ => shown == printed,
    }
}

/// Joins an equation's continuation lines.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    for line in lines {
        match joined.last_mut() {
            Some(last) if line.trim_start().starts_with(['+', '±']) => {
                last.push(' ');
                last.push_str(line.trim_start());
            }
            _ => joined.push(line.to_owned()),
        }
    }
    joined
}

/// Compares equations term by term.
///
/// On a busy host there are additional and uncertain terms (`± 2.0`): a term may differ by its own uncertainty, and an
/// additional term is accepted if it is less than a millisecond, or may be zero within its uncertainty.
pub(crate) fn is_alike(shown: &str, printed: &str) -> bool {
    let ((Some(shown), Some(printed)), true) =
        ((shown.split_once(" = "), printed.split_once(" = ")), shown.contains(" + "))
    else {
        return is_alike_as_text(shown, printed);
    };
    let mut shown_terms = shown.1.split(" + ").peekable();
    for term in printed.1.split(" + ") {
        // On a busy host, less than a millisecond between two segments counts as a pause.
        let term = term.replace("pause 0.", "transfer 0.");
        let (term, uncertainty) = without_uncertainty(&term);
        if shown_terms.next_if(|shown| is_term(shown, term, uncertainty)).is_some() {
            continue;
        }
        let is_variation = term.starts_with("variation ");
        let is_small = amount(term).is_some_and(|amount| amount < 1.0 || amount <= uncertainty);
        if !is_variation && !is_small {
            return false;
        }
    }
    shown_terms.next().is_none() && is_alike_as_text(shown.0, printed.0)
}

/// Whether two terms are equal within the uncertainty. Round trips are never uncertain.
fn is_term(shown: &str, printed: &str, uncertainty: f64) -> bool {
    let shown = without_uncertainty(shown).0;
    let (Some(a), Some(b)) = (amount(shown), amount(printed)) else { return false };
    is_alike_as_text(shown, printed)
        || !shown.contains('×')
            && taken_apart(shown).0 == taken_apart(printed).0
            && (a - b).abs() <= uncertainty
}

/// A term without its `±`, and the milliseconds after the `±`.
fn without_uncertainty(term: &str) -> (&str, f64) {
    let (term, uncertainty) = term.split_once(" ± ").unwrap_or((term, "0"));
    (term, amount(uncertainty).unwrap())
}

/// The milliseconds at the end of a term.
fn amount(term: &str) -> Option<f64> {
    term.trim_end_matches(" ms").rsplit(' ').next()?.parse().ok()
}

fn is_alike_as_text(shown: &str, printed: &str) -> bool {
    let ((shown, figures), (printed, others)) = (taken_apart(shown), taken_apart(printed));
    shown == printed
        && figures.len() == others.len()
        && figures.iter().zip(&others).all(|(a, b)| is_close(a, b))
}

/// The first line of the README that is missing from the output.
fn missing<'a>(shown: &'a [String], printed: &[String]) -> Option<&'a str> {
    let (mut at, mut skips) = (0, false);
    for line in shown {
        if line == "…" {
            skips = true;
            continue;
        }
        let rest = printed.get(at..).unwrap_or_default();
        let found = rest.iter().position(|other| is_alike(line, other));
        match found {
            Some(lines) if lines == 0 || skips => at += lines + 1,
            _ => return Some(line),
        }
        skips = false;
    }
    (!skips && at < printed.len()).then_some("(the output goes on)")
}

#[test]
fn examples_of_the_readme_print_what_it_shows() {
    let _permits = Permits::all();
    let readme = include_str!("../../../../README.md");
    let directory = tempfile::tempdir().unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", Path::new(PROGRAM).parent().unwrap().display());
    let examples = examples(readme);
    assert!(examples.len() >= 5, "only {} examples", examples.len());
    let examples = examples.iter().filter(|example| example.command != CHECKED_ELSEWHERE);
    for Example { command, shown } in examples {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(directory.path())
            .env("PATH", &path)
            .env("COLUMNS", "80")
            .env("LANG", "C.UTF-8")
            .output()
            .unwrap();
        let (out, err) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command}: {err}");
        let printed = joined(out.lines().map(str::trim_end));
        let shown = joined(shown.iter().map(String::as_str));
        if let Some(line) = missing(&shown, &printed) {
            panic!(
                "$ {command}\nthe README shows a line that is not printed:\n{line}\nprinted:\n{out}\n{err}"
            );
        }
    }
}

#[test]
fn figures_may_differ_a_little_and_words_may_not() {
    assert!(is_alike("tls 562.8 ms ┊━━┊", "tls 563.9 ms  ┊━━━┊"));
    assert!(!is_alike("tls 562.8 ms", "tls 862.8 ms"));
    let shown = "total 83.4 ms = DNS 1.2 + TCP 1 × 82.1";
    assert!(is_alike(shown, &format!("{shown} + TCP beyond a round trip 0.1")));
    assert!(is_alike(shown, &format!("{shown} + pause (request) 0.1")));
    assert!(!is_alike(shown, &format!("{shown} + TCP beyond a round trip 20.1")));
    assert!(is_alike(shown, &format!("{shown} + TCP beyond a round trip 1.9 ± 2.0")));
    assert!(!is_alike(shown, &format!("{shown} + pause 5.0 ± 2.0")));
    assert!(!is_alike(shown, "total 83.4 ms = DNS 1.2"));
    assert!(is_alike(shown, "total 83.4 ms = DNS 9.2 ± 9.0 + TCP 1 × 82.1"));
    assert!(!is_alike(shown, "total 83.4 ms = DNS 9.2 + TCP 1 × 82.1"));
    assert!(!is_alike(shown, "total 83.4 ms = DNS 1.2 + TCP 2 × 82.1 ± 90.0"));
    assert!(!is_alike("4 round trips × 280.2 ms", "5 round trips × 280.2 ms"));
    assert!(!is_alike("TLS 1.3 cut", "TLS 1.3 raised"));
    let line = "2026-11-27T13:36:12Z up again: a.test: down from 13:28:04 to 13:36:10 (8 min 6 s).";
    let other =
        "2026-11-28T03:06:32Z up again: a.test: down from 02:58:12 to 03:06:30 (8 min 18 s).";
    assert!(is_alike(&without_times(line), &without_times(other)));
    assert_eq!(
        without_times("95 ms since 27 November, 13:28 UTC"),
        "95 ms since TIME TIME TIME UTC"
    );
    let shown = ["a".to_owned(), "…".to_owned(), "c".to_owned()];
    let missing = |printed: &str| {
        let printed: Vec<String> = printed.split(' ').map(str::to_owned).collect();
        missing(&shown, &printed)
    };
    assert_eq!(missing("a b c"), None);
    assert_eq!(missing("a b c d"), Some("(the output goes on)"));
    assert_eq!(missing("b c"), Some("a"));
    let printed = ["total 9.0 ms = 2 × 4.0 ms + variation 0.2 ms", "   + client 1.0 ms"];
    let [printed] = &joined(printed.into_iter())[..] else { panic!("one equation") };
    assert!(is_alike("total 9.0 ms = 2 × 4.0 ms + client 1.0 ms", printed));
    assert!(!is_alike("total 9.0 ms = 3 × 4.0 ms + client 1.0 ms", printed));
    assert!(!is_alike("total 9.0 ms = 2 × 4.0 ms", printed));
}
