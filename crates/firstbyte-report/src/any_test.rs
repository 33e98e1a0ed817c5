//! For any sample from any source, every view of it is text and does not panic.

use std::time::Duration;

use firstbyte_core::compare::Role;
use firstbyte_core::run::{Cell, Factor, Metric, Metrics, Row, Shortfall, Standing, VisitAnswer};
use firstbyte_core::stats::Interval;
use firstbyte_core::timeline::{
    Chunk, Clock, Connection, Direction, Flight, Mark, Offset, PhaseName, Sample, Stamp, TcpFacts,
};
use proptest::prelude::*;
use resvg::usvg::roxmltree::Document;

use super::study::{EffectView, Estimate, Sentence, Study, SummaryView, Verdict};
use super::write_out::{Format, Transfer};
use super::{Style, chart, csv, fixtures, flights, html, ndjson, study_table, table, waterfall};

fn any_offset() -> impl Strategy<Value = i64> {
    prop_oneof![-1_000i64..1_000, -1_000_000i64..3_000_000_000, any::<i64>()]
}

/// Marks in any order, before the origin or centuries later; failures at any point.
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
                chunks: chunks.into_iter().map(|ns| Chunk::new(stamp(ns), 1_000)).collect(),
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

    #[test]
    fn every_view_of_a_comparison_copes(
        rows in proptest::collection::vec(any_row(), 0..40),
        name in ".{0,60}",
        ends in proptest::collection::vec(any_ns(), 4),
        width in 0usize..200,
    ) {
        let cells: Vec<Cell> = ["a", "b", "b"]
            .into_iter()
            .map(|value| Cell {
                factors: vec![Factor {
                    axis: "variant".into(),
                    value: value.into(),
                    label: format!("{value}{name}"),
                }],
                ..Cell::default()
            })
            .collect();
        let estimate = |i: usize| Estimate {
            value: ends[i],
            interval: Some(Interval { low: ends[(i + 1) % 4], high: ends[(i + 2) % 4] }),
        };
        let effect = |base, variant, metric| EffectView {
            role: Role::Primary,
            base,
            variant,
            metric,
            pairs: 7,
            unpaired: 2,
            difference: estimate(0),
            relative: Some(ends[3]),
            hodges_lehmann: ends[1],
            p_values: Some([ends[0], ends[2]]),
            quantiles: vec![(0.5, estimate(1)), (0.9, estimate(2)), (0.99, estimate(3))],
            verdict: Verdict::Open,
        };
        let summary = |cell, metric| SummaryView {
            cell,
            metric,
            samples: 7,
            quantiles: vec![(0.5, estimate(0)), (0.99, estimate(1))],
            outliers: 1,
            autocorrelation: Some(ends[2]),
            notable: true,
        };
        let study = Study {
            title: &name,
            cells: &cells,
            rows: &rows,
            sentences: vec![Sentence { text: name.clone(), verdict: Verdict::Slower }],
            summaries: vec![summary(0, Metric::Total), summary(9, Metric::Wait)],
            effects: vec![effect(0, 1, Metric::Total), effect(8, 1, Metric::Ttfb), effect(1, 8, Metric::Setup)],
            missing: vec![name.clone()],
            ..Study::default()
        };
        let style = Style { color: false, width, unicode: true };
        let text = study_table::table(&study, &style);
        prop_assert!(!text.contains('\u{1b}'), "no control character gets through");
        let page = html::page(&study);
        prop_assert!(!page.contains("NaN"));
        for figure in chart::figures(&study) {
            let svg = figure.svg();
            prop_assert!(Document::parse(&svg).is_ok(), "{}", svg);
        }
    }
}

fn any_ns() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), -1e3..1e3f64, -3e8..3e8f64, -1e18..1e18f64]
}

/// Rounds in any order and far apart, nonexistent cells, times of centuries.
fn any_row() -> impl Strategy<Value = Row> {
    let time = || proptest::option::of(prop_oneof![0u64..1_000, 0u64..3_000_000_000, any::<u64>()]);
    let times = proptest::collection::vec(time(), Metric::ALL.len());
    let round = prop_oneof![0u32..20, any::<u32>()];
    (0u16..5, round, any::<bool>(), 0u8..4, times).prop_map(|(cell, round, warmup, what, times)| {
        let mut metrics = Metrics::default();
        for (metric, ns) in Metric::ALL.into_iter().zip(times) {
            if let Some(ns) = ns {
                metrics.set_ns(metric, ns);
            }
        }
        let standing = match what {
            0 => Standing::Failed,
            1 => Standing::Unproven(Shortfall::TooEarly),
            _ => Standing::Proven,
        };
        let status = [None, Some(200), Some(429)][usize::from(what) % 3];
        let answer = VisitAnswer::new(status, metrics.get(Metric::Send));
        Row {
            cell,
            round,
            warmup,
            standing,
            started_unix_ns: 0,
            lateness_ns: 0,
            stands_for_ns: None,
            metrics,
            answer,
        }
    })
}
