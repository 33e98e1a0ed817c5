//! Converts a transfer's report and log to a connection of the model.
//!
//! Marks are stamped `reported`, with curl's resolution of a microsecond. Values that curl does not report are absent:
//! when the first SYN and the first byte of the request were sent, lookups, attempts, flights, kernel data.

use firstbyte_core::timeline::{
    Cause, Certificate, ClientFacts, Clock, Connection, EarlyData, Failure, Handshake, HttpFacts,
    Mark, Offset, PhaseName, SessionMechanism, Stamp, TlsFacts,
};
use firstbyte_probe::probe::options::{HttpVersion, TlsVersion};

use super::capabilities::CurlCapabilities;
use super::config::Asked;
use super::failure::{self, Circumstances};
use super::log::Proven;
use super::report::Report;
use super::run::Said;

/// Resolution of curl's clock: a microsecond.
const RESOLUTION_NS: u32 = 1_000;

/// The connection of the requested exchange: the last one in the output.
pub(super) fn connection(asked: &Asked<'_>, said: &Said) -> Connection {
    let mut connection = blank(asked);
    let expected = if asked.kept { 2 } else { 1 };
    let Some(report) = said.reports.last().filter(|_| said.reports.len() == expected) else {
        connection.failure = Some(unsaid(said));
        return connection;
    };
    let report = match Report::read(report) {
        Ok(report) => report,
        Err(detail) => {
            let cause = failure::client_failed(&format!("cannot read curl's output: {detail}"));
            connection.failure = Some(Failure { phase: PhaseName::Resolve, cause, at: None });
            return connection;
        }
    };
    let proven = Proven::read(said);
    let reused = asked.kept && proven.reused && report.new_connections == Some(0);
    // The connection is the previous exchange's, whose report has its certificates.
    let first_report = said.reports.first().and_then(|first| Report::read(first).ok());
    let code = report.exit_code.or(said.status).unwrap_or(0);
    marks(&mut connection, asked, &report, reused, code == 0);
    let facts = &mut connection.facts;
    (facts.remote, facts.local, facts.reused) = (report.remote, report.local, reused);
    let certificates = match (&first_report, reused) {
        (Some(first), true) => &first.certificates,
        _ => &report.certificates,
    };
    let settled = reused || report.times.appconnect.is_some();
    if asked.target.tls {
        facts.tls = tls(asked, &report, &proven, settled, certificates);
    }
    facts.http = Some(http(asked, &report, &proven));
    connection.failure = failed(asked, &report, &proven, code);
    connection
}

fn blank(asked: &Asked<'_>) -> Connection {
    let mut connection = Connection { url: asked.target.url_with_zone(), ..Connection::default() };
    connection.facts.client = Some(client(&asked.options.able));
    let method = asked.http.method.as_str().to_owned();
    connection.facts.http = Some(HttpFacts { method, ..HttpFacts::default() });
    connection
}

/// curl's name and version.
pub(super) fn client(able: &CurlCapabilities) -> ClientFacts {
    ClientFacts {
        name: "curl".to_owned(),
        version: Some(able.version_text.clone()),
        tls_library: able.tls_library.clone(),
    }
}

/// The failure of a curl without a report: it crashed, was killed, rejected its options, or is another program.
fn unsaid(said: &Said) -> Failure {
    let words = |line: &&String| line.starts_with("curl: ");
    let last = said.log.iter().rfind(words).map(|line| failure::shown(line));
    let what = match (said.status, last) {
        (Some(status @ 129..), _) => format!("curl was ended by signal {}", status - 128),
        (Some(status), Some(words)) => format!("curl ended with exit code {status}: {words}"),
        (Some(status), None) => {
            format!("curl ended with exit code {status} and without its report")
        }
        (None, _) => "curl's output ended too early".to_owned(),
    };
    Failure { phase: PhaseName::Resolve, cause: failure::client_failed(&what), at: None }
}

fn marks(
    connection: &mut Connection,
    asked: &Asked<'_>,
    report: &Report,
    reused: bool,
    whole: bool,
) {
    let clock = Clock::Reported { resolution_ns: RESOLUTION_NS };
    let quic = is_quic(asked, report);
    let times = &report.times;
    let mut mark = |mark, at: Option<i64>| {
        if let Some(at) = at {
            connection.marks.set(mark, Stamp { at: Offset::from_nanos(at), clock });
        }
    };
    // An exchange on an open connection reports tens of microseconds here, although nothing was set up.
    if !reused {
        mark(Mark::DomainLookupEnd, times.namelookup);
        if !quic {
            mark(Mark::TcpConnected, times.connect);
        }
        if asked.target.tls {
            mark(Mark::HandshakeComplete, times.appconnect);
            if !quic && times.appconnect.is_some() {
                mark(Mark::SecureConnectionStart, times.connect);
            }
        }
    }
    let answered = times.starttransfer.filter(|_| report.status.is_some());
    let sent = match times.posttransfer {
        Some(at) => Some(at),
        // Read when the request's header was written; a body may follow.
        None => times.pretransfer.filter(|_| asked.http.body.is_none()),
    };
    // A busy curl may read the response before it looks at the clock again.
    mark(Mark::RequestEnd, sent.filter(|at| answered.is_none_or(|answered| *at <= answered)));
    mark(Mark::ResponseStart, answered);
    if whole && answered.is_some() {
        mark(Mark::ResponseEnd, times.total);
    }
}

fn is_quic(asked: &Asked<'_>, report: &Report) -> bool {
    report.http_version.as_deref() == Some("3") || asked.http.version == HttpVersion::Http3
}

fn tls(
    asked: &Asked<'_>,
    report: &Report,
    proven: &Proven,
    settled: bool,
    certificates: &str,
) -> Option<TlsFacts> {
    let begun = settled || proven.in_handshake || proven.tls_version.is_some();
    if !begun {
        return None;
    }
    let insecure = asked.options.options.tls.insecure;
    // CURLE_PEER_FAILED_VERIFICATION, and the older code for unknown issuers.
    let refused = matches!(report.exit_code, Some(51 | 60));
    // QUIC requires TLS 1.3 (RFC 9001 §4.2).
    let by_quic =
        || (settled && report.http_version.as_deref() == Some("3")).then(|| "TLSv1.3".to_owned());
    let version = proven.tls_version.clone().or_else(by_quic);
    // Early data is only accepted together with the session that it was sent with (RFC 8446 §4.2.10).
    let accepted_early = report.early_data_bytes.is_some_and(|bytes| bytes > 0);
    let by_early_data = (settled && accepted_early).then_some(Handshake::Resumed);
    let handshake = proven.handshake.filter(|_| settled).or(by_early_data);
    let session_offered = proven.mechanism().or_else(|| {
        let psk = handshake == Some(Handshake::Resumed) && version.as_deref() == Some("TLSv1.3");
        psk.then_some(SessionMechanism::Psk)
    });
    Some(TlsFacts {
        cipher_suite: proven.cipher_suite.clone(),
        group: proven.group.clone(),
        handshake,
        session_offered,
        early_data: report.early_data_bytes.map(|bytes| EarlyData {
            bytes_before_server_hello: Some(bytes.unsigned_abs()),
            accepted: Some(bytes > 0),
        }),
        alpn: proven.alpn.clone(),
        certificates: chain(certificates),
        // With `-k` curl still examines the certificate, but not the name in it.
        verified: if settled && !insecure { Some(true) } else { refused.then_some(false) },
        tickets_received: proven.tickets_received,
        version,
        ..TlsFacts::default()
    })
}

fn http(asked: &Asked<'_>, report: &Report, proven: &Proven) -> HttpFacts {
    let answered = report.status.is_some();
    // Over HTTP/2 and HTTP/3 curl counts its own text form of the fields, not the bytes on the connection.
    let on_the_wire =
        report.http_version.as_deref().is_some_and(|version| version.starts_with('1'));
    let uploads = asked.http.body.as_ref().map(|body| body.reveal().len() as u64);
    HttpFacts {
        method: asked.http.method.as_str().to_owned(),
        version: report.http_version.clone().filter(|_| answered),
        status: report.status,
        headers: proven.headers.clone(),
        request_bytes: report.request_bytes.filter(|_| on_the_wire && uploads.is_none()),
        upload_bytes: uploads.filter(|_| proven.request_sent),
        header_bytes: report.header_bytes.filter(|_| on_the_wire),
        body_bytes: report.downloaded_bytes.filter(|_| answered),
        ..HttpFacts::default()
    }
}

fn failed(asked: &Asked<'_>, report: &Report, proven: &Proven, code: i32) -> Option<Failure> {
    let at = report.times.total.map(Offset::from_nanos);
    if code == 0 {
        let status = report.status.filter(|status| asked.http.fail && *status >= 400)?;
        let cause = Cause::HttpStatus { status };
        return Some(Failure { phase: PhaseName::Receive, cause, at });
    }
    let tls = &asked.options.options.tls;
    let message =
        report.error_message.as_deref().or(proven.last_words.as_deref()).unwrap_or_default();
    Some(failure::failure(&Circumstances {
        code,
        message,
        proven,
        remote: report.remote,
        host: &asked.target.host,
        tls: asked.target.tls,
        quic: is_quic(asked, report),
        offered: match (tls.min, tls.max) {
            (TlsVersion::V1_3, _) => "TLS 1.3",
            (_, TlsVersion::V1_2) => "TLS 1.2",
            _ => "TLS 1.2 and TLS 1.3",
        },
        connect_timeout: asked.options.options.connect_timeout,
        max_time: asked.max_time,
        received_bytes: report.downloaded_bytes.unwrap_or(0),
        at,
    }))
}

/// Parses the server's certificates from `%{certs}` (since 7.88): lines of names and values, each certificate followed
/// by its PEM.
fn chain(text: &str) -> Vec<Certificate> {
    const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
    const END: &str = "-----END CERTIFICATE-----";
    let mut certificates = Vec::new();
    let mut rest = text;
    while let Some((fields, behind)) = rest.split_once(BEGIN) {
        let Some((pem, next)) = behind.split_once(END) else { break };
        let value = |name: &str| {
            let line = fields.lines().find_map(|line| line.strip_prefix(name));
            line.map_or_else(String::new, |value| value.trim().to_owned())
        };
        let letters = pem.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() as u64;
        let padding = pem.bytes().filter(|byte| *byte == b'=').count() as u64;
        certificates.push(Certificate {
            subject: value("Subject:"),
            issuer: value("Issuer:"),
            der_bytes: (letters / 4 * 3).saturating_sub(padding),
            ..Certificate::default()
        });
        rest = next;
    }
    certificates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_counted() {
        let text = "Subject:CN = a\nIssuer:CN = b\nVersion:2\n-----BEGIN CERTIFICATE-----\nAAAA\nAAA=\n\
                    -----END CERTIFICATE-----\nSubject:CN = b\n-----BEGIN CERTIFICATE-----\nAAAAAAAA\n\
                    -----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\ncut";
        let chain = chain(text);
        assert_eq!(chain.len(), 2);
        assert_eq!((chain[0].subject.as_str(), chain[0].issuer.as_str()), ("CN = a", "CN = b"));
        assert_eq!((chain[0].der_bytes, chain[1].der_bytes), (5, 6));
        assert!(super::chain("").is_empty());
    }
}
