//! What reuse, coalescing, resumption, early data, HTTP/3, TLS 1.3 or a nearer edge would save a page.
//!
//! Input: a page load from any source. Output: for each change that applies to it, when the document's first byte and
//! the end of the load would have been. The page is replayed on its own dependency graph with unchanged server times;
//! without a change, the replay reproduces the page's own times. Definitions: `docs/measurement.md`, "Pages".

mod change;
mod graph;
mod replay;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

pub use change::{Change, WhyNot};
use graph::{Ns, PageGraph};
use replay::{Alteration, Replayed, replay};

use firstbyte_core::timeline::{Navigation, Offset};

/// Round trip to a nearer edge.
pub const EDGE: Duration = Duration::from_millis(10);

/// What changes would save a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageSavings {
    /// When the document's first byte arrived.
    pub first_byte: Offset,
    /// When the page was loaded.
    pub load: Offset,
    /// Changes that apply to the page, largest saving first.
    pub offered: Vec<Saving>,
    /// Changes that do not apply, or that too little is known about.
    pub not_offered: Vec<(Change, WhyNot)>,
}

/// One change and its effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// The change.
    pub change: Change,
    /// When the document's first byte would have arrived.
    pub first_byte: Offset,
    /// When the page would have been loaded.
    pub load: Offset,
    /// Earliest and latest possible end of the load, given the unknowns of the page.
    pub load_between: (Offset, Offset),
}

impl Saving {
    /// How much earlier than `load` the page would have been loaded; negative if later.
    pub fn saved_ns(&self, load: Offset) -> i64 {
        load.as_nanos() - self.load.as_nanos()
    }

    /// How far off the predicted load may be.
    pub fn uncertainty(&self) -> Duration {
        let (from, to) = self.load_between;
        to.since(self.load).max(self.load.since(from))
    }
}

/// A page that can be replayed.
#[derive(Clone, Debug)]
pub struct PageModel {
    graph: PageGraph,
    seen: Replayed,
}

impl PageModel {
    /// The model of `page`; absent if the page did not load completely, or if a request has no times.
    pub fn from_navigation(page: &Navigation) -> Option<Self> {
        let graph = PageGraph::from_navigation(page)?;
        let seen = replay(&graph, &Alteration::none(&graph));
        Some(Self { graph, seen })
    }

    /// Replays the page with `change`.
    ///
    /// # Errors
    /// The reason why it cannot be predicted.
    pub fn predict(&self, change: &Change) -> Result<Saving, WhyNot> {
        let variants = change::variants(&self.graph, change)?;
        let all: Vec<Replayed> =
            variants.iter().map(|changed| replay(&self.graph, changed)).collect();
        let Some(likely) = all.first() else { return Err(WhyNot::NothingToChange) };
        let loads = || all.iter().map(|replayed| replayed.load);
        let between = (loads().min().unwrap_or(likely.load), loads().max().unwrap_or(likely.load));
        Ok(Saving {
            change: change.clone(),
            first_byte: Offset::from_nanos(likely.first_byte),
            load: Offset::from_nanos(likely.load),
            load_between: (Offset::from_nanos(between.0), Offset::from_nanos(between.1)),
        })
    }

    /// When the page was loaded, replayed without a change.
    pub fn load(&self) -> Offset {
        Offset::from_nanos(self.seen.load)
    }

    /// When the document's first byte arrived, replayed without a change.
    pub fn first_byte(&self) -> Offset {
        Offset::from_nanos(self.seen.first_byte)
    }

    /// Every change to consider, with an edge `edge` away for origins that are farther.
    fn changes(&self, edge: Duration) -> Vec<Change> {
        let mut changes = vec![Change::Kept];
        let mut authorities: Vec<&str> = Vec::new();
        for link in self.graph.connections.iter().filter(|link| link.requests > 0) {
            let farther = link
                .round_trip
                .is_none_or(|trip| trip > Ns::try_from(edge.as_nanos()).unwrap_or(Ns::MAX));
            if farther && !authorities.contains(&&*link.authority) {
                authorities.push(&link.authority);
            }
        }
        let own = self.graph.requests.iter().filter_map(|request| request.authority.as_deref());
        let mut origins: Vec<&str> = own.collect();
        origins.sort_unstable();
        origins.dedup();
        if origins.len() > 1 {
            changes.push(Change::Coalesced);
        }
        changes.extend([Change::Resumed, Change::EarlyData, Change::Http3 { authority: None }]);
        if self.graph.connections.iter().any(|link| link.tls.is_some_and(|tls| !tls.version_1_3)) {
            changes.push(Change::Tls13);
        }
        let nearer = authorities.into_iter().map(|authority| Change::NearerEdge {
            authority: authority.to_owned(),
            round_trip: edge,
        });
        changes.extend(nearer);
        changes
    }
}

impl PageSavings {
    /// Computes what changes would save `page`, with an edge `edge` away.
    ///
    /// Absent if the page cannot be replayed: it did not load completely, or a request has no times.
    pub fn from_navigation(page: &Navigation, edge: Duration) -> Option<Self> {
        let model = PageModel::from_navigation(page)?;
        let (mut offered, mut not_offered) = (Vec::new(), Vec::new());
        for change in model.changes(edge) {
            match model.predict(&change) {
                Ok(saving) => offered.push(saving),
                Err(why) => not_offered.push((change, why)),
            }
        }
        offered.sort_by_key(|saving| saving.load);
        Some(Self { first_byte: model.first_byte(), load: model.load(), offered, not_offered })
    }
}
