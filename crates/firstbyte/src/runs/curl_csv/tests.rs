use std::path::Path;

use firstbyte_core::run::Metric;
use firstbyte_core::split::Split;

use super::*;

const HEADER: &str = "DNS,Connect,SSL,Wait,TTFB,Total Time\n";
const ROW: &str = "0.004,0.030,0.080,0.081,0.130,0.150\n";

fn parse(text: impl AsRef<[u8]>) -> Result<CurlTable, String> {
    CurlTable::parse(Path::new("a.csv"), text.as_ref()).map_err(|e| e.to_string())
}

fn metrics(table: &CurlTable, index: usize) -> Vec<(&'static str, u64)> {
    let row = table.rows().nth(index).unwrap();
    let of = |m: Metric| row.metric(m).map(|ns| (m.name(), ns / 1_000_000));
    Metric::ALL.into_iter().filter_map(of).collect()
}

const PHASES: [(&str, u64); 9] = [
    ("resolve", 4),
    ("connect", 26),
    ("tls", 50),
    ("setup", 76),
    ("send", 1),
    ("wait", 49),
    ("receive", 20),
    ("ttfb", 130),
    ("total", 150),
];

#[test]
fn cumulative_timers_become_phases() {
    let table = parse(format!("{HEADER}{ROW}")).unwrap();
    assert_eq!(metrics(&table, 0), PHASES);
    assert!(table.warnings.is_empty());
    let taken = table.taken(0);
    assert!(taken.row().counts());
    assert_eq!(Split::attribute(&taken.sample.connection).total(), Duration::from_millis(150));
}

/// Tables are compared line by line: a skipped line keeps its number, and so do the lines after it.
#[test]
fn a_line_that_is_left_out_moves_no_other() {
    let late = ROW.replace("0.150", "0.250");
    let table = parse(format!("{HEADER}{ROW}0.004,broken,0,0,1,1\n{late}{HEADER}{ROW}")).unwrap();
    let rows: Vec<(u32, Option<u64>)> =
        table.rows().map(|row| (row.round, row.metric(Metric::Total))).collect();
    let ms = |ms: u64| Some(ms * 1_000_000);
    assert_eq!(rows, [(0, ms(150)), (2, ms(250)), (3, ms(150))]);
    assert_eq!(table.taken(1).sample.sequence, 2);
    assert_eq!(table.warnings.len(), 1);
}

/// Shortened output of curl 7.88 for `-w '%{json}'`.
const CURLS_JSON: &str = "{\"certs\":\"\",\"content_type\":null,\"http_code\":200,\"time_appconnect\":0.080000,\
    \"time_connect\":0.030000,\"time_namelookup\":0.004000,\"time_pretransfer\":0.081000,\"time_redirect\":0.000000,\
    \"time_starttransfer\":0.130000,\"time_total\":0.150000,\"url\":\"https://a/\"}";

#[test]
fn objects_of_curl_are_rows_whatever_is_between_them() {
    let late = CURLS_JSON.replace("0.150000", "0.250000");
    let text = format!("{CURLS_JSON}{late}\n{CURLS_JSON}\n{{\"time_total\":1}}\n");
    let table = parse(&text).unwrap();
    assert_eq!(table.len(), 3);
    let warning = table.warnings[0].to_string();
    assert_eq!(warning, "a.csv, line 3: no time_namelookup: these are not curl's timers");
}

#[test]
fn the_same_in_every_form_it_is_found_in() {
    let json = "[\"DNS\",\"Connect\",\"SSL\",\"Wait\",\"TTFB\",\"Total Time\"]";
    let numbers = "[0.004,0.030,0.080,0.081,0.130,0.150]";
    for text in [
        format!("\u{feff}{HEADER}{ROW}\n\n"),
        format!("{HEADER}{ROW}").replace('\n', "\r\n"),
        "\"DNS\",\"Connect\",\"SSL\",\"Wait\",\"TTFB\",\"Total Time\"\n\"0.004\",\"0.030\",\"0.080\",\"0.081\",\"0.130\",\"0.150\"".into(),
        format!("{json}\n{ROW}"),
        format!("{json}\n{numbers}\n"),
        format!("[\n{json},\n{numbers},\n]\n"),
        format!("[{json},{numbers}]"),
        format!("{HEADER}{ROW}").replace(',', ";").replace('.', ","),
        format!("sep=;\n{HEADER}{ROW}").replace(',', ";"),
        format!("{HEADER}{ROW}").replace(',', "\t"),
        "DNS (ms),Connect (ms),SSL (ms),Wait (ms),TTFB (ms),Total Time (ms)\n4,30,80,81,130,150".into(),
        "time_namelookup,time_connect,time_appconnect,time_pretransfer,time_starttransfer,time_total\n0.004,0.030,0.080,0.081,0.130,0.150".into(),
        "dns_us,connect_us,ssl_us,wait_us,ttfb_us,total_us\n4000,30000,80000,81000,130000,150000".into(),
        "Total Time,url,TTFB,Wait,SSL,Connect,DNS\n0.150,\"https://a/?x=1,2\",0.130,0.081,0.080,0.030,0.004".into(),
        "DNS,Connect,SSL,Wait,TTFB,Total Time\n\"0,004\",\"0,030\",\"0,080\",\"0,081\",\"0,130\",\"0,150\"".into(),
        format!("{HEADER}{ROW}{HEADER}"),
        CURLS_JSON.to_owned(),
        format!("[{CURLS_JSON}]\n"),
    ] {
        let table = parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((metrics(&table, 0), table.len()), (PHASES.to_vec(), 1), "{text}");
        assert!(table.warnings.is_empty(), "{text}: {:?}", table.warnings);
    }
}

#[test]
fn zeros_did_not_happen() {
    let table = parse(format!(
        "{HEADER}{ROW}0.001,0.030,0,0.031,0.060,0.070\n0.004,0.03,0,0,0,5\n0.002,0,0,0,0,2.5\n0.00002,0,0,0.0001,0.03,0.04\n"
    ))
    .unwrap();
    let failure = |index: usize| {
        let sample = table.taken(index).sample;
        sample.failure().map(|f| (f.phase, f.at.map(Offset::as_nanos)))
    };
    let plain = metrics(&table, 1);
    assert!(!plain.iter().any(|(name, _)| *name == "tls"), "{plain:?}");
    assert!(plain.contains(&("send", 1)) && plain.contains(&("wait", 29)), "{plain:?}");
    assert_eq!(failure(1), None);
    assert_eq!(failure(2), Some((PhaseName::Tls, Some(5_000_000_000))));
    assert_eq!(failure(3), Some((PhaseName::Connect, Some(2_500_000_000))));
    assert_eq!(table.taken(3).standing, Standing::Failed);
    let reused = table.taken(4);
    assert!(reused.sample.connection.facts.reused && reused.row().counts());
}

#[test]
fn what_is_wrong_is_told_by_file_line_and_column() {
    let warning = |row: &str| {
        let table = parse(format!("{HEADER}{ROW}{row}\n{ROW}")).unwrap();
        assert_eq!((table.len(), table.warnings.len()), (2, 1), "{row}");
        table.warnings[0].to_string()
    };
    for (row, expected) in [
        ("0.004,0.030", "a.csv, line 3: 2 columns instead of 6"),
        (
            "0,004,0,030,0,080,0,081,0,130,0,150",
            "a.csv, line 3: 12 columns instead of 6; with decimal commas, separate columns by semicolons",
        ),
        ("0.004,fast,1,1,1,1", "a.csv, line 3: column Connect: \"fast\" is not a number"),
        ("0.004,,1,1,1,1", "a.csv, line 3: column Connect: \"\" is not a number"),
        ("0.004,nan,1,1,1,1", "a.csv, line 3: column Connect: \"nan\" is not a number"),
        ("0.004,-0.1,1,1,1,1", "a.csv, line 3: column Connect: \"-0.1\" is negative"),
        ("0.004,1e30,1,1,1,1", "a.csv, line 3: column Connect: \"1e30\" is not a time"),
        (
            "0.004,0.03,0.02,1,1,1",
            "a.csv, line 3: column SSL: \"0.02\" is before Connect: these are not curl's cumulative times",
        ),
        (
            "0.004,\u{1b}[2J,1,1,1,1",
            "a.csv, line 3: column Connect: \"\u{fffd}[2J\" is not a number",
        ),
        ("0,0,0,0,0,0", "a.csv, line 3: nothing was measured"),
        ("\"0.004,0.1,1,1,1,1", "a.csv, line 3: a quote is not closed"),
        ("[0.004,null,1,1,1,1]", "a.csv, line 3: neither a number nor a string: null"),
    ] {
        assert_eq!(warning(row), expected);
    }
}

#[test]
fn tables_that_cannot_be_read_say_why() {
    let error = |text: &[u8]| parse(text).unwrap_err();
    assert_eq!(error(b""), "a.csv, line 1: the file is empty");
    assert!(error(b"\xff\xfeD\0").contains("UTF-16"));
    let own = b"sequence,warmup,url,resolve_us,connect_us,tls_us,wait_us,ttfb_us,total_us,round_trips\n1\n";
    assert!(error(own).contains("firstbyte's own CSV; give the run file"), "{}", error(own));
    assert!(error(b"0.1,0.2,0.3,0.4,0.5,0.6\n").contains("the first line must name the columns"));
    assert!(error(b"sequence,warmup,url\n").contains("give the run file"));
    assert!(error(b"a,b\n1,2\n").contains("no column \"connect\" among \"a\", \"b\""));
    assert!(error(b"DNS,Connect (min),TTFB,Total\n").contains("unknown unit \"min\""));
    assert!(error(b"Connect,Connect,TTFB,Total\n").contains("twice"));
    let bad = error(format!("{HEADER}1,2\n").as_bytes());
    assert!(bad.contains("line 2: 2 columns instead of 6"), "{bad}");
    assert!(error(HEADER.as_bytes()).contains("no lines after it"));
}

proptest::proptest! {
    #[test]
    fn no_table_is_too_strange(text in "[\\[\\]\",;\n0-9.eE DNSConetLTFB-]{0,120}") {
        let _ = parse(&text);
        if let Ok(table) = parse(format!("{HEADER}{text}")) {
            table.rows().for_each(drop);
        }
    }
}
