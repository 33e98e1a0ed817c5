//! The lines of a config file of curl: a text in, names of options with their values out. Knows no option;
//! [`crate::grammar`] carries the lines out.

/// A line that has an option.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigLine {
    /// The line's number in the file, from 1.
    pub(crate) number: usize,
    /// The option as typed, with or without dashes.
    pub(crate) name: String,
    /// Absent if nothing stands there; `""` is an empty value.
    pub(crate) value: Option<String>,
    /// Something follows a value without quotes: the user meant it as a part of the value.
    pub(crate) has_rest: bool,
}

/// All lines but comments and empty ones.
pub(crate) fn parse_lines(text: &str) -> Vec<ConfigLine> {
    let lines = text.split_inclusive('\n').enumerate();
    lines.filter_map(|(index, line)| parse_line(index + 1, line)).collect()
}

/// `isspace` of the C locale.
fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t'..='\r')
}

fn parse_line(number: usize, line: &str) -> Option<ConfigLine> {
    let line = line.trim_start_matches(is_blank);
    if line.is_empty() || line.starts_with(['#', '/', '*']) {
        return None;
    }
    let is_dashed = line.starts_with('-');
    let ends_name = |letter: char| is_blank(letter) || (!is_dashed && matches!(letter, '=' | ':'));
    let (name, rest) = line.split_at(line.find(ends_name).unwrap_or(line.len()));
    let rest = rest.trim_start_matches(ends_name);
    let (value, has_rest) = match rest.strip_prefix('"') {
        Some(quoted) => (Some(unquote(quoted)), false),
        None => {
            let (value, rest) = rest.split_at(rest.find(is_blank).unwrap_or(rest.len()));
            let rest = rest.trim_start_matches(is_blank);
            let value = (!value.is_empty()).then(|| value.to_owned());
            (value, !rest.is_empty() && !rest.starts_with('#'))
        }
    };
    Some(ConfigLine { number, name: name.to_owned(), value, has_rest })
}

/// The text up to the closing quote, without its escapes.
fn unquote(text: &str) -> String {
    let mut value = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('t') => value.push('\t'),
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('v') => value.push('\x0b'),
                Some(other) => value.push(other),
                None => break,
            },
            other => value.push(other),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with curl 7.88 by `-K`.
    #[test]
    fn lines_as_curl_reads_them() {
        for (line, name, value, has_rest) in [
            ("silent", "silent", None, false),
            ("  url=http://h/ # comment\r\n", "url", Some("http://h/"), false),
            ("header = X-A: with spaces", "header", Some("X-A:"), true),
            ("header = \"X-A: with spaces\" ignored", "header", Some("X-A: with spaces"), false),
            ("-H \"a: b\"", "-H", Some("a: b"), false),
            ("user:a:b", "user", Some("a:b"), false),
            ("user == : a", "user", Some("a"), false),
            ("--data=a", "--data=a", None, false),
            ("-d\"a", "-d\"a", None, false),
            ("data = \"\"", "data", Some(""), false),
            ("data = \"a\\tb\\\"c\\\\d\\xe\"", "data", Some("a\tb\"c\\dxe"), false),
            // Without a closing quote the line's end belongs to the value: curl refuses such a URL.
            ("url = \"http://h/\n", "url", Some("http://h/\n"), false),
        ] {
            let value = value.map(str::to_owned);
            let expected = ConfigLine { number: 1, name: name.to_owned(), value, has_rest };
            assert_eq!(parse_lines(line), [expected], "{line:?}");
        }
    }

    #[test]
    fn comments_and_empty_lines_have_no_option() {
        let lines = parse_lines("# a\n/ b\n * c\n\n \t\r\nsilent\n");
        assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [6]);
    }
}
