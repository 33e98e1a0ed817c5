//! `--pcap-out`: the packets of chosen connections, by reading the files a second time.
//!
//! In: the files and the numbers of connections that the first reading gave. Out: pcapng. The second reading
//! goes through the same analysis with the same limits and the same hashes, so that each frame is known to
//! belong to the connection that had it before: copies, fragments, a port used again and changed addresses
//! included.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use firstbyte_core::passive::layers::{self, Endpoint, Fragment, Unread};
use firstbyte_core::passive::pcap::{Frame, LinkType};
use firstbyte_core::passive::{Analyzer, Time};

use crate::capture::write::CaptureWriter;
use crate::capture::{self};
use crate::cli::args::WireArgs;
use crate::cli::exit::{self, Problem};

/// Whether the files can be read twice.
pub(super) fn check(args: &WireArgs) -> Result<(), Problem> {
    if args.pcap_out.is_none() {
        return Ok(());
    }
    for path in &args.files {
        let seekable = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        // One that is not there is told when it is read.
        if path == Path::new("-") || (path.exists() && !seekable) {
            let message = format!("--pcap-out reads twice, and {} cannot be", capture::name(path));
            return Err(Problem::new(exit::USAGE, message).hint(
                "which connections are chosen is known only at their end, when their packets are gone: \
                 write the capture into a file first",
            ));
        }
    }
    Ok(())
}

/// Writes the packets of `chosen` into `path`; gives back how many.
pub(super) fn write(
    args: &WireArgs,
    mut analyzer: Analyzer,
    chosen: &HashSet<u64>,
    path: &Path,
) -> Result<u64, Problem> {
    let failed = |error: &io::Error| crate::cli::render::failed(path, error);
    let out: Box<dyn io::Write> = match path == Path::new("-") {
        true => Box::new(BufWriter::new(io::stdout().lock())),
        false => Box::new(BufWriter::new(File::create(path).map_err(|error| failed(&error))?)),
    };
    let mut queue = Queue {
        out: CaptureWriter::new(out).map_err(|error| failed(&error))?,
        waiting: VecDeque::new(),
        last: Time::default(),
        written: 0,
        failed: None,
    };
    for file in &args.files {
        let mut each = |frame: &Frame<'_>| {
            analyzer.frame(frame, &mut |_| {});
            let is_chosen = analyzer.latest().is_some_and(|number| chosen.contains(&number));
            queue.add(frame, is_chosen);
        };
        // How the file ends was told by the first reading.
        capture::for_each(file, &mut each)
            .map_err(|error| Problem::new(exit::READ, error.to_string()))?;
    }
    queue.let_go(0);
    if let Some(error) = queue.failed {
        return Err(failed(&error));
    }
    queue.out.finish().map_err(|error| failed(&error))?;
    Ok(queue.written)
}

/// Frames behind a fragment wait for it, at most so many.
const MOST_WAITING: usize = 4_096;

/// Which datagram a fragment is of.
type Datagram = (Endpoint, Endpoint, u32, u8);

struct Waiting {
    at: Time,
    link: LinkType,
    captured: Vec<u8>,
    wire_bytes: u32,
    /// A piece of this datagram, of which it is not known yet whether it is chosen.
    piece_of: Option<Datagram>,
}

/// Frames on their way to the file, in the order of the capture: what stands behind a fragment waits until
/// it is known whose that is.
struct Queue<W: io::Write> {
    out: CaptureWriter<W>,
    waiting: VecDeque<Waiting>,
    last: Time,
    written: u64,
    failed: Option<io::Error>,
}

impl<W: io::Write> Queue<W> {
    fn add(&mut self, frame: &Frame<'_>, is_chosen: bool) {
        // Frames without a time have that of the one before, as in the analysis.
        self.last = frame.at.unwrap_or(self.last);
        let piece_of = piece_of(frame);
        if piece_of.is_none() && !is_chosen {
            return;
        }
        if let (Some(datagram), true) = (piece_of, is_chosen) {
            let pieces = self.waiting.iter_mut().filter(|w| w.piece_of == Some(datagram));
            pieces.for_each(|piece| piece.piece_of = None);
        }
        if self.waiting.is_empty() && is_chosen {
            self.write(self.last, frame.link, frame.captured, frame.wire_bytes);
            return;
        }
        self.waiting.push_back(Waiting {
            at: self.last,
            link: frame.link,
            captured: frame.captured.to_vec(),
            wire_bytes: frame.wire_bytes,
            piece_of: piece_of.filter(|_| !is_chosen),
        });
        while self.waiting.front().is_some_and(|first| first.piece_of.is_none()) {
            self.first_out();
        }
        self.let_go(MOST_WAITING);
    }

    /// Lets go of the oldest until no more than `most` wait; pieces nobody claimed are left out.
    fn let_go(&mut self, most: usize) {
        while self.waiting.len() > most {
            self.first_out();
        }
    }

    fn first_out(&mut self) {
        if let Some(first) = self.waiting.pop_front()
            && first.piece_of.is_none()
        {
            self.write(first.at, first.link, &first.captured, first.wire_bytes);
        }
    }

    fn write(&mut self, at: Time, link: LinkType, captured: &[u8], wire_bytes: u32) {
        if self.failed.is_none() {
            self.failed = self.out.frame(at, link, captured, wire_bytes).err();
            self.written += 1;
        }
    }
}

fn piece_of(frame: &Frame<'_>) -> Option<Datagram> {
    match layers::packet(frame.link, frame.captured, frame.wire_bytes) {
        Err(Unread::Fragment(fragment)) => {
            let Fragment { source, destination, identification, protocol, .. } = fragment;
            Some((source, destination, identification, protocol))
        }
        _ => None,
    }
}
