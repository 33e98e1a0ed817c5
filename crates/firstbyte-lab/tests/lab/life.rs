//! How labs begin and end, and that they leave nothing behind.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use firstbyte_lab::{LabError, LabOptions, RunningLab, ServerChoice};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{in_lab, scenario};

fn builtin() -> LabOptions {
    LabOptions { server: ServerChoice::Builtin, ..LabOptions::default() }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The role that this program plays when a test starts it as a helper.
pub(crate) fn play(role: &str) -> ExitCode {
    let outcome = match role {
        // With nginx, a process that is not ours.
        "sleep" => firstbyte_lab::run(&scenario("", ""), &LabOptions::default(), |lab| {
            println!("ready");
            lab.run_command("client", shell("sleep 1000")).unwrap()
        }),
        "start" => firstbyte_lab::run(&scenario("", ""), &builtin(), |_| 0),
        other => panic!("no such role: {other}"),
    };
    match outcome {
        Ok(code) => ExitCode::from(code as u8),
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Starts a helper process with a lab in which a command sleeps.
fn sleeping_lab() -> Child {
    let mut helper = Command::new(std::env::current_exe().unwrap())
        .arg("--role=sleep")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(helper.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    // The command is up when the lab has a child that is `sleep`.
    wait_until("the command sleeps", || processes_named("sleep 1000") > 0);
    helper
}

pub(crate) fn command() {
    in_lab(&scenario("", ""), &builtin(), |lab| {
        let code = lab.run_command(
            "client",
            shell(r#"grep -q BEGIN "$SSL_CERT_FILE" && test "$FIRSTBYTE_LAB" = test && exit 7"#),
        );
        assert_eq!(code, Ok(7));
        let killed = lab.run_command("client", shell("kill -9 $$"));
        assert_eq!(killed, Ok(137));
        let missing = lab.run_command("client", Command::new("/no/such/program"));
        assert!(matches!(missing, Err(LabError::Command { .. })), "{missing:?}");
        let nowhere = lab.run_command("paris", shell("true")).unwrap_err().to_string();
        assert_eq!(nowhere, "the lab has no host `paris`\n  hosts: client, resolver, server");
        // An orphan, which process 1 of the lab must collect.
        assert_eq!(lab.run_command("client", shell("(sleep 0.1 &) ; exit 0")), Ok(0));
    });
}

pub(crate) fn kill_caller() {
    let before = Machine::look();
    let mut helper = sleeping_lab();
    helper.kill().unwrap();
    helper.wait().unwrap();
    before.wait_until_same();
}

pub(crate) fn kill_lab() {
    let before = Machine::look();
    let mut helper = sleeping_lab();
    // This user may have other labs.
    let mut labs = RunningLab::all().into_iter();
    let lab = labs.find(|lab| descends(lab.pid(), helper.id() as i32));
    let lab = lab.expect("the helper's lab shows itself");
    kill(Pid::from_raw(lab.pid()), Signal::SIGKILL).unwrap();
    assert_eq!(helper.wait().unwrap().code(), Some(137));
    before.wait_until_same();
}

/// Whether `process` is `ancestor` or one of its descendants.
fn descends(process: i32, ancestor: i32) -> bool {
    let parent = |process: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // After the name in parentheses: state, parent.
        let (_, fields) = stat.rsplit_once(')')?;
        fields.split_whitespace().nth(1)?.parse().ok()
    };
    std::iter::successors(Some(process), |process| parent(*process)).any(|one| one == ancestor)
}

pub(crate) fn signal() {
    let before = Machine::look();
    let mut helper = sleeping_lab();
    kill(Pid::from_raw(helper.id() as i32), Signal::SIGTERM).unwrap();
    let status = helper.wait().unwrap();
    assert_eq!((status.code(), status.signal()), (Some(128 + 15), None));
    before.wait_until_same();
}

pub(crate) fn up_run_down() {
    let before = Machine::look();
    let lab = firstbyte_lab::up(&scenario("", ""), &builtin()).unwrap();
    assert_eq!(lab.scenario(), "test");
    assert_eq!(lab.hosts(), ["client", "resolver", "server"]);
    assert_eq!(lab.servers()[0].kind, "built-in (rustls)");
    assert!(RunningLab::all().contains(&lab));

    let on_client =
        r#"grep -q 192.0.2.53 /etc/resolv.conf && test "$FIRSTBYTE_LAB" = test && exit 9"#;
    assert_eq!(lab.run(None, &mut shell(on_client)), Ok(9));
    let on_server =
        "grep -q c6336401 /proc/net/fib_trie || grep -q 198.51.100.1 /proc/net/fib_trie";
    assert_eq!(lab.run(Some("server"), &mut shell(on_server)), Ok(0));
    let nowhere = lab.run(Some("paris"), &mut shell("true"));
    assert!(matches!(nowhere, Err(LabError::UnknownHost { .. })), "{nowhere:?}");

    lab.down().unwrap();
    assert!(!RunningLab::all().contains(&lab));
    before.wait_until_same();
    lab.down().unwrap();
}

pub(crate) fn threads() {
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    let error = firstbyte_lab::run(&scenario("", ""), &builtin(), |_| 0).unwrap_err();
    assert_eq!(error, LabError::Threads { count: 2 });
    drop(stop);
    let _ = thread.join().unwrap();
    in_lab(&scenario("", ""), &builtin(), |_| ());
}

/// Runs in a lab, whose root may forbid its own namespaces without affecting the machine's.
pub(crate) fn refused() {
    if crate::support::is_root() {
        println!("  not run as root: its lab shares the machine's limits");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_mnt_namespaces \
         && {} --role=start",
        program.display()
    );
    in_lab(&scenario("", ""), &builtin(), |lab| {
        let mut command = lab.command_on("client", shell(&script)).unwrap();
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            text,
            "the kernel refuses new namespaces: No space left on device\n  the limit of user \
             namespaces is 0: run as root, or once as root: sysctl user.max_user_namespaces=10000\n"
        );
    });
}

/// State of the machine that a lab must not change.
#[derive(Debug, PartialEq)]
struct Machine {
    interfaces: Vec<PathBuf>,
    mounts: String,
    labs: usize,
    sleeping: usize,
    nginx: usize,
    scratch: Vec<PathBuf>,
}

impl Machine {
    fn look() -> Self {
        Self {
            interfaces: entries("/sys/class/net"),
            mounts: std::fs::read_to_string("/proc/self/mounts").unwrap(),
            labs: RunningLab::all().len(),
            sleeping: processes_named("sleep 1000"),
            nginx: processes_named("nginx -p"),
            scratch: ["/srv", "/media", "/mnt", "/opt"].into_iter().flat_map(entries).collect(),
        }
    }

    fn wait_until_same(&self) {
        wait_until(&format!("the machine is as it was: {self:?}"), || Self::look() == *self);
    }
}

fn entries(directory: &str) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    entries
}

fn processes_named(part: &str) -> usize {
    entries("/proc")
        .into_iter()
        .filter_map(|process| {
            let mut arguments = Vec::new();
            std::fs::File::open(process.join("cmdline")).ok()?.read_to_end(&mut arguments).ok()?;
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            // Skips the shell whose script contains the name.
            (arguments.contains(part) && !arguments.contains("-c ")).then_some(())
        })
        .count()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("not within 20 s: {what}");
}
