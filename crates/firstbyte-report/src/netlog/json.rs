//! Requests as JSON, one per line. Unknown values are left out.

use std::io::{self, Write};
use std::time::Duration;

use firstbyte_sources::netlog::{
    AddressAttempt, AttemptEnd, JobOutcome, NetLogConnection, NetLogFinding, NetLogJob,
    NetLogRequest, PoolLimit, SocketOrigin,
};
use serde_json::{Map, Value, json};

/// Writes `request` and a line end.
///
/// # Errors
/// Returns errors from writing to `out`.
pub fn line(request: &NetLogRequest, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &object(request))?;
    out.write_all(b"\n")
}

/// An object of the members that have a value.
fn members<const N: usize>(all: [(&str, Value); N]) -> Value {
    let said = all.into_iter().filter(|(_, value)| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
    Value::Object(said.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
}

fn ns(time: Option<Duration>) -> Value {
    json!(time.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)))
}

fn object(request: &NetLogRequest) -> Value {
    let idle = match request.origin {
        Some(SocketOrigin::Idle { idle }) => idle,
        _ => None,
    };
    members([
        ("url", json!(request.url)),
        ("host", json!(request.host)),
        ("method", json!(request.method)),
        ("frame", json!(request.frame)),
        ("began_ns", ns(Some(request.began))),
        ("total_ns", ns(request.total)),
        ("status", json!(request.status)),
        ("error", json!(request.error)),
        ("stream_ns", ns(request.stream)),
        ("send_ns", ns(request.send)),
        ("wait_ns", ns(request.wait)),
        ("receive_ns", ns(request.receive)),
        ("jobs", request.jobs.iter().map(job).collect()),
        (
            "alternative",
            json!(request.alternative.as_ref().map(|alternative| {
                json!({ "service": alternative.service, "broken": alternative.broken })
            })),
        ),
        ("proxy", json!(request.proxy)),
        ("tunnel_ns", ns(request.tunnel)),
        (
            "lookup",
            json!(request.lookup.as_ref().map(|lookup| {
                let sources: Vec<&str> = lookup.sources.iter().map(|it| it.name()).collect();
                members([
                    ("took_ns", ns(lookup.took)),
                    ("sources", json!(sources)),
                    ("error", json!(lookup.error)),
                ])
            })),
        ),
        ("attempts", request.attempts.iter().map(attempt).collect()),
        (
            "stall",
            json!(request.stall.as_ref().map(|stall| {
                members([("limit", json!(limit(stall.limit))), ("took_ns", ns(stall.took))])
            })),
        ),
        ("origin", json!(request.origin.map(SocketOrigin::name))),
        ("idle_ns", ns(idle)),
        ("connection", json!(request.connection.as_ref().map(connection))),
        ("restarts", json!(request.restarts)),
        ("findings", request.findings.iter().map(finding).collect()),
    ])
}

/// Name of a limit in stored forms.
pub(super) const fn limit(limit: PoolLimit) -> &'static str {
    match limit {
        PoolLimit::Host => "host",
        PoolLimit::Pool => "pool",
    }
}

fn job(job: &NetLogJob) -> Value {
    let (outcome, error) = match &job.outcome {
        JobOutcome::Won => ("won", None),
        JobOutcome::Failed(error) => ("failed", Some(error)),
        JobOutcome::NothingToTry => ("nothing-to-try", None),
        JobOutcome::Lost => ("lost", None),
        JobOutcome::Open => ("open", None),
    };
    members([
        ("name", json!(job.name)),
        ("quic", json!(job.quic)),
        ("outcome", json!(outcome)),
        ("error", json!(error)),
        ("held_ns", ns(job.held)),
        ("connect_ns", ns(job.connect)),
        ("answered", json!(job.answered)),
    ])
}

/// How an attempt ended, and why it failed.
pub(super) fn end(attempt: &AddressAttempt) -> (&'static str, Option<&str>) {
    match &attempt.end {
        AttemptEnd::Connected => ("connected", None),
        AttemptEnd::Failed(error) => ("failed", Some(error)),
        AttemptEnd::GivenUp => ("given-up", None),
        AttemptEnd::Unknown => ("unknown", None),
    }
}

fn attempt(attempt: &AddressAttempt) -> Value {
    let (end, error) = end(attempt);
    members([
        ("address", json!(attempt.address)),
        ("began_ns", ns(Some(attempt.began))),
        ("took_ns", ns(attempt.took)),
        ("end", json!(end)),
        ("error", json!(error)),
    ])
}

fn connection(connection: &NetLogConnection) -> Value {
    members([
        ("number", json!(connection.number)),
        ("transport", json!(connection.transport.name())),
        ("began_ns", ns(connection.began)),
        ("remote", json!(connection.remote)),
        ("backup", json!(connection.backup)),
        ("handshake_ns", ns(connection.handshake)),
        ("tls_version", json!(connection.tls_version)),
        ("cipher_suite", json!(connection.cipher_suite)),
        ("group", json!(connection.group)),
        ("alpn", json!(connection.alpn)),
        ("resumed", json!(connection.resumed)),
        ("early_data_accepted", json!(connection.early_data)),
        ("hello_retry_ns", ns(connection.hello_retry)),
        ("encrypted_hello", json!(connection.encrypted_hello)),
        ("ticket_held", json!(connection.ticket_held)),
        ("quic_version", json!(connection.quic_version)),
        ("version_negotiation", json!(connection.version_negotiation)),
        ("lost_packets", json!(connection.lost_packets)),
        ("answered", json!(connection.answered)),
        ("closed_by", json!(connection.closed_by)),
    ])
}

fn finding(finding: &NetLogFinding) -> Value {
    members([
        ("kind", json!(finding.kind.name())),
        ("cost_ns", ns(finding.cost)),
        ("evidence", json!(finding.evidence)),
    ])
}
