//! A dead first name server costs as much as it costs programs that use the C library.

use std::time::Duration;

use firstbyte_core::document::SampleRecord;

use crate::support::{LINKS, PROGRAM, Permits, Scene, firstbyte, phase, run, samples, text};

/// A resolver that loses every IPv4 packet; its IPv4 address is the first in `resolv.conf`.
const RESOLVER: &str = r#"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
ipv6 = "2001:db8:0:1::10"
[[host]]
name = "resolver"
role = "resolver"
ipv4 = "192.0.2.53"
ipv6 = "2001:db8:0:1::53"
up = { delay = "1ms", ipv4 = { loss = "100%" } }
down = { delay = "1ms", ipv4 = { loss = "100%" } }
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
ipv6 = "2001:db8:0:2::1"
names = ["server.test"]
"#;

fn resolve_time(sample: &SampleRecord) -> Duration {
    Duration::from_nanos(phase(sample, "resolve").unwrap().duration_ns)
}

#[test]
fn a_dead_name_server_costs_what_it_costs_programs() {
    let _permits = Permits::one();
    let scene = Scene::with_hosts(&format!("{RESOLVER}{LINKS}\n"));
    let visit = format!("{PROGRAM} --json -m 20 https://server.test/");
    let script = format!("{visit}\n{visit} --resolver system\n");
    let mut command = firstbyte(&["lab", "run"]);
    let output = run(command.arg(scene.file()).args(["--", "sh", "-ec", &script]));
    assert!(output.status.success(), "{}{}", text(&output.stderr), text(&output.stdout));
    let samples = samples(&output.stdout);
    let [ours, the_systems] = &samples[..] else { panic!("{samples:?}") };
    let (took, expected) = (resolve_time(ours), resolve_time(the_systems));
    assert!(took.abs_diff(expected) * 20 < expected, "{took:?}, not {expected:?}");
    for lookup in &ours.connection.lookups {
        let servers: Vec<&str> = lookup.tries.iter().map(|one| one.server.as_str()).collect();
        assert_eq!(servers, ["192.0.2.53:53", "[2001:db8:0:1::53]:53"]);
        assert_eq!(lookup.tries[0].error.as_deref(), Some("no answer"));
    }
}
