use std::path::Path;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;

use super::fixtures::{chromium, firefox, har};
use super::*;
use crate::timeline::{Clock, Mark, Marks};

fn written(page: &Navigation) -> Vec<u8> {
    let mut out = Vec::new();
    navigation_line(page, &mut out).unwrap();
    out
}

/// With FIRSTBYTE_FIXTURES=write in the environment, this test rewrites the fixtures.
#[test]
fn the_fixtures_are_what_is_written_and_read() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/navigation");
    for (name, page) in [("chromium", chromium()), ("firefox", firefox()), ("har", har())] {
        assert_eq!(page.check(), Ok(()), "{name}");
        let text = written(&page);
        let path = directory.join(format!("{name}.ndjson"));
        if std::env::var_os("FIRSTBYTE_FIXTURES").is_some_and(|how| how == "write") {
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read(&path).unwrap();
        assert_eq!(String::from_utf8(stored).unwrap(), String::from_utf8(text).unwrap(), "{name}");
        assert_eq!(navigation(&std::fs::read(&path).unwrap()).unwrap(), page, "{name}");
        // Within a run facts are stored once.
        let mut interner = Interner::default();
        let shared = StoredNavigation::from_navigation(&page, &mut interner);
        let mut facts = FactTable::default();
        interner.fresh().iter().for_each(|line| facts.take(line.as_bytes()).unwrap());
        assert_eq!(shared.clone().navigation(&facts).unwrap(), page, "{name}");
        let missing = shared.navigation(&FactTable::default());
        assert!(matches!(missing, Err(NavigationError::Missing(_))), "{name}");
    }
}

#[test]
fn every_field_is_described() {
    fn names(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                for (name, value) in members {
                    found.push(name.clone());
                    // The document is a sample, described there.
                    if !["main", "marks", "tls", "failure"].contains(&name.as_str()) {
                        names(value, found);
                    }
                }
            }
            serde_json::Value::Array(list) => list.iter().for_each(|value| names(value, found)),
            _ => {}
        }
    }
    let formats = include_str!("../../../../../docs/formats.md");
    let from = formats.find("## Page loads").unwrap();
    let section = &formats[from..];
    let section = &section[..section.find("\n## ").unwrap()];
    let mut found = Vec::new();
    for page in [chromium(), firefox(), har()] {
        let stored = StoredNavigation::from_navigation(&page, &mut Interner::default());
        names(&serde_json::to_value(stored).unwrap(), &mut found);
    }
    for name in found {
        assert!(section.contains(&format!("`{name}`")), "{name} is not described");
    }
    for name in ConnectionUse::ALL.map(ConnectionUse::name) {
        assert!(section.contains(&format!("`{name}`")), "{name} is not described");
    }
    for name in DeliveredFrom::ALL.map(DeliveredFrom::name) {
        assert!(section.contains(&format!("`{name}`")), "{name} is not described");
    }
}

#[test]
fn a_contradiction_is_refused_and_named() {
    type Spoil = fn(&mut Navigation);
    let cases: [(Spoil, NavigationFlaw); 12] = [
        (|n| n.main_connection = Some(9), NavigationFlaw::NoMainConnection { connection: 9 }),
        (|n| n.main_connection = None, NavigationFlaw::MainUseOfNone),
        (
            |n| n.resources[0].connection = Some(5),
            NavigationFlaw::NoSuchConnection { resource: 0, connection: 5 },
        ),
        (
            |n| n.connections[0].race = Some(Race { against: 0, won: true }),
            NavigationFlaw::NoSuchRival { connection: 0 },
        ),
        (
            |n| n.connections[1].race = Some(Race { against: 0, won: true }),
            NavigationFlaw::BothWon { connection: 0 },
        ),
        (
            |n| n.resources[0].connection_use = Some(ConnectionUse::Opened),
            NavigationFlaw::OpenedTwice { connection: 0 },
        ),
        (
            |n| n.resources[2].connection_use = Some(ConnectionUse::Opened),
            NavigationFlaw::OpenedTwice { connection: 3 },
        ),
        (|n| n.resources[0].connection = None, NavigationFlaw::UseOfNone { resource: 0 }),
        (
            |n| n.resources[1].delivered_from = Some(DeliveredFrom::MemoryCache),
            NavigationFlaw::CachedOverConnection { resource: 1 },
        ),
        (
            |n| n.connections[3].marks = n.connections[0].marks,
            NavigationFlaw::ForeignMark { connection: 3, mark: Mark::DomainLookupStart },
        ),
        (|n| n.resources[0].asked = n.loaded, NavigationFlaw::ResourceDisorder { resource: 0 }),
        (
            |n| n.connections[0].marks.set(Mark::TcpConnected, n.loaded.unwrap()),
            NavigationFlaw::ConnectionDisorder { connection: 0 },
        ),
    ];
    for (spoil, expected) in cases {
        let mut page = chromium();
        spoil(&mut page);
        assert_eq!(page.check(), Err(expected));
        match navigation(&written(&page)) {
            Err(NavigationError::Flaw(found)) => assert_eq!(found, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
    let mut page = chromium();
    page.resources[0].marks.set(Mark::ConnectStart, page.loaded.unwrap());
    let flaw = NavigationFlaw::SetUpMark { resource: 0, mark: Mark::ConnectStart };
    assert_eq!(page.check(), Err(flaw));
    let mut page = chromium();
    page.connections[0].marks = Marks::default();
    page.connections[0].marks.set(Mark::ConnectStart, page.loaded.unwrap());
    assert_eq!(page.check(), Err(NavigationFlaw::BeforeItsConnection { resource: 0 }));
}

#[test]
fn what_is_of_a_later_version_is_said() {
    let line = String::from_utf8(written(&firefox())).unwrap();
    for (from, to, expected) in [
        (
            r#""version":1"#,
            r#""version":2"#,
            "version 2 of the format is newer than this firstbyte reads",
        ),
        ("firstbyte/navigation", "firstbyte/sample", r#""firstbyte/sample" is not a page load"#),
        (
            r#""delivered_from":"cache""#,
            r#""delivered_from":"moon""#,
            "unknown origin of a response \"moon\"",
        ),
        ("r1000000", "z", "unknown clock \"z\""),
    ] {
        assert!(line.contains(from), "{from}");
        let said = navigation(line.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

fn any_stamps(n: usize) -> impl Strategy<Value = Vec<Stamp>> {
    let clock = prop_oneof![
        Just(Clock::User),
        any::<u32>().prop_map(|resolution_ns| Clock::Reported { resolution_ns }),
    ];
    vec((0i64..9_000_000_000, clock), n).prop_map(|mut times| {
        times.sort_unstable_by_key(|(at, _)| *at);
        let stamp = |(at, clock)| Stamp { at: Offset::from_nanos(at), clock };
        times.into_iter().map(stamp).collect()
    })
}

fn any_page_connection() -> impl Strategy<Value = PageConnection> {
    (any_stamps(3), of("[a-z0-9]{0,4}"), any::<Option<u64>>(), any::<bool>()).prop_map(
        |(stamps, client_id, idle, open)| {
            let mut marks = Marks::default();
            let begun = [Mark::ConnectStart, Mark::TcpConnected, Mark::HandshakeComplete];
            for (mark, stamp) in begun.into_iter().zip(stamps.clone()).filter(|_| !open) {
                marks.set(mark, stamp);
            }
            let idle = idle.map(Duration::from_nanos);
            let beginning = if open { Beginning::OpenBefore { idle } } else { Beginning::Opened };
            let authority = "a.test:443".into();
            let beginning = Some(beginning);
            let (first_answer, given_up) = match open {
                true => (None, None),
                false => (Some(stamps[2]), Some(stamps[2])),
            };
            PageConnection {
                authority,
                client_id,
                beginning,
                marks,
                first_answer,
                given_up,
                ..PageConnection::default()
            }
        },
    )
}

fn any_resource() -> impl Strategy<Value = (Resource, Option<prop::sample::Index>)> {
    let used = of(any::<prop::sample::Index>());
    let sizes = any::<[Option<u64>; 3]>();
    (any_stamps(5), used, sizes, any::<Option<u16>>(), ".{0,6}").prop_map(
        |(stamps, used, [a, b, c], status, url)| {
            let mut marks = Marks::default();
            for (mark, stamp) in [
                (Mark::RequestStart, stamps[1]),
                (Mark::ResponseStart, stamps[3]),
                (Mark::ResponseEnd, stamps[4]),
            ] {
                marks.set(mark, stamp);
            }
            let resource = Resource {
                url,
                status,
                asked: Some(stamps[0]),
                marks,
                interim: status.map(|_| stamps[2]),
                sizes: ResourceSizes { transferred_bytes: a, body_bytes: b, decoded_bytes: c },
                ..Resource::default()
            };
            (resource, used)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A valid page load is read as it was written; an invalid one is refused.
    #[test]
    fn what_is_written_is_read(
        connections in vec(any_page_connection(), 0..4),
        resources in vec(any_resource(), 0..6),
        main_at in 0i64..1_000_000_000,
    ) {
        let number = connections.len();
        let place = |(mut resource, used): (Resource, Option<prop::sample::Index>)| {
            resource.connection = used.filter(|_| number > 0).map(|used| used.index(number));
            resource.connection_use = resource.connection.map(|_| ConnectionUse::Reused);
            resource
        };
        let page = Navigation {
            main_at: Offset::from_nanos(main_at),
            resources: resources.into_iter().map(place).collect(),
            connections,
            ..firefox()
        };
        match (page.check(), navigation(&written(&page))) {
            (Ok(()), Ok(read)) => prop_assert_eq!(read, page),
            (Err(flaw), Err(NavigationError::Flaw(found))) => prop_assert_eq!(found, flaw),
            (check, read) => prop_assert!(false, "{:?}, {:?}", check, read),
        }
    }

    #[test]
    fn no_line_is_too_strange_to_be_refused(line in ".{0,80}", cut in 0usize..4_000) {
        let _ = navigation(line.as_bytes());
        let text = written(&chromium());
        let _ = navigation(&text[..cut.min(text.len())]);
    }
}
