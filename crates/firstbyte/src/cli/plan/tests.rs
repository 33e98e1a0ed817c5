//! Tests of the plans made from command lines, and of their round trip through JSON.

use clap::Parser;

use super::*;

#[test]
fn limits_are_curls_and_a_samples_where_there_are_many() {
    let limits = |flags: &[&str], max_time| {
        let words = [&["firstbyte", "https://a.test"], flags].concat();
        let cli = Cli::try_parse_from(words).unwrap();
        let options = options(&cli.probe.visit, None, max_time).unwrap();
        (options.connect_timeout.as_secs(), options.max_time.map(|limit| limit.as_secs()))
    };
    assert_eq!(limits(&[], None), (300, None));
    assert_eq!(limits(&[], Some(SAMPLE_TIMEOUT)), (300, Some(30)));
    assert_eq!(limits(&["-m", "0"], Some(SAMPLE_TIMEOUT)), (300, None));
    assert_eq!(limits(&["-m", "5", "-m", "7"], Some(SAMPLE_TIMEOUT)), (300, Some(7)));
    assert_eq!(limits(&["--connect-timeout", "0"], None), (300, None));
    assert_eq!(limits(&["--connect-timeout", "2"], None), (2, None));
}

fn typed(words: &[&str]) -> CommandPlan {
    let words = ["firstbyte"].iter().chain(words).map(Into::into);
    let (cli, typed) = Typed::read(words).unwrap_or_else(|error| panic!("{error}"));
    command(&cli, &typed).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Stores the plan as JSON and reads it back; returns the JSON.
fn comes_back(plan: &CommandPlan) -> String {
    let stored = serde_json::to_string(plan).unwrap();
    let back: CommandPlan = serde_json::from_str(&stored).unwrap();
    assert_eq!(format!("{back:?}"), format!("{plan:?}"));
    assert_eq!(serde_json::to_string(&back).unwrap(), stored);
    stored
}

/// Flags of a command, each with the arguments that it requires. Any combination of them can be typed.
const FLAGS: &[(&[&str], &[&[&str]])] = &[
    (
        &["wire", "a.pcap", "-"],
        &[
            &["--port", "443", "--port", "8443"],
            &["--host", "2001:db8::1"],
            &["--threads", "3"],
            &["--server", "*.a.test", "--server", "192.0.2.1:443"],
            &["--session", "early-data", "--session", "hrr"],
            &["--flow", "7", "--flow", "9", "--svg", "pictures"],
            &["--json"],
            &["--csv=a b.csv"],
            &["--parquet", "./-"],
            &["--zeek", "z"],
            &["--html", "h"],
            &["-w", "p"],
            &["--servers", "0", "--connections", "3"],
            &["--capacity"],
            &["--color", "never"],
        ],
    ),
    (
        &["wire", "-i", "any"],
        &[
            &["--for", "1.5min"],
            &["--metrics", "[::1]:9464"],
            &["--snaplen", "64"],
            &["--buffer", "2GiB", "--spool", "16"],
            &["-p"],
            &["-w", "-"],
        ],
    ),
    (&["wire", "diff", "a", "b"], &[&["--json=x"], &["--csv"], &["--html", "h"], &["--port", "1"]]),
    (&["wire", "diff", "--by", "server", "-i", "lo"], &[&["--for", "1s"], &["--host", "::1"]]),
    (&["wire", "diff", "--group", "a=x*,y", "--group", "b=z", "c"], &[&["--color=always"]]),
    (&["wire", "diff", "-i", "lo", "--for", "1s", "--for", "2s"], &[&["--snaplen", "1KiB"]]),
    (
        &["predict"],
        &[
            &["--from", "a.run"],
            &["--rtt", "80.123456ms"],
            &["--loss", "0.1%"],
            &["--rate", "20mbit", "--up-rate", "1mbit"],
            &["--mss", "1200"],
            &["--chain", "4kB", "--think", "8ms"],
            &["--initial-window", "4", "--congestion-control", "bbr"],
            &["--retry"],
            &["--response", "1MB", "--upload", "1"],
            &["--dns", "3"],
            &["--curves", "x25519mlkem768:P-256"],
            &["--vary", "tls=1.2,1.3"],
            &["--population", "c.csv", "--change", "http=2:3", "--html", "h", "--svg", "s"],
            &["-n", "7", "--seed", "18446744073709551615", "-v"],
            &["--json"],
        ],
    ),
    (
        &["serve", "--cert", "c.pem", "--key", "k.pem"],
        &[
            &["--listen", "[::]:443", "--http-listen", "0.0.0.0:80"],
            &["--no-http3"],
            &["--access-log", "-"],
            &["--tls", "1.3"],
            &["--early-data=too-early"],
            &["--resumption", "session-ids", "--tickets", "0"],
            &["--page-bytes", "1MB", "--think-time", "1.5ms"],
        ],
    ),
    (
        &["monitor", "https://a.test"],
        &[
            &["--every", "5min", "-m", "10s", "--for", "1h"],
            &["--vary", "tls=1.2,1.3", "--vary", "family=4,6"],
            &["--store", "d", "--silent", "--color", "never"],
            &["--listen", "127.0.0.1:9115"],
        ],
    ),
    (
        &["monitor", "events"],
        &[
            &["--store", "d"],
            &["--since", "7d", "--until", "2026-11-23T12:00:00Z"],
            &["--state", "confirmed,withdrawn", "--target", "a", "--target", "b"],
            &["--format", "ndjson"],
        ],
    ),
    (
        &["monitor", "export", "--step", "minute"],
        &[
            &["--store", "d", "--since", "7d", "--until", "1795392000"],
            &["--target", "a", "--metric", "total", "--metric", "part.server"],
            &["--format", "ndjson"],
        ],
    ),
    (&["monitor", "--config", "m.toml"], &[&["--check-config"], &["--store", "d"]]),
    (&["monitor", "http://a.test/"], &[&["--json", "-s"], &["--for", "9s"]]),
    (
        &["monitor", "demo"],
        &[&["--for", "1min", "-s"], &["--store", "d", "--listen", "127.0.0.1:0"]],
    ),
    (&["monitor", "status"], &[&["--store", "d"], &["--json=f"]]),
    (
        &["monitor", "annotate", "deploy"],
        &[&["--at", "7d", "--store", "d"], &["--tag", "a=b", "--tag", "c=d"]],
    ),
    (
        &["exporter"],
        &[
            &["--config.file", "b.yml", "--config.check"],
            &["--web.listen-address", ":1", "--web.listen-address", "[::1]:2"],
            &["--timeout-offset", "1.5", "--history.limit", "0", "--compat.version", "0.23"],
            &["--log.level", "warn", "--log.format", "json", "--log.prober", "debug"],
        ],
    ),
    (&["rum", "snippet"], &[&["--endpoint", "https://a.test/rum"], &["--sample", "10%"]]),
    (
        &["rum", "serve", "--into", "f"],
        &[
            &[
                "--listen",
                "[::1]:80",
                "--origin",
                "https://a.test",
                "--origin",
                "https://b.test:1/",
            ],
            &["--rate", "7", "--rate-per-source", "0", "--max-file", "1GiB"],
        ],
    ),
    (&["serve", "--self-signed", "a.test,::1", "--ca-out", "ca.pem"], &[&["--retry"]]),
    (
        &["lab", "study", "pq"],
        &[
            &["--capture", "c", "--logs", "l"],
            &["--seed", "7", "--server", "caddy"],
            &["--plan", "p.toml", "-n", "3", "--run", "a.run", "-s"],
            &["--by", "tls", "--har", "h", "--parquet", "p", "--png", "d", "--csv"],
        ],
    ),
    (&["lab", "run", "govuk", "--", "curl", "-H", "Cookie: s3cret"], &[]),
    (&["lab", "exec", "govuk", "--host", "london", "--", "id"], &[]),
    (&["lab", "export", "x"], &[&["--early-data", "off"], &["--page-bytes", "1", "--force"]]),
    (&["lab", "shell", "govuk"], &[]),
    (&["lab", "up", "govuk"], &[]),
    (&["lab", "down"], &[&["govuk"]]),
    (&["lab", "show", "govuk"], &[&["--source"]]),
    (&["lab", "list"], &[]),
    (&["lab", "status"], &[]),
    (&["demo"], &[&["-n", "3", "--seed", "9"], &["--builtin", "--output-dir", "d"]]),
    (&["har", "clean", "a.har"], &[&["-o", "b.har"]]),
    (
        &["report", "a.run", "b.csv"],
        &[
            &["--by", "tls"],
            &["--json", "--html", "h"],
            &["--svg=s"],
            &["--hosts", "3", "--requests=0"],
        ],
    ),
    (
        &["check", "--plan", "p", "--fail-if", "tls +5%"],
        &[&["--baseline", "b"], &["--summary", "-"], &["-n", "3", "--run", "r"], &["-s"]],
    ),
    (&["check", "--from", "r", "--fail-if", "a", "--fail-if", "b"], &[&["--summary", "s"]]),
    (
        &["explain", "https://me:s3cret@a.test/?k=s3cret"],
        &[
            &["--server-log-ms", "8.25", "--capture", "c"],
            &["--json", "--html", "h"],
            &["--run", "r", "-n", "2", "--seed", "3", "-s"],
            &["-H", "Authorization: s3cret"],
        ],
    ),
    (&["explain", "--from", "r"], &[&["--json=x"], &["--server-log", "l"]]),
    (&["log-format", "nginx"], &[]),
    (
        &["page", "a.test/?k=s3cret"],
        &[
            &["--json=x", "--svg", "s"],
            &["--png", "p", "--har", "h", "--html", "x"],
            &["--client", "chromium", "-m", "9", "--savings"],
        ],
    ),
    (
        &["compare", "a.test", "--vary", "site=x:https://b.test/?k=s3cret"],
        &[
            &["--variant", "A: tls=1.2", "--until", "median±1%"],
            &["--aa", "--concurrent", "--interval", "250ms"],
            &["-d", "s3cret", "-m", "5"],
            &["--dry-run", "--run", "r", "--har", "h"],
        ],
    ),
    (&["compare", "--continue", "r"], &[&["-n", "3"], &["--max-samples", "9"], &["--html", "h"]]),
    (
        &["probe", "a.test", "b.test/?k=s3cret"],
        &[
            &["-n", "3", "--interval", "0.5", "--warmup", "0"],
            &["--json=x", "--csv=y"],
            &["-w", "%{time_total}\\n"],
            &["-v", "-s", "--color", "always"],
            &["-H", "Cookie: s3cret", "-d", "s3cret"],
            &["-o", "body"],
        ],
    ),
    (&["curl", "-sH", "Cookie: s3cret", "https://a.test/"], &[&["-d", "s3cret"]]),
    (&["completions", "bash"], &[]),
    (&["man"], &[&["--output-dir", "man1"]]),
];

proptest::proptest! {
    #[test]
    fn a_plan_comes_back_as_it_was_stored(which in 0..FLAGS.len(), chosen: u32) {
        let (command, flags) = FLAGS[which];
        let chosen = flags.iter().enumerate().filter(|(n, _)| chosen >> n & 1 == 1);
        let words: Vec<&str> =
            command.iter().chain(chosen.flat_map(|(_, flag)| *flag)).copied().collect();
        let plan = typed(&words);
        let stored = comes_back(&plan);
        // Secrets are stored, but not printed.
        let has_secret = words.iter().any(|word| word.contains("s3cret"));
        assert_eq!(stored.contains("s3cret"), has_secret);
        assert!(!format!("{plan:?}").contains("s3cret"));
    }
}

#[test]
fn every_command_has_a_plan_that_comes_back() {
    for (command, flags) in FLAGS {
        let all: Vec<&str> =
            command.iter().chain(flags.iter().copied().flatten()).copied().collect();
        for words in [command, &all[..]] {
            comes_back(&typed(words));
        }
    }
    let mut commands: Vec<&str> = FLAGS.iter().map(|(command, _)| command[0]).collect();
    commands.dedup();
    let all = <Cli as clap::CommandFactory>::command();
    for command in all.get_subcommands() {
        assert!(commands.contains(&command.get_name()), "{}", command.get_name());
    }
}

#[test]
fn a_plan_that_is_stored_reads_well() {
    let stored = |words: &[&str]| serde_json::to_value(typed(words)).unwrap();
    let wire = stored(&["wire", "a.pcap", "--session", "early-data", "--json", "--html=h"]);
    assert_eq!(wire["command"], "wire");
    assert_eq!(wire["plan"]["source"]["files"]["paths"][0], "a.pcap");
    assert_eq!(wire["plan"]["choice"]["sessions"][0], "early-data");
    assert_eq!(wire["plan"]["outputs"].to_string(), r#"{"json":"-","html":"h"}"#);
    let predicted = stored(&["predict", "--rtt", "80ms", "--curves", "p256"]);
    assert_eq!(predicted["plan"]["path"]["rtt_ns"], 80_000_000);
    assert_eq!(predicted["plan"]["server"]["congestion_control"], "cubic");
    assert_eq!(predicted["plan"]["exchange"]["groups"][0], "P-256");
}

/// Carries out a plan the way a program without a command line does.
#[test]
fn a_plan_from_json_is_carried_out() {
    let directory = tempfile::tempdir().unwrap();
    let project = directory.path().join("project");
    let plan = serde_json::json!({"command": "lab", "plan": {"export": {
        "directory": project, "early_data": false, "page_bytes": 100, "image_bytes": 7, "force": false
    }}});
    let plan: CommandPlan = serde_json::from_value(plan).unwrap();
    assert_eq!(crate::cli::commands::carry_out(&plan).unwrap(), exit::OK);
    assert_eq!(std::fs::metadata(project.join("html/image.jpg")).unwrap().len(), 7);
    // A second time, when the directory is not empty any more.
    assert_eq!(crate::cli::commands::carry_out(&plan).unwrap_err().code(), exit::WRITE);
}

/// Conflicts between the named captures are refused before any capture is read.
#[test]
fn captures_to_compare_are_told_apart_before_any_is_read() {
    let refused = |words: &[&str]| {
        let words = [&["firstbyte", "wire", "diff"], words].concat();
        let (cli, typed) = Typed::read(words.into_iter().map(Into::into)).unwrap();
        command(&cli, &typed).map(drop).unwrap_err().message().to_owned()
    };
    for (words, why) in [
        (&["a", "--by", "server", "-i", "lo"] as &[&str], "not both"),
        (&["--by", "server", "-i", "lo", "--for", "1s", "--for", "1s"], "too often"),
        (&["a", "-i", "lo", "--for", "1s", "--for", "1s"], "too often"),
        (&["-i", "lo", "--for", "1s"], "give --for twice"),
        (&["a", "--group", "x=y"], "given twice"),
        (&["a", "--group", "x=y", "--group", "z"], "expected NAME=SERVER"),
    ] {
        let message = refused(words);
        assert!(message.contains(why), "{words:?}: {message}");
    }
    let live = typed(&["wire", "diff", "a", "-i", "lo", "--for", "1s"]);
    let stored = serde_json::to_value(live).unwrap();
    let captures = &stored["plan"]["compared"]["captures"];
    assert_eq!(captures["after"]["live"]["length_ns"], 1_000_000_000);
}
