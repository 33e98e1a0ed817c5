//! Readers of network logs, tested with logs recorded by Chromium 156 (trimmed: `tests/traces/README.md`), also
//! truncated or malformed.
use crate::netlog::net_export::NetExportReader;
use crate::netlog::perfetto::PerfettoReader;
use crate::netlog::{NetLogError, NetLogEvent, NetLogPhase, NetLogRecord};
use proptest::prelude::*;

const HTTP2: &[u8] = include_bytes!("../../tests/traces/early-data-http2.perfetto");
const HTTP3: &[u8] = include_bytes!("../../tests/traces/early-data-http3.perfetto");
const EXPORTED: &[u8] = include_bytes!("../../tests/traces/net-export.json");

fn trace(pieces: &[&[u8]]) -> (Vec<NetLogEvent>, Result<(), NetLogError>) {
    let (mut reader, mut events) = (PerfettoReader::default(), Vec::new());
    for piece in pieces {
        if let Err(error) = reader.feed(piece, |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, Ok(()))
}

fn exported(pieces: &[&[u8]]) -> (Vec<NetLogEvent>, Result<bool, NetLogError>) {
    let (mut reader, mut events) = (NetExportReader::default(), Vec::new());
    for piece in pieces {
        if let Err(error) = reader.feed(piece, |event| events.push(event)) {
            return (events, Err(error));
        }
    }
    (events, Ok(reader.is_whole()))
}

fn cut(bytes: &[u8], size: usize) -> Vec<&[u8]> {
    bytes.chunks(size).collect()
}

fn named<'a>(events: &'a [NetLogEvent], name: &str) -> Vec<&'a NetLogEvent> {
    events.iter().filter(|event| &*event.name == name).collect()
}

#[test]
fn a_trace_has_microseconds_and_what_began_has_its_end() {
    let (events, result) = trace(&[HTTP2]);
    assert_eq!(result, Ok(()));
    let connects = named(&events, "TCP_CONNECT");
    let (begin, end) = (connects[0], connects[1]);
    assert_eq!((begin.phase, end.phase), (NetLogPhase::Begin, NetLogPhase::End));
    assert_eq!(begin.source, end.source);
    assert!(end.at_us > begin.at_us && end.at_us - begin.at_us < 10_000, "{begin:?} {end:?}");
    assert!(end.text("local_address").unwrap().starts_with("127.0.0.1:"));
    assert!(events.iter().any(|event| event.at_us % 1000 != 0));
    let handshakes = named(&events, "SSL_CONNECT");
    let ends: Vec<_> = handshakes.iter().filter(|event| event.phase == NetLogPhase::End).collect();
    assert_eq!(
        ends.iter().map(|event| event.truth("is_resumed")).collect::<Vec<_>>(),
        [Some(false), Some(true)]
    );
}

/// Chromium names each source's start time in whole milliseconds of the same clock.
#[test]
fn times_of_a_trace_are_those_that_its_sources_name() {
    for bytes in [HTTP2, HTTP3] {
        let (events, _) = trace(&[bytes]);
        let mut seen = std::collections::HashSet::new();
        let mut compared = 0;
        for event in events.iter().filter(|event| seen.insert(event.source)) {
            let Some(start) = event.text("source_start_time") else { continue };
            if !matches!(&*event.source_kind, "SOCKET" | "QUIC_SESSION" | "HTTP2_SESSION") {
                continue;
            }
            let start_us = start.parse::<i64>().unwrap() * 1000;
            assert!((event.at_us - start_us).abs() <= 1_500, "{event:?}");
            compared += 1;
        }
        assert!(compared > 1, "{compared}");
    }
}

#[test]
fn sockets_and_sessions_have_the_numbers_that_others_call_them_by() {
    for (bytes, kind, named_by) in [
        (HTTP2, "SOCKET", "SOCKET_POOL_BOUND_TO_SOCKET"),
        (HTTP2, "SOCKET", "HTTP2_SESSION_INITIALIZED"),
        (HTTP3, "QUIC_SESSION", "HTTP_STREAM_REQUEST_BOUND_TO_QUIC_SESSION"),
    ] {
        let (events, _) = trace(&[bytes]);
        let mut log = NetLogRecord::default();
        let names: Vec<u64> =
            named(&events, named_by).iter().filter_map(|event| event.dependency()).collect();
        events.into_iter().for_each(|event| log.push(event));
        assert!(names.len() > 1, "{named_by}");
        for number in names {
            let source = log.numbered(number).unwrap_or_else(|| panic!("{named_by} {number}"));
            assert_eq!(log.kind(source), Some(kind));
            assert_eq!(log.number_of(source), Some(number));
        }
    }
}

#[test]
fn an_exported_file_has_the_same_events() {
    let (events, whole) = exported(&[EXPORTED]);
    assert_eq!(whole, Ok(true));
    assert_eq!(events.len(), 320);
    assert!(events.iter().all(|event| event.source_number.is_some() && event.at_us % 1000 == 0));
    let end = events.iter().find(|event| event.ends("SSL_CONNECT")).unwrap();
    assert_eq!((end.text("version"), end.truth("is_resumed")), (Some("TLS 1.3"), Some(false)));
    let mut reader = NetExportReader::default();
    reader.feed(EXPORTED, |_| {}).unwrap();
    assert_eq!(reader.client().unwrap().0, "Chromium");
    assert!(reader.started_unix_ms().unwrap() > 1_700_000_000_000);
    assert_eq!(reader.skipped_events(), 0);
}

#[test]
fn an_exported_file_that_was_cut_short_gives_its_whole_events() {
    let half = &EXPORTED[..EXPORTED.len() / 2];
    let (events, whole) = exported(&[half]);
    assert_eq!(whole, Ok(false));
    assert!((100..320).contains(&events.len()), "{}", events.len());
}

#[test]
fn what_is_no_log_is_said_to_be_none() {
    for bad in [&b"\x7fELF"[..], b"PK\x03\x04", b"{\"log\":{\"version\":\"1.2\"}}"] {
        assert!(trace(&[bad]).1.is_err(), "{bad:?}");
    }
    for bad in [&b"\x7fELF"[..], b"[]", b"{\"events\":[{}]}", b"{\"constants\":{]}", b"{1:2}"] {
        assert!(exported(&[bad]).1.is_err(), "{bad:?}");
    }
    let huge = [b"{\"constants\":\"".to_vec(), vec![b'x'; 9 << 20]].concat();
    assert!(matches!(exported(&[&huge]).1, Err(NetLogError::TooLarge { .. })));
    // A packet with an oversized length.
    assert!(trace(&[&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]]).1.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn cutting_a_trace_changes_no_event(size in 1usize..5_000) {
        let short = &HTTP2[..30_000];
        prop_assert_eq!(trace(&cut(short, size)).0, trace(&[short]).0);
    }

    #[test]
    fn cutting_an_exported_file_changes_no_event(size in 1usize..5_000) {
        prop_assert_eq!(exported(&cut(EXPORTED, size)), exported(&[EXPORTED]));
    }

    #[test]
    fn a_garbled_trace_ends_no_program(
        places in prop::collection::vec((0usize..60_000, any::<u8>()), 1..20),
        end in 0usize..60_000,
    ) {
        let mut bytes = HTTP3[..60_000].to_vec();
        for (place, byte) in places {
            bytes[place] = byte;
        }
        let (events, _) = trace(&[&bytes[..end]]);
        prop_assert!(events.len() <= bytes.len());
    }

    #[test]
    fn a_garbled_exported_file_ends_no_program(
        places in prop::collection::vec((0usize..EXPORTED.len(), any::<u8>()), 1..20),
    ) {
        let mut bytes = EXPORTED.to_vec();
        for (place, byte) in places {
            bytes[place] = byte;
        }
        let (events, _) = exported(&[&bytes]);
        prop_assert!(events.len() <= 320);
    }

    #[test]
    fn any_bytes_end_no_program(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = trace(&[&bytes]);
        let _ = exported(&[&bytes]);
        let tagged: Vec<u8> = [vec![0x0a, 100], bytes].concat();
        let _ = trace(&[&tagged]);
    }
}
