use std::time::Duration;

use firstbyte_core::timeline::{
    Clock, Facts, HttpFacts, OpenedPacket, QuicFrame, QuicRecovery, Stamp, TlsFacts,
};
use proptest::prelude::*;
use qlog::events::EventData;
use qlog::events::quic::{AckRange, PacketType, QuicFrame as Parsed};
use qlog::reader::{Event as Read, QlogSeqReader};

use super::*;

fn at(us: i64) -> Stamp {
    Stamp { at: Offset::from_nanos(us * 1_000), clock: Clock::Kernel }
}

fn packet_of(direction: Direction, us: i64, kind: PacketKind, frames: &[QuicFrame]) -> QuicPacket {
    QuicPacket {
        direction,
        stamp: at(us),
        datagram: 0,
        kind,
        bytes: 1_200,
        opened: Some(OpenedPacket { number: 3, frames: frames.to_vec() }),
    }
}

fn connection() -> Connection {
    let crypto = QuicFrame::Crypto { offset: 0, bytes: 300 };
    let ack = QuicFrame::Ack { delay: Duration::from_micros(25), ranges: vec![(7, 7), (0, 3)] };
    let stream = QuicFrame::Stream { id: 0, offset: 0, bytes: 80, fin: true };
    let mut unopened = packet_of(Direction::Received, 21_000, PacketKind::Retry, &[]);
    unopened.opened = None;
    let parameter = |id, value| TransportParameter { id, value };
    let log = QuicLog {
        original_connection_id: Some("0102".into()),
        client_parameters: vec![parameter(0x04, 1_000_000), parameter(0x2ab2, 1)],
        server_parameters: vec![parameter(0x01, 30_000), parameter(0x0c, 1)],
        server_parameters_at: Some(Offset::from_nanos(21_500_000)),
        packets: vec![
            packet_of(
                Direction::Sent,
                1_000,
                PacketKind::Initial,
                &[crypto, QuicFrame::Padding(9)],
            ),
            unopened,
            packet_of(Direction::Received, 21_500, PacketKind::Initial, &[ack]),
            packet_of(Direction::Sent, 22_000, PacketKind::OneRtt, &[stream]),
        ],
        left_out: 2,
        recovery: vec![QuicRecovery {
            at: Offset::from_nanos(21_500_000),
            smoothed_rtt: Duration::from_micros(20_500),
            congestion_window: 12_000,
        }],
    };
    let mut connection = Connection {
        url: "https://user:secret@example.test/a?token=secret".into(),
        started_unix_ns: Some(1_700_000_000_000_000_000),
        facts: Facts {
            local: Some("[::1]:5000".parse().unwrap()),
            remote: Some("[::1]:443".parse().unwrap()),
            quic: Some(QuicFacts {
                version: Some("1".into()),
                min_rtt: Some(Duration::from_micros(20_000)),
                log: Some(Box::new(log)),
                ..QuicFacts::default()
            }),
            tls: Some(TlsFacts { alpn: Some("h3".into()), ..TlsFacts::default() }),
            http: Some(HttpFacts::default()),
            ..Facts::default()
        },
        ..Connection::default()
    };
    connection.marks.set(Mark::HandshakeConfirmed, at(42_000));
    connection
}

/// Parses the log with the parser that quiche's viewers use.
fn opened(bytes: &[u8]) -> (qlog::QlogSeq, Vec<qlog::events::Event>) {
    let mut reader = QlogSeqReader::new(Box::new(bytes)).unwrap();
    let events = reader.by_ref().map(|event| match event {
        Read::Qlog(event) => event,
        Read::Json(event) => panic!("{} is not an event of the schema: {}", event.name, event.data),
    });
    let events = events.collect();
    (reader.qlog, events)
}

#[test]
fn a_viewers_parser_reads_all_events_with_their_values() {
    let trace = trace(&connection(), Some("http=3")).unwrap();
    assert_eq!(trace.original_connection_id.as_deref(), Some("0102"));
    let (file, events) = opened(&trace.bytes);
    assert_eq!(file.file_schema, qlog::QLOGFILESEQ_URI);
    assert_eq!(file.trace.event_schemas, [qlog::events::QUIC_URI]);
    let common = file.trace.common_fields.unwrap();
    assert_eq!(common.group_id.as_deref(), Some("0102"));
    let started = common.reference_time.wall_clock_time;
    assert_eq!(started.as_deref(), Some("2023-11-14T22:13:20.000000Z"));
    assert!(file.description.unwrap().contains("2 further packets were not recorded"));
    assert!(events.is_sorted_by(|a, b| a.time <= b.time));
    let of = |wanted: fn(&EventData) -> bool| events.iter().filter(|e| wanted(&e.data)).count();
    assert_eq!(of(|e| matches!(e, EventData::QuicConnectionStarted(_))), 1);
    assert_eq!(of(|e| matches!(e, EventData::QuicParametersSet(_))), 2);
    assert_eq!(of(|e| matches!(e, EventData::QuicVersionInformation(_))), 1);
    assert_eq!(of(|e| matches!(e, EventData::QuicAlpnInformation(_))), 1);
    assert_eq!(of(|e| matches!(e, EventData::QuicConnectionStateUpdated(_))), 1);
    assert_eq!(of(|e| matches!(e, EventData::QuicMetricsUpdated(_))), 1);
    assert_eq!(of(|e| matches!(e, EventData::QuicPacketSent(_))), 2);
    let received: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::QuicPacketReceived(packet) => Some((event.time, packet)),
            _ => None,
        })
        .collect();
    let [(_, retry), (time, initial)] = &received[..] else { panic!("{received:?}") };
    assert_eq!((&retry.header.packet_type, retry.header.packet_number), (&PacketType::Retry, None));
    assert_eq!(retry.frames, None);
    assert!((time - 21.5).abs() < 1e-9);
    assert_eq!(initial.header.packet_number, Some(3));
    assert_eq!(initial.raw.as_ref().unwrap().length, Some(1_200));
    let Some([Parsed::Ack { ack_delay, acked_ranges, .. }]) = initial.frames.as_deref() else {
        panic!("{initial:?}")
    };
    assert_eq!(*ack_delay, Some(0.025));
    let ranges = [AckRange::new(0, 3), AckRange::new(7, 7)];
    assert_eq!(acked_ranges.as_deref(), Some(&ranges[..]));
    let parameters = events.iter().find_map(|event| match &event.data {
        EventData::QuicParametersSet(set) if set.max_idle_timeout.is_some() => Some(set),
        _ => None,
    });
    let parameters = parameters.unwrap();
    assert_eq!(parameters.max_idle_timeout, Some(30_000));
    assert_eq!(parameters.disable_active_migration, Some(true));
}

#[test]
fn parameters_without_a_name_are_as_they_were_sent() {
    // RFC 9000 §A.1.
    let examples = [(37, "25"), (15_293, "7bbd"), (494_878_333, "9d7f3e7d")];
    for (value, bytes) in examples {
        assert_eq!(as_sent(value), bytes);
    }
    assert_eq!(as_sent(151_288_809_941_952_652), "c2197c5eff14e88c");
}

#[test]
fn no_secret_of_the_url_is_in_it() {
    let bytes = trace(&connection(), None).unwrap().bytes;
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("example.test"));
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn connections_without_packets_have_no_log() {
    let mut connection = connection();
    if let Some(quic) = &mut connection.facts.quic {
        quic.log = None;
    }
    assert_eq!(trace(&connection, None), None);
    assert_eq!(trace(&Connection::default(), None), None);
}

proptest! {
    /// Whatever frame a server sends, the parser accepts the packet as valid under the schema.
    #[test]
    fn any_frame_is_one_of_the_schema(
        kind in prop_oneof![0u64..0x40, 0u64..1 << 62],
        numbers in proptest::collection::vec(0u64..1 << 62, 0..4),
    ) {
        let mut connection = connection();
        let frame = QuicFrame::Other { kind, numbers, id: "0a0b".into() };
        let log = connection.facts.quic.as_mut().unwrap().log.as_mut().unwrap();
        log.packets = vec![packet_of(Direction::Received, 5, PacketKind::OneRtt, &[frame])];
        let (_, events) = opened(&trace(&connection, None).unwrap().bytes);
        let packets = events.iter().filter(|e| matches!(e.data, EventData::QuicPacketReceived(_)));
        prop_assert_eq!(packets.count(), 1);
    }
}
