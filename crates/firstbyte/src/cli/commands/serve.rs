//! `firstbyte serve`: runs the built-in server on a real host until it is stopped.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use firstbyte_lab::access_log::AccessLog;
use firstbyte_lab::builtin_server::{Config, Handle, Listeners, spawn};
use firstbyte_lab::ca::{Ca, ServerCertificate};

use crate::cli::exit::{self, Problem};
use crate::cli::exports::whole;
use crate::cli::files::{Files, cannot_write};
use crate::cli::signals::asked_to_end;
use crate::cli::terminal::{self, note};
use crate::plans::{CertificatePlan, Destination, ServePlan};
use firstbyte_probe::probe::{MOST_TEXT, describe_io, read_text};

pub(in crate::cli) fn run(plan: &ServePlan) -> Result<u8, Problem> {
    let (reads, issuer) = match &plan.certificate {
        CertificatePlan::Files { chain, key } => (vec![chain, key], None),
        CertificatePlan::SelfSigned { issuer, .. } => (Vec::new(), Some(issuer)),
    };
    Files::default().reads(reads).writes(issuer.into_iter().chain(&plan.access_log)).check()?;
    let config = config(plan)?;
    let listeners = listeners(plan)?;
    let runtime = terminal::runtime()?;
    let server = spawn(config, listeners).map_err(|error| {
        let problem = Problem::new(exit::USAGE, error.to_string());
        match &plan.certificate {
            CertificatePlan::Files { chain, key } => problem.hint(format!(
                "the certificate is {}, its key {}",
                chain.display(),
                key.display()
            )),
            CertificatePlan::SelfSigned { .. } => problem,
        }
    })?;
    introduce(plan, &server);
    runtime.block_on(asked_to_end());
    drop(server);
    note("stopped");
    Ok(exit::OK)
}

fn config(plan: &ServePlan) -> Result<Config, Problem> {
    Ok(Config {
        versions: plan.tls,
        tickets: plan.tickets.into(),
        resumption: plan.resumption,
        early_data: plan.early_data,
        retry: plan.retry,
        page_bytes: plan.page_bytes as usize,
        think_time: plan.think_time,
        access_log: plan.access_log.as_ref().map(access_log).transpose()?,
        ..Config::new(certificate(&plan.certificate)?)
    })
}

fn certificate(plan: &CertificatePlan) -> Result<ServerCertificate, Problem> {
    let (names, issuer) = match plan {
        CertificatePlan::Files { chain, key } => {
            return Ok(ServerCertificate { chain_pem: read(chain)?, key_pem: read(key)? });
        }
        CertificatePlan::SelfSigned { names, issuer } => (names, issuer),
    };
    let refused = |error: &dyn std::fmt::Display| {
        Problem::new(exit::USAGE, format!("--self-signed: {error}"))
    };
    let ca = Ca::new().map_err(|error| refused(&error))?;
    let certificate = ca.issue(names).map_err(|error| refused(&error))?;
    whole(issuer, ca.root_pem().as_bytes())?;
    Ok(certificate)
}

fn read(file: &Path) -> Result<String, Problem> {
    read_text(file, MOST_TEXT).map_err(|error| {
        let why = describe_io(&error);
        Problem::new(exit::READ, format!("cannot read {}: {why}", file.display()))
    })
}

fn access_log(to: &Destination) -> Result<AccessLog, Problem> {
    let file = match to {
        Destination::StandardOutput => return Ok(AccessLog::new(io::stdout())),
        Destination::File(file) => file,
    };
    let log = File::options().create(true).append(true).open(file);
    log.map(AccessLog::new).map_err(|error| cannot_write(file, &error))
}

fn listeners(plan: &ServePlan) -> Result<Listeners, Problem> {
    let https =
        TcpListener::bind(plan.listen).map_err(|e| cannot_listen(plan.listen, "TCP", &e))?;
    let mut listeners = Listeners::default();
    if plan.http3 {
        // With port 0 the system has chosen a port for TCP; QUIC must use the same one.
        let at = https.local_addr().map_err(|e| cannot_listen(plan.listen, "TCP", &e))?;
        listeners.quic.push(UdpSocket::bind(at).map_err(|e| cannot_listen(at, "UDP", &e))?);
    }
    listeners.https.push(https);
    if let Some(at) = plan.http_listen {
        listeners.http.push(TcpListener::bind(at).map_err(|e| cannot_listen(at, "TCP", &e))?);
    }
    Ok(listeners)
}

fn cannot_listen(at: SocketAddr, protocol: &str, error: &io::Error) -> Problem {
    let why = describe_io(error);
    let problem = Problem::new(exit::USAGE, format!("cannot listen at {at} ({protocol}): {why}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => problem.hint("another program uses that port; try another one"),
        io::ErrorKind::PermissionDenied => {
            problem.hint("ports below 1024 need root; try a higher one")
        }
        io::ErrorKind::AddrNotAvailable => problem.hint("this machine does not have that address"),
        _ => problem,
    }
}

/// Says on standard error where the server listens, and how to measure it.
fn introduce(plan: &ServePlan, server: &Handle) {
    let at = server.addr();
    let versions = if server.quic_addr().is_some() { "1.1, 2 and 3" } else { "1.1 and 2" };
    note(&format!("serving https://{at}/ with HTTP/{versions}"));
    if let Some(at) = server.http_addr() {
        note(&format!("serving http://{at}/ without TLS"));
    }
    if let CertificatePlan::SelfSigned { names, issuer: Destination::File(file) } =
        &plan.certificate
        && let Some(name) = names.first()
    {
        let file = file.display();
        let port = at.port();
        let host = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        let resolve = if name == "localhost" {
            // `localhost` resolves to both families, but the server listens on only one.
            if at.is_ipv4() { " -4".into() } else { " -6".into() }
        } else if name.parse::<std::net::IpAddr>().is_ok() {
            String::new()
        } else {
            format!(" --resolve {name}:{port}:{}", at.ip())
        };
        note(&format!("measure it: firstbyte --cacert {file}{resolve} https://{host}:{port}/"));
    }
    note("stop it with Ctrl-C");
}
