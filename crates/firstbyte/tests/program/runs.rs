//! Run files survive whatever happens to the process that writes them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use firstbyte::runs::{Creation, Run, RunError, RunWriter};
use firstbyte_clock::Monotonic;
use firstbyte_core::document::run::RunHeader;
use firstbyte_core::run::Taken;

use crate::support::runs::{changed, created, header, taken};

fn append(writer: &mut RunWriter, rounds: std::ops::Range<u32>) {
    for round in rounds {
        (0..2).for_each(|cell| writer.append(&taken(round, cell)).unwrap());
    }
}

#[test]
fn what_is_written_is_read_row_by_row_and_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..20);
    let run = Run::read(&path).unwrap();
    // The machine's load has changed since.
    let mut expected = header(2);
    expected.environment.load_average = run.header.environment.load_average;
    assert_eq!(run.header, expected);
    assert_eq!((run.rows.len(), run.bad_lines.len()), (40, 0));
    let expected: Vec<Taken> =
        (0..20).flat_map(|round| (0..2).map(move |cell| taken(round, cell))).collect();
    assert_eq!(run.rows, expected.iter().map(Taken::row).collect::<Vec<_>>());
    assert_eq!(run.each_taken().collect::<Result<Vec<_>, _>>().unwrap(), expected);
    assert_eq!(run.taken(17).unwrap(), expected[17]);
}

#[test]
fn a_large_run_is_read_by_several_threads_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.run");
    append(&mut created(&path), 0..4);
    // Twelve megabytes of equal lines with new numbers.
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().rfind(|line| line.starts_with("{\"variant\"")).unwrap();
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    let mut text = String::new();
    let rounds = 4 + (12 << 20) / line.len() as u32;
    for round in 4..rounds {
        text += &changed(line, "\"round\":3", &format!("\"round\":{round}"));
        text += "\n";
    }
    file.write_all(text.as_bytes()).unwrap();
    let run = Run::read(&path).unwrap();
    assert!(run.bad_lines.is_empty());
    let rest: Vec<u32> = run.rows[8..].iter().map(|row| row.round).collect();
    assert_eq!(rest, (4..rounds).collect::<Vec<_>>());
    let middle = run.taken(run.rows.len() / 2).unwrap();
    assert_eq!(middle.sample.sequence, run.rows[run.rows.len() / 2].round);
}

#[test]
fn a_run_is_not_overwritten_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..3);
    let error = RunWriter::create(&path, &header(2), Creation::New).unwrap_err();
    assert!(matches!(error, RunError::Exists { .. }), "{error}");
    assert_eq!(Run::read(&path).unwrap().rows.len(), 6);
    RunWriter::create(&path, &header(2), Creation::Overwrite).unwrap();
    assert!(Run::read(&path).unwrap().rows.is_empty());
    let empty = directory.path().join("empty");
    fs::write(&empty, "").unwrap();
    created(&empty);
}

#[test]
fn a_torn_line_is_cut_off_wherever_it_was_torn() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..3);
    let whole = fs::read(&path).unwrap();
    let head = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    for length in (head..whole.len()).step_by(17) {
        fs::write(&path, &whole[..length]).unwrap();
        let read = Run::read(&path).unwrap();
        assert!(read.rows.len() < 6 && read.bad_lines.is_empty());
        let (mut writer, resumed) = RunWriter::resume(&path, None).unwrap();
        assert_eq!(resumed.done.len(), read.rows.len());
        let kept = fs::metadata(&path).unwrap().len();
        assert_eq!(kept + resumed.torn_bytes, length as u64);
        // The samples found can be read after the cut.
        assert_eq!(resumed.run.rows, read.rows);
        assert!(resumed.run.each_taken().all(|taken| taken.is_ok()));
        let missing = (0..3).flat_map(|round| (0..2).map(move |cell| (round, cell)));
        for (round, cell) in missing.filter(|(r, c)| !resumed.done.contains(*r, usize::from(*c))) {
            writer.append(&taken(round, cell)).unwrap();
        }
        drop(writer);
        let run = Run::read(&path).unwrap();
        let samples: Vec<Taken> = run.each_taken().map(Result::unwrap).collect();
        assert_eq!(samples[5], taken(2, 1));
        assert_eq!(samples.len(), 6);
    }
}

#[test]
fn what_a_crash_of_the_machine_leaves_behind_the_last_sample_is_cut_off() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..1);
    let valid = fs::metadata(&path).unwrap().len();
    for garbage in [&b"\0\0\0\0"[..], b"\0\0\0\0\n", b"{\"variant\":1,\"rou\n{\"x\n"] {
        OpenOptions::new().append(true).open(&path).unwrap().write_all(garbage).unwrap();
        let (_, resumed) = RunWriter::resume(&path, None).unwrap();
        assert_eq!((resumed.torn_bytes, resumed.done.len()), (garbage.len() as u64, 2));
        assert_eq!(fs::metadata(&path).unwrap().len(), valid);
    }
}

#[test]
fn a_run_goes_on_from_the_line_before_a_damaged_one_and_nothing_is_thrown_away() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..3);
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find("{\"variant\":1,\"round\":0").unwrap();
    let number = text[..at].lines().count() as u64 + 1;
    // A line of another variant, with and without a matching checksum.
    let line = text[at..].lines().next().unwrap();
    let of_nine = changed(line, "{\"variant\":1", "{\"variant\":9");
    for (other, detail) in [
        (line.replace("\"round\":0", "\"round\":4"), "its checksum does not match"),
        (line.replace(",\"crc32\":", ",\"crc33\":"), "its checksum is missing"),
        (of_nine, "variant 9 is not in the first line"),
    ] {
        let damaged = text.replace(line, &other);
        fs::write(&path, &damaged).unwrap();
        let run = Run::read(&path).unwrap();
        assert_eq!(run.rows.len(), 5);
        assert_eq!((run.bad_lines[0].line, run.bad_lines[0].detail.as_str()), (number, detail));
        let error = RunWriter::resume_whole(&path, None).unwrap_err();
        assert!(error.to_string().contains(&format!("line {number} of ")), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        let (mut writer, resumed) = RunWriter::resume(&path, None).unwrap();
        assert_eq!(resumed.damaged.unwrap().line, number);
        assert_eq!((resumed.done.len(), resumed.run.rows.len()), (1, 1));
        assert_eq!(fs::read_to_string(&path).unwrap(), text[..at]);
        assert_eq!(fs::read_to_string(resumed.aside.unwrap()).unwrap(), damaged[at..]);
        append(&mut writer, 7..9);
        drop(writer);
        let run = Run::read(&path).unwrap();
        assert_eq!((run.rows.len(), run.bad_lines.len()), (5, 0));
        assert!(run.each_taken().all(|taken| taken.is_ok()));
    }
}

#[test]
fn no_bit_of_a_run_is_another_one_without_a_word() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..3);
    let (mut writer, _) = RunWriter::resume(&path, Some(&header(2))).unwrap();
    append(&mut writer, 3..4);
    drop(writer);
    let whole = fs::read(&path).unwrap();
    assert!(Run::read(&path).unwrap().warnings().is_empty());
    for bit in 0..whole.len() * 8 {
        // Every bit of the line ends, and a sample of the other bits.
        let at = bit / 8;
        if bit % 41 != 0 && whole[at] != b'\n' {
            continue;
        }
        let mut other = whole.clone();
        other[at] ^= 1 << (bit % 8);
        fs::write(&path, &other).unwrap();
        match Run::read(&path) {
            Err(_) => assert!(RunWriter::resume(&path, None).is_err(), "{bit}"),
            Ok(run) => {
                assert!(!run.warnings().is_empty(), "bit {bit}: {:?}", whole[at] as char);
                let (_, resumed) = RunWriter::resume(&path, None).unwrap();
                assert!(resumed.torn_bytes > 0, "{bit}");
                assert!(Run::read(&path).unwrap().warnings().is_empty(), "{bit}");
            }
        }
        let _ = resumed_files(directory.path());
    }
}

/// Removes the files with damaged parts of runs; returns their number.
fn resumed_files(directory: &Path) -> usize {
    let entries = fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
    let kept = entries.filter(|path| path.to_string_lossy().contains(".damaged"));
    kept.map(|path| fs::remove_file(path).unwrap()).count()
}

#[test]
fn another_experiment_is_not_mixed_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..2);
    let longer = |rounds| {
        let mut header = header(2);
        header.design.rounds = Some(rounds);
        header.created_unix_ns += 1;
        header
    };
    let mut seed = header(2);
    seed.design.seed = 8;
    let mut options = header(2);
    options.plan = serde_json::json!({"urls": ["https://b/"]});
    for (other, what) in
        [(header(3), "other variants"), (seed, "another seed"), (options, "other options")]
    {
        let error = RunWriter::resume(&path, Some(&other)).unwrap_err();
        assert!(error.to_string().ends_with(what), "{error}");
    }
    let (mut writer, resumed) = RunWriter::resume(&path, Some(&longer(200))).unwrap();
    assert_eq!(resumed.run.header.design.rounds, Some(100));
    append(&mut writer, 2..3);
    drop(writer);
    let run = Run::read(&path).unwrap();
    assert_eq!((run.rows.len(), run.continued.len()), (6, 1));
    assert_eq!(run.continued[0].design.rounds, Some(200));
}

#[test]
fn what_is_not_a_run_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let message = |text: &str| {
        fs::write(&path, text).unwrap();
        Run::read(&path).unwrap_err().to_string()
    };
    let own = |rest: &str| message(&format!("{{\"format\":\"firstbyte/run\",{rest}"));
    let name = path.display();
    assert_eq!(message(""), format!("{name} is not a run file"));
    assert_eq!(message("DNS,Connect\n1,2\n"), format!("{name} is not a run file"));
    assert_eq!(message("{\"format\":\"x\",\"version\":1}\n"), format!("{name} is not a run file"));
    assert_eq!(own("\"version\":4}\n"), format!("{name} has format version 4"));
    assert_eq!(
        own("\"version\":3}\n"),
        format!("the first line of {name} is damaged: its checksum is missing")
    );
    assert_eq!(
        own("\"vers"),
        format!("the first line of {name} is damaged: the line is cut short")
    );
    assert!(own("\"version\":1}\n").contains("missing field `created_unix_ns`"));
    fs::remove_file(&path).unwrap();
    assert!(Run::read(&path).unwrap_err().to_string().starts_with("cannot read "));
}

#[test]
fn a_run_of_version_1_is_read_without_its_command() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    let old =
        RunHeader { version: 1, command: vec!["-H".into(), "Cookie: s3cret".into()], ..header(1) };
    RunWriter::create(&path, &old, Creation::New).unwrap().append(&taken(1, 0)).unwrap();
    let run = Run::read(&path).unwrap();
    assert_eq!((run.rows.len(), run.header.command.len()), (1, 0));
    assert_eq!(run.header.cells, old.cells);
}

/// A child of this test that runs `role` on `path`.
fn child(role: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs::role_of_a_child", "--ignored", "--nocapture"])
        .env("FIRSTBYTE_TEST_ROLE", role)
        .env("FIRSTBYTE_TEST_RUN", path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "what the tests below run in a process of its own"]
fn role_of_a_child() {
    let path = PathBuf::from(std::env::var_os("FIRSTBYTE_TEST_RUN").unwrap());
    match std::env::var("FIRSTBYTE_TEST_ROLE").unwrap().as_str() {
        "write until killed" => {
            let mut writer = created(&path);
            append(&mut writer, 0..u32::MAX);
        }
        "write until full" => {
            let (mut writer, _) = RunWriter::resume(&path, None).unwrap();
            for round in 1.. {
                if let Err(error) = writer.append(&taken(round, 0)) {
                    assert!(writer.append(&taken(round, 0)).is_err());
                    fs::write(path.with_extension("error"), error.to_string()).unwrap();
                    return;
                }
            }
        }
        role => panic!("{role}"),
    }
}

/// Waits until the file at `path` is longer than `bytes`.
fn wait_for(path: &Path, bytes: u64) {
    let begun = Monotonic::now();
    while fs::metadata(path).map_or(0, |m| m.len()) <= bytes {
        assert!(Monotonic::now().since(begun) < Duration::from_secs(60), "nothing is written");
        std::thread::yield_now();
    }
}

#[test]
fn a_killed_writer_leaves_a_run_that_can_be_continued() {
    let directory = tempfile::tempdir().unwrap();
    for n in 0..10 {
        let path = directory.path().join(format!("{n}.run"));
        let mut writing = child("write until killed", &path);
        wait_for(&path, 4_000 + n * 333);
        let error = RunWriter::resume(&path, None).unwrap_err();
        assert!(matches!(error, RunError::Locked { .. }), "{error}");
        assert_eq!(
            error.to_string(),
            format!("{} is being written by another firstbyte", path.display())
        );
        let error = RunWriter::create(&path, &header(2), Creation::Overwrite).unwrap_err();
        assert!(matches!(error, RunError::Locked { .. }), "{error}");
        writing.kill().unwrap();
        writing.wait().unwrap();
        let before = Run::read(&path).unwrap();
        let (mut writer, resumed) = RunWriter::resume(&path, None).unwrap();
        let order = (0..).flat_map(|round| (0..2).map(move |cell| (round, cell)));
        // There is no gap: only the samples at the end are missing.
        let done = order.take_while(|(r, c)| resumed.done.contains(*r, *c)).count();
        assert_eq!((done, resumed.done.len()), (before.rows.len(), before.rows.len()));
        writer.append(&taken(1_000_000, 0)).unwrap();
        let run = Run::read(&path).unwrap();
        assert_eq!(run.rows.len(), done + 1);
        for (row, whole) in run.rows.iter().zip(run.each_taken()) {
            assert_eq!(whole.unwrap(), taken(row.round, row.cell));
        }
    }
}

#[test]
fn when_the_disk_is_full_what_was_measured_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.run");
    append(&mut created(&path), 0..1);
    // Files may not grow beyond 16 blocks; the signal for that is ignored, so writes fail as on a full disk.
    let exe = std::env::current_exe().unwrap();
    let script = "trap '' XFSZ; ulimit -f 16; exec \"$0\" --exact runs::role_of_a_child --ignored";
    let status = Command::new("bash")
        .args(["-c", script, exe.to_str().unwrap()])
        .env("FIRSTBYTE_TEST_ROLE", "write until full")
        .env("FIRSTBYTE_TEST_RUN", &path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let error = fs::read_to_string(path.with_extension("error")).unwrap();
    assert!(error.contains("File too large"), "{error}");
    let run = Run::read(&path).unwrap();
    assert!(run.rows.len() > 10 && run.bad_lines.is_empty());
    assert_eq!(run.valid_bytes, fs::metadata(&path).unwrap().len());
    let (mut writer, resumed) = RunWriter::resume(&path, None).unwrap();
    assert_eq!(resumed.torn_bytes, 0);
    writer.append(&taken(500, 1)).unwrap();
}
