//! Decides whether a change came at once or slowly.

use super::noise::{Moments, NoiseModel};
use super::regression::{Design, Gains, Grid};
use super::{ChangeForm, ChangeSettings, Pace};

/// Reduction of the sum of squares that a ramp needs beyond a step, in variances of long sums: χ² of two more
/// parameters, 1 %.
const CLEARLY: f64 = 9.21;
/// Reduction that two steps need beyond a ramp, in the same unit: χ² of one more parameter, 5 %.
const STAIRS_CLEARLY: f64 = 3.84;
/// Candidate places of the first, coarse search for pairs of steps.
const PLACES: usize = 60;
/// Largest excess over the best course's remainder for a course to remain possible: χ² of one parameter, 5 %.
const POSSIBLE: f64 = 3.84;
/// A change that took up to this many slots counts as immediate.
const SOON: i64 = 7;

/// Possible courses of a change between two slots, with the reduction of the sum of squares by each.
struct Courses {
    /// The best step.
    step: (ChangeForm, f64),
    /// The best ramp of each length.
    ramps: Vec<(ChangeForm, f64)>,
}

impl Courses {
    /// Fits the courses of a change between the slots `low` and `high`.
    fn weigh(
        grid: &Grid,
        design: &Design,
        residuals: &[f64],
        [low, high]: [i64; 2],
        with_ramps: bool,
    ) -> Self {
        let gains = design.gains(grid, residuals);
        let best = |forms: &mut dyn Iterator<Item = ChangeForm>| {
            let mut best = None;
            for form in forms {
                let gain = gains.gain(form);
                if best.is_none_or(|(_, most)| gain > most) {
                    best = Some((form, gain));
                }
            }
            best
        };
        let steps = grid.slots.iter().filter(|slot| (low..=high).contains(slot));
        let step = best(&mut steps.map(|at| ChangeForm::Step { at: *at }));
        let mut ramps = Vec::new();
        let mut length = 4;
        while with_ramps && length <= high - low {
            let stride = (length / 8).max(1) as usize;
            let begins = (low..=high - length).step_by(stride);
            let until = |from| ChangeForm::Ramp { from, until: from + length };
            ramps.extend(best(&mut begins.map(until)));
            length = (length + 1).max(length * 5 / 4);
        }
        if with_ramps && high > low {
            ramps.extend(best(&mut std::iter::once(ChangeForm::Ramp { from: low, until: high })));
        }
        Self { step: step.unwrap_or((ChangeForm::Step { at: low }, 0.0)), ramps }
    }

    fn best_ramp(&self) -> Option<(ChangeForm, f64)> {
        self.ramps.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Slots between the changes around index `at`, with room for a level.
fn room(grid: &Grid, at: usize, others: &[ChangeForm]) -> [i64; 2] {
    let slot = grid.slots[at.min(grid.len() - 1)];
    let before = others.iter().map(|form| form.ends()).filter(|end| *end <= slot).max();
    let after = others.iter().map(|form| form.begins()).filter(|begin| *begin > slot).min();
    let low = before.map_or(grid.slots[0], |end| end + 1);
    [low, after.map_or(grid.slots[grid.len() - 1], |begin| begin - 1).max(low)]
}

/// Room for a step that leaves levels of the shortest length on both sides.
fn inner([low, high]: [i64; 2], settings: &ChangeSettings) -> [i64; 2] {
    let margin = i64::try_from(settings.shortest).unwrap_or(i64::MAX).min((high - low) / 3);
    [low + margin.max(1), high - margin + 1]
}

/// The two steps that reduce the sum of squares most together, with levels of at least the shortest length; and the
/// reduction.
fn stairs(
    grid: &Grid,
    gains: &Gains<'_>,
    [low, high]: [i64; 2],
    settings: &ChangeSettings,
) -> Option<([i64; 2], f64)> {
    let index = |slot: i64| grid.slots.partition_point(|other| *other < slot);
    let (from, until) = (index(low) + settings.shortest, index(high + 1));
    let all = grid.slots.get(from..until.checked_sub(settings.shortest)?)?;
    let stride = all.len().div_ceil(PLACES).max(1);
    let mut best: Option<([usize; 2], f64)> = None;
    let try_pair = |best: &mut Option<([usize; 2], f64)>, pair: [usize; 2]| {
        let [a, b] = pair;
        if b >= a + settings.shortest && b < all.len() {
            let gain = gains.gain_of_steps([all[a], all[b]]);
            if best.is_none_or(|(_, most)| gain > most) {
                *best = Some((pair, gain));
            }
        }
    };
    let coarse = || (0..all.len()).step_by(stride);
    coarse().for_each(|a| coarse().for_each(|b| try_pair(&mut best, [a, b])));
    // Refine each side in turn, twice: the best place of one depends on the other.
    for side in [0, 1, 0, 1] {
        let Some((pair, _)) = best else { break };
        for near in pair[side].saturating_sub(stride)..=pair[side] + stride {
            let mut moved = pair;
            moved[side] = near;
            try_pair(&mut best, moved);
        }
    }
    best.map(|([a, b], gain)| ([all[a], all[b]], gain))
}

/// Course of the change around index `at`, which is not among `others`: a step unless a ramp is clearly better, or two
/// steps if they are clearly better than a ramp.
pub(super) fn fit(
    grid: &Grid,
    design: &Design,
    residuals: &[f64],
    at: usize,
    others: &[ChangeForm],
    settings: &ChangeSettings,
) -> Vec<ChangeForm> {
    let found = fit_one(grid, design, residuals, at, others, settings);
    let ChangeForm::Ramp { .. } = found else { return vec![found] };
    let gains = design.gains(grid, residuals);
    let Some((steps, gain)) = stairs(grid, &gains, room(grid, at, others), settings) else {
        return vec![found];
    };
    let both = steps.map(|at| ChangeForm::Step { at });
    let left = rest(grid, &[others, &both[..1]].concat(), both[1], residuals);
    let unit = left.map_or(f64::INFINITY, |moments| moments.variance * moments.inflation.max(1.0));
    if gain - gains.gain(found) > STAIRS_CLEARLY * unit { both.to_vec() } else { vec![found] }
}

/// Course of a single change.
fn fit_one(
    grid: &Grid,
    design: &Design,
    residuals: &[f64],
    at: usize,
    others: &[ChangeForm],
    settings: &ChangeSettings,
) -> ChangeForm {
    let room = room(grid, at, others);
    // Search near the place where it was found: another change may lie farther off, hidden by this one.
    let slot = grid.slots[at.min(grid.len() - 1)];
    let near = 2 * i64::try_from(settings.shortest).unwrap_or(i64::MAX / 4);
    let [low, high] = inner(room, settings);
    let [low, high] = [low.max(slot - near), high.min(slot + near)];
    let low = low.min(high);
    let steps = Courses::weigh(grid, design, residuals, [low, high], false);
    let ramps = Courses::weigh(grid, design, residuals, room, true);
    let Some((ramp, gain)) = ramps.best_ramp() else { return steps.step.0 };
    let left = rest(grid, others, ramp, residuals);
    let clearly = left
        .map_or(f64::INFINITY, |moments| CLEARLY * moments.variance * moments.inflation.max(1.0));
    if gain - steps.step.1 > clearly && ramp.ends() - ramp.begins() > SOON {
        ramp
    } else {
        steps.step.0
    }
}

/// Moments of the residuals with one more form.
fn rest(
    grid: &Grid,
    others: &[ChangeForm],
    form: ChangeForm,
    residuals: &[f64],
) -> Option<Moments> {
    let mut all = others.to_vec();
    all.push(form);
    let design = Design::new(grid, &all)?;
    Some(Moments::from_residuals(grid, &design.fit(grid, residuals).residuals))
}

/// Fits each change again, with the others fixed: the first changes were found while later ones were still hidden.
pub(super) fn refine(
    grid: &Grid,
    values: &[f64],
    forms: &mut [ChangeForm],
    settings: &ChangeSettings,
) {
    if forms.len() < 2 {
        return;
    }
    for _ in 0..2 {
        for index in 0..forms.len() {
            let mut others = forms.to_vec();
            let form = others.remove(index);
            let Some(design) = Design::new(grid, &others) else { continue };
            let residuals = design.fit(grid, values).residuals;
            let middle = i64::midpoint(form.begins(), form.ends());
            let at = grid.slots.partition_point(|slot| *slot < middle);
            let again = fit_one(grid, &design, &residuals, at, &others, settings);
            let mut with = others;
            with.push(again);
            if Design::new(grid, &with).is_some() {
                forms[index] = again;
            }
        }
        forms.sort_by_key(|form| form.begins());
    }
}

/// Removes changes that later ones have made redundant: those with less than three standard errors left.
pub(super) fn drop_weak(
    grid: &Grid,
    values: &[f64],
    forms: &mut Vec<ChangeForm>,
    noise: NoiseModel,
) {
    while let Some(design) = Design::new(grid, forms) {
        let fit = design.fit(grid, values);
        let deviation =
            (Moments::from_residuals(grid, &fit.residuals).variance * noise.inflation()).sqrt();
        let sizes = (0..forms.len()).map(|index| {
            let error = deviation * design.unit_error(grid, index);
            (index, fit.coefficients[grid.parts + index].abs() / error)
        });
        match sizes.min_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((index, size)) if size < 3.0 => drop(forms.remove(index)),
            _ => return,
        }
    }
}

/// Pace of change `index`, and its longest plausible duration.
pub(super) fn pace(
    grid: &Grid,
    values: &[f64],
    forms: &[ChangeForm],
    index: usize,
    deviation: f64,
) -> (Pace, i64) {
    let mut others = forms.to_vec();
    let form = others.remove(index);
    let Some(design) = Design::new(grid, &others) else { return (Pace::Unclear, 0) };
    let residuals = design.fit(grid, values).residuals;
    let middle = i64::midpoint(form.begins(), form.ends());
    let at = grid.slots.partition_point(|slot| *slot < middle);
    let courses = Courses::weigh(grid, &design, &residuals, room(grid, at, &others), true);
    let best = courses.ramps.iter().map(|ramp| ramp.1).fold(courses.step.1, f64::max);
    let unit = deviation * deviation;
    let possible = courses.ramps.iter().filter(|ramp| best - ramp.1 <= POSSIBLE * unit);
    let longest = possible.map(|(ramp, _)| ramp.ends() - ramp.begins()).max().unwrap_or(0);
    let pace = match form {
        ChangeForm::Ramp { .. } => Pace::Slow,
        ChangeForm::Step { .. } if longest <= 3 * SOON => Pace::AtOnce,
        ChangeForm::Step { .. } => Pace::Unclear,
    };
    (pace, longest)
}
