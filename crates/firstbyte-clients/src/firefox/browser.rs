//! One visit over WebDriver BiDi, observed by `watch.js` in the browser's own scope.
//!
//! Input: options and a URL. Output: the browser's reports, handed to `assembly`. The browser keeps running between
//! visits; each visit has its own user context, and starts without connections and cached addresses.

use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::timeline::Navigation;
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::Client;
use serde_json::{Value, json};

use super::assembly::{Heard, assemble};
use super::bidi::{Bidi, BidiEvent};
use super::channel::{Begun, Channel};
use super::{FirefoxVisit, launch};
use crate::browser::{
    BrowserAbilities, BrowserHttp, BrowserOptions, BrowserSession, Navigated, RunningBrowser,
};
use crate::deadline::Deadline;
use crate::interruption::Interruption;
use crate::process::{ClientError, ClientProcess};

/// Time limit for starting the browser, preparing a visit, and reporting its results: steps without network.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
const WATCH: &str = include_str!("watch.js");
/// Firefox sends the first TLS request of a process over TCP even if QUIC is forced. This request takes that place.
///
/// Its name is pinned to loopback, and its port has no listener (and is one that Firefox does not block by itself).
const FIRST_REQUEST: &str = r#"firstbyteWatch.pin("start.firstbyte.invalid", "127.0.0.1");
    fetch("https://start.firstbyte.invalid:2/", { mode: "no-cors" }).then(() => 1, () => 0)"#;
const EVENTS: [&str; 9] = [
    "network.beforeRequestSent",
    "network.responseCompleted",
    "network.fetchError",
    "browsingContext.navigationStarted",
    "browsingContext.navigationFailed",
    "browsingContext.domContentLoaded",
    "browsingContext.load",
    "browsingContext.downloadWillBegin",
    "browsingContext.userPromptOpened",
];

/// A running Firefox.
#[derive(Debug)]
pub struct RunningFirefox {
    bidi: Bidi,
    /// Deadline of the current operation.
    deadline: Deadline,
    /// Identifier of the browser's own scope.
    scope: String,
    /// Forced HTTP/3 applies to this one origin.
    target: Target,
    version: Option<String>,
}

impl RunningBrowser for RunningFirefox {
    type Visit = FirefoxVisit;
    const CLIENT: Client = Client::Firefox;
    const PACKAGE: &'static str = "firefox-esr";
    const ABILITIES: BrowserAbilities =
        BrowserAbilities { asks_the_system: true, connects_elsewhere: false, finds_ipv6: false };

    fn installed_program() -> &'static str {
        launch::installed_program()
    }

    fn start(
        url: &str,
        options: &BrowserOptions,
        interruption: &Arc<Interruption>,
    ) -> Result<Self, ClientError> {
        let target = Target::parse(url).map_err(|bad| ClientError::Refused {
            command: "visiting".to_owned(),
            detail: bad.to_string(),
        })?;
        let deadline = Deadline::after(ANSWER_LIMIT);
        let mut process = ClientProcess::start(&launch::command(options, &target))?;
        let port = launch::port(&mut process, &deadline, interruption)?;
        let bidi = Bidi::over(process, port, Arc::clone(interruption), &deadline)?;
        Self::begin(bidi, deadline, target, options)
    }

    fn fits(&self, url: &str, options: &BrowserOptions) -> bool {
        let forced = options.http == BrowserHttp::Http3;
        let origin = |target: &Target| (target.host.clone(), target.port);
        Target::parse(url).is_ok_and(|target| !forced || origin(&target) == origin(&self.target))
    }

    fn visit(&mut self, url: &str, options: &BrowserOptions) -> Result<FirefoxVisit, ClientError> {
        self.visit_in_new_context(url, options)
    }

    fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    fn process(&self) -> &ClientProcess {
        self.bidi.process()
    }

    fn page(visit: FirefoxVisit) -> Navigation {
        visit.page
    }
}

impl RunningFirefox {
    /// Opens the session, and makes the browser's own scope observe its requests.
    fn begin(
        mut bidi: Bidi,
        deadline: Deadline,
        target: Target,
        options: &BrowserOptions,
    ) -> Result<Self, ClientError> {
        let session = bidi.call("session.new", &json!({ "capabilities": {} }), &deadline)?;
        let version = session.get("capabilities").and_then(|c| c.get("browserVersion"));
        let version = version.and_then(Value::as_str).map(str::to_owned);
        let too_old = |detail: &str| ClientError::Refused {
            command: "access to the browser's privileged scope".to_owned(),
            detail: format!(
                "{detail} (Firefox {} may be too old; Debian's package firefox-esr works)",
                version.as_deref().unwrap_or("of unknown version")
            ),
        };
        let tree =
            bidi.call("browsingContext.getTree", &json!({ "moz:scope": "chrome" }), &deadline);
        let tree = match tree {
            Err(ClientError::Refused { detail, .. }) => return Err(too_old(&detail)),
            tree => tree?,
        };
        let scope = tree.get("contexts").and_then(|contexts| contexts.get(0)).map(context_of);
        let scope = scope.ok_or_else(|| too_old("the browser has no window"))?;
        let mut running = Self { bidi, deadline, scope, target, version };
        running.evaluate(WATCH)?;
        if options.http == BrowserHttp::Http3 {
            running.evaluate(FIRST_REQUEST)?;
        }
        for pin in &options.pins {
            let (host, address) = (json!(pin.host), json!(pin.address.to_string()));
            running.evaluate(&format!("firstbyteWatch.pin({host}, {address})"))?;
        }
        running.call("session.subscribe", &json!({ "events": EVENTS }))?;
        Ok(running)
    }

    fn visit_in_new_context(
        &mut self,
        url: &str,
        options: &BrowserOptions,
    ) -> Result<FirefoxVisit, ClientError> {
        self.deadline = Deadline::after(ANSWER_LIMIT);
        self.evaluate("firstbyteWatch.closeConnections()")?;
        let user_context = self.call("browser.createUserContext", &json!({}))?;
        let user_context = json!({ "userContext": user_context.get("userContext") });
        let tab = json!({ "type": "tab", "userContext": user_context["userContext"] });
        let tab = context_of(&self.call("browsingContext.create", &tab)?);
        self.take_seen()?;
        self.bidi.take_events();
        let limit = Deadline::after(options.time_limit);
        let mut before = Vec::new();
        if options.session != BrowserSession::New {
            self.deadline = limit;
            // If this visit fails, so does the measured one.
            self.navigate(&tab, url)?;
            self.deadline = Deadline::after(ANSWER_LIMIT);
            before = self.take_seen()?.0;
            if options.session != BrowserSession::Kept {
                self.evaluate("firstbyteWatch.closeConnections()")?;
            }
            self.bidi.take_events();
        }
        // If the previous visit used up the time, this one is not started.
        self.deadline = limit;
        let navigated = match limit.left().is_some() {
            true => self.navigate(&tab, url)?,
            false => Navigated::not_begun(),
        };
        self.deadline = Deadline::after(ANSWER_LIMIT);
        let (channels, begun) = self.take_seen()?;
        let events = self.bidi.take_events().into_iter();
        let events = events.filter(|event| is_of_tab(event, &tab)).collect();
        self.call("browsingContext.close", &json!({ "context": tab }))?;
        self.call("browser.removeUserContext", &user_context)?;
        Ok(assemble(&Heard {
            url,
            events,
            navigation: navigated.identifier,
            refused: navigated.refused,
            channels,
            begun,
            before,
            pins: &options.pins,
            version: self.version.clone(),
            time_limit: options.time_limit,
        }))
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value, ClientError> {
        self.bidi.call(method, params, &self.deadline)
    }

    /// Evaluates `script` in the browser's own scope.
    fn evaluate(&mut self, script: &str) -> Result<Value, ClientError> {
        let params = json!({
            "expression": script, "target": { "context": self.scope }, "awaitPromise": true,
        });
        let done = self.call("script.evaluate", &params)?;
        if let Some(exception) = done.get("exceptionDetails") {
            let detail = exception.get("text").and_then(Value::as_str).unwrap_or("an exception");
            let command = "a script in the browser's privileged scope".to_owned();
            return Err(ClientError::Refused { command, detail: detail.to_owned() });
        }
        Ok(done.get("result").and_then(|result| result.get("value")).cloned().unwrap_or_default())
    }

    /// The requests and the started connections since the last call.
    fn take_seen(&mut self) -> Result<(Vec<Channel>, Vec<Begun>), ClientError> {
        let said = self.evaluate("firstbyteWatch.take()")?;
        let said = serde_json::from_str(said.as_str().unwrap_or_default());
        let said: Value = said.map_err(|error| ClientError::Refused {
            command: "the record of requests".to_owned(),
            detail: error.to_string(),
        })?;
        let list = |name: &str| said.get(name).and_then(Value::as_array).into_iter().flatten();
        let channels = list("channels").filter_map(Channel::read).collect();
        Ok((channels, list("begun").filter_map(Begun::read).collect()))
    }

    /// Loads `url` and waits until it is loaded or the time is over. If it does not load, the result says why.
    fn navigate(&mut self, tab: &str, url: &str) -> Result<Navigated, ClientError> {
        let params = json!({ "context": tab, "url": url, "wait": "none" });
        let answer = match self.call("browsingContext.navigate", &params) {
            Err(ClientError::TimedOut { .. }) => return Ok(Navigated::timed_out(None)),
            Err(ClientError::Refused { detail, .. }) => {
                return Ok(Navigated { refused: Some(detail), ..Navigated::default() });
            }
            answer => answer?,
        };
        let navigation = answer.get("navigation").and_then(Value::as_str).map(str::to_owned);
        let deadline = self.deadline;
        let ended = self.bidi.wait_until("the page to load", &deadline, |event| {
            is_of_tab(event, tab).then(|| ends(event, navigation.as_deref()))?
        });
        match ended {
            Ok(refused) => Ok(Navigated { identifier: navigation, refused }),
            Err(ClientError::TimedOut { .. }) => Ok(Navigated::timed_out(navigation)),
            Err(error) => Err(error),
        }
    }
}

/// `None` if `event` does not end the navigation; otherwise the reason of its failure, if it failed.
fn ends(event: &BidiEvent, navigation: Option<&str>) -> Option<Option<String>> {
    let own = event.params.get("navigation").and_then(Value::as_str);
    let text = |name: &str| event.params.get(name).and_then(Value::as_str).map(str::to_owned);
    if own != navigation {
        // A script, or `<meta http-equiv="refresh">`, started another navigation: the document has arrived.
        let other = event.method == "browsingContext.navigationStarted" && own.is_some();
        return other.then_some(None);
    }
    match &*event.method {
        "browsingContext.load" | "browsingContext.downloadWillBegin" => Some(None),
        "browsingContext.navigationFailed" => {
            Some(Some(text("message").unwrap_or_else(|| "the navigation failed".to_owned())))
        }
        "network.fetchError" => {
            Some(text("errorText").or_else(|| Some("no reason given".to_owned())))
        }
        _ => None,
    }
}

fn is_of_tab(event: &BidiEvent, tab: &str) -> bool {
    event.params.get("context").and_then(Value::as_str) == Some(tab)
}

fn context_of(value: &Value) -> String {
    value.get("context").and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(method: &str, params: Value) -> BidiEvent {
        BidiEvent { method: method.to_owned(), params }
    }

    #[test]
    fn a_navigation_ends_by_its_own_events_or_where_another_begins() {
        let own = |method| event(method, json!({ "navigation": "own", "errorText": "NS_X" }));
        let ends = |event: &BidiEvent| ends(event, Some("own"));
        assert_eq!(ends(&own("browsingContext.load")), Some(None));
        assert_eq!(ends(&own("network.fetchError")), Some(Some("NS_X".to_owned())));
        assert_eq!(ends(&own("network.responseCompleted")), None);
        assert_eq!(ends(&own("browsingContext.navigationStarted")), None);
        let other = |method| event(method, json!({ "navigation": "other" }));
        assert_eq!(ends(&other("browsingContext.load")), None);
        assert_eq!(ends(&other("browsingContext.navigationStarted")), Some(None));
        let resource = event("network.fetchError", json!({ "navigation": null }));
        assert_eq!(ends(&resource), None);
    }
}
