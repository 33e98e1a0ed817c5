//! Lost segments of a response: no byte may be reported before all bytes before it have arrived.

use firstbyte_core::document::SampleRecord;

use crate::support::{Permits, Scene, middle};
use crate::wire::{self, Segment};

/// The kernel's timestamp and the capture's for the same packet are equal within this.
const SAME_NS: u64 = 50_000;

/// Arrival time of each in-order prefix of the server's stream, with its length in bytes, in time order.
fn in_order(segments: &[Segment]) -> Vec<(u64, u64)> {
    let answer = segments.iter().find(|s| s.syn && !s.sent).unwrap();
    let start = answer.sequence.wrapping_add(1);
    let (mut there, mut waiting, mut found) = (0, Vec::new(), Vec::new());
    for segment in segments.iter().filter(|s| !s.sent && s.bytes > 0) {
        let first = u64::from(segment.sequence.wrapping_sub(start));
        waiting.push((first, first + segment.bytes as u64));
        waiting.sort_unstable();
        let before = there;
        for (first, end) in &waiting {
            if *first <= there {
                there = there.max(*end);
            }
        }
        if there > before {
            found.push((segment.at_ns, there));
        }
    }
    found
}

fn has_hole(segments: &[Segment]) -> bool {
    let mut received = segments.iter().filter(|s| !s.sent && s.bytes > 0).map(|s| s.sequence);
    let mut last = received.next().unwrap();
    received.any(|next| next.wrapping_sub(std::mem::replace(&mut last, next)) > 1 << 31)
}

/// How much later than in the capture the last byte is; no chunk may be earlier.
fn check(sample: &SampleRecord, segments: &[Segment]) -> u64 {
    let connection = &sample.connection;
    let origin = connection.started_unix_ns.unwrap();
    let there = in_order(segments);
    let mut bytes = 0;
    for chunk in
        connection.flights.iter().filter(|f| f.direction == "received").flat_map(|f| &f.chunks)
    {
        bytes += chunk.bytes;
        // The capture may have stopped before the end of the connection.
        let Some((at, _)) = there.iter().find(|(_, end)| *end >= bytes) else { continue };
        let said = origin.checked_add_signed(chunk.at_ns).unwrap();
        assert!(said + SAME_NS >= *at, "{bytes} bytes: {said}, truly {at}: {connection:?}");
    }
    let end = origin.checked_add_signed(connection.marks["response_end"].at_ns).unwrap();
    let (truth, _) = *there.iter().find(|(_, end)| *end >= bytes).unwrap();
    end.saturating_sub(truth)
}

#[test]
fn the_last_byte_is_not_there_before_a_hole_is_filled() {
    let _permits = Permits::all();
    let scene = Scene::with_servers(
        r#"
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["server.test"]
server = { page_bytes = 35000, chain_bytes = 9000 }
up = { delay = "10ms", loss = "6%" }
down = { delay = "10ms" }
"#,
    );
    for url in ["http://server.test/", "https://server.test/"] {
        let samples = scene.measure(&[], &["-n", "30", "--warmup", "0", "-4", url]);
        let connections = wire::connections(&scene.captures().join("client.pcapng"));
        assert_eq!(connections.len(), samples.len());
        let late: Vec<u64> =
            samples.iter().zip(&connections).map(|(s, segments)| check(s, segments)).collect();
        let holes = connections.iter().filter(|segments| has_hole(segments)).count();
        assert!(holes >= 10, "{url}: {holes} of {} with a hole", connections.len());
        // If the kernel's timestamp is lost, the process's own reading is later, because the process had to wake up.
        let median = middle(late.clone());
        assert!(median.as_micros() < 1_000, "{url}: {late:?}");
    }
}
