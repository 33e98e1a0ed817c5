//! Verdicts in words.

use super::design::{Axis, BaseMissing, Pair, Role};
use super::verdict::{judge_quantile, relative_quantile};
use super::{MetricEffect, Settings, Verdict};
use crate::run::{Cell, Metric};
use crate::stats::{Estimate, FORESEEABLE_ROUNDS, Interval, Outlook, QuantileEffect};

/// The verdict on one metric of a pair, in words: "TLS 1.3 cut the median TLS handshake time by 49.6 %
/// (95 % interval 49.1 to 50.0 %), Sydney, IPv4".
pub fn sentence(cells: &[Cell], axes: &[Axis], pair: &Pair, effect: &MetricEffect) -> String {
    let scale = if effect.effect.relative.is_some() { Scale::Share } else { Scale::Nanoseconds };
    let estimate = effect.estimate();
    if pair.role == Role::SelfCheck {
        return self_check(effect.metric, estimate, &effect.verdict, scale);
    }
    let names = Names::for_pair(cells, axes, pair);
    let what = format!("the median {}", effect.metric.noun());
    phrase(&names, &what, estimate, &effect.verdict, scale)
}

/// The verdict on a quantile of one metric of a pair, in words; in place of one, below as many rounds
/// as the quantile needs, that it takes so many.
pub fn quantile_sentence(
    cells: &[Cell],
    axes: &[Axis],
    pair: &Pair,
    (metric, rounds, effect): (Metric, usize, &QuantileEffect),
    settings: &Settings,
) -> String {
    let scale = if effect.base > 0.0 { Scale::Share } else { Scale::Nanoseconds };
    let verdict = judge_quantile(effect, rounds, settings);
    let what = format!("the p{} {}", trimmed(effect.q * 100.0), metric.noun());
    let names = Names::for_pair(cells, axes, pair);
    phrase(&names, &what, &relative_quantile(effect), &verdict, scale)
}

/// That a variant has nothing to be compared with along an axis: "TLS 1.3, 0-RTT has no comparison along
/// tls: there is no variant TLS 1.2, 0-RTT".
pub fn base_missing_sentence(cells: &[Cell], axes: &[Axis], missing: &BaseMissing) -> String {
    let cell = cells.get(missing.cell).map(Cell::name).unwrap_or_default();
    let axis = axes.get(missing.axis).map_or("", |axis| axis.name.as_str());
    format!("{cell} has no comparison along {axis}: there is no variant {}", missing.base)
}

/// Who is compared, and where.
struct Names {
    variant: String,
    /// Labels of the other axes that vary: "Sydney, IPv4".
    place: Vec<String>,
}

impl Names {
    fn for_pair(cells: &[Cell], axes: &[Axis], pair: &Pair) -> Self {
        let Some(cell) = cells.get(pair.variant) else {
            return Self { variant: String::new(), place: Vec::new() };
        };
        let Some(axis) = pair.axis.and_then(|axis| axes.get(axis)) else {
            return Self { variant: cell.name(), place: Vec::new() };
        };
        let varies = |name: &str| axes.iter().any(|a| a.name == name && a.values.len() > 1);
        let label = cell.factors.iter().find(|f| f.axis == axis.name).map(|f| f.label.clone());
        let place = cell
            .factors
            .iter()
            .filter(|f| f.axis != axis.name && varies(&f.axis))
            .map(|f| f.label.clone())
            .collect();
        Self { variant: label.unwrap_or_else(|| cell.name()), place }
    }

    fn after(&self) -> String {
        self.place.iter().map(|label| format!(", {label}")).collect()
    }
}

fn phrase(
    names: &Names,
    what: &str,
    estimate: &Estimate,
    verdict: &Verdict,
    scale: Scale,
) -> String {
    let (variant, after) = (&names.variant, names.after());
    let head = format!("{variant}, {what}{after}");
    let Some(interval) = estimate.interval else {
        return match verdict {
            Verdict::TooFewRounds { needed } => {
                format!("{head}: no verdict below {} rounds", thousands(*needed))
            }
            _ => head,
        };
    };
    let digits = scale.digits(&interval);
    let show = |value: f64| scale.show(value.abs(), digits);
    match verdict {
        // From twice as long on, a factor says more than per cent.
        Verdict::Slower if matches!(scale, Scale::Share) && interval.low >= 1.0 => format!(
            "With {variant}, {what} is {} times as long (95 % interval {} to {} times){after}",
            times(estimate.value),
            times(interval.low),
            times(interval.high),
        ),
        Verdict::Faster | Verdict::Slower => {
            let how = if estimate.value < 0.0 { "cut" } else { "raised" };
            let (near, far) = ordered(&interval);
            format!(
                "{variant} {how} {what} by {} (95 % interval {} to {}){after}",
                show(estimate.value),
                scale.number(near, digits),
                show(far),
            )
        }
        Verdict::NoDifference { largest, below_floor: false } => format!(
            "{variant} makes no difference larger than {} to {what} (95 % interval {}){after}",
            scale.show(scale.round_up(*largest, digits), digits),
            scale.signed(&interval, digits)
        ),
        Verdict::NoDifference { below_floor: true, .. } => format!(
            "{variant} makes no difference that the clock can resolve to {what} \
             (95 % interval {}){after}",
            scale.signed(&interval, digits)
        ),
        Verdict::Open { outlook } => {
            format!(
                "Cannot say whether {variant} changes {what}{after}: {}; {}",
                between(&interval, scale, digits),
                words(outlook, scale)
            )
        }
        Verdict::NotAmongAll { p_adjusted } => format!(
            "Cannot say whether {variant} changes {what}{after}: {} taken alone, \
             but not among all comparisons of its kind (Holm p = {p_adjusted:.2})",
            between(&interval, scale, digits)
        ),
        Verdict::TooFewRounds { needed } => {
            format!("{head}: no verdict below {} rounds", thousands(*needed))
        }
    }
}

fn self_check(metric: Metric, estimate: &Estimate, verdict: &Verdict, scale: Scale) -> String {
    let Some(interval) = estimate.interval else {
        return format!("A/A, {}: too few rounds to tell", metric.phrase());
    };
    let digits = scale.digits(&interval);
    let range = scale.signed(&interval, digits);
    match verdict {
        Verdict::Faster | Verdict::Slower => format!(
            "A/A, {}: the same variant measured twice differs by {} (interval {range}): \
             differences of this size mean nothing in this run",
            metric.phrase(),
            scale.show(estimate.value.abs(), digits)
        ),
        _ => format!("A/A, {}: no difference found (interval {range})", metric.phrase()),
    }
}

fn words(outlook: &Outlook, scale: Scale) -> String {
    match outlook {
        Outlook::Settles { more } => {
            format!("about {} more rounds would settle it", about(*more))
        }
        Outlook::Excludes { more, margin } => format!(
            "about {} more rounds would rule out more than {}",
            about(*more),
            scale.show(*margin, scale.digits_of(*margin))
        ),
        Outlook::Narrows { margin } => {
            let digits = scale.digits_of(*margin);
            format!(
                "even {} rounds would leave up to {} possible",
                thousands(FORESEEABLE_ROUNDS),
                scale.show(scale.round_up(*margin, digits), digits)
            )
        }
    }
}

/// "between 3 % faster and 1 % slower"; "3 to 5 % faster" when both are on one side.
fn between(interval: &Interval, scale: Scale, digits: usize) -> String {
    if interval.excludes_zero() {
        let (near, far) = ordered(interval);
        let how = direction(interval.low);
        return format!("{} to {} {how}", scale.number(near, digits), scale.show(far, digits));
    }
    format!(
        "between {} faster and {} slower",
        scale.show(interval.low.abs(), digits),
        scale.show(interval.high.abs(), digits)
    )
}

const fn direction(change: f64) -> &'static str {
    if change < 0.0 { "faster" } else { "slower" }
}

/// A relative change as a factor: 19.1 is "20".
fn times(change: f64) -> String {
    let factor = 1.0 + change;
    if factor < 10.0 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

/// The ends of an interval on one side of zero by their distance from it.
fn ordered(interval: &Interval) -> (f64, f64) {
    let (a, b) = (interval.low.abs(), interval.high.abs());
    (a.min(b), a.max(b))
}

/// What an estimate's numbers are.
#[derive(Clone, Copy)]
enum Scale {
    /// Shares of the base, shown in per cent.
    Share,
    /// Nanoseconds, shown in milliseconds.
    Nanoseconds,
}

impl Scale {
    const fn unit(self) -> (f64, &'static str) {
        match self {
            Self::Share => (100.0, "%"),
            Self::Nanoseconds => (1e-6, "ms"),
        }
    }

    /// As many decimals as show a tenth of `width`, at most three.
    fn digits_of(self, width: f64) -> usize {
        let shown = width * self.unit().0;
        [1.0, 0.1, 0.01].iter().position(|least| shown >= *least).unwrap_or(3)
    }

    fn digits(self, interval: &Interval) -> usize {
        self.digits_of(interval.half_width())
    }

    /// With so many decimals, or up to three if it would be shown as zero and is not: an interval that
    /// ends just beside zero must not seem to end at it.
    fn number(self, value: f64, digits: usize) -> String {
        let shown = value * self.unit().0;
        let is_zero = |digits: usize| shown.abs() < 0.5 * 0.1f64.powi(digits as i32);
        let digits = (digits..3).find(|digits| !is_zero(*digits)).unwrap_or(3);
        if is_zero(digits) { "0".into() } else { format!("{shown:.digits$}") }
    }

    fn show(self, value: f64, digits: usize) -> String {
        format!("{} {}", self.number(value, digits), self.unit().1)
    }

    /// "−0.3 to +0.2 %".
    fn signed(self, interval: &Interval, digits: usize) -> String {
        let number = |value: f64| {
            let number = self.number(value.abs(), digits);
            let sign = match value {
                _ if number == "0" => "",
                _ if value < 0.0 => "−",
                _ => "+",
            };
            format!("{sign}{number}")
        };
        format!("{} to {} {}", number(interval.low), number(interval.high), self.unit().1)
    }

    /// To the last decimal shown, upwards: "no larger than" must not be rounded down.
    fn round_up(self, value: f64, digits: usize) -> f64 {
        let step = self.unit().0 * 10f64.powi(digits as i32);
        (value * step - 1e-9).ceil() / step
    }
}

/// A relative change in per cent, signed, with one decimal: "−49.6 %".
pub fn percent(change: f64) -> String {
    let number = format!("{:.1}", change.abs() * 100.0);
    let sign = if number == "0.0" {
        ""
    } else if change < 0.0 {
        "−"
    } else {
        "+"
    };
    format!("{sign}{number} %")
}

/// A forecast to two significant digits: more would be pretence.
fn about(rounds: usize) -> String {
    let mut step = 1;
    while rounds / step >= 100 {
        step *= 10;
    }
    thousands(rounds.div_ceil(step) * step)
}

fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "99", "99.9".
fn trimmed(number: f64) -> String {
    let rounded = (number * 10.0).round() / 10.0;
    format!("{rounded}")
}
