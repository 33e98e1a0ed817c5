//! Globs of URLs and uploads: `{a,b}` and `[1-10]`, as curl 7.88 expands them.

use crate::address::{parse_ipv6, show_for_message};
use crate::problem::{LineProblem, exit};

/// curl would ask for more; it would be a load test, not a measurement.
const MOST_URLS: usize = 10_000;

/// One URL of a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobbedUrl {
    /// Without globs; `\{` has become `{`.
    pub url: String,
    /// The value of each glob, from left to right: `#1`, `#2` in `-o`.
    pub values: Vec<String>,
}

/// A stretch of a URL.
enum GlobPiece {
    Text(String),
    Values(Vec<String>),
}

/// All URLs of a text; the last glob varies first.
///
/// # Errors
/// [`exit::URL`] for globs that curl refuses, [`exit::USAGE`] for more than ten thousand URLs.
pub fn expand(text: &str) -> Result<Vec<GlobbedUrl>, LineProblem> {
    let mut urls = vec![GlobbedUrl { url: String::new(), values: Vec::new() }];
    for piece in read_pieces(text)? {
        match piece {
            GlobPiece::Text(text) => urls.iter_mut().for_each(|url| url.url += &text),
            GlobPiece::Values(values) if urls.len() * values.len() > MOST_URLS => {
                return Err(LineProblem::new(
                    exit::USAGE,
                    format!(
                        "URL {:?} stands for more than {MOST_URLS} URLs",
                        show_for_message(text)
                    ),
                ));
            }
            GlobPiece::Values(values) => {
                urls = urls
                    .iter()
                    .flat_map(|url| values.iter().map(move |value| append_value(url, value)))
                    .collect();
            }
        }
    }
    Ok(urls)
}

/// Puts values of globs in place of `#1` and so on; numbers without a glob stay.
pub fn fill(name: &str, values: &[String]) -> String {
    let mut filled = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('#') {
        filled += before;
        let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
        let number: Option<usize> = after[..end].parse().ok();
        match number.and_then(|number| values.get(number.checked_sub(1)?)) {
            Some(value) => {
                filled += value;
                rest = &after[end..];
            }
            None => {
                filled.push('#');
                rest = after;
            }
        }
    }
    filled + rest
}

fn append_value(url: &GlobbedUrl, value: &str) -> GlobbedUrl {
    let mut values = url.values.clone();
    values.push(value.to_owned());
    GlobbedUrl { url: format!("{}{value}", url.url), values }
}

fn read_pieces(text: &str) -> Result<Vec<GlobPiece>, LineProblem> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let special =
            rest.strip_prefix('\\').filter(|after| after.starts_with(['{', '}', '[', ']']));
        let bracketed = literal_brackets(rest);
        let read = match letter {
            _ if special.is_some() => {
                literal += &rest[1..2];
                rest = &rest[2..];
                continue;
            }
            '[' if bracketed > 0 => {
                literal += &rest[..bracketed];
                rest = &rest[bracketed..];
                continue;
            }
            '{' => read_set(rest),
            '[' => read_range(rest).ok_or("expected a range like [1-10] or [a-z:2]"),
            '}' | ']' => Err("it closes nothing"),
            _ => {
                literal.push(letter);
                rest = &rest[letter.len_utf8()..];
                continue;
            }
        };
        let (values, after) = read.map_err(|why| {
            let place = text[..text.len() - rest.len()].chars().count() + 1;
            let shown = show_for_message(text);
            LineProblem::new(
                exit::URL,
                format!("URL {shown:?}, {letter} at character {place}: {why}"),
            )
            .hint("--globoff sends brackets and braces as they are")
        })?;
        pieces.push(GlobPiece::Text(std::mem::take(&mut literal)));
        pieces.push(GlobPiece::Values(values));
        rest = after;
    }
    pieces.push(GlobPiece::Text(literal));
    Ok(pieces)
}

/// The length of brackets that are not a range: `[]`, and an IPv6 address.
fn literal_brackets(rest: &str) -> usize {
    let inside = rest.strip_prefix('[').and_then(|after| after.split_once(']'));
    match inside {
        Some((inside, _)) if inside.is_empty() || parse_ipv6(inside).is_some() => inside.len() + 2,
        _ => 0,
    }
}

/// The values of `{a,b}`, and what follows the brace. A backslash takes its meaning from any letter.
fn read_set(rest: &str) -> Result<(Vec<String>, &str), &'static str> {
    let mut values = Vec::new();
    let mut value = String::new();
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '}' if at == 1 => return Err("it holds nothing"),
            '}' => {
                values.push(value);
                return Ok((values, &rest[at + 1..]));
            }
            ',' => values.push(std::mem::take(&mut value)),
            '{' | '[' | ']' => return Err("globs within braces are not possible"),
            '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
            _ => value.push(letter),
        }
    }
    Err("it is not closed")
}

/// The values of `[1-3]`, `[01-10:3]` or `[a-e:2]`, and what follows the bracket.
fn read_range(rest: &str) -> Option<(Vec<String>, &str)> {
    let (inside, after) = rest.strip_prefix('[')?.split_once(']')?;
    let (range, step) = match inside.split_once(':') {
        Some((range, step)) => (range, parse_number(step)?),
        None => (inside, 1),
    };
    let (first, last) = range.split_once('-')?;
    let letters = match (first.as_bytes(), last.as_bytes()) {
        ([low], [high]) if low.is_ascii_alphabetic() => Some((*low, *high)),
        _ => None,
    };
    let (low, high) = match letters {
        Some((low, high)) => (u64::from(low), u64::from(high)),
        None => (parse_number(first)?, parse_number(last.trim_start_matches([' ', '\t']))?),
    };
    let distance = high.checked_sub(low)?;
    if step == 0 || step > distance.max(1) || (letters.is_some() && distance > 25) {
        return None;
    }
    let numbers = (low..=high).step_by(usize::try_from(step).ok()?).take(MOST_URLS + 1);
    // Only a zero at the beginning asks for zeros.
    let width = if first.starts_with('0') { first.len() } else { 0 };
    let values = numbers.map(|number| match u8::try_from(number) {
        Ok(letter) if letters.is_some() => char::from(letter).to_string(),
        _ => format!("{number:0width$}"),
    });
    Some((values.collect(), after))
}

fn parse_number(digits: &str) -> Option<u64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_expand_as_curls_do() {
        for (text, urls) in [
            ("{,a}/x", "/x a/x"),
            ("{a,}", "a "),
            ("{one}", "one"),
            ("{a\\,b,c}", "a,b c"),
            ("{a\\}b,c}", "a}b c"),
            ("{a\\b,c}", "ab c"),
            ("\\{a\\}\\[1-2\\]", "{a}[1-2]"),
            ("a\\b\\,c\\", "a\\b\\,c\\"),
            ("x?a[]=1", "x?a[]=1"),
            ("x?a[::1]=[1-2]", "x?a[::1]=1 x?a[::1]=2"),
            ("[fe80::1%lo]/[1-2]", "[fe80::1%lo]/1 [fe80::1%lo]/2"),
            ("http://[a-c]/", "http://a/ http://b/ http://c/"),
            ("[1-3]", "1 2 3"),
            ("[1- 2]", "1 2"),
            ("[1-3:2]", "1 3"),
            ("[1-1]", "1"),
            ("[01-10:3]", "01 04 07 10"),
            ("[1-03]", "1 2 3"),
            ("[001-3]", "001 002 003"),
            ("[0-3]", "0 1 2 3"),
            ("[a-e:2]", "a c e"),
            ("[A-C]", "A B C"),
            ("[a-a]", "a"),
            ("[Y-b]", "Y Z [ \\ ] ^ _ ` a b"),
            ("{a,b}{c,d}[1-2]", "ac1 ac2 ad1 ad2 bc1 bc2 bd1 bd2"),
            ("%7Ba,b%7D", "%7Ba,b%7D"),
            ("{ü,ä}", "ü ä"),
            ("", ""),
        ] {
            let expanded: Vec<_> = expand(text).unwrap().into_iter().map(|url| url.url).collect();
            assert_eq!(expanded.join(" "), urls, "{text}");
        }
    }

    #[test]
    fn bad_globs_are_refused() {
        for text in [
            "{a",
            "a}",
            "{}",
            "{a,{b,c}}",
            "{a[1-2],c}",
            "{a],c}",
            "{a\\",
            "a]",
            "[a]",
            "[1-",
            "[zz]",
            "x?a[b]=1",
            "x?a[0]=1",
            "[1:2]",
            "[ 1-3]",
            "[1-3:0]",
            "[1-3:5]",
            "[1-3:-1]",
            "[1-3:2",
            "[1-3:a]",
            "[-3-1]",
            "[3-1]",
            "[1-1:2]",
            "[1-3x]",
            "[1-x]",
            "[1--3]",
            "[+1-3]",
            "[a-C]",
            "[c-a]",
            "[a-a:2]",
            "[a-c:30]",
            "[a-c:2x]",
            "[a-1]",
            "[ab-c]",
            "[a-cd]",
            "[1-99999999999999999999]",
        ] {
            assert_eq!(expand(text).unwrap_err().code, exit::URL, "{text}");
        }
        assert_eq!(
            expand("http://u:p@h/ü[1-").unwrap_err().message,
            "URL \"<hidden>@h\", [ at character 15: expected a range like [1-10] or [a-z:2]"
        );
        assert_eq!(expand("[1-10000]").unwrap().len(), 10_000);
        for text in ["[1-10001]", "[1-101]x[1-100]", "[1-18446744073709551615]"] {
            assert_eq!(expand(text).unwrap_err().code, exit::USAGE, "{text}");
        }
    }

    #[test]
    fn names_take_values() {
        let urls = expand("{a,b}-[1-2]").unwrap();
        let names: Vec<_> = urls.iter().map(|url| fill("o_#1_#2_#3", &url.values)).collect();
        assert_eq!(names, ["o_a_1_#3", "o_a_2_#3", "o_b_1_#3", "o_b_2_#3"]);
        let values = ["a".to_owned()];
        for (name, filled) in [
            ("o_#1_#01_#1a##1", "o_a_a_aa#a"),
            ("o_#0_#2", "o_#0_#2"),
            ("#10#1#", "#10a#"),
            ("#99999999999999999999999", "#99999999999999999999999"),
        ] {
            assert_eq!(fill(name, &values), filled);
        }
        assert_eq!(fill("x#1", &[]), "x#1");
    }
}
