//! A command without what is nobody else's business: a page is sent around, a run file need not be.

/// What stands for a secret.
const HIDDEN: &str = "<hidden>";
/// Parts of names of fields whose values let somebody in.
const TELLING: [&str; 7] = ["auth", "cookie", "token", "secret", "key", "password", "session"];
/// Short flags that have a value behind them; all others can stand together.
const VALUED: &str = "nmEHXdA";

/// What a flag's value is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Field,
    Body { can_be_a_file: bool },
}

/// `command` without the values of fields such as `Authorization` and `Cookie`, and without bodies.
/// Names of files are no secrets.
pub(super) fn secrets(command: &[String]) -> Vec<String> {
    let mut expected = None;
    let mut shown = Vec::with_capacity(command.len());
    for word in command {
        if let Some(value) = expected.take() {
            shown.push(hide(value, word));
            continue;
        }
        let (value, at) = flag(word);
        match (value, at) {
            (Some(value), Some(at)) => {
                let (flag, text) = word.split_at(at);
                shown.push(format!("{flag}{}", hide(value, text)));
            }
            (value, _) => {
                expected = value;
                shown.push(word.clone());
            }
        }
    }
    shown
}

/// What the value of the flag in `word` is, where it has one to hide, and where in the word it begins,
/// if it does not follow as the next one.
fn flag(word: &str) -> (Option<Value>, Option<usize>) {
    let file = Value::Body { can_be_a_file: true };
    if let Some(long) = word.strip_prefix("--") {
        let name = long.split_once('=').map_or(long, |(name, _)| name);
        let value = match name {
            "header" => Value::Field,
            "data" | "data-ascii" | "data-binary" => file,
            "data-raw" => Value::Body { can_be_a_file: false },
            _ => return (None, None),
        };
        return (Some(value), word.find('=').map(|at| at + 1));
    }
    let Some(short) = word.strip_prefix('-') else { return (None, None) };
    let Some((at, flag)) = short.char_indices().find(|(_, flag)| VALUED.contains(*flag)) else {
        return (None, None);
    };
    let value = match flag {
        'H' => Value::Field,
        'd' => file,
        _ => return (None, None),
    };
    let rest = at + 2;
    let rest = rest + usize::from(word[rest..].starts_with('='));
    (Some(value), (rest < word.len()).then_some(rest))
}

fn hide(value: Value, text: &str) -> String {
    match value {
        Value::Body { can_be_a_file: true } if text.starts_with('@') => text.to_owned(),
        Value::Body { .. } => HIDDEN.to_owned(),
        Value::Field => match text.split_once(':') {
            Some((name, value)) if !value.trim().is_empty() && is_telling(name) => {
                format!("{name}: {HIDDEN}")
            }
            _ => text.to_owned(),
        },
    }
}

fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        secrets(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join("|")
    }

    #[test]
    fn values_that_let_somebody_in_are_hidden_however_they_are_typed() {
        for (words, expected) in [
            (&["-H", "Authorization: Basic x"] as &[&str], "-H|Authorization: <hidden>"),
            (&["-Hcookie:a=b"], "-Hcookie: <hidden>"),
            (&["-H=Cookie: a"], "-H=Cookie: <hidden>"),
            (&["-sk4HProxy-Authorization: x", "-s"], "-sk4HProxy-Authorization: <hidden>|-s"),
            (&["-sH", "Cookie: x"], "-sH|Cookie: <hidden>"),
            (&["--header", "X-Api-Key: x"], "--header|X-Api-Key: <hidden>"),
            (&["--header=X-Token: x"], "--header=X-Token: <hidden>"),
            (&["-d", "user=x"], "-d|<hidden>"),
            (
                &["-d@body", "--data", "@body", "--data-raw", "@x"],
                "-d@body|--data|@body|--data-raw|<hidden>",
            ),
            (
                &["-du=x", "--data-binary=x", "--data-ascii", "x"],
                "-d<hidden>|--data-binary=<hidden>|--data-ascii|<hidden>",
            ),
        ] {
            assert_eq!(shown(words), expected);
        }
    }

    #[test]
    fn all_else_is_shown_as_it_was_typed() {
        let words = ["firstbyte", "compare", "https://a/", "-H", "Accept: x", "-H", "Cookie:"];
        assert_eq!(shown(&words), words.join("|"));
        let words = ["-nd", "-A", "Hd", "-XH", "--html", "H", "-4", "-", "--", "-ks", "-H"];
        assert_eq!(shown(&words), words.join("|"));
    }
}
