//! Size and time of a change, with intervals: by simulating series like the fitted one, and analysing them in the same
//! way.

use super::noise::{Correlations, Moments, NoiseModel, added};
use super::regression::{Design, Fitted, Grid};
use super::{ChangeForm, ChangeSettings, LevelChange, shape};
use crate::stats::Interval;
use crate::stats::linear::at_rank;

/// Share of simulated series beyond either end of a 95 % interval. With 2.5 %, fewer than 95 % of simulated intervals
/// would cover the true size, because the simulated model is an estimate itself.
const TAIL: f64 = 0.018;

/// Inputs of the simulation.
pub(super) struct Drawn<'a> {
    pub(super) grid: &'a Grid,
    pub(super) values: &'a [f64],
    pub(super) forms: &'a [ChangeForm],
    pub(super) noise: NoiseModel,
    /// By how much the correlations of residuals look too small.
    pub(super) correction: Correlations,
    pub(super) settings: &'a ChangeSettings,
}

/// The level before all changes: the mean over the season's parts, each counted once.
pub(super) fn base_level(grid: &Grid, fit: &Fitted) -> f64 {
    fit.coefficients[..grid.parts].iter().sum::<f64>() / grid.parts as f64
}

/// The changes of the design, each with its size and its intervals.
pub(super) fn changes(
    drawn: &Drawn<'_>,
    design: &Design,
    random: &mut fastrand::Rng,
) -> Vec<LevelChange> {
    let (grid, forms) = (drawn.grid, drawn.forms);
    if forms.is_empty() {
        return Vec::new();
    }
    let fit = design.fit(grid, drawn.values);
    let moments = Moments::from_residuals(grid, &fit.residuals);
    // Fitted values are closer to the data than the true ones.
    let freedom =
        grid.len() as f64 / (grid.len().saturating_sub(grid.parts + forms.len())).max(1) as f64;
    let deviation = (moments.variance * freedom).sqrt();
    let own = long_run(&moments, drawn.noise);
    let again = draw(drawn, &fit, deviation, random);
    let mut before = base_level(grid, &fit);
    let mut found = Vec::new();
    for (index, form) in forms.iter().enumerate() {
        let difference = fit.coefficients[grid.parts + index];
        let error = own * design.unit_error(grid, index);
        let mut ratios: Vec<f64> = again.iter().map(|one| one.ratios[index]).collect();
        let mut moved: Vec<f64> = again.iter().map(|one| one.moved[index] as f64).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        moved.sort_unstable_by(f64::total_cmp);
        let quantile = |sorted: &[f64], q: f64| at_rank(sorted, q * (sorted.len() - 1) as f64);
        let interval = Interval {
            low: difference - quantile(&ratios, 1.0 - TAIL) * error,
            high: difference - quantile(&ratios, TAIL) * error,
        };
        let (pace, longest) = shape::pace(grid, drawn.values, forms, index, own);
        let between = match form {
            ChangeForm::Step { at } => [
                (at - quantile(&moved, 0.975).round() as i64).max(grid.slots[0]),
                (at - quantile(&moved, 0.025).round() as i64).min(grid.slots[grid.len() - 1]),
            ],
            ChangeForm::Ramp { from, until } => [*from, *until],
        };
        let after = before + difference;
        found.push(LevelChange {
            form: *form,
            pace,
            before,
            after,
            difference,
            interval,
            between,
            longest,
        });
        before = after;
    }
    found
}

/// Standard deviation that independent values would need for sums this uncertain.
fn long_run(moments: &Moments, noise: NoiseModel) -> f64 {
    (moments.variance * noise.inflation()).sqrt()
}

/// One simulated series: for each change, the error of its size in the series' own standard errors, and the error of
/// its time in slots.
struct Again {
    ratios: Vec<f64>,
    moved: Vec<i64>,
}

fn draw(drawn: &Drawn<'_>, fit: &Fitted, deviation: f64, random: &mut fastrand::Rng) -> Vec<Again> {
    let grid = drawn.grid;
    let truth = &fit.coefficients[grid.parts..];
    let fitted: Vec<f64> = drawn.values.iter().zip(&fit.residuals).map(|(v, r)| v - r).collect();
    (0..drawn.settings.draws)
        .filter_map(|_| {
            let noise = drawn.noise.draw(grid, random);
            let values: Vec<f64> =
                fitted.iter().zip(noise).map(|(f, e)| f + deviation * e).collect();
            let forms = relocate(drawn, fit, &values);
            let design = Design::new(grid, &forms)?;
            let again = design.fit(grid, &values);
            let moments = Moments::from_residuals(grid, &again.residuals);
            // The persistence of the noise is estimated again, as for the series itself: its uncertainty is a large
            // part of the uncertainty of a level.
            let looks = added(&moments.correlations, &drawn.correction);
            let own = long_run(&moments, NoiseModel::closest_to(&looks, grid.len()));
            let mut one = Again { ratios: Vec::new(), moved: Vec::new() };
            for (index, form) in forms.iter().enumerate() {
                let error = own * design.unit_error(grid, index);
                one.ratios.push((again.coefficients[grid.parts + index] - truth[index]) / error);
                one.moved.push(form.begins() - drawn.forms[index].begins());
            }
            Some(one)
        })
        .collect()
}

/// Where each step would have been found in a simulated series; ramps stay in place.
fn relocate(drawn: &Drawn<'_>, fit: &Fitted, values: &[f64]) -> Vec<ChangeForm> {
    let grid = drawn.grid;
    let n = grid.len();
    let mut forms = drawn.forms.to_vec();
    for (index, form) in forms.iter_mut().enumerate() {
        let ChangeForm::Step { at } = *form else { continue };
        let low = if index == 0 { 0 } else { position(grid, drawn.forms[index - 1].ends()) };
        let high = drawn.forms.get(index + 1).map_or(n, |form| position(grid, form.begins()));
        // Without the season and the other changes, as fitted: this change and noise remain.
        let own = position(grid, at);
        let size = fit.coefficients[grid.parts + index];
        let left: Vec<f64> = (low..high)
            .map(|i| {
                let fitted = drawn.values[i] - fit.residuals[i];
                values[i] - fitted + if i >= own { size } else { 0.0 }
            })
            .collect();
        let margin = drawn.settings.shortest.min((high - low) / 3).max(1);
        if let Some(found) = best_step(&left, &grid.weights[low..high], margin) {
            *form = ChangeForm::Step { at: grid.slots[low + found] };
        }
    }
    forms
}

fn position(grid: &Grid, slot: i64) -> usize {
    grid.slots.partition_point(|other| *other < slot)
}

/// The index where the means before and after differ most, in terms of their errors.
fn best_step(values: &[f64], weights: &[f64], margin: usize) -> Option<usize> {
    let total: f64 = weights.iter().sum();
    let all: f64 = values.iter().zip(weights).map(|(v, w)| v * w).sum();
    let (mut sum, mut weight) = (0.0, 0.0);
    let mut best = None;
    let mut most = -1.0;
    for (index, (value, w)) in values.iter().zip(weights).enumerate() {
        if index >= margin && index + margin <= values.len() {
            let rest = total - weight;
            let difference = (all - sum) / rest - sum / weight;
            let square = difference * difference * rest * weight / total;
            if square > most {
                most = square;
                best = Some(index);
            }
        }
        sum += value * w;
        weight += w;
    }
    best
}
