//! `--percentiles`: two ways to connect, compared by percentile, as CSV.
//!
//! Input: the cells of a run, and differences. Output: one row per percentile, metric and comparison. An unknown
//! value is an empty field. Columns are described in `docs/formats.md`.

use std::fmt::Write as _;

use firstbyte_core::compare::{PercentileEffects, Role};
use firstbyte_core::run::Cell;
use firstbyte_core::shown_url::shown_urls_within;
use firstbyte_core::stats::QuantileEffect;

use super::columns::delimited::as_text_alone;

const COLUMNS: &str = "role,base,variant,AXES,metric,rounds,percentile,base_us,variant_us,\
                       difference_us,difference_low_us,difference_high_us,change,change_low,change_high";

/// The table of all differences in a run with these axes.
pub fn csv(cells: &[Cell], axes: &[String], effects: &[PercentileEffects]) -> String {
    let names: Vec<String> = axes.iter().map(|axis| quoted(&format!("axis_{axis}"))).collect();
    let mut out = match names.is_empty() {
        true => COLUMNS.replace("AXES,", ""),
        false => COLUMNS.replace("AXES", &names.join(",")),
    };
    out.push('\n');
    for effect in effects {
        let (Some(base), Some(variant)) =
            (cells.get(effect.pair.base), cells.get(effect.pair.variant))
        else {
            continue;
        };
        let mut begin = vec![role(effect.pair.role).to_owned()];
        begin.extend([base, variant].map(|cell| quoted(&shown_urls_within(&cell.name()))));
        begin.extend(axes.iter().map(|axis| shared(base, variant, axis)));
        begin.extend([effect.metric.name().to_owned(), effect.rounds.to_string()]);
        let begin = begin.join(",");
        for percentile in &effect.percentiles {
            let _ = writeln!(out, "{begin},{}", figures(percentile));
        }
    }
    out
}

/// The cells' value on an axis; both values if they differ, the base's first.
fn shared(base: &Cell, variant: &Cell, axis: &str) -> String {
    let value = |cell: &Cell| {
        let factor = cell.factors.iter().find(|factor| factor.axis == axis);
        factor.map(|factor| shown_urls_within(&factor.value)).unwrap_or_default()
    };
    let (base, variant) = (value(base), value(variant));
    if base == variant { quoted(&base) } else { quoted(&format!("{base} > {variant}")) }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::Primary => "primary",
        Role::Secondary => "secondary",
        Role::SelfCheck => "self-check",
    }
}

fn figures(effect: &QuantileEffect) -> String {
    let us = |ns: f64| format!("{:.3}", ns / 1e3);
    // A base of zero has no relative difference.
    let share = |ns: f64| match effect.base > 0.0 {
        true => format!("{:.6}", ns / effect.base),
        false => String::new(),
    };
    let difference = &effect.difference;
    let end = |end: Option<f64>, form: &dyn Fn(f64) -> String| end.map(form).unwrap_or_default();
    let (low, high) = (difference.interval.map(|i| i.low), difference.interval.map(|i| i.high));
    [
        format!("{:.0}", effect.q * 100.0),
        us(effect.base),
        us(effect.variant),
        us(difference.value),
        end(low, &us),
        end(high, &us),
        share(difference.value),
        end(low, &share),
        end(high, &share),
    ]
    .join(",")
}

/// Quoted according to RFC 4180.
fn quoted(text: &str) -> String {
    let text = as_text_alone(text);
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::compare::Pair;
    use firstbyte_core::run::{Factor, Metric};
    use firstbyte_core::stats::{ClockSteps, Estimate, paired_quantile_effects};

    use super::*;

    fn cell(tls: &str, edge: &str) -> Cell {
        let factor = |axis: &str, value: &str| Factor {
            axis: axis.into(),
            value: value.into(),
            label: value.into(),
        };
        Cell { factors: vec![factor("tls", tls), factor("edge", edge)], ..Cell::default() }
    }

    #[test]
    fn a_row_has_both_ways_their_difference_and_its_interval() {
        let base: Vec<f64> = (0..400).map(|i| 20e6 + f64::from(i * 37 % 400) * 1e4).collect();
        let variant: Vec<f64> = base.iter().map(|ns| ns / 2.0).collect();
        let percentiles =
            paired_quantile_effects(&base, &variant, &[0.05, 0.5], ClockSteps::default(), 1);
        let alone = QuantileEffect {
            q: 0.99,
            base: 0.0,
            variant: 1e3,
            difference: Estimate { value: 1e3, interval: None, p_value: None },
            steps: 0.0,
        };
        let effects = [PercentileEffects {
            pair: Pair { role: Role::Primary, base: 0, variant: 1, axis: Some(0) },
            metric: Metric::Tls,
            rounds: 400,
            percentiles: percentiles.into_iter().chain([alone]).collect(),
        }];
        let cells = [cell("1.2", "sydney"), cell("1.3", "sydney")];
        let text = csv(&cells, &["tls".into(), "edge".into()], &effects);
        // Quote names that contain commas.
        let text = text.replace("\"1.2, sydney\"", "before").replace("\"1.3, sydney\"", "after");
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        let at = |name: &str| lines[0].iter().position(|column| *column == name).unwrap();
        let number = |line: usize, name: &str| lines[line][at(name)].parse::<f64>().unwrap();
        assert_eq!((lines[1][at("base")], lines[1][at("variant")]), ("before", "after"));
        assert_eq!(lines[1][at("axis_tls")], "1.2 > 1.3");
        assert_eq!(lines[1][at("axis_edge")], "sydney");
        assert_eq!((lines[1][at("metric")], lines[1][at("percentile")]), ("tls", "5"));
        for line in [1, 2] {
            let difference = number(line, "difference_us");
            let expected = number(line, "variant_us") - number(line, "base_us");
            assert!((difference - expected).abs() < 0.002, "{text}");
            assert!((number(line, "change") + 0.5).abs() < 1e-3, "{text}");
            let ends = [number(line, "difference_low_us"), number(line, "difference_high_us")];
            assert!(ends[0] < difference && difference < ends[1], "{text}");
        }
        assert_eq!(
            lines[3][at("percentile")..],
            ["99", "0.000", "1.000", "1.000", "", "", "", "", ""]
        );
    }
}
