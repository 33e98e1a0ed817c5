//! Cuts captures in which nothing changes into pieces, and checks that no piece differs from another.
//!
//! In: the captures (`.pcap`, `.pcapng`) in the directory `FIRSTBYTE_STEADY_CAPTURES`. Each is cut into halves, thirds
//! and quarters, by packets and by time; every piece is compared with every later one.

use std::path::PathBuf;

use super::super::{Analyzer, Limits, Time};
use super::{Change, Servers, changes};
use firstbyte_core::pcap::{CaptureReader, Frame, LinkType, Read};

struct Kept {
    at: Option<Time>,
    link: LinkType,
    captured: Vec<u8>,
    wire_bytes: u32,
}

fn frames(file: &[u8]) -> Vec<Kept> {
    let mut reader = CaptureReader::default();
    let (mut rest, mut all) = (file, Vec::new());
    while let Ok(read) = reader.read(rest) {
        let bytes = match read {
            Read::Frame { frame: Frame { at, link, captured, wire_bytes }, bytes } => {
                all.push(Kept { at, link, captured: captured.to_vec(), wire_bytes });
                bytes
            }
            Read::Skipped { bytes } => bytes,
            Read::NeedMore { .. } => break,
        };
        rest = &rest[bytes..];
    }
    all
}

fn servers(frames: &[Kept]) -> Servers {
    let mut analyzer = Analyzer::new(Limits::default());
    let mut servers = Servers::default();
    for Kept { at, link, captured, wire_bytes } in frames {
        let frame = Frame { at: *at, link: *link, captured, wire_bytes: *wire_bytes };
        analyzer.frame(&frame, &mut |observed| servers.add(observed));
    }
    analyzer.finish(&mut |observed| servers.add(observed));
    servers
}

/// Cuts `frames` into `many` pieces, with equal numbers of packets or equal durations.
fn pieces(frames: &[Kept], many: usize, by_time: bool) -> Vec<&[Kept]> {
    let stamps = || frames.iter().filter_map(|frame| frame.at);
    let (Some(first), Some(last)) = (stamps().min(), stamps().max()) else { return Vec::new() };
    let span = last.signed_since(first);
    let end = |n: usize| match by_time {
        true => {
            let until = span / many as i64 * n as i64;
            let over = |frame: &Kept| frame.at.is_some_and(|at| at.signed_since(first) > until);
            frames.iter().position(over).unwrap_or(frames.len())
        }
        false => frames.len() * n / many,
    };
    let ends: Vec<usize> =
        (0..=many).map(|n| if n == many { frames.len() } else { end(n) }).collect();
    ends.windows(2).map(|ends| &frames[ends[0].min(ends[1])..ends[1]]).collect()
}

#[test]
#[ignore = "needs captures: FIRSTBYTE_STEADY_CAPTURES=DIR"]
fn pieces_of_steady_captures_do_not_differ() {
    let directory = PathBuf::from(std::env::var("FIRSTBYTE_STEADY_CAPTURES").unwrap());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|it| it == "pcap" || it == "pcapng"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    let (mut compared, mut named) = (0, Vec::new());
    for path in paths {
        let frames = frames(&std::fs::read(&path).unwrap());
        for (many, by_time) in [2, 3, 4].into_iter().flat_map(|n| [(n, false), (n, true)]) {
            let pieces: Vec<Servers> =
                pieces(&frames, many, by_time).into_iter().map(servers).collect();
            for (n, before) in pieces.iter().enumerate() {
                for after in &pieces[n + 1..] {
                    compared += 1;
                    let (pairs, _) = Servers::pairs(before, after);
                    let found: Vec<Change> = changes(&pairs).changes;
                    let name = path.file_name().map(ToOwned::to_owned);
                    named.extend(found.into_iter().map(|change| (name.clone(), many, change)));
                }
            }
        }
    }
    println!("{compared} comparisons, {} changes named", named.len());
    assert!(named.is_empty(), "{named:#?}");
}
