//! HTTP Archives (HAR 1.2) of other programs: connection data of their entries, by rules for each creator.
//!
//! Input: the bytes of a file, as a stream. Output: entries without credentials and contents (fields, cookies, bodies,
//! queries), interpreted by the `rules` for the program that wrote them; or the same file, [`cleaned`](clean). Nothing
//! else of a document is kept in memory. Values that a creator does not report are absent; impossible ones are a
//! [`HarFlaw`].

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
