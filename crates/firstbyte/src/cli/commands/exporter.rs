//! `firstbyte exporter`: answers the requests that blackbox_exporter answers.

use std::net::{SocketAddr, TcpListener};

use firstbyte_blackbox::{
    Compat, Exporter, ExporterOptions, LogFormat, LogLevel, ProbeLogOptions, serve,
};
use firstbyte_probe::probe::describe_io;
use firstbyte_report::Style;

use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::signals::{asked_to_end, hang_ups};
use crate::cli::terminal::{self, note};
use crate::plans::{ExporterLogFormat, ExporterLogLevel, ExporterMetrics, ExporterPlan};

/// Logs events at or above the level of `--log.level`, in the format of `--log.format`.
#[derive(Clone, Copy)]
struct ExporterMessages {
    level: LogLevel,
    format: LogFormat,
}

impl ExporterMessages {
    fn say(self, level: LogLevel, text: &str) {
        if level < self.level {
            return;
        }
        match (self.format, level) {
            (LogFormat::Json, _) => note(self.format.line(level, text, &[]).trim_end()),
            (LogFormat::Logfmt, LogLevel::Warn) => note(&format!("warning: {text}")),
            (LogFormat::Logfmt, _) => note(text),
        }
    }

    /// Warns about each module that cannot be served.
    fn name_refused_modules(self, exporter: &Exporter) {
        for refused in exporter.refused_modules() {
            self.say(LogLevel::Warn, &format!("{}; /probe refuses this module", safe(&refused)));
        }
    }
}

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
    let exporter = exporter.map_err(|error| Problem::new(exit::USAGE, safe(&error)))?;
    let format = log_format(plan.log_format);
    let messages = ExporterMessages { level: log_level(plan.log_level), format };
    let file = plan.config_file.display();
    let modules = count_modules(&exporter);
    if plan.check_only {
        messages.name_refused_modules(&exporter);
        messages.say(LogLevel::Info, &format!("{file} is valid: {modules}"));
        return Ok(exit::OK);
    }
    let level = log_level(plan.log_prober);
    let write: fn(&str) = |lines| note(lines.trim_end());
    exporter.write_probe_log(ProbeLogOptions { level, format, write });
    let listeners: Vec<TcpListener> =
        plan.listen.iter().map(listen).collect::<Result<_, Problem>>()?;
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            let text =
                format!("serving http://{address}/probe?target=…&module=…, {modules} from {file}");
            messages.say(LogLevel::Info, &text);
            if !address.ip().is_loopback() {
                let hint = "hint: anyone who can reach this address can probe any target from \
                            this machine";
                messages.say(LogLevel::Info, hint);
            }
        }
    }
    messages.name_refused_modules(&exporter);
    messages.say(LogLevel::Info, "stop it with Ctrl-C; SIGHUP reloads the configuration");
    let mut hang_ups = hang_ups();
    let runtime = terminal::runtime()?;
    let served = runtime.block_on(async {
        let end = async {
            let mut asked = std::pin::pin!(asked_to_end());
            loop {
                tokio::select! {
                    biased;
                    _ = &mut asked => break,
                    Ok(()) = hang_ups.changed() => reload(&exporter, messages),
                }
            }
        };
        serve(&exporter, listeners, end).await
    });
    // Do not let a lookup that nobody waits for any more delay the exit.
    runtime.shutdown_background();
    served.map_err(|error| {
        Problem::new(exit::USAGE, format!("cannot listen: {}", describe_io(&error)))
    })?;
    messages.say(LogLevel::Info, "stopped");
    Ok(exit::OK)
}

fn reload(exporter: &Exporter, messages: ExporterMessages) {
    match exporter.reload() {
        Ok(()) => {
            let modules = count_modules(exporter);
            messages.say(LogLevel::Info, &format!("reloaded the configuration: {modules}"));
            messages.name_refused_modules(exporter);
        }
        Err(error) => {
            let text = format!("the old configuration stays in use: {}", safe(&error));
            messages.say(LogLevel::Warn, &text);
        }
    }
}

/// Describes how many modules there are, and how many of them are refused.
fn count_modules(exporter: &Exporter) -> String {
    let (served, refused) = (exporter.modules(), exporter.refused_modules().len());
    let all = match served + refused {
        1 => "1 module".to_owned(),
        all => format!("{all} modules"),
    };
    if refused == 0 { all } else { format!("{all}, {refused} of them refused") }
}

const fn log_level(level: ExporterLogLevel) -> LogLevel {
    match level {
        ExporterLogLevel::Debug => LogLevel::Debug,
        ExporterLogLevel::Info => LogLevel::Info,
        ExporterLogLevel::Warn => LogLevel::Warn,
        ExporterLogLevel::Error => LogLevel::Error,
    }
}

const fn log_format(format: ExporterLogFormat) -> LogFormat {
    match format {
        ExporterLogFormat::Logfmt => LogFormat::Logfmt,
        ExporterLogFormat::Json => LogFormat::Json,
    }
}

/// Makes text safe for a terminal: a configuration may come from anybody.
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
