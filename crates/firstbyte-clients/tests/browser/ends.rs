//! The browser always ends, and leaves nothing behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_clients::browser::BrowserOptions;
use firstbyte_clients::chromium::Chromium;
use firstbyte_clients::devtools::DevTools;
use firstbyte_clients::process::{ClientCommand, ClientError, ClientProcess};
use firstbyte_clock::Monotonic;
use serde_json::Value;

use crate::support::Bench;

/// Number of processes whose command line contains `text`.
fn running(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

fn home(browser: &Chromium) -> PathBuf {
    browser.process().unwrap().home().unwrap().to_owned()
}

#[test]
fn it_ends_with_its_owner() {
    let bench = Bench::new(|_| {});
    let mut browser = Chromium::new(bench.options());
    browser.visit(&bench.url("/")).unwrap();
    let home = home(&browser);
    let name = home.to_string_lossy().into_owned();
    assert!(running(&name) > 0);
    drop(browser);
    assert_eq!((running(&name), home.exists()), (0, false));
}

#[test]
fn it_ends_in_a_panic() {
    let bench = Bench::new(|_| {});
    let (sender, receiver) = std::sync::mpsc::channel();
    let (options, url) = (bench.options(), bench.url("/"));
    let panicked = std::thread::spawn(move || {
        let mut browser = Chromium::new(options);
        browser.visit(&url).unwrap();
        sender.send(home(&browser)).unwrap();
        panic!("as it is meant to");
    });
    let home = receiver.recv().unwrap();
    assert!(panicked.join().is_err());
    assert_eq!((running(&home.to_string_lossy()), home.exists()), (0, false));
}

#[test]
fn a_crash_is_said_and_the_next_visit_has_another_browser() {
    let bench = Bench::new(|_| {});
    let mut browser = Chromium::new(bench.options());
    let url = bench.url("/");
    browser.visit(&url).unwrap();
    let text = home(&browser).to_string_lossy().into_owned();
    let main = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).find_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let is_main = line.contains(&text) && line.contains("remote-debugging-pipe");
        (is_main && !line.starts_with("/bin/sh"))
            .then(|| entry.file_name().to_string_lossy().parse::<i32>().ok())?
    });
    let main = nix::unistd::Pid::from_raw(main.unwrap());
    nix::sys::signal::kill(main, nix::sys::signal::Signal::SIGKILL).unwrap();
    let error = browser.visit(&url).unwrap_err();
    assert!(matches!(error, ClientError::Ended { .. }), "{error}");
    browser.visit(&url).unwrap();
}

#[test]
fn what_takes_too_long_is_a_failure_and_can_be_interrupted() {
    let bench = Bench::new(|config| config.think_time = Duration::from_secs(15));
    let mut options = bench.options();
    options.time_limit = Duration::from_secs(5);
    let visit = Chromium::new(options).visit(&bench.url("/")).unwrap();
    let failure = visit.sample().failure().unwrap();
    assert_eq!(failure.failure_type().as_str(), "http.timed_out", "{failure}");
    let mut browser = Chromium::new(bench.options());
    let url = bench.url("/");
    browser.start(&url).unwrap();
    let handle = browser.interrupt_handle();
    let waiting = std::thread::spawn(move || browser.visit(&url).map(drop));
    while !waiting.is_finished() {
        handle.interrupt();
        std::thread::yield_now();
    }
    assert!(matches!(waiting.join().unwrap(), Err(ClientError::Interrupted)));
}

#[test]
fn a_missing_browser_names_its_package() {
    let options =
        BrowserOptions { program: Some("no-such-browser".to_owned()), ..Default::default() };
    let error = Chromium::new(options).visit("https://localhost/").unwrap_err();
    let said = error.to_string();
    assert!(said.contains("no-such-browser") && said.contains("install chromium"), "{said}");
}

#[test]
fn a_program_that_does_not_speak_is_shown_with_its_last_words() {
    let command = ClientCommand {
        program: "/bin/sh".to_owned(),
        package: "dash",
        arguments: vec!["-c".to_owned(), "echo broken display >&2; exit 3".to_owned()],
        ..ClientCommand::default()
    };
    let process = ClientProcess::start(&command).unwrap();
    let home = process.home().unwrap().to_owned();
    let mut devtools = DevTools::over(process, Arc::default()).unwrap();
    let limit = Duration::from_secs(10);
    let error = devtools.call(None, "Browser.getVersion", &Value::Null, limit).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("broken display"), "{said}");
    assert!(!home.exists());
}

#[test]
fn a_program_that_reads_nothing_is_not_waited_for() {
    let command = ClientCommand {
        program: "/bin/sh".to_owned(),
        package: "dash",
        arguments: vec!["-c".to_owned(), "exec sleep 600".to_owned()],
        ..ClientCommand::default()
    };
    let mut devtools =
        DevTools::over(ClientProcess::start(&command).unwrap(), Arc::default()).unwrap();
    let more_than_a_pipe_holds = Value::from("x".repeat(4 << 20));
    let limit = Duration::from_millis(200);
    let error = devtools.call(None, "Page.navigate", &more_than_a_pipe_holds, limit).unwrap_err();
    assert!(matches!(error, ClientError::TimedOut { .. }), "{error}");
}

/// Ends after a child of it has left the process group, which keeps standard error open.
const LEAVING: &str = "setsid sh -c 'echo $$ >&2; : >{home}/left; exec sleep 600' 3<&- 4>&- &
    until [ -e {home}/left ]; do sleep 0.01; done; exit 3";

#[test]
fn a_child_that_left_its_group_is_not_waited_for() {
    let command = ClientCommand {
        program: "/bin/sh".to_owned(),
        package: "dash",
        arguments: vec!["-c".to_owned(), LEAVING.to_owned()],
        ..ClientCommand::default()
    };
    let process = ClientProcess::start(&command).unwrap();
    let mut devtools = DevTools::over(process, Arc::default()).unwrap();
    let begun = Monotonic::now();
    let limit = Duration::from_secs(10);
    let error = devtools.call(None, "Browser.getVersion", &Value::Null, limit).unwrap_err();
    let took = Monotonic::now().since(begun);
    let ClientError::Ended { stderr, .. } = error else { panic!("{error}") };
    let left = nix::unistd::Pid::from_raw(stderr.trim().parse().unwrap());
    nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).unwrap();
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// Even SIGKILL, which cannot be caught, leaves nothing behind: the kernel closes the lifeline.
#[test]
fn it_ends_when_its_owner_is_killed() {
    use std::io::{BufRead, BufReader};
    let own = std::env::current_exe().unwrap();
    let mut owner = std::process::Command::new(own)
        .args(["--ignored", "--exact", "ends::owner_that_is_killed", "--nocapture"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open: the owner's test harness would end if it could not write.
    let mut said = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    let home = said.find_map(|line| Some(line.split_once("home: ")?.1.to_owned()));
    let home = home.unwrap();
    // The forked process may not have executed the program yet.
    let started = Monotonic::now();
    while running(&home) == 0 {
        assert!(Monotonic::now().since(started) < Duration::from_secs(30), "it does not start");
        std::thread::yield_now();
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    drop(said);
    // The process that cleans up is not our child, so poll until it is done or the test's time is over.
    let killed = Monotonic::now();
    while running(&home) > 0 || PathBuf::from(&home).exists() {
        let waited = Monotonic::now().since(killed);
        assert!(waited < Duration::from_secs(30), "{home} is left");
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "started, and killed, by it_ends_when_its_owner_is_killed"]
fn owner_that_is_killed() {
    let command = ClientCommand {
        program: "sleep".to_owned(),
        package: "coreutils",
        // The home appears in its arguments, to find the process by.
        arguments: ["-c", "exec sleep 600 600", "{home}"].map(str::to_owned).to_vec(),
        ..ClientCommand::default()
    };
    let command = ClientCommand { program: "/bin/sh".to_owned(), ..command };
    let process = ClientProcess::start(&command).unwrap();
    println!("home: {}", process.home().unwrap().display());
    std::thread::sleep(Duration::from_secs(600));
}
