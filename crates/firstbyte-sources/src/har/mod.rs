//! HTTP Archives that other programs wrote (HAR 1.2): what their entries say of connections, by rules for each creator.
//!
//! Input: the bytes of a file, as they come. Output: entries without what lets somebody in (fields, cookies, bodies, queries),
//! judged by the `rules` of the program that wrote them; or the same file, [`cleaned`](clean). Nothing is held of a
//! document but that. What a creator does not say is absent; what it cannot have meant is a [`HarFlaw`].

mod clean;
mod date;
mod entry;
mod json;
mod judge;
mod kept;
mod page;
mod read;
mod rules;
mod summary;
#[cfg(test)]
mod tests;
mod url;

pub use clean::{CleanError, Cleaned, clean};
pub use entry::{HarArchive, HarEnd, HarEntry, HarFlaw, HarPage, HarSpan, HarTimings};
pub use json::JsonFlaw;
pub use judge::{HarExchange, HarOutcome, HarPhases};
pub use page::page;
pub use read::{HarError, MOST_ENTRIES, begins_archive, read_archive};
pub use rules::{ConnectionField, HarRules, TimeField, TlsPlace, ZeroMeans, rules_for};
pub use summary::{HarCounts, HarOrigin, HarPhaseOf, HarSummary};
