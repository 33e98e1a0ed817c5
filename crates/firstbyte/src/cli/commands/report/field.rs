//! `firstbyte report` of field data: a summary of what visitors' browsers reported.

use std::path::Path;

use firstbyte_probe::probe::describe_io;
use firstbyte_report::field_data::{field_data, field_json, field_rows, field_rows_header};
use firstbyte_report::warning::Warning;
use firstbyte_sources::field_data::{FieldLine, FieldLines};

use super::forms::check_forms;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{Exports, Lines, print, whole};
use crate::cli::files::Files;
use crate::cli::terminal;
use crate::plans::ReportPlan;
use crate::rum::{UnreadFieldData, check_field_data, read_field_data};

pub(super) fn run(plan: &ReportPlan) -> Result<u8, Problem> {
    let outputs = &plan.render.outputs;
    check_forms(plan, &["--csv"], "not possible for field data", "use text, --json or --csv")?;
    let files = Files::default().reads(&plan.files).exports(outputs);
    files.check()?;
    // Checked before any output is opened: an unreadable file must not cost an existing output.
    for path in &plan.files {
        check_field_data(path).map_err(|error| unread(path, error))?;
    }
    let opened = files.open()?;
    let mut rows: Exports<'_, FieldLine> = Exports::default();
    rows.open(&outputs.csv, |mut out| {
        field_rows_header(&mut out)?;
        Ok(Lines {
            out,
            line: |line: &FieldLine, out: &mut dyn std::io::Write| match line {
                FieldLine::Beacon(beacon) => field_rows(beacon, out),
                FieldLine::Report(_) | FieldLine::Refused(_) => Ok(()),
            },
        })
    })?;
    let mut all = FieldLines::default();
    let mut written = Ok(());
    for path in &plan.files {
        let take = |line: FieldLine| {
            all.add(&line);
            if written.is_ok() {
                written = rows.export(&line);
            }
        };
        let skip = |line, error: firstbyte_sources::field_data::FieldLineError| {
            let (file, detail) = (path.clone(), error.to_string());
            terminal::warn(&Warning::UnreadLine { file, line, detail });
        };
        read_field_data(path, take, skip).map_err(|error| unread(path, error))?;
    }
    written.and(rows.finish(&()))?;
    let summary = all.into_summary();
    if let Some(to) = &outputs.json {
        whole(to, field_json(&summary).as_bytes())?;
    }
    if !outputs.use_stdout() {
        print(&field_data(&summary, &terminal::style(plan.render.colors)))?;
    }
    opened.keep();
    Ok(exit::OK)
}

fn unread(path: &Path, error: UnreadFieldData) -> Problem {
    let why = match error {
        UnreadFieldData::Io(error) => describe_io(&error),
        UnreadFieldData::Header(error) => error.to_string(),
    };
    Problem::new(exit::READ, format!("cannot read {}: {why}", path.display()))
}
