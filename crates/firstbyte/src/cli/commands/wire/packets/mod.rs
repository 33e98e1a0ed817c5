//! `--pcap-out`: writes the packets of chosen connections.
//!
//! In: frames, each with the number of its connection, and which connections are chosen. Out: pcapng, in capture
//! order. Files are read a second time (`again`). Live packets are written at once if the connection's number
//! decides; otherwise they wait in a `spool` on disk until the connection ends.

mod again;
mod live;
mod queue;
mod spool;

pub(super) use again::{check, write};
pub(super) use live::LivePackets;

use std::io;

use firstbyte_core::pcap::CaptureWriter;

use crate::cli::exports::{Sink, sink};
use crate::plans::Destination;
use queue::Owned;

type Out = CaptureWriter<Sink>;

/// Begins the requested capture file.
fn create(to: &Destination) -> io::Result<Out> {
    CaptureWriter::new(sink(to)?, concat!("firstbyte ", env!("CARGO_PKG_VERSION")))
}

fn put(out: &mut Out, frame: &Owned<'_>) -> io::Result<()> {
    let interface = out.nameless(frame.link)?;
    out.frame(interface, frame.at, frame.captured, frame.wire_bytes, None)
}
