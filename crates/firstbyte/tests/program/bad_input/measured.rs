//! Rows for failures during a measurement: where, whose fault, why, what was measured, and what curl does.

use std::any::Any;

use serde_json::Value;

use crate::support::dns::DnsServer;
use crate::support::files::Directory;
use crate::support::peer::Peer;
use crate::support::run::{curl, firstbyte};

/// One bad server, or one good server asked for the wrong thing.
///
/// `{port}` in texts is the port of the row's server.
pub(crate) struct Row {
    pub(crate) server: fn() -> Stage,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) url: &'static str,
    pub(crate) code: u8,
    /// The stable name of the cause.
    pub(crate) cause: &'static str,
    /// Phase, message, fault and hint, as printed.
    pub(crate) says: &'static str,
    /// The marks measured before the failure.
    pub(crate) marks: &'static str,
    pub(crate) curl: Curl,
}

/// How curl ends in the same situation.
#[derive(Clone, Copy)]
pub(crate) enum Curl {
    /// With the same exit code.
    Same,
    /// With this exit code, for this reason.
    Ends(i32, &'static str),
    /// curl has no such option, for this reason.
    Cannot(&'static str),
}

pub(crate) const NOTHING: &str = "";
pub(crate) const TRIED: &str = "connect_start";
pub(crate) const IN_TLS: &str = "connect_start tcp_connected secure_connection_start";
pub(crate) const REQUESTED: &str = "connect_start tcp_connected request_start request_end";
pub(crate) const ANSWERED: &str =
    "connect_start tcp_connected request_start request_end response_start";
pub(crate) const COMPLETE: &str =
    "connect_start tcp_connected request_start request_end response_start response_end";
pub(crate) const REQUESTED_TLS: &str = "connect_start tcp_connected secure_connection_start \
                                 handshake_complete request_start request_end";
pub(crate) const ANSWERED_TLS: &str = "connect_start tcp_connected secure_connection_start \
                                handshake_complete request_start request_end response_start";

/// The running servers of a row, and the port that its texts refer to.
pub(crate) struct Stage {
    port: u16,
    _running: Box<dyn Any>,
}

impl From<Peer> for Stage {
    fn from(peer: Peer) -> Self {
        Self { port: peer.port(), _running: Box::new(peer) }
    }
}

impl From<DnsServer> for Stage {
    fn from(server: DnsServer) -> Self {
        Self { port: server.address.port(), _running: Box::new(server) }
    }
}

impl Row {
    fn fill(&self, text: &str, stage: &Stage) -> String {
        text.replace("{port}", &stage.port.to_string())
    }

    fn arguments(&self, before: &[&str], stage: &Stage) -> Vec<String> {
        let all = before.iter().chain(self.arguments).chain([&self.url]);
        all.map(|argument| self.fill(argument, stage)).collect()
    }
}

/// Measures every row, in both views, and reports all rows that end differently.
pub(crate) fn check(rows: &[Row]) {
    let directory = Directory::with_client();
    report(rows.iter().filter_map(|row| {
        let stage = (row.server)();
        let mut wrong = in_terminal(row, &stage, &directory);
        wrong.extend(in_json(row, &stage, &directory));
        (!wrong.is_empty()).then_some((row, wrong))
    }));
}

/// The curl version that the rows were written for.
const CURL: &str = "curl 7.88.";

/// Runs curl for every row, and reports all rows where curl ends differently.
///
/// Another version of curl may end differently, which is not a fault of this project. The difference is then only
/// printed, and curl must fail where the row says that it fails like firstbyte.
pub(crate) fn check_curl(rows: &[Row]) {
    let directory = Directory::with_client();
    let version = curl(directory.path(), &["--version"]).stdout;
    let strict = version.starts_with(CURL);
    report(rows.iter().filter_map(|row| {
        let expected = match row.curl {
            Curl::Same => i32::from(row.code),
            Curl::Ends(code, _) => code,
            Curl::Cannot(_) => return None,
        };
        let stage = (row.server)();
        let outcome = curl(directory.path(), &row.arguments(&["-sS", "-o", "body"], &stage));
        let wrong = format!("curl ends with {}: {}", outcome.code, outcome.stderr);
        if outcome.code != expected && !strict {
            let version = version.lines().next().unwrap_or("?");
            println!("{} ({}): not {expected}: {wrong} [{version}]", row.url, row.cause);
            return (outcome.code == 0 && expected != 0).then(|| (row, vec![wrong]));
        }
        (outcome.code != expected).then(|| (row, vec![wrong]))
    }));
}

fn report<'a>(wrong: impl Iterator<Item = (&'a Row, Vec<String>)>) {
    let told: Vec<String> = wrong
        .map(|(row, wrong)| {
            format!("{} {:?} ({})\n  {}", row.url, row.arguments, row.cause, wrong.join("\n  "))
        })
        .collect();
    assert!(told.is_empty(), "{} rows are wrong:\n\n{}", told.len(), told.join("\n\n"));
}

fn in_terminal(row: &Row, stage: &Stage, directory: &Directory) -> Vec<String> {
    let outcome = firstbyte(directory.path(), &row.arguments(&[], stage));
    let mut wrong = Vec::new();
    if outcome.code != i32::from(row.code) {
        wrong.push(format!("exit code {}, not {}", outcome.code, row.code));
    }
    let said = format!("error: {}\n", row.fill(row.says, stage));
    if !outcome.stdout.ends_with(&said) {
        let from = outcome.stdout.find("error:").unwrap_or(0);
        wrong.push(format!("expected:\n{said}  but:\n{}", &outcome.stdout[from..]));
    }
    let phase = row.says.split(':').next().unwrap();
    if !outcome.stdout.contains(&format!("failed in {phase}")) {
        wrong.push(format!("no waterfall:\n{}", outcome.stdout));
    }
    if !outcome.stderr.is_empty() {
        wrong.push(format!("stderr: {}", outcome.stderr));
    }
    if outcome.took.as_secs() >= 5 {
        wrong.push(format!("took {:?}", outcome.took));
    }
    wrong
}

/// Name of the failure in Network Error Logging, or our own if it has no name there.
fn type_of(cause: &str, phase: &str) -> Option<&'static str> {
    Some(match (cause, phase) {
        ("name-not-found" | "no-addresses", _) => "dns.name_not_resolved",
        ("resolver-failed", _) => "dns.failed",
        ("resolver-timed-out", _) | ("timed-out", "resolve") => "dns.unreachable",
        ("refused", _) => "tcp.refused",
        ("connect-timed-out", _) | ("timed-out", "connect") => "tcp.timed_out",
        ("closed-in-handshake", _) => "tcp.closed",
        ("reset" | "reset-in-handshake", _) => "tcp.reset",
        ("protocol-version-refused" | "no-common-parameters", _) => {
            "tls.version_or_cipher_mismatch"
        }
        ("client-certificate-required" | "client-certificate-refused", _) => {
            "tls.bad_client_auth_cert"
        }
        ("certificate-wrong-name", _) => "tls.cert.name_invalid",
        ("certificate-expired" | "certificate-not-yet-valid", _) => "tls.cert.date_invalid",
        ("certificate-unknown-issuer" | "certificate-self-signed", _) => {
            "tls.cert.authority_invalid"
        }
        ("certificate-invalid", _) => "tls.cert.invalid",
        ("tls-alert" | "tls-misbehaved" | "not-tls", _) => "tls.protocol.error",
        ("alpn-mismatch", _) => "tls.failed",
        ("timed-out", "tls") => "tls.timed_out",
        ("http-status", _) => "http.error",
        ("not-http" | "http2" | "http2-stream", _) => "http.protocol.error",
        ("closed-before-response" | "head-cut-short" | "head-too-large" | "body-cut-short", _)
        | ("bad-transfer-coding" | "bad-content-encoding" | "bad-redirect", _) => {
            "http.response.invalid"
        }
        ("too-many-redirects", _) => "http.response.redirect_loop",
        ("timed-out", "wait" | "receive") => "http.timed_out",
        ("socket-setup" | "write-output", _) => "client.failed",
        _ => return None,
    })
}

fn in_json(row: &Row, stage: &Stage, directory: &Directory) -> Vec<String> {
    let outcome = firstbyte(directory.path(), &row.arguments(&["--json"], stage));
    let Ok(sample) = serde_json::from_str::<Value>(&outcome.stdout) else {
        return vec![format!("not one JSON object: {}{}", outcome.stdout, outcome.stderr)];
    };
    let mut wrong = Vec::new();
    let failure = &sample["failure"];
    let text = |field: &str| failure[field].as_str().unwrap_or("(none)").to_owned();
    if text("cause") != row.cause {
        wrong.push(format!("cause {}, not {}", text("cause"), row.cause));
    }
    let called = type_of(row.cause, &text("phase"));
    if Some(text("type").as_str()) != called {
        wrong.push(format!("type {}, not {called:?}", text("type")));
    }
    let mut said = format!("{}: {}", text("phase"), text("message"));
    if let Some(hint) = failure["hint"].as_str() {
        said += &format!("\nhint: {hint}");
    }
    if said != row.fill(row.says, stage) {
        wrong.push(format!("JSON says {said}"));
    }
    wrong.extend(marks_are(row.marks, &sample));
    wrong.extend(disagreements(&sample));
    wrong
}

fn marks_are(expected: &str, sample: &Value) -> Option<String> {
    let mut marks: Vec<(&String, i64)> = sample["marks"]
        .as_object()?
        .iter()
        .map(|(name, mark)| (name, mark["at_ns"].as_i64().unwrap()))
        .collect();
    let order = |name: &str| MARKS_IN_ORDER.iter().position(|known| *known == name);
    marks.sort_by_key(|(name, _)| order(name));
    if !marks.is_sorted_by_key(|(_, at)| *at) {
        return Some(format!("marks out of order: {marks:?}"));
    }
    let names: Vec<&str> = marks.iter().map(|(name, _)| name.as_str()).collect();
    (names.join(" ") != expected.trim()).then(|| format!("marks: {}", names.join(" ")))
}

const MARKS_IN_ORDER: [&str; 10] = [
    "domain_lookup_start",
    "domain_lookup_end",
    "connect_start",
    "tcp_connected",
    "secure_connection_start",
    "handshake_complete",
    "request_start",
    "request_end",
    "response_start",
    "response_end",
];

/// Checks every sample: the parts add up to the phases, the phases to the total, and a failure comes after everything
/// that was measured.
fn disagreements(sample: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let sum = |parts: &Value| -> i64 {
        parts.as_object().unwrap().values().map(|part| part.as_i64().unwrap()).sum()
    };
    let total = sample["total_ns"].as_i64().unwrap();
    if sum(&sample["split"]["parts"]) != total {
        wrong.push(format!("parts sum to {}, total {total}", sum(&sample["split"]["parts"])));
    }
    for phase in sample["split"]["phases"].as_array().unwrap() {
        if sum(&phase["parts"]) != phase["duration_ns"].as_i64().unwrap() {
            wrong.push(format!("parts of a phase do not sum up: {phase}"));
        }
    }
    let failed_at = sample["failure"]["at_ns"].as_i64();
    let last =
        sample["marks"].as_object().unwrap().values().filter_map(|m| m["at_ns"].as_i64()).max();
    if let (Some(failed_at), Some(last)) = (failed_at, last)
        && failed_at < last
    {
        wrong.push(format!("failed at {failed_at}, before the last mark at {last}"));
    }
    wrong
}
