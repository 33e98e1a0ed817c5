//! The systemd unit: systemd accepts it, and the program accepts its arguments.

use std::process::Command;

use crate::support::files::Directory;
use crate::support::run::firstbyte;

const UNIT: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/firstbyte-monitor.service");

#[test]
fn the_unit_is_one_and_the_program_takes_its_arguments() {
    let directory = Directory::new();
    let unit = std::fs::read_to_string(UNIT).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let words: Vec<&str> = start.split_whitespace().collect();
    assert_eq!(words[0], "/usr/bin/firstbyte");
    directory.write("monitor.toml", "[[target]]\nurl = \"https://example.com/\"\n");
    let arguments: Vec<&str> = words[1..]
        .iter()
        .map(|word| if *word == "/etc/firstbyte/monitor.toml" { "monitor.toml" } else { word })
        .chain(["--check-config"])
        .collect();
    let outcome = firstbyte(directory.path(), &arguments);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert!(outcome.stdout.starts_with("1 target, 1 series"), "{}", outcome.stdout);
    // The program need not be installed on this machine.
    let here = unit.replace("/usr/bin/firstbyte", "/bin/true");
    directory.write("firstbyte-monitor.service", here);
    let path = directory.path().join("firstbyte-monitor.service");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success(), "{said}");
    // Messages about other units do not matter.
    assert!(!said.contains("firstbyte-monitor.service:"), "{said}");
}
