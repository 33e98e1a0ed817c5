//! Runs a program until it ends, or kills it.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use firstbyte_clock::Monotonic;

/// No tested command takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) took: Duration,
}

/// Runs `firstbyte` in `directory`, without environment variables about terminals and TLS.
pub(crate) fn firstbyte(directory: &Path, arguments: &[impl AsRef<str>]) -> Outcome {
    run(env!("CARGO_BIN_EXE_firstbyte"), directory, arguments)
}

/// Runs `curl` in `directory`.
///
/// # Panics
/// If curl is not installed: the tests that need it cannot be skipped.
pub(crate) fn curl(directory: &Path, arguments: &[impl AsRef<str>]) -> Outcome {
    let found = Command::new("curl").arg("--version").output().is_ok();
    assert!(found, "this test holds firstbyte against curl: install it (apt-get install curl)");
    run("curl", directory, arguments)
}

fn run(program: &str, directory: &Path, arguments: &[impl AsRef<str>]) -> Outcome {
    let mut command = Command::new(program);
    command
        .args(arguments.iter().map(AsRef::as_ref))
        .current_dir(directory)
        .env("COLUMNS", "80")
        .env("LC_ALL", "C.UTF-8")
        .env("CURL_HOME", directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let not_ours = [
        "NO_COLOR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "QLOGDIR",
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ];
    for name in not_ours {
        command.env_remove(name);
    }
    let begun = Monotonic::now();
    let mut child = command.spawn().unwrap();
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let code = wait(&mut child, begun);
    let took = Monotonic::now().since(begun);
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let shown: Vec<&str> = arguments.iter().map(AsRef::as_ref).collect();
    let code = code.unwrap_or_else(|| panic!("{program} {shown:?} hangs\n{stdout}\n{stderr}"));
    Outcome { code, stdout, stderr, took }
}

/// The exit code, or `None` if the program had to be killed.
fn wait(child: &mut Child, begun: Monotonic) -> Option<i32> {
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Monotonic::now().since(begun) > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
