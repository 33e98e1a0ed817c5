//! The marks of a connection's opening, compared with a capture of every connection.

use firstbyte_core::document::SampleRecord;

use crate::support::{LINKS, PROGRAM, Permits, Scene, firstbyte, middle, run, samples, text};
use crate::wire::{self, Segment};

/// The kernel timestamps a packet once; wall-clock and monotonic time are mapped onto each other within this.
const SAME_NS: u64 = 20_000;

fn at(sample: &SampleRecord, mark: &str) -> u64 {
    let connection = &sample.connection;
    connection.started_unix_ns.unwrap().checked_add_signed(connection.marks[mark].at_ns).unwrap()
}

fn clock<'a>(sample: &'a SampleRecord, mark: &str) -> &'a str {
    &sample.connection.marks[mark].clock
}

fn syn(segments: &[Segment], sent: bool) -> u64 {
    segments.iter().find(|s| s.syn && s.sent == sent).unwrap().at_ns
}

#[test]
fn the_kernel_says_when_the_syn_left_and_its_answer_came() {
    let _permits = Permits::all();
    let scene = Scene::new(LINKS);
    for family in ["-4", "-6"] {
        let probe = [family, "-n", "5", "--warmup", "0", "http://server.test/"];
        let samples = scene.measure(&[], &probe);
        let connections = wire::connections(&scene.captures().join("client.pcapng"));
        assert_eq!(connections.len(), samples.len());
        for (sample, segments) in samples.iter().zip(&connections) {
            let (departed, arrived) = (syn(segments, true), syn(segments, false));
            assert!(at(sample, "connect_start").abs_diff(departed) < SAME_NS, "{segments:?}");
            assert!(at(sample, "tcp_connected").abs_diff(arrived) < SAME_NS, "{segments:?}");
            assert_eq!(clock(sample, "connect_start"), "kernel");
            assert_eq!(clock(sample, "tcp_connected"), "kernel");
            let tcp = sample.connection.tcp.as_ref().unwrap();
            assert_eq!(tcp.syn_rtt_ns, Some(arrived - departed));
            assert_eq!(tcp.syn_departure_uncertainty_ns, None);
        }
    }
}

/// An ordinary user gets the bracket around `connect`, and the kernel's round-trip time.
#[test]
fn without_the_right_to_see_packets_the_opening_is_derived() {
    let _permits = Permits::all();
    let scene = Scene::new(LINKS);
    let mut command = firstbyte(&["lab", "run"]);
    command.arg(scene.file()).arg("--capture").arg(scene.captures());
    command.args(["--", "setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw", PROGRAM]);
    command.args(["--json", "-4", "-n", "9", "--warmup", "0", "http://server.test/"]);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let connections = wire::connections(&scene.captures().join("client.pcapng"));
    let samples = samples(&output.stdout);
    assert_eq!(connections.len(), samples.len());
    let mut errors = Vec::new();
    for (sample, segments) in samples.iter().zip(&connections) {
        assert_eq!(clock(sample, "connect_start"), "user");
        assert_eq!(clock(sample, "tcp_connected"), "kernel-derived");
        let tcp = sample.connection.tcp.as_ref().unwrap();
        assert!(tcp.syn_departure_uncertainty_ns.is_some_and(|ns| ns > 0), "{tcp:?}");
        errors.push(at(sample, "tcp_connected").abs_diff(syn(segments, false)));
    }
    assert!(middle(errors.clone()).as_micros() < 100, "{errors:?}");
}

/// nginx sends its settings in a separate segment, right after its Finished.
#[test]
fn settings_that_follow_the_finished_do_not_end_the_handshake() {
    let _permits = Permits::all();
    let scene = Scene::new(LINKS);
    let probe = ["-4", "-n", "15", "--warmup", "0", "--tls-max", "1.2", "https://server.test/"];
    let samples = scene.measure(&["--server", "nginx"], &probe);
    let connections = wire::connections(&scene.captures().join("client.pcapng"));
    assert_eq!(connections.len(), samples.len());
    let mut errors = Vec::new();
    let mut followed = 0;
    for (sample, segments) in samples.iter().zip(&connections) {
        let finished = wire::runs(segments)[3];
        assert!(!finished.sent, "{segments:?}");
        // A fast client sends its request between the two segments.
        followed += usize::from(finished.segments == 2);
        errors.push(at(sample, "handshake_complete").abs_diff(finished.first_ns));
    }
    assert!(followed > samples.len() / 2, "{followed} of {}", samples.len());
    assert!(middle(errors.clone()).as_micros() < 30, "{errors:?}");
}
