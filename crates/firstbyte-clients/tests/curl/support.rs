//! A server, and a curl that trusts it.

use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use firstbyte_clients::curl::{CurlCapabilities, CurlOptions, CurlProber};
use firstbyte_clients::process::find;
use firstbyte_core::timeline::{Connection, Mark, Sample};
use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::Ca;
use firstbyte_probe::probe::options::{Options, ResolveOverride};
use firstbyte_probe::probe::{Prober, Target};
use tempfile::TempDir;

pub(crate) const HOST: &str = "site.test";

pub(crate) struct Bench {
    pub(crate) server: Handle,
    folder: TempDir,
}

impl Bench {
    pub(crate) fn new(change: impl FnOnce(&mut Config)) -> Self {
        assert!(
            find("curl").is_some(),
            "curl is not installed: apt-get install curl, or scripts/setup test"
        );
        let ca = Ca::new().unwrap();
        let mut config = Config::new(ca.issue(&[HOST.to_owned()]).unwrap());
        change(&mut config);
        let server = spawn(config, Listeners::loopback_with_quic().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), ca.root_pem()).unwrap();
        Self { server, folder }
    }

    pub(crate) fn target(&self, path: &str) -> Target {
        Target::parse(&format!("https://{HOST}:{}{path}", self.server.addr().port())).unwrap()
    }

    /// Options that lead to this server and trust it.
    pub(crate) fn options(&self, change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::default();
        options.tls.ca_file = Some(self.folder.path().join("ca.pem"));
        options.resolve = vec![ResolveOverride {
            host: None,
            port: None,
            addresses: vec![self.server.addr().ip()],
            zone: None,
        }];
        change(&mut options);
        options
    }

    /// Visits "/" with the installed curl.
    pub(crate) fn visit(&self, change: impl FnOnce(&mut Options)) -> Sample {
        self.visit_to(&self.target("/"), change)
    }

    pub(crate) fn visit_to(&self, target: &Target, change: impl FnOnce(&mut Options)) -> Sample {
        visit("curl", &self.options(change), target)
    }
}

pub(crate) fn prober(program: &str, options: &Options) -> CurlProber {
    let able = CurlCapabilities::ask(program).unwrap();
    CurlProber::new(CurlOptions::new(program, options, able).unwrap()).unwrap()
}

/// Makes one visit with a new prober, after preparing it.
pub(crate) fn visit(program: &str, options: &Options, target: &Target) -> Sample {
    let prober = prober(program, options);
    let sample = wait(async {
        prober.prepare(target).await.unwrap();
        prober.probe(target).await
    });
    check(&sample);
    sample
}

pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

/// Checks properties of every visit.
pub(crate) fn check(sample: &Sample) {
    for connection in sample.redirects.iter().chain([&sample.connection]) {
        assert_eq!(connection.marks.disorder(), None, "{connection:#?}");
        let client = connection.facts.client.as_ref().unwrap();
        assert_eq!(client.name, "curl");
        assert!(client.version.as_ref().unwrap().starts_with(|c: char| c.is_ascii_digit()));
        assert!(connection.flights.is_empty() && connection.marks.at(Mark::ConnectStart).is_none());
        for (_, stamp) in connection.marks.iter() {
            assert_eq!(stamp.clock.name(), "reported");
            assert_eq!(stamp.clock.resolution().unwrap().as_nanos(), 1_000);
        }
    }
}

/// A field of the server's response that describes the request.
pub(crate) fn server_said(connection: &Connection, name: &str) -> String {
    connection.facts.http.as_ref().unwrap().header(name).unwrap_or("nothing").to_owned()
}

/// A program in place of curl. It runs `script` for visits; for its abilities it reports those of the installed curl,
/// with `version` instead of its version.
pub(crate) struct Pretended {
    pub(crate) folder: TempDir,
}

impl Pretended {
    pub(crate) fn new(version: Option<&str>, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let real = find("curl").unwrap().display().to_string();
        let edit = version.map_or(String::new(), |v| format!("| sed '1s/curl [^ ]*/curl {v}/'"));
        let text = format!(
            "#!/bin/sh\nfolder='{}'\ncurl='{real}'\ncase \"$2\" in --version|--help) \"$curl\" \"$@\" {edit}; exit;; esac\n{script}\n",
            folder.path().display()
        );
        write_program(&folder.path().join("curl"), &text);
        Self { folder }
    }

    pub(crate) fn program(&self) -> String {
        self.folder.path().join("curl").display().to_string()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Written by a shell: if this process had the file open for writing, a fork by another thread would prevent its
/// execution.
pub(crate) fn write_program(path: &Path, text: &str) {
    let source = path.with_extension("text");
    std::fs::write(&source, text).unwrap();
    let copied = Command::new("cp").arg(&source).arg(path).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
