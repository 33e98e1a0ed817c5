//! Bodies of `-F`: multipart forms as curl 7.88 writes them (its tool_formparse.c and mime.c).
//!
//! Input: the texts as typed, and their files. Output: the value of Content-Type, and the bytes. What curl skips with a
//! warning, such as unknown attributes, is skipped here without one.

mod field;

use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files::LineFiles;
use crate::problem::{LineProblem, exit};
use crate::settings::FormText;

/// Bytes that become one line of 76 letters in base64 (RFC 2045, section 6.8).
const BASE64_LINE_BYTES: usize = 57;

/// A form, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormBody {
    /// The value of Content-Type, with the boundary.
    pub content_type: String,
    /// All parts, with their boundaries.
    pub bytes: Vec<u8>,
}

/// Builds the body of `-F` and `--form-string`. A Content-Type of `-H` gets the boundary too, whatever it says.
///
/// # Errors
/// When a text is malformed, a file cannot be read, or an encoder does not fit.
pub fn build_form(
    parts: &[FormText],
    escape: bool,
    typed_content_type: Option<&str>,
    files: &dyn LineFiles,
) -> Result<FormBody, LineProblem> {
    let form_type = typed_content_type.unwrap_or("multipart/form-data").to_owned();
    let whole = FormPart { content_type: Some(form_type), ..FormPart::default() };
    let mut form = Multipart::open(whole, escape, files);
    // Groups that `=(` opened and no `=)` closed yet.
    let mut nested: Vec<Multipart> = Vec::new();
    for text in parts {
        let (long, text, literal) = match text {
            FormText::Form(text) => ("form", text, false),
            FormText::Literal(text) => ("form-string", text, true),
        };
        let Some((name, value)) = text.split_once('=') else {
            return Err(LineProblem::option(long, "expected NAME=VALUE, but there is no \"=\""));
        };
        let name = (!name.is_empty()).then(|| name.to_owned());
        let part = if literal {
            FormPart { name, data: value.as_bytes().to_vec(), ..FormPart::default() }
        } else if value.starts_with('(') {
            let group = FormPart { name, ..field::read_group(value, files)? };
            nested.push(Multipart::open(group, escape, files));
            continue;
        } else if name.is_none() && value == ")" {
            let Some(group) = nested.pop() else {
                return Err(LineProblem::option(long, "\"=)\" has no \"=(\" before it"));
            };
            group.close()
        } else if let Some(names) = value.strip_prefix('@') {
            let mut attached = field::read_attached(names, files)?;
            match attached.pop() {
                Some(only) if attached.is_empty() => FormPart { name, ..only },
                last => {
                    let group = FormPart { name, ..FormPart::default() };
                    let mut group = Multipart::open(group, escape, files);
                    for part in attached.into_iter().chain(last) {
                        group.add(part)?;
                    }
                    group.close()
                }
            }
        } else {
            FormPart { name, ..field::read_text(value, files)? }
        };
        nested.last_mut().unwrap_or(&mut form).add(part)?;
    }
    while let Some(group) = nested.pop() {
        nested.last_mut().unwrap_or(&mut form).add(group.close())?;
    }
    let FormPart { content_type, data, .. } = form.close();
    Ok(FormBody { content_type: content_type.unwrap_or_default(), bytes: data })
}

/// One part, or a group of parts.
#[derive(Default)]
struct FormPart {
    name: Option<String>,
    filename: Option<String>,
    /// Typed or guessed.
    content_type: Option<String>,
    encoder: Option<&'static str>,
    headers: Vec<String>,
    /// Not encoded yet.
    data: Vec<u8>,
}

/// A group of parts while it is written.
struct Multipart {
    /// What the group becomes; its data grow part by part.
    group: FormPart,
    content_type: String,
    boundary: String,
    /// `--form-escape`
    escape: bool,
}

impl Multipart {
    fn open(group: FormPart, escape: bool, files: &dyn LineFiles) -> Self {
        let mut random = [0; 8];
        files.random(&mut random);
        let boundary = format!("{}{:016x}", "-".repeat(24), u64::from_be_bytes(random));
        let content_type = group.content_type.clone();
        let content_type = content_type.unwrap_or_else(|| "multipart/mixed".to_owned());
        Self { group, content_type, boundary, escape }
    }

    /// Writes a part: its boundary, its head, and its data.
    fn add(&mut self, part: FormPart) -> Result<(), LineProblem> {
        let head = self.render_head(&part);
        let data = match part.encoder {
            Some("base64") => encode_base64(&part.data),
            Some("7bit") if !part.data.is_ascii() => {
                let problem = LineProblem::option("form", "data of encoder=7bit is not ASCII");
                return Err(problem.with_code(exit::READ));
            }
            _ => part.data,
        };
        self.group.data.extend_from_slice(head.as_bytes());
        self.group.data.extend_from_slice(&data);
        self.group.data.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// From the boundary through the empty line.
    fn render_head(&self, part: &FormPart) -> String {
        let mut head = format!("--{}\r\n", self.boundary);
        let disposition = if is_form_data(&self.content_type) {
            Some("form-data")
        } else {
            (part.name.is_some() || part.filename.is_some()).then_some("attachment")
        };
        if let Some(disposition) = disposition
            && find_header(&part.headers, "Content-Disposition").is_none()
        {
            head += &format!("Content-Disposition: {disposition}");
            for (key, value) in [("name", &part.name), ("filename", &part.filename)] {
                if let Some(value) = value {
                    head += &format!("; {key}=\"{}\"", escape_name(value, self.escape));
                }
            }
            head += "\r\n";
        }
        if let Some(content_type) = &part.content_type {
            head += &format!("Content-Type: {content_type}\r\n");
        }
        if let Some(encoder) = part.encoder
            && find_header(&part.headers, "Content-Transfer-Encoding").is_none()
        {
            head += &format!("Content-Transfer-Encoding: {encoder}\r\n");
        }
        for header in &part.headers {
            // A typed Content-Type stands in its place already.
            if find_header(slice::from_ref(header), "Content-Type").is_none() {
                head += &format!("{header}\r\n");
            }
        }
        head += "\r\n";
        head
    }

    fn close(self) -> FormPart {
        let Self { mut group, content_type, boundary, .. } = self;
        group.data.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        group.content_type = Some(format!("{content_type}; boundary={boundary}"));
        group
    }
}

/// Whether parts of this type are fields of a form, and not attachments.
fn is_form_data(content_type: &str) -> bool {
    let main = content_type.split([';', ' ', '\t', '\r', '\n']).next().unwrap_or_default();
    main.eq_ignore_ascii_case("multipart/form-data")
}

/// The value of the first header with this name.
fn find_header<'a>(headers: &'a [String], name: &str) -> Option<&'a str> {
    headers.iter().find_map(|header| {
        let (found, value) = header.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim_start_matches(' '))
    })
}

fn escape_name(name: &str, backslashes: bool) -> String {
    if backslashes {
        name.replace('\\', "\\\\").replace('"', "\\\"")
    } else {
        name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
    }
}

fn encode_base64(data: &[u8]) -> Vec<u8> {
    let lines: Vec<String> =
        data.chunks(BASE64_LINE_BYTES).map(|line| STANDARD.encode(line)).collect();
    lines.join("\r\n").into_bytes()
}

#[cfg(test)]
mod tests;
