//! Turns the arguments of `lab`, `serve` and `demo` into plans.

use std::ffi::OsString;

use firstbyte_lab::builtin_server::{EarlyData, Resumption, TlsVersions};
use firstbyte_lab::{LabOptions, ServerChoice};

use super::{render, usage};
use crate::cli::args::{
    DemoArgs, EarlyDataChoice, ExportArgs, LabArgs, LabCommand, NewLabArgs, OnOff,
    ResumptionChoice, ServeArgs, ServerSoftware, StudyArgs, Version,
};
use crate::cli::exit::Problem;
use crate::plans::{
    CertificatePlan, CommandWords, DemoPlan, LabExportPlan, LabPlan, LabStudyPlan, NewLabPlan,
    ServePlan,
};
use firstbyte_probe::probe::Secret;

pub(super) fn lab(args: &LabArgs) -> LabPlan {
    match &args.command {
        LabCommand::Run { lab, command } => {
            LabPlan::Run { lab: new_lab(lab), command: words(command) }
        }
        LabCommand::Shell { lab } => LabPlan::Shell { lab: new_lab(lab) },
        LabCommand::Up { lab } => LabPlan::Up { lab: new_lab(lab) },
        LabCommand::Exec { scenario, host, command } => LabPlan::Exec {
            scenario: scenario.clone(),
            host: host.clone(),
            command: words(command),
        },
        LabCommand::Status => LabPlan::Status,
        LabCommand::Down { scenario } => LabPlan::Down { scenario: scenario.clone() },
        LabCommand::Study(args) => LabPlan::Study(Box::new(study(args))),
        LabCommand::Export(args) => LabPlan::Export(export(args)),
        LabCommand::List => LabPlan::List,
        LabCommand::Show { scenario, source } => {
            LabPlan::Show { scenario: scenario.clone(), source: *source }
        }
    }
}

fn words(command: &[OsString]) -> CommandWords {
    command.iter().cloned().map(Secret::new).collect()
}

fn new_lab(args: &NewLabArgs) -> NewLabPlan {
    let server = match args.server {
        ServerSoftware::Auto => ServerChoice::Auto,
        ServerSoftware::Nginx => ServerChoice::Nginx,
        ServerSoftware::Caddy => ServerChoice::Caddy,
        ServerSoftware::Builtin => ServerChoice::Builtin,
    };
    let (capture, logs) = (args.capture.clone(), args.logs.clone());
    let options = LabOptions { capture, logs, seed: args.seed, server };
    NewLabPlan { scenario: args.scenario.clone(), access: args.access.clone(), options }
}

fn study(args: &StudyArgs) -> LabStudyPlan {
    LabStudyPlan {
        lab: new_lab(&args.lab),
        plan: args.plan.clone(),
        samples: args.samples,
        run: args.run.clone(),
        render: render(&args.render),
        silent: args.silent,
    }
}

fn export(args: &ExportArgs) -> LabExportPlan {
    LabExportPlan {
        directory: args.directory.clone(),
        early_data: args.early_data == OnOff::On,
        page_bytes: args.page_bytes,
        image_bytes: args.image_bytes,
        force: args.force,
    }
}

pub(super) fn demo(args: &DemoArgs) -> DemoPlan {
    DemoPlan {
        samples: args.samples,
        output_dir: args.output_dir.clone(),
        seed: args.seed,
        server: if args.builtin { ServerChoice::Builtin } else { ServerChoice::Auto },
    }
}

pub(super) fn serve(args: &ServeArgs) -> Result<ServePlan, Problem> {
    Ok(ServePlan {
        certificate: certificate(args)?,
        listen: args.listen,
        http_listen: args.http_listen,
        http3: !args.no_http3,
        access_log: args.access_log.clone(),
        tls: versions(&args.tls),
        early_data: match args.early_data {
            EarlyDataChoice::Off => EarlyData::Off,
            EarlyDataChoice::On => EarlyData::Accept,
            EarlyDataChoice::Reject => EarlyData::Reject,
            EarlyDataChoice::TooEarly => EarlyData::TooEarly,
        },
        resumption: match args.resumption {
            ResumptionChoice::Both => Resumption::Both,
            ResumptionChoice::Tickets => Resumption::Tickets,
            ResumptionChoice::SessionIds => Resumption::SessionIds,
            ResumptionChoice::None => Resumption::None,
        },
        tickets: args.tickets,
        retry: args.retry,
        page_bytes: args.page_bytes,
        think_time: args.think_time.unwrap_or_default(),
    })
}

/// The named versions of TLS, or both if none is named.
fn versions(named: &[Version]) -> TlsVersions {
    match [Version::Tls12, Version::Tls13].map(|version| named.contains(&version)) {
        [true, false] => TlsVersions::Tls12,
        [false, true] => TlsVersions::Tls13,
        [true, true] | [false, false] => TlsVersions::Both,
    }
}

fn certificate(args: &ServeArgs) -> Result<CertificatePlan, Problem> {
    match (&args.cert, &args.key, &args.ca_out) {
        (Some(chain), Some(key), _) => {
            Ok(CertificatePlan::Files { chain: chain.clone(), key: key.clone() })
        }
        (_, _, Some(issuer)) => Ok(CertificatePlan::SelfSigned {
            names: args.self_signed.clone(),
            issuer: issuer.clone(),
        }),
        _ => Err(usage("a certificate needs --cert and --key, or --self-signed and --ca-out")),
    }
}
