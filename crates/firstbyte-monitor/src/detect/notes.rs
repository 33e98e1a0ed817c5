//! Annotations near the time of a change: deployments, configuration changes, or anything else that people noted.

use std::collections::BTreeMap;

use super::history::{History, SeriesLabels};

/// A note may be this many milliseconds before or after a change that it belongs to: people note things before they do
/// them, and after they have noticed them.
const NEAR: i64 = 15 * 60_000;
/// Most notes of one event; the nearest are kept.
const MOST: usize = 5;

/// Something that a person noted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// When it happened, milliseconds since the Unix epoch.
    pub at: i64,
    /// Text of the annotation.
    pub text: String,
    /// Series it concerns, by their tags and "target". A tag that no series has is ignored.
    pub tags: BTreeMap<String, String>,
}

impl Note {
    /// Whether the note may concern `series`: the series has no other value for any of the note's tags.
    fn may_concern(&self, series: &SeriesLabels) -> bool {
        self.tags.iter().all(|(name, value)| match name.as_str() {
            "target" => series.target == *value,
            name => series.tags.get(name).is_none_or(|other| other == value),
        })
    }
}

/// Annotations in or near `from..=until` about any of `series`, in order of time.
pub fn notes_of(
    [from, until]: [i64; 2],
    series: &[u64],
    all: &[SeriesLabels],
    history: &dyn History,
) -> Vec<String> {
    let mut notes = history.notes(from - NEAR, until + NEAR + 1);
    notes.retain(|note| {
        let shows_it = |labels: &&SeriesLabels| series.contains(&labels.id);
        all.iter().filter(shows_it).any(|labels| note.may_concern(labels))
    });
    notes.sort_by_key(|note| (note.at - from).abs().min((note.at - until).abs()));
    notes.truncate(MOST);
    notes.sort_by_key(|note| note.at);
    notes.into_iter().map(|note| note.text).collect()
}
