//! The transfers of an operation: every URL with its output and upload, and the waits between tries.
//!
//! Input: an operation's settings. Output: [`Transfer`]s in the order in which curl makes them. It reads data of `-G`,
//! and neither bodies nor credentials.

use std::time::Duration;

use crate::address::CurlUrl;
use crate::data::{build_body, build_query, build_url_query};
use crate::files::LineFiles;
use crate::glob::{GlobbedUrl, expand, fill};
use crate::problem::{LineProblem, exit};
use crate::settings::{Operation, OutputName, RequestKind, RetrySettings};

/// The longest wait before a retry without `--retry-delay`: `RETRY_SLEEP_MAX` of curl's `src/tool_operate.c`.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Where a transfer's body goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputPlace {
    /// `-o -`
    Stdout,
    /// A file's name, with the directory of `--output-dir`.
    File(String),
}

/// One URL of an operation.
#[derive(Clone)]
pub struct Transfer {
    /// With the query of `-G` and the file name of `-T`.
    pub url: CurlUrl,
    /// As typed, globs expanded; it may hold a password.
    pub typed_url: String,
    /// Absent without `-o` and `-O`.
    pub output: Option<OutputPlace>,
    /// The file of `-T`; `-` and `.` are standard input.
    pub upload: Option<String>,
}

/// Lists the transfers: the k-th URL has the k-th `-o` or `-O`, and the k-th `-T`.
///
/// # Errors
/// When a URL or a glob is malformed or forbidden, data of `-G` cannot be read, or `-O` finds no name.
pub fn list_transfers(
    operation: &Operation,
    files: &dyn LineFiles,
) -> Result<Vec<Transfer>, LineProblem> {
    let query = read_query(operation, files)?;
    let mut transfers = Vec::new();
    for (at, typed) in operation.urls.iter().enumerate() {
        let urls = expand_unless_off(operation, typed)?;
        let uploads = match operation.uploads.get(at).filter(|name| !name.is_empty()) {
            Some(name) => {
                let names = expand_unless_off(operation, name)?;
                names.into_iter().map(|name| Some(name.url)).collect()
            }
            None => vec![None],
        };
        let output = operation.outputs.get(at).cloned();
        let output = output.or(operation.remote_name_all.then_some(OutputName::Remote));
        for upload in &uploads {
            for globbed in &urls {
                let scheme = operation.proto_default.as_deref();
                let mut url = CurlUrl::parse(&globbed.url, scheme, operation.path_as_is)?;
                check_url(operation, &url, false)?;
                let output = match &output {
                    Some(name) => Some(place_output(operation, name, &url, &globbed.values)?),
                    None => None,
                };
                if let Some(file) = upload {
                    url.complete_upload_path(file);
                }
                if let Some(query) = &query {
                    url.append_query(query);
                }
                let (typed_url, upload) = (globbed.url.clone(), upload.clone());
                transfers.push(Transfer { url, typed_url, output, upload });
            }
        }
    }
    Ok(transfers)
}

/// Whether data go into the URL: `-G` changes neither forms nor uploads.
pub(crate) fn puts_data_into_url(operation: &Operation) -> bool {
    let kind = operation.kind;
    operation.get
        && !operation.data.is_empty()
        && !matches!(kind, RequestKind::Form | RequestKind::Put)
}

/// Data of `-G` switch `--url-query` off.
fn read_query(operation: &Operation, files: &dyn LineFiles) -> Result<Option<String>, LineProblem> {
    if puts_data_into_url(operation) {
        return build_query(&build_body(&operation.data, files)?).map(Some);
    }
    match operation.url_query.as_slice() {
        [] => Ok(None),
        texts => build_url_query(texts, files).map(Some),
    }
}

fn expand_unless_off(operation: &Operation, text: &str) -> Result<Vec<GlobbedUrl>, LineProblem> {
    match operation.globoff {
        true => Ok(vec![GlobbedUrl { url: text.to_owned(), values: Vec::new() }]),
        false => expand(text),
    }
}

fn place_output(
    operation: &Operation,
    name: &OutputName,
    url: &CurlUrl,
    values: &[String],
) -> Result<OutputPlace, LineProblem> {
    let name = match name {
        OutputName::File(name) if name == "-" => return Ok(OutputPlace::Stdout),
        OutputName::File(name) => fill(name, values),
        OutputName::Remote => {
            url.last_segment().filter(|name| !name.is_empty()).ok_or_else(|| {
                let what = "the path of the URL ends without a file name";
                let problem = LineProblem::option("remote-name", what).with_code(exit::WRITE);
                problem.hint("give the name with --output")
            })?
        }
    };
    Ok(OutputPlace::File(match &operation.output_dir {
        Some(directory) => format!("{directory}/{name}"),
        None => name,
    }))
}

/// Refuses a URL that `--proto`, `--proto-redir` or `--disallow-username-in-url` forbids.
pub(crate) fn check_url(
    operation: &Operation,
    url: &CurlUrl,
    is_redirect: bool,
) -> Result<(), LineProblem> {
    if operation.disallow_username_in_url && url.user.is_some() {
        let problem = LineProblem::option("disallow-username-in-url", "the URL has a user name");
        return Err(problem.with_code(exit::USER_IN_URL));
    }
    let redirect_list = operation.proto_redir.as_deref().filter(|_| is_redirect);
    let scheme = url.scheme.name();
    for (long, list) in [("proto", operation.proto.as_deref()), ("proto-redir", redirect_list)] {
        if list.is_some_and(|list| !allows_scheme(list, scheme)) {
            let problem = LineProblem::option(long, format!("{scheme} is not allowed"));
            return Err(problem.with_code(exit::SCHEME));
        }
    }
    Ok(())
}

/// Reads `[+-=]NAME[,…]`. Everything is allowed at first.
fn allows_scheme(list: &str, scheme: &str) -> bool {
    let mut is_allowed = true;
    for part in list.split(',') {
        let name = part.trim_start_matches(['+', '-', '=']);
        let is_meant = name.eq_ignore_ascii_case("all") || name.eq_ignore_ascii_case(scheme);
        match part[..part.len() - name.len()].chars().next_back() {
            Some('=') => is_allowed = is_meant,
            Some('-') => is_allowed &= !is_meant,
            _ => is_allowed |= is_meant,
        }
    }
    is_allowed
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryOutcome {
    /// With a response.
    Status {
        /// Its status.
        status: u16,
        /// Seconds of `Retry-After`.
        retry_after: Option<u64>,
        /// `-f` made it a failure.
        failed: bool,
    },
    /// A time limit ended it.
    TimedOut,
    /// Nobody listens at the address.
    ConnectionRefused,
    /// The name of the host, or of the proxy, has no address.
    NameNotFound,
    /// Every other failure.
    OtherFailure,
}

/// How long to wait before the next try; `None` if there is none.
///
/// `Retry-After` counts instead of `--retry-delay`, even if it is shorter, and must end within `--retry-max-time`.
pub fn wait_before_retry(
    retry: &RetrySettings,
    tries_made: u32,
    since_first: Duration,
    outcome: TryOutcome,
) -> Option<Duration> {
    let limit = retry.max_time.filter(|limit| !limit.is_zero());
    if tries_made > retry.count || limit.is_some_and(|limit| since_first >= limit) {
        return None;
    }
    let is_transient = |status| matches!(status, 408 | 429 | 500 | 502 | 503 | 504);
    let is_retried = match outcome {
        TryOutcome::TimedOut | TryOutcome::NameNotFound => true,
        TryOutcome::ConnectionRefused => retry.connection_refused || retry.all_errors,
        TryOutcome::Status { status, failed, .. } => {
            is_transient(status) || (failed && retry.all_errors)
        }
        TryOutcome::OtherFailure => retry.all_errors,
    };
    if !is_retried {
        return None;
    }
    if let TryOutcome::Status { status, retry_after: Some(seconds @ 1..), .. } = outcome
        && is_transient(status)
    {
        let wait = Duration::from_secs(seconds);
        let is_late = limit.is_some_and(|limit| since_first.saturating_add(wait) > limit);
        return (!is_late).then_some(wait);
    }
    let doublings = tries_made.saturating_sub(1).min(10);
    let doubled = Duration::from_secs(1 << doublings).min(LONGEST_WAIT);
    Some(retry.delay.filter(|delay| !delay.is_zero()).unwrap_or(doubled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::MemoryFiles;

    fn operation(urls: &[&str]) -> Operation {
        Operation {
            urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            ..Operation::default()
        }
    }

    fn list(operation: &Operation) -> Result<Vec<Transfer>, LineProblem> {
        list_transfers(operation, &MemoryFiles::default())
    }

    /// Files that curl wrote for these lines.
    #[test]
    fn outputs_are_paired_with_urls() {
        let file = |name: &str| OutputName::File(name.to_owned());
        let cases: &[(&[&str], &[OutputName], &[&str])] = &[
            (
                &["http://h/{a,b}-[1-2]"],
                &[file("o_#1_#2_#3")],
                &["o_a_1_#3", "o_a_2_#3", "o_b_1_#3", "o_b_2_#3"],
            ),
            (&["http://h/{a,b}", "http://h/c"], &[file("f1"), file("f2")], &["f1", "f1", "f2"]),
            (&["http://h/1", "http://h/2"], &[file("one")], &["one", ""]),
            (&["http://h/1"], &[file("a"), file("b")], &["a"]),
            (&["http://h/1", "http://h/2"], &[file("x"), OutputName::Remote], &["x", "2"]),
            (&["http://h/{a,b}"], &[OutputName::Remote], &["a", "b"]),
            (&["http://h/a?b=1"], &[OutputName::Remote], &["a"]),
            (&["http://h/a%20b"], &[OutputName::Remote], &["a%20b"]),
            (&["http://h/1"], &[file("-")], &["-"]),
        ];
        for (urls, outputs, names) in cases {
            let operation = Operation { outputs: outputs.to_vec(), ..operation(urls) };
            let found =
                list(&operation).unwrap().into_iter().map(|transfer| match transfer.output {
                    None => String::new(),
                    Some(OutputPlace::Stdout) => "-".to_owned(),
                    Some(OutputPlace::File(name)) => name,
                });
            assert_eq!(found.collect::<Vec<_>>(), *names, "{urls:?}");
        }
        let operation = Operation {
            outputs: vec![file("f"), file("-")],
            output_dir: Some("od".to_owned()),
            remote_name_all: true,
            ..operation(&["http://h/1", "http://h/2", "http://h/3"])
        };
        let places = list(&operation).unwrap().into_iter().map(|transfer| transfer.output);
        let in_directory = |name: &str| Some(OutputPlace::File(format!("od/{name}")));
        let expected = [in_directory("f"), Some(OutputPlace::Stdout), in_directory("3")];
        assert_eq!(places.collect::<Vec<_>>(), expected);
    }

    /// What curl 7.88 exits with, and sends nothing.
    #[test]
    fn urls_are_refused() {
        let url = || operation(&["http://user@h/files/"]);
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (
                Operation { outputs: vec![OutputName::Remote], ..url() },
                exit::WRITE,
                "--remote-name:",
            ),
            (Operation { proto: text("=https"), ..url() }, exit::SCHEME, "--proto:"),
            (Operation { proto: text("-all,https"), ..url() }, exit::SCHEME, "--proto:"),
            (Operation { proto: text("=nope"), ..url() }, exit::SCHEME, "--proto:"),
            (
                Operation { disallow_username_in_url: true, ..url() },
                exit::USER_IN_URL,
                "--disallow-username-in-url:",
            ),
        ];
        for (operation, code, start) in cases {
            let problem = list(&operation).err().unwrap();
            assert_eq!(problem.code, code, "{problem}");
            assert!(problem.message.starts_with(start), "{problem}");
        }
        for list in ["=http", "-all,http", "https", "=https,http", "-ftp", "=all", ","] {
            assert!(allows_scheme(list, "http"), "{list}");
        }
    }

    #[test]
    fn waits_double_and_obey_the_server() {
        let seconds = Duration::from_secs;
        let retry = RetrySettings { count: 20, ..RetrySettings::default() };
        let status =
            |status, retry_after| TryOutcome::Status { status, retry_after, failed: false };
        let wait = |retry: &RetrySettings, tries, outcome| {
            wait_before_retry(retry, tries, seconds(1), outcome).map(|wait| wait.as_secs())
        };
        for (tries, expected) in [(1, 1), (2, 2), (3, 4), (10, 512), (11, 600), (20, 600)] {
            assert_eq!(wait(&retry, tries, status(503, None)), Some(expected));
        }
        assert_eq!(wait(&retry, 21, status(503, None)), None);
        // Measured: it waits for one second, not for three.
        let delay = RetrySettings { delay: Some(seconds(3)), ..retry.clone() };
        assert_eq!(wait(&delay, 1, status(503, Some(1))), Some(1));
        assert_eq!(wait(&delay, 2, status(503, None)), Some(3));
        let limited = RetrySettings { max_time: Some(seconds(2)), ..retry.clone() };
        assert_eq!(wait(&limited, 1, status(503, Some(1))), Some(1));
        assert_eq!(wait(&limited, 1, status(503, Some(2))), None);
        let limited = RetrySettings { max_time: Some(seconds(1)), ..retry.clone() };
        assert_eq!(wait(&limited, 1, TryOutcome::TimedOut), None);
    }

    #[test]
    fn only_some_outcomes_are_tried_again() {
        let plain = RetrySettings { count: 1, ..RetrySettings::default() };
        let refused = RetrySettings { connection_refused: true, ..plain.clone() };
        let all = RetrySettings { all_errors: true, ..plain.clone() };
        let status = |status, failed| TryOutcome::Status { status, retry_after: None, failed };
        let cases = [
            (TryOutcome::TimedOut, [true, true, true]),
            (TryOutcome::NameNotFound, [true, true, true]),
            (TryOutcome::ConnectionRefused, [false, true, true]),
            (TryOutcome::OtherFailure, [false, false, true]),
            (status(429, false), [true, true, true]),
            (status(404, false), [false, false, false]),
            (status(404, true), [false, false, true]),
            (status(503, true), [true, true, true]),
        ];
        for (outcome, expected) in cases {
            let is_retried = [&plain, &refused, &all]
                .map(|retry| wait_before_retry(retry, 1, Duration::ZERO, outcome).is_some());
            assert_eq!(is_retried, expected, "{outcome:?}");
        }
    }
}
