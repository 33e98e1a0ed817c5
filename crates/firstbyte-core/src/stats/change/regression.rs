//! Weighted least squares of a series on its season and on changes of level.
//!
//! In: slots, weights, changes. Out: what fits, what is left, standard errors. Small: a column for each part of the
//! season and one for each change, by normal equations and Cholesky's factors.

use super::ChangeForm;

/// Where the values of a series lie, and how much each counts.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// Slots, ascending, each once.
    pub(super) slots: Vec<i64>,
    /// Weights; their mean is 1.
    pub(super) weights: Vec<f64>,
    /// Which part of the season each is in, from 0.
    pub(super) season: Vec<usize>,
    /// How many parts the season has; at least 1, which is a level alone.
    pub(super) parts: usize,
}

impl Grid {
    pub(super) fn new(slots: Vec<i64>, weights: Vec<f64>, parts: usize) -> Self {
        let parts = parts.max(1);
        let cycle = i64::try_from(parts).unwrap_or(1);
        let mut season: Vec<usize> =
            slots.iter().map(|slot| usize::try_from(slot.rem_euclid(cycle)).unwrap_or(0)).collect();
        // Parts that nothing lies in would have no level: those that there are, are numbered.
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

/// A form over all slots: how much of the change has come about at each.
pub(super) fn column(form: ChangeForm, slots: &[i64]) -> Vec<f64> {
    slots.iter().map(|slot| form.share_at(*slot)).collect()
}

/// Season and changes, factored: ready to be fitted to any values on the same grid.
#[derive(Clone, Debug)]
pub(super) struct Design {
    columns: Vec<Vec<f64>>,
    /// The lower factor of the normal matrix, row by row.
    factor: Vec<Vec<f64>>,
}

/// What a design says of values.
#[derive(Clone, Debug)]
pub(super) struct Fitted {
    /// The season's levels, then the changes.
    pub(super) coefficients: Vec<f64>,
    /// Values minus what fits.
    pub(super) residuals: Vec<f64>,
}

impl Design {
    /// None where two changes cannot be told apart, or a change from the season.
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

    /// The standard error of change `index` where values of weight 1 have standard deviation 1.
    pub(super) fn unit_error(&self, grid: &Grid, index: usize) -> f64 {
        let mut right = vec![0.0; self.factor.len()];
        right[grid.parts + index] = 1.0;
        self.solve(right)[grid.parts + index].max(0.0).sqrt()
    }

    /// What another form would take off the weighted sum of squares of `residuals`.
    pub(super) fn gain(&self, grid: &Grid, residuals: &[f64], form: ChangeForm) -> f64 {
        let fitted = self.fit(grid, &column(form, &grid.slots));
        let (mut with, mut own) = (0.0, 0.0);
        for ((c, r), w) in fitted.residuals.iter().zip(residuals).zip(&grid.weights) {
            with += w * c * r;
            own += w * c * c;
        }
        // A form that the season and the others make up already adds nothing.
        if own < 1e-6 { 0.0 } else { with * with / own }
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

fn cholesky(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    for i in 0..matrix.len() {
        for j in 0..=i {
            let products: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let left = matrix[i][j] - products;
            if i == j {
                // Relative to what it was: a column that others make up leaves rounding errors alone.
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
