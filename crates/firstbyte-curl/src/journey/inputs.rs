//! What a journey reads before its first request: headers, bodies, dates, the netrc file.
//!
//! Input: an operation's settings and files. It knows nothing of responses.

use crate::data::build_body;
use crate::dates::{format_date, parse_date};
use crate::files::{LineFiles, in_home, read_named};
use crate::form::build_form;
use crate::head::{find_typed, typed_value};
use crate::problem::{LineProblem, exit};
use crate::settings::{ContinueAt, CookieText, NetrcChoice, Operation, RequestKind};
use crate::transfers::{OutputPlace, Transfer, puts_data_into_url};

/// `CURLE_PARTIAL_FILE`: `-C` begins at the end of an upload or behind it.
const NOTHING_LEFT: u8 = 18;

/// What an operation reads once for all its transfers, since standard input can be read only once.
#[derive(Clone)]
pub(super) struct TypedInputs {
    /// The lines of `-H`, those of `--json` and `--etag-compare` after them.
    pub(super) headers: Vec<String>,
    /// The body of `-d` or `-F`.
    pub(super) body: Vec<u8>,
    pub(super) form_content_type: Option<String>,
}

impl TypedInputs {
    pub(super) fn read(operation: &Operation, files: &dyn LineFiles) -> Result<Self, LineProblem> {
        let headers = read_headers(operation, files)?;
        if operation.kind == RequestKind::Form {
            let name = "Content-Type";
            let typed = find_typed(&headers, name).map(|line| typed_value(line, name));
            let form = build_form(&operation.form, operation.form_escape, typed, files)?;
            let form_content_type = Some(form.content_type);
            return Ok(Self { headers, body: form.bytes, form_content_type });
        }
        let body = match puts_data_into_url(operation) {
            true => Vec::new(),
            false => build_body(&operation.data, files)?,
        };
        Ok(Self { headers, body, form_content_type: None })
    }
}

fn read_headers(operation: &Operation, files: &dyn LineFiles) -> Result<Vec<String>, LineProblem> {
    let mut headers = Vec::new();
    for word in &operation.headers {
        let Some(name) = word.strip_prefix('@') else {
            headers.push(word.clone());
            continue;
        };
        let text = read_named(files, name).map_err(|error| unreadable("header", name, &error))?;
        let text = String::from_utf8(text)
            .map_err(|_| LineProblem::option("header", format!("{name} is not UTF-8")))?;
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        headers.extend(lines.map(str::to_owned));
    }
    if operation.json {
        for name in ["Content-Type", "Accept"] {
            if find_typed(&headers, name).is_none() {
                headers.push(format!("{name}: application/json"));
            }
        }
    }
    if let Some(name) = &operation.etag_compare {
        let text = match files.read(name) {
            Ok(text) => text,
            // It will be there at the next time.
            Err(_) if operation.etag_save.is_some() => Vec::new(),
            Err(error) => return Err(unreadable("etag-compare", name, &error)),
        };
        let etag = String::from_utf8_lossy(&text).replace(['\r', '\n'], "");
        let etag = if etag.is_empty() { "\"\"" } else { etag.as_str() };
        headers.push(format!("If-None-Match: {etag}"));
    }
    for line in &headers {
        check_text("header", line)?;
    }
    Ok(headers)
}

fn unreadable(long: &str, name: &str, error: &std::io::Error) -> LineProblem {
    LineProblem::option(long, format!("cannot read {name}: {error}")).with_code(exit::READ)
}

/// Refuses what would break a head into other lines, and logins without a password.
pub(super) fn check_settings(operation: &Operation) -> Result<(), LineProblem> {
    let single = [
        ("user-agent", &operation.user_agent),
        ("referer", &operation.referer),
        ("request", &operation.request),
        ("request-target", &operation.request_target),
        ("range", &operation.range),
        ("oauth2-bearer", &operation.oauth2_bearer),
    ];
    for (long, text) in single {
        text.iter().try_for_each(|text| check_text(long, text))?;
    }
    for line in &operation.proxy.headers {
        check_text("proxy-header", line)?;
    }
    for cookie in &operation.cookies {
        if let CookieText::Pairs(text) = cookie {
            check_text("cookie", text)?;
        }
    }
    for (long, text) in [("user", &operation.user), ("proxy-user", &operation.proxy.user)] {
        if text.as_ref().is_some_and(|text| !text.contains(':')) {
            return Err(LineProblem::option(long, "give the password as NAME:PASSWORD"));
        }
    }
    Ok(())
}

fn check_text(long: &str, text: &str) -> Result<(), LineProblem> {
    match text.contains(['\r', '\n', '\0']) {
        true => Err(LineProblem::option(long, "a line of a request cannot contain CR, LF or NUL")),
        false => Ok(()),
    }
}

/// The body of `-T`, and whether its length is known before it is read.
pub(super) fn read_upload(
    name: &str,
    files: &dyn LineFiles,
) -> Result<(Vec<u8>, bool), LineProblem> {
    let is_stdin = matches!(name, "-" | ".");
    let body = if is_stdin { files.read_stdin() } else { files.read(name) };
    let body = body.map_err(|error| unreadable("upload-file", name, &error))?;
    Ok((body, !is_stdin && files.size(name).is_some()))
}

/// What `-r` and `-C` ask for.
pub(super) enum SentRange {
    /// As typed.
    Typed(String),
    /// `-C N`
    From(u64),
    /// `-C -` of an upload: curl does not know what the server has.
    WholeUpload,
}

/// `-C` beats `-r`, except at 0.
pub(super) fn choose_range(
    operation: &Operation,
    transfer: &Transfer,
    kind: RequestKind,
    files: &dyn LineFiles,
) -> Option<SentRange> {
    let from = match operation.continue_at {
        Some(ContinueAt::EndOfOutput) if kind == RequestKind::Put => {
            return Some(SentRange::WholeUpload);
        }
        Some(ContinueAt::EndOfOutput) => match &transfer.output {
            Some(OutputPlace::File(name)) => files.size(name).unwrap_or(0),
            _ => 0,
        },
        Some(ContinueAt::Offset(from)) => from,
        None => 0,
    };
    if from > 0 {
        return Some(SentRange::From(from));
    }
    operation.range.clone().map(SentRange::Typed)
}

/// The part of a body that `-C` leaves: the end of an upload, but the beginning of `-d`, as curl does.
pub(super) fn cut_body(
    mut body: Vec<u8>,
    from: u64,
    kind: RequestKind,
    has_known_length: bool,
) -> Result<Vec<u8>, LineProblem> {
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    let is_cut = matches!(kind, RequestKind::Put | RequestKind::Post);
    if is_cut && has_known_length && from >= body.len() {
        let what = format!("the body has only {} bytes", body.len());
        return Err(LineProblem::option("continue-at", what).with_code(NOTHING_LEFT));
    }
    match kind {
        RequestKind::Put => drop(body.drain(..from.min(body.len()))),
        RequestKind::Post => body.truncate(body.len() - from),
        _ => {}
    }
    Ok(body)
}

/// The line of `-z`: `-` and `=` at its beginning choose the name.
pub(super) fn read_time_condition(text: &str, files: &dyn LineFiles) -> Option<String> {
    let (name, rest) = match text.chars().next() {
        Some('-') => ("If-Unmodified-Since", &text[1..]),
        Some('=') => ("Last-Modified", &text[1..]),
        Some('+') => ("If-Modified-Since", &text[1..]),
        _ => ("If-Modified-Since", text),
    };
    let time = parse_date(rest).or_else(|| files.modified(rest))?;
    Some(format!("{name}: {}", format_date(time)))
}

/// The netrc file, if it is asked for and can be read: without one there are no logins.
pub(super) fn read_netrc(operation: &Operation, files: &dyn LineFiles) -> Option<String> {
    if operation.netrc == NetrcChoice::Off && operation.netrc_file.is_none() {
        return None;
    }
    let text = match &operation.netrc_file {
        Some(name) => files.read(name),
        None => files.read(in_home(files, ".netrc")?.to_str()?),
    };
    Some(String::from_utf8_lossy(&text.ok()?).into_owned())
}
