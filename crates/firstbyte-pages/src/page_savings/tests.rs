//! Pages whose answer is known, and properties that hold for any page.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use firstbyte_core::timeline::{
    Beginning, ConnectionUse, Handshake, HttpFacts, Initiator, Mark, Marks, PageConnection,
    Resource, ResourceSizes, Stamp, TlsFacts,
};

fn ms(ms: i64) -> Offset {
    Offset::from_nanos(ms * 1_000_000)
}

fn marks(all: &[(Mark, i64)]) -> Marks {
    let mut marks = Marks::default();
    for (mark, at) in all {
        marks.set(*mark, Stamp::user(Offset::from_nanos(*at)));
    }
    marks
}

const MS: i64 = 1_000_000;

fn connection(authority: &str, version: &str, protocol: &str, at: [i64; 3]) -> PageConnection {
    let [begun, connected, ready] = at.map(|at| at * MS);
    PageConnection {
        authority: authority.into(),
        beginning: Some(Beginning::Opened),
        protocol: Some(protocol.into()),
        tls: Some(TlsFacts {
            version: Some(version.into()),
            handshake: Some(Handshake::Full),
            ..TlsFacts::default()
        }),
        marks: marks(&[
            (Mark::ConnectStart, begun),
            (Mark::TcpConnected, connected),
            (Mark::SecureConnectionStart, connected),
            (Mark::HandshakeComplete, ready),
        ]),
        ..PageConnection::default()
    }
}

fn resource(url: &str, by: &str, connection: usize, at: [i64; 4]) -> Resource {
    let [asked, sent, first, end] = at.map(|at| at * MS);
    Resource {
        url: url.into(),
        initiator: Some(Initiator { kind: "parser".into(), url: Some(by.into()) }),
        connection: Some(connection),
        connection_use: Some(ConnectionUse::Reused),
        status: Some(200),
        priority: Some("Low".into()),
        asked: Some(Stamp::user(Offset::from_nanos(asked))),
        marks: marks(&[
            (Mark::RequestStart, sent),
            (Mark::ResponseStart, first),
            (Mark::ResponseEnd, end),
        ]),
        sizes: ResourceSizes { transferred_bytes: Some(1_000), ..ResourceSizes::default() },
        ..Resource::default()
    }
}

/// A document 20 ms away over TLS 1.3 whose server takes 10 ms, and an image 40 ms away over TLS 1.2 whose server takes
/// 5 ms.
///
/// Document, in ms: begun at 0, TCP connected at 20, ready at 42 (2 ms of work), response at 72. Image: asked for at
/// 75, TCP connected at 115, ready at 195, response at 240. Loaded at 244.
fn page() -> Navigation {
    let mut image = resource("https://b.test/i", "https://a.test/", 1, [75, 195, 240, 240]);
    image.connection_use = Some(ConnectionUse::Opened);
    let mut page = Navigation {
        main_connection: Some(0),
        main_use: Some(ConnectionUse::Opened),
        connections: vec![
            connection("a.test:443", "TLSv1.3", "h2", [0, 20, 42]),
            connection("b.test:443", "TLSv1.2", "h2", [75, 115, 195]),
        ],
        resources: vec![image],
        loaded: Some(Stamp::user(ms(244))),
        ..Navigation::default()
    };
    page.main.connection.url = "https://a.test/".into();
    page.main.connection.facts.http =
        Some(HttpFacts { body_bytes: Some(1_000), ..HttpFacts::default() });
    page.main.connection.marks = marks(&[
        (Mark::RequestStart, 42 * MS),
        (Mark::ResponseStart, 72 * MS),
        (Mark::ResponseEnd, 72 * MS),
    ]);
    page
}

fn predicted(change: Change) -> Saving {
    PageModel::from_navigation(&page()).unwrap().predict(&change).unwrap()
}

fn edge(authority: &str, ms: u64) -> Change {
    Change::NearerEdge { authority: authority.into(), round_trip: Duration::from_millis(ms) }
}

#[test]
fn each_change_saves_its_round_trips() {
    assert_eq!(page().check(), Ok(()));
    let model = PageModel::from_navigation(&page()).unwrap();
    assert_eq!((model.first_byte(), model.load()), (ms(72), ms(244)));
    let found = |change| {
        let saving = predicted(change);
        (saving.first_byte, saving.load)
    };
    // The document: TCP, TLS and the request save 15 ms each; the rest follows earlier.
    assert_eq!(found(edge("a.test:443", 5)), (ms(27), ms(199)));
    // The image: TCP, two round trips of TLS 1.2 and the request save 30 ms each.
    assert_eq!(found(edge("b.test:443", 10)), (ms(72), ms(124)));
    assert_eq!(found(Change::Tls13), (ms(72), ms(204)));
    // The document's 42 ms of set-up and the image's 120 ms disappear.
    assert_eq!(found(Change::Kept), (ms(30), ms(82)));
    // The image over the document's connection: 20 ms and the server's 5 ms.
    assert_eq!(found(Change::Coalesced), (ms(72), ms(104)));
    // Each saves one of two round trips; the document also saves its 2 ms of work.
    assert_eq!(found(Change::Http3 { authority: None }), (ms(52), ms(144)));
    let one = Change::Http3 { authority: Some("a.test:443".into()) };
    assert_eq!(found(one), (ms(52), ms(224)));
}

#[test]
fn what_certificates_took_is_between_nothing_and_all_the_work() {
    let resumed = predicted(Change::Resumed);
    // TLS 1.2 saves a round trip of 40 ms; TLS 1.3 saves up to 2 ms.
    assert_eq!(resumed.load_between, (ms(202), ms(204)));
    assert!(resumed.load >= ms(202) && resumed.load <= ms(204), "{resumed:?}");
    assert!(resumed.uncertainty() < Duration::from_millis(2));
    // The document's request leaves with its ClientHello. TLS 1.2 has no early data, so the image's connection resumes.
    let early = predicted(Change::EarlyData);
    assert_eq!(early.load_between, (ms(182), ms(184)));
}

#[test]
fn only_what_applies_is_offered_and_the_rest_says_why() {
    let savings = PageSavings::from_navigation(&page(), EDGE).unwrap();
    assert_eq!(savings.offered.len(), 8);
    assert!(savings.offered.is_sorted_by_key(|saving| saving.load));
    let mut plain = page();
    plain.connections[0].protocol = Some("http/1.1".into());
    let savings = PageSavings::from_navigation(&plain, EDGE).unwrap();
    assert_eq!(savings.not_offered, [(Change::Coalesced, WhyNot::NotMultiplexed)]);
    let mut open = page();
    for connection in &mut open.connections {
        connection.beginning = Some(Beginning::OpenBefore { idle: None });
        connection.marks = Marks::default();
    }
    open.main_use = Some(ConnectionUse::Reused);
    open.resources[0].connection_use = Some(ConnectionUse::Reused);
    let savings = PageSavings::from_navigation(&open, EDGE).unwrap();
    assert!(savings.not_offered.contains(&(Change::Kept, WhyNot::NothingToChange)));
    assert_eq!(savings.load, ms(244));
    let mut unfinished = page();
    unfinished.loaded = None;
    assert_eq!(PageSavings::from_navigation(&unfinished, EDGE), None);
}

#[test]
fn false_start_leaves_nothing_for_tls_1_3_to_save() {
    let mut page = page();
    // One round trip and 5 ms.
    page.connections[1] = connection("b.test:443", "TLSv1.2", "h2", [75, 115, 160]);
    page.resources[0] = resource("https://b.test/i", "https://a.test/", 1, [75, 160, 205, 205]);
    page.loaded = Some(Stamp::user(ms(209)));
    let model = PageModel::from_navigation(&page).unwrap();
    assert_eq!(model.predict(&Change::Tls13), Err(WhyNot::FalseStart));
    // Three round trips: TCP, TLS, and the request.
    assert_eq!(model.predict(&edge("b.test:443", 10)).unwrap().load, ms(209 - 90));
}

#[test]
fn what_waits_for_a_script_before_it_waits_for_it_still() {
    let mut page = page();
    page.main.redirects.clear();
    // A slow script of the other origin, a script of the document's own origin, and a request that the latter makes
    // once both have run.
    let mut slow = resource("https://b.test/slow.js", "https://a.test/", 1, [75, 195, 240, 240]);
    slow.connection_use = Some(ConnectionUse::Opened);
    slow.priority = Some("High".into());
    let mut own = resource("https://a.test/own.js", "https://a.test/", 0, [75, 75, 95, 95]);
    own.priority = Some("High".into());
    let mut child =
        resource("https://a.test/x.json", "https://a.test/own.js", 0, [241, 241, 261, 261]);
    child.initiator =
        Some(Initiator { kind: "script".into(), url: Some("https://a.test/own.js".into()) });
    page.resources = vec![slow, own, child];
    page.loaded = Some(Stamp::user(ms(262)));
    assert_eq!(page.check(), Ok(()));
    let model = PageModel::from_navigation(&page).unwrap();
    assert_eq!(model.load(), ms(262));
    assert_eq!(model.predict(&edge("b.test:443", 10)).unwrap().load, ms(142));
    // Once the slow script is no longer slow, the other script's own time counts.
    assert_eq!(model.predict(&edge("b.test:443", 0)).unwrap().load, ms(117));
}

#[test]
fn a_turn_on_a_connection_is_waited_for_until_responses_come_beside_each_other() {
    let mut page = page();
    page.connections[0].protocol = Some("http/1.1".into());
    page.resources = vec![
        resource("https://a.test/1", "https://a.test/", 0, [75, 75, 175, 175]),
        resource("https://a.test/2", "https://a.test/", 0, [75, 175, 275, 275]),
    ];
    page.connections.truncate(1);
    page.loaded = Some(Stamp::user(ms(275)));
    let model = PageModel::from_navigation(&page).unwrap();
    let near = model.predict(&edge("a.test:443", 10)).unwrap();
    assert_eq!(near.load, ms(275 - 30 - 20));
    let http3 = model.predict(&Change::Http3 { authority: None }).unwrap();
    assert_eq!(http3.load, ms(155));
}

/// A page whose times are in order and otherwise random, generated from the seed.
fn drawn(seed: u64) -> Navigation {
    let mut state = seed | 1;
    let mut draw = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below.max(1)).unwrap()
    };
    let mut page = page();
    page.connections.clear();
    page.resources.clear();
    let count = 1 + draw(5);
    for place in 0..count {
        let begun = if place == 0 { 0 } else { draw(200) };
        let connected = begun + draw(100);
        let at = [begun, connected, connected + draw(200)];
        let version = ["TLSv1.2", "TLSv1.3"][draw(2) as usize];
        let protocol = ["h2", "h3", "http/1.1"][draw(3) as usize];
        let authority = format!("{}.test:443", ["a", "b", "c"][draw(3) as usize]);
        let mut made = connection(&authority, version, protocol, at);
        if draw(5) == 0 {
            made.beginning = Some(Beginning::OpenBefore { idle: None });
            made.marks = Marks::default();
        }
        page.connections.push(made);
    }
    let opened = page.connections[0].beginning == Some(Beginning::Opened);
    page.main_use = Some(if opened { ConnectionUse::Opened } else { ConnectionUse::Reused });
    let mut urls = vec!["https://a.test/".to_owned()];
    let mut last = 300;
    for number in 0..draw(25) {
        let host = ["a", "b", "c"][draw(3) as usize];
        let url = format!("https://{host}.test/{number}{}", ["", ".js", ".css"][draw(3) as usize]);
        let by = urls[draw(urls.len() as u64) as usize].clone();
        let asked = 60 + draw(300);
        let sent = asked + draw(100);
        let first = sent + draw(100);
        let end = first + draw(100);
        let place = draw(page.connections.len() as u64) as usize;
        let mut made = resource(&url, &by, place, [asked, sent, first, end]);
        made.priority =
            [None, Some("High".to_owned()), Some("Low".to_owned())][draw(3) as usize].clone();
        made.sizes.transferred_bytes = Some(draw(200_000) as u64);
        made.status = Some([200, 302, 404][draw(3) as usize]);
        if draw(6) == 0 {
            (made.connection, made.connection_use) = (None, None);
        }
        page.resources.push(made);
        urls.push(url);
        last = last.max(end);
    }
    page.loaded = Some(Stamp::user(ms(last - draw(100))));
    page
}

proptest! {
    #[test]
    fn without_a_change_the_page_is_as_it_was(seed: u64) {
        let page = drawn(seed);
        let model = PageModel::from_navigation(&page).unwrap();
        prop_assert_eq!(model.load(), page.loaded.unwrap().at);
        prop_assert_eq!(model.first_byte(), ms(72));
        let none = Alteration::none(&model.graph);
        prop_assert_eq!(replay(&model.graph, &none).load, page.loaded.unwrap().at.as_nanos());
    }

    #[test]
    fn an_edge_as_far_as_the_origin_changes_nothing_and_a_nearer_one_is_never_later(seed: u64) {
        let model = PageModel::from_navigation(&drawn(seed)).unwrap();
        for link in model.graph.connections.iter().filter(|link| link.requests > 0) {
            let Some(round_trip) = link.round_trip else { continue };
            let round_trip = Duration::from_nanos(u64::try_from(round_trip).unwrap());
            let to = |round_trip| {
                let authority = link.authority.clone();
                model.predict(&Change::NearerEdge { authority, round_trip }).unwrap()
            };
            prop_assert_eq!(to(round_trip).load, model.load());
            prop_assert!(to(round_trip / 2).load <= model.load());
            prop_assert!(to(Duration::ZERO).load <= to(round_trip / 2).load);
        }
    }

    #[test]
    fn connections_that_are_open_are_never_later(seed: u64) {
        let model = PageModel::from_navigation(&drawn(seed)).unwrap();
        for change in [Change::Kept, Change::Tls13, Change::Resumed, Change::EarlyData] {
            if let Ok(saving) = model.predict(&change) {
                prop_assert!(saving.load <= model.load(), "{:?}", saving);
                prop_assert!(saving.load_between.0 <= saving.load && saving.load <= saving.load_between.1);
            }
        }
    }
}
