//! Rows for input that is refused before anything is measured.

use firstbyte_lab::Scenario;

use crate::support::files::Directory;
use crate::support::run::firstbyte;

/// Arguments, exit code, and all of standard error. Standard output stays empty.
pub(crate) type Row = (&'static [&'static str], i32, &'static str);

/// The text that clap adds to its errors.
pub(crate) const SEE_HELP: &str = "\nFor more information, try '--help'.\n";

/// Runs every row, and reports all rows that end differently.
pub(crate) fn check(directory: &Directory, rows: &[Row]) {
    let mut wrong = Vec::new();
    for (arguments, code, stderr) in rows {
        let outcome = firstbyte(directory.path(), arguments);
        let shipped: Vec<_> = Scenario::shipped().map(|(name, _)| name).collect();
        let expected = stderr.replace("<see help>\n", SEE_HELP);
        let expected = expected.replace("<shipped>", &shipped.join(", "));
        if outcome.code != *code || outcome.stderr != expected || !outcome.stdout.is_empty() {
            wrong.push(format!(
                "{arguments:?}\n  expected {code}:\n{expected}\n  but {}:\n{}{}",
                outcome.code, outcome.stderr, outcome.stdout
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
}
