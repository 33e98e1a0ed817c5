//! The packets of RFC 9001 §A and RFC 9369 §A.

use super::super::crypto::{Added, Stream};
use super::super::initial::{Frame, InitialKeys, frames};
use super::super::packet::{Cid, Kind, Long, Packet, packets};
use super::made::{CLIENT_HELLO, Initial, SERVER_HELLO, V1, V2, hex};
use crate::layers::Payload;

const DESTINATION: &str = "8394c8f03e515708";

fn payload(captured: &[u8]) -> Payload<'_> {
    Payload { captured, bytes: captured.len() as u32 }
}

fn only(datagram: &[u8]) -> Long<'_> {
    match packets(payload(datagram)).collect::<Vec<_>>()[..] {
        [Packet::Long(long)] => long,
        ref other => panic!("{other:?}"),
    }
}

/// Packet number and frames.
fn open(version: u32, by_client: bool, datagram: &[u8]) -> (u64, Vec<u8>) {
    let long = only(datagram);
    assert_eq!((long.kind, long.version), (Kind::Initial, version));
    let keys = InitialKeys::new(version, Cid::new(&hex(DESTINATION)).unwrap()).unwrap();
    let mut scratch = Vec::new();
    assert!(keys.open(!by_client, &long, 0, &mut scratch).is_none());
    let opened = keys.open(by_client, &long, 0, &mut scratch).unwrap();
    (opened.number, opened.frames.to_vec())
}

fn client_initial(version: u32) -> Vec<u8> {
    let initial = Initial {
        version,
        keys: hex(DESTINATION),
        by_client: true,
        destination: hex(DESTINATION),
        source: Vec::new(),
        token: Vec::new(),
        number: 2,
        frames: hex(CLIENT_HELLO),
    };
    initial.padded(1200)
}

#[test]
fn the_clients_initial_of_version_1() {
    let packet = client_initial(V1);
    assert_eq!(
        packet[..40],
        hex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9bd8ba")
    );
    assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"));
    let (number, frames) = open(V1, true, &packet);
    assert_eq!((number, frames.len()), (2, 1162));
    assert!(frames.starts_with(&hex(CLIENT_HELLO)));
}

#[test]
fn the_clients_initial_of_version_2() {
    let packet = client_initial(V2);
    assert_eq!(
        packet[..32],
        hex("d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485")
    );
    assert_eq!(open(V2, true, &packet).0, 2);
}

#[test]
fn the_servers_initial_of_both_versions() {
    let packets = [
        (
            V1,
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c6979\
             7554780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f\
             3bded74b562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc421\
             58407dd074ee",
        ),
        (
            V2,
            "dc6b3343cf0008f067a5502a4262b5004075d92faaf16f05d8a4398c47089698baeea26b91eb761d9b8923\
             7bbf87263017915358230035f7fd3945d88965cf17f9af6e16886c61bfc703106fbaf3cb4cfa52382dd16a\
             393e42757507698075b2c984c707f0a0812d8cd5a6881eaf21ceda98f4bd23f6fe1a3e2c43edd9ce7ca84b\
             ed8521e2e140",
        ),
    ];
    for (version, packet) in packets {
        assert_eq!(open(version, false, &hex(packet)), (1, hex(SERVER_HELLO)));
    }
}

#[test]
fn retries_of_both_versions() {
    let v1 = hex("ff000000010008f067a5502a4262b5746f6b656e04a265ba2eff4d829058fb3f0f2496ba");
    let v2 = hex("cf6b3343cf0008f067a5502a4262b5746f6b656ec8646ce8bfe33952d955543665dcc7b6");
    for (version, retry) in [(V1, v1), (V2, v2)] {
        let long = only(&retry);
        assert_eq!((long.kind, long.version), (Kind::Retry, version));
        assert_eq!(long.source.as_slice(), hex("f067a5502a4262b5"));
    }
}

#[test]
fn frames_are_told_apart() {
    let crypto = [6, 2, 2, 0xaa, 0xbb, 0, 0, 1];
    assert_eq!(
        frames(&crypto).collect::<Vec<_>>(),
        [
            Some(Frame::Crypto { offset: 2, data: &[0xaa, 0xbb] }),
            Some(Frame::Padding),
            Some(Frame::Ping)
        ]
    );
    // CONNECTION_CLOSE with a TLS alert. STREAM is not allowed in an Initial.
    let close = [0x1c, 0x41, 0x28, 6, 0, 8];
    assert_eq!(frames(&close).collect::<Vec<_>>(), [Some(Frame::Close(0x128)), None]);
}

#[test]
fn pieces_in_any_order_make_messages() {
    let message = [&[2, 0, 0, 5][..], b"hello"].concat();
    let mut stream = Stream::default();
    assert_eq!(stream.add(6, &message[6..], 100), Added::New);
    assert_eq!(stream.add(2, &message[2..4], 100), Added::New);
    assert!(stream.next().is_none());
    assert_eq!(stream.add(2, &message[2..4], 100), Added::Again);
    assert_eq!(stream.add(0, &message[..3], 100), Added::New);
    assert_eq!(stream.partial(), Some((2, 5, &b""[..])));
    assert_eq!(stream.add(3, &message[3..8], 100), Added::New);
    assert_eq!(stream.next(), Some((2, &b"hello"[..])));
    assert!(stream.next().is_none());
    assert_eq!(stream.add(1 << 40, b"far", 100), Added::TooMuch);
    assert_eq!(stream.add(500, b"far", 100), Added::TooMuch);
    assert_eq!(stream.held(), 9);
}
