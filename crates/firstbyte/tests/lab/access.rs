//! Access networks: the measured round trip is the one in the profile's table.

use std::time::Duration;

use firstbyte_core::access::{ACCESS_PROFILES, AccessProfile};

use crate::support::{LINKS, Permits, RTT_V4, Scene, phase};

/// Extra time for the lab's hosts, and for a busy machine.
const SLACK: Duration = Duration::from_millis(3);
const SAMPLES: &str = "15";

fn connects(scene: &Scene, profile: &AccessProfile) -> Vec<Duration> {
    let probe = ["-4", "-n", SAMPLES, "-m", "20", "http://server.test/"];
    let samples = scene.measure(&["--server", "builtin", "--access", profile.name], &probe);
    let connect = |sample| phase(sample, "connect").map(|phase| phase.duration_ns);
    samples.iter().filter_map(connect).map(Duration::from_nanos).collect()
}

fn holds(name: &str) {
    let profile = AccessProfile::named(name).unwrap();
    let scene = Scene::new(LINKS);
    let mut times = connects(&scene, profile);
    let most = profile.up_jitter + profile.down_jitter;
    let least = RTT_V4 + profile.delay_each_way() * 2;
    // A lost SYN is sent again a second later. That time is due to the loss, not to the round trip.
    let all = times.len();
    times.retain(|time| *time < least + most + Duration::from_millis(500));
    assert!(times.len() * 10 >= all * 7 && all >= 12, "{} of {all}", times.len());
    times.sort_unstable();
    assert!(times[0] >= least, "{name}: {:?} below {least:?}", times[0]);
    // Jitter is symmetric about the average, so the median is near it: the tolerance is at most three standard errors
    // of the median of two uniform distributions.
    let expected = RTT_V4 + profile.round_trip;
    let middle = times[times.len() / 2];
    let chance = most.mul_f64(3.0 * 1.25 * 0.24 / (times.len() as f64).sqrt());
    let slack = SLACK.max(expected / 20);
    assert!(middle.abs_diff(expected) < chance + slack, "{name}: {middle:?} for {expected:?}");
    // Most are within the jitter; a busy machine delays some.
    let late = times.iter().filter(|time| **time > least + most + slack).count();
    assert!(late * 3 <= times.len(), "{name}: {late} of {} late", times.len());
}

macro_rules! round_trips_are_as_published {
    ($($test:ident: $name:literal;)*) => {$(
        #[test]
        fn $test() {
            let _permits = Permits::one();
            holds($name);
        }
    )*};
}

round_trips_are_as_published! {
    over_fibre: "fibre";
    over_cable: "cable";
    over_4g: "4g";
    over_3g: "3g";
    over_satellites_near_earth: "satellite-leo";
    over_satellites_in_geostationary_orbit: "satellite-geo";
}

/// A response of 60 kB takes as long as the access network's rate implies.
#[test]
fn the_lowest_rate_holds() {
    let _permits = Permits::one();
    let scene = Scene::with_servers(
        r#"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["server.test"]
server = { page_bytes = 60000 }
up = { delay = "10ms", rate = "100mbit" }
down = { delay = "10ms" }
"#,
    );
    let profile = AccessProfile::named("3g").unwrap();
    let probe = ["-4", "-n", "7", "-m", "20", "http://server.test/"];
    let samples = scene.measure(&["--server", "builtin", "--access", "3g"], &probe);
    let receives = samples.iter().filter_map(|sample| phase(sample, "receive"));
    let fastest = receives.map(|phase| Duration::from_nanos(phase.duration_ns)).min().unwrap();
    // The link delays all but the first window; jitter may have held the first byte back.
    let bits = 60_000.0 * 8.0 / profile.down_bits_per_second as f64;
    assert!(fastest > Duration::from_secs_f64(bits * 0.6), "{fastest:?} for {bits} s");
}

#[test]
fn an_access_network_that_is_not_known_is_named_with_those_that_are() {
    let scene = Scene::new(LINKS);
    let file = scene.file();
    let output = std::process::Command::new(crate::support::PROGRAM)
        .args(["lab", "run", file.to_str().unwrap(), "--access", "5g", "--", "true"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for profile in &ACCESS_PROFILES {
        assert!(text.contains(profile.name), "{text}");
    }
}
