//! `--write-out`: curl's format language with curl's variables.
//!
//! Input: a format, parsed once, and for each sample the data that curl has about a transfer. Output: pieces of
//! text with their targets. Variables, syntax and formatting are those of curl 8 (`docs/cmdline-opts/write-out.md`
//! of curl); `docs/formats.md` says for each whether it means the same here. Times are like curl's: seconds since
//! the start, zero for steps that did not happen.

mod deliver;
mod render;
mod strftime;
mod url_parts;
mod variable;

use variable::Variable;

pub use deliver::deliver;

/// A parsed `--write-out` format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    items: Vec<Item>,
}

/// Data that curl has about a transfer beyond the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the URL on the command line, from 0.
    pub url_number: u32,
    /// The file to which the body was written, if any.
    pub filename_effective: Option<String>,
    /// Exit code of this transfer; 0 is success.
    pub exit_code: i32,
    /// Error message, if anything went wrong.
    pub error_message: Option<String>,
    /// The `Referer` that was sent.
    pub referer: Option<String>,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its target.
    pub target: Target,
    /// Its text.
    pub text: String,
}

/// Target of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `%{stdout}`, also the initial target of every format.
    Stdout,
    /// `%{stderr}`.
    Stderr,
    /// `%output{PATH}` and `%output{>>PATH}`.
    ///
    /// The file is created or truncated even for an empty piece. If it cannot be opened, the text goes to the
    /// previous target.
    File {
        /// The path as in the format.
        path: String,
        /// Whether to append to the file.
        append: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Text(String),
    Variable(Variable),
    Unknown(String),
    Header(String),
    Time(String),
    Json,
    HeaderJson,
    OnError,
    Switch(Target),
}

impl Format {
    /// Parses `format`. This cannot fail: anything that is not a variable is text, as in curl.
    pub fn parse(format: &str) -> Self {
        let mut parser = Parser { items: Vec::new(), text: String::new() };
        let mut rest = format;
        while !rest.is_empty() {
            rest = parser.next(rest);
        }
        parser.end_text();
        Self { items: parser.items }
    }

    /// The format from a file's contents (`-w @FILE`). Line ends are ignored, as in curl: a format uses `\n` for a
    /// line end.
    pub fn in_file(contents: &str) -> String {
        contents.replace(['\r', '\n'], "")
    }

    /// Unknown names in `%{…}`, in order. They print nothing; curl warns with `unknown --write-out variable:
    /// 'NAME'`.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            Item::Unknown(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Files that it names, and whether text is appended to them.
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        self.items.iter().filter_map(|item| match item {
            Item::Switch(Target::File { path, append }) => Some((path.as_str(), *append)),
            _ => None,
        })
    }
}

/// Names of the variables that have a value, which are the keys of `%{json}`: sorted.
pub fn variable_names() -> impl Iterator<Item = &'static str> {
    variable::VARIABLES.iter().map(|(name, _)| *name)
}

/// Parses a format from left to right.
struct Parser {
    items: Vec<Item>,
    text: String,
}

impl Parser {
    /// Consumes one escape, variable or character, and returns the rest.
    fn next<'a>(&mut self, rest: &'a str) -> &'a str {
        if let Some(after) = rest.strip_prefix("%%") {
            self.text.push('%');
            return after;
        }
        for (opening, item) in OPENINGS {
            if let Some(inside) = rest.strip_prefix(opening) {
                let Some((name, after)) = inside.split_once('}') else {
                    self.text += opening;
                    return inside;
                };
                self.end_text();
                self.items.push(item(name));
                return after;
            }
        }
        for (escape, character) in [("\\n", '\n'), ("\\r", '\r'), ("\\t", '\t')] {
            if let Some(after) = rest.strip_prefix(escape) {
                self.text.push(character);
                return after;
            }
        }
        // For an unknown escape, both characters are kept and the second is consumed, so "\%{x}" is not a variable.
        let escape = rest.starts_with(['%', '\\']);
        let mut characters = rest.chars();
        self.text.extend(characters.by_ref().take(if escape { 2 } else { 1 }));
        characters.as_str()
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.items.push(Item::Text(std::mem::take(&mut self.text)));
        }
    }
}

type MakeItem = fn(&str) -> Item;

const OPENINGS: [(&str, MakeItem); 4] = [
    ("%{", braced),
    ("%header{", |name| Item::Header(name.to_owned())),
    ("%output{", output),
    ("%time{", |format| Item::Time(format.to_owned())),
];

fn braced(name: &str) -> Item {
    // curl before version 8 accepted names in any case, and old formats should keep working.
    match name.to_ascii_lowercase().as_str() {
        "json" => Item::Json,
        "header_json" => Item::HeaderJson,
        "onerror" => Item::OnError,
        "stdout" => Item::Switch(Target::Stdout),
        "stderr" => Item::Switch(Target::Stderr),
        lower => match Variable::named(lower) {
            Some(variable) => Item::Variable(variable),
            None => Item::Unknown(name.to_owned()),
        },
    }
}

fn output(path: &str) -> Item {
    let (path, append) = match path.strip_prefix(">>") {
        Some(path) => (path, true),
        None => (path, false),
    };
    Item::Switch(Target::File { path: path.to_owned(), append })
}

#[cfg(test)]
mod tests;
