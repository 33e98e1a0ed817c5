//! `seeds CORPUS FILE…`: makes seed inputs for the targets from captures, run files and curl's tables.
//!
//! Of a capture it takes the first packets of each connection, as a capture, as segments, as records, as datagrams. It
//! writes only below CORPUS.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use firstbyte_core::pcap::{CaptureReader, Frame, Read};
use firstbyte_fuzz::steps;
use firstbyte_passive::layers::{self, Transport};

/// Packets taken of a connection: its handshake, and some after it.
const PACKETS: usize = 24;
/// Connections taken of a capture.
const CONNECTIONS: usize = 24;
const LONGEST: usize = 24_000;

#[derive(Default)]
struct Seeds {
    capture: Vec<u8>,
    layers: Vec<u8>,
    tcp: Vec<u8>,
    tls: Vec<u8>,
    quic: Vec<u8>,
    initial: Vec<u8>,
    packets: usize,
}

fn main() -> io::Result<()> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let corpus = arguments.next().ok_or_else(|| io::Error::other("usage: seeds CORPUS FILE…"))?;
    for (place, path) in arguments.enumerate() {
        let bytes = fs::read(&path)?;
        if path.extension().is_some_and(|extension| extension == "csv") {
            write(&corpus, "curl_csv", place, 0, &bytes)?;
            continue;
        }
        if bytes.starts_with(b"{") {
            // Whole lines: the first one identifies the file.
            let lines = &bytes[..bytes.len().min(LONGEST)];
            let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
            write(&corpus, "run_file", place, 0, &lines[..end])?;
            write(&corpus, "active", place, 0, &[&[100], &lines[..end]].concat())?;
            continue;
        }
        // Unchanged for the file reader, since its blocks are part of the input to test.
        let begin = &bytes[..bytes.len().min(LONGEST)];
        write(&corpus, "capture_file", place, 0, &[&[7], begin].concat())?;
        write(&corpus, "files", place, 0, begin)?;
        for (number, seeds) in connections(&bytes).into_iter().enumerate() {
            let number = number + 1;
            write(&corpus, "capture", place, number, &seeds.capture)?;
            write(&corpus, "files", place, number, &seeds.capture)?;
            write(&corpus, "capture_file", place, number, &[&[31], &seeds.capture[..]].concat())?;
            write(&corpus, "layers", place, number, &seeds.layers)?;
            write(&corpus, "tcp", place, number, &seeds.tcp)?;
            write(&corpus, "tls", place, number, &seeds.tls)?;
            write(&corpus, "quic", place, number, &seeds.quic)?;
            write(&corpus, "quic_initial", place, number, &seeds.initial)?;
        }
    }
    Ok(())
}

fn write(corpus: &Path, target: &str, place: usize, number: usize, seed: &[u8]) -> io::Result<()> {
    if seed.is_empty() {
        return Ok(());
    }
    let directory = corpus.join(target);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join(format!("seed-{place}-{number}")), seed)
}

fn connections(bytes: &[u8]) -> Vec<Seeds> {
    let mut reader = CaptureReader::default();
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut all: Vec<Seeds> = Vec::new();
    let mut rest = bytes;
    loop {
        match reader.read(rest) {
            Ok(Read::Frame { frame, bytes }) => {
                rest = &rest[bytes..];
                let Ok(packet) = layers::packet(frame.link, frame.captured, frame.wire_bytes)
                else {
                    continue;
                };
                let mut ends = [packet.source, packet.destination];
                ends.sort();
                let known = all.len();
                let place = *places.entry(ends).or_insert(known);
                if place == known {
                    if known == CONNECTIONS {
                        places.remove(&ends);
                        continue;
                    }
                    all.push(Seeds::default());
                }
                let side = usize::from(
                    packet.source.socket_addr().port() < packet.destination.socket_addr().port(),
                );
                all[place].add(&frame, side, &packet.transport);
            }
            Ok(Read::Skipped { bytes }) => rest = &rest[bytes..],
            Ok(Read::NeedMore { .. }) | Err(_) => return all,
        }
    }
}

impl Seeds {
    fn add(&mut self, frame: &Frame<'_>, side: usize, transport: &Transport<'_>) {
        if self.packets == PACKETS || self.capture.len() + frame.captured.len() > LONGEST {
            return;
        }
        self.packets += 1;
        self.pcap(frame);
        let link = if frame.link.0 == 1 { 0 } else { u8::try_from(frame.link.0).unwrap_or(0) };
        steps::write(0x20, link, frame.captured, &mut self.layers);
        // The side, and a pause of some microseconds.
        let operation = 0x10 | side as u8;
        match transport {
            Transport::Tcp(segment) if !segment.payload.captured.is_empty() => {
                let bytes = segment.payload.captured;
                // In turn: in order, in pieces, twice, backwards. Mutations find the rest.
                let kind = (self.packets % 4) as u8;
                steps::write(operation | kind << 1, 200, bytes, &mut self.tcp);
                steps::write(operation, 0, bytes, &mut self.tls);
                if let [22, 3, _, _, _, message, 0, high, low, body @ ..] = bytes {
                    let length = usize::from(u16::from_be_bytes([*high, *low])).min(body.len());
                    let whole = &bytes[5..9 + length];
                    steps::write(operation | 1 << 1, 100, whole, &mut self.initial);
                    steps::write(operation | 2 << 1, *message, &body[..length], &mut self.tls);
                    steps::write(operation | 3 << 1, 1, &[0; 1_300], &mut self.initial);
                    steps::write(operation | 4 << 1, 0, &[1; 200], &mut self.initial);
                }
            }
            Transport::Udp(payload) => {
                steps::write(operation, 0, payload.captured, &mut self.quic);
            }
            Transport::Tcp(_) => {}
        }
    }

    fn pcap(&mut self, frame: &Frame<'_>) {
        if self.capture.is_empty() {
            self.capture.extend([0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            self.capture.extend(262_144u32.to_le_bytes());
            self.capture.extend(u32::from(frame.link.0).to_le_bytes());
        }
        let at = frame.at.unwrap_or_default().unix_ns();
        let number = |n: i64| (n as u32).to_le_bytes();
        self.capture.extend(number(at / 1_000_000_000));
        self.capture.extend(number(at % 1_000_000_000));
        self.capture.extend(number(frame.captured.len() as i64));
        self.capture.extend(frame.wire_bytes.to_le_bytes());
        self.capture.extend(frame.captured);
    }
}
