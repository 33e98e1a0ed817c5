//! `--pcap-out`: the packets of chosen connections.
//!
//! In: frames, each with the number of the connection it was read as, and which connections are chosen. Out:
//! pcapng, in the order of the capture. Files are read a second time (`again`). Live packets are written at
//! once where the number decides, and wait for their connection's end in a `spool` on the disk where that does.

mod again;
mod live;
mod queue;
mod spool;

pub(super) use again::{check, write};
pub(super) use live::LivePackets;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use firstbyte_core::pcap::CaptureWriter;

use queue::Owned;

type Out = CaptureWriter<Box<dyn Write>>;

/// Begins the capture file that was asked for.
fn create(path: &Path) -> io::Result<Out> {
    let out: Box<dyn Write> = match path == Path::new("-") {
        true => Box::new(BufWriter::new(io::stdout())),
        false => Box::new(BufWriter::with_capacity(1 << 16, File::create(path)?)),
    };
    CaptureWriter::new(out, concat!("firstbyte ", env!("CARGO_PKG_VERSION")))
}

fn put(out: &mut Out, frame: &Owned<'_>) -> io::Result<()> {
    let interface = out.nameless(frame.link)?;
    out.frame(interface, frame.at, frame.captured, frame.wire_bytes, None)
}
