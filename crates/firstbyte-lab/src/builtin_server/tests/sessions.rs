//! Resumption and early data over TCP. The client is driven by hand, to show that it gets its response
//! before it has finished its handshake.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::{Resumption as ClientResumption, Tls12Resumption};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use super::*;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: www.lab.test\r\n\r\n";
const CLOSING_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: www.lab.test\r\nconnection: close\r\n\r\n";

fn connect(client: &Arc<ClientConfig>) -> ClientConnection {
    ClientConnection::new(Arc::clone(client), NAME.try_into().unwrap()).unwrap()
}

/// Makes a whole request on a connection that the server closes; returns the kind of handshake too.
fn get(subject: &Subject, client: &Arc<ClientConfig>) -> (HandshakeKind, String) {
    let tcp = TcpStream::connect(subject.server.addr()).unwrap();
    let mut stream = StreamOwned::new(connect(client), tcp);
    stream.write_all(b"GET / HTTP/1.1\r\nhost: www.lab.test\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (stream.conn.handshake_kind().unwrap(), answer)
}

#[test]
fn sessions_are_resumed_by_the_mechanisms_that_are_on() {
    let tickets_too = || ClientResumption::in_memory_sessions(32);
    let ids_only = || tickets_too().tls12_resumption(Tls12Resumption::SessionIdOnly);
    let cases = [
        (Resumption::Both, [true, true, true]),
        (Resumption::Tickets, [true, true, false]),
        (Resumption::SessionIds, [true, true, true]),
        (Resumption::None, [false, false, false]),
    ];
    for (resumption, expected) in cases {
        let clients = [
            ("TLS 1.3", &TLS13, tickets_too()),
            ("TLS 1.2, tickets and IDs", &TLS12, tickets_too()),
            ("TLS 1.2, IDs", &TLS12, ids_only()),
        ];
        for ((what, version, how), expected) in clients.into_iter().zip(expected) {
            let subject = start(|config| config.resumption = resumption);
            let mut client = subject.client(&[version]);
            client.resumption = how;
            let client = Arc::new(client);
            assert_eq!(get(&subject, &client).0, HandshakeKind::Full);
            let (kind, answer) = get(&subject, &client);
            assert_eq!(kind == HandshakeKind::Resumed, expected, "{resumption:?}: {what}");
            let header = format!("x-firstbyte-resumed: {}\r\n", u8::from(expected));
            assert!(answer.contains(&header), "{answer}");
            assert_eq!(subject.requests(), [(false, false, 200), (expected, false, 200)]);
        }
    }
}

#[test]
fn no_tickets_are_no_resumption_of_tls_13() {
    for (tickets, expected) in [(0, HandshakeKind::Full), (1, HandshakeKind::Resumed)] {
        let subject = start(|config| config.tickets = tickets);
        let client = Arc::new(subject.client(&[&TLS13]));
        get(&subject, &client);
        assert_eq!(get(&subject, &client).0, expected);
        assert_eq!(subject.requests()[1].0, tickets > 0);
    }
}

fn early_client(subject: &Subject) -> Arc<ClientConfig> {
    let mut client = subject.client(&[&TLS13]);
    client.enable_early_data = true;
    Arc::new(client)
}

/// Opens a connection and sends a request in early data. The client's Finished stays unsent, because the
/// client only reads from then on.
fn first_flight(
    subject: &Subject,
    client: &Arc<ClientConfig>,
    request: &[u8],
) -> (ClientConnection, TcpStream) {
    let mut connection = connect(client);
    let sent = connection.early_data().expect("the ticket allows it").write(request).unwrap();
    assert_eq!(sent, request.len());
    let mut tcp = TcpStream::connect(subject.server.addr()).unwrap();
    while connection.wants_write() {
        connection.write_tls(&mut tcp).unwrap();
    }
    (connection, tcp)
}

/// Reads, without writing, until the response's head is complete.
fn read_only(connection: &mut ClientConnection, tcp: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        assert_ne!(connection.read_tls(tcp).unwrap(), 0, "closed");
        connection.process_new_packets().unwrap();
        match connection.reader().read_to_end(&mut answer) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    String::from_utf8(answer).unwrap()
}

#[test]
fn early_data_is_answered_before_the_clients_finished() {
    let subject = start(|config| config.early_data = EarlyData::Accept);
    let client = early_client(&subject);
    get(&subject, &client);
    let (mut connection, mut tcp) = first_flight(&subject, &client, REQUEST);
    let answer = read_only(&mut connection, &mut tcp);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("x-firstbyte-early-data: 1\r\n"), "{answer}");
    assert!(answer.contains("x-firstbyte-resumed: 1\r\n"), "{answer}");
    assert!(connection.is_early_data_accepted());
    assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Resumed));
    assert!(connection.wants_write(), "the Finished has not left yet");

    // Data after the Finished on the same connection is not early data.
    connection.writer().write_all(REQUEST).unwrap();
    while connection.wants_write() {
        connection.write_tls(&mut tcp).unwrap();
    }
    // The rest of the first response may come before the second.
    let mut answer = String::new();
    while !answer.contains("x-firstbyte-early-data: 0\r\n") {
        answer += &read_only(&mut connection, &mut tcp);
    }
    assert_eq!(subject.requests(), [(false, false, 200), (true, true, 200), (true, false, 200)]);
}

#[test]
fn early_data_can_be_answered_after_the_clients_finished() {
    let subject = start(|config| config.early_data = EarlyData::AfterFinished);
    let client = early_client(&subject);
    get(&subject, &client);
    let (mut connection, mut tcp) = first_flight(&subject, &client, REQUEST);
    while connection.is_handshaking() {
        assert_ne!(connection.read_tls(&mut tcp).unwrap(), 0, "closed");
        connection.process_new_packets().unwrap();
    }
    assert!(connection.is_early_data_accepted());
    assert_eq!(subject.requests().len(), 1, "not answered before the Finished");
    while connection.wants_write() {
        connection.write_tls(&mut tcp).unwrap();
    }
    let answer = read_only(&mut connection, &mut tcp);
    assert!(answer.contains("x-firstbyte-early-data: 1\r\n"), "{answer}");
    assert_eq!(subject.requests(), [(false, false, 200), (true, true, 200)]);
}

/// Even if the server closes after its response, which it has sent before the handshake is complete.
#[test]
fn tickets_come_after_early_data_too() {
    let subject = start(|config| config.early_data = EarlyData::Accept);
    let client = early_client(&subject);
    get(&subject, &client);
    for _ in 0..5 {
        let (mut connection, mut tcp) = first_flight(&subject, &client, CLOSING_REQUEST);
        read_only(&mut connection, &mut tcp);
        let mut stream = StreamOwned::new(connection, tcp);
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(stream.conn.is_early_data_accepted());
        assert_eq!(stream.conn.tls13_tickets_received(), 2);
    }
}

#[test]
fn early_data_can_be_off_or_rejected_or_too_early() {
    let subject = start(|_| ());
    let client = early_client(&subject);
    get(&subject, &client);
    assert!(connect(&client).early_data().is_none(), "off: the ticket does not allow it");

    let subject = start(|config| config.early_data = EarlyData::Reject);
    let client = early_client(&subject);
    get(&subject, &client);
    for _ in 0..3 {
        let (mut connection, mut tcp) = first_flight(&subject, &client, REQUEST);
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).unwrap();
        }
        assert!(!connection.is_early_data_accepted());
        assert_eq!(connection.handshake_kind(), Some(HandshakeKind::Resumed));
        connection.writer().write_all(REQUEST).unwrap();
        connection.complete_io(&mut tcp).unwrap();
        let answer = read_only(&mut connection, &mut tcp);
        assert!(answer.contains("x-firstbyte-early-data: 0\r\n"), "{answer}");
    }

    let subject = start(|config| config.early_data = EarlyData::TooEarly);
    let client = early_client(&subject);
    get(&subject, &client);
    let (mut connection, mut tcp) = first_flight(&subject, &client, REQUEST);
    let answer = read_only(&mut connection, &mut tcp);
    assert!(answer.starts_with("HTTP/1.1 425 Too Early\r\n"), "{answer}");
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp).unwrap();
    }
    // RFC 8470 §5.2: the client retries after the handshake is complete.
    connection.writer().write_all(REQUEST).unwrap();
    connection.complete_io(&mut tcp).unwrap();
    let answer = read_only(&mut connection, &mut tcp);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(subject.requests(), [(false, false, 200), (true, true, 425), (true, false, 200)]);
}
