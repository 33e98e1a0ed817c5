//! Caddy as a server of the lab: HTTP/1.1, HTTP/2 and HTTP/3 with the lab's certificates. Nothing leaves the
//! lab: no administration endpoint, no ACME, no OCSP, no files elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::BACKEND;
use super::spawned::{Spawned, find_program, write_pages};
use crate::builtin_server::{KexGroup, Resumption, TlsVersions};
use crate::ca::ServerCertificate;
use crate::network::HostNetwork;
use crate::scenario::ServerSettings;

/// An installed Caddy.
pub(super) struct Installed {
    program: PathBuf,
    /// Name and version, such as `Caddy 2.6.2`.
    pub(super) version: String,
}

impl Installed {
    pub(super) fn find() -> Option<Self> {
        let program = find_program("caddy")?;
        let output = Command::new(&program).arg("version").output().ok()?;
        // "v2.6.2 h1:...", or "2.6.2" as Debian builds it.
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.split_whitespace().next()?.trim_start_matches('v');
        Some(Self { program, version: format!("Caddy {number}") })
    }

    pub(super) fn start(
        &self,
        directory: &Path,
        log: &Path,
        settings: &ServerSettings,
        certificate: &ServerCertificate,
        place: &HostNetwork,
    ) -> io::Result<Spawned> {
        write_pages(directory, settings.page_bytes)?;
        fs::write(directory.join("chain.pem"), &certificate.chain_pem)?;
        fs::write(directory.join("key.pem"), &certificate.key_pem)?;
        let config = directory.join("caddy.json");
        fs::write(&config, configuration(directory, log, settings).to_string())?;
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--config")
            .arg(&config)
            .env("HOME", directory)
            .env("XDG_DATA_HOME", directory)
            .env("XDG_CONFIG_HOME", directory);
        Spawned::start(command, directory, place)
    }
}

fn configuration(directory: &Path, log: &Path, settings: &ServerSettings) -> Value {
    let protocols = if settings.http3 { json!(["h1", "h2", "h3"]) } else { json!(["h1", "h2"]) };
    let server = |port: &str| {
        json!({
            "listen": [port],
            "protocols": if port == ":443" { protocols.clone() } else { json!(["h1"]) },
            "automatic_https": { "disable": true },
            "routes": routes(directory, settings.backend),
            "logs": { "default_logger_name": "requests" },
        })
    };
    let mut https = server(":443");
    https["tls_connection_policies"] = json!([policy(settings)]);
    json!({
        "admin": { "disabled": true, "config": { "persist": false } },
        "storage": { "module": "file_system", "root": directory },
        "logging": { "logs": {
            "default": {
                "writer": { "output": "stderr" },
                "level": "WARN",
                "exclude": ["http.log.access.requests"],
            },
            "requests": {
                "writer": { "output": "file", "filename": log, "roll": false },
                "encoder": { "format": "json" },
                "include": ["http.log.access.requests"],
            },
        } },
        "apps": {
            "http": { "servers": { "https": https, "http": server(":80") } },
            "tls": {
                "certificates": { "load_files": [{
                    "certificate": directory.join("chain.pem"),
                    "key": directory.join("key.pem"),
                }] },
                "disable_ocsp_stapling": true,
                "session_tickets": { "disabled": settings.resumption == Resumption::None },
            },
        },
    })
}

fn policy(settings: &ServerSettings) -> Value {
    let (least, most) = match settings.versions {
        TlsVersions::Both => ("tls1.2", "tls1.3"),
        TlsVersions::Tls12 => ("tls1.2", "tls1.2"),
        TlsVersions::Tls13 => ("tls1.3", "tls1.3"),
    };
    let mut policy = json!({
        "protocol_min": least,
        "protocol_max": most,
        "alpn": ["h2", "http/1.1"],
    });
    if !settings.groups.is_empty() {
        let names: Vec<_> = settings.groups.iter().map(|group| caddy_name(*group)).collect();
        policy["curves"] = json!(names);
    }
    policy
}

fn routes(directory: &Path, backend: bool) -> Value {
    let redirect = json!({
        "match": [{ "path": ["/redirect"] }],
        "handle": [{
            "handler": "static_response",
            "status_code": 302,
            "headers": { "Location": ["/"] },
        }],
    });
    // Passes on the backend's writes without buffering.
    let passed_on = json!({
        "match": [{ "path": ["/w"] }],
        "handle": [{
            "handler": "reverse_proxy",
            "upstreams": [{ "dial": format!("127.0.0.1:{BACKEND}") }],
            "flush_interval": -1,
        }],
    });
    let files = json!({ "handle": [{ "handler": "file_server", "root": directory.join("html") }] });
    let passed_on = backend.then_some(passed_on);
    [redirect].into_iter().chain(passed_on).chain([files]).collect()
}

fn caddy_name(group: KexGroup) -> &'static str {
    match group {
        KexGroup::X25519 => "x25519",
        KexGroup::P256 => "secp256r1",
        KexGroup::P384 => "secp384r1",
        KexGroup::X25519MlKem768 => "x25519mlkem768",
    }
}
