//! Converts Firefox's description of TLS and HTTP to facts of the model.
//!
//! Input: a channel's description. Output: facts of TLS and HTTP. Values that Firefox does not report are absent.

use std::time::Duration;

use firstbyte_core::timeline::{
    EarlyData, Handshake, HttpFacts, Mark, PanelTime, SessionMechanism, TlsFacts,
};
use serde_json::Value;

use super::FirefoxEarlyData;
use super::channel::Channel;

/// Prefix of the fields that Firefox adds to those of the response.
const OWN_FIELDS: &str = "x-firefox-";

/// The times of the network panel's "Timings" tab, which reads the same activities of the network code as we do.
pub(super) fn panel(leg: &Channel) -> Vec<PanelTime> {
    let shown = [
        ("DNS Resolution", Mark::DomainLookupStart, Mark::DomainLookupEnd),
        ("Connecting", Mark::ConnectStart, Mark::TcpConnected),
        ("TLS Setup", Mark::SecureConnectionStart, Mark::HandshakeComplete),
        ("Sending", Mark::RequestStart, Mark::RequestEnd),
        ("Waiting", Mark::RequestEnd, Mark::ResponseStart),
        ("Receiving", Mark::ResponseStart, Mark::ResponseEnd),
    ];
    let shown = shown.into_iter().filter_map(|(label, from, to)| {
        let us = u64::try_from(leg.at(to)? - leg.at(from)?).ok()?;
        Some(PanelTime { label: label.to_owned(), took: Duration::from_micros(us) })
    });
    shown.collect()
}

pub(super) fn tls(channel: &Channel) -> Option<TlsFacts> {
    let security = channel.security.as_ref()?;
    let text = |name: &str| security.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    // `STATE_IS_SECURE`: without it, nothing was negotiated or verified.
    const SECURE: u64 = 2;
    let state = security.get("securityState").and_then(Value::as_u64)?;
    if state & SECURE == 0 {
        return None;
    }
    // `nsITransportSecurityInfo.TLS_VERSION_1_2`, and 1.3.
    let version = match security.get("protocolVersion").and_then(Value::as_u64) {
        Some(3) => Some("TLSv1.2"),
        Some(4) => Some("TLSv1.3"),
        _ => None,
    };
    let resumed = security.get("resumed").and_then(Value::as_bool);
    let psk = resumed == Some(true) && version == Some("TLSv1.3");
    let early = early_data(channel);
    Some(TlsFacts {
        version: version.map(str::to_owned),
        cipher_suite: text("cipherName").map(str::to_owned),
        group: text("keaGroupName").and_then(group).map(str::to_owned),
        handshake: resumed.map(|resumed| match resumed {
            true => Handshake::Resumed,
            false => Handshake::Full,
        }),
        // A resumed session was offered. TLS 1.2 has two mechanisms for that.
        session_offered: psk.then_some(SessionMechanism::Psk),
        early_data_allowed: early.map(|_| true),
        early_data: early.map(|early| EarlyData {
            // Firefox does not report the number of bytes.
            bytes_before_server_hello: None,
            // After a 425, early data was not accepted: the response is that of a second request.
            accepted: Some(early == FirefoxEarlyData::Accepted),
        }),
        alpn: text("negotiatedNPN").map(str::to_owned),
        verified: Some(true),
        ..TlsFacts::default()
    })
}

/// IANA name of a key-exchange group, by NSS's name.
fn group(name: &str) -> Option<&'static str> {
    Some(match name {
        "x25519" => "X25519",
        "mlkem768x25519" => "X25519MLKEM768",
        "xyber768d00" => "X25519Kyber768Draft00",
        "P256" => "secp256r1",
        "P384" => "secp384r1",
        "P521" => "secp521r1",
        "FF 2048" => "ffdhe2048",
        "FF 3072" => "ffdhe3072",
        _ => return None,
    })
}

/// Result of early data from the field that Firefox adds (`nsHttpTransaction::HandleContentStart`).
pub(super) fn early_data(channel: &Channel) -> Option<FirefoxEarlyData> {
    // A server could send this field itself, so it only counts if early data was possible.
    let left_early = channel.at(Mark::RequestStart).zip(channel.at(Mark::HandshakeComplete));
    if left_early.is_none_or(|(request, complete)| request >= complete) {
        return None;
    }
    match channel.header("x-firefox-early-data")? {
        "accepted" => Some(FirefoxEarlyData::Accepted),
        "sent" => Some(FirefoxEarlyData::Sent),
        "received 425" => Some(FirefoxEarlyData::TooEarly),
        _ => None,
    }
}

pub(super) fn http(channel: &Channel) -> HttpFacts {
    let version = match channel.protocol.as_deref() {
        Some("http/1.0") => Some("1.0"),
        Some("http/1.1") => Some("1.1"),
        Some("h2") => Some("2"),
        _ if channel.quic() => Some("3"),
        _ => None,
    };
    let mut headers = channel.headers.clone();
    headers.retain(|header| !header.name.starts_with(OWN_FIELDS));
    let answered = channel.status.is_some();
    let whole = answered && channel.stopped && !channel.redirected();
    let decoded = headers.iter().any(|header| header.name == "content-encoding");
    HttpFacts {
        method: channel.method.clone(),
        version: version.filter(|_| answered).map(str::to_owned),
        status: channel.status,
        headers,
        body_bytes: channel.encoded_bytes.filter(|_| whole),
        decoded_bytes: channel.decoded_bytes.filter(|bytes| whole && decoded && *bytes > 0),
        ..HttpFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use firstbyte_core::timeline::Header;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_agreed_on_is_in_the_registries_words() {
        let security = json!({
            "securityState": 2, "errorCode": 0, "errorCodeString": "", "cipherName": "TLS_AES_128_GCM_SHA256",
            "protocolVersion": 4, "keaGroupName": "mlkem768x25519", "negotiatedNPN": "h2", "resumed": true,
        });
        let channel = Channel { security: Some(security), ..Channel::default() };
        let tls = tls(&channel).unwrap();
        assert_eq!(tls.group.as_deref(), Some("X25519MLKEM768"));
        assert_eq!(tls.handshake, Some(Handshake::Resumed));
        assert_eq!(tls.session_offered, Some(SessionMechanism::Psk));
        assert_eq!((tls.early_data, tls.early_data_allowed), (None, None));
    }

    #[test]
    fn nothing_is_agreed_on_where_the_handshake_failed() {
        let security = json!({ "securityState": 0, "resumed": false });
        assert_eq!(tls(&Channel { security: Some(security), ..Channel::default() }), None);
        assert_eq!(tls(&Channel::default()), None);
    }

    #[test]
    fn fields_of_its_own_are_no_fields_of_the_response() {
        let field =
            |name: &str, value: &str| Header { name: name.to_owned(), value: value.to_owned() };
        let headers = vec![field("server", "x"), field("x-firefox-early-data", "received 425")];
        let mut channel = Channel { headers, status: Some(425), ..Channel::default() };
        assert_eq!(http(&channel).headers, [field("server", "x")]);
        assert_eq!(early_data(&channel), None, "a server's own word");
        channel.marks = vec![(Mark::RequestStart, 5), (Mark::HandshakeComplete, 9)];
        assert_eq!(early_data(&channel), Some(FirefoxEarlyData::TooEarly));
    }
}
