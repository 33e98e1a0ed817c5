//! `--export-markdown`: the medians of a comparison as one Markdown table, and its verdicts as a list.
//!
//! Input: a [`Study`]. Output: GitHub's Markdown, in which names are escaped so that they are text and not markup.

use firstbyte_core::shown_url::shown_urls_within;

use super::Style;
use super::study::Study;
use super::study_table::medians_of_all;

/// The table of medians with the verdicts below; empty without variants.
pub fn table(study: &Study<'_>) -> String {
    if study.cells.is_empty() {
        return String::new();
    }
    let style = Style::default();
    let (mut rows, unit) = medians_of_all(study, &style);
    rows[0][0] = format!("Medians, {unit}");
    let mut lines: Vec<String> = rows.iter().map(|row| table_row(row)).collect();
    lines.insert(1, format!("|:---|{}", "---:|".repeat(rows[0].len() - 1)));
    if !study.sentences.is_empty() {
        lines.push(String::new());
    }
    let sentences = study.sentences.iter();
    lines.extend(sentences.map(|s| format!("- {}", escape_markup(&style.safe(&s.text)))));
    lines.join("\n") + "\n"
}

fn table_row(cells: &[String]) -> String {
    let cells: Vec<String> =
        cells.iter().map(|cell| escape_markup(&shown_urls_within(cell))).collect();
    format!("| {} |", cells.join(" | "))
}

/// Underscores are not escaped: within words they are text, and GitHub links URLs as they are written.
fn escape_markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '|' | '`' | '*' | '<' | '[' | ']') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::study::fixtures::made;
    use super::*;

    #[test]
    fn one_table_of_all_places_and_a_list_of_verdicts() {
        let made = made(2, 3, 2, 50);
        let study = made.study();
        let text = table(&study);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "| Medians, ms | n | DNS | TCP | TLS | wait | receive | total | p95 | p99 |",
                "|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
            ]
        );
        let sydney = "| Sydney, IPv6, TLS 1.3 | 49 | 3.6 | 297.4 | 300.6 | 307.2 | 2.2 | 913.1 | \
                      937.0 | 1904.6 |";
        assert_eq!(lines[2 + 12 - 1], sydney);
        assert_eq!(lines[2 + 12], "");
        assert!(lines[2 + 12 + 1].starts_with("- "), "{text}");
        assert_eq!(lines.len(), 2 + 12 + 1 + study.sentences.len());
    }

    #[test]
    fn names_are_no_markup() {
        let row = table_row(&["a|b".into(), "<img>".into(), "[x](y) `z`".into(), "a_b".into()]);
        assert_eq!(row, r"| a\|b | \<img> | \[x\](y) \`z\` | a_b |");
    }

    #[test]
    fn nothing_measured_is_no_panic() {
        assert_eq!(table(&Study::default()), "");
    }
}
