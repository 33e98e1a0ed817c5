//! Logs by TLS library: those of 7.88.1 were recorded here, others follow documentation and users' posts.

use super::*;

fn proven(log: &str) -> Proven {
    let log = log.lines().map(str::to_owned).collect();
    Proven::read(&Said { log, ..Said::default() })
}

/// curl 7.88.1 with OpenSSL 3.0.
const FULL: &str = "*   Trying 127.0.0.1:24443...
* Connected to site.test (127.0.0.1) port 24443 (#0)
* ALPN: offers h2,http/1.1
* TLSv1.3 (OUT), TLS handshake, Client hello (1):
* TLSv1.3 (IN), TLS handshake, Server hello (2):
* TLSv1.3 (IN), TLS handshake, Encrypted Extensions (8):
* TLSv1.3 (IN), TLS handshake, Certificate (11):
* TLSv1.3 (IN), TLS handshake, CERT verify (15):
* TLSv1.3 (IN), TLS handshake, Finished (20):
* TLSv1.3 (OUT), TLS change cipher, Change cipher spec (1):
* TLSv1.3 (OUT), TLS handshake, Finished (20):
* SSL connection using TLSv1.3 / TLS_AES_256_GCM_SHA384
* ALPN: server accepted h2
* Server certificate:
*  subject: CN=site.test
> GET / HTTP/2
> Host: site.test:24443
> authorization: Basic c2VjcmV0
> 
* TLSv1.3 (IN), TLS handshake, Newsession Ticket (4):
* TLSv1.3 (IN), TLS handshake, Newsession Ticket (4):
* old SSL session ID is stale, removing
< HTTP/2 103 
< link: </a>
< 
< HTTP/2 200 
< server: nginx/1.22.1
< Location: /x: y
< 
< trailer: 1";

#[test]
fn openssl_says_its_messages() {
    let said = proven(FULL);
    assert_eq!(said.handshake, Some(Handshake::Full));
    assert_eq!(said.tls_version.as_deref(), Some("TLSv1.3"));
    assert_eq!(said.cipher_suite.as_deref(), Some("TLS_AES_256_GCM_SHA384"));
    assert_eq!((said.group.as_deref(), said.tickets_received), (None, Some(2)));
    assert_eq!((said.alpn.as_deref(), said.mechanism()), (Some("h2"), None));
    assert_eq!(said.tried, Some("127.0.0.1:24443".parse().unwrap()));
    let header = |name: &str, value: &str| Header { name: name.into(), value: value.into() };
    assert_eq!(said.headers, [header("server", "nginx/1.22.1"), header("location", "/x: y")]);
    assert_eq!(said.status_line.as_deref(), Some("HTTP/2 200"));
    assert!(said.connected && said.request_sent && said.response_begun && !said.reused);
}

#[test]
fn a_retry_request_is_a_second_server_hello() {
    let twice = FULL.replace(
        "* TLSv1.3 (IN), TLS handshake, Server hello (2):",
        "* TLSv1.3 (IN), TLS handshake, Server hello (2):\n* TLSv1.3 (OUT), TLS handshake, Client hello (1):\n\
         * TLSv1.3 (IN), TLS handshake, Server hello (2):",
    );
    assert_eq!(proven(&twice).handshake, Some(Handshake::FullWithHelloRetryRequest));
}

/// Follows the output of curl 8.18 with OpenSSL 3.5.
#[test]
fn an_offer_is_no_resumption() {
    let offered = format!("* SSL reusing session with ALPN 'h2'\n{FULL}");
    let said = proven(&offered);
    assert!(said.session_offered);
    assert_eq!(said.handshake, Some(Handshake::Full));
    assert_eq!(said.mechanism(), Some(SessionMechanism::Psk));
}

#[test]
fn a_handshake_without_certificates_is_resumed() {
    let without: Vec<&str> = FULL
        .lines()
        .filter(|line| !line.contains("Certificate (11)") && !line.contains("CERT verify"))
        .collect();
    let resumed = without
        .join("\n")
        .replace("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384 / X25519MLKEM768 / RSASSA-PSS");
    let said = proven(&resumed);
    assert_eq!(said.handshake, Some(Handshake::Resumed));
    assert_eq!(said.mechanism(), Some(SessionMechanism::Psk));
    assert_eq!(said.group.as_deref(), Some("X25519MLKEM768"));
    // Not if it stopped before the server's Finished.
    let broken: Vec<&str> = without.iter().copied().filter(|l| !l.contains("Finished")).collect();
    assert_eq!(proven(&broken.join("\n")).handshake, None);
}

/// Posted by a user of a later curl, over TLS 1.2: which of the two mechanisms was used is unknown.
#[test]
fn tls_1_2_is_resumed_without_saying_how() {
    let said = proven(
        "* SSL reusing session with ALPN '-'
* ALPN: curl offers http/1.1
* TLSv1.2 (OUT), TLS handshake, Client hello (1):
* TLSv1.2 (IN), TLS handshake, Server hello (2):
* TLSv1.2 (IN), TLS change cipher, Change cipher spec (1):
* TLSv1.2 (IN), TLS handshake, Finished (20):
* TLSv1.2 (OUT), TLS change cipher, Change cipher spec (1):
* TLSv1.2 (OUT), TLS handshake, Finished (20):
* SSL connection using TLSv1.2 / ECDHE-RSA-AES256-GCM-SHA384 / [blank] / UNDEF
* ALPN: server accepted http/1.1",
    );
    assert_eq!((said.handshake, said.mechanism()), (Some(Handshake::Resumed), None));
    assert_eq!(said.cipher_suite.as_deref(), Some("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"));
    assert_eq!(said.group, None);
}

/// From curl's source: libraries that log no messages.
#[test]
fn other_libraries_leave_it_unknown() {
    let gnutls = proven(
        "* SSL reusing session ID (size=412)
* ALPN: curl offers h2,http/1.1
* SSL connection using TLS1.3 / ECDHE_RSA_AES_256_GCM_SHA384
*   server certificate verification OK
* ALPN: server accepted h2
* Connected to site.test (192.0.2.1) port 443",
    );
    assert_eq!((gnutls.handshake, gnutls.tickets_received), (None, None));
    assert!(gnutls.session_offered);
    assert_eq!((gnutls.tls_version.as_deref(), gnutls.cipher_suite), (Some("TLSv1.3"), None));
    let wolfssl =
        proven("* SSL connected\n* SSL connection using TLSv1.3 / TLS13-AES128-GCM-SHA256");
    assert_eq!((wolfssl.handshake, wolfssl.cipher_suite), (None, None));
    let mbedtls =
        proven("* mbedTLS: TLSv1.3 Handshake complete, cipher is TLS1-3-AES-256-GCM-SHA384");
    assert_eq!((mbedtls.handshake, mbedtls.tls_version), (None, None));
}

#[test]
fn a_kept_connection_and_a_refused_one() {
    // Lines of 7.88 and of 8.x.
    assert!(proven("* Re-using existing connection #0 with host site.test").reused);
    assert!(proven("* Reusing existing https: connection with host site.test").reused);
    let refused = proven(
        "*   Trying [::1]:1...\n* connect to ::1 port 1 failed: Connection refused\ncurl: (7) no",
    );
    assert_eq!(refused.not_connected.as_deref(), Some("Connection refused"));
    assert_eq!(refused.tried, Some("[::1]:1".parse().unwrap()));
    assert_eq!(refused.last_words.as_deref(), Some("curl: (7) no"));
    let later =
        proven("* connect to 127.0.0.1 port 1 from 127.0.0.1 port 33 failed: Connection refused");
    assert_eq!(later.not_connected.as_deref(), Some("Connection refused"));
    // Before 7.77 the line had no port; brackets exist only since then.
    assert_eq!(proven("*   Trying 127.0.0.1:80...").tried, Some("127.0.0.1:80".parse().unwrap()));
    assert_eq!(proven("*   Trying ::1:80...").tried, None);
}

#[test]
fn of_two_exchanges_the_second_counts() {
    let second = "* Re-using existing connection #0 with host site.test\n> GET / HTTP/2";
    let said = proven(&format!("{FULL}\n{second}"));
    assert!(said.reused && said.request_sent && !said.response_begun && said.headers.is_empty());
    // Facts about the connection's set-up are kept.
    assert_eq!((said.handshake, said.tickets_received), (Some(Handshake::Full), Some(2)));
    let reopened = proven(&format!("{FULL}\n*   Trying 127.0.0.1:24443..."));
    assert_eq!(reopened.tried, Some("127.0.0.1:24443".parse().unwrap()));
    assert_eq!(Proven { tried: None, ..reopened }, Proven::default());
}

#[test]
fn a_log_that_was_cut_proves_no_handshake() {
    let log = FULL.lines().map(str::to_owned).collect();
    let cut = Said { log, cut: true, ..Said::default() };
    assert_eq!(Proven::read(&cut).handshake, None);
}
