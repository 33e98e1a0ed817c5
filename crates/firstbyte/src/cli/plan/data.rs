//! Texts and bodies that come from the command line, a file or standard input.

use std::path::Path;

use bytes::Bytes;

use crate::cli::args::{BodyPart, VisitArgs};
use crate::cli::exit::{self, Problem};
use crate::cli::typed::BodyText;
use firstbyte_probe::probe::{MOST_BODY, MOST_TEXT, Secret, read_all, read_file};
use firstbyte_report::write_out::Format;

/// The format for `--write-out`: the text itself, or the contents of the file after `@`.
pub(in crate::cli) fn write_out(format: &str) -> Result<String, Problem> {
    let Some(path) = format.strip_prefix('@') else { return Ok(format.to_owned()) };
    let text = String::from_utf8(read("--write-out", path, MOST_TEXT)?).map_err(|_| {
        Problem::new(exit::READ, format!("--write-out @{path}: the file is not text"))
    })?;
    Ok(Format::in_file(&text))
}

/// The request's body: every `-d`, `--data-raw` and `--data-binary`, joined by `&` as curl does.
pub(super) fn body(args: &VisitArgs) -> Result<Option<Secret<Bytes>>, Problem> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for part in &args.body.parts {
        parts.push(match part {
            BodyPart::Data(BodyText(text)) => match text.strip_prefix('@') {
                // curl drops carriage returns, newlines and NULs from files given with -d.
                Some(path) => read("-d", path, MOST_BODY)?
                    .into_iter()
                    .filter(|b| !matches!(b, b'\r' | b'\n' | 0))
                    .collect(),
                None => text.clone().into_bytes(),
            },
            BodyPart::Raw(text) => text.0.clone().into_bytes(),
            BodyPart::Binary(BodyText(text)) => match text.strip_prefix('@') {
                Some(path) => read("--data-binary", path, MOST_BODY)?,
                None => text.clone().into_bytes(),
            },
        });
    }
    Ok((!parts.is_empty()).then(|| Secret::new(Bytes::from(parts.join(&b'&')))))
}

fn read(flag: &str, path: &str, most: u64) -> Result<Vec<u8>, Problem> {
    let result = if path == "-" {
        read_all(std::io::stdin().lock(), most)
    } else {
        read_file(Path::new(path), most)
    };
    result.map_err(|e| {
        let why = firstbyte_probe::probe::describe_io(&e);
        Problem::new(exit::READ, format!("{flag} @{path}: {why}"))
    })
}
