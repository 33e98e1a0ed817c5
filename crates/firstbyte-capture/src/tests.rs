//! How a capture is split into pieces does not change the result.

use std::io::{self, Write as _};
use std::path::Path;

use firstbyte_passive::{Analyzer, Hygiene, Limits, Observed};
use proptest::prelude::*;

use super::ahead::PIECE;
use super::{CaptureFileError, Ended, Source, each_of, finish_on, parallel};

/// A SYN from the given port, in an Ethernet frame of `bytes` bytes.
fn syn(port: u16, bytes: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([10, 0, 0, 1, 192, 0, 2, 1]);
    frame.extend(port.to_be_bytes());
    frame.extend([1, 187, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 1, 0, 0, 0, 0, 0]);
    frame.resize(bytes.max(frame.len()), 0);
    frame
}

/// A capture of SYNs with these frame lengths, a microsecond apart.
fn capture(frame_bytes: &[usize]) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]);
    for (n, length) in frame_bytes.iter().enumerate() {
        let frame = syn(n as u16 + 1024, *length);
        for number in [1_700_000_000, n as u32, frame.len() as u32, frame.len() as u32] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(frame);
    }
    bytes
}

type Outcome = (Result<Ended, String>, Vec<Observed>, Hygiene);

fn outcome(
    threads: usize,
    read: impl FnOnce(&mut Analyzer, &mut dyn FnMut(&Observed)) -> Result<Ended, CaptureFileError>,
) -> Outcome {
    let mut analyzer = Analyzer::new(Limits::default());
    let mut all = Vec::new();
    let ended = read(&mut analyzer, &mut |observed| all.push(observed.clone()));
    finish_on(threads, &mut analyzer, &mut |observed| all.push(observed.clone()));
    (ended.map_err(|error| error.to_string()), all, *analyzer.hygiene())
}

/// The outcome when the source returns `piece` bytes at a time, and then ends or fails.
fn in_pieces(bytes: &[u8], piece: usize, packed: bool, fails: bool) -> Outcome {
    struct Slow(Vec<u8>, usize, usize, bool);
    impl io::Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Self(bytes, at, piece, fails) = self;
            let length = (bytes.len() - *at).min(*piece).min(buffer.len());
            if length == 0 && *fails {
                return Err(io::Error::other("a bad disk"));
            }
            buffer[..length].copy_from_slice(&bytes[*at..*at + length]);
            *at += length;
            Ok(length)
        }
    }
    let source = || Source::Stream(Box::new(Slow(bytes.to_vec(), 0, piece, fails)), packed);
    on_any_threads(source)
}

/// The outcome of reading a source; asserts that the number of threads does not change it.
fn on_any_threads(source: impl Fn() -> Source) -> Outcome {
    let path = Path::new("x.pcap");
    let alone = outcome(1, |analyzer, emit| {
        each_of(path, source(), &mut |frame| analyzer.frame(frame, emit))
    });
    for threads in [1, 2, 3] {
        let together = outcome(threads, |analyzer, emit| {
            parallel::read(path, source(), threads, analyzer, emit)
        });
        assert_eq!(together, alone, "{threads} threads");
    }
    alone
}

/// The outcome of reading a file.
fn of_file(bytes: &[u8]) -> Outcome {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    on_any_threads(|| Source::open(file.path()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pieces_change_nothing(
        lengths in proptest::collection::vec(0usize..3_000, 1..80),
        piece in 1usize..5_000,
        packed in any::<bool>(),
        cut in 0usize..3_000,
    ) {
        let mut bytes = capture(&lengths);
        bytes.truncate(bytes.len().saturating_sub(cut).max(24));
        let whole = in_pieces(&bytes, usize::MAX, true, false);
        prop_assert_eq!(&in_pieces(&bytes, piece, packed, false), &whole);
        prop_assert_eq!(of_file(&bytes), whole);
    }
}

#[test]
fn frames_that_lie_across_pieces_are_read() {
    // Far longer than a piece. No frame ends at a multiple of the piece size; one frame is nearly as long as a piece.
    let lengths: Vec<usize> =
        (0..900).map(|n| if n == 300 { PIECE - 100 } else { 1_000 + n % 37 }).collect();
    let bytes = capture(&lengths);
    assert!(bytes.len() > 4 * PIECE);
    let (ended, all, hygiene) = in_pieces(&bytes, usize::MAX, false, false);
    assert_eq!((&ended, all.len(), hygiene.frames), (&Ok(Ended::Whole), 900, 900));
    assert_eq!(of_file(&bytes), (ended, all, hygiene));
}

#[test]
fn what_was_read_before_a_failure_counts() {
    for packed in [false, true] {
        let (ended, all, _) = in_pieces(&capture(&[60; 50]), 1_000, packed, true);
        let error = ended.unwrap_err();
        assert!(error.starts_with("x.pcap: at offset 3824: a bad disk"), "{error}");
        assert_eq!(all.len(), 50);
    }
}

#[test]
fn packed_files_are_what_is_in_them() {
    let bytes = capture(&[1_500; 400]);
    let plain = in_pieces(&bytes, usize::MAX, false, false);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let zstd = zstd::encode_all(&bytes[..], 1).unwrap();
    for packed in [gzip.finish().unwrap(), zstd] {
        assert_eq!(of_file(&packed), plain);
    }
}

#[test]
fn a_frame_longer_than_the_room_between_pieces_is_read() {
    // pcapng allows this: a packet block with options longer than any packet.
    let mut bytes = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(length);
        bytes.extend(body);
        bytes.extend(length);
    };
    block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat());
    block(1, &[1, 0, 0, 0, 0, 0, 0, 0]);
    for n in 0..12u16 {
        let frame = syn(2_000 + n, 200_000);
        let numbers = [0, 0, u32::from(n) * 1_000, frame.len() as u32, frame.len() as u32];
        let head = numbers.map(u32::to_le_bytes).concat();
        block(6, &[head, frame].concat());
    }
    let (ended, all, hygiene) = of_file(&bytes);
    assert_eq!((ended, all.len(), hygiene.frames), (Ok(Ended::Whole), 12, 12));
}

#[test]
fn what_is_no_capture_is_none_on_any_threads() {
    for bytes in [&b""[..], b"no", b"neither pcap nor pcapng", &[0u8; 4_000]] {
        let (ended, ..) = of_file(bytes);
        let error = ended.unwrap_err();
        let wanted = if bytes.is_empty() { "is empty" } else { "neither pcap nor pcapng" };
        assert!(error.ends_with(wanted), "{error}");
    }
    let mut broken = capture(&[60; 9_000]);
    let place = broken.len() / 2 / 76 * 76 + 24 + 8;
    broken[place..place + 4].copy_from_slice(&[0xff; 4]);
    let (ended, all, _) = of_file(&broken);
    assert!(matches!(ended, Ok(Ended::Malformed { .. })), "{ended:?}");
    assert!(all.len() < 9_000);
}
