//! Scenario files with mistakes, and missing labs.
//!
//! `firstbyte-lab` tests the possible mistakes key by key; these tests check how the program ends.

use super::refused::{self, Row};
use crate::support::files::Directory;

const ROWS: &[Row] = &[
    (
        &["lab", "show", "no-such-scenario"],
        100,
        "error: unknown scenario \"no-such-scenario\"\n  shipped: <shipped>\n  \
         give a file by its path, such as ./no-such-scenario.toml\n",
    ),
    (
        &["lab", "show", "./missing.toml"],
        100,
        "error: cannot read scenario ./missing.toml: no such file or directory\n",
    ),
    (
        &["lab", "show", "./broken.toml"],
        100,
        "error: scenario ./broken.toml: line 1: write [[NAME]]\n",
    ),
    (
        &["lab", "show", "./bad-type.toml"],
        100,
        "error: scenario ./bad-type.toml: line 1: description: expected text in quotes, \
         found the number 3\n",
    ),
    (
        &["lab", "show", "./bad-delay.toml"],
        100,
        "error: scenario ./bad-delay.toml: server.up.delay = \"soon\" is not allowed\n  \
         allowed: a duration from \"0ms\" to \"60s\", such as \"4.5ms\"\n",
    ),
    (
        &["lab", "run", "./missing.toml", "--", "true"],
        100,
        "error: cannot read scenario ./missing.toml: no such file or directory\n",
    ),
    (
        &["lab", "run", "govuk", "--seed", "dice", "--", "true"],
        2,
        "error: invalid value 'dice' for '--seed <SEED>': invalid digit found in string\n<see help>\n",
    ),
    (
        &["lab", "run", "govuk", "--server", "apache", "--", "true"],
        2,
        "error: invalid value 'apache' for '--server <SERVER>'\n  \
         [possible values: auto, nginx, caddy, builtin]\n<see help>\n",
    ),
    (
        &["lab", "run", "govuk"],
        2,
        "error: the following required arguments were not provided:\n  <COMMAND>...\n\n\
         Usage: firstbyte lab run <SCENARIO> -- <COMMAND>...\n<see help>\n",
    ),
    (
        &["lab", "down", "no-such-lab"],
        100,
        "error: the lab no-such-lab is not up\nhint: firstbyte lab status lists the running labs\n",
    ),
    (
        &["lab", "exec", "no-such-lab", "--", "true"],
        100,
        "error: the lab no-such-lab is not up\nhint: start it with: firstbyte lab up no-such-lab\n",
    ),
    (
        &["lab", "frobnicate"],
        2,
        "error: unrecognized subcommand 'frobnicate'\n\n\
         Usage: firstbyte lab <COMMAND>\n<see help>\n",
    ),
];

const BAD_DELAY: &str = r#"
description = "a server that is never there"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.1"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["www.test"]
up = { delay = "soon" }
"#;

#[test]
fn scenarios_and_labs() {
    let directory = Directory::new();
    directory.write("broken.toml", "[[host]\nname = \"x\"\n");
    directory.write("bad-type.toml", "description = 3\n");
    directory.write("bad-delay.toml", BAD_DELAY);
    refused::check(&directory, ROWS);
}
