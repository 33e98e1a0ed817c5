//! Weighted least squares of a series on its season and on changes of level.
//!
//! Input: slots, weights, changes. Output: fit, residuals, standard errors. The problem is small: a column for each
//! part of the season and one for each change, solved by normal equations and Cholesky factorisation.

use super::ChangeForm;

/// Positions of a series' values, and their weights.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Slots, ascending, each once.
    pub(super) slots: Vec<i64>,
    /// Weights; their mean is 1.
    pub(super) weights: Vec<f64>,
    /// Part of the season of each slot, from 0.
    pub(super) season: Vec<usize>,
    /// Number of parts of the season; at least 1, which is a level alone.
    pub(super) parts: usize,
}

impl Grid {
    pub(super) fn new(slots: Vec<i64>, weights: Vec<f64>, parts: usize) -> Self {
        let parts = parts.max(1);
        let cycle = i64::try_from(parts).unwrap_or(1);
        let mut season: Vec<usize> =
            slots.iter().map(|slot| usize::try_from(slot.rem_euclid(cycle)).unwrap_or(0)).collect();
        // Empty parts would have no level, so only the parts that occur are numbered.
        let mut seen: Vec<usize> = season.clone();
        seen.sort_unstable();
        seen.dedup();
        for part in &mut season {
            *part = seen.binary_search(part).unwrap_or(0);
        }
        Self { slots, weights, season, parts: seen.len().max(1) }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

/// A form over all slots: share of the change completed at each.
pub(super) fn column(form: ChangeForm, slots: &[i64]) -> Vec<f64> {
    slots.iter().map(|slot| form.share_at(*slot)).collect()
}

/// Season and changes, factorised: ready to be fitted to any values on the same grid.
#[derive(Clone, Debug)]
pub(super) struct Design {
    columns: Vec<Vec<f64>>,
    /// The lower factor of the normal matrix, row by row.
    factor: Vec<Vec<f64>>,
}

/// Result of fitting a design to values.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    /// Levels of the season, then sizes of the changes.
    pub(super) coefficients: Vec<f64>,
    /// Values minus the fit.
    pub(super) residuals: Vec<f64>,
}

impl Design {
    /// `None` if two changes cannot be told apart, or a change from the season.
    pub(super) fn new(grid: &Grid, forms: &[ChangeForm]) -> Option<Self> {
        let columns: Vec<Vec<f64>> = forms.iter().map(|form| column(*form, &grid.slots)).collect();
        let size = grid.parts + columns.len();
        let mut normal = vec![vec![0.0; size]; size];
        for (index, (weight, part)) in grid.weights.iter().zip(&grid.season).enumerate() {
            normal[*part][*part] += weight;
            for (i, column) in columns.iter().enumerate() {
                let row = grid.parts + i;
                normal[row][*part] += weight * column[index];
                for (j, other) in columns.iter().take(i + 1).enumerate() {
                    normal[row][grid.parts + j] += weight * column[index] * other[index];
                }
            }
        }
        Some(Self { columns, factor: cholesky(normal)? })
    }

    pub(super) fn fit(&self, grid: &Grid, values: &[f64]) -> Fitted {
        let mut right = vec![0.0; self.factor.len()];
        for ((value, weight), part) in values.iter().zip(&grid.weights).zip(&grid.season) {
            right[*part] += weight * value;
        }
        for (i, column) in self.columns.iter().enumerate() {
            let products = values.iter().zip(&grid.weights).zip(column);
            right[grid.parts + i] = products.map(|((v, w), c)| v * w * c).sum();
        }
        let coefficients = self.solve(right);
        let mut residuals: Vec<f64> =
            values.iter().zip(&grid.season).map(|(v, part)| v - coefficients[*part]).collect();
        for (column, size) in self.columns.iter().zip(&coefficients[grid.parts..]) {
            residuals.iter_mut().zip(column).for_each(|(left, c)| *left -= size * c);
        }
        Fitted { coefficients, residuals }
    }

    /// Standard error of change `index` if values of weight 1 have standard deviation 1.
    pub(super) fn unit_error(&self, grid: &Grid, index: usize) -> f64 {
        let mut right = vec![0.0; self.factor.len()];
        right[grid.parts + index] = 1.0;
        self.solve(right)[grid.parts + index].max(0.0).sqrt()
    }

    /// Reduction of the weighted sum of squares of `residuals` by another form.
    #[cfg(test)]
    fn gain(&self, grid: &Grid, residuals: &[f64], form: ChangeForm) -> f64 {
        let fitted = self.fit(grid, &column(form, &grid.slots));
        let (mut with, mut own) = (0.0, 0.0);
        for ((c, r), w) in fitted.residuals.iter().zip(residuals).zip(&grid.weights) {
            with += w * c * r;
            own += w * c * c;
        }
        // A form that is already a combination of the others adds nothing.
        if own < 1e-6 { 0.0 } else { with * with / own }
    }

    /// The reductions by many forms, each in time independent of the series' length.
    pub(super) fn gains<'a>(&'a self, grid: &'a Grid, residuals: &[f64]) -> Gains<'a> {
        let weighted: Vec<f64> = residuals.iter().zip(&grid.weights).map(|(r, w)| r * w).collect();
        let of_parts = (0..grid.parts).map(|part| {
            let members = grid.weights.iter().zip(&grid.season);
            members.map(|(w, own)| if *own == part { *w } else { 0.0 }).collect::<Vec<f64>>()
        });
        let of_columns = self.columns.iter().map(|column| {
            column.iter().zip(&grid.weights).map(|(c, w)| c * w).collect::<Vec<f64>>()
        });
        Gains {
            design: self,
            grid,
            residuals: Running::new(grid, &weighted),
            weights: Running::new(grid, &grid.weights),
            regressors: of_parts.chain(of_columns).map(|x| Running::new(grid, &x)).collect(),
        }
    }

    fn solve(&self, mut right: Vec<f64>) -> Vec<f64> {
        let size = self.factor.len();
        for i in 0..size {
            let known: f64 = (0..i).map(|j| self.factor[i][j] * right[j]).sum();
            right[i] = (right[i] - known) / self.factor[i][i];
        }
        for i in (0..size).rev() {
            let known: f64 = (i + 1..size).map(|j| self.factor[j][i] * right[j]).sum();
            right[i] = (right[i] - known) / self.factor[i][i];
        }
        right
    }
}

/// Running sums of a series: of its values, of values times slot, and of values times slot squared. Slots count from
/// the first one.
struct Running([Vec<f64>; 3]);

impl Running {
    fn new(grid: &Grid, values: &[f64]) -> Self {
        let first = grid.slots[0];
        let mut sums = [0.0; 3];
        let mut all: [Vec<f64>; 3] = Default::default();
        all.iter_mut().for_each(|all| all.push(0.0));
        for (value, slot) in values.iter().zip(&grid.slots) {
            let slot = (slot - first) as f64;
            let terms = [*value, value * slot, value * slot * slot];
            for ((all, sum), term) in all.iter_mut().zip(&mut sums).zip(terms) {
                *sum += term;
                all.push(*sum);
            }
        }
        Self(all)
    }

    fn between(&self, power: usize, from: usize, until: usize) -> f64 {
        self.0[power][until] - self.0[power][from]
    }
}

/// A form on a grid: position and slope of its rise.
struct Course {
    /// Indices where the form begins to rise, and where it is complete.
    from: usize,
    until: usize,
    /// Slot where it begins, counted from the first one, and the reciprocal of its duration.
    begin: f64,
    slope: f64,
}

impl Course {
    fn new(grid: &Grid, form: ChangeForm) -> Self {
        let at = |slot: i64| grid.slots.partition_point(|other| *other < slot);
        let (begin, slope) = match form {
            ChangeForm::Step { .. } => (0, 0.0),
            ChangeForm::Ramp { from, until } => {
                (from - grid.slots[0], 1.0 / (until - from).max(1) as f64)
            }
        };
        let until = at(form.ends());
        Self { from: at(form.begins()).min(until), until, begin: begin as f64, slope }
    }

    /// Inner product with a series.
    fn product(&self, series: &Running) -> f64 {
        let (from, until) = (self.from, self.until);
        let rising = series.between(1, from, until) - self.begin * series.between(0, from, until);
        self.slope * rising + series.between(0, until, series.0[0].len() - 1)
    }

    /// Weighted sum of squares.
    fn square(&self, weights: &Running) -> f64 {
        let sum = |power| weights.between(power, self.from, self.until);
        let rising = sum(2) - 2.0 * self.begin * sum(1) + self.begin * self.begin * sum(0);
        let rest = weights.between(0, self.until, weights.0[0].len() - 1);
        self.slope * self.slope * rising + rest
    }
}

/// Computes reductions of the weighted sum of squares of residuals by forms.
pub(super) struct Gains<'a> {
    design: &'a Design,
    grid: &'a Grid,
    residuals: Running,
    weights: Running,
    regressors: Vec<Running>,
}

impl Gains<'_> {
    /// Reduction by a single form.
    pub(super) fn gain(&self, form: ChangeForm) -> f64 {
        let course = Course::new(self.grid, form);
        // The residuals are orthogonal to the regressors, so their product with the form equals that with its
        // orthogonal part.
        let with = course.product(&self.residuals);
        let apart = self.apart(&course);
        let own = course.square(&self.weights) - apart.iter().map(|a| a * a).sum::<f64>();
        if own < 1e-6 { 0.0 } else { with * with / own }
    }

    /// Reduction by two steps together.
    pub(super) fn gain_of_steps(&self, [first, second]: [i64; 2]) -> f64 {
        let [a, b] = [first, second].map(|at| Course::new(self.grid, ChangeForm::Step { at }));
        let [of_a, of_b] = [&a, &b].map(|course| self.apart(course));
        let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        let own_a = a.square(&self.weights) - product(&of_a, &of_a);
        let own_b = b.square(&self.weights) - product(&of_b, &of_b);
        // The later step lies within the earlier one.
        let both = b.square(&self.weights) - product(&of_a, &of_b);
        let [with_a, with_b] = [&a, &b].map(|course| course.product(&self.residuals));
        let determinant = own_a * own_b - both * both;
        if determinant < 1e-9 * own_a * own_b {
            return 0.0;
        }
        (own_b * with_a * with_a - 2.0 * both * with_a * with_b + own_a * with_b * with_b)
            / determinant
    }

    /// Projection of a form onto the regressors, in orthogonal coordinates.
    fn apart(&self, course: &Course) -> Vec<f64> {
        let factor = &self.design.factor;
        let mut apart: Vec<f64> = Vec::with_capacity(factor.len());
        for (row, regressor) in factor.iter().zip(&self.regressors) {
            let known: f64 = row.iter().zip(&apart).map(|(f, a)| f * a).sum();
            apart.push((course.product(regressor) - known) / row[apart.len()]);
        }
        apart
    }
}

fn cholesky(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for i in 0..matrix.len() {
        for j in 0..=i {
            let products: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let left = matrix[i][j] - products;
            if i == j {
                // Relative to the original: a column that is a combination of others leaves only rounding errors.
                if left <= 1e-9 * matrix[i][i].abs() {
                    return None;
                }
                matrix[i][i] = left.sqrt();
            } else {
                matrix[i][j] = left / matrix[j][j];
            }
        }
    }
    Some(matrix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gains_are_what_fitting_the_form_gives() {
        let mut random = fastrand::Rng::with_seed(3);
        let slots: Vec<i64> = (18_000..18_400).filter(|_| random.u8(0..10) > 0).collect();
        let weights = slots.iter().map(|_| 0.5 + random.f64()).collect();
        let grid = Grid::new(slots, weights, 7);
        let forms =
            [ChangeForm::Step { at: 18_100 }, ChangeForm::Ramp { from: 18_200, until: 18_260 }];
        let design = Design::new(&grid, &forms).unwrap();
        let values: Vec<f64> = grid.slots.iter().map(|_| random.f64() * 5.0).collect();
        let residuals = design.fit(&grid, &values).residuals;
        let gains = design.gains(&grid, &residuals);
        for _ in 0..200 {
            let from = random.i64(18_000..18_390);
            let until = from + random.i64(1..200);
            for form in [ChangeForm::Step { at: from }, ChangeForm::Ramp { from, until }] {
                let (fast, plain) = (gains.gain(form), design.gain(&grid, &residuals, form));
                assert!((fast - plain).abs() < 1e-6 * (1.0 + plain), "{form:?} {fast} {plain}");
            }
            // Two steps: the first, and the second in addition to it.
            let first = ChangeForm::Step { at: from.max(18_010) };
            let Some(with) = Design::new(&grid, &[forms[0], forms[1], first]) else { continue };
            let left = with.fit(&grid, &residuals).residuals;
            let plain = design.gain(&grid, &residuals, first)
                + with.gain(&grid, &left, ChangeForm::Step { at: until });
            let fast = gains.gain_of_steps([from.max(18_010), until]);
            let [first, second] =
                [from.max(18_010), until].map(|at| grid.slots.partition_point(|s| *s < at));
            // A step that is already in the design adds nothing to the other one.
            let known = grid.slots.partition_point(|s| *s < 18_100);
            let is_pair =
                second > first && second < grid.len() && ![first, second].contains(&known);
            assert!(!is_pair || (fast - plain).abs() < 1e-5 * (1.0 + plain), "{fast} {plain}");
        }
    }
}
