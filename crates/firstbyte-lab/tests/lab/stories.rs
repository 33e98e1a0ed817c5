//! The shipped scenarios show what their stories say, in times of plain clients.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use firstbyte_lab::{Lab, LabOptions, Scenario, ServerChoice};
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, NamedGroup};

use crate::support::{
    client_config, client_config_with, fastest, in_lab, now_ms, wait_for_requests,
};

const SAMPLES: usize = 7;

/// RFC 8446 §2.3: with early data the page comes after two round trips of 112 ms instead of three.
pub(crate) fn codavel_nginx() {
    codavel(ServerChoice::Nginx);
}

pub(crate) fn codavel_builtin() {
    codavel(ServerChoice::Builtin);
}

fn codavel(server: ServerChoice) {
    let options = LabOptions { server, ..LabOptions::default() };
    in_lab(&Scenario::load("codavel").unwrap(), &options, |lab| {
        // The time saved on the image depends on when each window was full.
        for (path, bytes, round_trips, spread_ms, saved_ms) in [
            ("/", 4_000, 3.0, 20.0, 100.0..124.0),
            ("/bytes/1000000", 1_000_000, 8.0, 240.0, 70.0..150.0),
        ] {
            let after_handshake = page_ms(lab, "before.codavel.test", path, bytes, false);
            let early = page_ms(lab, "blog.codavel.test", path, bytes, true);
            println!("  {path}: {after_handshake:.1} ms, in early data {early:.1} ms");
            let least = round_trips * 112.0;
            assert!((least..least + spread_ms).contains(&after_handshake), "{after_handshake} ms");
            assert!(saved_ms.contains(&(after_handshake - early)), "{early} ms");
        }
        let requests = wait_for_requests(lab, "blog", 2 * (1 + SAMPLES));
        let early = requests.iter().filter(|request| request.early == Some(true)).count();
        assert_eq!(early, 2 * SAMPLES, "{requests:?}");
        assert!(requests.iter().all(|request| request.status == 200));
    });
}

/// Shortest time from the SYN to the end of the response, on resumed connections.
fn page_ms(lab: &Lab, name: &str, path: &str, bytes: usize, early_data: bool) -> f64 {
    let mut config = client_config(lab, &[&TLS13]);
    config.enable_early_data = early_data;
    let config = Arc::new(config);
    visit(&config, name, path, bytes, false);
    fastest((0..SAMPLES).map(|_| visit(&config, name, path, bytes, early_data)))
}

/// Makes one exchange on a new connection, and stays until a ticket has arrived.
fn visit(
    config: &Arc<ClientConfig>,
    name: &str,
    path: &str,
    bytes: usize,
    early_data: bool,
) -> f64 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {name}\r\n\r\n");
    let mut tls =
        ClientConnection::new(Arc::clone(config), name.to_owned().try_into().unwrap()).unwrap();
    let begun = now_ms();
    let mut tcp = TcpStream::connect((name, 443)).unwrap();
    tcp.set_nodelay(true).unwrap();
    if early_data {
        let mut early = tls.early_data().expect("the ticket allows it");
        early.write_all(request.as_bytes()).unwrap();
    } else {
        tls.writer().write_all(request.as_bytes()).unwrap();
    }
    let mut answer = Vec::new();
    let mut whole = None;
    // Tickets follow the client's Finished: with early data, one round trip after the response.
    while whole.is_none() || tls.tls13_tickets_received() == 0 {
        while tls.wants_write() {
            tls.write_tls(&mut tcp).unwrap();
        }
        assert_ne!(tls.read_tls(&mut tcp).unwrap(), 0, "closed");
        tls.process_new_packets().unwrap();
        match tls.reader().read_to_end(&mut answer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            ended => panic!("{ended:?}"),
        }
        let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if head.is_some_and(|head| answer.len() == head + 4 + bytes) {
            whole.get_or_insert_with(now_ms);
        }
    }
    assert_eq!(tls.is_early_data_accepted(), early_data);
    whole.expect("the whole answer came") - begun
}

/// Paquin, Stebila, Tamvada (2020): two round trips, and about a millisecond.
pub(crate) fn pq() {
    in_lab(&Scenario::load("pq").unwrap(), &LabOptions::default(), |lab| {
        for (host, published_ms) in
            [("near", 12.1), ("region", 63.7), ("continent", 159.0), ("world", 393.1)]
        {
            let of = |group| fastest((0..SAMPLES).map(|_| handshake_ms(lab, host, group)));
            let p256 = of(kx_group::SECP256R1);
            let hybrid = of(kx_group::X25519MLKEM768);
            println!("  {host}: p256 {p256:.1} ms, x25519mlkem768 {hybrid:.1} ms");
            assert!((p256 - published_ms).abs() < 6.0, "{p256} ms, {published_ms} published");
            assert!((hybrid - published_ms).abs() < 6.0, "{hybrid} ms");
        }
    });
}

/// Time of the TCP and TLS 1.3 handshakes together.
fn handshake_ms(
    lab: &Lab,
    host: &str,
    group: &'static dyn rustls::crypto::SupportedKxGroup,
) -> f64 {
    let mut provider = default_provider();
    provider.kx_groups = vec![group];
    let config = client_config_with(provider, lab, &[&TLS13]);
    let name = format!("{host}.pq.test");
    let mut tls =
        ClientConnection::new(Arc::new(config), name.clone().try_into().unwrap()).unwrap();
    let begun = now_ms();
    let mut tcp = TcpStream::connect((name.as_str(), 443)).unwrap();
    tcp.set_nodelay(true).unwrap();
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp).unwrap();
    }
    let took = now_ms() - begun;
    let expected: NamedGroup = group.name();
    assert_eq!(tls.negotiated_key_exchange_group().unwrap().name(), expected);
    took
}
