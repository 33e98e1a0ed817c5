//! An explanation as text, as JSON, and as a page.
//!
//! Input: an [`Explanation`], whose figures come from `firstbyte_explain`. Output: text. Nothing
//! here decides what is a finding or what it costs.

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
    /// What was visited, redirects followed.
    pub url: String,
    /// When, as text.
    pub date: String,
    /// The command that repeats it, without secrets.
    pub command: Vec<String>,
    /// The typical connection's time as a sum.
    pub equation: Equation,
    /// Connections of the user's own way that failed.
    pub failed: usize,
    /// Every way that worked; the user's own is the first.
    pub ways: Vec<WayView>,
    /// Ways that did not, and why.
    pub left_out: Vec<(WayKind, String)>,
    /// The redirects that led to the URL.
    pub redirects: Vec<AttributedConnection>,
    /// What costs time, the most costly first.
    pub findings: Findings,
    /// What the connections show of the server's TCP.
    pub server: ServerFit,
    /// What another client takes, where one was asked for.
    pub beside: Option<Beside>,
    /// The server's time by other witnesses.
    pub reconciled: Vec<Reconciled>,
    /// What one has to know about it.
    pub warnings: Vec<Warning>,
}

/// One way to connect.
#[derive(Clone, Debug)]
pub struct WayView {
    /// Which.
    pub kind: WayKind,
    /// Its typical connection.
    pub equation: Equation,
    /// Connections asked for.
    pub asked: usize,
    /// Those that proved to be made this way.
    pub proven: usize,
    /// The one in the middle by total time.
    pub middle: AttributedConnection,
}

impl Explanation {
    /// The user's own way.
    pub(crate) fn subject(&self) -> Option<&WayView> {
        self.ways.iter().find(|way| way.kind == WayKind::Subject)
    }

    /// Whether the arrivals have another explanation that would change the equation.
    pub(crate) fn is_ambiguous(&self) -> bool {
        self.equation.terms.iter().any(|term| !term.is_known())
    }

    /// Whether the unexplained share of the total is worth a word: more than 2 %.
    pub(crate) fn leaves_much_unexplained(&self) -> bool {
        let unexplained = self.equation.time(firstbyte_explain::TermKind::Unexplained);
        unexplained * 50 > self.equation.total
    }
}
