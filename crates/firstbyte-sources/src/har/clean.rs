//! Copies an archive without credentials and contents, so that it can be shared.
//!
//! Input: an archive's bytes. Output: an archive, entry by entry. Only members on a list are written, so that members
//! which programs add in the future are left out too. Times are copied digit by digit. Incomplete entries are not
//! written.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Read, Write};
use std::net::IpAddr;

use super::entry::HarEnd;
use super::json::{JsonFlaw, JsonLeaf, JsonShape, JsonSource};
use super::kept;
use super::read::{HarError, MOST_PAGES};
use super::url::HarUrl;

/// Maximum number of bytes of a text that are examined.
const LONGEST: usize = 8_000;
/// Maximum number of a message's header fields that are written: with these, the longest entry is about 200 kB.
const MOST_FIELDS: usize = 500;

/// Statistics of a cleaned archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries that were written.
    pub entries: u64,
    /// Header fields of requests and responses that were left out.
    pub fields: u64,
    /// Cookies that were left out.
    pub cookies: u64,
    /// Response bodies that were left out.
    pub bodies: u64,
    /// Request bodies that were left out.
    pub posted: u64,
    /// URLs that lost a query, a fragment or a user.
    pub urls: u64,
    /// Members that were left out because they are on no list.
    pub members: u64,
    /// Whether the archive was read to its end.
    pub end: HarEnd,
}

/// Why writing stopped.
#[derive(Debug)]
pub enum CleanError {
    /// The archive cannot be read.
    Read(HarError),
    /// Writing failed.
    Write(io::Error),
}

/// Copies an archive from `input` to `out` without credentials and contents.
///
/// A damaged archive is copied up to the damage.
///
/// # Errors
/// If the input is not an archive, or if reading or writing fails.
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
        Ok(_) if !cleaner.has_log => return not_har("it has no member `log`".to_owned()),
        Err(JsonFlaw::Cut { offset: 0 }) => return not_har("the file is empty".to_owned()),
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

/// Copies the member of an object that has this name.
type CopyMember<'a, R> = dyn FnMut(&mut JsonSource<R>, &mut Vec<u8>, &str) -> Copied + 'a;

/// Copies an element of a list.
type CopyElement<'a, W, R> =
    dyn FnMut(&mut Cleaner<W>, &mut JsonSource<R>, &mut Vec<u8>) -> Copied + 'a;

/// Replaces arbitrary names by numbers: from 1, in order of first occurrence.
#[derive(Default)]
struct Numbered {
    /// Keyed by the hash of a name: there may be as many names as requests.
    known: HashMap<u64, usize>,
    hasher: RandomState,
}

impl Numbered {
    fn number(&mut self, name: &str) -> usize {
        let next = self.known.len() + 1;
        *self.known.entry(self.hasher.hash_one(name)).or_insert(next)
    }
}

struct Cleaner<W> {
    out: W,
    cleaned: Cleaned,
    has_log: bool,
    has_member: bool,
    in_entries: bool,
    pages: Numbered,
    connections: Numbered,
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
            pages: Numbered::default(),
            connections: Numbered::default(),
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
                "version" => word(source, &mut bytes, kept::program),
                "creator" | "browser" => {
                    object(source, &mut bytes, &mut |source, out, name| match name {
                        "name" | "version" => word(source, out, kept::program),
                        _ => source.skip().map(|()| false),
                    })
                }
                "pages" => self.list(source, &mut bytes, MOST_PAGES, &mut |this, source, out| {
                    this.page(source, out)
                }),
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

    /// Closes all open arrays and objects.
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
            "startedDateTime" => word(source, out, kept::date),
            "time" => time(source, out),
            "request" | "response" => self.message(source, out, name == "request"),
            // Its members are times and tags of earlier visits. That it has `beforeRequest` is how some programs mark a
            // cache hit.
            "cache" => {
                has_cache = true;
                object(source, out, &mut |source, out, name| {
                    let was_there = name == "beforeRequest" && source.shape()? == JsonShape::Object;
                    out.extend_from_slice(b"{}");
                    source.skip().map(|()| was_there)
                })?;
                Ok(true)
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
                | "_queued" => time(source, out),
                _ => source.skip().map(|()| false),
            }),
            "serverIPAddress" => address(source, out),
            "connection" | "_connectionId" | "_socket" => self.connection_name(source, out),
            "_fromCache" => word(source, out, kept::cache),
            "_fetchType" => word(source, out, kept::fetch_type),
            "_resourceType" => word(source, out, kept::resource_type),
            "_priority" => word(source, out, kept::priority),
            "_wasAborted" | "_wasFulfilled" => flag(source, out),
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
            "method" if is_request => word(source, out, kept::method),
            "httpVersion" => word(source, out, kept::protocol),
            "url" if is_request => self.url(source, out, false),
            "redirectURL" if !is_request => self.url(source, out, true),
            "status" if !is_request => number(source, out),
            // A server may put anything there.
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
            "headers" => self
                .list(source, out, MOST_FIELDS, &mut |this, source, out| this.field(source, out)),
            "postData" if is_request => {
                self.cleaned.posted += 1;
                source.skip().map(|()| false)
            }
            "content" if !is_request => object(source, out, &mut |source, out, name| match name {
                "size" | "compression" => number(source, out),
                "mimeType" => {
                    let text = source.leaf(LONGEST)?.into_text().unwrap_or_default();
                    put_text(out, &kept::media_type(&text).unwrap_or_default());
                    Ok(true)
                }
                "text" => {
                    self.cleaned.bodies += 1;
                    source.skip().map(|()| false)
                }
                _ => source.skip().map(|()| false),
            }),
            "_transferSize" if !is_request => number(source, out),
            "_fetchedViaServiceWorker" if !is_request => flag(source, out),
            "_error" | "_failureText" if !is_request => word(source, out, kept::error),
            _ => {
                self.cleaned.members += 1;
                source.skip().map(|()| false)
            }
        })
    }

    /// Copies a header field if it is on the list.
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
        let Some(value) = kept::field(&name, &value) else {
            self.cleaned.fields += 1;
            return Ok(false);
        };
        out.extend_from_slice(b"{\"name\":");
        put_text(out, &name);
        out.extend_from_slice(b",\"value\":");
        put_text(out, &value);
        out.push(b'}');
        Ok(true)
    }

    /// Copies a URL without user, query and fragment. A redirect target may also be a path.
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
                // "//user@host/" is not a path.
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
            "startedDateTime" => word(source, out, kept::date),
            "id" => self.page_name(source, out),
            "title" => {
                let title = source.leaf(LONGEST)?.into_text().unwrap_or_default();
                // Other titles lose even the text before a colon.
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

    /// Pages are numbered, since a program may name them anything.
    fn page_name<R: Read>(&mut self, source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
        let Some(name) = source.leaf(200)?.into_text() else { return Ok(false) };
        let number = self.pages.number(&name);
        put_text(out, &format!("page_{number}"));
        Ok(true)
    }

    /// Copies a connection's name. Ports and small numbers stay; other names are replaced by `c1`, `c2`, …, equal ones
    /// by the same.
    fn connection_name<R: Read>(
        &mut self,
        source: &mut JsonSource<R>,
        out: &mut Vec<u8>,
    ) -> Copied {
        let (JsonLeaf::Text(name) | JsonLeaf::Number(_, name)) = source.leaf(200)? else {
            return Ok(false);
        };
        match name.parse::<u16>() {
            Ok(number) => put_text(out, &number.to_string()),
            // These mean that there is no name.
            Err(_) if matches!(&*name, "" | "-1") => put_text(out, &name),
            Err(_) => {
                let number = self.connections.number(&name);
                put_text(out, &format!("c{number}"));
            }
        }
        Ok(true)
    }

    /// Copies a list with `each`, which copies one element. Keeps the first `most` elements.
    fn list<R: Read>(
        &mut self,
        source: &mut JsonSource<R>,
        out: &mut Vec<u8>,
        most: usize,
        each: &mut CopyElement<'_, W, R>,
    ) -> Copied {
        out.push(b'[');
        let mut written = 0;
        source.elements(&mut |source| {
            if written == most {
                self.cleaned.members += 1;
                return source.skip();
            }
            let before = out.len();
            if written > 0 {
                out.push(b',');
            }
            match each(self, source, out)? {
                true => written += 1,
                false => out.truncate(before),
            }
            Ok(())
        })?;
        out.push(b']');
        Ok(true)
    }
}

/// Copies an object: `each` copies its members, each name once. Of duplicates the first counts.
fn object<R: Read>(
    source: &mut JsonSource<R>,
    out: &mut Vec<u8>,
    each: &mut CopyMember<'_, R>,
) -> Copied {
    out.push(b'{');
    // Contains only listed names, so it stays short.
    let mut written: Vec<String> = Vec::new();
    let is_object = source.members(&mut |source, name| {
        if written.iter().any(|known| known == name) {
            return source.skip();
        }
        let before = out.len();
        if !written.is_empty() {
            out.push(b',');
        }
        put_text(out, name);
        out.push(b':');
        match each(source, out, name)? {
            true => written.push(name.to_owned()),
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

/// Replaces a value that should be a number.
const NO_NUMBER: &str = "no number";

/// Copies a number as it is written; leaves out other values.
fn number<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    Ok(put_number(out, &source.leaf(0)?))
}

fn put_number(out: &mut Vec<u8>, leaf: &JsonLeaf) -> bool {
    match leaf {
        JsonLeaf::Number(value, text) if value.is_finite() => {
            // Many parsers accept "1." and "01", but JSON does not.
            match serde_json::from_str::<serde_json::Number>(text) {
                Ok(_) => out.extend_from_slice(text.as_bytes()),
                Err(_) => out.extend_from_slice(value.to_string().as_bytes()),
            }
            true
        }
        _ => false,
    }
}

fn flag<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let JsonLeaf::Flag(flag) = source.leaf(0)? else { return Ok(false) };
    out.extend_from_slice(flag.to_string().as_bytes());
    Ok(true)
}

/// Copies a time; replaces other values by text that is not a number either, so that readers reject both alike.
fn time<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    if source.shape()? == JsonShape::Scalar {
        let leaf = source.leaf(0)?;
        if leaf == JsonLeaf::Null || put_number(out, &leaf) {
            return Ok(leaf != JsonLeaf::Null);
        }
    } else {
        source.skip()?;
    }
    put_text(out, NO_NUMBER);
    Ok(true)
}

/// Copies the part of a text that `keep` returns.
fn word<R: Read>(
    source: &mut JsonSource<R>,
    out: &mut Vec<u8>,
    keep: impl Fn(String) -> Option<String>,
) -> Copied {
    let kept = source.leaf(LONGEST)?.into_text().and_then(keep);
    Ok(kept.is_some_and(|text| {
        put_text(out, &text);
        true
    }))
}

fn address<R: Read>(source: &mut JsonSource<R>, out: &mut Vec<u8>) -> Copied {
    let is_address =
        |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    word(source, out, |text| (text.is_empty() || is_address(&text)).then_some(text))
}
