//! Any observation is read back as it was written.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use crate::document::run::{LineKind, kind, row, sample_line, taken};
use crate::document::{FactTable, Interner};
use crate::run::{Shortfall, Standing, Taken};
use crate::timeline::*;
use crate::wire::quic::PacketKind;

fn any_offset() -> impl Strategy<Value = Offset> {
    prop_oneof![0i64..3_000_000_000, any::<i64>()].prop_map(Offset::from_nanos)
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![0u64..500_000_000, any::<u64>()].prop_map(Duration::from_nanos)
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let clock = prop_oneof![
        Just(Clock::Kernel),
        Just(Clock::KernelDerived),
        Just(Clock::User),
        Just(Clock::Simulated),
        any::<u32>().prop_map(|resolution_ns| Clock::Reported { resolution_ns }),
    ];
    (any_offset(), clock).prop_map(|(at, clock)| Stamp { at, clock })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z/:.0-9]{0,12}", ".{0,8}", Just("\"\\\n\u{0}é𝄞".to_owned())]
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from)
}

fn any_marks() -> impl Strategy<Value = Marks> {
    vec(of(any_stamp()), Mark::ALL.len()).prop_map(|stamps| {
        let mut marks = Marks::default();
        for (mark, stamp) in Mark::ALL.into_iter().zip(stamps) {
            if let Some(stamp) = stamp {
                marks.set(mark, stamp);
            }
        }
        marks
    })
}

fn any_lookup() -> impl Strategy<Value = Lookup> {
    let kinds = vec![RecordType::A, RecordType::Aaaa, RecordType::Any];
    let kind = prop::sample::select(kinds);
    let addresses = vec(any::<IpAddr>(), 0..3);
    let tries = vec(any_lookup_try(), 0..3);
    (kind, any_offset(), of(any_offset()), addresses, of(any_text()), tries).prop_map(
        |(record_type, start, end, addresses, error, tries)| Lookup {
            record_type,
            start,
            end,
            addresses,
            error,
            tries,
        },
    )
}

fn any_lookup_try() -> impl Strategy<Value = LookupTry> {
    let transport = prop::sample::select(vec![DnsTransport::Udp, DnsTransport::Tcp]);
    (any_address(), transport, any_offset(), of(any_offset()), of(any_text())).prop_map(
        |(server, transport, start, end, error)| LookupTry { server, transport, start, end, error },
    )
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let outcome = prop_oneof![
        Just(AttemptOutcome::Won),
        Just(AttemptOutcome::Lost),
        any_text().prop_map(|error| AttemptOutcome::Failed { error }),
    ];
    (any_address(), any_offset(), of(any_offset()), outcome)
        .prop_map(|(remote, start, end, outcome)| Attempt { remote, start, end, outcome })
}

fn any_flight() -> impl Strategy<Value = Flight> {
    let direction = prop::sample::select(vec![Direction::Sent, Direction::Received]);
    let chunk = (any_stamp(), 0u64..1 << 48, of(any_offset()), of(any::<u32>()));
    (direction, vec(chunk, 0..4), vec(any_text(), 0..3)).prop_map(
        |(direction, chunks, messages)| {
            let chunk = |(stamp, bytes, then, segments)| Chunk {
                segments,
                ..Chunk::new(stamp, bytes).acknowledged_or_read_at(direction, then)
            };
            Flight { direction, chunks: chunks.into_iter().map(chunk).collect(), messages }
        },
    )
}

fn any_tcp() -> impl Strategy<Value = TcpFacts> {
    let text = of(any_text());
    (of(any_duration()), of(any_duration()), any::<Option<u32>>(), any::<Option<u32>>(), text)
        .prop_map(|(syn_rtt, min_rtt, retransmits, send_mss, congestion_control)| TcpFacts {
            syn_rtt,
            min_rtt,
            retransmits,
            send_mss,
            receive_mss: retransmits,
            out_of_order: send_mss,
            receive_window_limited: syn_rtt,
            congestion_control,
            syn_departure_uncertainty: min_rtt,
        })
}

fn any_quic() -> impl Strategy<Value = QuicFacts> {
    (of(any_text()), of(any_duration()), any::<[u32; 2]>(), any::<Option<u64>>(), any::<bool>())
        .prop_map(|(version, min_rtt, [sent, received], lost_packets, retry)| QuicFacts {
            congestion_control: version.clone(),
            version,
            amplification_stall: min_rtt,
            min_rtt,
            datagrams_sent: (sent % 5 > 0).then_some(sent),
            datagrams_received: (received % 5 > 0).then_some(received),
            bytes_before_validation: lost_packets,
            lost_packets,
            retry,
            datagrams: vec![QuicDatagram {
                direction: if retry { Direction::Sent } else { Direction::Received },
                at: Offset::from_nanos(i64::from(sent)),
                new: retry,
                elicits: !retry,
                missing_since: min_rtt.map(|_| Offset::from_nanos(i64::from(received))),
                skipped: sent,
                acknowledged: min_rtt.map(|_| Offset::from_nanos(i64::from(received))),
                acknowledgement_delay: min_rtt,
            }],
            log: None,
        })
        .prop_flat_map(|quic| {
            of(any_quic_log()).prop_map(move |log| QuicFacts { log, ..quic.clone() })
        })
}

fn any_quic_log() -> impl Strategy<Value = Box<QuicLog>> {
    let number = || 0u64..1 << 62;
    let ranges = vec((number(), number()), 1..3);
    let frame = prop_oneof![
        number().prop_map(QuicFrame::Padding),
        Just(QuicFrame::Ping),
        (any_duration(), ranges).prop_map(|(delay, ranges)| QuicFrame::Ack { delay, ranges }),
        (number(), number()).prop_map(|(offset, bytes)| QuicFrame::Crypto { offset, bytes }),
        (number(), number(), number(), any::<bool>())
            .prop_map(|(id, offset, bytes, fin)| QuicFrame::Stream { id, offset, bytes, fin }),
        (number(), vec(number(), 0..3)).prop_map(|(kind, numbers)| QuicFrame::Other {
            kind,
            numbers,
            id: "0a".into()
        }),
    ];
    let kinds = [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Retry, PacketKind::OneRtt];
    let opened =
        (number(), vec(frame, 0..3)).prop_map(|(number, frames)| OpenedPacket { number, frames });
    let packet = (any::<bool>(), any_stamp(), prop::sample::select(kinds.to_vec()), of(opened))
        .prop_map(|(sent, stamp, kind, opened)| QuicPacket {
            direction: if sent { Direction::Sent } else { Direction::Received },
            stamp,
            datagram: u32::from(sent),
            kind,
            bytes: 1_200,
            opened,
        });
    let parameter = (number(), number()).prop_map(|(id, value)| TransportParameter { id, value });
    (of(any::<u64>()), vec(parameter, 0..3), vec(packet, 0..3), any::<u32>(), any_duration())
        .prop_map(|(id, parameters, packets, left_out, rtt)| {
            Box::new(QuicLog {
                original_connection_id: id.map(|id| format!("{id:016x}")),
                server_parameters: parameters.iter().rev().copied().collect(),
                client_parameters: parameters,
                server_parameters_at: id.map(|_| Offset::from_nanos(i64::from(left_out))),
                packets,
                left_out: left_out.into(),
                recovery: vec![QuicRecovery {
                    at: Offset::from_nanos(i64::from(left_out)),
                    smoothed_rtt: rtt,
                    congestion_window: 12_000,
                }],
            })
        })
}

fn any_tls() -> impl Strategy<Value = TlsFacts> {
    let handshakes = [Handshake::Full, Handshake::FullWithHelloRetryRequest, Handshake::Resumed];
    let mechanisms = [SessionMechanism::SessionId, SessionMechanism::Ticket, SessionMechanism::Psk];
    let early = (any::<Option<u64>>(), any::<Option<bool>>())
        .prop_map(|(bytes, accepted)| EarlyData { bytes_before_server_hello: bytes, accepted });
    let certificate = (any_text(), any::<Option<i64>>(), 0u64..1 << 48).prop_map(
        |(subject, not_after_unix, der_bytes)| Certificate {
            issuer: format!("CA of {subject}"),
            subject,
            key: "RSA 2048".into(),
            not_after_unix,
            der_bytes,
        },
    );
    (
        of(any_text()),
        of(prop::sample::select(handshakes.to_vec())),
        of(prop::sample::select(mechanisms.to_vec())),
        of(early),
        vec(certificate, 0..3),
        any::<Option<bool>>(),
        any::<Option<u32>>(),
    )
        .prop_map(
            |(text, handshake, session_offered, early_data, certificates, verified, n)| TlsFacts {
                version: text.clone(),
                cipher_suite: text.clone(),
                group: text.clone(),
                alpn: text,
                handshake,
                session_offered,
                early_data_allowed: verified,
                early_data,
                certificates,
                verified,
                tickets_received: n,
            },
        )
}

fn any_http() -> impl Strategy<Value = HttpFacts> {
    let header = (any_text(), any_text()).prop_map(|(name, value)| Header { name, value });
    (any_text(), of(any_text()), any::<Option<u16>>(), vec(header, 0..4), any::<[Option<u64>; 4]>())
        .prop_map(|(method, version, status, headers, [a, b, c, d])| HttpFacts {
            method,
            version,
            status,
            headers,
            request_bytes: a,
            upload_bytes: b,
            upload_sent_bytes: d,
            header_bytes: c,
            body_bytes: d,
            decoded_bytes: c,
            undecoded_bytes: a,
            head_took: b.map(Duration::from_nanos),
            may_be_cut_short: d.is_some(),
        })
}

fn any_client() -> impl Strategy<Value = ClientFacts> {
    (any_text(), of(any_text()), of(any_text()))
        .prop_map(|(name, version, tls_library)| ClientFacts { name, version, tls_library })
}

fn any_proxy() -> impl Strategy<Value = ProxyFacts> {
    let kinds = [ProxyKind::Http, ProxyKind::Https, ProxyKind::Socks4, ProxyKind::Socks5h];
    (prop::sample::select(kinds.to_vec()), any_text(), any::<bool>(), of(any::<u16>())).prop_map(
        |(kind, authority, tunnel, status)| ProxyFacts { kind, authority, tunnel, status },
    )
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let addresses = (of(any_address()), of(any_address()), any::<bool>());
    let ends = (addresses, of(any_client()), of(any_proxy()));
    (ends, of(any_tcp()), of(any_quic()), of(any_tls()), of(any_http()), any_panel()).prop_map(
        |(((remote, local, reused), client, proxy), tcp, quic, tls, http, panel)| Facts {
            client,
            remote,
            local,
            reused,
            proxy,
            tcp,
            quic,
            tls,
            http,
            processor: panel
                .first()
                .map(|time| ProcessorTime { user: time.took, system: Duration::from_nanos(3) }),
            panel,
        },
    )
}

fn any_panel() -> impl Strategy<Value = Vec<PanelTime>> {
    let time = (any_text(), any::<u32>());
    let time =
        time.prop_map(|(label, ns)| PanelTime { label, took: Duration::from_nanos(ns.into()) });
    prop::collection::vec(time, 0..3)
}

/// Failures as they are after reading: those of all other causes are converted to these.
fn any_failure() -> impl Strategy<Value = Failure> {
    let phase = prop::sample::select(PhaseName::ALL.to_vec());
    let fault = prop::sample::select(Fault::ALL.to_vec());
    let failure_type = prop::sample::select(FailureType::ALL.to_vec());
    (phase, fault, failure_type, any_text(), of(any_text()), of(any_offset())).prop_map(
        |(phase, fault, failure_type, message, advice, at)| {
            let name = "some-cause".into();
            let cause = Cause::Recorded { name, failure_type, fault, message, advice };
            Failure { phase, cause, at }
        },
    )
}

fn any_open_end() -> impl Strategy<Value = OpenEnd> {
    let phase = prop::sample::select(PhaseName::ALL.to_vec());
    (phase, of(any_offset())).prop_map(|(phase, at)| OpenEnd { phase, at })
}

fn any_connection() -> impl Strategy<Value = Connection> {
    (
        any_text(),
        any::<Option<u64>>(),
        any_marks(),
        vec(any_lookup(), 0..3),
        vec(any_attempt(), 0..3),
        vec(any_flight(), 0..4),
        // On the heap: the stack of a test is small.
        any_facts().boxed(),
        of(any_failure()).boxed(),
        of(any_open_end()),
    )
        .prop_map(
            |(
                url,
                started_unix_ns,
                marks,
                lookups,
                attempts,
                flights,
                facts,
                failure,
                open_end,
            )| {
                Connection {
                    url,
                    started_unix_ns,
                    marks,
                    lookups,
                    attempts,
                    flights,
                    facts,
                    failure,
                    open_end,
                }
            },
        )
}

fn any_requests() -> impl Strategy<Value = Requests> {
    let parallel = prop_oneof![
        (1..=Parallel::MOST_CONNECTIONS).prop_map(Parallel::Connections),
        Just(Parallel::Http2),
        Just(Parallel::Http3),
    ];
    let times = || of(any_stamp());
    let exchange = (
        any::<u16>(),
        (times(), times(), times(), times()),
        of(any::<u16>()),
        of(any::<u64>()),
        of(any_failure()),
    )
        .prop_map(|(connection, times, status, body_bytes, failure)| {
            let (request_start, request_end, response_start, response_end) = times;
            Exchange {
                connection,
                request_start,
                request_end,
                response_start,
                response_end,
                status,
                body_bytes,
                failure,
            }
        });
    (parallel, any::<u32>(), vec(any_connection(), 0..2), vec(exchange, 0..3)).prop_map(
        |(parallel, asked, further, exchanges)| Requests { parallel, asked, further, exchanges },
    )
}

pub(crate) fn any_taken() -> impl Strategy<Value = Taken> {
    let standing = prop_oneof![
        Just(Standing::Proven),
        Just(Standing::Failed),
        prop::sample::select(Shortfall::ALL.to_vec()).prop_map(Standing::Unproven),
    ];
    let sample = (
        any::<u32>(),
        any::<bool>(),
        any_text(),
        vec(any_connection(), 0..2),
        any_connection(),
        of(any_requests().prop_map(Box::new)),
    )
        .prop_map(|(sequence, warmup, requested_url, redirects, connection, requests)| Sample {
            sequence,
            warmup,
            requested_url,
            redirects,
            connection,
            requests,
        });
    (0u16..2, standing, any_duration(), of(any_duration()), sample).prop_map(
        |(cell, standing, lateness, stands_for, sample)| Taken {
            cell,
            standing,
            lateness,
            stands_for,
            sample,
        },
    )
}

const URLS: [&str; 2] = ["https://a/", ""];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn what_is_written_is_read(list in vec(any_taken(), 1..4)) {
        let mut interner = Interner::default();
        let mut out = Vec::new();
        for taken in &list {
            let url = URLS[usize::from(taken.cell)];
            sample_line(taken, url, &mut interner, &mut out).unwrap();
            interner.stored();
        }
        let urls = URLS.map(String::from);
        let mut facts = FactTable::default();
        let mut read = Vec::new();
        for line in out.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
            match kind(line) {
                LineKind::Fact => facts.take(line).unwrap(),
                LineKind::Sample => {
                    let whole = taken(line, &urls, &facts).unwrap();
                    prop_assert_eq!(row(line).unwrap(), whole.row());
                    // Another program may rewrite the line in another order.
                    let mut value: serde_json::Value = serde_json::from_slice(line).unwrap();
                    value.sort_all_objects();
                    let anew = serde_json::to_vec_pretty(&value).unwrap();
                    prop_assert_eq!(kind(&anew), LineKind::Sample);
                    prop_assert_eq!(row(&anew).unwrap(), whole.row());
                    prop_assert_eq!(&taken(&anew, &urls, &facts).unwrap(), &whole);
                    read.push(whole);
                }
                LineKind::Other => prop_assert!(false),
            }
        }
        prop_assert_eq!(read, list);
    }

    #[test]
    fn no_line_is_too_strange_to_be_refused(line in ".{0,80}", cut in 0usize..300) {
        let _ = (kind(line.as_bytes()), row(line.as_bytes()));
        let mut out = Vec::new();
        let taken = Taken { stands_for: None,
            cell: 0,
            standing: Standing::Proven,
            lateness: Duration::ZERO,
            sample: Sample::default(),
        };
        sample_line(&taken, "", &mut Interner::default(), &mut out).unwrap();
        let _ = row(&out[..cut.min(out.len())]);
    }
}

fn header_value(sample: &Taken, interner: &mut Interner) -> String {
    let mut out = Vec::new();
    sample_line(sample, "", interner, &mut out).unwrap();
    interner.stored();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_repeats_is_stored_once_and_what_varies_is_not_remembered() {
    let mut interner = Interner::default();
    let mut sample = Sample::default();
    let mut lengths = Vec::new();
    for n in 0..40 {
        let header = |name: &str, value: String| Header { name: name.into(), value };
        sample.connection.facts.http = Some(HttpFacts {
            headers: vec![header("server", "a".repeat(500)), header("date", format!("day {n}"))],
            ..HttpFacts::default()
        });
        let taken = Taken {
            stands_for: None,
            cell: 0,
            standing: Standing::Proven,
            lateness: Duration::ZERO,
            sample: sample.clone(),
        };
        lengths.push(header_value(&taken, &mut interner).lines().count());
    }
    // Both are new; then seven more dates are new; after that, dates are stored inline.
    assert_eq!(lengths[0], 3);
    assert!(lengths[1..8].iter().all(|lines| *lines == 2), "{lengths:?}");
    assert!(lengths[8..].iter().all(|lines| *lines == 1), "{lengths:?}");
}

#[test]
fn a_failure_is_told_in_the_same_words() {
    let mut sample = Sample::default();
    sample.connection.failure = Some(Failure {
        phase: PhaseName::Tls,
        cause: Cause::CertificateExpired { not_after: Some("2026-10-01".into()), authority: None },
        at: Some(Offset::from_nanos(7)),
    });
    let before = sample.connection.failure.clone().unwrap();
    let line = header_value(
        &Taken {
            stands_for: None,
            cell: 0,
            standing: Standing::Failed,
            lateness: Duration::ZERO,
            sample,
        },
        &mut Interner::default(),
    );
    let read = taken(line.trim_end().as_bytes(), &[], &FactTable::default()).unwrap();
    let after = read.sample.connection.failure.unwrap();
    assert_eq!(after.to_string(), before.to_string());
    assert_eq!(after.failure_type(), FailureType::TlsCertDateInvalid);
    assert_eq!(after.cause.name(), before.cause.name());
    assert_eq!((after.phase, after.at), (before.phase, before.at));
}

#[test]
fn a_fact_that_is_missing_is_named() {
    let line = br#"{"variant":0,"round":0,"warmup":false,"outcome":"verified","started_unix_ns":1,"lateness_ns":0,"metrics_ns":{},"sample":{"connection":{"tls":7}}}"#;
    let error = taken(line, &[], &FactTable::default()).unwrap_err();
    assert_eq!(error.to_string(), "fact 7 is used before it is defined");
}

#[test]
fn a_clock_that_is_not_known_is_an_error_that_says_so() {
    let read = |clock: &str| {
        let line = format!(
            r#"{{"variant":0,"round":0,"warmup":false,"outcome":"verified","started_unix_ns":null,"lateness_ns":0,"metrics_ns":{{}},"sample":{{"connection":{{"marks":{{"connect_start":[7,"{clock}"]}}}}}}}}"#
        );
        let read = taken(line.as_bytes(), &[], &FactTable::default());
        read.map(|taken| taken.sample.connection.marks.stamp(Mark::ConnectStart).unwrap().clock)
    };
    assert_eq!(read("u").unwrap(), Clock::User);
    assert_eq!(read("r100000").unwrap(), Clock::Reported { resolution_ns: 100_000 });
    for unknown in ["x", "r", "r-1", "r4294967296", "", "kernel"] {
        let said = read(unknown).unwrap_err().to_string();
        assert!(said.contains(&format!("unknown clock {unknown:?}")), "{said}");
    }
}
