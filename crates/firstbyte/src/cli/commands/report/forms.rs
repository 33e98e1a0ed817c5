//! Checks the requested outputs of `report` against those that an input supports.

use crate::cli::exit::{self, Problem};
use crate::plans::{Outputs, ReportPlan};

/// Refuses outputs other than text, `--json` and the flags in `has`, with the message `--html: WHY`.
pub(in crate::cli::commands) fn check_forms(
    plan: &ReportPlan,
    has: &[&str],
    why: &str,
    hint: &str,
) -> Result<(), Problem> {
    let Outputs {
        json: _,
        csv,
        percentiles,
        parquet,
        zeek,
        har,
        html,
        markdown,
        packets,
        svg,
        png,
        qlog,
    } = &plan.render.outputs;
    let named = [
        (csv.is_some(), "--csv"),
        (percentiles.is_some(), "--percentiles"),
        (parquet.is_some(), "--parquet"),
        (zeek.is_some(), "--zeek"),
        (har.is_some(), "--har"),
        (html.is_some(), "--html"),
        (markdown.is_some(), "--export-markdown"),
        (packets.is_some(), "--pcap-out"),
        (svg.is_some(), "--svg"),
        (png.is_some(), "--png"),
        (qlog.is_some(), "--qlog"),
        (plan.render.by.is_some(), "--by"),
        (plan.render.compare_unlike, "--compare-unlike"),
        (plan.render.packets.is_some(), "--packets"),
    ];
    match named.into_iter().find(|(is_asked, flag)| *is_asked && !has.contains(flag)) {
        None => Ok(()),
        Some((_, flag)) => Err(Problem::new(exit::USAGE, format!("{flag}: {why}")).hint(hint)),
    }
}
