//! Files are read a second time.
//!
//! In: the files and the numbers of connections that the first reading gave. Out: pcapng. The second reading
//! goes through the same analysis with the same limits and the same hashes, so that each frame is known to
//! belong to the connection that had it before: copies, fragments, a port used again and changed addresses
//! included.

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

/// Whether the files can be read twice.
pub(in super::super) fn check(plan: &WirePlan, paths: &[PathBuf]) -> Result<(), Problem> {
    if plan.outputs.packets.is_none() {
        return Ok(());
    }
    for path in paths {
        let seekable = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        // One that is not there is told when it is read.
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

/// Writes the packets of `chosen`; gives back how many.
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
        // How the file ends was told by the first reading.
        firstbyte_capture::for_each(file, &mut each)
            .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    }
    queue.finish(&mut take);
    result.and_then(|()| out.finish().map(drop)).map_err(|error| failed(&error))?;
    Ok(written)
}
