//! Facts that curl's log (`--verbose`) proves about a transfer: TLS, the response's header, how far it got.
//!
//! Each TLS library has its own lines. Only handshake messages are proof, which libraries with OpenSSL's interface log
//! one by one: received certificates prove a full handshake, and a completed handshake without them a resumed one. "SSL
//! reusing session" only says that a session was offered, not whether it was accepted. If a library logs no messages,
//! the kind of handshake is unknown.

use std::net::SocketAddr;

use firstbyte_core::timeline::{Handshake, Header, SessionMechanism};

use super::run::Said;

/// Facts that a log proves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proven {
    /// "TLSv1.3".
    pub(super) tls_version: Option<String>,
    /// IANA name.
    pub(super) cipher_suite: Option<String>,
    pub(super) group: Option<String>,
    pub(super) handshake: Option<Handshake>,
    pub(super) session_offered: bool,
    pub(super) tickets_received: Option<u32>,
    pub(super) alpn: Option<String>,
    /// Header fields of the final response.
    pub(super) headers: Vec<Header>,
    /// Its status line.
    pub(super) status_line: Option<String>,
    /// Whether the exchange used an existing connection.
    pub(super) reused: bool,
    /// The last address that was tried.
    pub(super) tried: Option<SocketAddr>,
    /// Why the last connection attempt failed, in the system's words.
    pub(super) not_connected: Option<String>,
    pub(super) connected: bool,
    pub(super) in_handshake: bool,
    pub(super) request_sent: bool,
    pub(super) response_begun: bool,
    /// curl's final error message: "curl: (7) …".
    pub(super) last_words: Option<String>,
}

/// Counts of handshake messages.
#[derive(Default)]
struct Messages {
    server_hellos: u32,
    certificates: bool,
    /// Whether the server's Finished was received.
    finished: bool,
    tickets: u32,
    /// Whether a message without a known name was received.
    unknown: bool,
    any: bool,
}

impl Proven {
    /// Reads the log of one or two transfers; the last one counts.
    pub(super) fn read(said: &Said) -> Self {
        let (mut proven, mut messages) = (Self::default(), Messages::default());
        let mut in_head = false;
        for line in &said.log {
            if let Some(rest) = line.strip_prefix("< ") {
                in_head = proven.head(rest, in_head);
            } else if line == "<" {
                in_head = false;
            } else if line.starts_with("> ") {
                proven.request_sent = true;
            } else if let Some(rest) = line.strip_prefix("* ") {
                proven.note(rest.trim_start(), &mut messages);
            } else if line.starts_with("curl: (") {
                proven.last_words = Some(line.clone());
            }
        }
        if !said.cut {
            proven.conclude(&messages);
        }
        proven
    }

    /// Reads a line of a response's header; returns whether the header continues. Fields of an interim response are
    /// replaced by those of the next response.
    fn head(&mut self, line: &str, in_head: bool) -> bool {
        self.response_begun = true;
        if line.trim().is_empty() {
            return false;
        }
        if !in_head {
            if !line.starts_with("HTTP/") {
                // Trailer fields.
                return false;
            }
            self.status_line = Some(line.trim_end().to_owned());
            self.headers.clear();
        } else if let Some((name, value)) = line.split_once(':') {
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            self.headers.push(Header { name, value });
        }
        true
    }

    fn note(&mut self, line: &str, messages: &mut Messages) {
        if let Some((version, message)) = handshake_message(line) {
            self.in_handshake = true;
            messages.count(version, message);
        } else if let Some(address) = line.strip_prefix("Trying ") {
            if self.response_begun {
                // The second transfer could not use the first one's connection.
                (*self, *messages) = (Self::default(), Messages::default());
            }
            self.tried = tried(address).or(self.tried);
        } else if line.starts_with("connect to ") && line.contains(" failed: ") {
            self.not_connected = line.rsplit_once(" failed: ").map(|(_, why)| why.to_owned());
        } else if line.starts_with("Connected to ")
            || line.starts_with("Established connection to ")
        {
            self.connected = true;
        } else if line.starts_with("Re-using existing") || line.starts_with("Reusing existing") {
            self.second_exchange();
        } else if line.starts_with("SSL reusing session") {
            self.session_offered = true;
        } else if let Some(settled) = line.strip_prefix("SSL connection using ") {
            self.settled(settled);
        } else if let Some(protocol) = accepted_protocol(line) {
            self.alpn = Some(protocol.to_owned());
        } else if line.starts_with("ALPN") && line.contains("offers") {
            self.in_handshake = true;
        }
    }

    /// The following lines belong to the second transfer, on the connection of the first.
    fn second_exchange(&mut self) {
        (self.reused, self.connected) = (true, true);
        (self.request_sent, self.response_begun) = (false, false);
        (self.status_line, self.last_words) = (None, None);
        self.headers.clear();
    }

    /// Parses "TLSv1.3 / TLS_AES_256_GCM_SHA384", since 8.2 with " / X25519 / RSASSA-PSS".
    fn settled(&mut self, text: &str) {
        let mut parts = text.split(" / ").map(str::trim);
        self.tls_version = parts.next().and_then(version_name);
        self.cipher_suite = parts.next().and_then(suite_name);
        self.group = parts.next().and_then(group_name);
    }

    fn conclude(&mut self, messages: &Messages) {
        // A message unknown to this curl may have been a certificate (compressed, RFC 8879).
        let doubtful = messages.unknown && !messages.certificates;
        if !messages.any || !messages.finished || doubtful {
            return;
        }
        self.handshake = Some(match (messages.certificates, messages.server_hellos) {
            (true, 2..) => Handshake::FullWithHelloRetryRequest,
            (true, _) => Handshake::Full,
            (false, _) => Handshake::Resumed,
        });
        self.tickets_received = Some(messages.tickets);
    }

    /// The mechanism of the offered session, if known: curl does not distinguish the two of TLS 1.2.
    pub(super) fn mechanism(&self) -> Option<SessionMechanism> {
        let offered = self.session_offered || self.handshake == Some(Handshake::Resumed);
        (offered && self.tls_version.as_deref() == Some("TLSv1.3")).then_some(SessionMechanism::Psk)
    }
}

impl Messages {
    fn count(&mut self, sent: bool, message: &str) {
        self.any = true;
        if sent {
            return;
        }
        match message {
            "Server hello" => self.server_hellos += 1,
            "Certificate" | "CERT verify" | "Server key exchange" => self.certificates = true,
            unknown if unknown.starts_with("Unknown") => self.unknown = true,
            "Finished" => self.finished = true,
            "Newsession Ticket" => self.tickets += 1,
            _ => {}
        }
    }
}

/// Parses "TLSv1.3 (IN), TLS handshake, Finished (20):" into whether it was sent, and the message's name.
fn handshake_message(line: &str) -> Option<(bool, &str)> {
    let (way, message) = line.split_once(", TLS handshake, ")?;
    let sent = match way.split_once(" (")?.1 {
        "OUT)" => true,
        "IN)" => false,
        _ => return None,
    };
    Some((sent, message.split_once(" (")?.0))
}

/// Parses "127.0.0.1:443...", "[::1]:443...".
fn tried(text: &str) -> Option<SocketAddr> {
    text.trim_end_matches('.').parse().ok()
}

/// Parses "ALPN: server accepted h2", before 7.85 "ALPN, server accepted to use h2".
fn accepted_protocol(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("ALPN")?.trim_start_matches([':', ',']).trim_start();
    let rest = rest.strip_prefix("server accepted ")?;
    let protocol = rest.strip_prefix("to use ").unwrap_or(rest);
    ["h2", "h3", "http/1.1", "http/1.0"]
        .into_iter()
        .find(|known| *known == protocol.trim_end_matches('.'))
}

/// Normalizes version names; GnuTLS writes "TLS1.3".
fn version_name(text: &str) -> Option<String> {
    let digits = text.strip_prefix("TLS")?.trim_start_matches(['v', ' ']);
    ["1.0", "1.1", "1.2", "1.3"].contains(&digits).then(|| format!("TLSv{digits}"))
}

/// IANA name of a cipher suite: those of TLS 1.3 are logged as they are, those of TLS 1.2 by OpenSSL's names.
fn suite_name(text: &str) -> Option<String> {
    if text.starts_with("TLS_") {
        return Some(text.to_owned());
    }
    let (exchange, cipher) = text
        .split_once("-AES")
        .map(|(x, rest)| (x, format!("AES{rest}")))
        .or_else(|| text.split_once("-CHACHA20").map(|(x, rest)| (x, format!("CHACHA20{rest}"))))?;
    let exchange = match exchange {
        "ECDHE-ECDSA" => "ECDHE_ECDSA",
        "ECDHE-RSA" => "ECDHE_RSA",
        "DHE-RSA" => "DHE_RSA",
        _ => return None,
    };
    let cipher = match cipher.as_str() {
        "AES128-GCM-SHA256" => "AES_128_GCM_SHA256",
        "AES256-GCM-SHA384" => "AES_256_GCM_SHA384",
        "CHACHA20-POLY1305" => "CHACHA20_POLY1305_SHA256",
        _ => return None,
    };
    Some(format!("TLS_{exchange}_WITH_{cipher}"))
}

/// IANA name of a group.
fn group_name(text: &str) -> Option<String> {
    let name = match text.to_ascii_lowercase().as_str() {
        "x25519" => "X25519",
        "prime256v1" | "p-256" | "secp256r1" => "secp256r1",
        "p-384" | "secp384r1" => "secp384r1",
        "p-521" | "secp521r1" => "secp521r1",
        "x448" => "X448",
        "x25519mlkem768" => "X25519MLKEM768",
        "secp256r1mlkem768" => "SecP256r1MLKEM768",
        _ => return None,
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests;
