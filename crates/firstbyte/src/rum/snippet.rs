//! The script that pages carry: `snippet.js` without comments and indentation, with where it sends to.

/// As it is written.
const SOURCE: &str = include_str!("snippet.js");

/// The most that it may have, as it is sent.
pub const SNIPPET_BYTES: usize = 2_000;

/// The script for pages that send their beacons to `endpoint`, `part` of all page views (above 0, up to 1).
///
/// It can stand within a page's `<script>` element as well as in a file of its own.
pub fn snippet(endpoint: &str, part: f64) -> String {
    let lines = SOURCE.lines().map(str::trim).filter(|line| {
        // No line of the source is part of a text, or ends with a comment.
        !line.is_empty() && !line.starts_with("//")
    });
    let mut script = lines.collect::<Vec<_>>().join("\n");
    script.push('\n');
    let part = format!("{part}");
    script.replace("'ENDPOINT', PART", &format!("{}, {part}", quoted(endpoint)))
}

/// A text as the script has it. A `<` could end the element that the script is in.
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

    /// Same words in the same order: nothing but comments and blanks at the beginnings of lines goes.
    #[test]
    fn what_is_sent_is_the_source_that_is_read() {
        let sent = snippet("ENDPOINT", 1.0).replace("'ENDPOINT', 1", "'ENDPOINT', PART");
        let is_code = |line: &&str| !line.is_empty() && !line.starts_with("//");
        let read: Vec<&str> = SOURCE.lines().map(str::trim).filter(is_code).collect();
        assert_eq!(sent.lines().collect::<Vec<_>>(), read);
        // Where comments stand behind code, or texts go over lines, taking lines away would be another program.
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
