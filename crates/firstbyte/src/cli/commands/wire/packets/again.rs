//! Reads files a second time to write packets.
//!
//! In: the files and the numbers of connections from the first reading. Out: pcapng. The second reading runs the same
//! analysis with the same limits and hash seed, so that each frame is assigned to the same connection as before. That
//! holds for copies, fragments, reused ports and changed addresses too.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use firstbyte_core::pcap::Frame;
use firstbyte_passive::Analyzer;

use super::queue::{Event, Queue};
use crate::cli::exit::{self, Problem};
use crate::cli::files::cannot_write;
use crate::plans::{Destination, WirePlan};
use firstbyte_capture;

/// Checks that the files can be read twice.
pub(in super::super) fn check(plan: &WirePlan, paths: &[PathBuf]) -> Result<(), Problem> {
    if plan.outputs.packets.is_none() {
        return Ok(());
    }
    for path in paths {
        let seekable = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        // A missing file is reported when it is read.
        if path == Path::new("-") || (path.exists() && !seekable) {
            let message = format!(
                "--pcap-out reads the capture twice, and {} can only be read once",
                firstbyte_capture::name(path)
            );
            return Err(Problem::new(exit::USAGE, message).hint(
                "connections are selected when they end, and their packets are gone by then: write \
                 the capture to a file first",
            ));
        }
    }
    Ok(())
}

/// Writes the packets of `chosen`; returns their number.
pub(in super::super) fn write(
    paths: &[PathBuf],
    mut analyzer: Analyzer,
    chosen: &HashSet<u64>,
    to: &Destination,
) -> Result<u64, Problem> {
    let failed = |error: &io::Error| cannot_write(to.path(), error);
    let mut out = super::create(to).map_err(|error| failed(&error))?;
    let (mut written, mut result) = (0, Ok(()));
    let mut take = |event: Event<'_>| {
        if let Event::Frame(frame) = event
            && chosen.contains(&frame.number)
            && result.is_ok()
        {
            result = super::put(&mut out, &frame);
            written += 1;
        }
    };
    let mut queue = Queue::default();
    for file in paths {
        let mut each = |frame: &Frame<'_>| {
            analyzer.frame(frame, &mut |_| {});
            queue.add(frame, analyzer.latest(), &mut take);
        };
        // The first reading has already reported how the file ends.
        firstbyte_capture::for_each(file, &mut each)
            .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    }
    queue.finish(&mut take);
    result.and_then(|()| out.finish().map(drop)).map_err(|error| failed(&error))?;
    Ok(written)
}
