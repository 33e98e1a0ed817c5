//! Servers that cannot prove who they are.

use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, date_time_ymd};

use super::measured::{self, Curl, IN_TLS, Row, Stage};
use crate::support::certificates::{
    Identity, TRUSTED, UNKNOWN, good, self_signed, server, signed_with_sha1,
};
use crate::support::peer::{Peer, answer_tls};

fn with(identity: &Identity) -> Stage {
    Peer::tls(server(identity, &[]), |stream| {
        answer_tls(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    })
    .into()
}

const NAMED: &[&str] = &["--cacert", "ca.pem", "--resolve", "*:{port}:127.0.0.1"];

pub(crate) const ROWS: &[Row] = &[
    Row {
        server: || with(&TRUSTED.issue(&["a.test"], |c| c.not_after = date_time_ymd(2024, 5, 17))),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-expired",
        says: "tls: certificate expired on 2024-05-17\nhint: renew the server's certificate; -k \
               measures anyway, unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&TRUSTED.issue(&["a.test"], |c| c.not_before = date_time_ymd(2080, 2, 29))),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-not-yet-valid",
        says: "tls: certificate not valid before 2080-02-29\nhint: check both clocks; -k measures \
               anyway, unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&TRUSTED.issue(&["www.a.test", "*.b.test"], |_| ())),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-wrong-name",
        says: "tls: certificate does not cover a.test: it is for www.a.test, *.b.test\n\
               hint: use a name from the certificate, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&TRUSTED.issue(&["a.test", "192.0.2.1"], |_| ())),
        arguments: NAMED,
        url: "https://127.0.0.1:{port}/",
        code: 60,
        cause: "certificate-wrong-name",
        says: "tls: certificate does not cover 127.0.0.1: it is for a.test, 192.0.2.1\n\
               hint: use a name from the certificate, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&TRUSTED.issue(&[], |_| ())),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-wrong-name",
        says: "tls: certificate does not cover a.test: it names no host\n\
               hint: use a name from the certificate, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&UNKNOWN.issue(&["a.test"], |_| ())),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-unknown-issuer",
        says: "tls: certificate issued by an unknown authority: CN=somebody else's CA; the server sends its own \
               certificate alone: the chain is incomplete, or that authority is a private one\n\
               hint: have the server send the intermediates too (fullchain.pem); for a private CA pass \
               it with --cacert FILE, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&good()),
        arguments: &[],
        url: "https://127.0.0.1:{port}/",
        code: 60,
        cause: "certificate-unknown-issuer",
        says: "tls: certificate issued by an unknown authority: CN=the tests' own CA; the server sends its own \
               certificate alone: the chain is incomplete, or that authority is a private one\n\
               hint: have the server send the intermediates too (fullchain.pem); for a private CA pass \
               it with --cacert FILE, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || with(&self_signed()),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-self-signed",
        says: "tls: self-signed certificate: CN=server\n\
               hint: pass the certificate itself with --cacert FILE, or -k to measure unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            with(&TRUSTED.issue(&["a.test"], |c| {
                c.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning];
            }))
        },
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-invalid",
        says: "tls: certificate not valid: it is not for server authentication\nhint: -k measures \
               anyway, unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
    Row {
        server: || {
            with(&TRUSTED.issue(&["a.test"], |c| {
                c.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            }))
        },
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-invalid",
        says: "tls: certificate not valid: it is a CA's own certificate (CA:TRUE), not one for a \
               server\nhint: -k measures anyway, unverified",
        marks: IN_TLS,
        curl: Curl::Ends(0, "curl takes a CA's own certificate for a server's"),
    },
    Row {
        server: || with(&signed_with_sha1()),
        arguments: NAMED,
        url: "https://a.test:{port}/",
        code: 60,
        cause: "certificate-invalid",
        says: "tls: certificate not valid: it is signed with SHA-1, which is too weak\nhint: -k \
               measures anyway, unverified",
        marks: IN_TLS,
        curl: Curl::Same,
    },
];

#[test]
fn certificates_that_prove_nothing() {
    measured::check(ROWS);
}

#[test]
fn certificates_that_prove_nothing_and_curl() {
    measured::check_curl(ROWS);
}
