//! One visit over DevTools, with a trace of the network stack.
//!
//! Input: options and a URL. Output: events and log, handed to `assembly`. The browser keeps running between visits;
//! each visit has its own browser context, and a trace from before its first request until after its last.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::Navigation;
use firstbyte_probe::probe::options::{Client, Family};
use serde_json::{Value, json};

use super::assembly::{Heard, assemble};
use super::launch::{self, Origin};
use super::{ChromiumVisit, page};
use crate::browser::{
    BrowserAbilities, BrowserHttp, BrowserOptions, BrowserSession, Navigated, RunningBrowser,
};
use crate::deadline::Deadline;
use crate::devtools::{DevTools, DevToolsEvent};
use crate::interruption::Interruption;
use crate::netlog::NetLogRecord;
use crate::netlog::perfetto::PerfettoReader;
use crate::process::{ClientError, ClientProcess};

/// Time limit for starting the browser, preparing a visit, and reporting its results: steps without network.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Time limit for the page that shows an error: it comes from the browser itself.
const ERROR_PAGE_LIMIT: Duration = Duration::from_secs(5);
/// Time limit for DevTools to report the end of a document after its script requested the next one.
const REPLACED_LIMIT: Duration = Duration::from_secs(1);
/// A trace of one visit is a few hundred kilobytes.
const TRACE_LIMIT_BYTES: usize = 256 << 20;
const TRACE_PIECE_BYTES: usize = 1 << 20;
/// Size of the browser's trace buffer, kilobytes; if it overflows, data and sample are lost.
const TRACE_BUFFER_KB: u32 = 64 << 10;

/// A running Chromium.
#[derive(Debug)]
pub struct RunningChromium {
    devtools: DevTools,
    /// Deadline of the current operation.
    deadline: Deadline,
    /// Forced HTTP/3, or a forced address family, applies to this one origin.
    origin: Origin,
    version: Option<String>,
}

struct Tab {
    /// DevTools' session with it.
    session: String,
    /// Its main frame, which has the same identifier as the tab's target.
    frame: String,
}

impl Tab {
    fn has(&self, event: &DevToolsEvent) -> bool {
        event.session.as_deref() == Some(&*self.session)
    }
}

impl RunningBrowser for RunningChromium {
    type Visit = ChromiumVisit;
    const CLIENT: Client = Client::Chromium;
    const PACKAGE: &'static str = "chromium";
    const ABILITIES: BrowserAbilities =
        BrowserAbilities { asks_the_system: false, connects_elsewhere: true, finds_ipv6: true };

    fn installed_program() -> &'static str {
        launch::PROGRAM
    }

    fn start(
        url: &str,
        options: &BrowserOptions,
        interruption: &Arc<Interruption>,
    ) -> Result<Self, ClientError> {
        let origin = Origin::of_url(url).ok_or_else(|| ClientError::Refused {
            command: "visiting".to_owned(),
            detail: "the URL is not an http or https URL".to_owned(),
        })?;
        let process = ClientProcess::start(&launch::command(options, &origin)?)?;
        let mut devtools = DevTools::over(process, Arc::clone(interruption))?;
        let version = devtools.call(None, "Browser.getVersion", &json!({}), ANSWER_LIMIT)?;
        let version = version.get("product").and_then(Value::as_str);
        let version = version.and_then(|v| v.rsplit('/').next()).map(str::to_owned);
        Ok(Self { devtools, deadline: Deadline::after(ANSWER_LIMIT), origin, version })
    }

    fn fits(&self, url: &str, options: &BrowserOptions) -> bool {
        let bound = options.http == BrowserHttp::Http3 || options.family != Family::Any;
        Origin::of_url(url).is_some_and(|origin| !bound || origin == self.origin)
    }

    fn visit(&mut self, url: &str, options: &BrowserOptions) -> Result<ChromiumVisit, ClientError> {
        self.visit_in_new_context(url, options)
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    fn process(&self) -> &ClientProcess {
        self.devtools.process()
    }

    fn page(visit: ChromiumVisit) -> Navigation {
        visit.page
    }
}

impl RunningChromium {
    fn visit_in_new_context(
        &mut self,
        url: &str,
        options: &BrowserOptions,
    ) -> Result<ChromiumVisit, ClientError> {
        self.deadline = Deadline::after(ANSWER_LIMIT);
        let context = json!({ "disposeOnDetach": true });
        let context = self.call(None, "Target.createBrowserContext", &context)?;
        let context = text_of(&context, "browserContextId");
        let tab = self.open_tab(&context)?;
        self.devtools.take_events();
        self.start_trace()?;
        let limit = Deadline::after(options.time_limit);
        self.deadline = limit;
        if options.session != BrowserSession::New {
            let script = self.keep_icon_from_loading(&tab)?;
            // If this visit fails, so does the measured one.
            self.navigate(&tab, url)?;
            if options.session != BrowserSession::Kept && limit.left().is_some() {
                self.deadline = limit;
                self.close_connections(&context)?;
            }
            self.deadline = Deadline::after(ANSWER_LIMIT);
            let script = json!({ "identifier": script });
            self.call(Some(&tab.session), "Page.removeScriptToEvaluateOnNewDocument", &script)?;
            self.devtools.take_events();
        }
        // If the previous visit used up the time, this one is not started.
        let begun = limit.left().is_some();
        self.deadline = limit;
        let navigated = match begun {
            true => self.navigate(&tab, url)?,
            false => Navigated::not_begun(),
        };
        self.deadline = Deadline::after(ANSWER_LIMIT);
        let events = self.devtools.take_events().into_iter().filter(|event| tab.has(event));
        let events: Vec<DevToolsEvent> = events.collect();
        let (log, reader) = self.end_trace()?;
        self.call(None, "Target.disposeBrowserContext", &json!({ "browserContextId": context }))?;
        let document = navigated.identifier.or_else(|| page::newest_document(&events, &tab.frame));
        let heard = Heard {
            url,
            events: page::without_other_documents(events, &tab.frame, document.as_deref()),
            document,
            refused: navigated.refused,
            log: if begun { log } else { NetLogRecord::default() },
            wall_clock: reader.wall_clock(),
            version: self.version.clone(),
            time_limit: options.time_limit,
        };
        Ok(ChromiumVisit { without_sandbox: launch::without_sandbox(), ..assemble(heard) })
    }

    fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: &Value,
    ) -> Result<Value, ClientError> {
        self.devtools.call_until(session, method, params, &self.deadline)
    }

    fn open_tab(&mut self, context: &str) -> Result<Tab, ClientError> {
        let target = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.call(None, "Target.createTarget", &target)?;
        let frame = text_of(&target, "targetId");
        let target = json!({ "targetId": frame, "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &target)?;
        let session = text_of(&session, "sessionId");
        self.call(Some(&session), "Page.enable", &json!({}))?;
        self.call(Some(&session), "Network.enable", &json!({}))?;
        let disabled = json!({ "cacheDisabled": true });
        self.call(Some(&session), "Network.setCacheDisabled", &disabled)?;
        Ok(Tab { session, frame })
    }

    /// Makes the next page in `tab` name an icon that needs no request. Returns the identifier of the script that does
    /// this.
    ///
    /// Chromium requests the site's icon after the page, and DevTools does not show that. Over HTTP/1 the next visit
    /// would find the connection busy.
    fn keep_icon_from_loading(&mut self, tab: &Tab) -> Result<String, ClientError> {
        let script = json!({ "source": ICON_SCRIPT, "worldName": "firstbyte" });
        let method = "Page.addScriptToEvaluateOnNewDocument";
        let added = self.call(Some(&tab.session), method, &script)?;
        Ok(text_of(&added, "identifier"))
    }

    /// Loads `url` and waits until it is loaded or the time is over. If it does not load, the result says why.
    fn navigate(&mut self, tab: &Tab, url: &str) -> Result<Navigated, ClientError> {
        let answer = self.call(Some(&tab.session), "Page.navigate", &json!({ "url": url }));
        let answer = match answer {
            Err(ClientError::TimedOut { .. }) => return self.give_up(tab, None),
            answer => answer?,
        };
        let loader = answer.get("loaderId").and_then(Value::as_str).map(str::to_owned);
        if let Some(refused) = answer.get("errorText").and_then(Value::as_str) {
            self.pass_error_page(tab, refused)?;
            let refused = (refused != EMPTY_ERROR).then(|| refused.to_owned());
            return Ok(Navigated { identifier: loader, refused });
        }
        let deadline = self.deadline;
        let loaded = self.devtools.wait_until("the page to load", &deadline, |event| {
            (tab.has(event) && event.method == "Page.loadEventFired").then(|| event.clone())
        });
        let loaded = match loaded {
            Err(ClientError::TimedOut { .. }) => return self.give_up(tab, loader),
            loaded => loaded?,
        };
        // DevTools may report the end of the document after the load event.
        let ends = |event: &DevToolsEvent| {
            let ends = ["Network.loadingFinished", "Network.loadingFailed"];
            let document = page::is_of_request(event, loader.as_deref());
            (tab.has(event) && document && ends.contains(&&*event.method)).then(|| event.clone())
        };
        // A script may request the next document: then DevTools does not always report the end of this one.
        let mut was_asked = false;
        let mut is_replaced = |event: &DevToolsEvent| {
            let asked = page::asks_for_document(event, &tab.frame).filter(|_| tab.has(event));
            let is_this = asked.is_some() && asked == loader.as_deref();
            was_asked |= is_this;
            (was_asked && asked.is_some() && !is_this).then(|| event.clone())
        };
        let ended = self.devtools.wait_until("the document to end", &deadline, |event| {
            let ended = ends(event).map(|event| (event, false));
            ended.or_else(|| is_replaced(event).map(|event| (event, true)))
        });
        self.devtools.put_back(loaded);
        let (last, is_replaced) = match ended {
            Err(ClientError::TimedOut { .. }) => return self.give_up(tab, loader),
            ended => ended?,
        };
        self.devtools.put_back(last);
        if is_replaced {
            let left = deadline.left().unwrap_or_default();
            let limit = Deadline::after(left.min(REPLACED_LIMIT));
            match self.devtools.wait_until("the replaced document to end", &limit, ends) {
                Err(ClientError::TimedOut { .. }) => {}
                ended => self.devtools.put_back(ended?),
            }
        }
        Ok(Navigated { identifier: loader, refused: None })
    }

    /// Waits for the error page, so that its load is not taken for the next navigation's, and drops its events, which
    /// say nothing about the visit.
    fn pass_error_page(&mut self, tab: &Tab, refused: &str) -> Result<(), ClientError> {
        if refused == "net::ERR_ABORTED" {
            // A download, or a response without content: the tab keeps its page.
            return Ok(());
        }
        let left = self.deadline.left().unwrap_or_default();
        let deadline = Deadline::after(left.min(ERROR_PAGE_LIMIT));
        let loaded = self.devtools.wait_until("the error page to load", &deadline, |event| {
            (tab.has(event) && event.method == "Page.loadEventFired").then_some(())
        });
        match loaded {
            // The sample already has the reason of its failure.
            Err(ClientError::TimedOut { .. }) => {}
            loaded => loaded?,
        }
        self.devtools
            .forget_events(|event| tab.has(event) && event.method == "Page.domContentEventFired");
        Ok(())
    }

    /// Stops a page that takes too long. Everything seen so far becomes a sample. If the document is complete, it did
    /// not fail because of other resources that the page waits for.
    fn give_up(&mut self, tab: &Tab, loader: Option<String>) -> Result<Navigated, ClientError> {
        let whole = self.devtools.has_event(|event| {
            tab.has(event)
                && event.method == "Network.loadingFinished"
                && page::is_of_request(event, loader.as_deref())
        });
        self.deadline = Deadline::after(ANSWER_LIMIT);
        self.call(Some(&tab.session), "Page.stopLoading", &json!({}))?;
        Ok(match whole {
            true => Navigated { identifier: loader, refused: None },
            false => Navigated::timed_out(loader),
        })
    }

    /// Closes all connections of `context` with the browser's internal page for that; TLS sessions are kept.
    fn close_connections(&mut self, context: &str) -> Result<(), ClientError> {
        let tab = self.open_tab(context)?;
        let sockets = json!({ "url": "chrome://net-internals/#sockets" });
        self.call(Some(&tab.session), "Page.navigate", &sockets)?;
        let deadline = self.deadline;
        self.devtools.wait_until("net-internals", &deadline, |event| {
            (tab.has(event) && event.method == "Page.loadEventFired").then_some(())
        })?;
        let flush = json!({ "expression": "chrome.send('flushSocketPools'); location.href" });
        let done = self.call(Some(&tab.session), "Runtime.evaluate", &flush)?;
        if done.get("exceptionDetails").is_some() {
            let detail = "chrome.send does not exist on chrome://net-internals".to_owned();
            return Err(ClientError::Refused { command: "flushSocketPools".to_owned(), detail });
        }
        Ok(())
    }

    fn start_trace(&mut self) -> Result<(), ClientError> {
        let config = json!({
            "transferMode": "ReturnAsStream",
            "streamFormat": "proto",
            "traceConfig": {
                "recordMode": "recordUntilFull",
                "traceBufferSizeInKb": TRACE_BUFFER_KB,
                "includedCategories": ["netlog"],
                "excludedCategories": ["*"],
            },
        });
        self.call(None, "Tracing.start", &config).map(drop)
    }

    fn end_trace(&mut self) -> Result<(NetLogRecord, PerfettoReader), ClientError> {
        self.call(None, "Tracing.end", &json!({}))?;
        let deadline = self.deadline;
        let complete = self.devtools.wait_until("the trace", &deadline, |event| {
            (event.method == "Tracing.tracingComplete").then(|| event.params.clone())
        })?;
        if complete.get("dataLossOccurred").and_then(Value::as_bool) == Some(true) {
            return Err(broken_trace("parts of the trace are lost"));
        }
        let stream = text_of(&complete, "stream");
        let (mut log, mut reader) = (NetLogRecord::default(), PerfettoReader::default());
        let mut read = 0;
        loop {
            let wanted = json!({ "handle": stream, "size": TRACE_PIECE_BYTES });
            let piece = self.call(None, "IO.read", &wanted)?;
            let data = piece.get("data").and_then(Value::as_str).unwrap_or_default();
            let bytes = match piece.get("base64Encoded").and_then(Value::as_bool) {
                Some(true) => super::facts::base64(data)
                    .ok_or_else(|| broken_trace("the data is not base64"))?,
                _ => data.as_bytes().to_vec(),
            };
            read += bytes.len();
            if read > TRACE_LIMIT_BYTES {
                let what = "the trace of a visit";
                return Err(ClientError::TooMuch { what, limit_bytes: TRACE_LIMIT_BYTES });
            }
            let taken = reader.feed(&bytes, |event| log.push(event));
            taken.map_err(|error| broken_trace(&error.to_string()))?;
            if piece.get("eof").and_then(Value::as_bool) != Some(false) {
                break;
            }
        }
        self.call(None, "IO.close", &json!({ "handle": stream }))?;
        if reader.left_over_bytes() > 0 {
            return Err(broken_trace("the trace is cut short"));
        }
        Ok((log, reader))
    }
}

/// Replaces a page's icon by one that is part of the page itself.
const ICON_SCRIPT: &str = "addEventListener('DOMContentLoaded', () => {
    document.querySelectorAll('link[rel~=icon]').forEach(link => link.remove());
    const link = document.createElement('link');
    link.rel = 'icon';
    link.href = 'data:,';
    (document.head || document.documentElement)?.append(link);
})";
/// The browser's error for a status of 400 and above with an empty body, which is a response like any other.
pub(super) const EMPTY_ERROR: &str = "net::ERR_HTTP_RESPONSE_CODE_FAILURE";

fn broken_trace(detail: &str) -> ClientError {
    ClientError::Refused { command: "the trace".to_owned(), detail: detail.to_owned() }
}

fn text_of(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}
