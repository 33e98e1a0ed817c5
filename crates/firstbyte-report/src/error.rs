//! A failure in two lines: the cause, and advice.

use firstbyte_core::timeline::Sample;

use super::style::{Ink, Style};
use crate::advice;

/// `error: PHASE: CAUSE (FAULT fault)` and, if there is advice, `hint: …` on its own line.
///
/// The lines are not wrapped, because scripts and people search for them. Empty if the sample did not fail.
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
