//! Why a connection takes as long as it does: the equation, the findings, and other witnesses.
//!
//! Input: connections to one place, made in several ways ([`Evidence`]). Output: the typical connection's time as a
//! sum ([`Equation`]), the avoidable costs ([`Finding`]), and a comparison of the client's estimate of the server's
//! time with the server's own report ([`reconcile`]). Nothing here measures, predicts or prints. Definitions:
//! `docs/explain.md`.

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
