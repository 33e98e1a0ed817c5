//! Name servers that refuse, or do not answer.

use super::measured::{self, Curl, Row};
use crate::support::dns::{Answer, DnsServer};

const NO_OPTION: Curl = Curl::Cannot("Debian's curl cannot be told which name server to ask");
const ASKED: &str = "domain_lookup_start";

pub(crate) const ROWS: &[Row] = &[
    Row {
        server: || DnsServer::start(Answer::Code(3)).into(),
        arguments: &["--resolver", "127.0.0.1:{port}"],
        url: "https://nowhere.test/",
        code: 6,
        cause: "name-not-found",
        says: "resolve: no such name: nowhere.test (NXDOMAIN)\n\
               hint: check the spelling, or give the address with --resolve HOST:PORT:ADDRESS",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Code(2)).into(),
        arguments: &["--resolver", "127.0.0.1:{port}"],
        url: "https://a.test/",
        code: 6,
        cause: "resolver-failed",
        says: "resolve: could not resolve a.test: the name server answered SERVFAIL\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Code(5)).into(),
        arguments: &["--resolver", "127.0.0.1:{port}"],
        url: "https://a.test/",
        code: 6,
        cause: "resolver-failed",
        says: "resolve: could not resolve a.test: the name server answered REFUSED\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Addresses(vec![])).into(),
        arguments: &["--resolver", "127.0.0.1:{port}"],
        url: "https://a.test/",
        code: 6,
        cause: "no-addresses",
        says: "resolve: a.test has no address",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Addresses(vec!["192.0.2.1".parse().unwrap()])).into(),
        arguments: &["--resolver", "127.0.0.1:{port}", "-6"],
        url: "https://a.test/",
        code: 6,
        cause: "no-addresses",
        says: "resolve: a.test has no IPv6 address\n\
               hint: try without the flag that forces IPv6",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Silence).into(),
        arguments: &["--resolver", "127.0.0.1:{port}", "--connect-timeout", "0.2"],
        url: "https://a.test/",
        code: 28,
        cause: "resolver-timed-out",
        says: "resolve: no answer for a.test within 200 ms: 127.0.0.1:{port} was asked once\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Silence).into(),
        arguments: &["--resolver", "127.0.0.1:{port}", "--max-time", "0.2"],
        url: "https://a.test/",
        code: 28,
        cause: "resolver-timed-out",
        says: "resolve: no answer for a.test within 200 ms: 127.0.0.1:{port} was asked once\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || DnsServer::start(Answer::Garbage).into(),
        arguments: &["--resolver", "127.0.0.1:{port}", "--connect-timeout", "0.2"],
        url: "https://a.test/",
        code: 28,
        cause: "resolver-timed-out",
        says: "resolve: no answer for a.test within 200 ms: 127.0.0.1:{port} was asked once\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || crate::support::peer::Peer::closed().into(),
        arguments: &["--resolver", "127.0.0.1:{port}", "--connect-timeout", "0.2"],
        url: "https://a.test/",
        code: 6,
        cause: "resolver-failed",
        says: "resolve: could not resolve a.test: name server 127.0.0.1:{port}: connection refused\n\
               hint: ask another resolver with --resolver, or give the address with --resolve",
        marks: ASKED,
        curl: NO_OPTION,
    },
    Row {
        server: || crate::support::peer::Peer::closed().into(),
        // Refused without asking any name server.
        arguments: &["--resolver", "system"],
        url: "http://a-label-longer-than-the-sixty-three-characters-that-a-label-may-have.test/",
        code: 6,
        cause: "name-not-found",
        says: "resolve: no such name: a-label-longer-than-the-sixty-three-characters-that-a-label-may-have.test (NXDOMAIN)\n\
               hint: check the spelling, or give the address with --resolve HOST:PORT:ADDRESS",
        marks: ASKED,
        curl: NO_OPTION,
    },
];

#[test]
fn name_servers_that_do_not_answer() {
    measured::check(ROWS);
}
