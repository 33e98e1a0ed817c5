//! Decides which cells are compared with which.

use crate::run::{Cell, Factor};

/// An axis with its values in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Name of the axis.
    pub name: String,
    /// Values; the first one is the base's.
    pub values: Vec<String>,
}

/// The axes of `cells`, with their values in order of appearance.
///
/// That is the given order unless cells were left out as impossible; callers that know the given order pass that
/// instead.
pub fn axes_of(cells: &[Cell]) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for factor in cells.iter().flat_map(|cell| &cell.factors) {
        let at = axes.iter().position(|axis| axis.name == factor.axis).unwrap_or_else(|| {
            axes.push(Axis { name: factor.axis.clone(), values: Vec::new() });
            axes.len() - 1
        });
        if !axes[at].values.contains(&factor.value) {
            axes[at].values.push(factor.value.clone());
        }
    }
    axes
}

/// Axes in the order of their weight in a decision: first the file, then the way of connecting, then the known path,
/// last the target, which is only a name.
const BY_MEANING: [&str; 15] = [
    "run",
    "file",
    "variant",
    "tls",
    "session",
    "http",
    "kex",
    "connection",
    "parallel",
    "scheme",
    // Any other axis goes here.
    "",
    "family",
    "resolver",
    "edge",
    "site",
];

/// Sorts the axes into display order: the one named `by` first, the others by their weight in a decision, whatever
/// order was typed.
pub fn put_in_order(axes: &mut [Axis], by: Option<&str>) {
    let other = BY_MEANING.iter().position(|name| name.is_empty());
    axes.sort_by_key(|axis| {
        let place = BY_MEANING.iter().position(|name| *name == axis.name).or(other);
        (by != Some(axis.name.as_str()), place)
    });
}

/// Purpose of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Along the leading axis: the first with several values.
    Primary,
    /// Along another axis.
    Secondary,
    /// A cell with its twin (A/A): checks whether the experiment finds a difference that does not exist.
    SelfCheck,
}

/// A variant and its base, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Purpose of the comparison.
    pub role: Role,
    /// Cell to compare with.
    pub base: usize,
    /// Cell that is compared.
    pub variant: usize,
    /// Index of the axis along which they differ; absent for twins.
    pub axis: Option<usize>,
}

/// A cell without the base it would be compared with along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseMissing {
    /// Index of the cell.
    pub cell: usize,
    /// Index of the axis.
    pub axis: usize,
    /// Name of the missing base: "TLS 1.2, 0-RTT, Sydney".
    pub base: String,
}

/// All comparisons of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Design {
    /// Possible comparisons: of the first axis, of the others, twins.
    pub pairs: Vec<Pair>,
    /// Impossible comparisons.
    pub base_missing: Vec<BaseMissing>,
}

impl Design {
    /// For every axis with several values, pairs every cell that has another value than the first with the cell that
    /// has the first value and is otherwise the same.
    pub fn new(cells: &[Cell], axes: &[Axis]) -> Self {
        let mut design = Self::default();
        let varied = axes.iter().enumerate().filter(|(_, axis)| axis.values.len() > 1);
        for (order, (index, axis)) in varied.enumerate() {
            let role = if order == 0 { Role::Primary } else { Role::Secondary };
            for (variant, cell) in cells.iter().enumerate() {
                let Some(value) = value_of(cell, &axis.name) else { continue };
                if cell.twin_of.is_some() || *value == axis.values[0] {
                    continue;
                }
                let base = cells.iter().position(|other| {
                    other.twin_of.is_none()
                        && value_of(other, &axis.name) == Some(&axis.values[0])
                        && same_but(cell, other, &axis.name)
                });
                match base {
                    Some(base) => {
                        design.pairs.push(Pair { role, base, variant, axis: Some(index) });
                    }
                    None => design.base_missing.push(BaseMissing {
                        cell: variant,
                        axis: index,
                        base: name_with(cells, cell, axis),
                    }),
                }
            }
        }
        for (variant, cell) in cells.iter().enumerate() {
            if let Some(base) = cell.twin_of.filter(|base| *base < cells.len()) {
                design.pairs.push(Pair { role: Role::SelfCheck, base, variant, axis: None });
            }
        }
        design
    }
}

fn value_of<'a>(cell: &'a Cell, axis: &str) -> Option<&'a String> {
    cell.factors.iter().find(|factor| factor.axis == axis).map(|factor| &factor.value)
}

/// Whether both have the same factors except `axis`. Their URLs may differ: they follow from the factors.
fn same_but(a: &Cell, b: &Cell, axis: &str) -> bool {
    let rest = |cell: &Cell| -> Vec<(String, String)> {
        let mut rest: Vec<_> = cell
            .factors
            .iter()
            .filter(|factor| factor.axis != axis)
            .map(|factor| (factor.axis.clone(), factor.value.clone()))
            .collect();
        rest.sort();
        rest
    };
    rest(a) == rest(b)
}

/// Name that `cell` would have with the first value of `axis`.
fn name_with(cells: &[Cell], cell: &Cell, axis: &Axis) -> String {
    let first = &axis.values[0];
    let has_first = |factor: &&Factor| factor.axis == axis.name && factor.value == *first;
    let label = cells
        .iter()
        .flat_map(|cell| &cell.factors)
        .find(has_first)
        .map_or(first.as_str(), |factor| factor.label.as_str());
    let labels: Vec<&str> = cell
        .factors
        .iter()
        .map(|factor| if factor.axis == axis.name { label } else { factor.label.as_str() })
        .collect();
    labels.join(", ")
}
