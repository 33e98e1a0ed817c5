//! Reads the text of one `-F` after its first equals sign: `WORD;type=T;filename=F;headers=H;encoder=E`.

use super::{FormPart, find_header};
use crate::data::{read_file, unreadable_file};
use crate::files::LineFiles;
use crate::problem::LineProblem;

/// curl's exit code for an encoder that it does not know.
const UNKNOWN_ENCODER: u8 = 43;

/// Reads `(;type=T;headers=H`, which opens a group.
pub(super) fn read_group(value: &str, files: &dyn LineFiles) -> Result<FormPart, LineProblem> {
    let (_, part) = FieldReader::new(value, files).read_part()?;
    Ok(FormPart { filename: None, encoder: None, ..part })
}

/// Reads a text as typed, or `<FILE`.
pub(super) fn read_text(value: &str, files: &dyn LineFiles) -> Result<FormPart, LineProblem> {
    let Some(file) = value.strip_prefix('<') else {
        let (text, mut part) = FieldReader::new(value, files).read_part()?;
        part.data = text.into_bytes();
        part.guess_type(None);
        return Ok(part);
    };
    let (path, part) = FieldReader::new(file, files).read_part()?;
    let data = read_file("form", &path, files)?;
    let mut part = FormPart { filename: None, data, ..part };
    part.guess_type(path_unless_stdin(&path));
    Ok(part)
}

/// Reads the files of `@FILE,FILE`.
pub(super) fn read_attached(
    names: &str,
    files: &dyn LineFiles,
) -> Result<Vec<FormPart>, LineProblem> {
    let mut reader = FieldReader { commas: true, ..FieldReader::new(names, files) };
    let mut parts = Vec::new();
    loop {
        let (path, mut part) = reader.read_part()?;
        part.data = read_file("form", &path, files)?;
        if part.filename.is_none() {
            part.filename = path.rsplit('/').next().map(str::to_owned);
        }
        part.guess_type(path_unless_stdin(&path));
        parts.push(part);
        if !reader.rest().starts_with(',') {
            return Ok(parts);
        }
        reader.at += 1;
    }
}

/// Standard input has no path that tells its type.
fn path_unless_stdin(path: &str) -> Option<&str> {
    (path != "-").then_some(path)
}

impl FormPart {
    /// Fills in the type that curl guesses, by the name that is sent and by the path of the file.
    fn guess_type(&mut self, path: Option<&str>) {
        if self.content_type.is_some() {
            return;
        }
        let known = self.filename.as_deref().and_then(type_of_name);
        let known = known.or(path.and_then(type_of_name));
        let guessed = match self.filename {
            Some(_) => known.or(path.map(|_| "application/octet-stream")),
            None => known.filter(|known| *known != "text/plain"),
        };
        self.content_type = guessed.map(str::to_owned);
    }
}

/// The types that curl knows.
fn type_of_name(name: &str) -> Option<&'static str> {
    let (_, extension) = name.rsplit_once('.')?;
    Some(match extension.to_ascii_lowercase().as_str() {
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain",
        "htm" | "html" => "text/html",
        "pdf" => "application/pdf",
        "xml" => "application/xml",
        _ => return None,
    })
}

/// Such a text while it is read.
struct FieldReader<'a> {
    text: &'a str,
    at: usize,
    /// A comma ends a word too: another file may follow.
    commas: bool,
    files: &'a dyn LineFiles,
}

impl<'a> FieldReader<'a> {
    fn new(text: &'a str, files: &'a dyn LineFiles) -> Self {
        Self { text, at: 0, commas: false, files }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Steps over a prefix in any case; false where the text goes on in another way.
    fn take_prefix(&mut self, prefix: &str) -> bool {
        let start = self.rest().get(..prefix.len());
        let is_there = start.is_some_and(|start| start.eq_ignore_ascii_case(prefix));
        if is_there {
            self.at += prefix.len();
        }
        is_there
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches(is_blank).len();
    }

    fn skip_to_separator(&mut self) {
        let commas = self.commas;
        let end = self.rest().find(|letter: char| letter == ';' || (commas && letter == ','));
        self.at = end.map_or(self.text.len(), |end| self.at + end);
    }

    /// One word: `"quoted"`, or everything up to the separator without outer blanks.
    fn read_word(&mut self) -> String {
        self.skip_blanks();
        let start = self.at;
        if let Some((word, length)) = read_quoted(self.rest()) {
            self.at += length;
            self.skip_to_separator();
            return word;
        }
        self.skip_to_separator();
        self.text[start..self.at].trim_end_matches(is_blank).to_owned()
    }

    /// The first word, and a part with the attributes that follow it.
    fn read_part(&mut self) -> Result<(String, FormPart), LineProblem> {
        let word = self.read_word();
        let mut part = FormPart::default();
        // Attributes that curl does not know are parameters of a type that stands before them.
        let mut type_start = None;
        while self.rest().starts_with(';') {
            self.at += 1;
            self.skip_blanks();
            if type_start.is_none() && self.take_prefix("type=") {
                self.skip_blanks();
                let start = self.at;
                self.skip_to_separator();
                if !is_media_type(&self.text[start..self.at]) {
                    return Err(LineProblem::option("form", "type= expects TYPE/SUBTYPE"));
                }
                type_start = Some(start);
            } else if self.take_prefix("filename=") {
                type_start = None;
                part.filename = Some(self.read_word());
            } else if self.take_prefix("headers=") {
                type_start = None;
                self.read_headers(&mut part.headers)?;
            } else if self.take_prefix("encoder=") {
                type_start = None;
                part.encoder = Some(find_encoder(&self.read_word())?);
            } else if type_start.is_some() {
                self.skip_to_separator();
            } else {
                self.read_word();
            }
            if let Some(start) = type_start {
                let typed = self.text[start..self.at].trim_end_matches(is_blank);
                part.content_type = Some(typed.to_owned());
            }
        }
        if part.content_type.is_none() {
            part.content_type = find_header(&part.headers, "Content-Type").map(str::to_owned);
        }
        Ok((word, part))
    }

    /// The value of `headers=`: one header, or a file of them after `@` or `<`.
    fn read_headers(&mut self, headers: &mut Vec<String>) -> Result<(), LineProblem> {
        if !self.rest().starts_with(['@', '<']) {
            headers.push(self.read_word());
            return Ok(());
        }
        self.at += 1;
        let name = self.read_word();
        // `-` is a file's name here, as in curl.
        let bytes =
            self.files.read(&name).map_err(|error| unreadable_file("form", &name, &error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| LineProblem::option("form", format!("{name:?} is not UTF-8")))?;
        let mut lines: Vec<String> = Vec::new();
        for line in text.replace('\r', "").split('\n') {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match lines.last_mut() {
                // Such a line continues the one before it.
                Some(before) if line.starts_with(is_blank) => before.push_str(line),
                _ => lines.push(line.to_owned()),
            }
        }
        let lines = lines.iter().map(|line| line.trim_end_matches(is_blank).to_owned());
        headers.extend(lines.filter(|line| !line.is_empty()));
        Ok(())
    }
}

/// A word in quotes, and its length with them; absent where the second quote is missing.
fn read_quoted(text: &str) -> Option<(String, usize)> {
    if !text.starts_with('"') {
        return None;
    }
    let mut word = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((word, at + 1)),
            '\\' => {
                let escaped = letters.next_if(|(_, next)| matches!(*next, '\\' | '"'));
                word.push(escaped.map_or('\\', |(_, next)| next));
            }
            _ => word.push(letter),
        }
    }
    None
}

/// A space of C's `isspace`.
fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t'..='\r')
}

fn is_media_type(text: &str) -> bool {
    text.split_once('/').is_some_and(|(main, sub)| {
        let begins = !sub.is_empty() && !sub.starts_with([',', ' ', '\n']);
        begins && !main.is_empty() && !main.contains(' ')
    })
}

fn find_encoder(name: &str) -> Result<&'static str, LineProblem> {
    if name.eq_ignore_ascii_case("quoted-printable") {
        let problem = LineProblem::option("form", "firstbyte does not encode quoted-printable");
        return Err(problem.hint("encoder=base64 takes any data"));
    }
    let known = ["binary", "8bit", "7bit", "base64"];
    known.into_iter().find(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
        LineProblem::option("form", "encoder= expects base64, 7bit, 8bit or binary")
            .with_code(UNKNOWN_ENCODER)
    })
}
