//! `firstbyte exporter`: blackbox_exporter's requests, answered.

use std::net::{SocketAddr, TcpListener};

use firstbyte_blackbox::{Compat, Exporter, ExporterOptions, serve};
use firstbyte_probe::probe::describe_io;
use firstbyte_report::Style;

use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::signals::{asked_to_end, hang_ups};
use crate::cli::terminal::{self, note};
use crate::plans::{ExporterMetrics, ExporterPlan};

pub(in crate::cli) fn run(plan: &ExporterPlan) -> Result<u8, Problem> {
    Files::default().reads([&plan.config_file]).check()?;
    let exporter = Exporter::new(ExporterOptions {
        config_file: plan.config_file.clone(),
        timeout_offset: plan.timeout_offset,
        history_limit: plan.history_limit,
        compat: match plan.metrics {
            ExporterMetrics::V0_23 => Compat::V0_23,
            ExporterMetrics::V0_28 => Compat::V0_28,
        },
        version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let exporter = exporter.map_err(|error| {
        Problem::new(exit::USAGE, safe(&error))
            .hint("docs/exporter.md says which keys of blackbox_exporter are not supported")
    })?;
    let file = plan.config_file.display();
    let modules = match exporter.modules() {
        1 => "1 module".to_owned(),
        modules => format!("{modules} modules"),
    };
    if plan.check_only {
        note(&format!("{file} is valid: {modules}"));
        return Ok(exit::OK);
    }
    let listeners: Vec<TcpListener> =
        plan.listen.iter().map(listen).collect::<Result<_, Problem>>()?;
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            note(&format!(
                "serving http://{address}/probe?target=…&module=…, {modules} from {file}"
            ));
            if !address.ip().is_loopback() {
                note(
                    "hint: anyone who can reach this address can probe any target from this \
                      machine",
                );
            }
        }
    }
    note("stop it with Ctrl-C; SIGHUP reloads the configuration");
    let mut hang_ups = hang_ups();
    let runtime = terminal::runtime()?;
    let served = runtime.block_on(async {
        let end = async {
            let mut asked = std::pin::pin!(asked_to_end());
            loop {
                tokio::select! {
                    biased;
                    _ = &mut asked => break,
                    Ok(()) = hang_ups.changed() => reload(&exporter),
                }
            }
        };
        serve(&exporter, listeners, end).await
    });
    // A lookup that nobody waits for any more does not hold up the end.
    runtime.shutdown_background();
    served.map_err(|error| {
        Problem::new(exit::USAGE, format!("cannot listen: {}", describe_io(&error)))
    })?;
    note("stopped");
    Ok(exit::OK)
}

fn reload(exporter: &Exporter) {
    match exporter.reload() {
        Ok(()) => note(&format!("reloaded the configuration: {} modules", exporter.modules())),
        Err(error) => {
            note(&format!("warning: the old configuration stays in use: {}", safe(&error)));
        }
    }
}

/// For a terminal: a configuration may be anybody's.
fn safe(text: &str) -> String {
    Style::default().safe(text)
}

fn listen(address: &SocketAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind(address).map_err(|error| {
        let why = describe_io(&error);
        let problem = Problem::new(exit::USAGE, format!("cannot listen at {address}: {why}"));
        match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                problem.hint("another program uses that port, perhaps blackbox_exporter itself")
            }
            _ => problem,
        }
    })
}
