//! `firstbyte serve`: the built-in server on a real host, until it is told to stop.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;

use firstbyte_lab::access_log::AccessLog;
use firstbyte_lab::builtin_server::{
    Config, EarlyData, Handle, Listeners, Resumption, TlsVersions, spawn,
};
use firstbyte_lab::ca::{Ca, ServerCertificate};

use crate::cli::args::{EarlyDataChoice, ResumptionChoice, ServeArgs, Version};
use crate::cli::exit::{self, Problem};
use crate::cli::files::{Files, cannot_write};
use crate::cli::signals::asked_to_end;
use crate::cli::terminal::{self, note};
use firstbyte_probe::probe::describe_io;

pub(in crate::cli) fn run(args: &ServeArgs) -> Result<u8, Problem> {
    Files::default()
        .reads(args.cert.iter().chain(&args.key))
        .writes(args.ca_out.iter().chain(&args.access_log))
        .check()?;
    let config = config(args)?;
    let listeners = listeners(args)?;
    let runtime = terminal::runtime()?;
    let server = spawn(config, listeners).map_err(|error| {
        let problem = Problem::new(exit::USAGE, error.to_string());
        match (&args.cert, &args.key) {
            (Some(cert), Some(key)) => problem.hint(format!(
                "the certificate is {}, its key {}",
                cert.display(),
                key.display()
            )),
            _ => problem,
        }
    })?;
    introduce(args, &server);
    runtime.block_on(asked_to_end());
    drop(server);
    note("stopped");
    Ok(exit::OK)
}

fn config(args: &ServeArgs) -> Result<Config, Problem> {
    Ok(Config {
        versions: match args.tls.as_slice() {
            [] => TlsVersions::Both,
            versions if versions.iter().all(|version| *version == Version::Tls12) => {
                TlsVersions::Tls12
            }
            versions if versions.iter().all(|version| *version == Version::Tls13) => {
                TlsVersions::Tls13
            }
            _ => TlsVersions::Both,
        },
        tickets: args.tickets.into(),
        resumption: match args.resumption {
            ResumptionChoice::Both => Resumption::Both,
            ResumptionChoice::Tickets => Resumption::Tickets,
            ResumptionChoice::SessionIds => Resumption::SessionIds,
            ResumptionChoice::None => Resumption::None,
        },
        early_data: match args.early_data {
            EarlyDataChoice::Off => EarlyData::Off,
            EarlyDataChoice::On => EarlyData::Accept,
            EarlyDataChoice::Reject => EarlyData::Reject,
            EarlyDataChoice::TooEarly => EarlyData::TooEarly,
        },
        retry: args.retry,
        page_bytes: args.page_bytes as usize,
        think_time: args.think_time.unwrap_or_default(),
        access_log: args.access_log.as_deref().map(access_log).transpose()?,
        ..Config::new(certificate(args)?)
    })
}

fn certificate(args: &ServeArgs) -> Result<ServerCertificate, Problem> {
    if let (Some(cert), Some(key)) = (&args.cert, &args.key) {
        return Ok(ServerCertificate { chain_pem: read(cert)?, key_pem: read(key)? });
    }
    let refused = |error: &dyn std::fmt::Display| {
        Problem::new(exit::USAGE, format!("--self-signed: {error}"))
    };
    let ca = Ca::new().map_err(|error| refused(&error))?;
    let certificate = ca.issue(&args.self_signed).map_err(|error| refused(&error))?;
    if let Some(file) = &args.ca_out {
        std::fs::write(file, ca.root_pem()).map_err(|error| cannot_write(file, &error))?;
    }
    Ok(certificate)
}

fn read(file: &Path) -> Result<String, Problem> {
    std::fs::read_to_string(file).map_err(|error| {
        let why = describe_io(&error);
        Problem::new(exit::READ, format!("cannot read {}: {why}", file.display()))
    })
}

fn access_log(file: &Path) -> Result<AccessLog, Problem> {
    if file == Path::new("-") {
        return Ok(AccessLog::new(io::stdout()));
    }
    let log = File::options().create(true).append(true).open(file);
    log.map(AccessLog::new).map_err(|error| cannot_write(file, &error))
}

fn listeners(args: &ServeArgs) -> Result<Listeners, Problem> {
    let https =
        TcpListener::bind(args.listen).map_err(|e| cannot_listen(args.listen, "TCP", &e))?;
    let mut listeners = Listeners::default();
    if !args.no_http3 {
        // With port 0 the system has chosen one: QUIC is to have the same.
        let at = https.local_addr().map_err(|e| cannot_listen(args.listen, "TCP", &e))?;
        listeners.quic.push(UdpSocket::bind(at).map_err(|e| cannot_listen(at, "UDP", &e))?);
    }
    listeners.https.push(https);
    if let Some(at) = args.http_listen {
        listeners.http.push(TcpListener::bind(at).map_err(|e| cannot_listen(at, "TCP", &e))?);
    }
    Ok(listeners)
}

fn cannot_listen(at: SocketAddr, protocol: &str, error: &io::Error) -> Problem {
    let why = describe_io(error);
    let problem = Problem::new(exit::USAGE, format!("cannot listen at {at} ({protocol}): {why}"));
    match error.kind() {
        io::ErrorKind::AddrInUse => problem.hint("another program has that port; try another one"),
        io::ErrorKind::PermissionDenied => {
            problem.hint("ports below 1024 are the administrator's; try one above")
        }
        io::ErrorKind::AddrNotAvailable => problem.hint("it is not an address of this machine"),
        _ => problem,
    }
}

/// Says on standard error where the server is, and how to measure it.
fn introduce(args: &ServeArgs, server: &Handle) {
    let at = server.addr();
    let versions = if server.quic_addr().is_some() { "1.1, 2 and 3" } else { "1.1 and 2" };
    note(&format!("serving https://{at}/ with HTTP/{versions}"));
    if let Some(at) = server.http_addr() {
        note(&format!("serving http://{at}/ without TLS"));
    }
    if let (Some(file), Some(name)) = (&args.ca_out, args.self_signed.first()) {
        let file = file.display();
        let port = at.port();
        let host = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        let resolve = if name == "localhost" {
            // It has an address of either family, and the server listens at one.
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
