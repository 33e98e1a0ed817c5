//! The server for all clients: nginx on loopback.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use firstbyte_lab::ca::Ca;
use tempfile::TempDir;

pub(crate) struct Nginx {
    process: Child,
    directory: TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) ca_pem: String,
    pub(crate) version: String,
}

impl Nginx {
    pub(crate) fn start() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
        let ca = Ca::new().map_err(|e| e.to_string())?;
        let certificate = ca.issue(&["127.0.0.1".to_owned()]).map_err(|e| e.to_string())?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(|e| e.to_string())?;
        let address = free.local_addr().map_err(|e| e.to_string())?;
        drop(free);
        let path = directory.path().display();
        let user = if nix::unistd::geteuid().is_root() { "user root root;" } else { "" };
        let configuration = format!(
            "{user} daemon off; master_process off; worker_processes 1; pid {path}/pid;
            error_log {path}/error.log; events {{ worker_connections 4096; }}
            http {{ access_log off; ssl_certificate {path}/chain.pem;
            client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
            fastcgi_temp_path {path}/fastcgi; uwsgi_temp_path {path}/uwsgi;
            scgi_temp_path {path}/scgi;
            ssl_certificate_key {path}/key.pem; ssl_protocols TLSv1.3;
            server {{ listen {address} ssl; root {path}; }} }}"
        );
        for (name, text) in [
            ("nginx.conf", configuration.as_str()),
            ("chain.pem", &certificate.chain_pem),
            ("key.pem", &certificate.key_pem),
            ("ca.pem", ca.root_pem()),
            ("index.html", &"x".repeat(500)),
        ] {
            std::fs::write(directory.path().join(name), text).map_err(|e| e.to_string())?;
        }
        let mut process = Command::new("nginx")
            .arg("-p")
            .arg(directory.path())
            .args(["-c", "nginx.conf"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("nginx does not start ({e}): install Debian's nginx-light"))?;
        for _ in 0..200 {
            if TcpStream::connect(address).is_ok() {
                let version = version();
                let ca_pem = ca.root_pem().to_owned();
                return Ok(Self { process, directory, address, ca_pem, version });
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let _ = process.kill();
        let _ = process.wait();
        Err("nginx does not answer".into())
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}/", self.address)
    }

    pub(crate) fn ca_file(&self) -> String {
        self.directory.path().join("ca.pem").display().to_string()
    }
}

fn version() -> String {
    let output = Command::new("nginx").arg("-v").output();
    let said = output.map(|o| String::from_utf8_lossy(&o.stderr).trim().to_owned());
    said.unwrap_or_default().trim_start_matches("nginx version: ").replace('/', " ")
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
