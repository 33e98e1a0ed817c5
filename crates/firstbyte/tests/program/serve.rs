//! `firstbyte serve`, tested with firstbyte itself, and the output of `firstbyte lab export`, tested with nginx.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use crate::support::files::Directory;
use crate::support::run::firstbyte;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running server; killed when dropped.
struct Server {
    child: Child,
    stderr: BufReader<ChildStderr>,
    port: u16,
}

impl Server {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firstbyte"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let port = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split('/').next());
        let port = port.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { child, stderr, port }
    }

    fn stop(mut self, signal: Signal) -> (Option<i32>, String) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn serves_until_it_is_told_to_stop() {
    let directory = Directory::new();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let server = Server::start(
            directory.path(),
            &["--self-signed", "localhost", "--ca-out", "ca.pem", "--access-log", "log"],
        );
        let url = format!("https://localhost:{}/bytes/5000", server.port);
        let outcome = firstbyte(
            directory.path(),
            &["--cacert", "ca.pem", "-4", "-w", "%{http_code} %{size_download}", &url],
        );
        assert_eq!(outcome.stdout, "200 5000", "{}", outcome.stderr);
        let (code, rest) = server.stop(signal);
        assert_eq!(code, Some(0), "{rest}");
        assert!(
            rest.contains("measure it: firstbyte --cacert ca.pem -4 https://localhost:"),
            "{rest}"
        );
        assert!(rest.ends_with("stop it with Ctrl-C\nstopped\n"), "{rest}");
    }
    let log = fs::read_to_string(directory.path().join("log")).unwrap();
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.lines().all(|line| line.ends_with(" path=/bytes/5000")), "{log}");
}

#[test]
fn http3_has_the_same_port_unless_it_is_off() {
    let directory = Directory::new();
    let made = ["--self-signed", "localhost", "--ca-out", "ca.pem"];
    let server = Server::start(directory.path(), &made);
    assert!(UdpSocket::bind(("127.0.0.1", server.port)).is_err());
    let server = Server::start(directory.path(), &[&made[..], &["--no-http3"]].concat());
    assert!(UdpSocket::bind(("127.0.0.1", server.port)).is_ok());
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    let directory = Directory::new();
    let ca = firstbyte_lab::ca::Ca::new().unwrap();
    let certificate = ca.issue(&["localhost".to_owned()]).unwrap();
    let other = ca.issue(&["localhost".to_owned()]).unwrap();
    directory.write("chain.pem", &certificate.chain_pem);
    directory.write("other.pem", &other.key_pem);
    directory.write("not.pem", "nothing of the kind");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let made = ["--self-signed", "localhost", "--ca-out", "ca.pem"];
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--cert", "chain.pem", "--key", "other.pem"], 2, "error: cannot set up TLS: "),
        (
            &["--cert", "chain.pem", "--key", "not.pem"],
            2,
            "error: cannot set up TLS: unexpected error: unreadable PEM: no items found\n\
             hint: the certificate is chain.pem, its key not.pem\n",
        ),
        (&["--cert", "not.pem", "--key", "other.pem"], 2, "error: cannot set up TLS: "),
        (&["--cert", "missing.pem", "--key", "other.pem"], 26, "error: cannot read missing.pem: "),
        (&["--cert", "chain.pem"], 2, "error: the following required arguments were not provided"),
        (&["--self-signed", "localhost"], 2, "error: the following required arguments"),
        (&[made[0], made[1], made[2], "no/ca.pem"], 23, "error: cannot write no/ca.pem: "),
        (
            &[made[0], made[1], made[2], made[3], "--listen", "localhost:1"],
            2,
            "error: invalid value 'localhost:1' for '--listen <ADDRESS:PORT>': not an address and \
             a port, such as 127.0.0.1:8443 or [::1]:8443",
        ),
        (
            &[made[0], made[1], made[2], made[3], "--listen", &taken],
            2,
            &format!("error: cannot listen at {taken} (TCP): "),
        ),
    ];
    for (arguments, code, beginning) in cases {
        let listen: &[&str] =
            if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let outcome = firstbyte(directory.path(), &[&["serve"], arguments, listen].concat());
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.starts_with(beginning), "{arguments:?}: {}", outcome.stderr);
    }
}

#[test]
fn the_exported_project_is_one_that_nginx_takes() {
    let directory = Directory::new();
    for (early_data, line) in [("on", "ssl_early_data on;"), ("off", "ssl_early_data off;")] {
        let arguments = ["lab", "export", early_data, "--early-data", early_data];
        let outcome = firstbyte(directory.path(), &arguments);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let project = directory.path().join(early_data);
        let config = fs::read_to_string(project.join("nginx.conf")).unwrap();
        assert!(config.contains(line), "{config}");
        assert_eq!(fs::read(project.join("html/index.html")).unwrap().len(), 4_000);
        assert_eq!(fs::read(project.join("html/image.jpg")).unwrap().len(), 1_000_000);
        let readme = fs::read_to_string(project.join("README.md")).unwrap();
        assert!(!readme.contains('@'), "{readme}");
        check_with_nginx(&project, &config);
    }
}

/// Runs `nginx -t` with the container's paths replaced by the project's, and its ports by other sockets.
fn check_with_nginx(project: &Path, config: &str) {
    let certificate =
        firstbyte_lab::ca::Ca::new().unwrap().issue(&["web.test".to_owned()]).unwrap();
    fs::write(project.join("certificates/fullchain.pem"), certificate.chain_pem).unwrap();
    fs::write(project.join("certificates/privkey.pem"), certificate.key_pem).unwrap();
    let at = project.display().to_string();
    // The system's directories belong to root, and do not exist before root has started nginx once.
    let scratch: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("\n{what}_temp_path {at}/{what};"))
        .concat();
    let config: String = config
        .replace("http {", &format!("http {{{scratch}"))
        .replace("/srv/", &format!("{at}/"))
        .replace("/run/nginx.pid", &format!("{at}/pid"))
        .replace("/dev/stdout", &format!("{at}/log"))
        .replace("listen 80", &format!("listen unix:{at}/http"))
        .replace("listen 443", &format!("listen unix:{at}/https"))
        .lines()
        .filter(|line| !line.contains("listen [::]"))
        .map(|line| format!("{line}\n"))
        .collect();
    let file = project.join("test.conf");
    fs::write(&file, config).unwrap();
    let output = ["/usr/sbin/nginx", "nginx"]
        .iter()
        .find_map(|program| {
            let mut command = Command::new(program);
            command.args(["-t", "-e", "stderr", "-p"]).arg(project).arg("-c").arg(&file);
            command.output().ok()
        })
        .expect("install nginx (apt-get install nginx-light)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn what_is_there_is_not_written_over_unasked() {
    let directory = Directory::new();
    directory.write("README.md", "mine");
    let outcome = firstbyte(directory.path(), &["lab", "export", "."]);
    assert_eq!(
        (outcome.code, outcome.stderr.as_str()),
        (23, "error: . is not empty\nhint: --force writes into it anyway\n")
    );
    let outcome = firstbyte(directory.path(), &["lab", "export", ".", "--force"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(directory.path().join("compose.yaml").exists());
}
