//! Groups cells that differ only in the compared axes.
//!
//! An axis on which a variant differs from its base is a *contrast*; the values on the other axes form the group's
//! heading. For example, all connections to Sydney are in one group and share a scale, and those to London have
//! another.

use firstbyte_core::compare::Role;
use firstbyte_core::run::Cell;

use super::Study;

/// Cells that are compared with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Their common properties; empty if there is only one group.
    pub heading: String,
    /// Indices of the cells.
    pub cells: Vec<usize>,
}

/// All cells in groups, with their labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grouping {
    pub groups: Vec<Group>,
    /// For each cell, what distinguishes it within its group.
    pub labels: Vec<String>,
}

impl Grouping {
    pub(crate) fn from_study(study: &Study<'_>) -> Self {
        let cells = study.cells;
        let contrasts = contrasts(study);
        let label = |cell: &Cell, contrast: bool| {
            let parts: Vec<&str> = cell
                .factors
                .iter()
                .filter(|f| contrasts.contains(&f.axis.as_str()) == contrast)
                .filter(|f| varies(cells, &f.axis))
                .map(|f| f.label.as_str())
                .collect();
            parts.join(", ")
        };
        let mut groups: Vec<Group> = Vec::new();
        for (index, cell) in cells.iter().enumerate() {
            let heading = label(cell, false);
            match groups.iter_mut().find(|g| g.heading == heading) {
                Some(group) => group.cells.push(index),
                None => groups.push(Group { heading, cells: vec![index] }),
            }
        }
        let labels = cells
            .iter()
            .map(|cell| match label(cell, true) {
                own if own.is_empty() => cell.name(),
                own if cell.twin_of.is_some() => format!("{own} (A/A)"),
                own => own,
            })
            .collect();
        Self { groups, labels }
    }

    /// The group of a cell.
    pub(crate) fn of_cell(&self, cell: usize) -> Option<&Group> {
        self.groups.iter().find(|g| g.cells.contains(&cell))
    }
}

/// The axes on which a variant differs from its base in the run's primary comparisons; without any, all axes.
fn contrasts<'a>(study: &Study<'a>) -> Vec<&'a str> {
    let mut axes = Vec::new();
    for effect in study.effects.iter().filter(|e| e.role == Role::Primary) {
        let (Some(base), Some(variant)) =
            (study.cells.get(effect.base), study.cells.get(effect.variant))
        else {
            continue;
        };
        for factor in base.factors.iter().filter(|f| !variant.factors.contains(f)) {
            if !axes.contains(&factor.axis.as_str()) {
                axes.push(factor.axis.as_str());
            }
        }
    }
    if axes.is_empty() {
        let all = study.cells.iter().flat_map(|c| &c.factors).map(|f| f.axis.as_str());
        axes.extend(all);
    }
    axes
}

/// The two variants and the place: "TLS 1.3 vs. TLS 1.2" and "Sydney, IPv4".
pub(crate) fn pair_names(cells: &[Cell], base: usize, variant: usize) -> (String, String) {
    let (Some(b), Some(v)) = (cells.get(base), cells.get(variant)) else {
        return (String::new(), String::new());
    };
    let labels = |of: &Cell, other: &Cell, shared: bool| {
        let factors = of.factors.iter().filter(|f| other.factors.contains(f) == shared);
        let factors = factors.filter(|f| !shared || varies(cells, &f.axis));
        factors.map(|f| f.label.as_str()).collect::<Vec<_>>().join(", ")
    };
    let place = labels(v, b, true);
    match (labels(v, b, false), labels(b, v, false)) {
        (own, _) if own.is_empty() => (format!("{} vs. itself", b.name()), String::new()),
        (own, other) => (format!("{own} vs. {other}"), place),
    }
}

fn varies(cells: &[Cell], axis: &str) -> bool {
    let mut values = cells.iter().map(|c| c.factors.iter().find(|f| f.axis == axis));
    let first = values.next();
    values.any(|v| Some(v) != first)
}
