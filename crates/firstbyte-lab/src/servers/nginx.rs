//! nginx as a server of the lab: found where it is installed, configured in the lab's scratch space.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::SigSet;

use crate::builtin_server::page;
use crate::ca::ServerCertificate;
use crate::network::HostNetwork;
use crate::scenario::ServerSettings;
use crate::sys::{start_in_network, start_with_signals};

/// Where packages put it when it is not on an ordinary user's PATH.
const USUAL_PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin"];
/// Sizes that `/bytes/N` has; a static file each.
const SIZES: [u64; 6] = [0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// An nginx that is installed here.
pub(super) struct Installed {
    program: PathBuf,
    /// As it says itself, such as `nginx 1.22.1`.
    pub(super) version: String,
}

impl Installed {
    pub(super) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let usual = USUAL_PLACES.iter().map(PathBuf::from);
        let program = std::env::split_paths(&path)
            .chain(usual)
            .map(|directory| directory.join("nginx"))
            .find(|program| program.is_file())?;
        let output = Command::new(&program).arg("-v").output().ok()?;
        // "nginx version: nginx/1.22.1"
        let text = String::from_utf8_lossy(&output.stderr);
        let version = text.split("version:").nth(1)?.split_whitespace().next()?.replace('/', " ");
        Some(Self { program, version })
    }

    /// Whether the error log can be named on the command line, so that not even start-up messages
    /// go to the machine's own log: since 1.19.5.
    fn takes_error_log(&self) -> bool {
        let number = self.version.split(' ').nth(1).unwrap_or_default();
        let parts: Vec<u32> = number.split('.').map_while(|part| part.parse().ok()).collect();
        parts >= vec![1, 19, 5]
    }
}

/// A running nginx, killed when this is dropped.
pub(super) struct Nginx {
    child: Child,
    stderr: PathBuf,
}

impl Nginx {
    pub(super) fn start(
        installed: &Installed,
        directory: &Path,
        settings: &ServerSettings,
        certificate: &ServerCertificate,
        place: &HostNetwork,
    ) -> io::Result<Self> {
        fs::create_dir_all(directory.join("html/bytes"))?;
        fs::write(directory.join("chain.pem"), &certificate.chain_pem)?;
        fs::write(directory.join("key.pem"), &certificate.key_pem)?;
        fs::write(directory.join("html/index.html"), page(settings.page_bytes))?;
        for size in SIZES {
            let file = File::create(directory.join(format!("html/bytes/{size}")))?;
            file.set_len(size)?;
        }
        let config = directory.join("nginx.conf");
        fs::write(&config, configuration(directory, settings))?;
        let stderr = directory.join("stderr");
        let mut command = Command::new(&installed.program);
        command
            .arg("-p")
            .arg(directory)
            .arg("-c")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr)?);
        if installed.takes_error_log() {
            command.args(["-e", "stderr"]);
        }
        start_in_network(&mut command, place.namespace.descriptor()?);
        start_with_signals(&mut command, SigSet::empty());
        Ok(Self { child: command.spawn()?, stderr })
    }

    /// Why it is no longer there, if it is not.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok()??;
        Some(format!("it ended with {status}"))
    }

    pub(super) fn output(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One process without a master: it then needs no user to change to, which a user namespace lacks.
fn configuration(directory: &Path, settings: &ServerSettings) -> String {
    let at = directory.display();
    let directives: String =
        settings.nginx_directives.iter().map(|line| format!("    {line}\n")).collect();
    format!(
        "\
daemon off;
master_process off;
user root root;
pid {at}/pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {at}/client_body;
  proxy_temp_path {at}/proxy;
  fastcgi_temp_path {at}/fastcgi;
  uwsgi_temp_path {at}/uwsgi;
  scgi_temp_path {at}/scgi;
  default_type text/html;
  server_tokens off;
  server {{
    listen 80;
    listen [::]:80;
    listen 443 ssl http2;
    listen [::]:443 ssl http2;
    server_name _;
    ssl_certificate {at}/chain.pem;
    ssl_certificate_key {at}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    root {at}/html;
{directives}    location = /redirect {{ return 302 /; }}
  }}
}}
"
    )
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
