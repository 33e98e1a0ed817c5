//! A monitor whose store was damaged while it did not run.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

use crate::support::echo::{Echo, response};
use crate::support::files::Directory;
use crate::support::run::firstbyte;

/// The damaged file is moved aside, and a later outage is recorded in the new one.
#[test]
fn events_after_a_damaged_store_are_in_the_new_one() {
    let answered = Arc::new(AtomicUsize::new(0));
    let fails_from = Arc::new(AtomicUsize::new(usize::MAX));
    let server = {
        let (answered, fails_from) = (Arc::clone(&answered), Arc::clone(&fails_from));
        Echo::start(move |_| {
            let number = answered.fetch_add(1, Ordering::SeqCst);
            match number < fails_from.load(Ordering::SeqCst) {
                true => response("200 OK", "", b"ok"),
                false => response("503 Service Unavailable", "", b""),
            }
        })
    };
    let directory = Directory::new();
    let url = format!("http://127.0.0.1:{}/", server.peer.port());
    directory.write(
        "monitor.toml",
        format!("[[target]]\nname = \"shop\"\nurl = \"{url}\"\nevery = \"1s\"\n"),
    );
    let watch = |time: &str| {
        let words = ["monitor", "--config", "monitor.toml", "--store", "store", "--silent"];
        let outcome = firstbyte(directory.path(), &[&words[..], &["--for", time]].concat());
        assert_eq!(outcome.code, 0, "{outcome:?}");
        outcome
    };
    watch("3s");
    let store = directory.path().join("store");
    fs::write(store.join("store.sqlite"), "damaged\n".repeat(2_000)).unwrap();
    fails_from.store(answered.load(Ordering::SeqCst) + 3, Ordering::SeqCst);
    let outcome = watch("10s");
    let moved = fs::read_dir(&store).unwrap().filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_string_lossy().starts_with("store.sqlite.corrupt-")
    });
    assert_eq!(moved.count(), 1, "{outcome:?}");
    let words = ["monitor", "events", "--store", "store", "--format", "ndjson"];
    let listed = firstbyte(directory.path(), &words);
    let events: Vec<Value> =
        listed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [event] = events.as_slice() else { panic!("{events:#?}\n{outcome:?}") };
    assert_eq!(event["kind"], "outage", "{event}");
    assert_eq!(event["state"], "began", "{event}");
    assert_eq!(event["failure"], "http.error", "{event}");
    assert_eq!(event["scope"]["targets"], serde_json::json!(["shop"]), "{event}");
}
