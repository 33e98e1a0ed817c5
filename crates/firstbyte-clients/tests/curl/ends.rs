//! Ends of visits: no process keeps running, and no file is left.

use std::path::Path;
use std::time::Duration;

use firstbyte_clients::curl::{CurlCapabilities, CurlError};
use firstbyte_core::timeline::{Cause, Sample};
use firstbyte_probe::probe::options::Options;
use firstbyte_probe::probe::{Prober, Target};

use crate::support::{Pretended, prober, visit, wait, write_program};

/// Writes its process ID and that of its child, and hangs.
const HANGS: &str = "sleep 600 & echo \"$$ $!\" > \"$folder/pids.new\"\nmv \"$folder/pids.new\" \"$folder/pids\"\nwait";

fn target() -> Target {
    Target::parse("https://127.0.0.1:1/").unwrap()
}

/// The processes of a hanging curl, once it has reported them.
async fn processes(said: &Path) -> Vec<String> {
    loop {
        if let Ok(text) = std::fs::read_to_string(said) {
            return text.split_whitespace().map(str::to_owned).collect();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn runs(process: &str) -> bool {
    // A zombie does not run any more.
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// All of them got SIGKILL. The kernel takes some time to end processes that are not our children.
fn all_gone(processes: &[String]) {
    assert_eq!(processes.len(), 2);
    let gone = || processes.iter().all(|process| !runs(process));
    let ended = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        gone()
    });
    assert!(ended, "{processes:?} still run");
}

#[test]
fn an_interruption_ends_it_at_once() {
    let hanging = Pretended::new(None, HANGS);
    let prober = prober(&hanging.program(), &Options::default());
    let (sample, processes) = wait(async {
        let target = target();
        let interrupting = async {
            let processes = processes(&hanging.file("pids")).await;
            assert!(runs(&processes[0]));
            prober.interrupt();
            processes
        };
        tokio::join!(prober.probe(&target), interrupting)
    });
    assert_eq!(sample.failure().unwrap().cause, Cause::Interrupted);
    all_gone(&processes);
    // The next visit is not interrupted.
    std::fs::remove_file(hanging.file("pids")).unwrap();
    let again = wait(async {
        let target = target();
        let ended = tokio::time::timeout(Duration::from_millis(300), prober.probe(&target)).await;
        ended.is_err()
    });
    assert!(again);
}

#[test]
fn a_visit_that_is_given_up_ends() {
    let hanging = Pretended::new(None, HANGS);
    let prober = prober(&hanging.program(), &Options::default());
    let processes = wait(async {
        let (target, said) = (target(), hanging.file("pids"));
        tokio::select! {
            _ = prober.probe(&target) => panic!("it hangs"),
            processes = processes(&said) => processes,
        }
    });
    drop(prober);
    all_gone(&processes);
}

#[test]
fn one_that_hangs_is_ended_by_the_limit() {
    let hanging = Pretended::new(None, HANGS);
    let options = Options { max_time: Some(Duration::from_millis(100)), ..Options::default() };
    let sample = visit(&hanging.program(), &options, &target());
    let failure = sample.failure().unwrap();
    // The name server is not involved.
    assert_eq!(failure.failure_type().as_str(), "client.failed", "{failure}");
    all_gone(&wait(processes(&hanging.file("pids"))));
}

fn said_by(script: &str) -> (Sample, String) {
    let pretended = Pretended::new(None, script);
    let sample = visit(&pretended.program(), &Options::default(), &target());
    let failure = sample.failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "client.failed");
    let text = failure.to_string();
    (sample, text)
}

#[test]
fn what_is_no_report_is_named() {
    for (script, named) in [
        ("kill -SEGV $$", "ended by signal 11"),
        ("exit 0", "ended with exit code 0 and without its report"),
        ("echo 'curl: option --foo: is unknown' >&2; exit 2", "option --foo: is unknown"),
        ("head -c 9000000 /dev/zero; exit 3", "ended with exit code 3"),
        ("yes | head -c 9000000; exit 3", "ended with exit code 3"),
        (
            "m=$(sed -n 's/^write-out = .*\\\\n\\(.*\\) report .*/\\1/p'); printf '\\n%s report {\"time_total\":-1}\\n' \"$m\"",
            "cannot read curl's output: curl's report has the invalid value -1 for time_total",
        ),
        (
            "m=$(sed -n 's/^write-out = .*\\\\n\\(.*\\) report .*/\\1/p'); printf '\\n%s report %%&/()\\n' \"$m\"",
            "cannot read curl's output: curl's report has no time_total",
        ),
    ] {
        let (sample, text) = said_by(script);
        assert!(text.contains(named), "{script}: {text}");
        assert_eq!(sample.connection.marks.iter().count(), 0);
    }
}

#[test]
fn a_curl_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let program = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_program(&path, &format!("#!/bin/sh\n{text}\n"));
        path.display().to_string()
    };
    let said = |program: &str| CurlCapabilities::ask(program).unwrap_err();
    let missing = said(&folder.path().join("nowhere").display().to_string());
    assert!(missing.to_string().contains("is not installed"), "{missing}");
    let old = said(&program("old", "echo 'curl 7.64.0 (x) libcurl/7.64.0 OpenSSL/1.1.1d'"));
    assert!(matches!(old, CurlError::TooOld { .. }), "{old}");
    assert!(
        old.to_string().ends_with("is version 7.64.0; version 7.68 or later is required"),
        "{old}"
    );
    for (name, text) in [
        ("other", "echo 'GNU Wget 1.21.3'"),
        ("silent", "exit 0"),
        ("crashes", "kill -KILL $$"),
        ("rubbish", "head -c 100000 /dev/urandom"),
    ] {
        let error = said(&program(name, text));
        assert!(matches!(error, CurlError::NotCurl { .. }), "{name}: {error}");
    }
}
