//! Access logs of web servers: reading in one piece and in many gives the same requests; every line is counted once;
//! memory and time have limits.

#![no_main]

use firstbyte_fuzz::bounds::Bounds;
use firstbyte_sources::server_log::{
    LogDimension, LogLineError, LoggedRequest, ServerLogReader, ServerLogSummary, begins_server_log,
};
use libfuzzer_sys::fuzz_target;

type Line = (u64, Result<LoggedRequest, LogLineError>);

fn read(data: &[u8], step: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut reader = ServerLogReader::default();
    for piece in data.chunks(step.max(1)) {
        reader.feed(piece, |number, line| lines.push((number, line)));
    }
    reader.finish(|number, line| lines.push((number, line)));
    lines
}

fuzz_target!(|data: &[u8]| {
    let Some((step, data)) = data.split_first() else { return };
    let bounds = Bounds::begin();
    let whole = read(data, data.len());
    assert_eq!(whole, read(data, usize::from(*step) + 1));
    let mut summary = ServerLogSummary::telling_apart(LogDimension::ALL.to_vec());
    let mut requests = 0;
    for pair in whole.windows(2) {
        assert!(pair[0].0 < pair[1].0);
    }
    for (_, line) in &whole {
        let Ok(request) = line else { continue };
        requests += 1;
        // Credentials may follow the question mark.
        assert!(request.path.as_ref().is_none_or(|path| !path.contains('?')));
        if let Some(time) = request.request_time {
            assert!(time.at_least() <= time.value && time.value <= time.at_most());
        }
        summary.add(request);
    }
    let groups = summary.groups();
    assert_eq!(groups.iter().map(|(_, group)| group.requests).sum::<u64>(), requests);
    let _ = (summary.paths(), begins_server_log(data));
    bounds.hold(data.len(), 16 << 20);
});
