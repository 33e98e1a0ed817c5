//! How many samples a second the recorder takes, writes, syncs and sums up, when nothing else runs.

use firstbyte::record_samples;
use firstbyte::runs::environment;
use firstbyte_clock::{Monotonic, Realtime};
use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::run::{Cell, Factor};
use serde_json::json;

use crate::options::Options;
use crate::synthetic::Drawn;
use crate::{barred, figure};

const SERIES: u16 = 2_000;
/// Enough for about ten seconds and several flushes of the store.
const SAMPLES: u32 = 150_000;
const RATE_BAR: f64 = 10_000.0;

pub(crate) fn measure(options: &Options) -> bool {
    let directory = tempfile::tempdir_in(&options.tmpdir).unwrap();
    let drawn = Drawn::new(1);
    let samples = (0..SAMPLES).map(|number| {
        let cell = number % u32::from(SERIES);
        drawn.taken(u16::try_from(cell).unwrap())
    });
    let begun = Monotonic::now();
    let lost = record_samples(directory.path(), header(), samples).unwrap();
    let seconds = Monotonic::now().since(begun).as_secs_f64();
    let rate = f64::from(SAMPLES) / seconds;
    figure("samples, of 2,000 series, until all are in the store", &SAMPLES.to_string());
    let is_fast = barred(
        "samples a second through the recorder alone",
        &format!("{rate:.0}"),
        "10,000 at least",
        rate >= RATE_BAR,
    );
    barred("lost", &lost.to_string(), "none", lost == 0) && is_fast
}

fn header() -> RunHeader {
    let factor =
        |axis: &str, value: String| Factor { axis: axis.into(), label: value.clone(), value };
    let cell = |number: u16| Cell {
        factors: vec![
            factor("site", format!("s{number}.test")),
            factor("variant", "as negotiated".to_owned()),
        ],
        url: format!("https://s{number}.test/"),
        twin_of: None,
    };
    let cells: Vec<CellRecord> =
        (0..SERIES).map(|number| CellRecord::from_cell(&cell(number))).collect();
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: Realtime::now().unix_nanos(),
        firstbyte_version: "0".into(),
        command: Vec::new(),
        plan: json!({ "command": "monitor", "place": "here" }),
        design: DesignRecord {
            warmup: 0,
            rounds: None,
            until: None,
            seed: 0,
            concurrent: 1,
            interval_ns: None,
        },
        axes: Vec::<AxisRecord>::new(),
        cells,
        environment: environment::gather(),
    }
}
