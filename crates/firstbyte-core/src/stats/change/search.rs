//! The search: finds one change after another until chance explains the rest.

use super::interval::{self, Drawn};
use super::noise::{Correlations, Moments, NoiseModel, added, variance};
use super::prepare::prepare;
use super::regression::{Design, Grid};
use super::scan::Scan;
use super::shape;
use super::{ChangeForm, ChangeSettings, FEWEST_SLOTS, LevelChange, SeriesChanges, SeriesPoint};

/// Nobody reads a list of more changes than this.
const MOST_CHANGES: usize = 12;
/// Simulated series, and rounds, for estimating how much shorter correlations look once changes have been fitted.
const CORRECTING: (usize, usize) = (150, 3);
/// Longest series that gets as many simulated series as the settings ask for. Longer ones get fewer, so that time does
/// not grow with the square of the length; each simulated series then says more.
const LONG: usize = 1_000;
/// Fewest simulated series for a decision, and for an interval.
const FEWEST_DRAWS: [usize; 2] = [199, 399];
/// A long series has a change if none of this many simulated series has a contrast as large; unclear cases are
/// simulated in full.
const CLEAR: usize = 99;

/// Finds changes of level in `points`, ordered by slot, each slot once.
///
/// Returns `None` with fewer values than [`FEWEST_SLOTS`] or than three levels of the shortest length have, if the
/// values are all the same, or if one is not finite.
pub fn find_changes(points: &[SeriesPoint], settings: &ChangeSettings) -> Option<SeriesChanges> {
    let enough = points.len() >= FEWEST_SLOTS.max(3 * settings.shortest);
    let ordered = points.windows(2).all(|pair| pair[0].slot < pair[1].slot);
    if !enough || !ordered || points.iter().any(|p| !p.value.is_finite()) {
        return None;
    }
    let asked = settings.draws;
    let settings = &ChangeSettings { draws: draws_for(asked, points.len()), ..*settings };
    let prepared = prepare(points, settings.season);
    let grid = &prepared.grid;
    let mut random = fastrand::Rng::with_seed(settings.seed);
    let mut forms: Vec<ChangeForm> = Vec::new();
    let mut stage = Stage::look(grid, &prepared.values, &forms, settings, &mut random)?;
    while stage.by_chance <= settings.level && forms.len() < MOST_CHANGES {
        let Some(at) = stage.at else { break };
        let found = shape::fit(grid, &stage.design, &stage.residuals, at, &forms, settings);
        let mut more = forms.clone();
        more.extend(found);
        more.sort_by_key(|form| form.begins());
        shape::refine(grid, &prepared.values, &mut more, settings);
        let Some(next) = Stage::look(grid, &prepared.values, &more, settings, &mut random) else {
            break;
        };
        (forms, stage) = (more, next);
    }
    shape::drop_weak(grid, &prepared.values, &mut forms, stage.noise);
    let design = Design::new(grid, &forms)?;
    // No further change is visible: the rest is noise.
    let bare = |values: &[f64]| Moments::from_residuals(grid, &design.fit(grid, values).residuals);
    let (noise, correction) = correct(grid, &prepared.values, &mut random, bare);
    // Two estimates of a quantity that is hard to measure: use the more cautious one.
    let noise = if stage.noise.inflation() > noise.inflation() { stage.noise } else { noise };
    let draws = settings.draws.max(FEWEST_DRAWS[1].min(asked));
    let settings_of_intervals = &ChangeSettings { draws, ..*settings };
    let drawn = Drawn {
        grid,
        values: &prepared.values,
        forms: &forms,
        noise,
        correction,
        settings: settings_of_intervals,
    };
    let changes = interval::changes(&drawn, &design, &mut random);
    Some(result(
        points,
        &prepared.values,
        grid,
        &design,
        noise,
        changes,
        prepared.outliers,
        &stage,
        settings,
    ))
}

/// Number of simulated series for a decision about a series of length `n`.
fn draws_for(asked: usize, n: usize) -> usize {
    match n > LONG {
        true => (asked * LONG / n).max(FEWEST_DRAWS[0].min(asked)),
        false => asked,
    }
}

/// State of the search after removing known changes: the residuals and the evidence for another change.
struct Stage {
    design: Design,
    residuals: Vec<f64>,
    noise: NoiseModel,
    /// Index at which another level begins, if any.
    at: Option<usize>,
    /// Probability that noise alone has a contrast as large.
    by_chance: f64,
    /// Contrast that noise exceeds with the probability of the settings' level, in standard deviations of a value of
    /// weight 1.
    critical: f64,
}

impl Stage {
    fn look(
        grid: &Grid,
        values: &[f64],
        forms: &[ChangeForm],
        settings: &ChangeSettings,
        random: &mut fastrand::Rng,
    ) -> Option<Self> {
        let design = Design::new(grid, forms)?;
        let residuals = design.fit(grid, values).residuals;
        let scan = scan(grid, forms, settings);
        let seen = standing(grid, &scan, &residuals);
        if seen.moments.variance <= 0.0 {
            return None;
        }
        let (noise, _) = correct(grid, values, random, |values| {
            standing(grid, &scan, &design.fit(grid, values).residuals).moments
        });
        let mut drawn: Vec<f64> = Vec::with_capacity(settings.draws);
        let mut as_large = 0;
        while drawn.len() < settings.draws {
            let noise = noise.draw(grid, random);
            let size = standing(grid, &scan, &design.fit(grid, &noise).residuals).size;
            as_large += usize::from(size >= seen.size);
            drawn.push(size);
            if grid.len() > LONG && drawn.len() == CLEAR && as_large == 0 {
                break;
            }
        }
        drawn.sort_unstable_by(f64::total_cmp);
        let rank = ((1.0 - settings.level) * drawn.len() as f64) as usize;
        let critical =
            drawn.get(rank.min(drawn.len().saturating_sub(1))).copied().unwrap_or(f64::INFINITY);
        Some(Self {
            by_chance: (as_large + 1) as f64 / (drawn.len() + 1) as f64,
            at: seen.at,
            critical: critical * seen.moments.long_run_deviation(),
            design,
            residuals,
            noise,
        })
    }
}

/// Where to look for one more change besides `forms`.
fn scan(grid: &Grid, forms: &[ChangeForm], settings: &ChangeSettings) -> Scan {
    let at = |slot: i64| grid.slots.partition_point(|other| *other < slot);
    let mut bounds: Vec<usize> =
        forms.iter().flat_map(|form| [at(form.begins()), at(form.ends())]).collect();
    bounds.sort_unstable();
    Scan::new(grid, settings.shortest, &bounds)
}

/// The largest contrast, in units of its standard deviation under noise.
struct Standing {
    at: Option<usize>,
    size: f64,
    /// Moments of the residuals without the most likely further changes, which would make noise look longer-lasting.
    moments: Moments,
}

fn standing(grid: &Grid, scan: &Scan, residuals: &[f64]) -> Standing {
    let first = scan.largest(residuals, &grid.weights);
    // A slow drift is not a staircase: if a smooth curve leaves a smaller remainder, remove that instead.
    let stairs = scan.without_stairs(residuals, &grid.weights);
    let smooth = scan.without_smooth(residuals, &grid.weights);
    let is_smooth = variance(grid, &smooth) < variance(grid, &stairs);
    let moments = Moments::from_residuals(grid, if is_smooth { &smooth } else { &stairs });
    let deviation = moments.long_run_deviation().max(f64::MIN_POSITIVE);
    Standing {
        at: first.map(|contrast| contrast.at),
        size: first.map_or(0.0, |contrast| contrast.z.abs() / deviation),
        moments,
    }
}

/// Estimates the noise that `look` would see as it sees `values`, and by how much correlations look too small.
///
/// Fitting levels to persistent noise removes much of it, and the residuals look less persistent. So series of a model
/// are simulated, treated in the same way, and the model is corrected by their error (Kilian 1998, on the bias of
/// autoregressions).
fn correct(
    grid: &Grid,
    values: &[f64],
    random: &mut fastrand::Rng,
    look: impl Fn(&[f64]) -> Moments,
) -> (NoiseModel, Correlations) {
    let seen = look(values).correlations;
    let mut missed = Correlations::default();
    let mut model = NoiseModel::closest_to(&seen, grid.len());
    let (draws, rounds) = CORRECTING;
    // As many values as from a year: with a long series each simulated one says more, and there is less to correct.
    let draws = if grid.len() > LONG { (draws * 365 / grid.len()).max(10) } else { draws };
    for _ in 0..rounds {
        let mut mean = Correlations::default();
        for _ in 0..draws {
            let looks = look(&model.draw(grid, random)).correlations;
            mean.iter_mut().zip(looks).for_each(|(mean, one)| *mean += one / draws as f64);
        }
        let meant = model.correlations();
        missed = std::array::from_fn(|lag| meant[lag] - mean[lag]);
        model = NoiseModel::closest_to(&added(&seen, &missed), grid.len());
    }
    (model, missed)
}

#[allow(clippy::too_many_arguments, reason = "what was worked out, put together once")]
fn result(
    points: &[SeriesPoint],
    values: &[f64],
    grid: &Grid,
    design: &Design,
    noise: NoiseModel,
    changes: Vec<LevelChange>,
    outliers: Vec<usize>,
    stage: &Stage,
    settings: &ChangeSettings,
) -> SeriesChanges {
    let fit = design.fit(grid, values);
    let fitted: Vec<f64> = values.iter().zip(&fit.residuals).map(|(v, r)| v - r).collect();
    let base = interval::base_level(grid, &fit);
    let mut season = vec![None; settings.season.max(1)];
    let mut levels = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        let apart = fit.coefficients[grid.season[index]] - base;
        let part = point.slot.rem_euclid(season.len() as i64) as usize;
        season[part] = Some(apart);
        levels.push(fitted[index] - apart);
    }
    let moments = Moments::from_residuals(grid, &fit.residuals);
    let middle = grid.weights.iter().sum::<f64>() / 4.0;
    SeriesChanges {
        changes,
        fitted,
        levels,
        season,
        outliers,
        spread: moments.variance.sqrt(),
        next_slot: noise.correlations()[0],
        // Beyond the bound by 1.28 standard errors, so that nine in ten lie above it.
        would_be_seen: (stage.critical + 1.2816 * (moments.variance * noise.inflation()).sqrt())
            / middle.sqrt(),
    }
}
