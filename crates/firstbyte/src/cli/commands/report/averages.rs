//! `report --averages FILE`: finds when daily averages changed, and by how much.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use firstbyte_probe::probe::describe_io;
use firstbyte_report::averages::{AveragesView, json, table};
use firstbyte_report::chart;
use firstbyte_sources::averages::DailyAverages;

use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::files::{Files, cannot_write};
use crate::cli::{render, terminal};
use crate::plans::RenderPlan;

/// Size limit: exports of daily averages are small, so a larger file is something else.
const MOST_BYTES: u64 = 16_000_000;

pub(super) fn run(file: &PathBuf, plan: &RenderPlan) -> Result<u8, Problem> {
    let outputs = &plan.outputs;
    let opened = Files::default().reads([file]).exports(outputs).open()?;
    let averages = read(file)?;
    let found = averages.changes();
    let view = AveragesView { averages: &averages, found: found.as_ref() };
    // Render before writing any file: a failure of the terminal must not cost an existing file.
    let shown = match outputs.use_stdout() {
        true => Ok(()),
        false => print(&table(&view, &terminal::style(plan.colors))),
    };
    if let Some(to) = &outputs.json {
        let json = json(&view).map_err(|e| cannot_write(to.path(), &io::Error::other(e)))? + "\n";
        whole(to, json.as_bytes())?;
    }
    if outputs.draw() {
        render::pictures(&[chart::averages(&view)], outputs)?;
    }
    shown?;
    opened.keep();
    Ok(exit::OK)
}

fn read(file: &Path) -> Result<DailyAverages, Problem> {
    let unreadable =
        |why: String| Problem::new(exit::READ, format!("--averages {}: {why}", file.display()));
    let mut bytes = Vec::new();
    let opened = File::open(file).map_err(|error| unreadable(describe_io(&error)))?;
    let mut opened = opened.take(MOST_BYTES + 1);
    opened.read_to_end(&mut bytes).map_err(|error| unreadable(describe_io(&error)))?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(unreadable("larger than 16 MB: not an export of daily averages".into()));
    }
    DailyAverages::read(&bytes).map_err(|error| {
        unreadable(error.to_string()).hint(
            "expected one line per day: a date, an average and optionally a number of \
                   samples",
        )
    })
}
