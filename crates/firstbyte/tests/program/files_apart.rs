//! No output replaces an input or another output, whatever its name: hard links, symbolic links, other paths to the
//! same file, standard streams. This is detected before any file is emptied.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::files::Directory;
use crate::support::run::firstbyte;
use crate::support::runs::{header, taken};
use firstbyte::runs::{Creation, RunWriter};
use firstbyte_probe::experiment::{ExperimentPlan, RunPlan};
use firstbyte_probe::probe::Secret;

const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/nam/input.pcapng");

/// A command, its file `in`, and why it must not use the same file again as `out`.
type Row = (&'static [&'static str], &'static str, &'static str);

/// Every input and every output of each command.
const ROWS: &[Row] = &[
    (&["-d", "@in", "-o", "out", "a.test"], "body", "is read"),
    (&["--data-binary", "@in", "-o", "out", "a.test"], "body", "is read"),
    (&["-w", "@in", "-o", "out", "a.test"], "body", "is read"),
    (&["-d", "@in", "-w", "%output{out}", "a.test"], "body", "is read"),
    (&["-d", "@in", "-w", "%output{>>out}", "a.test"], "body", "is read"),
    (&["--cacert", "in", "-o", "out", "a.test"], "ca.pem", "is read"),
    (&["--cert", "in", "-o", "out", "a.test"], "client-all.pem", "is read"),
    (&["--cert", "client.pem", "--key", "in", "-o", "out", "a.test"], "client.key", "is read"),
    (&["-o", "in", "-w", "%output{out}", "a.test"], "body", "two outputs"),
    (&["-d", "@in", "--json=out", "a.test"], "body", "is read"),
    (&["-o", "in", "--csv=out", "a.test"], "body", "two outputs"),
    (&["predict", "--from", "in", "--json=out"], "a.run", "is read"),
    (&["explain", "--from", "in", "--json=out"], "a.run", "is read"),
    (&["compare", "a.test", "--aa", "--run", "in", "--html", "out"], "empty", "is the run file"),
    (
        &["compare", "a.test", "--aa", "--run", "b.run", "--cacert", "in", "--har", "out"],
        "ca.pem",
        "is read",
    ),
    (&["compare", "a.test", "--aa", "-d", "@in", "--csv=out"], "body", "is read"),
    (&["compare", "a.test", "--aa", "-d", "@in", "--run", "out"], "body", "is read"),
    (&["compare", "--plan", "in", "--run", "b.run", "--json=out"], "plan.toml", "is read"),
    (&["compare", "--continue", "in", "--html", "out"], "compared.run", "is the run file"),
    (&["compare", "--continue", "in", "--svg", "."], "compared.run", "is the run file"),
    (&["compare", "a.test", "--aa", "--csv=in", "--parquet", "out"], "body", "two outputs"),
    (
        &["check", "--plan", "in", "--fail-if", "ttfb.p50 > 1s", "--summary", "out"],
        "plan.toml",
        "is read",
    ),
    (
        &["check", "--from", "in", "--fail-if", "ttfb.p50 > 1s", "--summary", "out"],
        "a.run",
        "is read",
    ),
    (
        &[
            "check",
            "--from",
            "b.run",
            "--baseline",
            "in",
            "--fail-if",
            "ttfb.p50 +1s",
            "--summary",
            "out",
        ],
        "a.run",
        "is read",
    ),
    (
        &[
            "check",
            "--plan",
            "plan.toml",
            "--run",
            "in",
            "--fail-if",
            "ttfb.p50 > 1s",
            "--summary",
            "out",
        ],
        "empty",
        "is the run file",
    ),
    (&["explain", "a.test", "--run", "in", "--html", "out"], "empty", "is the run file"),
    (&["explain", "a.test", "--run", "in", "--png", "."], "empty", "is the run file"),
    (&["explain", "a.test", "-d", "@in", "--html", "out"], "body", "is read"),
    (&["explain", "a.test", "--capture", "in", "--html", "out"], "capture", "is read"),
    (&["explain", "--from", "in", "--html", "out"], "a.run", "is read"),
    (&["explain", "--from", "in", "--svg", "."], "a.run", "is read"),
    (&["report", "in", "--html", "out"], "a.run", "is read"),
    (&["report", "b.run", "in", "--csv=out"], "a.run", "is read"),
    (&["report", "in", "--json=out"], "a.run", "is read"),
    (&["report", "in", "--parquet", "out"], "a.run", "is read"),
    (&["report", "in", "--har", "out"], "a.run", "is read"),
    (&["report", "in", "--svg", "."], "a.run", "is read"),
    (&["report", "in", "--png", "."], "a.run", "is read"),
    (&["report", "a.run", "--har", "in", "--html", "out"], "body", "two outputs"),
    (
        &["predict", "--population", "in", "--change", "tls=1.2:1.3", "--html", "out"],
        "crowd.csv",
        "is read",
    ),
    (
        &["predict", "--population", "in", "--change", "tls=1.2:1.3", "--svg", "."],
        "crowd.csv",
        "is read",
    ),
    (
        &[
            "predict",
            "--from",
            "in",
            "--population",
            "crowd.csv",
            "--change",
            "tls=1.2:1.3",
            "--html",
            "out",
        ],
        "a.run",
        "is read",
    ),
    (&["lab", "study", "pq", "--plan", "in", "--html", "out"], "plan.toml", "is read"),
    (&["lab", "study", "nam", "--plan", "in", "--capture", "."], "plan.toml", "is read"),
    (&["lab", "study", "pq", "--run", "in", "--csv=out"], "empty", "is the run file"),
    (&["lab", "study", "./in", "--plan", "plan.toml", "--csv=out"], "lab.toml", "is read"),
    (&["lab", "run", "./in", "--capture", ".", "--", "true"], "lab.toml", "is read"),
    (&["lab", "run", "./in", "--logs", ".", "--", "true"], "lab.toml", "is read"),
    (
        &["serve", "--cert", "in", "--key", "client.key", "--access-log", "out"],
        "client.pem",
        "is read",
    ),
    (
        &["serve", "--cert", "client.pem", "--key", "in", "--access-log", "out"],
        "client.key",
        "is read",
    ),
    (
        &["serve", "--self-signed", "a", "--ca-out", "in", "--access-log", "out"],
        "ca.pem",
        "two outputs",
    ),
    (&["wire", "in", "--csv=out"], "capture", "is read"),
    (&["wire", "in", "--parquet", "out"], "capture", "is read"),
    (&["wire", "in", "--zeek", "out"], "capture", "is read"),
    (&["wire", "in", "--html", "out"], "capture", "is read"),
    (&["wire", "in", "--flow", "1", "--svg", "."], "capture", "is read"),
    (&["wire", "in", "--json=out"], "capture", "is read"),
    (&["wire", "in", "-w", "out"], "capture", "is read"),
    (&["wire", "other", "in", "--pcap-out", "out"], "capture", "is read"),
    (&["wire", "other", "--csv=in", "--zeek", "out"], "body", "two outputs"),
    (&["wire", "-i", "lo", "--csv=in", "-w", "out"], "body", "two outputs"),
    (&["wire", "diff", "in", "other", "--html", "out"], "capture", "is read"),
    (&["wire", "diff", "other", "in", "--csv=out"], "capture", "is read"),
    (&["wire", "diff", "other", "in", "--json=out"], "capture", "is read"),
    (&["wire", "diff", "other", "other", "--csv=in", "--html", "out"], "body", "two outputs"),
];

/// A directory with all files that the rows name.
fn directory() -> Directory {
    let directory = Directory::with_client();
    for (name, text) in [
        ("body", "a body\n"),
        ("empty", ""),
        ("crowd.csv", "rtt_ms,weight\n20,1\n"),
        ("plan.toml", "url = 'https://a.test/'\nvary = ['tls=1.2,1.3']\n"),
        ("lab.toml", LAB),
    ] {
        directory.write(name, text);
    }
    for name in ["a.run", "b.run", "compared.run"] {
        let mut header = header(1);
        header.plan = serde_json::to_value(twice()).unwrap();
        let path = directory.path().join(name);
        RunWriter::create(&path, &header, Creation::New).unwrap().append(&taken(1, 0)).unwrap();
    }
    for name in ["capture", "other"] {
        fs::copy(CAPTURE, directory.path().join(name)).unwrap();
    }
    directory
}

/// The plan of a run that can be continued: one way to connect, two rounds.
fn twice() -> RunPlan {
    RunPlan::Compare(Box::new(ExperimentPlan {
        url: Secret::new("a.test".to_owned()),
        vary: Vec::new(),
        ways: Vec::new(),
        warmup: 1,
        rounds: 100,
        until: None,
        interval_ns: None,
        concurrent: None,
        aa: true,
        seed: 7,
        early_data_any_method: false,
        options: firstbyte::cli::options_for(&["a.test"]).unwrap(),
    }))
}

const LAB: &str = r#"
description = "for a test"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.1"
[[host]]
name = "resolver"
role = "resolver"
ipv4 = "192.0.2.53"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["www.test"]
"#;

/// Every file with its content.
fn contents(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect()
}

/// `words` with the names of the input and of the output filled in.
fn named(words: &[&str], input: &str, output: &str) -> Vec<String> {
    let put = |word: &&str| match *word {
        "in" => input.to_owned(),
        "./in" => format!("./{input}"),
        "@in" => format!("@{input}"),
        "out" => output.to_owned(),
        "--csv=in" => format!("--csv={input}"),
        "--csv=out" => format!("--csv={output}"),
        "--json=out" => format!("--json={output}"),
        word => word
            .replace("%output{out}", &format!("%output{{{output}}}"))
            .replace("%output{>>out}", &format!("%output{{>>{output}}}")),
    };
    words.iter().map(put).collect()
}

/// Extension of the files that the command would write into a directory.
fn ending(words: &[&str]) -> Option<&'static str> {
    let endings = [("--svg", "svg"), ("--png", "png"), ("--capture", "pcapng"), ("--logs", "log")];
    let is_directory = words.windows(2).find(|pair| pair[1] == ".")?;
    endings.iter().find(|(flag, _)| *flag == is_directory[0]).map(|(_, ending)| *ending)
}

fn refuses(directory: &Path, words: &[String], names: [&str; 2], why: &str) {
    let before = contents(directory);
    let outcome = firstbyte(directory, words);
    assert_eq!(outcome.code, 2, "{words:?}: {}\n{}", outcome.stderr, outcome.stdout);
    let message = outcome.stderr.lines().next().unwrap();
    assert!(message.contains(why), "{words:?}: {}", outcome.stderr);
    assert!(names.iter().all(|name| message.contains(name)), "{words:?}: {}", outcome.stderr);
    assert!(outcome.stderr.contains("hint: "), "{words:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "{words:?}");
    assert_eq!(contents(directory), before, "{words:?}");
}

#[test]
fn links_of_both_kinds_are_seen_through() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name);
    for (words, input, why) in ROWS {
        let output = ending(words).map_or("linked".to_owned(), |end| format!("linked.{end}"));
        for hard in [true, false] {
            match hard {
                true => fs::hard_link(path(input), path(&output)).unwrap(),
                false => symlink(input, path(&output)).unwrap(),
            }
            refuses(directory.path(), &named(words, input, &output), [input, &output], why);
            fs::remove_file(path(&output)).unwrap();
        }
    }
}

#[test]
fn the_same_name_and_other_ways_to_it_are_refused_too() {
    let directory = directory();
    for (words, input, why) in ROWS.iter().filter(|(words, ..)| ending(words).is_none()) {
        let here = directory.path().file_name().unwrap().to_str().unwrap();
        for output in [(*input).to_owned(), format!("./{input}"), format!("../{here}/{input}")] {
            // A format may name a file twice, but `-o` must not name it too.
            refuses(directory.path(), &named(words, input, &output), [input, &output], why);
        }
    }
}

/// A dangling link to the path of a later output.
#[test]
fn links_that_lead_nowhere_are_followed() {
    let directory = directory();
    symlink("later", directory.path().join("link")).unwrap();
    let rows: &[(&[&str], &str)] = &[
        (&["compare", "a.test", "--aa", "--run", "later", "--html", "link"], "is the run file"),
        (&["report", "a.run", "--csv=later", "--json=link"], "two outputs"),
        (&["wire", "capture", "--csv=link", "--zeek", "later"], "two outputs"),
        (&["-o", "later", "-w", "%output{link}", "a.test"], "two outputs"),
    ];
    for (words, why) in rows {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        refuses(directory.path(), &words, ["later", "link"], why);
        assert!(!directory.path().join("later").exists(), "{words:?}");
    }
}

/// Standard streams are files if the shell redirects them.
#[test]
fn standard_streams_that_are_files_are_told_apart_as_well() {
    let directory = directory();
    let run = |words: &[&str], stdin: Stdio, stdout: Stdio| {
        let mut command = Command::new(PROGRAM);
        command.args(words).current_dir(directory.path()).stdin(stdin).stdout(stdout);
        let output = command.stderr(Stdio::piped()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let behind = |name: &str| {
        Stdio::from(File::options().append(true).open(directory.path().join(name)).unwrap())
    };
    let of = |name: &str| Stdio::from(File::open(directory.path().join(name)).unwrap());
    let before = contents(directory.path());
    for (words, stdin, stdout, said) in [
        (
            &["report", "a.run", "--csv"] as &[&str],
            Stdio::null(),
            behind("a.run"),
            "standard output is the same file as a.run, which is read",
        ),
        (&["report", "a.run"], Stdio::null(), behind("a.run"), "standard output is the same file"),
        (
            &["report", "a.run", "--html", "body"],
            Stdio::null(),
            behind("body"),
            "two outputs to one file: body and standard output",
        ),
        (
            &["wire", "-", "--csv=capture"],
            of("capture"),
            Stdio::null(),
            "capture is the same file as standard input, which is read",
        ),
        (
            &["wire", "-", "--json"],
            of("capture"),
            behind("capture"),
            "standard output is the same file as standard input, which is read",
        ),
    ] {
        let (code, stderr) = run(words, stdin, stdout);
        assert_eq!(code, Some(2), "{words:?}: {stderr}");
        assert!(stderr.starts_with(&format!("error: {said}")), "{words:?}: {stderr}");
        assert_eq!(contents(directory.path()), before, "{words:?}");
    }
}

/// Devices lose nothing, inputs may be read twice, and a picture may replace an older one.
#[test]
fn what_does_no_harm_is_allowed() {
    let directory = directory();
    fs::create_dir(directory.path().join("pictures")).unwrap();
    directory.write("pictures/forest.svg", "of an earlier report");
    let null = symlink("/dev/null", directory.path().join("null"));
    null.unwrap();
    for words in [
        &["report", "a.run", "a.run"] as &[&str],
        &["report", "a.run", "--csv=/dev/null", "--html", "null"],
        &["report", "a.run", "--svg", "pictures", "--png", "pictures", "--csv=body"],
        &["wire", "diff", "capture", "capture", "--csv=/dev/null", "--html", "null"],
        &["wire", "capture", "--csv=/dev/stdout"],
    ] {
        let outcome = firstbyte(directory.path(), words);
        assert_eq!(outcome.code, 0, "{words:?}: {}", outcome.stderr);
    }
    let refused = firstbyte(directory.path(), &["-w", "%output{x}a%output{>>x}b", "ftp://a"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
}

/// Files that a failed command created but did not write to are removed. Existing files stay, even empty ones.
#[test]
fn what_fails_before_there_is_a_result_leaves_nothing_behind() {
    let directory = directory();
    let before = contents(directory.path());
    for words in [
        &["wire", "none", "--json=new.json", "--html", "new.html"] as &[&str],
        &["wire", "none", "--csv=new.csv", "--parquet", "new.parquet"],
        // A run is not a capture; an existing file stays unchanged.
        &["wire", "a.run", "--csv=new.csv", "--json=capture"],
        &["wire", "diff", "capture", "none", "--csv=new.csv", "--html", "empty"],
        &["explain", "--from", "none", "--json=new.json", "--svg", "pictures"],
        &["predict", "--from", "none", "--csv=new.csv"],
    ] {
        let outcome = firstbyte(directory.path(), words);
        assert_eq!(outcome.code, 26, "{words:?}: {}", outcome.stderr);
        assert_eq!(contents(directory.path()), before, "{words:?}");
        assert!(!directory.path().join("pictures").exists(), "{words:?}");
    }
}

/// If the disk is full or a reader goes away, the other outputs are still completed.
#[test]
fn what_can_be_written_is_whole_whatever_fails_beside_it() {
    let directory = directory();
    let words = ["wire", "capture", "--json=/dev/full", "--parquet", "rows.parquet"];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 23, "{}", outcome.stderr);
    let rows = std::fs::read(directory.path().join("rows.parquet")).unwrap();
    assert!(rows.ends_with(b"PAR1"), "{} bytes", rows.len());
}

/// A reader of the pipe would take a first close for the end of the output.
#[test]
fn a_named_pipe_is_opened_once() {
    use nix::sys::stat::Mode;
    let directory = directory();
    let pipe = directory.path().join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    let outcome = firstbyte(directory.path(), &["wire", "capture", "--json=pipe"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let (piped, printed) =
        (reader.join().unwrap(), firstbyte(directory.path(), &["wire", "capture", "--json"]));
    assert!(piped.lines().count() > 1);
    assert_eq!(piped, printed.stdout);
}

/// If one output cannot be created, none is.
#[test]
fn what_is_refused_leaves_nothing_behind() {
    let directory = directory();
    let before = contents(directory.path());
    let words = ["report", "a.run", "--csv=new.csv", "--html", "none/new.html"];
    let outcome = firstbyte(directory.path(), &words);
    assert_eq!(outcome.code, 23, "{}", outcome.stderr);
    assert_eq!(contents(directory.path()), before);
}
