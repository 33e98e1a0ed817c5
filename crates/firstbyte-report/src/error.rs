//! A failure in two lines: what, and what to do about it.

use firstbyte_core::timeline::Sample;

use super::style::{Ink, Style};
use crate::advice;

/// `error: PHASE: CAUSE (FAULT fault)` and, where there is one, `hint: …` on its own line.
///
/// Not wrapped: scripts and people search for these lines. Empty where the sample has not failed.
pub fn failure(sample: &Sample, style: &Style) -> String {
    let Some(failure) = sample.failure() else { return String::new() };
    let label = style.paint(Ink::Loss, "error:");
    let mut out = format!("{label} {}\n", style.safe(&failure.to_string()));
    if let Some(hint) = advice::for_sample(sample) {
        out += &format!("{} {}\n", style.paint(Ink::Strong, "hint:"), style.safe(&hint));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::fixtures;
    use super::*;

    #[test]
    fn the_hint_is_on_its_own_line() {
        let sample = fixtures::expired_certificate();
        assert_eq!(
            failure(&sample, &Style::default()),
            "error: tls: certificate expired on 2026-10-01 12:00:00 UTC\nhint: renew the server's \
             certificate; -k measures anyway, unverified\n"
        );
    }
}
