//! Turns the arguments of `exporter` into a plan.

use std::net::{Ipv6Addr, SocketAddr};

use super::proxy::warn_of_ignored;
use super::usage;
use crate::cli::args::ExporterArgs;
use crate::cli::exit::Problem;
use crate::plans::{ExporterLogFormat, ExporterLogLevel, ExporterMetrics, ExporterPlan};

pub(super) fn exporter(args: &ExporterArgs) -> Result<ExporterPlan, Problem> {
    let listen = args.listen_address.iter().map(|text| listen_address(text));
    let offset = args.timeout_offset.parse::<f64>().ok().filter(|offset| offset.is_finite());
    let timeout_offset = offset.ok_or_else(|| {
        usage(format!("--timeout-offset {:?}: expected a number of seconds", args.timeout_offset))
            .hint("write 0.5")
    })?;
    warn_of_ignored();
    Ok(ExporterPlan {
        config_file: args.config_file.clone(),
        check_only: args.config_check,
        timeout_offset,
        listen: listen.collect::<Result<_, _>>()?,
        history_limit: args.history_limit as usize,
        metrics: match args.compat_version.as_str() {
            "0.23" => ExporterMetrics::V0_23,
            _ => ExporterMetrics::V0_28,
        },
        log_level: log_level(&args.log_level),
        log_format: match args.log_format.as_str() {
            "json" => ExporterLogFormat::Json,
            _ => ExporterLogFormat::Logfmt,
        },
        log_prober: log_level(&args.log_prober),
    })
}

fn log_level(typed: &str) -> ExporterLogLevel {
    match typed {
        "debug" => ExporterLogLevel::Debug,
        "warn" => ExporterLogLevel::Warn,
        "error" => ExporterLogLevel::Error,
        _ => ExporterLogLevel::Info,
    }
}

/// Parses an address as Go does: `:PORT` listens on all addresses.
fn listen_address(text: &str) -> Result<SocketAddr, Problem> {
    let every = text.strip_prefix(':').and_then(|port| port.parse().ok());
    if let Some(port) = every {
        return Ok(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    }
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named.as_deref().unwrap_or(text).parse().map_err(|_| {
        usage(format!("--web.listen-address {text:?}: expected an address and a port"))
            .hint("write 127.0.0.1:9115, [::1]:9115, or :9115 for all addresses")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_named_as_in_go() {
        for (typed, meant) in [
            (":9115", "[::]:9115"),
            ("localhost:1", "127.0.0.1:1"),
            ("0.0.0.0:9115", "0.0.0.0:9115"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(listen_address(typed).ok().unwrap().to_string(), meant);
        }
        assert!(listen_address("9115").is_err() && listen_address("example:9115").is_err());
    }
}
