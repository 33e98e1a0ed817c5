//! Labs to run the program in, and access to the measured samples.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use firstbyte_core::document::{PartsRecord, PhaseRecord, SampleRecord};
use tempfile::TempDir;

pub(crate) use crate::permits::Permits;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_firstbyte");
pub(crate) const SERVER_V4: &str = "198.51.100.1";

/// Round trip from client to server, over IPv4 and over IPv6.
pub(crate) const RTT_V4: Duration = Duration::from_millis(20);
pub(crate) const RTT_V6: Duration = Duration::from_millis(30);
/// Round trip from client to resolver.
pub(crate) const RTT_RESOLVER: Duration = Duration::from_millis(20);

/// Links with these round trips.
pub(crate) const LINKS: &str = r#"up = { delay = "10ms", ipv6 = { delay = "15ms" } }
down = { delay = "10ms", ipv6 = { delay = "15ms" } }"#;

/// A scenario file in a temporary directory, which also receives captures.
pub(crate) struct Scene {
    directory: TempDir,
}

impl Scene {
    /// A client, a resolver, and a server at `server.test` with these links.
    pub(crate) fn new(server_links: &str) -> Self {
        Self::with_servers(&format!(
            r#"
[[host]]
name = "server"
role = "server"
ipv4 = "{SERVER_V4}"
ipv6 = "2001:db8:0:2::1"
names = ["server.test"]
server = {{ page_bytes = 2000 }}
{server_links}
"#
        ))
    }

    /// A client, a resolver, and these servers.
    pub(crate) fn with_servers(servers: &str) -> Self {
        Self::with_hosts(&format!(
            r#"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
ipv6 = "2001:db8:0:1::10"
[[host]]
name = "resolver"
role = "resolver"
ipv4 = "192.0.2.53"
ipv6 = "2001:db8:0:1::53"
up = {{ delay = "10ms" }}
down = {{ delay = "10ms" }}
{servers}
"#
        ))
    }

    /// A scenario with only these hosts.
    pub(crate) fn with_hosts(hosts: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let source = format!("description = \"for a test\"\n{hosts}");
        std::fs::write(directory.path().join("test.toml"), source).unwrap();
        Self { directory }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("test.toml")
    }

    /// Path of another file in the scene's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn captures(&self) -> PathBuf {
        self.directory.path().join("captures")
    }

    /// Runs `firstbyte --json` on the client of a new lab with captures everywhere; returns the samples without
    /// warm-up.
    pub(crate) fn measure(&self, lab: &[&str], probe: &[&str]) -> Vec<SampleRecord> {
        let mut command = firstbyte(&["lab", "run"]);
        command.arg(self.file()).args(lab).arg("--capture").arg(self.captures());
        command.args(["--", PROGRAM, "--json"]).args(probe);
        let output = run(&mut command);
        assert!(
            output.status.success(),
            "{:?}\n{}{}",
            output.status,
            text(&output.stderr),
            text(&output.stdout)
        );
        samples(&output.stdout)
    }
}

/// A lab for `firstbyte lab up`, with a unique name on this machine. Dropping it takes it down.
pub(crate) struct NamedLab {
    pub(crate) scene: Scene,
    pub(crate) name: String,
}

impl NamedLab {
    pub(crate) fn new(scene: Scene) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("test-{}-{number}", std::process::id());
        let lab = Self { scene, name };
        std::fs::rename(lab.scene.file(), lab.file()).unwrap();
        lab
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.scene.file().with_file_name(format!("{}.toml", self.name))
    }

    /// Runs `firstbyte lab …`; returns its exit code, standard output and standard error.
    pub(crate) fn lab(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = run(firstbyte(&["lab"]).args(arguments));
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    /// Runs a command on one of the lab's hosts; returns the same as [`Self::lab`].
    pub(crate) fn exec(&self, host: &str, command: &[&str]) -> (i32, String, String) {
        self.lab(&[&["exec", &self.name, "--host", host, "--"], command].concat())
    }
}

impl Drop for NamedLab {
    fn drop(&mut self) {
        let _ = run(&mut firstbyte(&["lab", "down", &self.name]));
    }
}

/// The samples in NDJSON, without warm-up.
pub(crate) fn samples(ndjson: &[u8]) -> Vec<SampleRecord> {
    let samples: Vec<SampleRecord> =
        text(ndjson).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    samples.into_iter().filter(|sample| !sample.warmup).collect()
}

/// The program, isolated from environment settings that change its output.
pub(crate) fn firstbyte(arguments: &[&str]) -> Command {
    firstbyte_within(170, arguments)
}

/// Same as `firstbyte` with a different limit: `timeout` ends it after `seconds`.
pub(crate) fn firstbyte_within(seconds: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", &seconds.to_string(), PROGRAM]).args(arguments);
    command.env("COLUMNS", "80").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    for name in ["NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().expect("coreutils are installed")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn phase<'a>(sample: &'a SampleRecord, name: &str) -> Option<&'a PhaseRecord> {
    sample.connection.split.phases.iter().find(|phase| phase.name == name)
}

/// The minimum of `of` over all samples, in nanoseconds. Other work on the machine only adds time, so the least
/// disturbed sample shows the time of the program and the lab.
pub(crate) fn fastest(samples: &[SampleRecord], of: impl Fn(&SampleRecord) -> u64) -> Duration {
    least(samples.iter().map(of))
}

/// The minimum of `values`, which are in nanoseconds.
pub(crate) fn least(values: impl IntoIterator<Item = u64>) -> Duration {
    Duration::from_nanos(values.into_iter().min().unwrap())
}

/// The median of `values`, which are in nanoseconds.
pub(crate) fn middle(mut values: Vec<u64>) -> Duration {
    assert!(!values.is_empty());
    values.sort_unstable();
    Duration::from_nanos(values[values.len() / 2])
}

pub(crate) fn sum(parts: &PartsRecord) -> u64 {
    let PartsRecord {
        resolver_ns,
        network_ns,
        variation_ns,
        server_ns,
        client_ns,
        transfer_ns,
        pause_ns,
        fallback_ns,
        unexplained_ns,
    } = *parts;
    [
        resolver_ns,
        network_ns,
        variation_ns,
        server_ns,
        client_ns,
        transfer_ns,
        pause_ns,
        fallback_ns,
        unexplained_ns,
    ]
    .iter()
    .sum()
}

#[track_caller]
pub(crate) fn assert_within(value: Duration, from: Duration, above: Duration, what: &str) {
    assert!(
        (from..=from + above).contains(&value),
        "{what}: {value:?} is not between {from:?} and {:?}",
        from + above
    );
}

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
