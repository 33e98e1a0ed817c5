use proptest::prelude::*;

use super::*;
use crate::run::{Factor, Metrics, Row, Shortfall, Standing, VisitAnswer};
use crate::stats::{FEWEST_ROUNDS, Outlook};

fn cell(factors: &[(&str, &str, &str)]) -> Cell {
    let factor = |(axis, value, label): &(&str, &str, &str)| Factor {
        axis: (*axis).into(),
        value: (*value).into(),
        label: (*label).into(),
    };
    Cell { factors: factors.iter().map(factor).collect(), ..Cell::default() }
}

const TLS12: (&str, &str, &str) = ("tls", "1.2", "TLS 1.2");
const TLS13: (&str, &str, &str) = ("tls", "1.3", "TLS 1.3");
const FULL: (&str, &str, &str) = ("session", "full", "full");
const ZERO_RTT: (&str, &str, &str) = ("session", "0rtt", "0-RTT");

/// tls=1.2,1.3 × edge=sydney,tokyo,paris × family=4,6, the last axis fastest.
fn twelve_cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for tls in [TLS12, TLS13] {
        for edge in [("sydney", "Sydney"), ("tokyo", "Tokyo"), ("paris", "Paris")] {
            for family in [("4", "IPv4"), ("6", "IPv6")] {
                let edge = ("edge", edge.0, edge.1);
                cells.push(cell(&[tls, edge, ("family", family.0, family.1)]));
            }
        }
    }
    cells
}

fn row(cell: u16, round: u32, tls_ns: u64) -> Row {
    let mut metrics = Metrics::default();
    metrics.set_ns(Metric::Tls, tls_ns);
    Row {
        cell,
        round,
        warmup: false,
        standing: Standing::Proven,
        started_unix_ns: 0,
        lateness_ns: 0,
        stands_for_ns: None,
        metrics,
        answer: VisitAnswer::default(),
    }
}

/// Rounds of two cells around 20 ms; the second cell's values are `ratio` times the first's; `noise` is relative.
fn two_cells(rounds: u32, ratio: f64, noise: f64) -> Vec<Row> {
    let mut random = fastrand::Rng::with_seed(21);
    let mut value = |ratio: f64| {
        let noise = noise * (random.f64() + random.f64() + random.f64() - 1.5);
        (20e6 * ratio * (1.0 + noise)) as u64
    };
    (0..rounds).flat_map(|round| [row(0, round, value(1.0)), row(1, round, value(ratio))]).collect()
}

fn tls_pair() -> Vec<Cell> {
    let here = [("edge", "sydney", "Sydney"), ("family", "4", "IPv4")];
    vec![cell(&[TLS12, here[0], here[1]]), cell(&[TLS13, here[0], here[1]])]
}

/// The comparison of two cells, and the sentence with the verdict on the TLS handshake.
fn verdict(rows: &[Row]) -> (Comparison, String) {
    // The sentence names Sydney and IPv4 because there are others.
    let mut cells = tls_pair();
    cells.push(cell(&[TLS12, ("edge", "tokyo", "Tokyo"), ("family", "6", "IPv6")]));
    let axes = axes_of(&cells);
    let comparison = compare(&cells, &axes, &Table::from_rows(3, rows), &Settings::default());
    let pair = &comparison.pairs[0];
    let words = sentence(&cells, &axes, &pair.pair, pair.metric(Metric::Tls).unwrap());
    (comparison, words)
}

#[test]
fn bases_differ_in_one_axis_and_have_its_first_value() {
    let cells = twelve_cells();
    let design = Design::new(&cells, &axes_of(&cells));
    let along = |axis: usize| design.pairs.iter().filter(move |p| p.axis == Some(axis));
    assert_eq!((along(0).count(), along(1).count(), along(2).count()), (6, 8, 6));
    assert!(along(0).all(|p| p.role == Role::Primary && p.variant == p.base + 6));
    assert!(along(1).chain(along(2)).all(|p| p.role == Role::Secondary));
    assert!(along(1).all(|p| cells[p.base].factors[1].label == "Sydney"));
    assert!(along(2).all(|p| p.variant == p.base + 1));
    assert!(design.base_missing.is_empty());
}

#[test]
fn an_axis_of_one_value_is_not_the_first() {
    let mut cells = tls_pair();
    for cell in &mut cells {
        cell.factors.rotate_left(1);
    }
    let design = Design::new(&cells, &axes_of(&cells));
    assert_eq!(design.pairs.len(), 1);
    assert_eq!(design.pairs[0].role, Role::Primary);
}

#[test]
fn a_base_that_was_left_out_is_named_and_none_is_guessed() {
    // 0-RTT needs TLS 1.3, so the cell "TLS 1.2, 0-RTT" was never created.
    let cells = [cell(&[TLS12, FULL]), cell(&[TLS13, FULL]), cell(&[TLS13, ZERO_RTT])];
    let design = Design::new(&cells, &axes_of(&cells));
    let ends: Vec<(usize, usize, Role)> =
        design.pairs.iter().map(|p| (p.base, p.variant, p.role)).collect();
    assert_eq!(ends, [(0, 1, Role::Primary), (1, 2, Role::Secondary)]);
    assert_eq!(
        design.base_missing,
        [BaseMissing { cell: 2, axis: 0, base: "TLS 1.2, 0-RTT".into() }]
    );
    assert_eq!(
        base_missing_sentence(&cells, &axes_of(&cells), &design.base_missing[0]),
        "TLS 1.3, 0-RTT has no baseline along tls: TLS 1.2, 0-RTT was not measured"
    );
}

/// Left-out cells can reverse the order of appearance; the given order counts.
#[test]
fn the_first_value_is_the_one_given_first() {
    let cells = [cell(&[TLS12, FULL]), cell(&[TLS13, ZERO_RTT]), cell(&[TLS13, FULL])];
    let axes = [
        Axis { name: "tls".into(), values: vec!["1.2".into(), "1.3".into()] },
        Axis { name: "session".into(), values: vec!["0rtt".into(), "full".into()] },
    ];
    let design = Design::new(&cells, &axes);
    let along_session = design.pairs.iter().find(|p| p.axis == Some(1)).unwrap();
    assert_eq!((along_session.base, along_session.variant), (1, 2));
    assert!(design.base_missing.iter().any(|m| m.cell == 0 && m.base == "TLS 1.2, 0-RTT"));
}

#[test]
fn only_proven_rows_count_and_the_others_are_counted() {
    let mut rows = two_cells(40, 0.5, 0.01);
    rows[0].warmup = true;
    rows[1].warmup = true;
    rows[2].standing = Standing::Failed;
    rows[4].standing = Standing::Unproven(Shortfall::Resumed);
    rows[6].standing = Standing::Unproven(Shortfall::NotResumed);
    rows[8].standing = Standing::Unproven(Shortfall::Resumed);
    // Rows that do not count may contain anything.
    for row in &mut rows[..10] {
        row.metrics.set_ns(Metric::Tls, 1);
    }
    let (comparison, _) = verdict(&rows);
    let counts = &comparison.cells[0].counts;
    assert_eq!((counts.asked, counts.proven, counts.failed, counts.warmup), (39, 35, 1, 1));
    assert_eq!(counts.unproven, [(Shortfall::NotResumed, 1), (Shortfall::Resumed, 2)]);
    assert_eq!(comparison.cells[1].counts.proven, 39);
    assert_eq!((comparison.pairs[0].rounds, comparison.pairs[0].unpaired), (35, 4));
    assert_eq!(comparison.pairs[0].metric(Metric::Tls).unwrap().effect.rounds, 35);
    assert_eq!(comparison.cells[0].metric(Metric::Tls).unwrap().n, 35);
    assert_eq!(comparison.cells[0].metric(Metric::Quic), None);
}

#[test]
fn rows_pair_by_round_whatever_their_order() {
    let rows = two_cells(60, 0.9, 0.02);
    let mut other = rows.clone();
    fastrand::Rng::with_seed(2).shuffle(&mut other);
    // A duplicate round counts once.
    other.push(row(0, 3, 77));
    let (ordered, shuffled) = (Table::from_rows(2, &rows), Table::from_rows(2, &other));
    assert_eq!(ordered.paired(0, 1, Metric::Tls), shuffled.paired(0, 1, Metric::Tls));
}

#[test]
fn a_metric_that_appears_late_pairs_with_its_rounds() {
    let mut rows = two_cells(6, 0.9, 0.02);
    for row in &mut rows[6..] {
        row.metrics.set_ns(Metric::Wait, u64::from(row.round));
    }
    let (base, variant) = Table::from_rows(2, &rows).paired(0, 1, Metric::Wait);
    assert_eq!((base, variant), (vec![3.0, 4.0, 5.0], vec![3.0, 4.0, 5.0]));
}

#[test]
fn faster_and_slower_are_said_in_words() {
    let (comparison, words) = verdict(&two_cells(200, 0.504, 0.03));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert_eq!(found.verdict, Verdict::Faster);
    assert_eq!(
        words,
        "Sydney, IPv4: TLS 1.3 cut the median TLS handshake time by 49.7 % (95 % interval 49.4 to \
         49.9 %)"
    );
    let (_, words) = verdict(&two_cells(200, 1.3, 0.1));
    assert_eq!(
        words,
        "Sydney, IPv4: TLS 1.3 raised the median TLS handshake time by 29 % (95 % interval 28 to 32 %)"
    );
}

#[test]
fn no_difference_and_open_are_told_apart() {
    let (comparison, words) = verdict(&two_cells(400, 1.0, 0.01));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert!(matches!(found.verdict, Verdict::NoDifference { below_floor: false, .. }));
    assert_eq!(
        words,
        "Sydney, IPv4: TLS 1.3 changed the median TLS handshake time by less than 0.2 % (95 % interval \
         −0.1 to +0.1 %)"
    );
    let (comparison, words) = verdict(&two_cells(60, 0.99, 0.08));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert!(matches!(found.verdict, Verdict::Open { .. }), "{found:?}");
    assert_eq!(
        words,
        "Sydney, IPv4: undecided whether TLS 1.3 changed the median TLS handshake time: between 5 % \
         faster and 0.3 % slower; about 17 more rounds would settle it"
    );
}

#[test]
fn differences_the_clock_could_make_are_none() {
    let rows: Vec<Row> = (0..100)
        .flat_map(|r| {
            [row(0, r, 100_000 + u64::from(r % 5)), row(1, r, 105_000 + u64::from(r % 3))]
        })
        .collect();
    let (comparison, words) = verdict(&rows);
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert!(found.estimate().interval.unwrap().excludes_zero());
    assert!(matches!(found.verdict, Verdict::NoDifference { below_floor: true, .. }));
    assert!(words.contains("differs by less than the clock can measure"), "{words}");
}

/// The rows as a browser reads them, in steps of a millisecond.
fn reported(rows: &[Row]) -> Vec<Row> {
    let read = |row: &Row| {
        let mut metrics = row.metrics;
        metrics.set_ns(Metric::Tls, row.metric(Metric::Tls).unwrap() / 1_000_000 * 1_000_000);
        metrics.resolution_ns = 1_000_000;
        Row { metrics, ..*row }
    };
    rows.iter().map(read).collect()
}

#[test]
fn what_a_coarse_clock_says_is_known_up_to_its_steps() {
    // 8 ms of 20 are more than two steps; the interval includes the steps.
    let (comparison, _) = verdict(&reported(&two_cells(100, 0.6, 0.01)));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert_eq!(found.verdict, Verdict::Faster);
    assert!(found.effect.difference.interval.unwrap().half_width() >= 2e6);
    let summary = comparison.cells[0].metric(Metric::Tls).unwrap();
    assert!(summary.median.interval.unwrap().half_width() >= 1e6, "{summary:?}");
    // Identical readings do not prove identical times.
    let same: Vec<Row> =
        (0..100).flat_map(|r| [row(0, r, 20_400_000), row(1, r, 20_600_000)]).collect();
    let (comparison, words) = verdict(&reported(&same));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert!(matches!(found.verdict, Verdict::NoDifference { below_floor: true, .. }), "{found:?}");
    assert!(words.contains("differs by less than the clock can measure"), "{words}");
    // More rounds would not settle a difference smaller than the steps.
    let (comparison, words) = verdict(&reported(&two_cells(400, 0.95, 0.05)));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert!(
        matches!(found.verdict, Verdict::Open { outlook: Outlook::Narrows { margin } } if margin > 0.1),
        "{found:?}"
    );
    assert!(words.contains("even 100,000 rounds could not exclude"), "{words}");
}

#[test]
fn too_few_rounds_have_no_verdict() {
    let few = FEWEST_ROUNDS as u32 - 1;
    let (comparison, words) = verdict(&two_cells(few, 0.5, 0.01));
    let found = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert_eq!(found.verdict, Verdict::TooFewRounds { needed: FEWEST_ROUNDS });
    assert_eq!(words, "Sydney, IPv4: TLS 1.3: the median TLS handshake time needs 20 rounds");
    assert_eq!(found.p_adjusted, None);
}

#[test]
fn a_quantile_refuses_until_there_are_rounds_enough() {
    let cells = tls_pair();
    let axes = axes_of(&cells);
    let say = |rounds: u32, q: usize| {
        let table = Table::from_rows(2, &two_cells(rounds, 0.5, 0.01));
        let comparison = compare(&cells, &axes, &table, &Settings::default());
        let pair = &comparison.pairs[0];
        let effect = &pair.metric(Metric::Tls).unwrap().effect;
        let what = (Metric::Tls, effect.rounds, &effect.quantiles[q]);
        quantile_sentence(&cells, &axes, &pair.pair, what, &Settings::default())
    };
    assert_eq!(say(100, 4), "TLS 1.3: the p99 TLS handshake time needs 1,000 rounds");
    assert_eq!(say(100, 3), "TLS 1.3: the p95 TLS handshake time needs 200 rounds");
    let words = say(200, 3);
    assert!(words.starts_with("TLS 1.3 cut the p95 TLS handshake time by 50."), "{words}");
    assert!(words.contains(" % (95 % interval "), "{words}");
}

/// Rounds of two cells with these answers (status and size), whose total is as long as their handshake.
fn answered(rounds: u32, answers: [(u16, u64); 2]) -> Vec<Row> {
    let mut rows = two_cells(rounds, 0.48, 0.02);
    for row in &mut rows {
        row.metrics.set_ns(Metric::Total, row.metric(Metric::Tls).unwrap());
        let (status, bytes) = answers[usize::from(row.cell)];
        row.answer = VisitAnswer::new(Some(status), Some(bytes));
    }
    rows
}

#[test]
fn unlike_answers_have_no_verdict_on_what_depends_on_them() {
    let cells = tls_pair();
    let axes = axes_of(&cells);
    let compared = |rows: &[Row], settings: &Settings| {
        let comparison = compare(&cells, &axes, &Table::from_rows(2, rows), settings);
        let pair = &comparison.pairs[0];
        let of = |metric| {
            let effect = pair.metric(metric).unwrap();
            let words = sentence(&cells, &axes, &pair.pair, effect);
            (effect.verdict, effect.p_adjusted.is_some(), words)
        };
        (of(Metric::Total), of(Metric::Tls))
    };
    let settings = Settings::default();
    let sizes = answered(100, [(200, 500_000), (200, 5)]);
    let (total, tls) = compared(&sizes, &settings);
    let difference = AnswerDifference::Sizes(5, 500_000);
    assert_eq!((total.0, total.1), (Verdict::Unlike(difference), false));
    assert_eq!(
        total.2,
        "TLS 1.3 and TLS 1.2: no verdict on the median total time, because the answers differ \
         (bodies of 5 and 500,000 bytes)"
    );
    assert_eq!(tls.0, Verdict::Faster, "the handshake ends before the answer");
    assert!(tls.2.starts_with("TLS 1.3 cut the median TLS handshake time by 5"), "{}", tls.2);
    // Few rounds are not a better reason.
    for rounds in [10, 100] {
        let (total, _) = compared(&answered(rounds, [(200, 5), (429, 0)]), &settings);
        assert_eq!(total.0, Verdict::Unlike(AnswerDifference::Statuses(200, 429)));
        assert!(total.2.ends_with("the answers differ (status 200 and 429)"), "{}", total.2);
    }
    let (total, _) = compared(&answered(100, [(200, 100_000), (200, 104_000)]), &settings);
    assert_eq!((total.0, total.1), (Verdict::Faster, true));
    let asked_for = Settings { compare_unlike: true, ..settings };
    let (total, _) = compared(&sizes, &asked_for);
    assert_eq!((total.0, total.1), (Verdict::Faster, true));
}

#[test]
fn only_answers_of_samples_that_count_are_compared() {
    let mut rows = answered(40, [(200, 5), (200, 5)]);
    for (place, standing) in
        [(0, Standing::Failed), (2, Standing::Unproven(Shortfall::TooEarly)), (4, Standing::Proven)]
    {
        rows[place].standing = standing;
        rows[place].warmup = place == 4;
        rows[place].answer = VisitAnswer::new(Some(425), Some(90_000));
    }
    let table = Table::from_rows(2, &rows);
    assert_eq!(table.answers(0).unwrap().statuses(), [(200, 37)]);
    assert_eq!(find_difference((0..2).filter_map(|cell| table.answers(cell))), None);
}

#[test]
fn twins_with_unlike_answers_check_nothing() {
    let mut cells = tls_pair();
    cells[1] = Cell { twin_of: Some(0), ..cells[0].clone() };
    let axes = axes_of(&cells);
    let table = Table::from_rows(2, &answered(100, [(200, 5), (503, 5)]));
    let comparison = compare(&cells, &axes, &table, &Settings::default());
    let pair = &comparison.pairs[0];
    let words = sentence(&cells, &axes, &pair.pair, pair.metric(Metric::Total).unwrap());
    assert_eq!(
        words,
        "A/A test of the total time: no verdict, because the answers differ (status 200 and 503)"
    );
}

/// Cells 0 and 1 are twins; one is `ratio` times the other.
fn twins(ratio: f64) -> (Comparison, String) {
    let mut cells = tls_pair();
    cells[1] = Cell { twin_of: Some(0), ..cells[0].clone() };
    let table = Table::from_rows(2, &two_cells(300, ratio, 0.02));
    let axes = axes_of(&cells);
    let comparison = compare(&cells, &axes, &table, &Settings::default());
    let pair = &comparison.pairs[0];
    let words = sentence(&cells, &axes, &pair.pair, pair.metric(Metric::Tls).unwrap());
    (comparison, words)
}

#[test]
fn twins_check_the_experiment() {
    let (comparison, words) = twins(1.0);
    assert_eq!(comparison.pairs.len(), 1);
    assert_eq!(comparison.pairs[0].pair.role, Role::SelfCheck);
    assert!(
        words.starts_with("A/A test of the TLS handshake time: no difference (95 % interval −0."),
        "{words}"
    );
    let (_, words) = twins(1.05);
    assert!(
        words.contains("the same variant measured twice differs by 4.9 % (95 % interval +4.7"),
        "{words}"
    );
}

/// Eleven secondary comparisons without an effect, one of them apparently significant if taken alone.
#[test]
fn secondary_comparisons_count_together() {
    let mut cells = vec![cell(&[TLS12, ("edge", "0", "edge 0")])];
    cells.push(cell(&[TLS13, ("edge", "0", "edge 0")]));
    let labels: Vec<(String, String)> =
        (1..12).map(|i| (i.to_string(), format!("edge {i}"))).collect();
    cells.extend(labels.iter().map(|(v, l)| cell(&[TLS12, ("edge", v, l)])));
    let mut random = fastrand::Rng::with_seed(9);
    let mut value = |ratio: f64| {
        (20e6 * ratio * (1.0 + 0.1 * (random.f64() + random.f64() + random.f64() - 1.5))) as u64
    };
    let rows: Vec<Row> = (0..60)
        .flat_map(|round| (0..13).map(move |cell| (round, cell)))
        .map(|(round, cell)| row(cell, round, value(if cell == 12 { 1.035 } else { 1.0 })))
        .collect();
    let axes = axes_of(&cells);
    let comparison = compare(&cells, &axes, &Table::from_rows(13, &rows), &Settings::default());
    let suspect = comparison.pairs.iter().find(|p| p.pair.variant == 12).unwrap();
    let found = suspect.metric(Metric::Tls).unwrap();
    let raw = found.estimate().p_value.unwrap();
    assert!(raw < 0.05, "{raw}");
    assert!(found.p_adjusted.unwrap() > raw, "{found:?}");
    assert!(matches!(found.verdict, Verdict::NotAmongAll { .. }), "{found:?}");
    let words = sentence(&cells, &axes, &suspect.pair, found);
    assert!(words.contains("slower, but not significant among all comparisons"), "{words}");
    // The primary comparison stands alone.
    let primary = comparison.pairs[0].metric(Metric::Tls).unwrap();
    assert_eq!(primary.p_adjusted, primary.estimate().p_value);
}

#[test]
fn pairs_can_be_analysed_apart() {
    let cells = twelve_cells();
    let mut random = fastrand::Rng::with_seed(1);
    let rows: Vec<Row> = (0..30)
        .flat_map(|round| (0..12).map(move |cell| (round, cell)))
        .map(|(round, cell)| row(cell, round, 1_000_000 + random.u64(0..500_000)))
        .collect();
    let table = Table::from_rows(12, &rows);
    let (axes, settings) = (axes_of(&cells), Settings::default());
    let design = Design::new(&cells, &axes);
    let mut pairs: Vec<PairEffects> =
        design.pairs.iter().rev().map(|pair| effects(&table, *pair, &settings)).collect();
    pairs.reverse();
    let summaries = (0..12).map(|cell| summarise(&table, cell)).collect();
    let apart = conclude(summaries, pairs, design.base_missing, &settings);
    assert_eq!(apart, compare(&cells, &axes, &table, &settings));
}

#[test]
fn summaries_have_percentiles_outliers_and_order() {
    let mut rows = two_cells(150, 0.9, 0.02);
    rows[100].metrics.set_ns(Metric::Tls, 900_000_000);
    let table = Table::from_rows(2, &rows);
    let summary = summarise(&table, 0);
    let tls = summary.metric(Metric::Tls).unwrap();
    assert_eq!((tls.n, tls.outliers, tls.max), (150, 1, 9e8));
    assert!(!tls.notable_autocorrelation);
    assert!(tls.percentiles.iter().all(|p| p.ns.is_some()));
    assert!(tls.percentiles.windows(2).all(|p| p[0].ns < p[1].ns));
    let few = summarise(&Table::from_rows(2, &rows[..100]), 0);
    assert_eq!(few.metric(Metric::Tls).unwrap().percentiles[4].ns, None, "p99 of 50");
}

/// Takes as long as a large run, plus this test: `time cargo test -p firstbyte-core --release -- --ignored
/// a_large_run`.
#[test]
#[ignore = "a large run, to be timed"]
fn a_large_run() {
    let cells: Vec<Cell> = (0..12)
        .map(|i| cell(&[("edge", i.to_string().as_str(), format!("edge {i}").as_str())]))
        .collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut table = Table::new(12);
    for round in 0..100_000 {
        for cell in 0..12 {
            let mut row = row(cell, round, 0);
            for metric in Metric::ALL {
                row.metrics.set_ns(metric, 20_000_000 + random.u64(0..5_000_000));
            }
            table.push(&row);
        }
    }
    if std::env::var_os("TABLE_ONLY").is_none() {
        let comparison = compare(&cells, &axes_of(&cells), &table, &Settings::default());
        assert_eq!(comparison.pairs.len(), 11);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// For arbitrary rows, every number is a number and every verdict has its words.
    #[test]
    fn any_rows_give_numbers_and_words(
        rows in proptest::collection::vec(
            (0u16..4, 0u32..50, 0u8..6, prop_oneof![Just(0), 1u64..1_000, 1_000_000u64..100_000_000]),
            0..150,
        )
    ) {
        let rows: Vec<Row> = rows
            .into_iter()
            .map(|(cell, round, kind, ns)| Row {
                warmup: kind == 0,
                standing: match kind {
                    1 => Standing::Failed,
                    2 => Standing::Unproven(Shortfall::Resumed),
                    _ => Standing::Proven,
                },
                ..row(cell, round, ns)
            })
            .collect();
        let mut cells = vec![cell(&[TLS12, FULL]), cell(&[TLS13, FULL]), cell(&[TLS13, ZERO_RTT])];
        cells.push(Cell { twin_of: Some(1), ..cells[1].clone() });
        let axes = axes_of(&cells);
        let table = Table::from_rows(4, &rows);
        let comparison = compare(&cells, &axes, &table, &Settings::default());
        for summary in &comparison.cells {
            let counts = &summary.counts;
            let unproven: usize = counts.unproven.iter().map(|(_, n)| n).sum();
            prop_assert_eq!(counts.asked, counts.proven + unproven + counts.failed);
            for metric in &summary.metrics {
                prop_assert!(metric.median.value.is_finite());
                prop_assert!(metric.min <= metric.median.value && metric.median.value <= metric.max);
            }
        }
        for pair in &comparison.pairs {
            for found in &pair.metrics {
                let words = sentence(&cells, &axes, &pair.pair, found);
                prop_assert!(!words.contains("NaN") && !words.contains("inf"), "{}", words);
                for quantile in &found.effect.quantiles {
                    let what = (found.metric, found.effect.rounds, quantile);
                    let words =
                        quantile_sentence(&cells, &axes, &pair.pair, what, &Settings::default());
                    prop_assert!(!words.contains("NaN") && !words.contains("inf"), "{}", words);
                }
            }
        }
    }
}
