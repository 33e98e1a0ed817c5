//! What `wire diff --project-rtt` says of a server next door, against the same change of the same server far away.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{PROGRAM, Scene, alone, firstbyte, run, text};

const CONNECTIONS: &str = "40";
/// Round trip to the far server, seconds: its links' delays.
const FAR: f64 = 0.080;
/// By how much a projection may be off: this, or that share of the cost.
const OFF_SECONDS: f64 = 0.002;
const OFF_SHARE: f64 = 0.05;

/// The same server next door (0.2 ms of delay) and at 80 ms.
fn scene(server: &str) -> Scene {
    let host = |name: &str, number: u8, delay: &str| {
        format!(
            r#"
[[host]]
name = "{name}"
role = "server"
ipv4 = "198.51.100.{number}"
names = ["{name}.test"]
server = {{ page_bytes = 2000, {server} }}
up = {{ delay = "{delay}" }}
down = {{ delay = "{delay}" }}
"#
        )
    };
    Scene::with_servers(&[host("near", 1, "0.1ms"), host("far", 2, "40ms")].concat())
}

/// A capture of so many connections to each server, all connected to in this way.
fn capture(scene: &Scene, name: &str, way: &str) -> PathBuf {
    let compare = |host: &str| {
        format!(
            "{PROGRAM} compare https://{host}.test/ --interval 0 --warmup 0 -n {CONNECTIONS} \
             --way 'one: http=1.1 {way}'"
        )
    };
    let both = format!("{} && {}", compare("near"), compare("far"));
    let directory = scene.path(name);
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).arg("--capture").arg(&directory).args(["--", "sh", "-c", &both]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
    directory.join("client.pcapng")
}

fn differences(before: &Path, after: &Path) -> Value {
    let mut command = firstbyte(&["wire", "diff", "--json", "--project-rtt", "80ms"]);
    let output = run(command.arg(before).arg(after));
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The entry of a list that is about the server at `host`.
fn of_server<'a>(found: &'a Value, list: &str, host: &str, what: Option<&str>) -> &'a Value {
    let entries = found[list].as_array().unwrap();
    let is = |entry: &&Value| {
        entry["server"].as_str().unwrap().starts_with(host)
            && what.is_none_or(|what| entry["what"] == what)
    };
    entries.iter().find(is).unwrap_or_else(|| panic!("{host}: no {what:?} in {found:#}"))
}

/// What is projected from next door, against what it costs there, far away.
fn assert_near(what: &str, projected: f64, real: f64) {
    println!("  {what}: projected {:.2} ms, is {:.2} ms", 1e3 * projected, 1e3 * real);
    let off = (projected - real).abs();
    assert!(off <= OFF_SECONDS.max(OFF_SHARE * real.abs()), "{what}: {projected} s, is {real} s");
}

fn assert_projected(server: &str, what: &str, [before, after]: [&str; 2], round_trips: f64) {
    let scene = scene(server);
    let before = capture(&scene, "before", before);
    let after = capture(&scene, "after", after);
    let found = differences(&before, &after);
    let near = of_server(&found, "changes", "near", Some(what));
    let far = of_server(&found, "changes", "far", Some(what));
    let trips = near["round_trips"].as_f64().unwrap();
    assert!((trips - round_trips).abs() < 0.1, "{what}: {trips} round trips");
    let captured = near["cost_per_connection_seconds"].as_f64().unwrap();
    assert!(captured.abs() < 0.010, "{what}: {captured} s next door");
    let projected = near["projected"][0]["cost_per_connection_seconds"].as_f64().unwrap();
    assert_near(what, projected, far["cost_per_connection_seconds"].as_f64().unwrap());

    let near = of_server(&found, "totals", "near", None);
    let far = of_server(&found, "totals", "far", None);
    let rtt = near["round_trip_seconds"][0].as_f64().unwrap();
    assert!((0.000_2..0.002).contains(&rtt), "{rtt} s next door");
    let rtt = far["round_trip_seconds"][0].as_f64().unwrap();
    assert!((FAR..FAR + 0.002).contains(&rtt), "{rtt} s far away");
    let there = &near["projected"][0];
    for name in ["before_seconds", "after_seconds", "difference_seconds"] {
        assert_near(name, there[name].as_f64().unwrap(), far[name].as_f64().unwrap());
    }
}

#[test]
fn a_lost_resumption_is_projected() {
    let _alone = alone();
    let ways = ["tls=1.2 session=ticket", "tls=1.2 session=full"];
    assert_projected(r#"kind = "nginx""#, "resumption", ways, 1.0);
}

#[test]
fn a_lost_resumption_with_a_chain_beyond_the_window_is_projected() {
    let _alone = alone();
    let ways = ["tls=1.2 session=ticket", "tls=1.2 session=full"];
    assert_projected(r#"kind = "nginx", chain_bytes = 20000"#, "resumption", ways, 2.0);
}

#[test]
fn another_version_is_projected() {
    let _alone = alone();
    let ways = ["tls=1.2 session=full", "tls=1.3 session=full"];
    assert_projected(r#"kind = "nginx""#, "version", ways, -1.0);
}
