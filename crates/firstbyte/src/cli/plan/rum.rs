//! Turns the arguments of `rum` into a plan.

use firstbyte_core::units::{BareShare, parse_share};
use firstbyte_sources::field_data::LEAST_SAMPLING;

use super::{quantities, usage};
use crate::cli::args::{RumArgs, RumCommand};
use crate::cli::exit::Problem;
use crate::plans::{CommandPlan, Destination, RumServePlan, RumSnippetPlan};
use crate::rum::typed_origin;

/// No machine that this runs on stores a larger file.
const LARGEST_FILE: u64 = 1 << 44;

pub(super) fn rum(args: &RumArgs) -> Result<CommandPlan, Problem> {
    Ok(match &args.command {
        RumCommand::Snippet(args) => CommandPlan::RumSnippet(RumSnippetPlan {
            endpoint: endpoint(&args.endpoint)?,
            sample: sample(&args.sample)?,
        }),
        RumCommand::Serve(args) => {
            let origins = args.origin.iter().map(|origin| {
                typed_origin(origin).ok_or_else(|| {
                    usage(format!("--origin {origin:?}: not an origin"))
                        .hint("write https://www.example.com")
                })
            });
            if args.into.as_os_str() == Destination::STREAM {
                return Err(usage("--into -: field data needs a file, not standard output")
                    .hint("write --into field.ndjson, and follow it with tail -f field.ndjson"));
            }
            CommandPlan::RumServe(RumServePlan {
                into: args.into.clone(),
                listen: args.listen,
                origins: origins.collect::<Result<_, _>>()?,
                rate: args.rate,
                rate_per_source: args.rate_per_source,
                file_bytes: quantities::bytes("--max-file", &args.max_file, LARGEST_FILE)?,
            })
        }
    })
}

/// An http or https URL, or a path on the page's own origin.
fn endpoint(text: &str) -> Result<String, Problem> {
    let is_path = text.starts_with('/') && !text.starts_with("//");
    let is_url = || {
        url::Url::parse(text)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.username().is_empty())
    };
    if text.chars().any(char::is_control) || !(is_path || is_url()) {
        return Err(usage(format!("--endpoint {text:?}: expected an https URL or a path"))
            .hint("write https://field.example.com/rum, or /rum"));
    }
    Ok(text.to_owned())
}

fn sample(text: &str) -> Result<f64, Problem> {
    let share = parse_share(text, BareShare::OfOne).ok();
    share.filter(|share| (LEAST_SAMPLING..=1.0).contains(share)).ok_or_else(|| {
        usage(format!("--sample {text:?}: expected a share from 0.01% to 100%")).hint("write 10%")
    })
}
