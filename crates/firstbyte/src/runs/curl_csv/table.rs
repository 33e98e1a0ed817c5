//! Splits tables into lines and fields.
//!
//! Supported forms: CSV with commas, semicolons or tabs; JSON arrays, one per line or all in one; and the objects of
//! curl's `-w '%{json}'`.

use serde_json::Value;

/// Line number, and the fields or why they cannot be read.
pub(super) type NumberedRow = (usize, Result<Vec<String>, String>);

/// The rows of `text` without empty lines.
pub(super) fn rows(text: &str) -> Box<dyn Iterator<Item = NumberedRow> + '_> {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).take(2).collect();
    if compact == "[["
        && let Ok(all) = serde_json::from_str::<Vec<Value>>(text)
    {
        return Box::new(all.into_iter().enumerate().map(|(n, row)| (n + 1, array(&row))));
    }
    if compact.starts_with('{') || compact == "[{" {
        return Box::new(objects(text));
    }
    let lines = (1..).zip(text.lines()).map(|(n, line)| (n, line.trim()));
    let mut lines = lines.filter(|(_, line)| !is_filler(line)).peekable();
    // The header may be JSON even if the rows are not.
    let separator = lines.peek().map(|(_, line)| separator(line));
    let mut separator = separator.flatten();
    Box::new(lines.map(move |(n, line)| {
        if line.starts_with('[') {
            let line = line.strip_suffix(',').unwrap_or(line);
            let parsed = serde_json::from_str(line).map_err(|e| format!("not JSON: {e}"));
            return (n, parsed.and_then(|row| array(&row)));
        }
        let by = *separator.get_or_insert_with(|| self::separator(line).unwrap_or(','));
        (n, split(line, by))
    }))
}

/// The timers of curl's `%{json}`: a header with their names, and a row for each object.
fn objects(text: &str) -> impl Iterator<Item = NumberedRow> + '_ {
    let names = || super::TIMERS.map(|timer| timer.names()[0]);
    let header = (1, Ok(names().map(str::to_owned).to_vec()));
    let lines = (1..).zip(text.lines()).map(|(n, line)| (n, line.trim()));
    let rows = lines.filter(|(_, line)| !is_filler(line)).flat_map(move |(n, line)| {
        let line = line.trim_start_matches('[').trim_end_matches([']', ',']);
        let objects = serde_json::Deserializer::from_str(line).into_iter::<Value>();
        let row = move |object: serde_json::Result<Value>| -> Result<Vec<String>, String> {
            let object = object.map_err(|e| format!("not JSON: {e}"))?;
            names().into_iter().map(|name| timer_of(&object, name)).collect()
        };
        objects.map(move |object| (n, row(object))).collect::<Vec<NumberedRow>>()
    });
    std::iter::once(header).chain(rows)
}

fn timer_of(object: &Value, name: &str) -> Result<String, String> {
    match object.get(name) {
        Some(Value::Number(number)) => Ok(number.to_string()),
        Some(other) => Err(format!("{name} is not a number: {}", super::shown(&other.to_string()))),
        None => Err(format!("no {name}: these are not curl's timers")),
    }
}

/// Lines without data: brackets around a list, and hints for spreadsheets.
fn is_filler(line: &str) -> bool {
    matches!(line, "" | "[" | "]" | "],") || line.to_ascii_lowercase().starts_with("sep=")
}

/// Field separator of a line; absent if the line is JSON.
fn separator(line: &str) -> Option<char> {
    if line.starts_with('[') {
        return None;
    }
    Some([';', '\t'].into_iter().find(|c| line.contains(*c)).unwrap_or(','))
}

fn array(row: &Value) -> Result<Vec<String>, String> {
    let Value::Array(fields) = row else { return Err("not an array".into()) };
    let fields = fields.iter().map(|field| match field {
        Value::String(text) => Ok(text.trim().to_owned()),
        Value::Number(number) => Ok(number.to_string()),
        other => {
            Err(format!("neither a number nor a string: {}", super::shown(&other.to_string())))
        }
    });
    fields.collect()
}

/// The fields of a line, without their quotes (RFC 4180).
fn split(line: &str, separator: char) -> Result<Vec<String>, String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(c) = letters.next() {
        let last = fields.len() - 1;
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                fields[last].push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => fields.push(String::new()),
            c => fields[last].push(c),
        }
    }
    if quoted {
        return Err("a quote is not closed".into());
    }
    Ok(fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

/// Parses a decimal number with a point or, as in some locales, a comma; nothing else.
pub(super) fn number(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+' | 'e' | 'E');
    if !text.chars().all(plain) || text.matches([',', '.']).count() > 1 {
        return None;
    }
    text.replace(',', ".").parse().ok()
}
