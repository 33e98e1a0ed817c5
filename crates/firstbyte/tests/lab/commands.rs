//! `firstbyte lab …` from the user's point of view.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use firstbyte_lab::access_log::Entry;

use crate::processes::Family;
use crate::support::{LINKS, NamedLab, PROGRAM, Permits, Scene, firstbyte, open_to_all, run, text};

/// An arbitrary user other than root.
const ORDINARY_USER: u32 = 65_534;

#[test]
fn up_status_exec_shell_down() {
    let _permits = Permits::one();
    let up = NamedLab::new(Scene::new(LINKS));
    let (name, file) = (up.name.as_str(), up.file());
    let file = file.to_str().unwrap();

    let logs = up.scene.path("logs");
    let log_dir = logs.to_str().unwrap();
    let (code, stdout, notes) = up.lab(&["up", file, "--server", "nginx", "--logs", log_dir]);
    assert_eq!((code, stdout.as_str()), (0, ""), "{notes}");
    let [first, enter, down] = notes.lines().collect::<Vec<_>>().try_into().unwrap();
    assert!(first.starts_with(&format!("lab {name} is up (process ")), "{first}");
    assert!(first.contains("nginx 1.") && first.ends_with(" on server"), "{first}");
    assert_eq!(enter, format!("enter it with: firstbyte lab shell {name}"));
    assert_eq!(down, format!("stop it with: firstbyte lab down {name}"));

    let (code, stdout, _) = up.lab(&["status"]);
    assert_eq!(code, 0);
    let line = stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line.contains(" up 0:00:") && line.contains("nginx 1."), "{line}");

    let (code, _, notes) = up.lab(&["up", file]);
    assert_eq!(code, 100);
    assert!(notes.starts_with(&format!("error: the lab {name} is already up\n")), "{notes}");

    let url = "https://server.test/";
    let (code, stdout, notes) =
        up.lab(&["exec", name, "--", PROGRAM, "-4", "-w", "%{http_code} %{remote_ip}", url]);
    assert_eq!((code, stdout.as_str()), (0, "200 198.51.100.1"), "{notes}");
    assert_eq!(up.lab(&["exec", name, "--", "sh", "-c", "exit 7"]).0, 7);
    let (_, addresses, _) =
        up.lab(&["exec", name, "--host", "server", "--", "cat", "/proc/net/fib_trie"]);
    assert!(addresses.contains("198.51.100.1"), "{addresses}");
    let (code, _, notes) = up.lab(&["exec", name, "--host", "paris", "--", "true"]);
    assert_eq!(code, 100);
    assert!(notes.contains("client, resolver, server"), "{notes}");

    let (code, stdout, notes) = shell(&[name], "echo in $FIRSTBYTE_LAB; exit 5\n");
    assert_eq!((code, stdout), (5, format!("in {name}\n")), "{notes}");
    assert!(notes.contains(&format!("lab {name}")), "one has to see where one is: {notes:?}");

    let (code, _, notes) = up.lab(&["down", name]);
    assert_eq!((code, notes), (0, format!("lab {name} is down\n")));
    let requests = Entry::read_all(&logs.join("server-server.log")).unwrap();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.path.as_str(), request.status, request.resumed), ("/", 200, Some(false)));
    assert!(!up.lab(&["status"]).1.contains(name));
    let (code, _, notes) = up.lab(&["exec", name, "--", "true"]);
    assert_eq!(code, 100);
    assert!(notes.starts_with(&format!("error: the lab {name} is not up\n")), "{notes}");
}

#[test]
fn a_shell_has_a_lab_of_its_own_when_none_is_up() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let file = scene.file();
    let script = "curl -sS -o /dev/null -w '%{http_code} %{ssl_verify_result}' \
                  https://server.test/; exit 3\n";
    let (code, stdout, notes) = shell(&[file.to_str().unwrap(), "--seed", "1"], script);
    assert_eq!((code, stdout.as_str()), (3, "200 0"), "{notes}");
    assert!(notes.starts_with("lab test: nginx 1."), "install nginx (nginx-light): {notes}");
}

/// `firstbyte lab shell` with a script on its standard input.
fn shell(arguments: &[&str], script: &str) -> (i32, String, String) {
    let mut command = firstbyte(&["lab", "shell"]);
    command.args(arguments).env("SHELL", "/bin/sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = command.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The error comes before anything is measured.
#[test]
fn logs_that_cannot_be_written_are_an_error() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).args(["--logs", "/proc/version/logs", "--", "echo", "measured"]);
    let output = run(&mut command);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(100), ""));
    let notes = text(&output.stderr);
    assert!(notes.starts_with("error: cannot write log /proc/version/logs: "), "{notes}");
}

#[test]
fn list_and_show_fit_a_terminal() {
    let _permits = Permits::one();
    let list = run(&mut firstbyte(&["lab", "list"]));
    let listed = text(&list.stdout);
    for line in listed.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(names.starts_with(&["govuk"]), "{names:?}");
    for name in names {
        let shown = text(&run(&mut firstbyte(&["lab", "show", name])).stdout);
        assert!(shown.starts_with(&format!("{name}: ")), "{shown}");
        for line in shown.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let source = text(&run(&mut firstbyte(&["lab", "show", name, "--source"])).stdout);
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), source).unwrap();
        let again = run(firstbyte(&["lab", "show"]).arg(file.path()));
        assert_eq!(again.status.code(), Some(0), "{again:?}");
    }
    let govuk = text(&run(&mut firstbyte(&["lab", "show", "govuk"])).stdout);
    let sydney = govuk.lines().find(|line| line.starts_with("sydney")).unwrap();
    assert!(sydney.contains("280.0 ms") && sydney.contains("294.0 ms"), "{sydney}");
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let _permits = Permits::one();
    let output = run(&mut firstbyte(&["lab", "run", "quiet", "--", "no-such-program"]));
    assert_eq!(output.status.code(), Some(100));
    let notes = text(&output.stderr);
    let error = "error: cannot run no-such-program: no such file or directory\n";
    assert!(notes.contains(error), "{notes}");
}

#[test]
fn proxies_of_this_machine_are_not_those_of_a_lab() {
    let _permits = Permits::one();
    let is_empty = "test -z \"$https_proxy$HTTPS_PROXY$all_proxy\"";
    let mut command = firstbyte(&["lab", "run", "quiet", "--", "sh", "-c", is_empty]);
    let output = run(command.env("HTTPS_PROXY", "http://127.0.0.1:1"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn captures_are_named() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).arg("--capture").arg(scene.captures()).args(["--", "true"]);
    let output = run(&mut command);
    let notes = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains(&format!("captures are in {}", scene.captures().display())), "{notes}");
    for file in ["client.pcapng", "middle.pcapng", "server-server.pcapng"] {
        assert!(scene.captures().join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn killing_it_leaves_nothing() {
    let _permits = Permits::one();
    let mut lab = sleeping();
    let family = Family::of_lab(lab.id());
    lab.kill().unwrap();
    lab.wait().unwrap();
    family.wait_until_gone();
}

/// A lab in which a command sleeps.
fn sleeping() -> Child {
    // Not through `timeout`: the test kills this very process.
    let mut command = Command::new(PROGRAM);
    command.args(["lab", "run", "quiet", "--", "sleep", "1000"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Set up as the documents recommend: `setcap cap_net_raw=ep`. Only root may read such a program's entries in /proc.
#[test]
fn a_program_with_a_capability_of_its_own_makes_labs_too() {
    let _permits = Permits::one();
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    open_to_all(directory.path());
    let program = directory.path().join("firstbyte");
    std::fs::copy(PROGRAM, &program).unwrap();
    let status = Command::new("setcap").arg("cap_net_raw=ep").arg(&program).status();
    assert!(status.unwrap().success(), "install setcap (libcap2-bin)");
    std::fs::copy(Scene::new(LINKS).file(), directory.path().join("capable.toml")).unwrap();
    // Through a shell: a process that was root still has its privileges when it executes the first program.
    let script = "umask 022; \"$0\" lab run ./capable.toml -- true && \"$0\" lab up ./capable.toml && \
                  \"$0\" lab status && \"$0\" lab exec capable -- true && \"$0\" lab down capable";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(&program).current_dir(directory.path());
    command.uid(ORDINARY_USER).gid(ORDINARY_USER).env_remove("HOME").env_remove("TMPDIR");
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    // Labs of other tests may be listed too.
    let listed = text(&output.stdout);
    assert!(listed.lines().any(|line| line.starts_with("capable ")), "{output:?}");
}

#[test]
fn a_server_that_dies_is_told() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    // Within the lab only its own processes are visible.
    let script = "for p in /proc/[0-9]*; do case $(cat $p/comm) in nginx) kill -9 ${p#/proc/};; esac; done; sleep 0.2";
    let file = scene.file();
    let output = run(firstbyte(&["lab", "run", file.to_str().unwrap(), "--server", "nginx", "--"])
        .args(["sh", "-c", script]));
    let notes = text(&output.stderr);
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains("warning: the server nginx 1."), "{notes}");
    assert!(notes.contains(" on server ended before the lab did: "), "{notes}");
}

#[test]
fn a_server_that_dies_is_told_by_the_status_of_a_lab_that_is_up() {
    let _permits = Permits::one();
    let up = NamedLab::new(Scene::new(LINKS));
    let (name, file) = (up.name.as_str(), up.file());
    assert_eq!(up.lab(&["up", file.to_str().unwrap(), "--server", "nginx"]).0, 0);
    let after_name = |text: String| {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("{name} "))).unwrap();
        lines.get(at + 1).cloned().unwrap_or_default()
    };
    let before = after_name(up.lab(&["status"]).1);
    assert!(!before.contains("no longer running"), "{before}");
    // A killed process is a zombie, or gone, a moment later.
    let script = "for p in /proc/[0-9]*; do case $(cat $p/comm) in nginx) kill -9 ${p#/proc/}; \
                  while grep -qs '^State:.[^Z]' $p/status; do :; done;; esac; done";
    up.lab(&["exec", name, "--", "sh", "-c", script]);
    let told = after_name(up.lab(&["status"]).1);
    assert!(told.contains(" no longer running: nginx 1."), "{told}");
    assert!(told.ends_with(" on server"), "{told}");
}

#[test]
fn down_without_a_name_leaves_labs_of_other_terminals() {
    let _permits = Permits::one();
    let up = NamedLab::new(Scene::new(LINKS));
    // A separate session, as in every terminal.
    let mut command = Command::new("setsid");
    command.args(["--wait", PROGRAM, "lab", "up"]).arg(up.file());
    assert!(run(&mut command).status.success());
    // The test's own session may contain labs of other tests.
    let output = run(Command::new("setsid").args(["--wait", PROGRAM, "lab", "down"]));
    let (name, notes) = (&up.name, text(&output.stderr));
    assert!(output.status.success(), "{notes}");
    assert!(notes.contains(&format!("stop it with: firstbyte lab down {name}\n")), "{notes}");
    assert!(up.lab(&["status"]).1.contains(name.as_str()));
    assert_eq!(up.lab(&["down", name]).0, 0);
}
