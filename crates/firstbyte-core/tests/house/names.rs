//! Checks names of functions in the sources of all crates, so that grep finds them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// Names that would fit every second function: they reveal neither the action nor its object.
const SAY_NOTHING: [&str; 4] = ["by", "of", "on", "to"];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of the functions defined in a line.
fn defined(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split_once("//").map_or(line, |(before, _)| before);
    let after = code.split("fn ").skip(1);
    after.filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

#[test]
fn names_of_functions_say_something() {
    let (mut files, mut wrong, mut seen) = (Vec::new(), Vec::new(), 0);
    for directory in ["crates", "fuzz"] {
        sources(&workspace().join(directory), &mut files);
    }
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        for (index, line) in text.lines().enumerate() {
            for name in defined(line) {
                seen += 1;
                if SAY_NOTHING.contains(&name) {
                    wrong.push(format!("{}:{}: {name}", path.display(), index + 1));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "CONTRIBUTING.md, \"How we write\":\n{}", wrong.join("\n"));
    assert!(seen > 5_000, "only {seen} functions found");
}

#[test]
fn names_are_found() {
    assert_eq!(
        defined("    pub(super) const fn shown<'a>(x: T) -> U {").collect::<Vec<_>>(),
        ["shown"]
    );
    assert_eq!(defined("/// as fn shown() is").count(), 0);
}
