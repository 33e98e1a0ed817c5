//! Names of and in files, plans and scenarios cannot control the terminal.

use std::os::unix::fs::PermissionsExt;

use crate::support::files::Directory;
use crate::support::run::firstbyte;
use crate::support::runs::write_run;

/// Sets a colour, clears the screen (with a C0 and with a C1 character), changes the title, reorders text.
const HOSTILE: &str = "x\u{1b}[31m\u{1b}[2J\u{9b}2J\u{1b}]0;y\u{7}\u{202e}z";

fn check(words: &[&str], text: &str) {
    let bad = text.chars().find(|c| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    });
    assert_eq!(bad, None, "{words:?}: {text:?}");
}

#[test]
fn names_and_texts_do_nothing_to_a_terminal() {
    let directory = Directory::new();
    let name = |ending: &str| format!("{HOSTILE}{ending}");
    write_run(&directory.path().join(name(".run")), 2, 4);
    directory.write(&name(".toml"), "url = 3\n");
    directory.write(
        "hostile.toml",
        "description = \"a\\u001b[2J\\u009b2J\\u202e\"\nstory = \"b\\u001b]0;y\\u0007\"\n\
         [[host]]\nname = \"client\"\nrole = \"client\"\nipv4 = \"192.0.2.1\"\n\
         [[host]]\nname = \"web\"\nrole = \"server\"\nipv4 = \"198.51.100.1\"\nnames = [\"www.test\"]\n",
    );
    let locked = directory.path().join(name(".locked"));
    std::fs::write(&locked, "").unwrap();
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o0)).unwrap();
    let (run, toml) = (name(".run"), format!("./{}", name(".toml")));
    let (locked, none) = (name(".locked"), name(".none"));
    let flag = format!("--{HOSTILE}");
    let vary = format!("edge=a:{HOSTILE},b:{HOSTILE}");
    for words in [
        &["report", run.as_str()] as &[&str],
        &["report", &run, &run],
        &["report", &none],
        &["report", &locked],
        &["check", "--from", &run, "--fail-if", "total.p50 > 1s"],
        &["check", "--from", &none, "--fail-if", "total.p50 > 1s"],
        &["compare", "--plan", &toml],
        &["compare", "--plan", &none],
        &["compare", "--continue", &run, "--dry-run"],
        &["compare", "a.test", "--vary", &vary, "--dry-run"],
        &["explain", "--from", &run],
        &["wire", &none],
        &["lab", "show", &toml],
        &["lab", "show", "./hostile.toml"],
        &["lab", "run", &toml, "--", "true"],
        &["lab", "down", HOSTILE],
        &["a.test", "--cacert", &none],
        &["a.test", "-d", &format!("@{none}")],
        &[HOSTILE],
        &[&flag],
    ] {
        let outcome = firstbyte(directory.path(), words);
        check(words, &outcome.stdout);
        check(words, &outcome.stderr);
    }
}
