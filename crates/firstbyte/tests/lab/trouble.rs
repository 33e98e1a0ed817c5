//! Lossy links: losses are in the record, and their cost is in the right part.

use std::time::Duration;

use crate::support::{LINKS, Permits, SERVER_V4, Scene, assert_within, fastest, phase, sum};

const HTTPS: &str = "https://server.test/";
const MS: Duration = Duration::from_millis(1);

#[test]
fn ipv6_that_loses_everything_costs_the_attempt_delay() {
    let _permits = Permits::one();
    let scene = Scene::new(
        r#"up = { delay = "10ms" }
down = { delay = "10ms", ipv6 = { loss = "100%" } }"#,
    );
    let samples = scene.measure(&[], &["-n", "5", "--connect-timeout", "5", HTTPS]);
    let later = fastest(&samples, |sample| {
        let attempts = &sample.connection.attempts;
        let [lost, won] = &attempts[..] else { panic!("{attempts:?}") };
        assert!(lost.remote.starts_with('[') && won.remote.starts_with(SERVER_V4));
        assert_eq!([lost.outcome.as_str(), &won.outcome], ["lost", "won"]);
        (won.start_ns - lost.start_ns) as u64
    });
    assert_within(later, 250 * MS, 20 * MS, "start of the second attempt");

    let fallback = fastest(&samples, |sample| {
        let connect = phase(sample, "connect").unwrap();
        assert_eq!(connect.round_trips, 1);
        assert_eq!(sum(&connect.parts), connect.duration_ns);
        assert_eq!(sample.connection.http.as_ref().unwrap().status, Some(200));
        connect.parts.fallback_ns
    });
    assert_within(fallback, 249 * MS, 21 * MS, "fallback");
}

#[test]
fn a_lost_syn_is_variation() {
    let _permits = Permits::one();
    let scene = Scene::new(
        r#"up = { delay = "10ms" }
down = { delay = "10ms", drop_syn = 1 }"#,
    );
    let resolve = format!("server.test:443:{SERVER_V4}");
    let samples = scene.measure(&[], &["-n", "3", "--resolve", &resolve, HTTPS]);
    // The kernel retransmits a SYN after one second (RFC 6298 §2).
    let variation = fastest(&samples, |sample| {
        assert!(sample.connection.tcp.as_ref().unwrap().retransmits.unwrap() >= 1);
        assert_eq!(sum(&sample.connection.split.parts), sample.connection.total_ns);
        phase(sample, "connect").unwrap().parts.variation_ns
    });
    assert_within(variation, 990 * MS, 80 * MS, "variation");
    let undisturbed = samples.iter().min_by_key(|sample| sample.connection.total_ns).unwrap();
    assert_eq!(phase(undisturbed, "connect").unwrap().round_trips, 1);
    assert_eq!(undisturbed.connection.split.round_trips, 3);
}

#[test]
fn a_server_that_is_not_there_is_the_networks_fault() {
    let _permits = Permits::one();
    let scene = Scene::new(LINKS);
    let output = crate::support::run(
        crate::support::firstbyte(&["lab", "run"])
            .arg(scene.file())
            .args(["--", crate::support::PROGRAM, "--json", "--connect-timeout", "0.3"])
            .arg("https://198.51.100.77/"),
    );
    assert_eq!(output.status.code(), Some(28), "{output:?}");
    let [sample] = &crate::support::samples(&output.stdout)[..] else { panic!("{output:?}") };
    let failure = sample.connection.failure.as_ref().unwrap();
    assert_eq!((failure.phase.as_str(), failure.fault.as_str()), ("connect", "network"));
    assert_eq!(sum(&sample.connection.split.parts), sample.connection.total_ns);
}
