//! `firstbyte report FILE…`: shows what was measured before, as run files or tables of curl's timers.

use crate::cli::args::ReportArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::{render, run_problem};
use crate::runs::Dataset;

pub(in crate::cli) fn run(args: &ReportArgs) -> Result<u8, Problem> {
    render::check_inputs(&args.render, args.files.iter().map(AsRef::as_ref))?;
    let data = Dataset::read(&args.files).map_err(run_problem)?;
    render::check(&args.render)?;
    render::show(&data, &args.render)?;
    Ok(exit::OK)
}
