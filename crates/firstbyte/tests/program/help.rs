//! The program's help and version texts at 80 columns.

use std::fs;
use std::process::Command;

use crate::support::files::Directory;
use crate::support::run::firstbyte;

#[test]
fn help_is_as_reviewed() {
    let directory = Directory::new();
    for (name, arguments) in [
        ("short", &["-h"] as &[&str]),
        ("long", &["--help"]),
        ("lab", &["lab", "--help"]),
        ("lab-run", &["lab", "run", "--help"]),
        ("compare", &["compare", "--help"]),
        ("explain", &["explain", "--help"]),
        ("check", &["check", "--help"]),
        ("lab-study", &["lab", "study", "--help"]),
        ("demo", &["demo", "--help"]),
        ("log-format", &["log-format", "--help"]),
        ("predict", &["predict", "--help"]),
        ("report", &["report", "--help"]),
        ("har", &["har", "clean", "--help"]),
        ("wire", &["wire", "--help"]),
        ("serve", &["serve", "--help"]),
        ("wire-diff", &["wire", "diff", "--help"]),
        ("lab-export", &["lab", "export", "--help"]),
    ] {
        let outcome = firstbyte(directory.path(), arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{arguments:?}");
        let widest = outcome.stdout.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{arguments:?} has a line of {widest:?} characters");
        insta::assert_snapshot!(name, outcome.stdout);
    }
}

#[test]
fn short_help_is_one_screen_with_three_examples() {
    let directory = Directory::new();
    let commands = [
        "compare",
        "explain",
        "page",
        "check",
        "monitor",
        "exporter",
        "predict",
        "report",
        "har",
        "log-format",
        "demo",
        "lab",
        "serve",
        "rum",
        "wire",
        "completions",
        "man",
    ];
    for command in std::iter::once("").chain(commands) {
        let words: Vec<&str> = command.split_whitespace().chain(["-h"]).collect();
        let outcome = firstbyte(directory.path(), &words);
        assert_eq!(outcome.code, 0, "{command}: {}", outcome.stderr);
        let lines = outcome.stdout.lines().count();
        assert!(lines <= 48, "{command} -h has {lines} lines:\n{}", outcome.stdout);
        let examples = outcome.stdout.split("Examples:").nth(1).unwrap_or_default();
        let shown =
            examples.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        assert!(shown.count() <= 3, "{}", outcome.stdout);
    }
}

#[test]
fn long_help_lists_connection_flags_once() {
    let directory = Directory::new();
    let long = |words: &[&str]| firstbyte(directory.path(), words).stdout;
    let whole = long(&["--help"]);
    for flag in ["--connect-to", "--curves", "--data-raw"] {
        assert!(whole.contains(flag), "{flag}");
        for command in ["compare", "explain", "page"] {
            let text = long(&[command, "--help"]);
            assert!(!text.contains(&format!("{flag} <")), "{command}: {text}");
            assert!(text.contains("`firstbyte --help`"), "{command}: {text}");
        }
    }
}

#[test]
fn alone_it_shows_three_examples() {
    let directory = Directory::new();
    let outcome = firstbyte(directory.path(), &[] as &[&str]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    let examples = outcome.stderr.lines().filter(|line| line.starts_with("  firstbyte "));
    assert_eq!(examples.count(), 3, "{}", outcome.stderr);
}

#[test]
fn bash_completes_commands_scenarios_axes_and_values() {
    let directory = Directory::new();
    let script = firstbyte(directory.path(), &["completions", "bash"]);
    fs::write(directory.path().join("firstbyte.bash"), script.stdout).unwrap();
    for (words, expected) in [
        ("firstbyte com", "compare completions"),
        ("firstbyte compare --vary tl", "tls=1.2,1.3"),
        ("firstbyte predict --vary se", "session=full,resumed,0rtt"),
        ("firstbyte lab run gov", "govuk"),
        ("firstbyte lab study curl", "curl-length"),
        ("firstbyte wire --session ear", "early-data"),
    ] {
        let last = words.rsplit(' ').next().unwrap();
        let before = words.rsplit(' ').nth(1).unwrap();
        let shell = format!(
            "source ./firstbyte.bash; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _firstbyte firstbyte {last} {before}; echo \"${{COMPREPLY[*]}}\""
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &shell])
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{words}");
    }
}

#[test]
fn manual_pages_are_written_for_every_command() {
    let directory = Directory::new();
    let outcome = firstbyte(directory.path(), &["man", "--output-dir", "man1"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    for page in ["firstbyte.1", "firstbyte-compare.1", "firstbyte-lab-study.1"] {
        let text = fs::read_to_string(directory.path().join("man1").join(page)).unwrap();
        assert!(text.starts_with(".ie"), "{page}: {text}");
    }
    let first = firstbyte(directory.path(), &["man"]).stdout;
    let written = fs::read_to_string(directory.path().join("man1/firstbyte.1")).unwrap();
    assert_eq!(first, written);
}
