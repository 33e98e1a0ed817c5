//! `--write-out`: curl's format language with curl's variables.
//!
//! Input: a format, parsed once, and for each sample what curl calls the transfer. Output: pieces
//! of text and where each belongs. Variables, syntax and formatting are those of curl 8
//! (`docs/cmdline-opts/write-out.md` of curl); `docs/formats.md` says for each whether it means
//! the same here. Times are curl's: seconds since the start, zero for what did not happen.

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

/// What curl knows about a transfer besides the sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Number of the URL on the command line, from 0.
    pub url_number: u32,
    /// The file that the body was written to, if it was to a file.
    pub filename_effective: Option<String>,
    /// Exit code of this transfer; 0 is success.
    pub exit_code: i32,
    /// What went wrong, if anything.
    pub error_message: Option<String>,
    /// The `Referer` that was sent.
    pub referer: Option<String>,
}

/// A piece of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it belongs.
    pub target: Target,
    /// What is written there.
    pub text: String,
}

/// Where a piece belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `%{stdout}`, and the beginning of every format.
    Stdout,
    /// `%{stderr}`.
    Stderr,
    /// `%output{PATH}` and `%output{>>PATH}`. The file is made, or emptied, even for a piece
    /// without text. Where it cannot be opened the text goes where the piece before went.
    File {
        /// As in the format.
        path: String,
        /// Whether to keep what is in the file.
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
    /// Parses `format`, which cannot fail: what is no variable is text, as in curl.
    pub fn parse(format: &str) -> Self {
        let mut parser = Parser { items: Vec::new(), text: String::new() };
        let mut rest = format;
        while !rest.is_empty() {
            rest = parser.next(rest);
        }
        parser.end_text();
        Self { items: parser.items }
    }

    /// The format that a file holds (`-w @FILE`). Line ends do not count, as in curl: a format
    /// says `\n` where it wants one.
    pub fn in_file(contents: &str) -> String {
        contents.replace(['\r', '\n'], "")
    }

    /// Names in `%{…}` that are no variable, in order. They print nothing; curl warns with
    /// `unknown --write-out variable: 'NAME'`.
    pub fn unknown(&self) -> impl Iterator<Item = &str> {
        self.items.iter().filter_map(|item| match item {
            Item::Unknown(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Files that it names, and whether text is added to them.
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        self.items.iter().filter_map(|item| match item {
            Item::Switch(Target::File { path, append }) => Some((path.as_str(), *append)),
            _ => None,
        })
    }
}

/// The names of the variables that have a value: the keys of `%{json}`, sorted.
pub fn variable_names() -> impl Iterator<Item = &'static str> {
    variable::VARIABLES.iter().map(|(name, _)| *name)
}

/// Takes a format apart from the front.
struct Parser {
    items: Vec<Item>,
    text: String,
}

impl Parser {
    /// Takes one escape, variable or character, and returns what is left.
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
        // Of an escape that means nothing both characters are kept, and the second one is spent:
        // "\%{x}" is no variable.
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
    // curl before 8 took names in any case; formats from then should go on working.
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
