//! Advice about a failure or a finding, phrased for the command line.
//!
//! Input: a cause or a finding. Output: a sentence, if there is any advice. The core reports what happened and
//! knows no flags; views for users who can set flags get their advice here.

use std::borrow::Cow;

use firstbyte_core::run::Taken;
use firstbyte_core::timeline::{
    Cause, Connection, LastSeen, OfferedGroups, PhaseName, Sample, TimeLimit,
};
use firstbyte_explain::{Finding, FindingKind, WayKind};

/// Advice about a sample's failure, from everything known about its connection.
pub fn for_sample(sample: &Sample) -> Option<String> {
    match &sample.connection.failure {
        Some(_) => for_connection(&sample.connection),
        None => for_failure(&sample.failure()?.cause),
    }
}

/// The same for a connection.
pub fn for_connection(connection: &Connection) -> Option<String> {
    let failure = connection.failure.as_ref()?;
    let cause = &failure.cause;
    let is_of_tls = !matches!(cause, Cause::Recorded { .. } | Cause::TimedOut { .. });
    if failure.phase == PhaseName::ProxyTls && is_of_tls {
        let proxy = connection.facts.proxy.as_ref()?;
        return Some(format!("this is the TLS of the proxy {}", proxy.authority));
    }
    let other = for_failure(cause);
    let facts = &connection.facts;
    // Other clients have other flags.
    let Some(bytes) = connection.unanswered_large_hello().filter(|_| facts.client.is_none()) else {
        return other;
    };
    // Without a session ticket, only a post-quantum key share makes the hello this large.
    let is_new = facts.tls.as_ref().is_some_and(|tls| tls.session_offered.is_none());
    let why = if is_new { ", with a key share such as X25519MLKEM768's" } else { "" };
    let effect = match cause {
        Cause::TimedOut { peer: LastSeen::HelloStuck { .. }, .. } => "may be lost on the way",
        _ => "some servers and middleboxes do not take",
    };
    let or = other.map_or_else(String::new, |other| format!(", or {other}"));
    Some(format!(
        "the ClientHello is larger than a segment ({bytes} bytes{why}), which {effect}: try --curves x25519{or}"
    ))
}

/// Advice about a failure. For a failure read from a file, the advice that was recorded with it.
pub fn for_failure(cause: &Cause) -> Option<String> {
    let advice = match cause {
        Cause::Recorded { advice, .. } => return advice.clone(),
        Cause::NoAddresses { family, .. } if *family != "any" => {
            return Some(format!("try without the flag that forces {family}"));
        }
        Cause::Refused { remote } => {
            let port = remote.port();
            return Some(format!(
                "nothing listens on port {port}, or a firewall rejects the \
                                 connection"
            ));
        }
        Cause::NameNotFound { .. } => {
            "check the spelling, or give the address with --resolve HOST:PORT:ADDRESS"
        }
        Cause::ResolverFailed { .. } | Cause::ResolverTimedOut { .. } => {
            "ask another resolver with --resolver, or give the address with --resolve"
        }
        Cause::ProxyRefused { status: Some(407), .. } => {
            "give the proxy's user with -U USER:PASSWORD, or in the proxy's URL"
        }
        Cause::ProxyRefused { .. } => {
            "ask the administrator of the proxy, or connect directly with --noproxy HOST"
        }
        Cause::ConnectTimedOut { .. } => {
            "the SYN was never answered: a firewall drops it, or the host is down"
        }
        Cause::QuicConnectTimedOut { .. } => {
            "no datagram came back: a firewall drops UDP, or the server does not speak QUIC"
        }
        Cause::CertificateExpired { authority: Some(_), .. } => {
            "have the server send its issuer's current intermediate; -k measures anyway, unverified"
        }
        Cause::CertificateExpired { .. } => {
            "renew the server's certificate; -k measures anyway, unverified"
        }
        Cause::CertificateNotYetValid { .. } => "check both clocks; -k measures anyway, unverified",
        Cause::CertificateWrongName { as_dns_name: true, .. } => {
            "issue it with the address as an IP address (subjectAltName = IP:…), or use a name; -k measures \
             anyway, unverified"
        }
        Cause::CertificateWrongName { .. } => {
            "use a name from the certificate, or -k to measure unverified"
        }
        Cause::CertificateUnknownIssuer { alone: true, .. } => {
            "have the server send the intermediates too (fullchain.pem); for a private CA pass it with --cacert \
             FILE, or -k to measure unverified"
        }
        Cause::CertificateUnknownIssuer { .. } => {
            "pass the issuing CA with --cacert FILE, or -k to measure unverified"
        }
        Cause::CertificateInvalid { .. } => "-k measures anyway, unverified",
        Cause::CertificateSelfSigned { .. } => {
            "pass the certificate itself with --cacert FILE, or -k to measure unverified"
        }
        Cause::ProtocolVersionRefused { offered } if offered == "TLS 1.2" => {
            "drop --tls-max to offer TLS 1.3 too"
        }
        Cause::ProtocolVersionRefused { .. } if cause.was_narrowed() => {
            "drop --tlsv1.3 to offer TLS 1.2 too"
        }
        Cause::NoCommonParameters { groups: OfferedGroups::Chosen, .. } => {
            "drop --curves, or offer other groups with it"
        }
        Cause::NoCommonParameters { groups: OfferedGroups::Usual, .. } => {
            "--client curl measures servers that have RSA key exchange or CBC alone; where it fails \
             too, the server's log says what it wants"
        }
        Cause::RenegotiationRefused => {
            "--client curl renegotiates; servers often do so to ask for a client certificate: let this \
             one ask in the handshake"
        }
        Cause::AlpnMismatch { offered } if offered == "h2" => {
            "drop --http2-prior-knowledge to offer HTTP/1.1 too"
        }
        Cause::AlpnMismatch { .. } if cause.was_narrowed() => "drop --http1.1 to offer HTTP/2 too",
        Cause::ClientCertificateRequired => "pass one with --cert FILE --key FILE",
        Cause::ClientCertificateRefused { .. } => {
            "pass one that the server trusts with --cert FILE --key FILE"
        }
        Cause::NotTls { looks_like: Some("HTTP"), server: Some(server) } => {
            return Some(format!("try http://{server}/"));
        }
        Cause::NotTls { looks_like: Some("HTTP"), server: None } => "try http:// for this port",
        Cause::NotTls { .. } => "check the port",
        Cause::NotHttp { tls: true, .. } => "the port answers in TLS: use https://",
        Cause::TimedOut { peer: LastSeen::Hole | LastSeen::HelloStuck { .. }, .. } => {
            "find the hop that drops large packets with tracepath; a smaller MTU or MSS avoids it"
        }
        Cause::SpeaksTls { .. } => "use https:// for this port",
        Cause::ShutDown { asked: 1, .. } => {
            "measure again: the server was ending the connection, and has not processed the request"
        }
        Cause::ShutDown { .. } => {
            "ask for fewer with --requests N, or for more connections with --parallel N"
        }
        Cause::TimedOut { peer: LastSeen::WindowFull, .. } => {
            "it is not the network: see at the server why it does not read (overloaded, stopped, a tarpit)"
        }
        Cause::TimedOut { limit: TimeLimit::Connection, .. } => {
            "allow more with --connect-timeout TIME"
        }
        Cause::TimedOut { limit: TimeLimit::Visit, .. } => "allow more with --max-time TIME",
        Cause::TooManyRedirects { circle: Some(circle), .. } if circle.sets_cookie => {
            "send the cookie: -H 'Cookie: NAME=VALUE'"
        }
        Cause::TooManyRedirects { circle: Some(_), .. } => {
            "more redirects do not help: the server redirects in a circle; check scheme, host and final \
             slash of the URL"
        }
        Cause::TooManyRedirects { .. } => "allow more with --max-redirs N",
        _ => return None,
    };
    Some(advice.into())
}

/// Advice about a finding.
pub fn for_finding(finding: &Finding) -> Cow<'_, str> {
    match (finding.kind, finding.avoided_by.and_then(flag)) {
        (FindingKind::SlowDns, _) => {
            "Use a nearer or a caching resolver (--resolver ADDRESS tries one), or a longer TTL \
             for the name's records."
                .into()
        }
        (FindingKind::LateAaaa, Some(flag)) => format!(
            "Find out why the name servers answer AAAA queries slowly. A client can use {flag}, or \
             connect after the Resolution Delay of RFC 8305 (50 ms)."
        )
        .into(),
        (_, Some(flag)) => {
            format!("{} Until then, {flag} avoids the delay.", finding.advice).into()
        }
        (_, None) => Cow::Borrowed(&finding.advice),
    }
}

/// The flag that makes connections go this way.
const fn flag(way: WayKind) -> Option<&'static str> {
    match way {
        WayKind::Ipv4 => Some("--ipv4"),
        WayKind::Ipv6 => Some("--ipv6"),
        _ => None,
    }
}

/// `connection` with advice added if it failed; for outputs that store failures.
pub fn on_connection(connection: &Connection) -> Cow<'_, Connection> {
    let Some(failure) = &connection.failure else { return Cow::Borrowed(connection) };
    let Some(advice) = for_connection(connection) else { return Cow::Borrowed(connection) };
    let mut told = connection.clone();
    if let Some(told) = &mut told.failure {
        told.cause = Cause::Recorded {
            name: failure.cause.name().into(),
            failure_type: failure.failure_type(),
            fault: failure.cause.fault(),
            message: failure.cause.to_string(),
            advice: Some(advice),
        };
    }
    Cow::Owned(told)
}

/// `sample` with advice added if it failed.
pub fn on_sample(sample: &Sample) -> Cow<'_, Sample> {
    match on_connection(&sample.connection) {
        Cow::Borrowed(_) => Cow::Borrowed(sample),
        Cow::Owned(connection) => Cow::Owned(Sample { connection, ..sample.clone() }),
    }
}

/// `taken` with advice added if it failed.
pub fn on_taken(taken: &Taken) -> Cow<'_, Taken> {
    match on_sample(&taken.sample) {
        Cow::Borrowed(_) => Cow::Borrowed(taken),
        Cow::Owned(sample) => Cow::Owned(Taken { sample, ..taken.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use firstbyte_core::timeline::{ClientFacts, Direction, Failure, Fault, PhaseName, TlsFacts};

    use super::*;
    use crate::fixtures;

    #[test]
    fn what_is_told_is_the_same_failure_with_the_advice() {
        let sample = fixtures::expired_certificate();
        let (before, told) = (sample.failure().unwrap(), on_sample(&sample).into_owned());
        let after = told.failure().unwrap();
        assert_eq!((after.phase, after.at), (before.phase, before.at));
        assert_eq!(after.failure_type(), before.failure_type());
        assert_eq!(after.cause.name(), before.cause.name());
        assert_eq!(after.cause.fault(), before.cause.fault());
        assert_eq!(after.cause.to_string(), before.cause.to_string());
        assert_eq!(for_failure(&after.cause), for_failure(&before.cause));
        assert!(matches!(on_sample(&told), Cow::Owned(again) if again == told));
        assert!(matches!(on_sample(&fixtures::tls13_http2()), Cow::Borrowed(_)));
    }

    /// A connection that failed in TLS after a ClientHello of this size.
    fn after_hello(bytes: u64, cause: Cause) -> Connection {
        let hello = fixtures::flight(Direction::Sent, &[(1_000, bytes)], &["ClientHello"]);
        let mut connection = Connection { flights: vec![hello], ..Connection::default() };
        connection.facts.tls = Some(TlsFacts::default());
        connection.failure = Some(Failure { phase: PhaseName::Tls, cause, at: None });
        connection
    }

    fn timed_out(peer: LastSeen) -> Cause {
        Cause::TimedOut { after: Duration::from_secs(2), limit: TimeLimit::Visit, peer }
    }

    const LARGE: &str = "the ClientHello is larger than a segment (1462 bytes, with a key share such as \
                         X25519MLKEM768's), which ";

    #[test]
    fn a_large_hello_that_nobody_answers_is_blamed() {
        let stuck = LastSeen::HelloStuck {
            hello_bytes: 1_462,
            segment_bytes: 1_448,
            retransmits: 5,
            end_arrived: true,
        };
        let others = "some servers and middleboxes do not take: try --curves x25519";
        for (cause, expected) in [
            (Cause::ResetInHandshake, others.to_owned()),
            (Cause::ClosedInHandshake, others.to_owned()),
            (
                timed_out(LastSeen::Acknowledged),
                format!("{others}, or allow more with --max-time TIME"),
            ),
            (
                timed_out(stuck),
                "may be lost on the way: try --curves x25519, or find the hop that drops large packets with \
                 tracepath; a smaller MTU or MSS avoids it"
                    .into(),
            ),
        ] {
            let connection = after_hello(1_462, cause.clone());
            assert_eq!(for_connection(&connection).unwrap(), format!("{LARGE}{expected}"));

            let usual = for_failure(&cause);
            assert_eq!(for_connection(&after_hello(500, cause.clone())), usual, "{cause}");
            let mut answered = connection.clone();
            answered.flights.push(fixtures::received(&[(2_000, 7)], &[]));
            assert_eq!(for_connection(&answered), usual, "{cause}");
            let mut elsewhere = connection.clone();
            elsewhere.facts.client = Some(ClientFacts::default());
            assert_eq!(for_connection(&elsewhere), usual, "{cause}");
        }
    }

    #[test]
    fn a_hole_in_the_answer_is_the_networks() {
        let cause = timed_out(LastSeen::Hole);
        assert_eq!(cause.fault(), Fault::Network);
        assert!(for_failure(&cause).unwrap().contains("tracepath"));
        let alert = Cause::TlsAlert { alert: "internal_error".into() };
        assert_eq!(for_connection(&after_hello(1_462, alert)), None);
        // Nothing proves that it was sent: the server's window may be closed.
        let unsent = timed_out(LastSeen::Nothing);
        assert_eq!(for_connection(&after_hello(1_462, unsent.clone())), for_failure(&unsent));
    }

    #[test]
    fn each_limit_has_its_flag() {
        for (limit, expected) in [
            (TimeLimit::Connection, "allow more with --connect-timeout TIME"),
            (TimeLimit::Visit, "allow more with --max-time TIME"),
        ] {
            let after = Duration::from_secs(1);
            let cause = Cause::TimedOut { after, limit, peer: LastSeen::Nothing };
            assert_eq!(for_failure(&cause).as_deref(), Some(expected));
            let failure = Failure { phase: PhaseName::Wait, cause, at: None };
            assert_eq!(failure.failure_type().as_str(), "http.timed_out");
        }
    }
}
