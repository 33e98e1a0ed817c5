//! Whatever a source puts into a sample, every view of it is text and not a panic.

use std::time::Duration;

use firstbyte_core::timeline::{
    Chunk, Clock, Connection, Direction, Flight, Mark, Offset, PhaseName, Sample, Stamp, TcpFacts,
};
use proptest::prelude::*;

use super::write_out::{Format, Transfer};
use super::{Style, csv, fixtures, flights, ndjson, table, waterfall};

fn any_offset() -> impl Strategy<Value = i64> {
    prop_oneof![-1_000i64..1_000, -1_000_000i64..3_000_000_000, any::<i64>()]
}

/// Marks in any order, before the origin, centuries later; failures anywhere.
fn any_sample() -> impl Strategy<Value = Sample> {
    let marks = proptest::collection::vec(proptest::option::of(any_offset()), Mark::ALL.len());
    let runs = proptest::collection::vec(
        (any::<bool>(), proptest::collection::vec(any_offset(), 1..4)),
        0..6,
    );
    let rtt = proptest::option::of(prop_oneof![0u64..1_000, 0u64..500_000_000, any::<u64>()]);
    let failure = proptest::option::of((0usize..6, proptest::option::of(any_offset())));
    (marks, runs, rtt, failure, any::<bool>()).prop_map(|(marks, runs, rtt, failure, warmup)| {
        let stamp = |ns| Stamp { at: Offset::from_nanos(ns), clock: Clock::User };
        let mut c = Connection { url: "http://a/".into(), ..Connection::default() };
        for (mark, ns) in Mark::ALL.into_iter().zip(marks) {
            if let Some(ns) = ns {
                c.marks.set(mark, stamp(ns));
            }
        }
        c.flights = runs
            .into_iter()
            .map(|(sent, chunks)| Flight {
                direction: if sent { Direction::Sent } else { Direction::Received },
                chunks: chunks
                    .into_iter()
                    .map(|ns| Chunk { stamp: stamp(ns), bytes: 1_000, acknowledged: None })
                    .collect(),
                messages: vec!["{\u{1b}[2J}".into()],
            })
            .collect();
        c.facts.tcp =
            Some(TcpFacts { syn_rtt: rtt.map(Duration::from_nanos), ..TcpFacts::default() });
        c.failure = failure.map(|(phase, at)| firstbyte_core::timeline::Failure {
            phase: PhaseName::ALL[phase],
            at: at.map(Offset::from_nanos),
            cause: fixtures::expired_certificate().connection.failure.unwrap().cause,
        });
        Sample { warmup, connection: c, ..Sample::default() }
    })
}

proptest! {
    #[test]
    fn every_view_copes(sample in any_sample(), width in 0usize..300, unicode: bool) {
        let style = Style { color: false, width, unicode };
        let samples = [sample.clone(), sample.clone()];
        for text in [
            waterfall::waterfall(&sample, &style),
            flights::flights(&sample.connection, &style),
            table::table(&samples, &style),
        ] {
            prop_assert!(!text.contains('\u{1b}'), "no control character gets through");
            prop_assert!(unicode || text.is_ascii());
        }
        let mut out = Vec::new();
        ndjson::sample(&sample, &mut out).unwrap();
        csv::samples(&samples, &mut out).unwrap();
        Format::parse("%{json}%time{%c}").render(&sample, &Transfer::default());
    }

    #[test]
    fn any_format_parses(format in "[%{}a-z_\\\\>.]{0,40}", text: String) {
        Format::parse(&format).render(&fixtures::plain_http(), &Transfer::default());
        let format = Format::parse(&text.replace(['%', '\\'], ""));
        let pieces = format.render(&fixtures::plain_http(), &Transfer::default());
        prop_assert_eq!(&pieces[0].text, &text.replace(['%', '\\'], ""));
    }
}
