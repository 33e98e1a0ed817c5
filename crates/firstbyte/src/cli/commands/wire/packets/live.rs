//! Packets of a live capture, which cannot be read a second time.
//!
//! If a connection's number decides, as without `--server` and `--session`, its packets are written at once.
//! Otherwise they wait in a [`Spool`] until the connection is over.

use std::io;
use std::path::{Path, PathBuf};

use firstbyte_core::pcap::Frame;
use firstbyte_core::units::print_size;
use firstbyte_passive::Observed;

use super::queue::{Event, Queue};
use super::spool::Spool;
use super::{Out, put};
use crate::cli::commands::wire::choice;
use crate::cli::exit::Problem;
use crate::cli::files::cannot_write;
use crate::plans::{ConnectionChoice, Destination, WirePlan};
use firstbyte_report::units::{count, grouped};

/// Writes packets to `--pcap-out`. After the first failure nothing more is written.
pub(in super::super) struct LivePackets<'a> {
    choice: &'a ConnectionChoice,
    to: &'a Destination,
    spool_bytes: u64,
    queue: Queue,
    sink: Sink,
    failed: Option<io::Error>,
}

struct Sink {
    out: Out,
    spool: Option<Spool>,
    written: u64,
    connections: u64,
}

impl<'a> LivePackets<'a> {
    /// Begins the file, if requested.
    pub(in super::super) fn open(
        plan: &'a WirePlan,
        spool_bytes: u64,
    ) -> Result<Option<Self>, Problem> {
        let Some(to) = &plan.outputs.packets else { return Ok(None) };
        let choice = &plan.choice;
        let end_decides = !choice.servers.is_empty() || !choice.sessions.is_empty();
        let spool = end_decides.then(|| Spool::new(directory(to.path()), spool_bytes));
        let out = super::create(to).map_err(|error| cannot_write(to.path(), &error))?;
        let sink = Sink { out, spool, written: 0, connections: 0 };
        Ok(Some(Self { choice, to, spool_bytes, queue: Queue::default(), sink, failed: None }))
    }

    /// Adds a frame and the connection that it belongs to.
    pub(in super::super) fn frame(&mut self, frame: &Frame<'_>, owner: Option<u64>) {
        let flows = &self.choice.flows;
        let is_wanted = |number: &u64| flows.is_empty() || flows.contains(number);
        let (sink, failed) = (&mut self.sink, &mut self.failed);
        if failed.is_none() {
            self.queue.add(frame, owner, &mut |event| {
                if !matches!(event, Event::Frame(frame) if !is_wanted(&frame.number)) {
                    sink.take(event, failed);
                }
            });
        }
    }

    pub(in super::super) fn over(&mut self, observed: &Observed) {
        let is_chosen = choice::is_written(self.choice, observed);
        let (sink, failed) = (&mut self.sink, &mut self.failed);
        self.queue.over(observed.number, is_chosen, &mut |event| sink.take(event, failed));
    }

    /// Flushes buffers; returns false after a failure.
    pub(in super::super) fn flush(&mut self) -> bool {
        if self.failed.is_none() {
            self.failed = self.sink.out.flush().err();
        }
        self.failed.is_none()
    }

    /// Finishes the file; returns the message for the user.
    pub(in super::super) fn finish(mut self) -> Result<String, Problem> {
        let (sink, failed) = (&mut self.sink, &mut self.failed);
        self.queue.finish(&mut |event| sink.take(event, failed));
        let mut left_out = 0;
        let mut result = self.failed.map_or(Ok(()), Err);
        if let Some(spool) = self.sink.spool.take() {
            left_out = spool.left_out();
            let Sink { out, written, .. } = &mut self.sink;
            result = result.and_then(|()| {
                *written += spool.finish(out)?;
                Ok(())
            });
        }
        let Sink { out, written, connections, .. } = self.sink;
        result
            .and_then(|()| out.finish().map(drop))
            .map_err(|error| cannot_write(self.to.path(), &error))?;
        let mut told = format!(
            "wrote {} of {}",
            count(written, "packet"),
            count(connections - left_out, "connection")
        );
        if left_out > 0 {
            told.push_str(&format!(
                "; {} more lasted longer than --spool holds packets ({}), and their packets are \
                 missing. A larger --spool, --host and --port help",
                grouped(left_out),
                print_size(self.spool_bytes)
            ));
        }
        Ok(told)
    }
}

impl Sink {
    fn take(&mut self, event: Event<'_>, failed: &mut Option<io::Error>) {
        if failed.is_some() {
            return;
        }
        let result = match (event, &mut self.spool) {
            (Event::Frame(frame), None) => {
                self.written += 1;
                put(&mut self.out, &frame)
            }
            (Event::Frame(frame), Some(spool)) => {
                spool.add(&frame, &mut self.out).map(|written| self.written += written)
            }
            (Event::Over(number, is_chosen), spool) => {
                self.connections += u64::from(is_chosen);
                match spool {
                    Some(spool) => spool
                        .over(number, is_chosen, &mut self.out)
                        .map(|written| self.written += written),
                    None => Ok(()),
                }
            }
        };
        *failed = result.err();
    }
}

/// The spool's directory: next to the output file, so that it uses space on the same file system.
fn directory(path: &Path) -> PathBuf {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    match path.parent().filter(|_| is_file) {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => std::env::temp_dir(),
    }
}
