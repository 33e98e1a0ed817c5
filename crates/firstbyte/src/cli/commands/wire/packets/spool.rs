//! Packets that wait on disk until their connections are over, in capture order.
//!
//! In: frames by connection, and for each connection, at its end, whether it is chosen. Out: the frames of those
//! chosen. The spool is a queue of at most 16 unnamed files. The oldest file is written out once all connections with
//! packets in it are over. If the spool fills up before that, connections still in progress are left out altogether:
//! part of a connection would look like a different connection.

use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use firstbyte_core::pcap::LinkType;
use firstbyte_passive::Time;

use super::Out;
use super::queue::Owned;

const SEGMENTS: u64 = 16;
/// Most connections with packets in the spool: more would take too much memory.
const MOST_CONNECTIONS: usize = 1 << 20;
/// Bytes before each frame: number, time, link, captured and wire length.
const HEAD: usize = 8 + 8 + 2 + 4 + 4;

/// Packets waiting on disk.
pub(super) struct Spool {
    directory: PathBuf,
    segment_bytes: u64,
    most_bytes: u64,
    most_connections: usize,
    segments: VecDeque<Segment>,
    /// Sequence number of the first segment, counting from the first one ever.
    first: u64,
    bytes: u64,
    connections: HashMap<u64, Held>,
    /// Packets of connections up to this number are dropped unless the connection is held.
    given_up_to: u64,
    left_out: u64,
}

/// A connection with packets in the spool.
struct Held {
    /// `None` while the connection is in progress.
    is_chosen: Option<bool>,
    /// The last segment that contains one of its packets.
    last: u64,
}

struct Segment {
    out: BufWriter<File>,
    bytes: u64,
    /// Connections with packets in this segment, without duplicates.
    numbers: Vec<u64>,
    /// How many of these are over.
    over: usize,
}

impl Spool {
    /// An empty spool of at most `most_bytes`, which has nothing on disk yet.
    pub(super) fn new(directory: PathBuf, most_bytes: u64) -> Self {
        Self {
            directory,
            segment_bytes: most_bytes / SEGMENTS,
            most_bytes,
            most_connections: MOST_CONNECTIONS,
            segments: VecDeque::new(),
            first: 0,
            bytes: 0,
            connections: HashMap::new(),
            given_up_to: 0,
            left_out: 0,
        }
    }

    /// Adds a frame; returns how many frames were written out.
    pub(super) fn add(&mut self, frame: &Owned<'_>, out: &mut Out) -> io::Result<u64> {
        let is_held = self.connections.contains_key(&frame.number);
        if !is_held && frame.number <= self.given_up_to {
            return Ok(0);
        }
        if self.segments.back().is_none_or(|segment| segment.bytes >= self.segment_bytes) {
            self.segments.push_back(Segment::create(&self.directory)?);
        }
        let place = self.first + self.segments.len() as u64 - 1;
        let Some(segment) = self.segments.back_mut() else { return Ok(0) };
        let held =
            self.connections.entry(frame.number).or_insert(Held { is_chosen: None, last: place });
        if !is_held || held.last < place {
            held.last = place;
            segment.numbers.push(frame.number);
        }
        let bytes = segment.write(frame)?;
        self.bytes += bytes;
        let mut written = 0;
        while self.segments.len() > 1
            && (self.bytes > self.most_bytes || self.connections.len() > self.most_connections)
        {
            written += self.first_out(out)?;
        }
        Ok(written)
    }

    /// Ends a connection; returns how many frames were written out.
    pub(super) fn over(&mut self, number: u64, is_chosen: bool, out: &mut Out) -> io::Result<u64> {
        match self.connections.get_mut(&number) {
            Some(held) => held.is_chosen = Some(is_chosen),
            None => self.left_out += u64::from(is_chosen),
        }
        let mut written = 0;
        // The last segment is still being written.
        while self.segments.len() > 1 && self.is_first_over() {
            written += self.first_out(out)?;
        }
        Ok(written)
    }

    /// Number of chosen connections that were left out.
    pub(super) const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes all chosen frames; returns their number.
    pub(super) fn finish(mut self, out: &mut Out) -> io::Result<u64> {
        let mut written = 0;
        while !self.segments.is_empty() {
            written += self.first_out(out)?;
        }
        Ok(written)
    }

    fn is_first_over(&mut self) -> bool {
        let Some(segment) = self.segments.front_mut() else { return false };
        let rest = segment.numbers[segment.over..].iter();
        let is_over = |number: &&u64| {
            self.connections.get(number).is_none_or(|held| held.is_chosen.is_some())
        };
        segment.over += rest.take_while(is_over).count();
        segment.over == segment.numbers.len()
    }

    /// Writes out the oldest segment and gives up connections in it that are still in progress.
    fn first_out(&mut self, out: &mut Out) -> io::Result<u64> {
        let Some(segment) = self.segments.pop_front() else { return Ok(0) };
        let place = self.first;
        self.first += 1;
        self.bytes -= segment.bytes;
        let connections = &mut self.connections;
        let is_chosen =
            |number: u64| connections.get(&number).is_some_and(|held| held.is_chosen == Some(true));
        let (numbers, written) = segment.read(is_chosen, out)?;
        for number in numbers {
            let Some(held) = connections.get(&number) else { continue };
            if held.is_chosen.is_none() {
                self.given_up_to = self.given_up_to.max(number);
                connections.remove(&number);
            } else if held.last == place {
                connections.remove(&number);
            }
        }
        Ok(written)
    }
}

impl Segment {
    /// Creates a file that disappears with this process, however it ends.
    fn create(directory: &Path) -> io::Result<Self> {
        let name = format!(".firstbyte-spool-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(&path)?;
        fs::remove_file(&path)?;
        let out = BufWriter::with_capacity(1 << 18, file);
        Ok(Self { out, bytes: 0, numbers: Vec::new(), over: 0 })
    }

    fn write(&mut self, frame: &Owned<'_>) -> io::Result<u64> {
        let length = u32::try_from(frame.captured.len()).map_err(io::Error::other)?;
        self.out.write_all(&frame.number.to_le_bytes())?;
        self.out.write_all(&frame.at.unix_ns().to_le_bytes())?;
        self.out.write_all(&frame.link.0.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&frame.wire_bytes.to_le_bytes())?;
        self.out.write_all(frame.captured)?;
        let bytes = HEAD as u64 + u64::from(length);
        self.bytes += bytes;
        Ok(bytes)
    }

    /// Writes out the chosen frames; returns the segment's connections and the number of frames written.
    fn read(self, is_chosen: impl Fn(u64) -> bool, out: &mut Out) -> io::Result<(Vec<u64>, u64)> {
        let Self { out: held, bytes, numbers, .. } = self;
        let mut file = held.into_inner().map_err(io::IntoInnerError::into_error)?;
        if !numbers.iter().any(|number| is_chosen(*number)) {
            return Ok((numbers, 0));
        }
        file.rewind()?;
        let mut from = BufReader::with_capacity(1 << 18, file);
        let (mut head, mut captured) = ([0; HEAD], Vec::new());
        let (mut left, mut written) = (bytes, 0);
        while left > 0 {
            from.read_exact(&mut head)?;
            let (number, rest) = take(&head);
            let (at, rest) = take(rest);
            let (link, rest) = take(rest);
            let (length, rest) = take(rest);
            let (wire_bytes, _) = take(rest);
            let length = u32::from_le_bytes(length);
            captured.resize(length as usize, 0);
            from.read_exact(&mut captured)?;
            left -= HEAD as u64 + u64::from(length);
            if is_chosen(u64::from_le_bytes(number)) {
                let at = Time::from_unix_ns(i64::from_le_bytes(at));
                let link = LinkType(u16::from_le_bytes(link));
                let interface = out.nameless(link)?;
                out.frame(interface, at, &captured, u32::from_le_bytes(wire_bytes), None)?;
                written += 1;
            }
        }
        Ok((numbers, written))
    }
}

/// Splits off the first `N` bytes.
fn take<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    bytes.split_first_chunk().map_or(([0; N], &[]), |(first, rest)| (*first, rest))
}

#[cfg(test)]
mod tests;
