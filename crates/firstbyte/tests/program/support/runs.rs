//! Run files like those of an experiment.

use std::path::Path;
use std::time::Duration;

use firstbyte::runs::{Creation, RunWriter};
use firstbyte_core::document::run::{
    AxisRecord, CellRecord, DesignRecord, RUN_FORMAT, RUN_VERSION, RunHeader,
};
use firstbyte_core::document::seal;
use firstbyte_core::run::{Cell, Factor, Standing, Taken};
use firstbyte_core::timeline::{Header, HttpFacts, Mark, Offset, Sample, Stamp};

/// The header of a run with `cells` cells.
pub(crate) fn header(cells: usize) -> RunHeader {
    let cell = |n: usize| {
        let value = format!("v{n}");
        let factor = Factor { axis: "variant".into(), label: value.clone(), value };
        let url = format!("https://{n}.example/");
        CellRecord::from_cell(&Cell { factors: vec![factor], url, twin_of: None })
    };
    RunHeader {
        format: RUN_FORMAT.into(),
        version: RUN_VERSION,
        created_unix_ns: 1_795_183_509_123_456_000,
        firstbyte_version: "0.1.0".into(),
        command: vec!["firstbyte".into(), "compare".into()],
        plan: serde_json::json!({"urls": ["https://a/"]}),
        design: DesignRecord { warmup: 1, rounds: Some(100), seed: 7, ..DesignRecord::default() },
        axes: vec![AxisRecord {
            name: "variant".into(),
            values: (0..cells).map(|n| format!("v{n}")).collect(),
        }],
        cells: (0..cells).map(cell).collect(),
        environment: firstbyte::runs::environment::gather(),
    }
}

/// The sample of a cell in a round; always the same one.
pub(crate) fn taken(round: u32, cell: u16) -> Taken {
    let mut sample = Sample {
        sequence: round,
        warmup: round == 0,
        requested_url: format!("https://{cell}.example/"),
        ..Sample::default()
    };
    let c = &mut sample.connection;
    c.url.clone_from(&sample.requested_url);
    c.started_unix_ns = Some(1_795_183_509_123_456_000 + u64::from(round));
    for (mark, us) in [
        (Mark::TcpConnected, 10_000),
        (Mark::RequestEnd, 10_100),
        (Mark::ResponseStart, 20_000),
        (Mark::ResponseEnd, 20_400),
    ] {
        let ns = (us + i64::from(round) * 7 + i64::from(cell) * 900) * 1_000;
        c.marks.set(mark, Stamp::kernel(Offset::from_nanos(ns)));
    }
    let header = |name: &str, value: String| Header { name: name.into(), value };
    c.facts.http = Some(HttpFacts {
        method: "GET".into(),
        headers: vec![header("server", "x".repeat(200)), header("date", format!("{round}"))],
        ..HttpFacts::default()
    });
    Taken {
        stands_for: None,
        cell,
        standing: Standing::Proven,
        lateness: Duration::from_nanos(5),
        sample,
    }
}

/// A line of a run with `from` replaced by `to`, and a matching checksum.
pub(crate) fn changed(line: &str, from: &str, to: &str) -> String {
    let bare = line.rsplit_once(",\"crc32\":").map(|(before, _)| format!("{before}}}"));
    let mut line = bare.unwrap_or_else(|| line.to_owned()).replace(from, to).into_bytes();
    seal(&mut line, 0);
    String::from_utf8(line).unwrap()
}

/// Begins a run of two cells.
pub(crate) fn created(path: &Path) -> RunWriter {
    RunWriter::create(path, &header(2), Creation::New).unwrap()
}

/// Writes a complete run.
pub(crate) fn write_run(path: &Path, cells: u16, rounds: u32) {
    let mut writer = RunWriter::create(path, &header(usize::from(cells)), Creation::New).unwrap();
    for round in 0..rounds {
        (0..cells).for_each(|cell| writer.append(&taken(round, cell)).unwrap());
    }
}
