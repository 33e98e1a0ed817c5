//! `firstbyte completions` and `firstbyte man`: prints or writes text made from the command line's grammar.

use std::fs;

use crate::cli::exit::{self, Problem};
use crate::cli::exports::whole;
use crate::cli::files::cannot_write;
use crate::plans::{Destination, GeneratedPlan};

pub(super) fn run(plan: &GeneratedPlan) -> Result<u8, Problem> {
    let Some(directory) = &plan.directory else {
        for file in plan.files.iter().take(1) {
            whole(&Destination::StandardOutput, &file.content)?;
        }
        return Ok(exit::OK);
    };
    fs::create_dir_all(directory).map_err(|error| cannot_write(directory, &error))?;
    for file in &plan.files {
        whole(&Destination::File(directory.join(&file.name)), &file.content)?;
    }
    Ok(exit::OK)
}
