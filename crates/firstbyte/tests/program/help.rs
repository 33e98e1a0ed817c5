//! What the program says about itself, at 80 columns.

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
