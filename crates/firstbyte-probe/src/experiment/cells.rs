//! The cells of an experiment: every possible combination of the axes' values.

use firstbyte_core::run::{Cell, Factor, Standing};
use firstbyte_core::timeline::Sample;

use super::axis::{self, Axis, Visit, WayPart};
use super::schedule::Visitor;
use crate::probe::{Clients, Equipment, SetupError};

/// A cell that can be visited.
#[derive(Debug)]
pub struct Variant {
    /// Its name and factors.
    pub cell: Cell,
    /// How to visit it.
    pub visit: Visit,
    parts: Vec<WayPart>,
}

/// Two variants are equal if their cells and visits are.
impl PartialEq for Variant {
    fn eq(&self, other: &Self) -> bool {
        self.cell == other.cell && self.visit == other.visit
    }
}

impl Variant {
    /// How `sample` counts.
    pub fn standing(&self, sample: &Sample) -> Standing {
        axis::standing(&self.parts, sample)
    }

    /// Creates the visitor that takes its samples. Sessions and open connections are not shared with other cells.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn visitor(&self, equipment: &Equipment) -> Result<Visitor, SetupError> {
        let Visit { target, options } = &self.visit;
        Ok(Visitor { prober: equipment.prober(options)?, target: target.clone() })
    }
}

/// The matrix of all combinations of axis values.
#[derive(Debug, Default)]
pub struct Matrix {
    /// The cells that can be visited.
    pub variants: Vec<Variant>,
    /// Cells that cannot be visited, each with the reason.
    pub left_out: Vec<(Cell, String)>,
}

impl Matrix {
    /// All combinations of `axes` on top of `base`; the last axis changes fastest.
    pub fn new(axes: &[Axis], base: &Visit) -> Self {
        let mut matrix = Self::default();
        let total: usize = axes.iter().map(|axis| axis.values.len()).product();
        for index in 0..total {
            let mut rest = index;
            let mut chosen = Vec::with_capacity(axes.len());
            for axis in axes.iter().rev() {
                chosen.push((axis.name, &axis.values[rest % axis.values.len()]));
                rest /= axis.values.len();
            }
            chosen.reverse();
            let mut parts: Vec<WayPart> =
                chosen.iter().flat_map(|(_, value)| value.parts.iter().cloned()).collect();
            let mut visit = base.clone();
            let possible = axis::apply(&mut parts, &mut visit);
            let factors = chosen.iter().map(|(axis, value)| Factor {
                axis: (*axis).to_owned(),
                value: value.written.clone(),
                label: value.label.clone(),
            });
            let cell = Cell {
                factors: factors.collect(),
                url: visit.target.url_with_zone(),
                twin_of: None,
            };
            match possible {
                Ok(()) => matrix.variants.push(Variant { cell, visit, parts }),
                Err(why) => matrix.left_out.push((cell, why)),
            }
        }
        matrix
    }

    /// Removes the cells whose client does not support what they ask for.
    pub fn leave_out_impossible(&mut self, clients: &Clients) {
        let variants = std::mem::take(&mut self.variants);
        for variant in variants {
            match clients.check(&variant.visit.target, &variant.visit.options) {
                Ok(()) => self.variants.push(variant),
                Err(why) => self.left_out.push((variant.cell, why)),
            }
        }
    }

    /// Adds the first cell a second time, to check the experiment itself (A/A test).
    pub fn add_twin(&mut self) {
        if let Some(first) = self.variants.first() {
            let cell = Cell { twin_of: Some(0), ..first.cell.clone() };
            let twin = Variant { cell, visit: first.visit.clone(), parts: first.parts.clone() };
            self.variants.push(twin);
        }
    }
}
