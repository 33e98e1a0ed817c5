//! The output of `-h` and `--help`.
//!
//! `-h` is one screen: the most needed flags and three examples. `--help` shows everything, except that the
//! connection flags are described only once, in `firstbyte --help`.
//!
//! In: the command line's grammar. Out: the same grammar with parts hidden. It never changes what can be typed.

use clap::{Arg, Command};

/// Headings of the flags that all connecting commands share, with the same meaning.
const CONNECTION_HEADINGS: [&str; 3] = ["Connection", "TLS", "HTTP"];
/// Commands that have these flags but do not list them.
const CONNECTING_COMMANDS: [&str; 3] = ["compare", "explain", "page"];
const CONNECTION_NOTE: &str =
    "Connection flags are those of `firstbyte --help`, under Connection, TLS and HTTP:
-4, -6, --resolve, --tlsv1.3, --http1.1, -H, -k, -m …\n";
const PAGE_NOTE: &str =
    "Connection flags: -4, -6, --resolve, --tlsv1.2, --tlsv1.3, --tls-max, --cacert,
--http1.1, --http2, --http3-only, -m. Their meaning: `firstbyte --help`.\n";
/// How many examples `-h` shows.
const EXAMPLES: usize = 3;

/// The flags that `-h` shows, by command. A command that is missing here shows all of its flags.
const MAIN_FLAGS: [(&str, &str); 9] = [
    ("", "samples json write_out sequence ipv4 ipv6 resolve tls_max http3_only header"),
    ("compare", "vary variant plan samples until dry_run resume html csv resolve"),
    ("explain", "samples from server_log_ms server_log capture json html run client resolve"),
    ("page", "client savings json har html svg png ipv4 ipv6 resolve"),
    ("predict", "rtt vary from loss rate think response requests population change"),
    ("report", "by html svg json csv parquet har averages since target"),
    ("wire", "interface window ports flow server session json csv html pcap_out"),
    ("monitor", "config check_config every vary length store listen json"),
    (
        "serve",
        "cert key self_signed ca_out listen http_listen early_data resumption page_bytes think_time",
    ),
];
/// Commands hidden on the first screen.
const RARE_COMMANDS: [&str; 4] = ["probe", "completions", "man", "help"];

/// Prepares `--help`: subcommands do not repeat the connection flags.
pub(super) fn long(command: Command) -> Command {
    command.mut_subcommands(|command| {
        if !CONNECTING_COMMANDS.contains(&command.get_name()) {
            return command;
        }
        let note = if command.get_name() == "page" { PAGE_NOTE } else { CONNECTION_NOTE };
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        command
            .mut_args(|argument| match is_connection_flag(&argument) {
                true => argument.hide(true),
                false => argument,
            })
            .after_help(format!("{note}\n{after}"))
    })
}

/// Prepares `-h`.
pub(super) fn short(command: Command) -> Command {
    with_main_flags(command, "").mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        with_main_flags(command, &name).hide(RARE_COMMANDS.contains(&name.as_str()))
    })
}

fn with_main_flags(command: Command, name: &str) -> Command {
    let name = if name == "probe" { "" } else { name };
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let command = command.after_help(first_examples(&after));
    let Some((_, shown)) = MAIN_FLAGS.iter().find(|(known, _)| *known == name) else {
        return command;
    };
    command.mut_args(|argument| {
        // The first screen shows the URL in its usage line.
        let is_operand = argument.is_positional() && !name.is_empty();
        let is_shown =
            is_operand || shown.split(' ').any(|flag| flag == argument.get_id().as_str());
        let argument = match argument.get_id().as_str() {
            "resolve" => argument.value_name("HOST:PORT:ADDRESS"),
            "variant" => argument.value_name("NAME: AXIS=VALUE…"),
            _ => argument,
        };
        // Ten flags do not need headings.
        argument.hide_short_help(!is_shown).help_heading(None::<&'static str>)
    })
}

fn is_connection_flag(argument: &Arg) -> bool {
    argument.get_help_heading().is_some_and(|heading| CONNECTION_HEADINGS.contains(&heading))
}

/// The first examples of a help text. An example is indented by two columns, its continuation by more.
fn first_examples(help: &str) -> String {
    let Some((_, examples)) = help.split_once("Examples:\n") else { return help.to_owned() };
    let mut text = String::from("Examples:");
    let mut found = 0;
    for line in examples.lines().take_while(|line| line.starts_with("  ")) {
        found += usize::from(!line.starts_with("   "));
        if found > EXAMPLES {
            break;
        }
        text.push('\n');
        text.push_str(line);
    }
    text
}
