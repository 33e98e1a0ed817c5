//! Captures: a tap in a host's own namespace, and the forwarder's view of the middle.
//!
//! A tap is independent evidence: it has its own socket, its own thread and the kernel's timestamps for
//! both directions. Files are flushed a hundred times a second, so they are nearly complete however
//! the process ends.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_core::pcap::Time;
use firstbyte_core::pcap::{CaptureWriter, Direction, InterfaceNumber, LinkType};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::realtime_ns;
use crate::error::LabError;
use crate::forwarder::{Counter, MiddleFrame};
use crate::network::{HostNetwork, INTERFACE};
use crate::reports::CaptureStats;
use crate::sys::{PacketRing, RingSize};

/// Room for a burst of 16,384 full frames.
const RING: RingSize = RingSize { frames: 16_384, frame_bytes: 0 };
/// How often a capture polls for frames. A frame never wakes it: waking a thread takes the kernel several
/// microseconds, which would delay the frame.
const LOOK_MS: u8 = 10;

/// A running capture.
pub(crate) struct Capture {
    file: PathBuf,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    /// Closed to stop a tap; the capture of the middle stops with the forwarder.
    stop: Option<OwnedFd>,
}

/// Progress that a capture's thread shares with others.
#[derive(Debug, Default)]
struct Progress {
    frames: Counter,
    dropped: Counter,
    /// How often all frames received so far have been written out.
    written_out: Counter,
    failure: std::sync::OnceLock<String>,
}

impl Capture {
    /// Captures a host's interface to a file. Capturing has begun when this returns.
    pub(crate) fn on_host(
        place: &HostNetwork,
        frame_bytes: usize,
        file: PathBuf,
    ) -> Result<Self, LabError> {
        let failed = |reason: String| failed(&file, reason);
        let ring = place
            .namespace
            .within(|| PacketRing::open(place.interface, RingSize { frame_bytes, ..RING }, true))
            .and_then(|ring| ring)
            .map_err(|errno| failed(errno.desc().to_owned()))?;
        let (stopped, stop) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
            .map_err(|e| failed(e.desc().to_owned()))?;
        let out = create(&file, &format!("{}/{INTERFACE}", place.name))?;
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = spawn("tap", move || shared.follow(|p| tap(p, ring, out, &stopped)))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { file, progress, thread: Some(thread), stop: Some(stop) })
    }

    /// Captures what the forwarder sends, until it drops the sender.
    pub(crate) fn of_middle(file: PathBuf) -> Result<(Self, Sender<MiddleFrame>), LabError> {
        let (sender, receiver) = mpsc::channel();
        let out = create(&file, "middle")?;
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = spawn("middle", move || shared.follow(|p| middle(p, &receiver, out)))
            .map_err(|error| failed(&file, error.to_string()))?;
        Ok((Self { file, progress, thread: Some(thread), stop: None }, sender))
    }

    /// Waits until the file has all frames so far. Returns early if it can no longer be written.
    pub(crate) fn write_out(&self) {
        // A pass already under way may have begun before the last frames arrived.
        let enough = self.progress.written_out.value() + 2;
        let lives = || self.thread.as_ref().is_some_and(|thread| !thread.is_finished());
        while self.progress.written_out.value() < enough && lives() {
            std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
        }
    }

    pub(crate) fn stats(&self) -> CaptureStats {
        CaptureStats {
            file: self.file.clone(),
            frames: self.progress.frames.value(),
            dropped: self.progress.dropped.value(),
            failure: self.progress.failure.get().cloned(),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A drop does not report why the thread panicked.
            let _ = thread.join();
        }
    }
}

impl Progress {
    /// Runs a capture's thread and records its failure, if any.
    fn follow(&self, run: impl FnOnce(&Self) -> io::Result<()>) {
        if let Err(error) = run(self) {
            let _ = self.failure.set(error.to_string());
        }
    }
}

fn tap(
    progress: &Progress,
    mut ring: PacketRing,
    mut file: CaptureFile,
    stopped: &OwnedFd,
) -> io::Result<()> {
    let mut stopping = false;
    loop {
        while let Some(frame) = ring.next() {
            let way = if frame.outgoing { Direction::Outbound } else { Direction::Inbound };
            file.frame(frame.realtime_ns, frame.bytes, Some(way))?;
            progress.frames.add(1);
        }
        progress.dropped.add(ring.take_drops());
        if stopping {
            return file.finish(progress.dropped.value());
        }
        file.writer.flush()?;
        progress.written_out.add(1);
        let mut fds = [PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
        // A last pass after the stop signal takes the frames that came before it.
        stopping = poll(&mut fds, PollTimeout::from(LOOK_MS)) != Ok(0);
    }
}

fn middle(
    progress: &Progress,
    frames: &Receiver<MiddleFrame>,
    mut file: CaptureFile,
) -> io::Result<()> {
    loop {
        match frames.try_recv() {
            Ok(frame) => {
                file.frame(frame.realtime_ns, &frame.bytes, None)?;
                progress.frames.add(1);
            }
            Err(TryRecvError::Empty) => {
                file.writer.flush()?;
                progress.written_out.add(1);
                std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
            }
            Err(TryRecvError::Disconnected) => return file.finish(0),
        }
    }
}

/// A capture file with one interface.
struct CaptureFile {
    writer: CaptureWriter<BufWriter<File>>,
    interface: InterfaceNumber,
}

impl CaptureFile {
    fn frame(&mut self, realtime_ns: u64, frame: &[u8], way: Option<Direction>) -> io::Result<()> {
        self.writer.frame(self.interface, time(realtime_ns), frame, frame.len() as u32, way)
    }

    fn finish(mut self, dropped: u64) -> io::Result<()> {
        self.writer.dropped(self.interface, time(realtime_ns()), dropped)?;
        self.writer.finish().map(drop)
    }
}

fn time(realtime_ns: u64) -> Time {
    Time::from_unix_ns(i64::try_from(realtime_ns).unwrap_or(i64::MAX))
}

fn create(file: &Path, interface: &str) -> Result<CaptureFile, LabError> {
    const ETHERNET: LinkType = LinkType(1);
    let begun = File::create(file).and_then(|out| {
        let mut writer = CaptureWriter::new(BufWriter::new(out), "firstbyte lab")?;
        let interface = writer.interface(ETHERNET, interface)?;
        Ok(CaptureFile { writer, interface })
    });
    begun.map_err(|error| failed(file, error.to_string()))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn failed(file: &Path, reason: String) -> LabError {
    LabError::Capture { file: file.display().to_string(), reason }
}
