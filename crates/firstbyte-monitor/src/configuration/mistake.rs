//! Mistakes in a configuration: where they are, what is wrong, and what to write instead.

use std::fmt;
use std::ops::Range;

/// A mistake in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// How to correct it.
    pub hint: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.what)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

pub(super) struct Mistakes<'t> {
    text: &'t str,
    found: Vec<Mistake>,
}

impl<'t> Mistakes<'t> {
    pub(super) const fn within(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    pub(super) fn add(&mut self, at: Range<usize>, what: impl Into<String>, hint: Option<String>) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let mistake = Mistake {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.into(),
            hint,
        };
        self.found.push(mistake);
    }

    pub(super) fn into_sorted(mut self) -> Vec<Mistake> {
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

/// The entry of `known` that is closest to `written`, if it is close enough for a suggestion.
pub(super) fn closest<'k>(
    written: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    let distance = |name: &&str| strsim::damerau_levenshtein(written, name);
    let nearest = known.into_iter().min_by_key(distance)?;
    // At most a third of the letters may differ, as in other tools.
    (distance(&nearest) * 3 <= nearest.chars().count().max(3)).then_some(nearest)
}
