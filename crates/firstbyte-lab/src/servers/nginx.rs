//! nginx as a server of the lab: finds the installed one and configures it in the lab's scratch space.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::BACKEND;
use super::spawned::{Spawned, find_program, write_pages};
use crate::builtin_server::{EarlyData, KexGroup, Resumption, TlsVersions};
use crate::ca::ServerCertificate;
use crate::network::HostNetwork;
use crate::scenario::ServerSettings;

/// Advertises HTTP/3 at the same host.
const ALT_SVC: &str = "add_header alt-svc 'h3=\":443\"; ma=86400' always;";
/// Number of tickets that OpenSSL sends by default.
const OPENSSL_TICKETS: usize = 2;

/// An installed nginx.
pub(super) struct Installed {
    program: PathBuf,
    /// Name and version as nginx reports them, such as `nginx 1.22.1`.
    pub(super) version: String,
}

impl Installed {
    pub(super) fn find() -> Option<Self> {
        let program = find_program("nginx")?;
        let output = Command::new(&program).arg("-v").output().ok()?;
        // "nginx version: nginx/1.22.1"
        let text = String::from_utf8_lossy(&output.stderr);
        let version = text.split("version:").nth(1)?.split_whitespace().next()?.replace('/', " ");
        Some(Self { program, version })
    }

    /// Whether the error log can be set on the command line (since 1.19.5), so that not even start-up
    /// messages go to the machine's own log.
    fn takes_error_log(&self) -> bool {
        let number = self.version.split(' ').nth(1).unwrap_or_default();
        let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
        parts >= vec![1, 19, 5]
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
        write_content(directory, settings)?;
        fs::write(directory.join("chain.pem"), &certificate.chain_pem)?;
        fs::write(directory.join("key.pem"), &certificate.key_pem)?;
        let config = directory.join("nginx.conf");
        fs::write(&config, configuration(directory, log, settings))?;
        let mut command = Command::new(&self.program);
        command.arg("-p").arg(directory).arg("-c").arg(&config);
        if self.takes_error_log() {
            command.args(["-e", "stderr"]);
        }
        Spawned::start(command, directory, place)
    }
}

/// A single process without a master. It needs no user to switch to, which a user namespace lacks.
fn configuration(directory: &Path, log: &Path, settings: &ServerSettings) -> String {
    let (at, log) = (directory.display(), log.display());
    let directives: String = tls_directives(settings)
        .iter()
        .chain(&settings.nginx_directives)
        .map(|line| format!("    {line}\n"))
        .collect();
    let redirects = redirects(settings);
    let content = content(directory, settings);
    format!(
        "\
daemon off;
master_process off;
user root root;
pid {at}/pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  map_hash_bucket_size 1024;
  map $ssl_session_reused $firstbyte_resumed {{ default 0; r 1; }}
  map $ssl_early_data $firstbyte_early {{ default 0; 1 1; }}
  log_format firstbyte escape=none 'time=$msec protocol=$server_protocol tls=$ssl_protocol '
    'resumed=$firstbyte_resumed early=$firstbyte_early status=$status connection=$connection '
    'path=$request_uri';
  access_log {log} firstbyte;
  client_body_temp_path {at}/client_body;
  proxy_temp_path {at}/proxy;
  fastcgi_temp_path {at}/fastcgi;
  uwsgi_temp_path {at}/uwsgi;
  scgi_temp_path {at}/scgi;
{redirects}  default_type text/html;
  server_tokens off;
  keepalive_timeout 75s;
  server {{
    listen 80;
    listen [::]:80;
    listen 443 ssl http2;
    listen [::]:443 ssl http2;
    server_name _;
    ssl_certificate {at}/chain.pem;
    ssl_certificate_key {at}/key.pem;
    root {at}/html;
{directives}{content}    location = /redirect {{ return 302 /; }}
  }}
}}
"
    )
}

fn tls_directives(settings: &ServerSettings) -> Vec<String> {
    let (tickets, cache) = match settings.resumption {
        Resumption::Both => ("on", "shared:sessions:1m"),
        Resumption::Tickets => ("on", "off"),
        Resumption::SessionIds => ("off", "shared:sessions:1m"),
        Resumption::None => ("off", "off"),
    };
    let versions = match settings.versions {
        TlsVersions::Both => "TLSv1.2 TLSv1.3",
        TlsVersions::Tls12 => "TLSv1.2",
        TlsVersions::Tls13 => "TLSv1.3",
    };
    let early = settings.early_data != EarlyData::Off;
    let mut lines = vec![
        format!("ssl_protocols {versions};"),
        format!("ssl_session_tickets {tickets};"),
        format!("ssl_session_cache {cache};"),
        format!("ssl_early_data {};", if early { "on" } else { "off" }),
    ];
    if settings.early_data == EarlyData::TooEarly {
        lines.push("if ($ssl_early_data) { return 425; }".to_owned());
    }
    let none = settings.resumption == Resumption::None;
    let count = if none { 0 } else { settings.tickets };
    if count != OPENSSL_TICKETS {
        // Without tickets and without a cache, OpenSSL would still send some useless ones.
        lines.push(format!("ssl_conf_command NumTickets {count};"));
    }
    if !settings.groups.is_empty() {
        let groups: Vec<_> = settings.groups.iter().map(|group| openssl_name(*group)).collect();
        lines.push(format!("ssl_ecdh_curve {};", groups.join(":")));
        lines.push("ssl_prefer_server_ciphers on;".to_owned());
    }
    if !settings.redirects.is_empty() {
        lines.push("if ($firstbyte_redirect) { return 301 $firstbyte_redirect; }".to_owned());
    }
    if settings.backend {
        lines.push(format!(
            "location = /w {{ proxy_pass http://127.0.0.1:{BACKEND}; proxy_http_version 1.1; \
             proxy_set_header connection ''; proxy_buffering off; }}"
        ));
    }
    if settings.http3 {
        lines.push(ALT_SVC.to_owned());
    }
    lines
}

/// Writes bodies under their numbers, because a path may not be a valid file name.
fn write_content(directory: &Path, settings: &ServerSettings) -> io::Result<()> {
    fs::create_dir_all(directory.join("content"))?;
    for (number, content) in settings.content.values().enumerate() {
        fs::write(directory.join(format!("content/{number}")), &content.body)?;
    }
    Ok(())
}

/// Locations of single paths. A location with its own `add_header` inherits none, so `Alt-Svc` is repeated.
fn content(directory: &Path, settings: &ServerSettings) -> String {
    let at = directory.display();
    let alt_svc = if settings.http3 { ALT_SVC } else { "" };
    let locations = settings.content.iter().enumerate().map(|(number, (path, content))| {
        format!(
            "    location = {path} {{ root {at}; try_files /content/{number} =404; types {{ }} \
             default_type \"{}\"; add_header access-control-allow-origin *; {alt_svc} }}\n",
            content.content_type
        )
    });
    locations.collect()
}

/// Redirects. The scenario's check has refused URLs with characters that are special to nginx.
fn redirects(settings: &ServerSettings) -> String {
    if settings.redirects.is_empty() {
        return String::new();
    }
    let each = settings.redirects.iter();
    let lines: String = each.map(|(from, to)| format!("    \"{from}\" \"{to}\";\n")).collect();
    let map = "map \"$scheme://$host$uri\" $firstbyte_redirect";
    format!("  {map} {{\n    default \"\";\n{lines}  }}\n")
}

fn openssl_name(group: KexGroup) -> &'static str {
    match group {
        KexGroup::X25519 => "X25519",
        KexGroup::P256 => "prime256v1",
        KexGroup::P384 => "secp384r1",
        KexGroup::X25519MlKem768 => "X25519MLKEM768",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_log_option_came_with_1_19_5() {
        let takes = |version: &str| {
            Installed { program: PathBuf::new(), version: version.to_owned() }.takes_error_log()
        };
        assert!(takes("nginx 1.22.1"));
        assert!(takes("nginx 1.19.5"));
        assert!(!takes("nginx 1.18.0"));
        assert!(!takes("nginx"));
    }
}
