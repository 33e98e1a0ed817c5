//! Converts a [`Comparison`] for the views. It only decides which sentences come first; nothing else is computed
//! here.

use std::collections::BTreeMap;

use firstbyte_core::compare::{self, Axis, Comparison, PairEffects, Role};
use firstbyte_core::run::Metric;
use firstbyte_core::stats;

use super::grouping::pair_names;
use super::{EffectView, Estimate, Sentence, Study, SummaryView, Verdict};

/// With more comparisons than this, the first sentences cover only the total.
const MANY: usize = 4;

impl From<&stats::Estimate> for Estimate {
    fn from(estimate: &stats::Estimate) -> Self {
        Self { value: estimate.value, interval: estimate.interval }
    }
}

impl From<&compare::Verdict> for Verdict {
    fn from(verdict: &compare::Verdict) -> Self {
        match verdict {
            compare::Verdict::Faster => Self::Faster,
            compare::Verdict::Slower => Self::Slower,
            compare::Verdict::NoDifference { .. } => Self::Same,
            compare::Verdict::Unlike(_) => Self::Unlike,
            compare::Verdict::Open { .. }
            | compare::Verdict::NotAmongAll { .. }
            | compare::Verdict::TooFewRounds { .. } => Self::Open,
        }
    }
}

impl Study<'_> {
    /// The study with the results of `comparison`, whose cells have these `axes`.
    #[must_use]
    pub fn with_comparison(mut self, comparison: &Comparison, axes: &[Axis]) -> Self {
        self.summaries = summaries(comparison);
        self.effects = comparison.pairs.iter().flat_map(effects).collect();
        let missing = comparison.base_missing.iter();
        let words = |missing| compare::base_missing_sentence(self.cells, axes, missing);
        self.missing = missing.map(words).collect();
        self.sentences = self.headlines(comparison, axes);
        self
    }

    /// The findings, by axis: total and handshake for the leading axis, the total for the others.
    fn headlines(&self, comparison: &Comparison, axes: &[Axis]) -> Vec<Sentence> {
        if let Some(needed) = rounds_needed(comparison) {
            let text = format!("No verdicts: they need {needed} rounds (-n {needed})");
            return vec![Sentence { text, verdict: Verdict::Open }];
        }
        let of = |role: Role| self.alike(comparison, role);
        let say = |(name, pairs): &(String, Vec<&PairEffects>), metric| match pairs.as_slice() {
            [pair] => self.one(axes, pair, metric),
            pairs => together(name, pairs, metric),
        };
        let leading = of(Role::Primary);
        let mut sentences: Vec<Sentence> =
            leading.iter().filter_map(|pairs| say(pairs, Metric::Total)).collect();
        if leading.len() <= MANY {
            sentences.extend(leading.iter().filter_map(|pairs| say(pairs, handshake(&pairs.1))));
        }
        sentences.extend(of(Role::Secondary).iter().filter_map(|pairs| say(pairs, Metric::Total)));
        for pair in comparison.pairs.iter().filter(|p| p.pair.role == Role::SelfCheck) {
            sentences.extend(self.one(axes, pair, Metric::Total));
        }
        sentences
    }

    /// Comparisons of the same two values, on any path.
    fn alike<'c>(
        &self,
        comparison: &'c Comparison,
        role: Role,
    ) -> Vec<(String, Vec<&'c PairEffects>)> {
        let mut alike: Vec<(String, Vec<&PairEffects>)> = Vec::new();
        for pair in comparison.pairs.iter().filter(|p| p.pair.role == role) {
            let (name, _) = pair_names(self.cells, pair.pair.base, pair.pair.variant);
            match alike.iter_mut().find(|(other, _)| *other == name) {
                Some((_, pairs)) => pairs.push(pair),
                None => alike.push((name, vec![pair])),
            }
        }
        alike
    }

    fn one(&self, axes: &[Axis], pair: &PairEffects, metric: Metric) -> Option<Sentence> {
        let effect = pair.metric(metric)?;
        let text = compare::sentence(self.cells, axes, &pair.pair, effect);
        Some(Sentence { text, verdict: Verdict::from(&effect.verdict) })
    }
}

/// Number of rounds that verdicts need, if no comparison of the total time has enough.
fn rounds_needed(comparison: &Comparison) -> Option<usize> {
    let total = |pair: &PairEffects| match pair.metric(Metric::Total)?.verdict {
        compare::Verdict::TooFewRounds { needed } => Some(needed),
        _ => None,
    };
    let needed: Option<Vec<usize>> = comparison.pairs.iter().map(total).collect();
    needed?.into_iter().max()
}

/// The handshake that both sides of every pair have; otherwise the whole connection set-up.
fn handshake(pairs: &[&PairEffects]) -> Metric {
    let both_have = |metric: &Metric| pairs.iter().all(|pair| pair.metric(*metric).is_some());
    [Metric::Tls, Metric::Quic].into_iter().find(both_have).unwrap_or(Metric::Setup)
}

/// One sentence for the same comparison in several places.
fn together(name: &str, pairs: &[&PairEffects], metric: Metric) -> Option<Sentence> {
    let effects: Vec<_> = pairs.iter().filter_map(|p| p.metric(metric)).collect();
    let n = effects.len();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for effect in &effects {
        *counts.entry(Verdict::from(&effect.verdict).word()).or_default() += 1;
    }
    let verdict = Verdict::from(&effects.first()?.verdict);
    let phrase = metric.phrase();
    if counts.len() > 1 {
        let parts: Vec<String> = ["faster", "slower", "no difference", "undecided", "no verdict"]
            .into_iter()
            .filter_map(|word| Some(format!("{word} in {}", counts.get(word)?)))
            .collect();
        let text = format!("{name}: median {phrase} {} of {n} comparisons", parts.join(", "));
        return Some(Sentence { text, verdict: Verdict::Open });
    }
    let everywhere = match n {
        2 => "in both comparisons".to_owned(),
        n => format!("in all {n} comparisons"),
    };
    let (variant, base) = name.split_once(" vs. ").unwrap_or((name, "the baseline"));
    let text = match verdict {
        Verdict::Faster | Verdict::Slower => {
            let shares = effects.iter().filter_map(|e| e.effect.relative.as_ref());
            let shares: Vec<f64> = shares.map(|e| e.value.abs()).collect();
            let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
            let most = shares.iter().copied().fold(0.0, f64::max);
            let range = |least: String, most: String| match least == most {
                true => most,
                false => format!("{least} to {most}"),
            };
            let verb = if verdict == Verdict::Faster { "cut" } else { "raised" };
            let compared = format!("compared with {base}, {everywhere}");
            if shares.len() < n {
                format!("{variant} {verb} the median {phrase} {compared}")
            } else if verdict == Verdict::Slower && least >= compare::TIMES_FROM {
                let factors = range(compare::times(least), compare::times(most));
                format!(
                    "{variant} takes {factors} times as long as {base} (median {phrase}, {everywhere})"
                )
            } else {
                let percent = |share: f64| format!("{:.0}", share * 100.0);
                let shares = range(percent(least), percent(most));
                format!("{variant} {verb} the median {phrase} by {shares} % {compared}")
            }
        }
        Verdict::Same => format!("{name}: no difference in the median {phrase}, {everywhere}"),
        Verdict::Unlike => format!(
            "{name}: no verdict on the median {phrase}, {everywhere}, because the answers differ"
        ),
        Verdict::Open => format!("{name}: undecided for the median {phrase}, {everywhere}"),
    };
    Some(Sentence { text, verdict })
}

fn summaries(comparison: &Comparison) -> Vec<SummaryView> {
    let of = |cell: &compare::CellSummary| {
        let index = cell.cell;
        let view = move |m: &compare::MetricSummary| {
            let beyond = m.percentiles.iter().filter(|p| p.q > 0.5);
            let beyond =
                beyond.filter_map(|p| Some((p.q, Estimate { value: p.ns?, interval: p.interval })));
            let median = (0.5, Estimate::from(&m.median));
            SummaryView {
                cell: index,
                metric: m.metric,
                samples: m.n,
                quantiles: std::iter::once(median).chain(beyond).collect(),
                outliers: m.outliers,
                autocorrelation: m.autocorrelation,
                notable: m.notable_autocorrelation,
            }
        };
        cell.metrics.iter().map(view).collect::<Vec<_>>()
    };
    comparison.cells.iter().flat_map(of).collect()
}

fn effects(pair: &PairEffects) -> Vec<EffectView> {
    let of = |effect: &compare::MetricEffect| EffectView {
        role: pair.pair.role,
        base: pair.pair.base,
        variant: pair.pair.variant,
        metric: effect.metric,
        pairs: pair.rounds,
        unpaired: pair.unpaired,
        difference: Estimate::from(&effect.effect.difference),
        relative: effect.effect.relative.as_ref().map(|e| e.value),
        hodges_lehmann: effect.effect.hodges_lehmann,
        p_values: effect.estimate().p_value.zip(effect.p_adjusted).map(|(p, holm)| [p, holm]),
        quantiles: effect
            .effect
            .quantiles
            .iter()
            // If too few rounds lie beyond a quantile for an interval, the difference is chance.
            .filter(|q| q.difference.interval.is_some())
            .map(|q| (q.q, Estimate::from(&q.difference)))
            .collect(),
        verdict: Verdict::from(&effect.verdict),
    };
    pair.metrics.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use firstbyte_core::compare::{Settings, Table, axes_of, compare};
    use firstbyte_core::run::VisitAnswer;

    use super::super::fixtures::made;
    use crate::{Style, html, study_table};

    #[test]
    fn a_comparison_is_shown_as_it_is() {
        let mut made = made(3, 2, 1, 30);
        let mut twin = made.cells[0].clone();
        twin.twin_of = Some(0);
        made.cells.push(twin);
        let again: Vec<_> = made.rows.iter().filter(|r| r.cell == 0).copied().collect();
        made.rows.extend(again.into_iter().map(|row| firstbyte_core::run::Row { cell: 6, ..row }));
        let table = Table::from_rows(made.cells.len(), &made.rows);
        let axes = axes_of(&made.cells);
        let comparison = compare(&made.cells, &axes, &table, &Settings::default());
        let study = made.study().with_comparison(&comparison, &axes);
        let texts: Vec<&str> = study.sentences.iter().map(|s| s.text.as_str()).collect();
        let first = texts[0];
        assert!(first.starts_with("TLS 1.3 cut the median total time by "), "{first}");
        assert!(first.ends_with(" % compared with TLS 1.2, in both comparisons"));
        assert!(texts.last().unwrap().starts_with("A/A test of the total time: no difference"));
        let text = study_table::table(&study, &Style::default());
        assert!(text.contains("Total time, ms: variant minus TLS 1.2"), "{text}");
        assert!(text.contains("Vancouver"));
        let page = html::page(&study);
        assert!(page.contains("<h3>London</h3>") && page.contains("TLS 1.2 (A/A)"));
    }

    #[test]
    fn unlike_answers_are_shown_by_way_and_have_no_verdict() {
        let mut made = made(2, 1, 1, 30);
        for row in &mut made.rows {
            row.answer = VisitAnswer::new(Some(200), Some([500_000, 5][usize::from(row.cell)]));
        }
        let axes = axes_of(&made.cells);
        let table = Table::from_rows(2, &made.rows);
        let shown = |settings: &Settings| {
            let comparison = compare(&made.cells, &axes, &table, settings);
            let study = made.study().with_comparison(&comparison, &axes);
            (study_table::table(&study, &Style::default()), html::page(&study))
        };
        let (text, page) = shown(&Settings::default());
        let first = "≠ TLS 1.3 and TLS 1.2: no verdict on the median total time, because";
        assert!(text.contains(first), "{text}");
        assert!(text.contains("▼ TLS 1.3 cut the median TLS handshake time by "), "{text}");
        assert!(!text.contains("total time by"), "{text}");
        assert!(text.contains("\nAnswers\nTLS 1.2, London, IPv4: "), "{text}");
        for words in [" with status 200, 500,000 bytes", " with status 200, 5 bytes"] {
            assert!(text.contains(words) && page.contains(words), "{text}");
        }
        assert!(page.contains("no verdict") && page.contains("Answers by variant"));
        // On request they are compared, but the text still says that the answers differ.
        let (text, _) = shown(&Settings { compare_unlike: true, ..Settings::default() });
        assert!(text.contains("▼ TLS 1.3 cut the median total time by "), "{text}");
        assert!(text.contains("\nAnswers\n"), "{text}");
        made.rows.iter_mut().for_each(|row| row.answer = VisitAnswer::new(Some(200), Some(5)));
        let text = study_table::table(&made.study(), &Style::default());
        assert!(!text.contains("Answers"), "{text}");
    }
}
