//! Writes verdicts as sentences.

use super::design::{Axis, BaseMissing, Pair, Role};
use super::verdict::{judge_quantile, relative_quantile};
use super::{AnswerCounts, AnswerDifference, MetricEffect, Settings, Verdict};
use crate::run::{Cell, Metric};
use crate::stats::{Estimate, FORESEEABLE_ROUNDS, Interval, Outlook, QuantileEffect};

/// The verdict on one metric of a pair as a sentence.
///
/// For example: "Sydney, IPv4: TLS 1.3 cut the median TLS handshake time by 49.6 % (95 % interval 49.1 to 50.0 %)".
pub fn sentence(cells: &[Cell], axes: &[Axis], pair: &Pair, effect: &MetricEffect) -> String {
    let scale = if effect.effect.relative.is_some() { Scale::Share } else { Scale::Nanoseconds };
    let estimate = effect.estimate();
    if pair.role == Role::SelfCheck {
        return self_check(effect.metric, estimate, &effect.verdict, scale);
    }
    let names = Names::for_pair(cells, axes, pair);
    phrase(&names, effect.metric.phrase(), "median", estimate, &effect.verdict, scale)
}

/// The verdict on a quantile of one metric of a pair as a sentence, or the number of rounds it needs.
pub fn quantile_sentence(
    cells: &[Cell],
    axes: &[Axis],
    pair: &Pair,
    (metric, rounds, effect): (Metric, usize, &QuantileEffect),
    settings: &Settings,
) -> String {
    let scale = if effect.base > 0.0 { Scale::Share } else { Scale::Nanoseconds };
    let verdict = judge_quantile(effect, rounds, settings);
    let statistic = format!("p{}", trimmed(effect.q * 100.0));
    let names = Names::for_pair(cells, axes, pair);
    phrase(&names, metric.phrase(), &statistic, &relative_quantile(effect), &verdict, scale)
}

/// A cell without a baseline along an axis: "TLS 1.3, 0-RTT has no baseline along tls: TLS 1.2, 0-RTT was not
/// measured".
pub fn base_missing_sentence(cells: &[Cell], axes: &[Axis], missing: &BaseMissing) -> String {
    let cell = cells.get(missing.cell).map(Cell::name).unwrap_or_default();
    let axis = axes.get(missing.axis).map_or("", |axis| axis.name.as_str());
    format!("{cell} has no baseline along {axis}: {} was not measured", missing.base)
}

/// Axes whose values are alternatives, not changes to one connection: "Sydney took 20 times as long as London", not
/// "Sydney raised the total time".
const ALTERNATIVES: [&str; 8] =
    ["site", "edge", "client", "family", "resolver", "run", "file", "server"];

/// Names of the compared cells, and of the place.
struct Names {
    variant: String,
    base: String,
    are_alternatives: bool,
    /// Labels of the other varied axes: "Sydney, IPv4".
    place: Vec<String>,
}

impl Names {
    fn for_pair(cells: &[Cell], axes: &[Axis], pair: &Pair) -> Self {
        let Some(cell) = cells.get(pair.variant) else {
            return Self {
                variant: String::new(),
                base: String::new(),
                are_alternatives: false,
                place: Vec::new(),
            };
        };
        let base = cells.get(pair.base);
        let Some(axis) = pair.axis.and_then(|axis| axes.get(axis)) else {
            return Self {
                variant: cell.name(),
                base: base.map(Cell::name).unwrap_or_default(),
                are_alternatives: true,
                place: Vec::new(),
            };
        };
        let varies = |name: &str| axes.iter().any(|a| a.name == name && a.values.len() > 1);
        let label = |cell: &Cell| {
            let factor = cell.factors.iter().find(|f| f.axis == axis.name);
            factor.map_or_else(|| cell.name(), |factor| factor.label.clone())
        };
        let place = cell
            .factors
            .iter()
            .filter(|f| f.axis != axis.name && varies(&f.axis))
            .map(|f| f.label.clone())
            .collect();
        Self {
            variant: label(cell),
            base: base.map(label).unwrap_or_default(),
            are_alternatives: ALTERNATIVES.contains(&axis.name.as_str()),
            place,
        }
    }

    /// "Sydney, IPv4: ", or empty.
    fn prefix(&self) -> String {
        if self.place.is_empty() { String::new() } else { format!("{}: ", self.place.join(", ")) }
    }
}

fn phrase(
    names: &Names,
    metric: &str,
    statistic: &str,
    estimate: &Estimate,
    verdict: &Verdict,
    scale: Scale,
) -> String {
    let Names { variant, base, are_alternatives, .. } = names;
    let prefix = names.prefix();
    let what = format!("the {statistic} {metric}");
    if let Verdict::Unlike(difference) = verdict {
        let why = describe_difference(*difference);
        return format!("{prefix}{variant} and {base}: no verdict on {what}, because {why}");
    }
    let Some(interval) = estimate.interval else {
        let needed = match verdict {
            Verdict::TooFewRounds { needed } => format!(" needs {} rounds", thousands(*needed)),
            _ => String::new(),
        };
        return format!("{prefix}{variant}: {what}{needed}");
    };
    let digits = scale.digits(&interval);
    let undecided = match are_alternatives {
        true => format!("{prefix}undecided whether {variant} and {base} differ in {what}"),
        false => format!("{prefix}undecided whether {variant} changed {what}"),
    };
    match verdict {
        Verdict::Slower if scale == Scale::Share && interval.low >= TIMES_FROM => format!(
            "{prefix}{variant} took {} times as long as {base} ({statistic} {metric}, 95 % interval {} to {} \
             times)",
            times(estimate.value),
            times(interval.low),
            times(interval.high),
        ),
        Verdict::Faster | Verdict::Slower => {
            let is_less = estimate.value < 0.0;
            let size = scale.show(estimate.value.abs(), digits);
            let (near, far) = ordered(&interval);
            let range = format!(
                "95 % interval {} to {}",
                scale.number(near, digits),
                scale.show(far, digits)
            );
            if *are_alternatives {
                let how = if is_less { "less" } else { "more" };
                format!(
                    "{prefix}{variant} took {size} {how} than {base} ({statistic} {metric}, {range})"
                )
            } else {
                let verb = if is_less { "cut" } else { "raised" };
                format!("{prefix}{variant} {verb} {what} by {size} ({range})")
            }
        }
        Verdict::NoDifference { largest, below_floor: false } => {
            let size = scale.show(scale.round_up(*largest, digits), digits);
            let range = scale.signed(&interval, digits);
            match are_alternatives {
                true => format!(
                    "{prefix}{variant} and {base} differ by less than {size} in {what} (95 % interval {range})"
                ),
                false => format!(
                    "{prefix}{variant} changed {what} by less than {size} (95 % interval {range})"
                ),
            }
        }
        Verdict::NoDifference { below_floor: true, .. } => format!(
            "{prefix}{variant}: {what} differs by less than the clock can measure (95 % interval {})",
            scale.signed(&interval, digits)
        ),
        Verdict::Open { outlook } => {
            format!("{undecided}: {}; {}", between(&interval, scale, digits), words(outlook, scale))
        }
        Verdict::NotAmongAll { p_adjusted } => format!(
            "{undecided}: {}, but not significant among all comparisons (Holm p = {p_adjusted:.2})",
            between(&interval, scale, digits)
        ),
        Verdict::TooFewRounds { needed } => {
            format!("{prefix}{variant}: {what} needs {} rounds", thousands(*needed))
        }
        // Said above.
        Verdict::Unlike(_) => String::new(),
    }
}

/// "6 with status 200, 4 with status 429, 0 to 500,000 bytes".
pub fn describe_answers(counts: &AnswerCounts) -> String {
    const NAMED: usize = 4;
    let statuses = counts.statuses();
    let mut named: Vec<String> = statuses
        .iter()
        .take(NAMED)
        .map(|(status, count)| format!("{} with status {status}", thousands(*count)))
        .collect();
    let others: usize = statuses.iter().skip(NAMED).map(|(_, count)| count).sum();
    if others > 0 {
        named.push(format!("{} with others", thousands(others)));
    }
    let sizes = counts.size_range().map(|(least, most)| {
        let unit = if most == 1 { "byte" } else { "bytes" };
        match least == most {
            true => format!("{} {unit}", print_size(most)),
            false => format!("{} to {} {unit}", print_size(least), print_size(most)),
        }
    });
    let statuses = Some(named.join(", ")).filter(|text| !text.is_empty());
    let parts: Vec<String> = [statuses, sizes].into_iter().flatten().collect();
    parts.join(", ")
}

fn print_size(size: u64) -> String {
    thousands(usize::try_from(size).unwrap_or(usize::MAX))
}

/// "the answers differ (status 200 and 429)".
pub fn describe_difference(difference: AnswerDifference) -> String {
    match difference {
        AnswerDifference::Statuses(one, other) => {
            format!("the answers differ (status {one} and {other})")
        }
        AnswerDifference::Sizes(least, most) => {
            format!(
                "the answers differ (bodies of {} and {} bytes)",
                print_size(least),
                print_size(most)
            )
        }
    }
}

/// From this growth on, "16 times as long" reads better than "1500 % slower".
pub const TIMES_FROM: f64 = 1.0;

/// Factor of the duration after this relative growth: "2.4", "16".
pub fn times(growth: f64) -> String {
    let factor = growth + 1.0;
    if factor < 9.95 { format!("{factor:.1}") } else { format!("{factor:.0}") }
}

fn self_check(metric: Metric, estimate: &Estimate, verdict: &Verdict, scale: Scale) -> String {
    if let Verdict::Unlike(difference) = verdict {
        let why = describe_difference(*difference);
        return format!("A/A test of the {}: no verdict, because {why}", metric.phrase());
    }
    let Some(interval) = estimate.interval else {
        return format!("A/A test of the {}: too few rounds", metric.phrase());
    };
    let digits = scale.digits(&interval);
    let range = scale.signed(&interval, digits);
    match verdict {
        Verdict::Faster | Verdict::Slower => format!(
            "A/A test of the {}: the same variant measured twice differs by {} (95 % interval {range}); \
             ignore differences of this size in this run",
            metric.phrase(),
            scale.show(estimate.value.abs(), digits)
        ),
        _ => format!("A/A test of the {}: no difference (95 % interval {range})", metric.phrase()),
    }
}

fn words(outlook: &Outlook, scale: Scale) -> String {
    match outlook {
        Outlook::Settles { more } => {
            format!("about {} more rounds would settle it", about(*more))
        }
        Outlook::Excludes { more, margin } => format!(
            "about {} more rounds would exclude a difference above {}",
            about(*more),
            scale.show(*margin, scale.digits_of(*margin))
        ),
        Outlook::Narrows { margin } => {
            let digits = scale.digits_of(*margin);
            format!(
                "even {} rounds could not exclude a difference of {}",
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

/// Ends of an interval on one side of zero, the nearer one first.
fn ordered(interval: &Interval) -> (f64, f64) {
    let (a, b) = (interval.low.abs(), interval.high.abs());
    (a.min(b), a.max(b))
}

/// Unit of an estimate.
#[derive(Clone, Copy, PartialEq)]
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

    /// Number of decimals that shows a tenth of `width`, at most three.
    fn digits_of(self, width: f64) -> usize {
        let shown = width * self.unit().0;
        [1.0, 0.1, 0.01].iter().position(|least| shown >= *least).unwrap_or(3)
    }

    fn digits(self, interval: &Interval) -> usize {
        self.digits_of(interval.half_width())
    }

    /// Formats with `digits` decimals, or up to three if a non-zero value would look like zero: an interval that ends
    /// close to zero must not seem to end at it.
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

    /// Rounds up to the last displayed decimal: "no larger than" must not be rounded down.
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

/// A forecast to two significant digits: more would be false precision.
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
