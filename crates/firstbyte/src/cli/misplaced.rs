//! Detects `--json FILE` that should be `--json=FILE`, before anything is read or measured.
//!
//! In: the parsed command line. Out: an error that says what to write. Without the equals sign the file's name is an
//! operand: it would be visited, read, or refused with an unhelpful reason.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, Error};

use firstbyte_core::shown_url::shown_url;

/// Flags with an optional file after an equals sign.
const FLAGS: [&str; 2] = ["json", "csv"];
/// Extensions of the files that they write.
const ENDINGS: [&str; 4] = ["json", "ndjson", "jsonl", "csv"];
/// Arguments that replace the operands.
const INSTEAD: [&str; 4] = ["plan", "resume", "from", "interface"];

/// Refuses an operand of `matches` that was meant as the file of the flag before it.
pub(super) fn check(command: &Command, matches: &ArgMatches) -> Result<(), Error> {
    let operands = operands(command, matches);
    let flags = command.get_arguments().filter_map(Arg::get_long);
    for flag in flags.filter(|flag| FLAGS.contains(flag)) {
        let Some(at) = bare(flag, matches) else { continue };
        let Some((_, operand)) = operands.iter().find(|(place, _)| *place == at + 1) else {
            continue;
        };
        let goes_without = operands.len() > 1 || INSTEAD.iter().any(|id| is_typed(id, matches));
        let is_behind_others = operands.iter().any(|(place, _)| *place < at);
        let is_meant = is_output(operand) || is_behind_others && !is_operand(operand);
        if goes_without && is_meant {
            let mut error = Error::new(ErrorKind::UnknownArgument).with_cmd(command);
            let word = shown_url(&operand.to_string_lossy());
            error.insert(ContextKind::InvalidArg, ContextValue::String(word));
            return Err(with_tip(error, flag, operand));
        }
    }
    Ok(())
}

/// Adds advice to `error` if it is caused by a file after one of the flags among `words`.
pub(super) fn explained(error: Error, words: &[OsString]) -> Error {
    let is_meant = |word: &OsStr| match (error.kind(), error.get(ContextKind::InvalidArg)) {
        // Or the URL after it is one too many.
        (ErrorKind::UnknownArgument, Some(ContextValue::String(refused))) => {
            word == &**refused || !refused.starts_with('-') && is_output(word)
        }
        // The error names the operand's placeholder, "[URL]", and the argument that it conflicts with.
        (ErrorKind::ArgumentConflict, _) => is_output(word),
        _ => false,
    };
    let found = words.windows(2).find_map(|pair| {
        let flag = pair[0].to_str()?.strip_prefix("--")?;
        (FLAGS.contains(&flag) && is_meant(&pair[1])).then_some((flag, &pair[1]))
    });
    match found {
        Some((flag, word)) => with_tip(error, flag, word),
        None => with_dashes(with_remedy(error, words), words),
    }
}

/// Flags of other tools and versions, and what to type instead.
const OTHER_FLAGS: [(&str, &str); 6] = [
    ("-c", "firstbyte is not a load tester; oha, wrk or k6 put load on a server"),
    ("-z", "firstbyte is not a load tester; oha, wrk or k6 put load on a server"),
    ("--http3", "HTTP/3 without a fallback is --http3-only"),
    ("--tlsv1", "TLS 1.2 is the lowest version: --tlsv1.2"),
    ("--tlsv1.0", "TLS 1.2 is the lowest version: --tlsv1.2"),
    ("--tlsv1.1", "TLS 1.2 is the lowest version: --tlsv1.2"),
];
/// What commands need if they get neither a URL nor a file.
const NEEDS: [(&str, &str); 5] = [
    ("compare", "give a URL, --plan FILE or --continue RUN"),
    ("explain", "give a URL, or --from RUN"),
    ("monitor", "give a URL, or --config FILE; monitor demo needs neither"),
    ("check", "give --plan FILE or --from RUN, and --fail-if CONDITION"),
    ("wire", "give capture files, or -i INTERFACE"),
];

/// Replaces an unhelpful tip in `error` with a helpful one.
fn with_remedy(mut error: Error, words: &[OsString]) -> Error {
    let tip = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(flag))) => {
            let name = flag.split('=').next().unwrap_or_default();
            let is_wire = words.iter().any(|word| word == "wire");
            let known = OTHER_FLAGS.iter().find(|(other, _)| *other == name && !is_wire);
            // A flag is never meant as a value.
            let is_flag = name.starts_with('-');
            match known {
                Some((_, remedy)) => Some(Some(*remedy)),
                None => (is_flag && is_only_tip_about_values(&error)).then_some(None),
            }
        }
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            let command = words.get(1).and_then(|word| word.to_str()).unwrap_or_default();
            let needs = NEEDS.iter().find(|(name, _)| *name == command);
            let is_operand = |name: &String| name.starts_with('<') || name.starts_with("--plan");
            if missing.iter().any(|name| name.starts_with("--interface")) {
                Some(Some("it is for live captures: add -i INTERFACE"))
            } else if missing.iter().any(is_operand) {
                needs.map(|(_, needs)| Some(*needs))
            } else {
                None
            }
        }
        _ => None,
    };
    match tip {
        Some(Some(tip)) => {
            error.insert(
                ContextKind::Suggested,
                ContextValue::StyledStrs(vec![StyledStr::from(tip)]),
            );
            error.remove(ContextKind::SuggestedArg);
        }
        Some(None) => {
            error.remove(ContextKind::Suggested);
        }
        None => {}
    }
    error
}

/// Whether clap's only advice is to pass the flag as a value.
fn is_only_tip_about_values(error: &Error) -> bool {
    match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => {
            tips.iter().all(|tip| tip.to_string().contains("as a value"))
        }
        _ => false,
    }
}

/// Adds to `error` where `--` belongs if it is about a command to run in a lab.
fn with_dashes(mut error: Error, words: &[OsString]) -> Error {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let is_lab = text(1) == "lab" && matches!(text(2), "run" | "exec");
    let has_dashes = words.iter().any(|word| word == "--");
    if let (true, false, Some(ContextValue::String(refused))) =
        (is_lab, has_dashes, error.get(ContextKind::InvalidArg))
        && let Some(at) = words.iter().skip(3).position(|word| word == &**refused)
    {
        let own: Vec<&str> = (1..at + 3).map(text).collect();
        // The rest of the command may contain secrets.
        let tip = format!(
            "the command follows --: firstbyte {} -- {} …",
            own.join(" "),
            shown_url(text(at + 3))
        );
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

fn with_tip(mut error: Error, flag: &str, word: &OsStr) -> Error {
    let alone = format!("--{flag} alone writes to standard output");
    // It may be a URL after all, so hide its secrets.
    let tip = match shown_url(&word.to_string_lossy()).as_str() {
        "-" => alone,
        word => format!("--{flag}={word} writes to that file; {alone}"),
    };
    let behind = format!("write URLs and input files before --{flag}");
    let tips = [tip, behind].map(StyledStr::from).to_vec();
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    error
}

/// The operands and their positions.
fn operands<'a>(command: &Command, matches: &'a ArgMatches) -> Vec<(usize, &'a OsStr)> {
    let ids = command.get_positionals().map(|operand| operand.get_id().as_str());
    let typed = ids.filter(|id| is_typed(id, matches));
    let values = typed.flat_map(|id| {
        let places = matches.indices_of(id).into_iter().flatten();
        places.zip(matches.get_raw(id).into_iter().flatten())
    });
    values.collect()
}

/// The position of `flag`, if it has no file.
fn bare(flag: &str, matches: &ArgMatches) -> Option<usize> {
    let is_bare = is_typed(flag, matches) && matches.get_raw(flag)?.all(|file| file == "-");
    is_bare.then(|| matches.indices_of(flag)?.next_back()).flatten()
}

fn is_typed(id: &str, matches: &ArgMatches) -> bool {
    let is_there = matches.try_contains_id(id).unwrap_or(false);
    is_there && matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Whether `word` looks like an output file.
fn is_output(word: &OsStr) -> bool {
    let ending = Path::new(word).extension().map(OsStr::to_ascii_lowercase);
    let is_url = word.to_string_lossy().contains("://");
    word == "-" || !is_url && ending.is_some_and(|end| ENDINGS.iter().any(|known| end == **known))
}

/// Whether `word` can only be a URL or an input file.
fn is_operand(word: &OsStr) -> bool {
    word.to_string_lossy().contains("://") || Path::new(word).exists()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::cli::typed::Typed;

    fn told(words: &str) -> Option<String> {
        let words = ["firstbyte"].into_iter().chain(words.split(' ')).map(OsString::from);
        Typed::read(words).err().map(|error| error.to_string())
    }

    #[test]
    fn a_file_without_its_equals_sign_is_told_what_to_write() {
        for (words, flag) in [
            ("compare a.test --csv x.csv", "--csv=x.csv"),
            ("compare a.test --csv results", "--csv=results"),
            ("compare --plan p.toml --csv x.csv", "--csv=x.csv"),
            ("a.test --json x.ndjson", "--json=x.ndjson"),
            ("a.test --json out", "--json=out"),
            ("a.test --json b.test/?k=x", "--json=b.test/?k=<hidden>"),
            ("probe --csv x.csv a.test", "--csv=x.csv"),
            ("report a.run --csv x.CSV", "--csv=x.CSV"),
            ("report a.run --json new", "--json=new"),
            ("explain a.test --json x.json", "--json=x.json"),
            ("explain --from a.run --json x.json", "--json=x.json"),
            ("predict --csv x.csv", "--csv=x.csv"),
            ("lab study pq --json x.json", "--json=x.json"),
            ("wire a.pcap --json x", "--json=x"),
            ("wire -i lo --csv x.csv", "--csv=x.csv"),
            ("wire diff a.pcap b.pcap --csv x.csv", "--csv=x.csv"),
            ("wire a.pcap --csv -", "--csv alone writes to standard output"),
            ("a.test --json -", "--json alone writes to standard output"),
            ("compare --csv x.csv a.test", "--csv=x.csv"),
        ] {
            let text = told(words).unwrap_or_else(|| panic!("{words} is taken"));
            assert!(text.contains(&format!("tip: {flag}")), "{words}: {text}");
        }
    }

    #[test]
    fn a_command_for_a_lab_without_dashes_is_told_where_they_go() {
        let text =
            told("lab run govuk firstbyte -H Cookie:s3cret https://sydney.govuk.test/").unwrap();
        let tip = "the command follows --: firstbyte lab run govuk -- firstbyte …";
        assert!(text.contains(tip) && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn what_can_only_be_an_operand_is_one() {
        for words in [
            "--json a.test",
            "--json -n 20 a.test b.test",
            "--json a.test b.test",
            "a.test --csv https://b.test/x.csv",
            "report --csv before.csv",
            "report --csv a.run b.run",
            "report a.run --csv=x.csv b.run",
            "wire --json -",
            "wire --json a.pcap b.pcap",
            "compare --concurrent a.test --csv",
        ] {
            assert_eq!(told(words), None, "{words}");
        }
    }
}
