//! The page around the document: its connections, other resources, and the browser's own requests.
//!
//! Input: everything received about the visit. Output: a completed `Navigation`. A connection is identified by its two
//! addresses; for unused ones Firefox only reports the host.

use firstbyte_core::timeline::{
    Beginning, ConnectionUse, DeliveredFrom, Mark, Navigation, PageConnection, Resource,
    ResourceSizes,
};
use firstbyte_probe::probe::Target;
use serde_json::Value;

use super::assembly::{Heard, Origin};
use super::channel::Channel;
use super::{assembly, facts};
use crate::browser::time_out_unanswered;

/// Adds connections, resources and the page's own times.
pub(super) fn complete(
    mut page: Navigation,
    heard: &Heard<'_>,
    document: Option<&Channel>,
    origin: Origin,
) -> Navigation {
    let Some(document) = document else { return page };
    let mut known: Vec<&Channel> = Vec::new();
    let place_of = |page: &mut Navigation, channel: &Channel, found: Option<usize>| {
        found.or_else(|| {
            channel.local?;
            page.connections.push(connection(heard, channel, origin));
            Some(page.connections.len() - 1)
        })
    };
    let redirected = |channel: &&Channel| {
        channel.document && channel.redirected() && channel.page == document.page
    };
    for channel in heard.channels.iter().filter(redirected) {
        let found = known.iter().position(|known| same_connection(known, channel));
        if found.is_none() && place_of(&mut page, channel, None).is_some() {
            known.push(channel);
        }
    }
    if document.status.is_some() {
        let found = known.iter().position(|known| same_connection(known, document));
        page.main_connection = place_of(&mut page, document, found);
        known.extend(page.main_connection.filter(|_| found.is_none()).map(|_| document));
        page.main_use = page.main_connection.map(|_| match page.main.connection.facts.reused {
            true => ConnectionUse::Reused,
            false => ConnectionUse::Opened,
        });
    }
    let of_page =
        |channel: &&Channel| !channel.beside && !channel.document && channel.page == document.page;
    for channel in heard.channels.iter().filter(of_page) {
        let found = known.iter().position(|known| same_connection(known, channel));
        let place = place_of(&mut page, channel, found);
        if found.is_none() && place.is_some() {
            known.push(channel);
        }
        let mut resource = resource(channel, origin);
        resource.connection = place;
        resource.connection_use = place.map(|place| {
            let own = authority(&channel.url);
            if channel.at(Mark::ConnectStart).is_some() {
                ConnectionUse::Opened
            } else if own == page.connections[place].authority {
                ConnectionUse::Reused
            } else {
                ConnectionUse::Coalesced
            }
        });
        page.resources.push(resource);
    }
    page.connections.extend(unused(heard, document, &page));
    for (event, at) in [
        ("browsingContext.domContentLoaded", &mut page.content_loaded),
        ("browsingContext.load", &mut page.loaded),
    ] {
        let mut events = heard.events.iter();
        let event = events.find(|e| e.method == event && assembly::is_of_document(heard, e));
        let ms = event.and_then(|event| event.params.get("timestamp").and_then(Value::as_i64));
        *at = ms.map(|ms| {
            let mut stamp = origin.stamp(ms.saturating_mul(1000));
            // Reported in whole milliseconds.
            stamp.clock = firstbyte_core::timeline::Clock::Reported { resolution_ns: 1_000_000 };
            stamp
        });
    }
    time_out_unanswered(&mut page, heard.time_limit);
    page
}

/// Connections that were started, but that no request reports as opened for it.
fn unused(heard: &Heard<'_>, document: &Channel, page: &Navigation) -> Vec<PageConnection> {
    let mut used: Vec<(String, bool)> = Vec::new();
    for connection in &page.connections {
        if connection.beginning == Some(Beginning::Opened) {
            let quic = connection.protocol.as_deref().is_some_and(|name| name.starts_with("h3"));
            used.push((connection.authority.clone(), quic));
        }
    }
    let begun = heard.begun.iter().filter(|begun| begun.at_us >= document.opened_us);
    let begun = begun.filter(|begun| {
        let own = (begun.authority(), begun.quic);
        match used.iter().position(|known| *known == own) {
            Some(place) => {
                used.swap_remove(place);
                false
            }
            None => true,
        }
    });
    let named = begun.map(|begun| PageConnection {
        authority: begun.authority(),
        beginning: Some(Beginning::Opened),
        protocol: begun.quic.then(|| "h3".to_owned()),
        ..PageConnection::default()
    });
    named.collect()
}

fn same_connection(one: &Channel, other: &Channel) -> bool {
    let addresses = |channel: &Channel| channel.local.zip(channel.remote);
    one.quic() == other.quic() && addresses(one).is_some() && addresses(one) == addresses(other)
}

fn authority(url: &str) -> String {
    let Ok(target) = Target::parse(url) else { return String::new() };
    match target.host.contains(':') {
        true => format!("[{}]:{}", target.host, target.port),
        false => format!("{}:{}", target.host, target.port),
    }
}

fn connection(heard: &Heard<'_>, channel: &Channel, origin: Origin) -> PageConnection {
    let opened = channel.at(Mark::ConnectStart).is_some();
    let was_open = heard.before.iter().any(|before| same_connection(before, channel));
    let mut page = PageConnection {
        authority: authority(&channel.url),
        remote: channel.remote,
        local: channel.local,
        beginning: match (opened, was_open) {
            (true, _) => Some(Beginning::Opened),
            (false, true) => Some(Beginning::OpenBefore { idle: None }),
            (false, false) => None,
        },
        protocol: channel.protocol.clone(),
        tls: facts::tls(channel),
        ..PageConnection::default()
    };
    let pinned = assembly::is_pinned(heard, &channel.url);
    for (mark, at) in channel.marks.iter().filter(|_| opened) {
        let lookup = matches!(mark, Mark::DomainLookupStart | Mark::DomainLookupEnd);
        if *mark <= Mark::HandshakeConfirmed && !(pinned && lookup) {
            page.marks.set(*mark, origin.stamp(*at));
        }
    }
    page
}

fn resource(channel: &Channel, origin: Origin) -> Resource {
    let http = facts::http(channel);
    let mut resource = Resource {
        url: channel.url.clone(),
        method: Some(channel.method.clone()),
        status: channel.status,
        delivered_from: channel.status.map(|_| DeliveredFrom::Network),
        protocol: channel.protocol.clone(),
        asked: Some(origin.stamp(channel.opened_us)),
        sizes: ResourceSizes {
            transferred_bytes: channel.transferred_bytes,
            body_bytes: http.body_bytes,
            decoded_bytes: http.decoded_bytes,
        },
        ..Resource::default()
    };
    for (mark, at) in &channel.marks {
        if *mark >= Mark::RequestStart {
            resource.marks.set(*mark, origin.stamp(*at));
        }
    }
    resource
}

/// Origins that the browser tried to contact for itself, without duplicates.
pub(super) fn beside(heard: &Heard<'_>) -> Vec<String> {
    let mut origins: Vec<String> = Vec::new();
    for channel in heard.before.iter().chain(&heard.channels).filter(|channel| channel.beside) {
        let origin = authority(&channel.url);
        if !origins.contains(&origin) {
            origins.push(origin);
        }
    }
    origins
}
