//! Records samples as fast as a recorder accepts them, for benchmarks.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;
use firstbyte_monitor::store::Retention;

use super::{RawLimits, RecordedSeries, Recorder, RecorderSettings, observed};
use crate::webhooks::Notices;

const DAY: Duration = Duration::from_secs(86_400);
/// Pause between checks whether there is room again.
const PAUSE: Duration = Duration::from_millis(1);

/// Records `samples` of the header's cells below `directory`, waits until they are written, and returns the number
/// lost.
///
/// # Errors
/// A description of the problem, in other words than users get.
pub fn record_samples(
    directory: &Path,
    header: RunHeader,
    samples: impl IntoIterator<Item = Taken>,
) -> Result<u64, String> {
    let cells = header.cells.len();
    let recorded = RecordedSeries {
        header: Arc::new(header),
        periods: vec![Duration::from_secs(60); cells],
        budgets: vec![Vec::new(); cells],
        raw_limits: RawLimits { age: 30 * DAY, bytes: u64::MAX },
        retention: Retention::default(),
    };
    let settings = RecorderSettings {
        raw: directory.join("raw"),
        store: directory.join("store.sqlite"),
        recorded,
        tell: Arc::new(|_| {}),
        tell_event: Arc::new(|_, _| {}),
        observed: observed(Vec::new(), 0).1,
        notices: Notices::default(),
    };
    let recorder = Recorder::start(settings).map_err(|error| format!("{error:?}"))?;
    for sample in samples {
        while !recorder.has_room() {
            std::thread::sleep(PAUSE);
        }
        recorder.keep(sample);
    }
    Ok(recorder.finish().lost)
}
