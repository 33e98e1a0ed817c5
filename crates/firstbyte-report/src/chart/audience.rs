//! An audience before and after a change, as two overlaid distributions.

use super::ecdf;
use super::figure::Figure;
use crate::study::{Digest, Group, Grouping, SPREADS, Series, percentiles};
use firstbyte_core::run::Metric;
use firstbyte_predict::audience::Played;

/// The picture; `labels` name the two ways.
pub fn audience(played: &Played, labels: [&str; 2]) -> Figure {
    let cells = [0, 1].map(|side| {
        let spreads = SPREADS.map(|metric| match metric {
            Metric::Total => percentiles(&played.total[side]),
            Metric::Ttfb => percentiles(&played.first_byte[side]),
            _ => Vec::new(),
        });
        Series { proven: played.total[side].len() as u64, spreads, ..Series::default() }
    });
    let digest = Digest { cells: cells.into(), ..Digest::default() };
    let group = Group { heading: String::new(), cells: vec![0, 1] };
    let grouping = Grouping { groups: vec![group], labels: labels.map(str::to_owned).into() };
    let mut figure = ecdf::figure(&digest, &grouping);
    figure.name = "audience";
    figure.title = "Effect on the audience".into();
    figure.note =
        "Share of simulated visitors whose response arrived within a time: further left is \
                   faster. Lines are drawn through every percent."
            .into();
    figure
}
