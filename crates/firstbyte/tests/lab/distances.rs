//! Compares `wire diff --project-rtt` for a nearby server with the same change of the same server far away.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{PROGRAM, Permits, Scene, firstbyte, run, text};

const CONNECTIONS: &str = "40";
/// Round trip to the far server in seconds: the delay of its links.
const FAR: f64 = 0.080;
/// Tolerance of a projection, as a share of the cost. One round trip too many or too few is at least half of the cost.
const OFF_SHARE: f64 = 0.1;

/// The same server at two distances: 0.2 ms and 80 ms of delay.
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

/// Captures connections to each server, all made in the same way.
fn capture(scene: &Scene, name: &str, way: &str) -> PathBuf {
    let compare = |host: &str| {
        format!(
            "{PROGRAM} compare https://{host}.test/ --interval 0 --warmup 0 -n {CONNECTIONS} \
             --variant 'one: http=1.1 {way}'"
        )
    };
    let both = format!("{} && {}", compare("near"), compare("far"));
    let directory = scene.path(name);
    let mut command = firstbyte(&["lab", "run"]);
    // Run files are written to the current directory.
    command.current_dir(scene.path("."));
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

/// The entry in a list for the server at `host`.
fn of_server<'a>(found: &'a Value, list: &str, host: &str, what: Option<&str>) -> &'a Value {
    let entries = found[list].as_array().unwrap();
    let is = |entry: &&Value| {
        entry["server"].as_str().unwrap().starts_with(host)
            && what.is_none_or(|what| entry["what"] == what)
    };
    entries.iter().find(is).unwrap_or_else(|| panic!("{host}: no {what:?} in {found:#}"))
}

/// Mean time of both hosts, server and client, in the handshakes with `host`, in seconds. Outliers are left out, as for
/// costs: on a busy machine a host may sleep for 80 ms.
fn hosts(capture: &Path, host: &str) -> f64 {
    let output = run(firstbyte(&["wire", "--json", "--server"]).arg(host).arg(capture));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = text(&output.stdout);
    let took = rows.lines().map(|line| {
        let connection: Value = serde_json::from_str(line).unwrap();
        let time = &connection["handshake_time"];
        ["server_ns", "client_ns"].map(|part| time[part].as_u64().unwrap()).iter().sum::<u64>()
    });
    let mut took: Vec<u64> = took.collect();
    took.sort_unstable();
    let [low, high] = [5, 95].map(|percent| took[(took.len() - 1) * percent / 100]);
    let sum: u64 = took.iter().map(|ns| ns.clamp(&low, &high)).sum();
    sum as f64 / took.len() as f64 / 1e9
}

fn assert_projected(server: &str, round_trips: f64) {
    let scene = scene(server);
    let before = capture(&scene, "before", "tls=1.2 session=ticket");
    let after = capture(&scene, "after", "tls=1.2 session=full");
    let found = differences(&before, &after);
    let near = of_server(&found, "changes", "near", Some("resumption"));
    let far = of_server(&found, "changes", "far", Some("resumption"));
    let trips = near["round_trips"].as_f64().unwrap();
    assert!((trips - round_trips).abs() < 0.1, "{trips} round trips");

    // The projection assumes that hosts need as long far away as nearby. The test corrects for how far this machine
    // deviates from that.
    let change = |host| hosts(&after, host) - hosts(&before, host);
    let later = change("far.test") - change("near.test");
    let projected = near["projected"][0]["cost_per_connection_seconds"].as_f64().unwrap();
    let real = far["cost_per_connection_seconds"].as_f64().unwrap();
    println!(
        "  projected {:.2} ms, is {:.2} ms, hosts are later by {:.2} ms",
        1e3 * projected,
        1e3 * real,
        1e3 * later
    );
    let off = (projected + later - real).abs();
    assert!(off <= OFF_SHARE * real, "{projected} s, is {real} s, {later} s");
    // Nearby the same change costs little, whatever the hosts' own time.
    let captured = near["cost_per_connection_seconds"].as_f64().unwrap();
    assert!(captured < real / 2.0, "{captured} s next door, {real} s far away");

    let rtt = |host: &str| {
        of_server(&found, "totals", host, None)["round_trip_seconds"][0].as_f64().unwrap()
    };
    let (near, far) = (rtt("near"), rtt("far"));
    assert!((0.000_2..FAR / 4.0).contains(&near), "{near} s next door");
    assert!((FAR..FAR * 1.25).contains(&far), "{far} s far away");
}

#[test]
fn a_lost_resumption_is_projected() {
    let _permits = Permits::one();
    assert_projected(r#"kind = "nginx""#, 1.0);
}

#[test]
fn a_lost_resumption_with_a_chain_beyond_the_window_is_projected() {
    let _permits = Permits::one();
    assert_projected(r#"kind = "nginx", chain_bytes = 20000"#, 2.0);
}
