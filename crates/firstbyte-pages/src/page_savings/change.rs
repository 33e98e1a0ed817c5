//! Possible changes to a page, and what each means for its connections.
//!
//! Input: a page's graph. Output: each change as alterations: the most likely one, and those that bound the unknown.
//! Changes that do not apply to the page are not offered; those that cannot be assessed are listed with the reason.

use std::fmt;
use std::time::Duration;

use super::graph::{Ns, PageGraph, Tls};
use super::replay::{Alteration, LinkChange};

/// Most likely share of a full handshake's time beyond its round trips that disappears with the certificates.
const CERTIFICATES_SHARE: f64 = 0.6;

/// A possible change to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Every connection is already open and was just used: kept from the previous page.
    Kept,
    /// Other origins are served over the document's connection, by the document's server.
    Coalesced,
    /// Every new connection resumes a TLS session.
    Resumed,
    /// Like `Resumed`, and the first request is sent as early data.
    EarlyData,
    /// An origin is served over QUIC; all origins if no authority is given.
    Http3 {
        /// Host and port.
        authority: Option<String>,
    },
    /// TLS 1.3 instead of TLS 1.2.
    Tls13,
    /// An origin's server is nearer.
    NearerEdge {
        /// Host and port.
        authority: String,
        /// Round trip to the nearer server.
        round_trip: Duration,
    },
}

impl Change {
    /// The name used in stored forms.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Coalesced => "coalesced",
            Self::Resumed => "resumed",
            Self::EarlyData => "early-data",
            Self::Http3 { .. } => "http3",
            Self::Tls13 => "tls13",
            Self::NearerEdge { .. } => "nearer-edge",
        }
    }

    /// The origin that the change applies to, if it applies to one only.
    pub fn authority(&self) -> Option<&str> {
        match self {
            Self::Http3 { authority } => authority.as_deref(),
            Self::NearerEdge { authority, .. } => Some(authority),
            _ => None,
        }
    }
}

/// Why a change is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// The page has nothing that the change would affect.
    NothingToChange,
    /// The round trip of a connection is not known.
    NoRoundTrip,
    /// The document's connection cannot carry other requests: it does not use HTTP/2 or HTTP/3, or its protocol is not
    /// known.
    NotMultiplexed,
    /// TLS 1.2 has no early data.
    NeedsTls13,
    /// With TLS 1.2 False Start, requests already leave a round trip early.
    FalseStart,
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingToChange => "this page already does so",
            Self::NoRoundTrip => "the round-trip time is unknown",
            Self::NotMultiplexed => "the document's connection carries only one response at a time",
            Self::NeedsTls13 => "TLS 1.2 does not support early data",
            Self::FalseStart => "with False Start, TLS 1.2 takes no additional round trip",
        })
    }
}

/// A change as alterations: the most likely one first, then those that bound it.
pub(super) type Variants = Vec<Alteration>;

/// What `change` means for the page of `graph`.
pub(super) fn variants(graph: &PageGraph, change: &Change) -> Result<Variants, WhyNot> {
    let certificates = [CERTIFICATES_SHARE, 0.0, 1.0];
    match change {
        Change::Kept => kept(graph),
        Change::Coalesced => coalesced(graph),
        Change::Resumed => over_links(graph, &certificates, |tls, work, share| {
            tls.filter(|tls| !tls.resumed).map(|_| (1, less(work, share)))
        }),
        Change::EarlyData => early_data(graph, &certificates),
        Change::Http3 { authority } => http3(graph, authority.as_deref()),
        Change::Tls13
            if graph.connections.iter().any(|link| link.tls.is_some_and(|tls| tls.false_start)) =>
        {
            Err(WhyNot::FalseStart)
        }
        Change::Tls13 => over_links(graph, &[0.0], |tls, _, _| {
            let old = tls.filter(|tls| !tls.version_1_3 && !tls.resumed);
            old.map(|_| (1, 0))
        }),
        Change::NearerEdge { authority, round_trip } => nearer(graph, authority, *round_trip),
    }
}

fn less(work: Ns, share: f64) -> Ns {
    (work as f64 * share) as Ns
}

/// Changes the TLS handshakes over TCP: `to` returns a handshake's new round trips and how much time it saves besides.
fn over_links(
    graph: &PageGraph,
    shares: &[f64],
    to: impl Fn(Option<Tls>, Ns, f64) -> Option<(i64, Ns)>,
) -> Result<Variants, WhyNot> {
    let mut all = Vec::new();
    for share in shares {
        let mut changed = Alteration::none(graph);
        let mut any = false;
        for (link, change) in graph.connections.iter().zip(&mut changed.links) {
            let Some(set_up) = link.set_up else { continue };
            let Some((tls, less)) = to(link.tls, set_up.tls_work, *share) else { continue };
            any |= link.requests > 0;
            let trips = if link.quic { tls } else { tls + 1 };
            *change = LinkChange { trips: Some(trips), less, ..LinkChange::default() };
        }
        if !any {
            return Err(WhyNot::NothingToChange);
        }
        all.push(changed);
    }
    Ok(all)
}

fn kept(graph: &PageGraph) -> Result<Variants, WhyNot> {
    if graph.connections.iter().all(|link| link.set_up.is_none()) {
        return Err(WhyNot::NothingToChange);
    }
    // A connection that was just used has an open window; after idling it restarts with the initial window (RFC 9293;
    // congestion control: RFC 5681 §4.1).
    let with = |window_open| {
        let mut changed = Alteration::none(graph);
        for (link, change) in graph.connections.iter().zip(&mut changed.links) {
            let open = link.set_up.is_some();
            *change =
                LinkChange { open, window_open: open && window_open, ..LinkChange::default() };
        }
        changed
    };
    Ok(vec![with(true), with(false)])
}

fn coalesced(graph: &PageGraph) -> Result<Variants, WhyNot> {
    let document = graph.requests.get(graph.document).and_then(|request| request.connection);
    let document = document.ok_or(WhyNot::NotMultiplexed)?;
    let own = &graph.connections[document];
    if !own.multiplexed {
        return Err(WhyNot::NotMultiplexed);
    }
    own.round_trip.ok_or(WhyNot::NoRoundTrip)?;
    let other = |place: usize| {
        let link = &graph.connections[place];
        place != document && link.tls.is_some() && link.requests > 0
    };
    if !(0..graph.connections.len()).any(other) {
        return Err(WhyNot::NothingToChange);
    }
    let with = |window_open| {
        let mut changed = Alteration::none(graph);
        for (place, change) in changed.links.iter_mut().enumerate() {
            if other(place) {
                change.replaced_by = Some(document);
                change.multiplexed = true;
                change.window_open = window_open;
            }
        }
        changed
    };
    Ok(vec![with(false), with(true)])
}

fn early_data(graph: &PageGraph, shares: &[f64]) -> Result<Variants, WhyNot> {
    let new = || graph.connections.iter().filter(|link| link.set_up.is_some() && link.requests > 0);
    if new().all(|link| link.tls.is_none_or(|tls| tls.early)) {
        return Err(WhyNot::NothingToChange);
    }
    if new().all(|link| link.tls.is_none_or(|tls| !tls.version_1_3)) {
        return Err(WhyNot::NeedsTls13);
    }
    over_links(graph, shares, |tls, work, share| match tls? {
        Tls { early: true, .. } => None,
        Tls { version_1_3: true, .. } => Some((0, less(work, share))),
        // TLS 1.2 connections resume instead.
        Tls { resumed: false, .. } => Some((1, less(work, share))),
        Tls { .. } => None,
    })
}

fn http3(graph: &PageGraph, authority: Option<&str>) -> Result<Variants, WhyNot> {
    let mut changed = Alteration::none(graph);
    let mut first: Vec<(&str, usize)> = Vec::new();
    let mut any = false;
    for (place, link) in graph.connections.iter().enumerate() {
        let named = authority.is_none_or(|authority| authority == link.authority);
        let Some(tls) = link.tls.filter(|_| named && !link.quic) else { continue };
        if link.round_trip.is_none() {
            return Err(WhyNot::NoRoundTrip);
        }
        any |= link.requests > 0 && link.set_up.is_some();
        let change = &mut changed.links[place];
        change.multiplexed = true;
        match first.iter().find(|(known, _)| *known == link.authority) {
            // Of several HTTP/1.1 connections, one is kept.
            Some((_, one)) => change.replaced_by = Some(*one),
            None => {
                first.push((&link.authority, place));
                let trips = if tls.early { 0 } else { 1 };
                change.trips = link.set_up.map(|_| trips);
            }
        }
    }
    if any { Ok(vec![changed]) } else { Err(WhyNot::NothingToChange) }
}

fn nearer(graph: &PageGraph, authority: &str, round_trip: Duration) -> Result<Variants, WhyNot> {
    let to = Ns::try_from(round_trip.as_nanos()).unwrap_or(Ns::MAX);
    let own =
        || graph.connections.iter().filter(|link| link.authority == authority && link.requests > 0);
    let known = own().filter_map(|link| link.round_trip).min().ok_or(WhyNot::NoRoundTrip)?;
    let usual = own().filter_map(|link| link.usual_round_trip).max().unwrap_or(known);
    // If the browser was busy, it saw its handshakes end late; how late is not known.
    let with = |to: Ns| {
        let mut changed = Alteration::none(graph);
        for (link, change) in graph.connections.iter().zip(&mut changed.links) {
            if link.authority == authority {
                change.round_trip = Some(to);
            }
        }
        changed
    };
    Ok(vec![with(to), with(to - (usual - known)), with(to + (usual - known))])
}
