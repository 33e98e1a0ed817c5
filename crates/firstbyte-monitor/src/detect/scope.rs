//! Finds the scope of a change: the fewest tags that distinguish the series that changed from those that did not.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Quorum, Scope};
use super::history::SeriesLabels;

/// The scope of a change that the series `changed` show, out of `all` series.
pub fn scope(changed: &BTreeSet<u64>, all: &[SeriesLabels]) -> Scope {
    let shows = |series: &&SeriesLabels| changed.contains(&series.id);
    let names = |series: &mut dyn Iterator<Item = &SeriesLabels>| -> BTreeSet<String> {
        series.map(|series| series.target.clone()).collect()
    };
    let targets = names(&mut all.iter().filter(shows));
    let of = names(&mut all.iter()).len();
    let mut within: Vec<&SeriesLabels> =
        all.iter().filter(|series| targets.contains(&series.target)).collect();
    let mut common = common(all.iter().filter(shows));
    let mut tags = BTreeMap::new();
    loop {
        // Choose the tag that leaves the fewest unchanged series.
        let left = |tag: &String, value: &String| {
            within.iter().filter(|series| series.tags.get(tag) == Some(value)).count()
        };
        let best = common.iter().min_by_key(|(tag, value)| left(tag, value));
        match best.map(|(tag, value)| (tag.clone(), value.clone())) {
            Some((tag, value)) if left(&tag, &value) < within.len() => {
                within.retain(|series| series.tags.get(&tag) == Some(&value));
                common.remove(&tag);
                tags.insert(tag, value);
            }
            _ => break,
        }
    }
    let mut quorum = BTreeMap::new();
    let seen = within.iter().filter(|series| changed.contains(&series.id)).count();
    quorum.insert("series".to_owned(), Quorum { seen, of: within.len() });
    let keys: BTreeSet<&String> = within.iter().flat_map(|series| series.tags.keys()).collect();
    for key in keys.into_iter().filter(|key| !tags.contains_key(*key)) {
        let values = |only: bool| -> BTreeSet<&String> {
            let counted = within.iter().filter(|series| !only || changed.contains(&series.id));
            counted.filter_map(|series| series.tags.get(key)).collect()
        };
        let (seen, of) = (values(true).len(), values(false).len());
        if of > 1 {
            quorum.insert(key.clone(), Quorum { seen, of });
        }
    }
    Scope { targets: targets.into_iter().collect(), of, tags, quorum }
}

/// Tags with the same value in all series.
fn common<'a>(mut series: impl Iterator<Item = &'a SeriesLabels>) -> BTreeMap<String, String> {
    let Some(first) = series.next() else { return BTreeMap::new() };
    let mut common = first.tags.clone();
    for other in series {
        common.retain(|tag, value| other.tags.get(tag) == Some(value));
    }
    common
}
