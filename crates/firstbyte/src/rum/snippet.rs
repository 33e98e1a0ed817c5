//! The script for pages: `snippet.js` without comments and indentation, with its endpoint filled in.

/// The script's source.
const SOURCE: &str = include_str!("snippet.js");

/// Maximum size of the script as sent, in bytes.
pub const SNIPPET_BYTES: usize = 2_000;

/// The script for pages that send beacons to `endpoint` for the share `part` of page views (above 0, up to 1).
///
/// It works in a page's `<script>` element as well as in its own file.
pub fn snippet(endpoint: &str, part: f64) -> String {
    let lines = SOURCE.lines().map(str::trim).filter(|line| {
        // No line of the source is part of a string, or ends with a comment.
        !line.is_empty() && !line.starts_with("//")
    });
    let mut script = lines.collect::<Vec<_>>().join("\n");
    script.push('\n');
    let part = format!("{part}");
    script.replace("'ENDPOINT', PART", &format!("{}, {part}", quoted(endpoint)))
}

/// A string literal for the script. A `<` could end the element that contains the script.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                quoted += &format!("\\u{:04x}", u32::from(c));
            }
            c if c.is_control() => quoted += &format!("\\u{:04x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_small_and_depends_on_nothing() {
        let script = snippet("https://field.shop.example/firstbyte", 0.25);
        assert!(script.len() < SNIPPET_BYTES, "{} bytes", script.len());
        assert!(
            script.ends_with("})('https://field.shop.example/firstbyte', 0.25);\n"),
            "{script}"
        );
        for word in ["import", "require", "cookie", "localStorage", "userAgent", "href"] {
            assert!(!script.contains(word), "{word}");
        }
    }

    /// The same code in the same order: only comments and leading blanks are removed.
    #[test]
    fn what_is_sent_is_the_source_that_is_read() {
        let sent = snippet("ENDPOINT", 1.0).replace("'ENDPOINT', 1", "'ENDPOINT', PART");
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let read: Vec<&str> = SOURCE.lines().map(str::trim).filter(is_code).collect();
        assert_eq!(sent.lines().collect::<Vec<_>>(), read);
        // If comments followed code, or strings spanned lines, removing lines would change the program.
        assert!(!read.iter().any(|line| line.contains("//") || line.contains('`')));
    }

    #[test]
    fn an_endpoint_stays_a_text() {
        let script = snippet("/'-alert(1)-'</script>\\\n", 1.0);
        assert!(
            script.contains(r"'/\u0027-alert(1)-\u0027\u003c/script\u003e\u005c\u000a', 1)"),
            "{script}"
        );
    }
}
