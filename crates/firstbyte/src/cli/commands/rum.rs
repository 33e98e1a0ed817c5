//! `firstbyte rum`: the script for pages, and the server that stores what it sends.

use std::io;

use firstbyte_clock::Realtime;
use firstbyte_probe::probe::describe_io;
use firstbyte_sources::field_data::FieldHeader;

use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::files::Files;
use crate::cli::signals::asked_to_end;
use crate::cli::terminal::{self, note};
use crate::plans::{RumServePlan, RumSnippetPlan};
use crate::rum::{
    FieldFileError, FieldWriter, Received, Receiver, ReceiverLimits, snippet as script,
};

pub(in crate::cli) fn snippet(plan: &RumSnippetPlan) -> Result<u8, Problem> {
    print(&script(&plan.endpoint, plan.sample))?;
    Ok(exit::OK)
}

pub(in crate::cli) fn serve(plan: &RumServePlan) -> Result<u8, Problem> {
    Files::default().keeps([&plan.into]).check()?;
    let now = Realtime::now().unix_nanos() / 1_000_000_000;
    let header = FieldHeader::new(now, env!("CARGO_PKG_VERSION"));
    let writer = FieldWriter::open(&plan.into, &header, plan.file_bytes).map_err(file_problem)?;
    if writer.torn() > 0 {
        note(&format!(
            "{}: {} bytes of an incomplete last line were removed",
            plan.into.display(),
            writer.torn()
        ));
    }
    let limits = ReceiverLimits {
        rate: plan.rate,
        rate_per_source: plan.rate_per_source,
        file_bytes: plan.file_bytes,
    };
    let runtime = terminal::runtime()?;
    let file = plan.into.display().to_string();
    let tell = {
        let file = file.clone();
        move |what: &str| note(&format!("warning: {file}: {what}"))
    };
    let received = runtime.block_on(async {
        let receiver = Receiver::bind(plan.listen, writer, limits, plan.origins.clone(), tell)
            .map_err(|error| cannot_listen(plan, &error))?;
        note(&format!("receiving beacons at http://{}/, writing {file}", receiver.address()));
        if !plan.listen.ip().is_loopback() {
            note(
                "hint: browsers do not send from https pages to plain HTTP; put a web server with \
                  TLS in front",
            );
        }
        note("stop it with Ctrl-C");
        let end = async {
            asked_to_end().await;
        };
        receiver.serve(end).await.map_err(|error| cannot_listen(plan, &error))
    })?;
    note(&summary(&received));
    Ok(exit::OK)
}

fn file_problem(error: FieldFileError) -> Problem {
    let (code, hint) = match &error {
        FieldFileError::Locked { .. } => (exit::WRITE, Some("give --into another file")),
        FieldFileError::NotFieldData { .. } => {
            (exit::WRITE, Some("give --into a new file, or one that `rum serve` began"))
        }
        FieldFileError::Io { .. } => (exit::WRITE, None),
    };
    let problem = Problem::new(code, error.to_string());
    match hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn cannot_listen(plan: &RumServePlan, error: &io::Error) -> Problem {
    let why = describe_io(error);
    let problem = Problem::new(exit::USAGE, format!("cannot listen at {}: {why}", plan.listen));
    match error.kind() {
        io::ErrorKind::AddrInUse => problem.hint("another program uses that port; try another one"),
        io::ErrorKind::PermissionDenied => {
            problem.hint("ports below 1024 need root; try a higher one")
        }
        _ => problem,
    }
}

/// Summarises the result in a line or two.
fn summary(received: &Received) -> String {
    let mut text =
        format!("stopped: stored {} beacons and {} reports", received.beacons, received.reports);
    if !received.refused.is_empty() {
        let each = received.refused.iter().map(|(why, times)| format!("{why} {times}"));
        text += "; refused: ";
        text += &each.collect::<Vec<_>>().join(", ");
    }
    text
}
