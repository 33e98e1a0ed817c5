//! Compares `docs/exit-codes.md` with the code, and with curl where that differs.

use std::collections::BTreeSet;
use std::path::Path;

use super::measured::{Curl, Row};
use super::{certificates, dns, http, tcp, tls};

const EXIT_RS: &str = include_str!("../../../src/cli/exit.rs");

fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    std::fs::read_to_string(path).unwrap()
}

fn rows() -> impl Iterator<Item = &'static Row> {
    [certificates::ROWS, dns::ROWS, http::ROWS, tcp::ROWS, tls::ROWS].into_iter().flatten()
}

/// The numeric literals in `exit.rs`: values of constants and of match arms.
fn codes_in_the_source() -> BTreeSet<u8> {
    EXIT_RS
        .lines()
        .filter_map(|line| {
            let value = line.rsplit_once(['=', '>']).map_or(line, |(_, value)| value);
            value.trim().trim_end_matches([';', ',']).parse().ok()
        })
        .collect()
}

/// The document's line for `code`.
fn line_of(document: &str, code: u8) -> Option<String> {
    document.lines().find(|line| line.starts_with(&format!("| {code} |"))).map(str::to_owned)
}

#[test]
fn every_code_is_documented() {
    let document = document();
    let codes = codes_in_the_source();
    assert!(codes.len() > 20 && codes.contains(&28) && codes.contains(&130), "{codes:?}");
    let missing: Vec<_> =
        codes.iter().filter(|code| line_of(&document, **code).is_none()).collect();
    assert!(missing.is_empty(), "docs/exit-codes.md lacks {missing:?}");
}

#[test]
fn every_cause_is_documented_beside_its_code() {
    let document = document();
    for row in rows() {
        let line = line_of(&document, row.code).unwrap();
        assert!(line.contains(&format!("`{}`", row.cause)), "{} is not in: {line}", row.cause);
    }
}

#[test]
fn what_curl_does_otherwise_is_documented() {
    let document = document();
    let (_, documented) = document.split_once("|---|---|---|---|\n").unwrap();
    let mut lines: Vec<String> = rows()
        .filter_map(|row| match row.curl {
            Curl::Ends(code, why) => {
                Some(format!("| `{}` | {} | {code} | {why} |\n", row.cause, row.code))
            }
            Curl::Same | Curl::Cannot(_) => None,
        })
        .collect();
    // Several servers that fail alike share one line.
    lines.dedup();
    let expected = lines.concat();
    assert!(documented == expected, "the table should be:\n{expected}");
}

#[test]
fn every_row_that_curl_cannot_do_says_why() {
    let reasons = rows().filter_map(|row| match row.curl {
        Curl::Cannot(why) => Some(why),
        _ => None,
    });
    assert!(reasons.into_iter().all(|why| !why.is_empty()));
}
