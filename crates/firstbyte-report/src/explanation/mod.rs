//! An explanation as text, as JSON, and as a page.
//!
//! Input: an [`Explanation`], whose figures come from `firstbyte_explain`. Output: text. Nothing here decides what
//! counts as a finding or what it costs.

mod beside;
mod json;
mod page;
#[cfg(test)]
mod tests;
mod text;
mod whiteboard;

use firstbyte_core::split::{AttributedConnection, ServerFit};
use firstbyte_explain::reconcile::Reconciled;
use firstbyte_explain::{Beside, Equation, Findings, WayKind};

use crate::warning::Warning;

pub use json::json;
pub use page::{figures, page};
pub use text::text;

/// Why a connection takes as long as it does.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The visited URL, after redirects.
    pub url: String,
    /// The date, as text.
    pub date: String,
    /// The command that repeats it, without secrets.
    pub command: Vec<String>,
    /// The typical connection's time as a sum.
    pub equation: Equation,
    /// Connections of the user's own way that failed.
    pub failed: usize,
    /// Every way that worked, the user's own first.
    pub ways: Vec<WayView>,
    /// Ways that did not work, with reasons.
    pub left_out: Vec<(WayKind, String)>,
    /// The redirects that led to the URL.
    pub redirects: Vec<AttributedConnection>,
    /// Findings, the most costly first.
    pub findings: Findings,
    /// What the connections show about the server's TCP.
    pub server: ServerFit,
    /// The comparison with another client, if requested.
    pub beside: Option<Beside>,
    /// The server's time according to other witnesses.
    pub reconciled: Vec<Reconciled>,
    /// Caveats about the result.
    pub warnings: Vec<Warning>,
}

/// One way to connect.
#[derive(Clone, Debug)]
pub struct WayView {
    /// Kind of the way.
    pub kind: WayKind,
    /// The equation of its typical connection.
    pub equation: Equation,
    /// Number of connections requested.
    pub asked: usize,
    /// Number of connections proven to be made this way.
    pub proven: usize,
    /// The connection with the median total time.
    pub middle: AttributedConnection,
}

impl Explanation {
    /// The user's own way.
    pub(crate) fn subject(&self) -> Option<&WayView> {
        self.ways.iter().find(|way| way.kind == WayKind::Subject)
    }

    /// Whether another explanation fits the arrivals and would change the equation.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.equation.terms.iter().any(|term| !term.is_known())
    }

    /// Whether the unexplained share of the total is worth mentioning: more than 2 %.
    pub(crate) fn leaves_much_unexplained(&self) -> bool {
        let unexplained = self.equation.time(firstbyte_explain::TermKind::Unexplained);
        unexplained * 50 > self.equation.total
    }
}
