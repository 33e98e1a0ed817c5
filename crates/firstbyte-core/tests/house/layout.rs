//! Checks the layout in `crates/LAYOUT.md` against the sources of all crates: a module imports only from rows above
//! its own, and every module has a row. Tests may import from anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace;

/// Row of each module, from the top, by crate.
type Layout = BTreeMap<String, BTreeMap<String, usize>>;

/// Names in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Parses the table below "## Layout": crate, module or modules, description.
fn layout(document: &str) -> Layout {
    let (_, section) = document.split_once("\n## Layout\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut layout = Layout::new();
    let mut package = String::new();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    for (row, line) in rows.enumerate().skip(1) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        if let Some(named) = quoted(cells[1]).pop() {
            package = named;
        }
        let modules = layout.entry(package.clone()).or_default();
        for module in quoted(cells[2]) {
            assert_eq!(modules.insert(module.clone(), row), None, "{package}: {module} twice");
        }
    }
    layout
}

/// An import of one module by another, with the importing file.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    from: String,
    to: String,
    file: String,
}

/// A source's lines without comments and tests, and the modules declared for tests only.
fn without_tests(source: &str) -> (String, Vec<String>) {
    let (mut kept, mut of_tests) = (String::new(), Vec::new());
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let code = line.trim();
        if code.starts_with("//") {
            continue;
        }
        if code != "#[cfg(test)]" {
            kept.push_str(line.split_once(" // ").map_or(line, |(before, _)| before));
            kept.push('\n');
            continue;
        }
        // The item: one line, or up to the closing line with the same indentation.
        let item = lines.by_ref().find(|line| !line.trim_start().starts_with(['#', '/']));
        let item = item.unwrap_or_default();
        let left = &item[..item.len() - item.trim_start().len()];
        if let Some((before, name)) = item.trim_end_matches(';').rsplit_once("mod ")
            && item.ends_with(';')
            && !before.contains('=')
        {
            of_tests.push(name.to_owned());
        }
        if !item.ends_with([';', ',', '}']) {
            let closes = |line: &&str| line.strip_prefix(left).is_some_and(|l| l.starts_with('}'));
            let _ = lines.by_ref().find(closes);
        }
    }
    (kept, of_tests)
}

/// First names of paths that begin at the crate's root: after `crate::`, or after `depth` times `super::`.
fn root_names(code: &str, depth: usize) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = &code[..at];
            let longer = before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            if longer || before.ends_with("(in ") {
                continue;
            }
            first_names(&code[at + root.len()..], &mut names);
        }
    }
    names
}

/// `a` of `a::b`; `a` and `c` of `{a::b, c::{d, e}}`.
fn first_names(path: &str, names: &mut BTreeSet<String>) {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else {
        names.insert(word(path));
        return;
    };
    let (mut inner, mut begins) = (0, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => inner += 1,
            '}' if inner == 0 => break,
            '}' => inner -= 1,
            ',' if inner == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                names.insert(word(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
}

/// Searches modules and files below `directory`, whose modules are `depth` below the root. `top` is the top-level
/// module that contains them, unless they belong to the root itself.
fn search(
    directory: &Path,
    depth: usize,
    top: Option<&str>,
    tops: &mut BTreeSet<String>,
    imports: &mut BTreeSet<Import>,
) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let stem = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    // A module for tests is declared in the file beside or above it, so names are unique enough within a directory.
    let mut of_tests = BTreeSet::new();
    let parent = directory.with_extension("rs");
    let declare = entries.iter().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    for path in declare.chain(parent.is_file().then_some(&parent)) {
        if ["mod", "lib"].contains(&stem(path).as_str()) || *path == parent {
            of_tests.extend(without_tests(&fs::read_to_string(path).unwrap()).1);
        }
    }
    for path in entries {
        let name = stem(&path);
        if of_tests.contains(&name) || depth == 1 && ["lib", "main"].contains(&name.as_str()) {
            continue;
        }
        let top = top.unwrap_or(&name).to_owned();
        if path.is_dir() {
            search(&path, depth + 1, Some(&top), tops, imports);
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        tops.insert(top.clone());
        let (code, _) = without_tests(&fs::read_to_string(&path).unwrap());
        let depth = if name == "mod" { depth - 1 } else { depth };
        for to in root_names(&code, depth) {
            if to != top {
                imports.insert(Import {
                    from: top.clone(),
                    to,
                    file: path.strip_prefix(workspace()).unwrap().display().to_string(),
                });
            }
        }
    }
}

#[test]
fn a_module_imports_from_rows_above_its_own() {
    let document = fs::read_to_string(workspace().join("crates/LAYOUT.md")).unwrap();
    let layout = layout(&document);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(workspace().join("crates")).unwrap() {
        let directory = entry.unwrap().path();
        if !directory.is_dir() {
            continue;
        }
        let package = directory.file_name().unwrap().to_str().unwrap();
        let Some(rows) = layout.get(package) else {
            wrong.push(format!("{package} has no row"));
            continue;
        };
        if rows.is_empty() {
            continue; // Told in one row.
        }
        let (mut modules, mut imports) = (BTreeSet::new(), BTreeSet::new());
        search(&directory.join("src"), 1, None, &mut modules, &mut imports);
        let listed: BTreeSet<String> = rows.keys().cloned().collect();
        for module in modules.symmetric_difference(&listed) {
            let what = if listed.contains(module) { "is no module" } else { "has no row" };
            wrong.push(format!("{package}: {module} {what}"));
        }
        for import in imports.iter().filter(|import| modules.contains(&import.to)) {
            seen += 1;
            if rows.get(&import.to) > rows.get(&import.from) {
                let Import { from, to, file } = import;
                wrong.push(format!("{file}: {from} imports from {to}, which is below it"));
            }
        }
    }
    assert!(wrong.is_empty(), "crates/LAYOUT.md:\n{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} imports found");
}

/// Our crates that `package` depends on, without its test dependencies.
fn crates_used(package: &str) -> BTreeSet<String> {
    let manifest = workspace().join("crates").join(package).join("Cargo.toml");
    let text = fs::read_to_string(manifest).unwrap();
    let sections = text.split("\n[").filter(|section| {
        let name = section.split(']').next().unwrap_or_default();
        name.ends_with("dependencies") && !name.contains("dev-")
    });
    let lines = sections.flat_map(str::lines).filter(|line| line.starts_with("firstbyte"));
    lines.filter_map(|line| line.split(['.', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn a_crate_uses_crates_above_its_own() {
    let document = fs::read_to_string(workspace().join("crates/LAYOUT.md")).unwrap();
    let (_, section) = document.split_once("\n## Layout\n").unwrap();
    let row = |package: &str| section.find(&format!("\n| `{package}` |"));
    let mut seen = 0;
    for package in layout(&document).keys() {
        for used in crates_used(package) {
            seen += 1;
            assert!(row(&used) < row(package), "{package} uses {used}, whose row is below");
        }
    }
    assert!(seen > 15, "only {seen} uses found");
}

#[test]
fn imports_are_found_and_tests_are_left_out() {
    let source = "\
//! crate::comment
use crate::{one::{a, b}, two,\n    three::c};
use super::super::four::d;
pub(in crate::five) fn f() { crate::six::g() }
#[cfg(test)]
mod cases;
#[cfg(test)]
#[path = \"x.rs\"]
pub(crate) mod others;
#[cfg(test)]
use crate::seven::{
    a,
};
#[cfg(test)]
mod tests {
    use crate::eight;
    fn f() {
    }
}
fn h(x: super::nine) {} // crate::ten
";
    let (code, of_tests) = without_tests(source);
    assert_eq!(of_tests, ["cases", "others"]);
    let names: Vec<String> = root_names(&code, 2).into_iter().collect();
    assert_eq!(names, ["four", "one", "six", "three", "two"]);
}
