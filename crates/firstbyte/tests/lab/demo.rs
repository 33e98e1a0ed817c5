//! `firstbyte demo`, a newcomer's first command.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use firstbyte::runs::Run;
use firstbyte_clock::Monotonic;
use firstbyte_core::run::Standing;

use crate::processes::Family;
use crate::support::{PROGRAM, Permits, firstbyte, open_to_all, text};

/// An arbitrary user other than root; `nobody` on most machines.
const ORDINARY_USER: u32 = 65_534;
const ROUNDS: usize = 3;
/// Six ways to connect, three edges, two families.
const CELLS: usize = 36;

/// Runs as this user and, if that is root, at the same time as an ordinary user.
#[test]
fn measures_and_leaves_nothing() {
    let _permits = Permits::one();
    let own = tempfile::tempdir().unwrap();
    let others = tempfile::tempdir().unwrap();
    let program = others.path().join("firstbyte");
    let mut commands = vec![firstbyte(&[])];
    if nix::unistd::geteuid().is_root() {
        // Run a copy that the other user can read.
        open_to_all(others.path());
        std::fs::copy(PROGRAM, &program).unwrap();
        let mut command = Command::new(&program);
        command.uid(ORDINARY_USER).gid(ORDINARY_USER).current_dir(others.path());
        command.env_remove("HOME").env_remove("TMPDIR");
        commands.push(command);
    }
    let begun = Monotonic::now();
    let directories = [own.path().join("results"), others.path().join("results")];
    // Files of an earlier demo are replaced.
    std::fs::create_dir(&directories[0]).unwrap();
    for name in ["firstbyte-demo.run", "firstbyte-demo.csv", "firstbyte-demo.html"] {
        std::fs::write(directories[0].join(name), "of an earlier demo\n".repeat(100_000)).unwrap();
    }
    let running: Vec<_> = commands
        .into_iter()
        .zip(&directories)
        .map(|(mut command, directory)| {
            command.args(["demo", "-n", &ROUNDS.to_string(), "--output-dir"]).arg(directory);
            command.env("COLUMNS", "80").stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let families: Vec<Family> = running.iter().map(|demo| Family::of_lab(demo.id())).collect();
    for (demo, directory) in running.into_iter().zip(&directories) {
        check(&demo.wait_with_output().unwrap(), directory);
    }
    let took = Monotonic::now().since(begun);
    assert!(took < Duration::from_secs(90), "{took:?}");
    for family in families {
        family.wait_until_gone();
    }
}

fn check(output: &Output, directory: &Path) {
    let (shown, notes) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{notes}{shown}");
    for word in ["London", "Vancouver", "Sydney", "IPv4", "IPv6"] {
        assert!(shown.contains(word), "{word} is missing:\n{shown}");
    }
    assert!(notes.contains("lab govuk: nginx 1."), "install nginx (nginx-light):\n{notes}");

    let csv = std::fs::read_to_string(directory.join("firstbyte-demo.csv")).unwrap();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let header = rows.headers().unwrap().clone();
    let column = |name: &str| header.iter().position(|column| column == name).unwrap();
    let (warmup, status, error) = (column("warmup"), column("status"), column("error"));
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), CELLS * (ROUNDS + 1));
    assert_eq!(rows.iter().filter(|row| &row[warmup] == "true").count(), CELLS);
    assert!(rows.iter().all(|row| &row[status] == "200" && row[error].is_empty()));

    let run = Run::read(&directory.join("firstbyte-demo.run")).unwrap();
    let unproven = run.rows.iter().filter(|row| row.standing != Standing::Proven).count();
    assert_eq!((run.rows.len(), unproven), (CELLS * (ROUNDS + 1), 0));
    assert_eq!((run.header.cells.len(), run.bad_lines.len()), (CELLS, 0));

    let page = std::fs::read_to_string(directory.join("firstbyte-demo.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("Sydney") && page.len() < 1_000_000, "{}", page.len());
}
