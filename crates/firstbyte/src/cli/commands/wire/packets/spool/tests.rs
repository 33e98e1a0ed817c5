use std::sync::{Arc, Mutex};

use firstbyte_core::pcap::{CaptureReader, CaptureWriter, Read as Next};

use super::*;
use crate::cli::exports::Sink;

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A spool of a given size, and its output.
struct Scene {
    spool: Spool,
    out: Out,
    file: Shared,
    at: i64,
    written: u64,
}

impl Scene {
    fn new(most_bytes: u64) -> Self {
        let file = Shared::default();
        let out = CaptureWriter::new(Box::new(file.clone()) as Sink, "").unwrap();
        Self { spool: Spool::new(std::env::temp_dir(), most_bytes), out, file, at: 0, written: 0 }
    }

    /// Adds a packet of 100 bytes that contains its connection's number.
    fn packet(&mut self, number: u64) {
        self.at += 1;
        let captured = [number as u8; 100];
        let at = Time::from_unix_ns(self.at);
        let link = LinkType(if number.is_multiple_of(2) { 1 } else { 113 });
        let frame = Owned { number, at, link, captured: &captured, wire_bytes: 1_500 };
        self.written += self.spool.add(&frame, &mut self.out).unwrap();
        assert!(self.spool.bytes <= self.spool.most_bytes.max(self.spool.segment_bytes + 200));
    }

    fn over(&mut self, number: u64, is_chosen: bool) {
        self.written += self.spool.over(number, is_chosen, &mut self.out).unwrap();
    }

    /// Finishes; returns times and connections of the written packets, and the number of connections left out.
    fn finish(self) -> (Vec<(i64, u8)>, u64) {
        let left_out = self.spool.left_out();
        let mut out = self.out;
        let written = self.written + self.spool.finish(&mut out).unwrap();
        out.finish().unwrap();
        let (mut reader, mut at, mut read) = (CaptureReader::default(), 0, Vec::new());
        let file = self.file.0.lock().unwrap();
        loop {
            match reader.read(&file[at..]).unwrap() {
                Next::Frame { frame, bytes } => {
                    let whose = frame.captured[0];
                    assert_eq!((frame.captured.len(), frame.wire_bytes), (100, 1_500));
                    assert_eq!(frame.link.0, if whose % 2 == 0 { 1 } else { 113 });
                    read.push((frame.at.unwrap().unix_ns(), whose));
                    at += bytes;
                }
                Next::Skipped { bytes } => at += bytes,
                Next::NeedMore { .. } => break,
            }
        }
        assert_eq!(read.len() as u64, written);
        (read, left_out)
    }
}

#[test]
fn packets_of_chosen_connections_come_out_in_order() {
    let mut scene = Scene::new(1 << 20);
    for _ in 0..3 {
        (1..=4).for_each(|number| scene.packet(number));
    }
    scene.over(3, true);
    scene.packet(1);
    scene.over(2, false);
    scene.over(1, true);
    // The fourth connection never ends, so it is not chosen.
    let (read, left_out) = scene.finish();
    let expected = [(1, 1), (3, 3), (5, 1), (7, 3), (9, 1), (11, 3), (13, 1)];
    assert_eq!((read, left_out), (expected.to_vec(), 0));
}

#[test]
fn what_is_over_makes_room_and_all_of_it_comes_out() {
    let mut scene = Scene::new(16_000);
    for number in 1..=200 {
        (0..10).for_each(|_| scene.packet(number));
        scene.over(number, true);
    }
    assert!(scene.written > 1_800, "{}", scene.written);
    assert!(scene.spool.connections.len() < 10);
    let (read, left_out) = scene.finish();
    assert_eq!((read.len(), left_out), (2_000, 0));
    assert!(read.is_sorted());
}

#[test]
fn when_it_is_full_connections_under_way_are_left_out_altogether_and_counted() {
    let mut scene = Scene::new(16_000);
    scene.packet(1);
    scene.packet(2);
    for number in 3..=102 {
        (0..10).for_each(|_| scene.packet(number));
        scene.over(number, number % 2 == 1);
    }
    // Both connections last longer than the spool can hold.
    scene.packet(1);
    scene.packet(2);
    scene.over(1, true);
    scene.over(2, false);
    let (read, left_out) = scene.finish();
    assert_eq!(left_out, 1);
    assert!(read.iter().all(|(_, whose)| whose % 2 == 1 && *whose > 1));
    assert_eq!(read.len(), 500);
}

#[test]
fn it_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut scene = Scene::new(1 << 20);
    scene.spool.directory = directory.path().to_owned();
    scene.packet(1);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}
