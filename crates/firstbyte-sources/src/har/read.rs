//! Reads a file into entries.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use super::date::unix_ns;
use super::entry::{HarArchive, HarEnd, HarEntry, HarPage, HarSpan, HarTimings};
use super::json::{JsonFlaw, JsonLeaf, JsonShape, JsonSource};
use super::judge::milliseconds;
use super::url::HarUrl;
use firstbyte_core::timeline::DeliveredFrom;

/// Maximum number of entries that are kept; further ones are counted.
pub const MOST_ENTRIES: usize = 500_000;
pub(super) const MOST_PAGES: usize = 10_000;
/// Maximum number of flaws that are kept for one entry or page.
const MOST_FLAWS_OF_ONE: usize = 50;
/// Maximum number of bytes kept of a name, an identifier or a date.
const SHORT: usize = 200;
/// Maximum number of bytes examined of a URL.
const LONGEST_URL: usize = 8_000;

/// Why a file cannot be read as an archive.
#[derive(Debug)]
pub enum HarError {
    /// It is not an archive.
    NotHar {
        /// What it contains instead, or lacks.
        detail: String,
    },
    /// Reading failed.
    Io(io::Error),
}

impl std::fmt::Display for HarError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotHar { detail } => write!(f, "not an HTTP Archive: {detail}"),
            Self::Io(error) => write!(f, "cannot read the file: {error}"),
        }
    }
}

impl std::error::Error for HarError {}

/// Whether a file with these first bytes (a few thousand, or all) is an archive: an object with a member `log` that has
/// one of an archive's members.
///
/// The file name does not matter.
pub fn begins_archive(begin: &[u8]) -> bool {
    let mut source = JsonSource::new(begin);
    let mut is_archive = false;
    // This usually ends with an error, because the bytes end early.
    let _ = source.skip_mark().and_then(|()| {
        source.members(&mut |source, name| {
            if name != "log" || source.shape()? != JsonShape::Object {
                return source.skip();
            }
            let of_archive = ["version", "creator", "browser", "pages", "entries"];
            source.members(&mut |source, name| {
                is_archive |= of_archive.contains(&name);
                source.skip()
            })?;
            Ok(())
        })
    });
    is_archive
}

/// Reads an archive, whole or as far as it goes.
///
/// # Errors
/// If it is not an archive, or if reading fails.
pub fn read_archive(input: impl Read) -> Result<HarArchive, HarError> {
    let mut reading = Reading::default();
    let mut source = JsonSource::new(input);
    let read = source.skip_mark().and_then(|()| {
        source.members(&mut |source, name| match name {
            "log" => {
                reading.has_log |= source.members(&mut |source, name| reading.log(source, name))?;
                Ok(())
            }
            _ => source.skip(),
        })
    });
    let not_har = |detail: &str| Err(HarError::NotHar { detail: detail.to_owned() });
    let has_begun = reading.has_log || reading.has_log_member;
    reading.archive.end = match read {
        Ok(_) if !has_begun => return not_har("it has no member `log`"),
        Ok(_) => HarEnd::Whole,
        Err(JsonFlaw::Io(error)) => return Err(HarError::Io(error)),
        Err(JsonFlaw::Cut { offset: 0 }) => return not_har("the file is empty"),
        Err(flaw) if !has_begun => return not_har(&flaw.to_string()),
        Err(JsonFlaw::Cut { offset }) => HarEnd::Cut { offset },
        Err(flaw) => HarEnd::Damaged { detail: flaw.to_string() },
    };
    Ok(reading.finish())
}

/// State while reading.
#[derive(Default)]
struct Reading {
    archive: HarArchive,
    has_log: bool,
    has_log_member: bool,
    /// Pages that entries refer to, by name.
    named_pages: HashMap<Arc<str>, u32>,
    page_names: Vec<Arc<str>>,
    shared: HashSet<Arc<str>>,
}

type ReadMember = Result<(), JsonFlaw>;

impl Reading {
    fn log<R: Read>(&mut self, source: &mut JsonSource<R>, name: &str) -> ReadMember {
        self.has_log_member = true;
        match name {
            "creator" => self.archive.creator = span(source)?,
            "browser" => self.archive.browser = span(source)?,
            "pages" => {
                source.elements(&mut |source| self.page(source))?;
            }
            "entries" => {
                let mut number = 0_u32;
                source.elements(&mut |source| {
                    number = number.saturating_add(1);
                    self.entry(source, number)
                })?;
            }
            _ => source.skip()?,
        }
        Ok(())
    }

    fn page<R: Read>(&mut self, source: &mut JsonSource<R>) -> ReadMember {
        let mut page = HarPage::default();
        let mut flaws = Flaws::new();
        let is_page = source.members(&mut |source, name| {
            match name {
                "id" => page.id = text(source)?.unwrap_or_default(),
                "title" => {
                    let title = source.leaf(LONGEST_URL)?.into_text().unwrap_or_default();
                    let url = HarUrl::parse(&title).filter(|url| url.authority.is_some());
                    page.url = url.map(|url| url.shown());
                }
                "startedDateTime" => match started(source)? {
                    Ok(at) => page.started_unix_ns = at,
                    Err(says) => add_flaw(&mut flaws, "startedDateTime", says),
                },
                "pageTimings" => {
                    source.members(&mut |source, name| {
                        let (field, to) = match name {
                            "onContentLoad" => {
                                ("pageTimings.onContentLoad", &mut page.content_loaded)
                            }
                            "onLoad" => ("pageTimings.onLoad", &mut page.loaded),
                            _ => return source.skip(),
                        };
                        match page_time(source)? {
                            Ok(time) => *to = time,
                            Err(says) => add_flaw(&mut flaws, field, says),
                        }
                        Ok(())
                    })?;
                }
                _ => source.skip()?,
            }
            Ok(())
        })?;
        for (field, says) in flaws {
            self.archive.flaw(None, field, says);
        }
        if is_page && self.archive.pages.len() < MOST_PAGES {
            self.archive.pages.push(page);
        }
        Ok(())
    }

    fn entry<R: Read>(&mut self, source: &mut JsonSource<R>, number: u32) -> ReadMember {
        if self.archive.entries.len() >= MOST_ENTRIES {
            self.archive.entries_beyond += 1;
            return source.skip();
        }
        let mut raw = RawEntry::default();
        let is_entry = source.members(&mut |source, name| raw.member(source, name))?;
        if !is_entry {
            self.archive.flaw(Some(number), "entries[]", "not an object".to_owned());
            return Ok(());
        }
        for (field, says) in raw.flaws {
            self.archive.flaw(Some(number), field, says);
        }
        let mut entry = HarEntry { number, ..raw.entry };
        let share = |shared: &mut HashSet<Arc<str>>, text: &str| -> Arc<str> {
            if let Some(known) = shared.get(text) {
                return known.clone();
            }
            let new: Arc<str> = text.into();
            shared.insert(new.clone());
            new
        };
        if let Some(url) = &raw.url {
            entry.url = url.shown().into();
            entry.secure = url.is_secure();
            entry.authority = url.authority.as_ref().map(|name| share(&mut self.shared, name));
        }
        let of_both = [
            &mut entry.method,
            &mut entry.protocol,
            &mut entry.connection,
            &mut entry.connection_id,
            &mut entry.resource_type,
        ];
        for text in of_both.into_iter().flatten() {
            *text = share(&mut self.shared, text);
        }
        if let Some(name) = &raw.page {
            let name = share(&mut self.shared, name);
            let next = u32::try_from(self.page_names.len()).unwrap_or(u32::MAX);
            let place = *self.named_pages.entry(name.clone()).or_insert(next);
            if place == next {
                self.page_names.push(name);
            }
            entry.page = Some(place);
        }
        self.archive.entries.push(entry);
        Ok(())
    }

    /// Resolves page names last, since pages may come after the entries.
    fn finish(mut self) -> HarArchive {
        let mut places: HashMap<&str, u32> = HashMap::new();
        for (place, page) in self.archive.pages.iter().enumerate() {
            places.entry(&page.id).or_insert(u32::try_from(place).unwrap_or(u32::MAX));
        }
        let by_name: Vec<Option<u32>> =
            self.page_names.iter().map(|name| places.get(&**name).copied()).collect();
        for entry in &mut self.archive.entries {
            entry.page = entry.page.and_then(|place| *by_name.get(place as usize)?);
        }
        self.archive
    }
}

/// An entry while it is read.
#[derive(Default)]
struct RawEntry {
    entry: HarEntry,
    url: Option<HarUrl>,
    page: Option<String>,
    flaws: Flaws,
}

impl RawEntry {
    fn member<R: Read>(&mut self, source: &mut JsonSource<R>, name: &str) -> ReadMember {
        let entry = &mut self.entry;
        match name {
            "pageref" => self.page = text(source)?,
            "startedDateTime" => match started(source)? {
                Ok(at) => entry.started_unix_ns = at,
                Err(says) => add_flaw(&mut self.flaws, "startedDateTime", says),
            },
            "time" => match number(source)? {
                Ok(time) => entry.time = time,
                Err(says) => self.times_flaw("time", says),
            },
            "timings" => {
                let (times, flaws) = timings(source)?;
                entry.timings = times;
                flaws.into_iter().for_each(|(field, says)| self.times_flaw(field, says));
            }
            "request" => self.request(source)?,
            "response" => self.response(source)?,
            "serverIPAddress" => {
                let address = text(source)?.unwrap_or_default();
                let address = address.trim_start_matches('[').trim_end_matches(']');
                entry.server = address.parse().ok();
            }
            "connection" => entry.connection = identifier(source)?,
            // Fields of Chrome and WebPageTest.
            "_connectionId" | "_socket" => entry.connection_id = identifier(source)?,
            "_resourceType" => entry.resource_type = text(source)?.map(Arc::from),
            "_fromCache" => match text(source)?.as_deref() {
                Some("memory") => entry.delivered_from = Some(DeliveredFrom::MemoryCache),
                Some("disk") => entry.delivered_from = Some(DeliveredFrom::DiskCache),
                Some(_) => entry.delivered_from = Some(DeliveredFrom::Cache),
                None => {}
            },
            // WebKit's field.
            "_fetchType" => match text(source)?.as_deref() {
                Some("Memory Cache") => entry.delivered_from = Some(DeliveredFrom::MemoryCache),
                Some("Disk Cache") => entry.delivered_from = Some(DeliveredFrom::DiskCache),
                Some("Service Worker") => entry.delivered_from = Some(DeliveredFrom::ServiceWorker),
                Some("Network Load") => entry.delivered_from = Some(DeliveredFrom::Network),
                _ => {}
            },
            // Playwright's fields, for requests that a page or a test aborted or answered.
            "_wasAborted" => entry.failed |= source.leaf(SHORT)? == JsonLeaf::Flag(true),
            "_wasFulfilled" => {
                if source.leaf(SHORT)? == JsonLeaf::Flag(true) {
                    entry.delivered_from = Some(DeliveredFrom::Cache);
                }
            }
            "cache" => {
                let mut had_it = false;
                source.members(&mut |source, name| {
                    // chrome-har writes this member for a cache hit; others write an empty object, or one for the state
                    // after the response.
                    let is_there = source.shape()? == JsonShape::Object;
                    had_it |= name == "beforeRequest" && is_there;
                    source.skip()
                })?;
                if had_it && entry.delivered_from.is_none() {
                    entry.delivered_from = Some(DeliveredFrom::Cache);
                }
            }
            _ => source.skip()?,
        }
        Ok(())
    }

    fn times_flaw(&mut self, field: &'static str, says: String) {
        self.entry.is_flawed = true;
        add_flaw(&mut self.flaws, field, says);
    }

    fn request<R: Read>(&mut self, source: &mut JsonSource<R>) -> ReadMember {
        source.members(&mut |source, name| {
            match name {
                "method" => self.entry.method = text(source)?.map(Arc::from),
                "url" => {
                    let text = source.leaf(LONGEST_URL)?.into_text().unwrap_or_default();
                    self.url = HarUrl::parse(&text);
                    if self.url.is_none() {
                        add_flaw(&mut self.flaws, "request.url", "not a URL".to_owned());
                    }
                }
                "httpVersion" => {
                    let known = self.entry.protocol.take();
                    self.entry.protocol = known.or(protocol(text(source)?.as_deref()));
                }
                _ => source.skip()?,
            }
            Ok(())
        })?;
        Ok(())
    }

    fn response<R: Read>(&mut self, source: &mut JsonSource<R>) -> ReadMember {
        source.members(&mut |source, name| {
            let entry = &mut self.entry;
            match name {
                "status" => {
                    if let Ok(Some(status)) = number(source)? {
                        entry.status = Some(status as i64);
                    }
                }
                "httpVersion" => {
                    let said = protocol(text(source)?.as_deref());
                    entry.protocol = said.or(entry.protocol.take());
                }
                "bodySize" => entry.body_bytes = bytes(source)?,
                "_transferSize" => entry.transferred_bytes = bytes(source)?,
                "_error" | "_failureText" => {
                    let says = text(source)?;
                    entry.failed |= says.is_some_and(|says| !says.is_empty());
                }
                "_fetchedViaServiceWorker" => {
                    if source.leaf(SHORT)? == JsonLeaf::Flag(true) {
                        entry.delivered_from = Some(DeliveredFrom::ServiceWorker);
                    }
                }
                "content" => {
                    source.members(&mut |source, name| {
                        if name == "size" {
                            entry.decoded_bytes = bytes(source)?;
                            return Ok(());
                        }
                        source.skip()
                    })?;
                }
                _ => source.skip()?,
            }
            Ok(())
        })?;
        Ok(())
    }
}

fn text<R: Read>(source: &mut JsonSource<R>) -> Result<Option<String>, JsonFlaw> {
    Ok(source.leaf(SHORT)?.into_text())
}

/// An identifier, as text or as a number. Empty ones, 0 and -1 mean absent.
fn identifier<R: Read>(source: &mut JsonSource<R>) -> Result<Option<Arc<str>>, JsonFlaw> {
    let text = match source.leaf(SHORT)? {
        JsonLeaf::Text(text) | JsonLeaf::Number(_, text) => text,
        _ => return Ok(None),
    };
    Ok((!matches!(&*text, "" | "0" | "-1")).then(|| text.into()))
}

/// A number; `null` means absent. Anything else is an error with a description.
fn number<R: Read>(source: &mut JsonSource<R>) -> Result<Result<Option<f64>, String>, JsonFlaw> {
    Ok(match source.leaf(SHORT)? {
        JsonLeaf::Number(value, text) if !value.is_finite() => Err(text),
        JsonLeaf::Number(value, _) => Ok(Some(value)),
        JsonLeaf::Null => Ok(None),
        JsonLeaf::Text(_) => Err("a text, not a number".to_owned()),
        JsonLeaf::Flag(_) | JsonLeaf::Other => Err("not a number".to_owned()),
    })
}

fn bytes<R: Read>(source: &mut JsonSource<R>) -> Result<Option<u64>, JsonFlaw> {
    let number = number(source)?.ok().flatten();
    Ok(number.filter(|n| (0.0..1e15).contains(n)).map(|n| n as u64))
}

fn started<R: Read>(source: &mut JsonSource<R>) -> Result<Result<Option<i64>, String>, JsonFlaw> {
    Ok(match source.leaf(SHORT)? {
        JsonLeaf::Text(text) => unix_ns(text.trim()).map(Some).map_err(str::to_owned),
        JsonLeaf::Null => Ok(None),
        _ => Err("not a date".to_owned()),
    })
}

/// A time of a page; -1 means absent.
fn page_time<R: Read>(
    source: &mut JsonSource<R>,
) -> Result<Result<Option<Duration>, String>, JsonFlaw> {
    Ok(match number(source)? {
        Ok(Some(time)) => milliseconds(time),
        Ok(None) => Ok(None),
        Err(says) => Err(says),
    })
}

type Flaws = Vec<(&'static str, String)>;

/// Records a flaw of an object, up to a limit: a member can be repeated any number of times.
fn add_flaw(flaws: &mut Flaws, field: &'static str, says: String) {
    if flaws.len() < MOST_FLAWS_OF_ONE {
        flaws.push((field, says));
    }
}

fn timings<R: Read>(source: &mut JsonSource<R>) -> Result<(HarTimings, Flaws), JsonFlaw> {
    let (mut timings, mut flaws) = (HarTimings::default(), Flaws::new());
    let is_object = source.members(&mut |source, name| {
        let (field, to) = match name {
            "blocked" => ("timings.blocked", &mut timings.blocked),
            "dns" => ("timings.dns", &mut timings.dns),
            "connect" => ("timings.connect", &mut timings.connect),
            "ssl" => ("timings.ssl", &mut timings.ssl),
            "send" => ("timings.send", &mut timings.send),
            "wait" => ("timings.wait", &mut timings.wait),
            "receive" => ("timings.receive", &mut timings.receive),
            _ => return source.skip(),
        };
        match number(source)? {
            Ok(time) => *to = time,
            Err(says) => add_flaw(&mut flaws, field, says),
        }
        Ok(())
    })?;
    if !is_object {
        add_flaw(&mut flaws, "timings", "not an object".to_owned());
    }
    Ok((timings, flaws))
}

/// The ALPN name of a protocol, which browsers spell in many ways; unknown spellings stay as they are.
fn protocol(said: Option<&str>) -> Option<Arc<str>> {
    let said = said?.trim().to_ascii_lowercase();
    Some(match &*said {
        "" | "unknown" => return None,
        "h3" | "http/3" | "http/3.0" => "h3".into(),
        quic if quic.starts_with("h3-") || quic.starts_with("http/2+quic") => "h3".into(),
        "h2" | "http/2" | "http/2.0" => "h2".into(),
        "http/1.1" => "http/1.1".into(),
        "http/1.0" => "http/1.0".into(),
        other => other.chars().take(20).collect::<String>().into(),
    })
}

fn span<R: Read>(source: &mut JsonSource<R>) -> Result<Option<HarSpan>, JsonFlaw> {
    let mut found = HarSpan::default();
    let is_object = source.members(&mut |source, name| {
        match name {
            "name" => found.name = text(source)?.unwrap_or_default(),
            "version" => found.version = text(source)?.unwrap_or_default(),
            _ => source.skip()?,
        }
        Ok(())
    })?;
    Ok(is_object.then_some(found))
}
