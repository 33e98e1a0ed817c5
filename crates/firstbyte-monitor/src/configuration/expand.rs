//! Expands one URL pattern with `{a,b}` and `{1..9}` into many targets.

/// Expands the braces of `pattern`, in order. A pattern without braces expands to itself.
///
/// # Errors
/// If the pattern is malformed, or expands to more than `most` texts.
pub(super) fn expand(pattern: &str, most: usize) -> Result<Vec<String>, String> {
    let mut all = vec![String::new()];
    let mut rest = pattern;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        let Some(close) = from.find('}') else {
            return Err("{ is not closed".into());
        };
        let inside = &from[1..close];
        if inside.contains('{') {
            return Err("braces cannot be nested".into());
        }
        let choices = choices(inside, most)?;
        if all.len().saturating_mul(choices.len()) > most {
            return Err(format!("the braces expand to more than {most} targets"));
        }
        let with = |text: &String| -> Vec<String> {
            choices.iter().map(|choice| format!("{text}{before}{choice}")).collect()
        };
        all = all.iter().flat_map(with).collect();
        rest = &from[close + 1..];
    }
    if rest.contains('}') {
        return Err("} has no {".into());
    }
    all.iter_mut().for_each(|text| text.push_str(rest));
    Ok(all)
}

/// Expands `a,b,c`, or `1..9`. Numbers have leading zeros if the first one has them.
fn choices(inside: &str, most: usize) -> Result<Vec<String>, String> {
    if let Some((first, last)) = inside.split_once("..") {
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
        let (Some(from), Some(to)) = (number(first), number(last)) else {
            return Err(format!("{{{inside}}}: expected two numbers, as in {{1..9}}"));
        };
        if from > to {
            return Err(format!("{{{inside}}}: the first number is larger than the second"));
        }
        if to - from >= most as u64 {
            return Err(format!("the braces expand to more than {most} targets"));
        }
        let width = if first.starts_with('0') { first.len() } else { 1 };
        return Ok((from..=to).map(|number| format!("{number:0width$}")).collect());
    }
    let choices: Vec<String> = inside.split(',').map(|choice| choice.trim().to_owned()).collect();
    if choices.len() < 2 {
        return Err(format!("{{{inside}}}: expected {{a,b}} or {{1..9}}"));
    }
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn braces_are_all_that_they_stand_for() {
        let expanded = |pattern| expand(pattern, 100).unwrap();
        assert_eq!(expanded("https://a.test/"), ["https://a.test/"]);
        assert_eq!(expanded("{a,b}.test/{1..2}"), ["a.test/1", "a.test/2", "b.test/1", "b.test/2"]);
        assert_eq!(expanded("n{08..11}"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(expanded("{,www.}a.test"), ["a.test", "www.a.test"]);
    }

    #[test]
    fn what_is_wrong_with_them_is_said() {
        for (pattern, wrong) in [
            ("{a,b", "{ is not closed"),
            ("a}", "} has no {"),
            ("{a}", "{a}: expected {a,b} or {1..9}"),
            ("{9..1}", "{9..1}: the first number is larger than the second"),
            ("{a..b}", "{a..b}: expected two numbers, as in {1..9}"),
            ("{a,{b,c}}", "braces cannot be nested"),
            ("{1..101}", "the braces expand to more than 100 targets"),
            ("{1..18446744073709551615}", "the braces expand to more than 100 targets"),
            ("{1..20}{1..20}", "the braces expand to more than 100 targets"),
        ] {
            assert_eq!(expand(pattern, 100).unwrap_err(), wrong, "{pattern}");
        }
    }
}
