//! What reuse, coalescing, resumption, early data, HTTP/3, TLS 1.3 or a nearer edge would save a page.
//!
//! Input: a page load, from whatever source. Output: for each change that applies to it, when the document's first byte and
//! the end of the load would have been. The page is replayed on its own graph of what waited for what, server time as it
//! was; where nothing is changed, that gives the page's own times. Definitions: `docs/measurement.md`, "Pages".

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

/// A nearer edge is so far away.
pub const EDGE: Duration = Duration::from_millis(10);

/// What changes would save a page.
#[derive(Clone, Debug, PartialEq)]
pub struct PageSavings {
    /// When the document's first byte was there.
    pub first_byte: Offset,
    /// When the page was loaded.
    pub load: Offset,
    /// Changes that apply to it, what saves most first.
    pub offered: Vec<Saving>,
    /// Changes that do not, or of which too little is known.
    pub not_offered: Vec<(Change, WhyNot)>,
}

/// One change, and what would come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// What is changed.
    pub change: Change,
    /// When the document's first byte would have been there.
    pub first_byte: Offset,
    /// When the page would have been loaded.
    pub load: Offset,
    /// The earliest and the latest end of the load, by what is not known of the page.
    pub load_between: (Offset, Offset),
}

impl Saving {
    /// How much earlier the page would have been loaded than at `load`; negative where later.
    pub fn saved_ns(&self, load: Offset) -> i64 {
        load.as_nanos() - self.load.as_nanos()
    }

    /// How far off that may be.
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
    /// The model of `page`; absent where it did not load to its end, or a request of it has no times.
    pub fn from_navigation(page: &Navigation) -> Option<Self> {
        let graph = PageGraph::from_navigation(page)?;
        let seen = replay(&graph, &Alteration::none(&graph));
        Some(Self { graph, seen })
    }

    /// The page with `change`.
    ///
    /// # Errors
    /// Why it cannot be said.
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

    /// When the document's first byte was there, likewise.
    pub fn first_byte(&self) -> Offset {
        Offset::from_nanos(self.seen.first_byte)
    }

    /// Every change that could be asked about, with an edge `edge` away for origins that are farther.
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
    /// What changes would save `page`, with an edge `edge` away; absent where the page cannot be replayed: it did not load
    /// to its end, or a request of it has no times.
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
