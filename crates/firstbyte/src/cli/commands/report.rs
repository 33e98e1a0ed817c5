//! `firstbyte report FILE…`: shows what was measured before, as run files or tables of curl's timers.

use crate::cli::args::ReportArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::{render, run_problem};
use crate::runs::Dataset;

pub(in crate::cli) fn run(args: &ReportArgs) -> Result<u8, Problem> {
    let files = Files::default().reads(&args.files).renders(&args.render);
    files.check()?;
    let data = Dataset::read(&args.files).map_err(run_problem)?;
    files.open()?;
    render::show(&data, &args.render)?;
    Ok(exit::OK)
}
