//! `wire diff --csv`: one row per change, times in microseconds. An unknown value is an empty field.

use std::io::{self, Write};

use super::projected::short;
use firstbyte_passive::diff::Of;
use firstbyte_passive::document::{ChangeRecord, DifferenceRecord, ShareRecord};

type Get = fn(&ChangeRecord<'_>) -> Option<String>;

/// All columns, in order. Within a version of the format, new columns are only appended.
const COLUMNS: &[(&str, Get)] = &[
    ("server", |c| Some(c.server.to_owned())),
    ("against", |c| c.against.map(str::to_owned)),
    ("what", |c| Some(c.what.to_owned())),
    ("value", |c| c.value.clone()),
    ("unit", |c| Some(if is_share(c) { "share" } else { "us" }.to_owned())),
    ("before", |c| Some(figure(c, c.before.value))),
    ("before_count", |c| c.before.count.map(|n| n.to_string())),
    ("before_of", |c| Some(c.before.of.to_string())),
    ("after", |c| Some(figure(c, c.after.value))),
    ("after_count", |c| c.after.count.map(|n| n.to_string())),
    ("after_of", |c| Some(c.after.of.to_string())),
    ("difference", |c| Some(figure(c, c.difference))),
    ("difference_low", |c| c.difference_interval.map(|[low, _]| figure(c, low))),
    ("difference_high", |c| c.difference_interval.map(|[_, high]| figure(c, high))),
    ("p_adjusted", |c| Some(format!("{:.3e}", c.p_adjusted))),
    ("cost_per_connection_us", |c| c.cost_per_connection_seconds.map(micros)),
    ("cost_per_connection_low_us", |c| {
        c.cost_per_connection_interval_seconds.map(|[low, _]| micros(low))
    }),
    ("cost_per_connection_high_us", |c| {
        c.cost_per_connection_interval_seconds.map(|[_, high]| micros(high))
    }),
    ("cost_each_second_us", |c| c.cost_seconds_per_second.map(micros)),
    ("full_handshake_us", |c| c.full_handshake_seconds.map(micros)),
    ("full_handshakes", |c| c.full_handshakes.map(|n| n.to_string())),
    ("short_handshake_us", |c| c.short_handshake_seconds.map(micros)),
    ("short_handshakes", |c| c.short_handshakes.map(|n| n.to_string())),
    ("of", |c| Some(c.of.to_owned())),
    ("within", |c| Some(c.within.join("+"))),
    ("replaced", |c| c.replaced.as_ref()?.value.clone()),
    ("replaced_before", |c| Some(figure(c, c.replaced.as_ref()?.before.value))),
    ("replaced_after", |c| Some(figure(c, c.replaced.as_ref()?.after.value))),
    ("offered_before", |c| also(c, Of::Offered).map(|share| figure(c, share.before.value))),
    ("offered_after", |c| also(c, Of::Offered).map(|share| figure(c, share.after.value))),
    ("all_before", |c| also(c, Of::Handshakes).map(|share| figure(c, share.before.value))),
    ("all_after", |c| also(c, Of::Handshakes).map(|share| figure(c, share.after.value))),
    ("server_time_us", |c| c.server_time_seconds.map(micros)),
    ("round_trips", |c| c.round_trips.map(|trips| trimmed(format!("{trips:.6}")))),
];

/// Writes the changes, the most costly first; only a header if there are none. Each requested round trip adds a
/// column.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn write(record: &DifferenceRecord<'_>, out: impl Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let names = COLUMNS.iter().map(|(name, _)| (*name).to_owned());
    let at = record.projected_to_seconds.iter().map(|seconds| {
        let at = short(*seconds).replace(' ', "");
        format!("cost_at_{at}_us")
    });
    writer.write_record(names.chain(at))?;
    for change in &record.changes {
        let columns = COLUMNS.iter().map(|(_, get)| get(change).unwrap_or_default());
        let projected = (0..record.projected_to_seconds.len()).map(|place| {
            let cost = change.projected.get(place).and_then(Option::as_ref);
            cost.map(|cost| micros(cost.cost_per_connection_seconds)).unwrap_or_default()
        });
        writer.write_record(columns.chain(projected))?;
    }
    writer.flush()
}

fn also(change: &ChangeRecord<'_>, of: Of) -> Option<ShareRecord> {
    change.also.iter().find(|share| share.of == of.name()).copied()
}

fn is_share(change: &ChangeRecord<'_>) -> bool {
    change.unit == "share"
}

fn figure(change: &ChangeRecord<'_>, value: f64) -> String {
    if is_share(change) { trimmed(format!("{value:.6}")) } else { micros(value) }
}

fn micros(seconds: f64) -> String {
    trimmed(format!("{:.3}", seconds * 1e6))
}

/// `number` without trailing zeros.
fn trimmed(number: String) -> String {
    let short = number.trim_end_matches('0').trim_end_matches('.');
    if short == "-0" { "0".to_owned() } else { short.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at_80_ms, found};
    use super::*;

    #[test]
    fn every_column_is_described() {
        let formats = include_str!("../../../../../docs/formats.md");
        let from = formats.find("### Rows of changes").unwrap();
        for (name, _) in COLUMNS {
            assert!(formats[from..].contains(&format!("`{name}`")), "{name} is not described");
        }
    }

    #[test]
    fn each_round_trip_that_was_asked_for_has_a_column() {
        let (changes, pairs) = at_80_ms();
        let mut out = Vec::new();
        write(&DifferenceRecord::from_changes(&changes, &[], &pairs, [&[], &[]]), &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with(",round_trips,cost_at_80ms_us,cost_at_300ms_us"), "{text}");
        assert!(lines[1].ends_with(",0.81,93800,"), "{text}");
    }

    #[test]
    fn a_change_is_a_row() {
        let (changes, pairs) = found();
        let mut out = Vec::new();
        write(&DifferenceRecord::from_changes(&changes, &[], &pairs, [&[], &[]]), &mut out)
            .unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let first = "10.0.0.5:443,,resumption,,share,0.81,518,640,0,0,655,-0.81,-0.85,-0.77,1.000e-9,\
                     29200,,,1910000,41200,777,5100,518,returning-handshakes,version,,,,0.996154,0,,,,0.81";
        assert_eq!(lines[1], first);
        assert!(lines[2].starts_with("b,a,server-time-exchange,,us,3000,,640,2100,,655,-900,"));
    }
}
