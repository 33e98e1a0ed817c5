//! Checks the glossary: each term appears once, in alphabetical order, and another document uses it.

use std::fs;

use crate::workspace;

/// Normalises to lower case with single spaces.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c == '_').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Names of the entries: bold text at the beginning of a line, without parentheses.
fn terms(glossary: &str) -> Vec<String> {
    let bold = glossary.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
    bold.map(|(term, _)| plain(term.split(" (").next().unwrap_or_default())).collect()
}

#[test]
fn every_term_is_used() {
    let docs = workspace().join("docs");
    let glossary = fs::read_to_string(docs.join("glossary.md")).unwrap();
    let pages = fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| {
        path.extension().is_some_and(|extension| extension == "md")
            && !path.ends_with("glossary.md")
    });
    let text: String = pages.map(|path| plain(&fs::read_to_string(path).unwrap()) + "\n").collect();
    let terms = terms(&glossary);
    assert!(terms.len() > 30, "only {} terms found", terms.len());
    let unused: Vec<&String> = terms.iter().filter(|term| !text.contains(term.as_str())).collect();
    assert!(unused.is_empty(), "in docs/glossary.md and nowhere else: {unused:?}");
    let mut sorted = terms.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(terms, sorted, "the order of the alphabet, each term once");
}
