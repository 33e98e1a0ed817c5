//! Captures: a tap in a host's own namespace, and the forwarder's view of the middle.
//!
//! A tap is independent evidence: it has its own socket, its own thread and the kernel's stamps for
//! both directions. Files are written out a hundred times a second, so that whatever ends the
//! process, they hold what had been seen.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::clock::realtime_ns;
use crate::error::LabError;
use crate::forwarder::{Counter, MiddleFrame};
use crate::network::{HostNetwork, INTERFACE};
use crate::pcapng::{Direction, Writer};
use crate::reports::CaptureStats;
use crate::sys::{PacketRing, RingSize};

/// Room for a burst of 16,384 full frames.
const RING: RingSize = RingSize { frames: 16_384, frame_bytes: 0 };
/// How often a capture looks for frames. It is never woken by one: waking a thread takes the kernel
/// several microseconds, which would be on the frame's way.
const LOOK_MS: u8 = 10;

/// A running capture.
pub(crate) struct Capture {
    file: PathBuf,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<()>>,
    /// Closed to stop a tap; the middle's capture stops with the forwarder.
    stop: Option<OwnedFd>,
}

/// What a capture's thread tells others.
#[derive(Debug, Default)]
struct Progress {
    frames: Counter,
    dropped: Counter,
    failure: std::sync::OnceLock<String>,
}

impl Capture {
    /// Captures on a host's interface into a file, from before this returns.
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
        let writer = create(&file, &format!("{}/{INTERFACE}", place.name))?;
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = spawn("tap", move || shared.follow(|p| tap(p, ring, writer, &stopped)))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { file, progress, thread: Some(thread), stop: Some(stop) })
    }

    /// Captures what the forwarder sends, until it drops the sender.
    pub(crate) fn of_middle(file: PathBuf) -> Result<(Self, Sender<MiddleFrame>), LabError> {
        let (sender, receiver) = mpsc::channel();
        let writer = create(&file, "middle")?;
        let progress = Arc::new(Progress::default());
        let shared = Arc::clone(&progress);
        let thread = spawn("middle", move || shared.follow(|p| middle(p, &receiver, writer)))
            .map_err(|error| failed(&file, error.to_string()))?;
        Ok((Self { file, progress, thread: Some(thread), stop: None }, sender))
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
            // What made it panic is not ours to report in a drop.
            let _ = thread.join();
        }
    }
}

impl Progress {
    /// Runs a capture's thread and keeps why it failed.
    fn follow(&self, run: impl FnOnce(&Self) -> io::Result<()>) {
        if let Err(error) = run(self) {
            let _ = self.failure.set(error.to_string());
        }
    }
}

fn tap(
    progress: &Progress,
    mut ring: PacketRing,
    mut writer: Writer<BufWriter<File>>,
    stopped: &OwnedFd,
) -> io::Result<()> {
    let mut stopping = false;
    loop {
        while let Some(frame) = ring.next() {
            let way = if frame.outgoing { Direction::Outbound } else { Direction::Inbound };
            writer.packet(frame.realtime_ns, way, frame.bytes)?;
            progress.frames.add(1);
        }
        progress.dropped.add(ring.take_drops());
        if stopping {
            return writer.finish(realtime_ns(), progress.dropped.value());
        }
        writer.flush()?;
        let mut fds = [PollFd::new(stopped.as_fd(), PollFlags::POLLIN)];
        // A last look after the sign to stop takes what came before it.
        stopping = poll(&mut fds, PollTimeout::from(LOOK_MS)) != Ok(0);
    }
}

fn middle(
    progress: &Progress,
    frames: &Receiver<MiddleFrame>,
    mut writer: Writer<BufWriter<File>>,
) -> io::Result<()> {
    loop {
        match frames.try_recv() {
            Ok(frame) => {
                writer.packet(frame.realtime_ns, Direction::Unknown, &frame.bytes)?;
                progress.frames.add(1);
            }
            Err(TryRecvError::Empty) => {
                writer.flush()?;
                std::thread::sleep(Duration::from_millis(LOOK_MS.into()));
            }
            Err(TryRecvError::Disconnected) => return writer.finish(realtime_ns(), 0),
        }
    }
}

fn create(file: &Path, interface: &str) -> Result<Writer<BufWriter<File>>, LabError> {
    File::create(file)
        .and_then(|out| Writer::new(BufWriter::new(out), interface))
        .map_err(|error| failed(file, error.to_string()))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)
}

fn failed(file: &Path, reason: String) -> LabError {
    LabError::Capture { file: file.display().to_string(), reason }
}
