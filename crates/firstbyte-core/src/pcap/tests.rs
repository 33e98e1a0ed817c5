use proptest::prelude::*;

use super::*;

/// Two packets in each of the formats.
fn classic(big_endian: bool, nanoseconds: bool) -> Vec<u8> {
    let four = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let magic = if nanoseconds { 0xa1b2_3c4du32 } else { 0xa1b2_c3d4 };
    let mut bytes = Vec::new();
    for number in [magic, 0x0002_0004, 0, 0, 65_535, 1] {
        bytes.extend(four(number));
    }
    for (place, payload) in [b"first".as_slice(), b"second"].into_iter().enumerate() {
        for number in [100, 7 + place as u32, payload.len() as u32, 60] {
            bytes.extend(four(number));
        }
        bytes.extend(payload);
    }
    bytes
}

fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let four = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let length = body.len().next_multiple_of(4) as u32 + 12;
    let mut bytes = [four(kind), four(length)].concat();
    bytes.extend(body);
    bytes.resize(length as usize - 4, 0);
    bytes.extend(four(length));
    bytes
}

fn section(big_endian: bool, unit: u8, offset_seconds: i64) -> Vec<u8> {
    let two = |n: u16| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let four = |n: u32| if big_endian { n.to_be_bytes() } else { n.to_le_bytes() };
    let eight =
        if big_endian { offset_seconds.to_be_bytes() } else { offset_seconds.to_le_bytes() };
    let head = [&four(0x1a2b_3c4d)[..], &two(1), &two(0), &[0xff; 8]].concat();
    let interface = [
        &two(1)[..],
        &two(0),
        &four(0),
        &two(9),
        &two(1),
        &[unit, 0, 0, 0],
        &two(14),
        &two(8),
        &eight,
    ]
    .concat();
    let packet = [&four(0)[..], &four(0), &four(5_000), &four(5), &four(90), b"hello"].concat();
    [
        block(0x0a0d_0d0a, &head, big_endian),
        block(1, &interface, big_endian),
        block(0x0bad, &[1; 9], big_endian),
        block(6, &packet, big_endian),
        block(3, &[&four(4)[..], b"soon"].concat(), big_endian),
    ]
    .concat()
}

/// Time, bytes, length on the wire.
type Found = (Option<i64>, Vec<u8>, u32);

/// All frames, and the error that ended them.
fn frames(bytes: &[u8], piece: usize) -> (Vec<Found>, Option<CaptureError>) {
    let (mut reader, mut all) = (CaptureReader::default(), Vec::new());
    let (mut begin, mut end) = (0, 0);
    loop {
        match reader.read(&bytes[begin..end]) {
            Ok(Read::NeedMore { bytes: needed }) => {
                assert!(needed > end - begin, "asked for what was there");
                if end == bytes.len() {
                    return (all, None);
                }
                end = (end + piece).min(bytes.len());
            }
            Ok(Read::Skipped { bytes }) => {
                assert!(bytes > 0);
                begin += bytes;
            }
            Ok(Read::Frame { frame, bytes }) => {
                let at = frame.at.map(Time::unix_ns);
                all.push((at, frame.captured.to_vec(), frame.wire_bytes));
                begin += bytes;
            }
            Err(error) => return (all, Some(error)),
        }
        assert_eq!(reader.offset(), begin as u64);
    }
}

#[test]
fn every_byte_order_and_unit_is_read() {
    for big_endian in [false, true] {
        for (nanoseconds, unit) in [(false, 1_000), (true, 1)] {
            let (all, error) = frames(&classic(big_endian, nanoseconds), 1 << 20);
            assert_eq!(error, None);
            assert_eq!(all[0], (Some(100_000_000_000 + 7 * unit), b"first".to_vec(), 60));
            assert_eq!(all[1].1, b"second");
        }
        // 5,000 units: of a nanosecond; of a microsecond, plus two seconds; of 2^-10 s.
        for (unit, offset, ns) in [(9, 0, 5_000), (6, 2, 2_005_000_000), (0x8a, 0, 4_882_812_500)] {
            let (all, error) = frames(&section(big_endian, unit, offset), 1 << 20);
            assert_eq!(error, None);
            assert_eq!(all[0], (Some(ns), b"hello".to_vec(), 90));
            assert_eq!(all[1], (None, b"soon".to_vec(), 4));
        }
    }
}

#[test]
fn a_new_section_may_have_another_byte_order() {
    let both = [section(false, 9, 0), section(true, 6, 0)].concat();
    let (all, error) = frames(&both, 1 << 20);
    assert_eq!((all.len(), error), (4, None));
}

#[test]
fn what_is_broken_is_broken_at_an_offset() {
    assert_eq!(frames(b"GET / HTTP/1.1", 1 << 20).1, Some(CaptureError::NotACapture));
    let mut bytes = classic(false, false);
    bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let what = "a packet has an impossible length";
    let broken = CaptureError::Malformed { offset: 32, what };
    assert_eq!(frames(&bytes, 1 << 20).1, Some(broken));
    assert_eq!(broken.to_string(), format!("malformed at offset 32: {what}"));
    // The second of a block's two lengths.
    let mut bytes = section(false, 9, 0);
    let end = bytes.len() - 24;
    bytes[end] ^= 1;
    let (all, error) = frames(&bytes, 1 << 20);
    assert!(all.is_empty());
    assert!(matches!(error, Some(CaptureError::Malformed { .. })), "{error:?}");
}

proptest! {
    #[test]
    fn pieces_change_nothing(piece in 1usize..200, ng in any::<bool>()) {
        let bytes = if ng { section(true, 6, 1) } else { classic(false, true) };
        prop_assert_eq!(frames(&bytes, piece), frames(&bytes, 1 << 20));
    }

    #[test]
    fn a_file_may_end_anywhere(cut in 0usize..400, ng in any::<bool>()) {
        let bytes = if ng { section(true, 6, 1) } else { classic(false, true) };
        let (whole, _) = frames(&bytes, 1 << 20);
        let (some, error) = frames(&bytes[..cut.min(bytes.len())], 64);
        prop_assert_eq!(error, None);
        prop_assert_eq!(&some[..], &whole[..some.len()]);
    }

    #[test]
    fn any_bytes_are_survived(
        begin in 0usize..3,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        let head = [Vec::new(), classic(true, false)[..24].to_vec(), section(false, 9, 0)];
        let _ = frames(&[head[begin].clone(), bytes].concat(), 97);
    }
}
