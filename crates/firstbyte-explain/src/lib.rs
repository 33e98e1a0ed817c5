//! Why a connection takes as long as it does: the equation, the findings, and what others say of it.
//!
//! Input: connections made in several ways ([`Evidence`]), all to the same place. Output: the typical
//! connection's time as a sum ([`Equation`]), what costs time and could be otherwise ([`Finding`]), and
//! how the client's estimate of the server's time stands against the server's own word
//! ([`reconcile`]). Nothing here measures, predicts or prints. Definitions: `docs/explain.md`.

mod beside;
mod equation;
mod evidence;
mod finding;
mod findings;
mod fit;
pub mod reconcile;
mod replay;
mod server_log;

pub use beside::{Beside, BesideTime, Unlike};
pub use equation::{Equation, Extra, Span, Term, TermKind};
pub use evidence::{Evidence, MeasuredWay, MeasuredWays, Way, WayKind};
pub use finding::{Finding, FindingKind, Findings, Saving, TimeSaved};
pub use findings::findings;
pub use server_log::{Agreement, ServerLogSearch, ServerLogWitness};

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
