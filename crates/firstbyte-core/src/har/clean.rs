//! The same archive without what lets somebody in, or says what was read: for handing it on.
//!
//! Input: an archive's bytes. Output: an archive, entry by entry. What is written is on a list; what is on none is left out,
//! so that what a program adds tomorrow is left out too. Times are written as they stand, digit by digit. An entry that
//! is not whole is not written.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::IpAddr;

use super::date::unix_ns;
use super::entry::HarEnd;
use super::json::{JsonFlaw, JsonLeaf, JsonShape, JsonSource};
use super::read::HarError;
use super::url::HarUrl;

/// Fields of requests and responses that are kept, with their values: what caching, compression and connections go by.
pub const KEPT_FIELDS: [&str; 13] = [
    "age",
    "alt-svc",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "expires",
    "keep-alive",
    "last-modified",
    "transfer-encoding",
    "vary",
];

/// How much of a text is looked at.
const LONGEST: usize = 8_000;

/// What was written, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries that were written.
    pub entries: u64,
    /// Fields of requests and responses that were left out.
    pub fields: u64,
    /// Cookies.
    pub cookies: u64,
    /// Bodies of responses.
    pub bodies: u64,
    /// Bodies of requests.
    pub posted: u64,
    /// URLs that lost a query, a fragment or a user.
    pub urls: u64,
    /// Members that are on no list.
    pub members: u64,
    /// Whether the archive was read to its end.
    pub end: HarEnd,
}

/// Why nothing more is written.
#[derive(Debug)]
pub enum CleanError {
    /// What was to be read.
    Read(HarError),
    /// Writing failed.
    Write(io::Error),
}

/// Reads an archive from `input`, and writes it to `out` without what lets somebody in. A damaged one is written as far as it
/// is whole.
///
/// # Errors
/// When it is no archive, or cannot be read or written.
pub fn clean(input: impl Read, out: impl Write) -> Result<Cleaned, CleanError> {
    let mut source = JsonSource::new(input);
    let mut cleaner = Cleaner::new(out);
    let read = source.skip_mark().and_then(|()| {
        source.members(&mut |source, name| match name {
            "log" if !cleaner.has_log => cleaner.log(source),
            _ => source.skip(),
        })
    });
    if let Some(error) = cleaner.write_error.take() {
        return Err(CleanError::Write(error));
    }
    let not_har = |detail: String| Err(CleanError::Read(HarError::NotHar { detail }));
    let end = match read {
        Err(JsonFlaw::Io(error)) => return Err(CleanError::Read(HarError::Io(error))),
        Ok(_) if !cleaner.has_log => return not_har("it has no `log`".to_owned()),
        Err(JsonFlaw::Cut { offset: 0 }) => return not_har("it is empty".to_owned()),
        Err(flaw) if !cleaner.has_log => return not_har(flaw.to_string()),
        Ok(_) => HarEnd::Whole,
        Err(JsonFlaw::Cut { offset }) => HarEnd::Cut { offset },
        Err(flaw) => HarEnd::Damaged { detail: flaw.to_string() },
    };
    cleaner.finish().map_err(CleanError::Write)?;
    Ok(Cleaned { end, ..cleaner.cleaned })
}

/// Whether something was written.
type Copied = Result<bool, JsonFlaw>;

/// What copies an object's member of that name.
type CopyMember<'a, R> = dyn FnMut(&mut JsonSource<R>, &mut Vec<u8>, &str) -> Copied + 'a;

/// What copies a list's element.
type CopyElement<'a, W, R> =
    dyn FnMut(&mut Cleaner<W>, &mut JsonSource<R>, &mut Vec<u8>) -> Copied + 'a;

struct Cleaner<W> {
    out: W,
    cleaned: Cleaned,
    has_log: bool,
    has_member: bool,
    in_entries: bool,
    pages: HashMap<String, usize>,
    write_error: Option<io::Error>,
}

impl<W: Write> Cleaner<W> {
    fn new(out: W) -> Self {
        Self {
            out,
            cleaned: Cleaned::default(),
            has_log: false,
            has_member: false,
            in_entries: false,
            pages: HashMap::new(),
            write_error: None,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), JsonFlaw> {
        self.out.write_all(bytes).map_err(|error| {
            self.write_error = Some(error);
            JsonFlaw::Io(io::ErrorKind::Other.into())
        })
    }

    fn log<R: Read>(&mut self, source: &mut JsonSource<R>) -> Result<(), JsonFlaw> {
        if source.shape()? != JsonShape::Object {
            return source.skip();
        }
        source.members(&mut |source, name| {
            if !self.has_log {
                self.has_log = true;
                self.write(b"{\"log\":{")?;
            }
            if name == "entries" && source.shape()? == JsonShape::Array {
                self.begin_member()?;
                self.write(b"\"entries\":[")?;
                self.in_entries = true;
                source.elements(&mut |source| self.entry(source))?;
                self.in_entries = false;
                return self.write(b"\n]");
            }
            let mut bytes = Vec::new();
            let kept = match name {
                "version" => short_text(source, &mut bytes),
                "creator" | "browser" => {
                    object(source, &mut bytes, &mut |source, out, name| match name {
                        "name" | "version" => short_text(source, out),
                        _ => source.skip().map(|()| false),
                    })
                }
                "pages" => {
                    self.list(source, &mut bytes, &mut |this, source, out| this.page(source, out))
                }
                _ => {
                    self.cleaned.members += 1;
                    source.skip().map(|()| false)
                }
            };
            if kept? {
                self.begin_member()?;
                self.write(format!("\"{name}\":").as_bytes())?;
                self.write(&bytes)?;
            }
            Ok(())
        })?;
        if !self.has_log {
            self.has_log = true;
            self.write(b"{\"log\":{")?;
        }
        Ok(())
    }

    fn begin_member(&mut self) -> Result<(), JsonFlaw> {
        match std::mem::replace(&mut self.has_member, true) {
            true => self.write(b",\n"),
            false => Ok(()),
        }
    }

    /// Closes what is open.
    fn finish(&mut self) -> io::Result<()> {
        let end: &[u8] = if self.in_entries { b"\n]}}\n" } else { b"}}\n" };
        self.out.write_all(end)?;
        self.out.flush()
    }

    fn entry<R: Read>(&mut self, source: &mut JsonSource<R>) -> Result<(), JsonFlaw> {
        let mut bytes = Vec::new();
        let mut has_cache = false;
        let is_object = object(source, &mut bytes, &mut |source, out, name| match name {
            "pageref" => self.page_name(source, out),
            "startedDateTime" => date(source, out),
            "time" => number(source, out),
            "request" | "response" => self.message(source, out, name == "request"),
            // What it holds are times and tags of earlier visits.
            "cache" => {
                has_cache = true;
                out.extend_from_slice(b"{}");
                source.skip().map(|()| true)
            }
            "timings" => object(source, out, &mut |source, out, name| match name {
                "blocked"
                | "dns"
                | "connect"
                | "send"
                | "wait"
                | "receive"
                | "ssl"
                | "_blocked_queueing"
                | "_blocked_proxy"
                | "_workerStart"
                | "_workerReady"
                | "_workerFetchStart"
                | "_workerRespondWithSettled"
                | "_queued" => number(source, out),
                _ => source.skip().map(|()| false),
            }),
            "serverIPAddress" => address(source, out),
            "connection" | "_connectionId" | "_socket" => identifier(source, out),
            "_fromCache" | "_fetchType" | "_resourceType" | "_priority" => word(source, out),
            _ => {
                self.cleaned.members += 1;
                source.skip().map(|()| false)
            }
        })?;
        if !is_object {
            return Ok(());
        }
        if !has_cache {
            bytes.pop();
            let comma = if bytes.ends_with(b"{") { "" } else { "," };
            bytes.extend_from_slice(format!("{comma}\"cache\":{{}}}}").as_bytes());
        }
        let begin: &[u8] = if self.cleaned.entries == 0 { b"\n" } else { b",\n" };
        self.write(begin)?;
        self.write(&bytes)?;
        self.cleaned.entries += 1;
        Ok(())
    }

    fn message<R: Read>(
        &mut self,
        source: &mut JsonSource<R>,
        out: &mut Vec<u8>,
        is_request: bool,
    ) -> Copied {
        object(source, out, &mut |source, out, name| match name {
            "method" | "httpVersion" => word(source, out),
            "url" if is_request => self.url(source, out, false),
            "redirectURL" if !is_request => self.url(source, out, true),
            "status" if !is_request => number(source, out),
            // A server may say anything there.
            "statusText" if !is_request => {
                out.extend_from_slice(b"\"\"");
                source.skip().map(|()| true)
            }
            "headersSize" | "bodySize" => number(source, out),
            "cookies" => {
                source.elements(&mut |source| {
                    self.cleaned.cookies += 1;
                    source.skip()
                })?;
                out.extend_from_slice(b"[]");
                Ok(true)
            }
            "queryString" if is_request => {
                out.extend_from_slice(b"[]");
                source.skip().map(|()| true)
            }
            "headers" => self.list(source, out, &mut |this, source, out| this.field(source, out)),
            "postData" if is_request => {
                self.cleaned.posted += 1;
                source.skip().map(|()| false)
            }
            "content" if !is_request => object(source, out, &mut |source, out, name| match name {
                "size" | "compression" => number(source, out),
                "mimeType" => media_type(source, out),
                "text" => {
                    self.cleaned.bodies += 1;
                    source.skip().map(|()| false)
                }
                _ => source.skip().map(|()| false),
            }),
            "_transferSize" if !is_request => number(source, out),
            "_fetchedViaServiceWorker" if !is_request => flag(source, out),
            "_error" if !is_request => net_error(source, out),
            _ => {
                self.cleaned.members += 1;
                source.skip().map(|()| false)
            }
        })
    }

    /// A field, where it is one of those that are kept.
    fn field<R: Read>(&mut self, source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
        let (mut name, mut value) = (String::new(), String::new());
        source.members(&mut |source, member| {
            let to = match member {
                "name" => &mut name,
                "value" => &mut value,
                _ => return source.skip(),
            };
            *to = source.leaf(LONGEST)?.into_text().unwrap_or_default();
            Ok(())
        })?;
        let kept = KEPT_FIELDS.contains(&&*name.to_ascii_lowercase());
        if !kept || value.len() > 300 {
            self.cleaned.fields += 1;
            return Ok(false);
        }
        if name.eq_ignore_ascii_case("content-type") {
            value = without_parameters(&value);
        }
        out.extend_from_slice(b"{\"name\":");
        put_text(out, &name);
        out.extend_from_slice(b",\"value\":");
        put_text(out, &value);
        out.push(b'}');
        Ok(true)
    }

    /// A URL without user, query and fragment. Where a response redirects to may be a path.
    fn url<R: Read>(
        &mut self,
        source: &mut JsonSource<R>,
        out: &mut Vec<u8>,
        may_be_path: bool,
    ) -> Copied {
        let text = source.leaf(LONGEST)?.into_text().unwrap_or_default();
        let shown = match HarUrl::parse(&text) {
            Some(url) => url.shown(),
            None if may_be_path => {
                let path = text.split(['?', '#']).next().unwrap_or_default();
                // "//user@host/" is no path.
                let is_path = path.starts_with('/') && !path.contains('@');
                if is_path { path.to_owned() } else { String::new() }
            }
            None => String::new(),
        };
        self.cleaned.urls += u64::from(text.contains(['?', '#', '@']));
        put_text(out, &shown);
        Ok(true)
    }

    fn page<R: Read>(&mut self, source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
        object(source, out, &mut |source, out, name| match name {
            "startedDateTime" => date(source, out),
            "id" => self.page_name(source, out),
            "title" => {
                let title = source.leaf(LONGEST)?.into_text().unwrap_or_default();
                // Of other titles not even what stands before a colon.
                let url = HarUrl::parse(&title).filter(|url| url.authority.is_some());
                put_text(out, &url.map_or_else(String::new, |url| url.shown()));
                Ok(true)
            }
            "pageTimings" => object(source, out, &mut |source, out, name| match name {
                "onContentLoad" | "onLoad" => number(source, out),
                _ => source.skip().map(|()| false),
            }),
            _ => {
                self.cleaned.members += 1;
                source.skip().map(|()| false)
            }
        })
    }

    /// Pages are numbered: what a program calls them may say anything.
    fn page_name<R: Read>(&mut self, source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
        let Some(name) = source.leaf(200)?.into_text() else { return Ok(false) };
        let next = self.pages.len() + 1;
        let number = *self.pages.entry(name).or_insert(next);
        put_text(out, &format!("page_{number}"));
        Ok(true)
    }

    /// A list of what `each` keeps of its elements.
    fn list<R: Read>(
        &mut self,
        source: &mut JsonSource<R>,
        out: &mut Vec<u8>,
        each: &mut CopyElement<'_, W, R>,
    ) -> Copied {
        out.push(b'[');
        let mut is_first = true;
        source.elements(&mut |source| {
            let before = out.len();
            if !is_first {
                out.push(b',');
            }
            match each(self, source, out)? {
                true => is_first = false,
                false => out.truncate(before),
            }
            Ok(())
        })?;
        out.push(b']');
        Ok(true)
    }
}

/// An object of the members that `each` keeps.
fn object<R: Read>(
    source: &mut JsonSource<R>,
    out: &mut Vec<u8>,
    each: &mut CopyMember<'_, R>,
) -> Copied {
    out.push(b'{');
    let mut is_first = true;
    let is_object = source.members(&mut |source, name| {
        let before = out.len();
        if !is_first {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        match each(source, out, name)? {
            true => is_first = false,
            false => out.truncate(before),
        }
        Ok(())
    })?;
    out.push(b'}');
    Ok(is_object)
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(out, text);
}

/// A number as it stands; what is none is left out.
fn number<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    Ok(match source.leaf(0)? {
        JsonLeaf::Number(value, text) if value.is_finite() => {
            // "1." and "01" are numbers to many, and not to JSON.
            match serde_json::from_str::<serde_json::Number>(&text) {
                Ok(_) => out.extend_from_slice(text.as_bytes()),
                Err(_) => out.extend_from_slice(value.to_string().as_bytes()),
            }
            true
        }
        _ => false,
    })
}

fn flag<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let JsonLeaf::Flag(flag) = source.leaf(0)? else { return Ok(false) };
    out.extend_from_slice(flag.to_string().as_bytes());
    Ok(true)
}

/// Text that passes `is_kept`.
fn kept_text<R: Read>(
    source: &mut JsonSource<R>,
    out: &mut Vec<u8>,
    is_kept: impl Fn(&str) -> bool,
) -> Copied {
    match source.leaf(LONGEST)? {
        JsonLeaf::Text(text) if is_kept(&text) => {
            put_text(out, &text);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Names and versions of programs.
fn short_text<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    kept_text(source, out, |text| text.len() <= 60)
}

/// Words of a fixed set, as far as anybody can tell.
fn word<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let is_word = |c: char| c.is_ascii_alphanumeric() || " -_/.+".contains(c);
    kept_text(source, out, |text| text.len() <= 24 && text.chars().all(is_word))
}

fn identifier<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    match source.leaf(200)? {
        JsonLeaf::Text(text) | JsonLeaf::Number(_, text)
            if text.len() <= 24 && text.chars().all(|c| c.is_ascii_alphanumeric()) =>
        {
            put_text(out, &text);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn date<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    kept_text(source, out, |text| unix_ns(text).is_ok() && text.len() <= 40)
}

fn address<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let is_address =
        |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    kept_text(source, out, |text| text.is_empty() || is_address(text))
}

/// Chrome's names of errors; others are sentences.
fn net_error<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    kept_text(source, out, |text| {
        text.len() <= 60 && text.strip_prefix("net::").is_some_and(|name| name.chars().all(is_name))
    })
}

fn media_type<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let text = source.leaf(LONGEST)?.into_text().unwrap_or_default();
    put_text(out, &without_parameters(&text));
    Ok(true)
}

/// A media type without its parameters, one of which separates the parts of a body.
fn without_parameters(media_type: &str) -> String {
    let name = media_type.split(';').next().unwrap_or_default().trim();
    name.chars().take(100).collect()
}
