//! The page around the document: its connections, other resources, and the browser's own requests.
//!
//! Input: events of DevTools' Network domain, and the log. Output: a completed `Navigation`, and `BesideRequest`s.
//! Connections come from the log. Exchanges of other resources have DevTools' times, which tell how long a request was
//! blocked on a step: good enough for a waterfall, but without flights.

use std::time::Duration;

use firstbyte_core::timeline::{
    Beginning, ConnectionUse, DeliveredFrom, Initiator, Mark, Marks, Navigation, PageConnection,
    PhaseName, Resource, ResourceSizes, Stamp,
};
use serde_json::Value;

use super::assembly::{Found, Heard, Leg, found};
use super::failure;
use super::flights::Origin;
use super::{BesidePurpose, BesideRequest, launch, opened, quic, tcp};
use crate::browser::failure::Circumstances;
use crate::browser::time_out_unanswered;
use crate::devtools::DevToolsEvent;

pub(super) fn is_of_request(event: &DevToolsEvent, request: Option<&str>) -> bool {
    request.is_some() && text(&event.params, "requestId") == request
}

/// The identifier of the request if `event` requests a document for `frame` itself, not for a frame within it.
pub(super) fn asks_for_document<'a>(event: &'a DevToolsEvent, frame: &str) -> Option<&'a str> {
    let text = |name| text(&event.params, name);
    let asks = event.method == "Network.requestWillBeSent"
        && text("type") == Some("Document")
        && text("requestId") == text("loaderId")
        && text("frameId") == Some(frame);
    text("requestId").filter(|_| asks)
}

/// The document that was requested last, if the browser did not identify that of the navigation: it had not arrived
/// yet, so that no other document could follow it.
pub(super) fn newest_document(events: &[DevToolsEvent], frame: &str) -> Option<String> {
    events.iter().rev().find_map(|event| asks_for_document(event, frame)).map(str::to_owned)
}

/// Removes the events of other documents of `frame` (that a script opened), and of their resources.
pub(super) fn without_other_documents(
    mut events: Vec<DevToolsEvent>,
    frame: &str,
    document: Option<&str>,
) -> Vec<DevToolsEvent> {
    let asked = events.iter().filter_map(|event| asks_for_document(event, frame));
    let others = asked.filter(|asked| Some(*asked) != document).map(str::to_owned);
    let others: Vec<String> = others.collect();
    events.retain(|event| {
        let of = |name: &str| {
            text(&event.params, name).is_some_and(|of| others.iter().any(|other| other == of))
        };
        document.is_none() || !of("requestId") && !of("loaderId")
    });
    events
}

/// When the document was requested, by the log's clock.
pub(super) fn asked_at(events: &[DevToolsEvent], document: Option<&str>) -> Option<i64> {
    let mut of_document = events.iter().filter(|event| is_of_request(event, document));
    let asked = of_document.find(|event| event.method == "Network.requestWillBeSent")?;
    Some(microseconds(asked.params.get("timestamp")?.as_f64()?))
}

/// The responses to the document's requests: redirects, then the final one.
pub(super) fn document_responses(events: &[DevToolsEvent], document: Option<&str>) -> Vec<Value> {
    let of_document = events.iter().filter(|event| is_of_request(event, document));
    let responses = of_document.filter_map(|event| match &*event.method {
        "Network.requestWillBeSent" => event.params.get("redirectResponse").cloned(),
        "Network.responseReceived" => event.params.get("response").cloned(),
        _ => None,
    });
    responses.collect()
}

/// Why the document did not finish loading.
pub(super) fn load_error<'a>(
    events: &'a [DevToolsEvent],
    document: Option<&str>,
) -> Option<&'a str> {
    let failed = events
        .iter()
        .find(|event| event.method == "Network.loadingFailed" && is_of_request(event, document))?;
    text(&failed.params, "errorText")
}

/// When the document was complete, seconds of the browser's clock.
pub(super) fn finished_at(events: &[DevToolsEvent], document: Option<&str>) -> Option<f64> {
    let finished = events.iter().find(|event| {
        event.method == "Network.loadingFinished" && is_of_request(event, document)
    })?;
    finished.params.get("timestamp")?.as_f64()
}

/// Adds connections, resources and the page's own times.
pub(super) fn complete(
    mut page: Navigation,
    heard: &Heard<'_>,
    main: Option<&Leg>,
    main_responses: &[Value],
    origin: Origin,
) -> Navigation {
    let opened = opened::connections(&heard.log, origin);
    page.connections = opened.iter().map(|opened| opened.page.clone()).collect();
    let mut numbers: Vec<Option<u64>> = opened.iter().map(|opened| opened.number).collect();
    let mut place_of = |page: &mut Navigation, response: &Value| {
        let number = response.get("connectionId").and_then(Value::as_u64).filter(|n| *n > 0)?;
        let url = text(response, "url").unwrap_or_default();
        let known = numbers.iter().position(|known| *known == Some(number));
        let place = known.unwrap_or_else(|| {
            numbers.push(Some(number));
            page.connections.push(connection(heard, main, number, url, response, origin));
            numbers.len() - 1
        });
        // Without TLS there is no ALPN: take the protocol from the response.
        let protocol = &mut page.connections[place].protocol;
        *protocol = protocol.take().or_else(|| text(response, "protocol").map(str::to_owned));
        Some(place)
    };
    if let Some(response) = main_responses.last()
        && let Some(place) = place_of(&mut page, response)
    {
        page.main_connection = Some(place);
        let reused = page.main.connection.facts.reused;
        page.main_use = Some(match reused {
            true => ConnectionUse::Reused,
            false => ConnectionUse::Opened,
        });
    }
    let document = heard.document.as_deref();
    for event in &heard.events {
        let request = text(&event.params, "requestId").filter(|own| Some(*own) != document);
        let Some(request) = request else { continue };
        // A redirect is reported with the request that follows it.
        let (name, redirected) = match &*event.method {
            "Network.responseReceived" => ("response", false),
            "Network.requestWillBeSent" => ("redirectResponse", true),
            "Network.loadingFailed" => {
                page.resources.extend(not_answered(heard, request, &event.params, origin));
                continue;
            }
            _ => continue,
        };
        let Some(response) = event.params.get(name) else { continue };
        if !text(response, "url").is_some_and(|url| url.starts_with("http")) {
            continue;
        }
        let place = place_of(&mut page, response);
        let mut resource = resource(heard, request, response, origin);
        if redirected {
            let next = event.params.get("timestamp").and_then(Value::as_f64);
            resource.marks = exchange(response, next, &|s| origin.stamp(microseconds(s)));
            resource.sizes = ResourceSizes::default();
        }
        resource.connection =
            place.filter(|_| !resource.delivered_from.is_some_and(DeliveredFrom::is_local));
        page.resources.push(resource);
    }
    let pending = heard.events.iter().filter_map(|event| pending(heard, event, origin));
    page.resources.extend(pending);
    name_uses(&mut page);
    let used = uses(&page);
    opened::name_races(&mut page.connections, &opened, &|place| used.contains(&place));
    for (event, at) in [
        ("Page.domContentEventFired", &mut page.content_loaded),
        ("Page.loadEventFired", &mut page.loaded),
    ] {
        let event = heard.events.iter().find(|heard| heard.method == event);
        let seconds = event.and_then(|event| event.params.get("timestamp")?.as_f64());
        *at = seconds.map(|seconds| origin.stamp(microseconds(seconds)));
    }
    time_out_unanswered(&mut page, heard.time_limit);
    page
}

/// A resource that was requested, without any further event.
fn pending(heard: &Heard<'_>, event: &DevToolsEvent, origin: Origin) -> Option<Resource> {
    let request = text(&event.params, "requestId");
    if event.method != "Network.requestWillBeSent" || request == heard.document.as_deref() {
        return None;
    }
    let ends = ["Network.responseReceived", "Network.loadingFailed"];
    let of_it = |other: &&DevToolsEvent| text(&other.params, "requestId") == request;
    let mut of_it = heard.events.iter().filter(of_it);
    // After redirects, the last URL is pending.
    let newest = of_it.clone().rfind(|other| other.method == event.method);
    let is_newest = newest.is_some_and(|newest| std::ptr::eq(newest, event));
    if !is_newest || of_it.any(|other| ends.contains(&&*other.method)) {
        return None;
    }
    let asked = event.params.get("request")?;
    let at = event.params.get("timestamp").and_then(Value::as_f64);
    Some(Resource {
        url: text(asked, "url").filter(|url| url.starts_with("http"))?.to_owned(),
        method: text(asked, "method").map(str::to_owned),
        asked: at.map(|seconds| origin.stamp(microseconds(seconds))),
        ..Resource::default()
    })
}

/// The connections used by redirects before the document.
fn used_by_redirects(page: &Navigation) -> Vec<usize> {
    let of_leg = |leg: &firstbyte_core::timeline::Connection| {
        let ends = (leg.facts.local?, leg.facts.remote?);
        page.connections.iter().position(|c| c.local.zip(c.remote) == Some(ends))
    };
    page.main.redirects.iter().filter_map(of_leg).collect()
}

/// Indices of the connections that carried something.
fn uses(page: &Navigation) -> Vec<usize> {
    let resources = page.resources.iter().filter_map(|resource| resource.connection);
    resources.chain(page.main_connection).chain(used_by_redirects(page)).collect()
}

/// Marks how each resource got its connection: the first one opened it, unless the document did.
fn name_uses(page: &mut Navigation) {
    let mut opened = used_by_redirects(page);
    opened.extend(page.main_connection);
    for resource in &mut page.resources {
        let Some(place) = resource.connection else { continue };
        let connection = &page.connections[place];
        let own = launch::Origin::of_url(&resource.url).map(|origin| origin.authority());
        let first = !opened.contains(&place);
        opened.push(place);
        let was_open = matches!(connection.beginning, Some(Beginning::OpenBefore { .. }));
        resource.connection_use = Some(match own {
            _ if first && !was_open => ConnectionUse::Opened,
            Some(own) if own != connection.authority => ConnectionUse::Coalesced,
            _ => ConnectionUse::Reused,
        });
    }
}

fn connection(
    heard: &Heard<'_>,
    main: Option<&Leg>,
    number: u64,
    url: &str,
    response: &Value,
    origin: Origin,
) -> PageConnection {
    let log = &heard.log;
    let authority = launch::Origin::of_url(url).map(|origin| origin.authority());
    let mut page = PageConnection {
        authority: authority.unwrap_or_default(),
        client_id: Some(number.to_string()),
        protocol: text(response, "protocol").map(str::to_owned),
        ..PageConnection::default()
    };
    let Some(leg) = main else { return page };
    let everything = Leg { from: 0, to: log.len(), job: None, quic_session: None, ..leg.clone() };
    let mut built = firstbyte_core::timeline::Connection::default();
    let set_up = match found(log, &everything, Some(number)) {
        Some(Found::Tcp(socket)) => {
            tcp::put_down(log, socket, &everything, true, origin, &mut built);
            tcp::set_up(log, socket)
        }
        Some(Found::Quic(session)) => {
            quic::put_down(log, session, &everything, true, origin, &mut built);
            quic::set_up(log, session)
        }
        None => None,
    };
    (page.remote, page.local) = (built.facts.remote, built.facts.local);
    page.tls = built.facts.tls;
    let Some((begun, ready)) = set_up else { return page };
    if begun >= origin.at_us || ready.is_none_or(|ready| ready >= origin.at_us) {
        page.beginning = Some(Beginning::Opened);
        let set_up = built.marks.iter().filter(|(mark, _)| *mark <= Mark::HandshakeConfirmed);
        for (mark, stamp) in set_up {
            page.marks.set(mark, stamp);
        }
    } else {
        page.beginning = Some(Beginning::OpenBefore { idle: None });
    }
    page
}

fn resource(heard: &Heard<'_>, request: &str, response: &Value, origin: Origin) -> Resource {
    let of_request = |method: &str| {
        heard.events.iter().find(|event| {
            event.method == method && text(&event.params, "requestId") == Some(request)
        })
    };
    let sent = asked_for(heard, request, text(response, "url").unwrap_or_default());
    let finished = of_request("Network.loadingFinished").map(|event| &event.params);
    let truth = |name: &str| response.get(name).and_then(Value::as_bool) == Some(true);
    let delivered_from = if truth("fromServiceWorker") {
        DeliveredFrom::ServiceWorker
    } else if truth("fromPrefetchCache") {
        DeliveredFrom::PrefetchCache
    } else if truth("fromDiskCache") {
        DeliveredFrom::DiskCache
    } else {
        DeliveredFrom::Network
    };
    let stamp = |seconds: f64| origin.stamp(microseconds(seconds));
    let asked = sent.and_then(|sent| sent.get("timestamp")?.as_f64()).map(stamp);
    let finished_s = finished.and_then(|finished| finished.get("timestamp")?.as_f64());
    let initiator = sent.and_then(|sent| {
        let initiator = sent.get("initiator")?;
        let url = text(initiator, "url").or_else(|| script_of(initiator)).map(str::to_owned);
        Some(Initiator { kind: text(initiator, "type")?.to_owned(), url })
    });
    Resource {
        url: text(response, "url").unwrap_or_default().to_owned(),
        method: sent.and_then(|sent| text(sent.get("request")?, "method")).map(str::to_owned),
        status: response.get("status").and_then(Value::as_u64).and_then(|s| u16::try_from(s).ok()),
        initiator,
        delivered_from: Some(delivered_from),
        protocol: text(response, "protocol").map(str::to_owned),
        priority: sent
            .and_then(|sent| text(sent.get("request")?, "initialPriority"))
            .map(str::to_owned),
        asked,
        marks: exchange(response, finished_s, &stamp),
        sizes: ResourceSizes {
            transferred_bytes: finished
                .and_then(|finished| finished.get("encodedDataLength")?.as_f64())
                .filter(|bytes| *bytes >= 0.0)
                .map(|bytes| bytes as u64),
            ..ResourceSizes::default()
        },
        ..Resource::default()
    }
}

/// URL of the running script: of the innermost function that has one.
fn script_of(initiator: &Value) -> Option<&str> {
    let mut stack = initiator.get("stack");
    while let Some(own) = stack {
        let frames = own.get("callFrames").and_then(Value::as_array);
        let urls = frames.into_iter().flatten().filter_map(|frame| text(frame, "url"));
        if let Some(url) = urls.into_iter().find(|url| !url.is_empty()) {
            return Some(url);
        }
        stack = own.get("parent");
    }
    None
}

/// The event that requested `url`: a redirected request has the same identifier for each of its URLs.
fn asked_for<'a>(heard: &'a Heard<'_>, request: &str, url: &str) -> Option<&'a Value> {
    let asked = heard.events.iter().filter(|event| {
        event.method == "Network.requestWillBeSent"
            && text(&event.params, "requestId") == Some(request)
    });
    let of_url = |params: &&Value| {
        params.get("request").and_then(|request| text(request, "url")) == Some(url)
    };
    asked.map(|event| &event.params).find(of_url)
}

/// A resource that failed before any response, and why.
fn not_answered(
    heard: &Heard<'_>,
    request: &str,
    failed: &Value,
    origin: Origin,
) -> Option<Resource> {
    let of_request = |event: &&DevToolsEvent| text(&event.params, "requestId") == Some(request);
    let mut events = heard.events.iter().filter(of_request);
    if events.clone().any(|event| event.method == "Network.responseReceived") {
        return None;
    }
    let sent = &events.rfind(|event| event.method == "Network.requestWillBeSent")?.params;
    let asked = sent.get("request")?;
    let url = text(asked, "url").filter(|url| url.starts_with("http"))?;
    let why = text(failed, "errorText").unwrap_or("net::ERR_FAILED");
    let stamp = |seconds: f64| origin.stamp(microseconds(seconds));
    let at = failed.get("timestamp").and_then(Value::as_f64).map(|seconds| stamp(seconds).at);
    let known = Circumstances {
        received: 0,
        host: launch::Origin::of_url(url).map(|origin| origin.host).unwrap_or_default(),
        remote: None,
        marks: &Marks::default(),
        quic: false,
        time_limit: Duration::ZERO,
        at,
    };
    let mut failure = failure::named(why, &known);
    // Only the error's name tells how far it got.
    if failure.phase == PhaseName::Resolve && why.contains("ERR_CONNECTION_") {
        failure.phase = PhaseName::Connect;
    }
    Some(Resource {
        url: url.to_owned(),
        method: text(asked, "method").map(str::to_owned),
        asked: sent.get("timestamp").and_then(Value::as_f64).map(stamp),
        failure: Some(failure),
        ..Resource::default()
    })
}

/// The marks of an exchange from DevTools' times.
fn exchange(response: &Value, finished_s: Option<f64>, stamp: &dyn Fn(f64) -> Stamp) -> Marks {
    let mut marks = Marks::default();
    let Some(timing) = response.get("timing") else { return marks };
    let Some(request) = timing.get("requestTime").and_then(Value::as_f64) else { return marks };
    let mut set = |mark, name: &str| {
        let ms = timing.get(name).and_then(Value::as_f64).filter(|ms| *ms >= 0.0);
        if let Some(ms) = ms {
            marks.set(mark, stamp(request + ms / 1000.0));
        }
    };
    set(Mark::RequestStart, "sendStart");
    set(Mark::RequestEnd, "sendEnd");
    set(Mark::ResponseStart, "receiveHeadersStart");
    if let Some(finished) = finished_s
        && marks.at(Mark::ResponseStart).is_none_or(|start| start <= stamp(finished).at)
    {
        marks.set(Mark::ResponseEnd, stamp(finished));
    }
    marks
}

/// Requests of the browser itself, from the first leg on.
pub(super) fn beside(
    heard: &Heard<'_>,
    first: Option<&Leg>,
    page: &Navigation,
) -> Vec<BesideRequest> {
    let from = first.map_or(i64::MIN, |leg| leg.from_us);
    let mut of_page: Vec<String> = page.resources.iter().map(|r| r.url.clone()).collect();
    of_page.push(page.main.connection.url.clone());
    of_page.extend(page.main.redirects.iter().map(|connection| connection.url.clone()));
    let mut found: Vec<BesideRequest> = Vec::new();
    for event in heard.log.events().filter(|event| event.at_us >= from) {
        if !event.begins("HTTP_STREAM_JOB_CONTROLLER") {
            continue;
        }
        let Some(url) = event.text("url") else { continue };
        let Some(origin) = launch::Origin::of_url(url) else { continue };
        let preconnect = event.truth("is_preconnect") == Some(true);
        if !preconnect && of_page.iter().any(|known| known == url) {
            continue;
        }
        let same_site =
            of_page.iter().any(|known| launch::Origin::of_url(known) == Some(origin.clone()));
        let purpose = if preconnect {
            BesidePurpose::Preconnect
        } else if url.ends_with("/favicon.ico") {
            BesidePurpose::Favicon
        } else if same_site {
            // A resource of the page whose response came after the load event, or never.
            continue;
        } else {
            BesidePurpose::BrowserService
        };
        // Its name is not resolved (`launch`): a job that is created for it ends without a connection.
        let leads_nowhere = origin.host == launch::ACCOUNTS;
        let opened_connection = !leads_nowhere
            && heard.log.events().any(|made| {
                let group = || made.text("group_id").and_then(launch::Origin::of_group);
                made.at_us >= event.at_us
                    && &*made.name == "SOCKET_POOL_CONNECT_JOB_CREATED"
                    && group().as_ref() == Some(&origin)
            })
            && !page.connections.iter().any(|known| known.authority == origin.authority());
        found.push(BesideRequest { purpose, origin: origin.text(), opened_connection });
    }
    found
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name)?.as_str()
}

/// Converts seconds of the browser's monotonic clock to the log's microseconds.
fn microseconds(seconds: f64) -> i64 {
    (seconds * 1e6).round() as i64
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(name: &str, request: &str, loader: &str, frame: &str) -> DevToolsEvent {
        let params = json!({
            "requestId": request, "loaderId": loader, "frameId": frame, "type": "Document", "timestamp": 2.5,
        });
        let method = format!("Network.{name}");
        DevToolsEvent { method, session: None, params, message_bytes: 0 }
    }

    #[test]
    fn the_document_is_that_of_its_own_frame_and_navigation() {
        let events = vec![
            event("requestWillBeSent", "late", "late", "an iframe"),
            event("requestWillBeSent", "own", "own", "tab"),
            event("responseReceived", "own", "own", "tab"),
            event("requestWillBeSent", "own.1", "own", "tab"),
            event("requestWillBeSent", "next", "next", "tab"),
            event("responseReceived", "next.1", "next", "tab"),
        ];
        assert_eq!(newest_document(&events, "tab").as_deref(), Some("next"));
        assert_eq!(newest_document(&events[..3], "tab").as_deref(), Some("own"));
        assert_eq!(newest_document(&events[..1], "tab"), None);
        assert_eq!(asked_at(&events, Some("own")), Some(2_500_000));
        assert_eq!((asked_at(&events, Some("x")), asked_at(&events, None)), (None, None));
        let own = without_other_documents(events.clone(), "tab", Some("own"));
        assert_eq!(own, events[..4]);
        assert_eq!(without_other_documents(events.clone(), "tab", None), events);
    }
}
