use super::*;

const PAYLOAD: &[u8] = b"payload";

fn tcp() -> Vec<u8> {
    let mut bytes =
        vec![0x9c, 0x40, 0x01, 0xbb, 0, 0, 0, 7, 0, 0, 0, 9, 0x60, 0x12, 1, 0, 0, 0, 0, 0];
    // MSS 1460.
    bytes.extend([2, 4, 5, 0xb4]);
    bytes.extend(PAYLOAD);
    bytes
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x9c, 0x40];
    bytes.extend(port.to_be_bytes());
    bytes.extend((8 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(payload);
    bytes
}

fn ipv4(protocol: u8, carried: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x46, 0];
    bytes.extend((24 + carried.len() as u16).to_be_bytes());
    bytes.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    // An option.
    bytes.extend([1, 1, 1, 0]);
    bytes.extend(carried);
    bytes
}

fn ipv6(next: u8, carried: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 0, 0, 0];
    bytes.extend((carried.len() as u16).to_be_bytes());
    bytes.extend([next, 64]);
    bytes.extend([0xfd; 16]);
    bytes.extend([0xfe; 16]);
    bytes.extend(carried);
    bytes
}

fn ethernet(kinds: &[u8], rest: &[u8]) -> Vec<u8> {
    [&[2; 12][..], kinds, rest].concat()
}

/// The segment is found in every encapsulation.
#[test]
fn the_segment_is_found_in_every_wrapping() {
    let v4 = ipv4(6, &tcp());
    let plain = ethernet(&[8, 0], &v4);
    let extended = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[6, 0, 1, 4, 0, 0, 0, 0], &tcp()].concat();
    let gre = |kind: [u8; 2], rest: &[u8]| {
        ipv4(47, &[&[0x10, 0][..], &kind, &[0, 0, 0, 1], rest].concat())
    };
    let wrapped: Vec<(&str, u16, Vec<u8>)> = vec![
        ("ethernet", 1, plain.clone()),
        ("padding behind", 1, [plain.clone(), vec![0; 9]].concat()),
        ("VLAN", 1, ethernet(&[0x81, 0, 0, 5, 8, 0], &v4)),
        ("QinQ", 1, ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0], &v4)),
        ("MPLS", 1, ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64], &v4)),
        ("MPLS pseudowire", 1, ethernet(&[0x88, 0x47, 0, 2, 1, 64, 0, 0, 0, 0], &plain)),
        ("PPPoE", 1, ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 9, 0, 0x21], &v4)),
        ("null", 0, [&[2, 0, 0, 0][..], &v4].concat()),
        ("raw", 101, v4.clone()),
        ("PPP", 9, [&[0xff, 3, 0, 0x21][..], &v4].concat()),
        ("SLL", 113, [&[0; 14][..], &[8, 0], &v4].concat()),
        ("SLL2", 276, [&[8, 0][..], &[0; 18], &v4].concat()),
        ("GRE", 101, gre([8, 0], &v4)),
        ("ERSPAN", 101, gre([0x88, 0xbe], &[&[0x10; 8][..], &plain].concat())),
        ("VXLAN", 101, ipv4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &plain].concat()))),
        (
            "Geneve",
            101,
            ipv4(
                17,
                &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 9, 9, 9, 9][..], &plain].concat()),
            ),
        ),
        ("GTP", 101, ipv4(17, &udp(2152, &[&[0x30, 0xff, 0, 9, 0, 0, 0, 1][..], &v4].concat()))),
        ("IP in IP", 101, ipv4(4, &v4)),
        ("IPv6", 1, ethernet(&[0x86, 0xdd], &ipv6(6, &tcp()))),
        ("IPv6 extended", 101, ipv6(0, &extended)),
        (
            "fragment that is the whole",
            101,
            ipv6(44, &[&[6, 0, 0, 0, 0, 0, 0, 1][..], &tcp()].concat()),
        ),
    ];
    for (name, link, frame) in wrapped {
        let packet = packet(LinkType(link), &frame, frame.len() as u32)
            .unwrap_or_else(|unread| panic!("{name}: {unread:?}"));
        let Transport::Tcp(segment) = packet.transport else { panic!("{name}") };
        assert_eq!(segment.payload, Payload { captured: PAYLOAD, bytes: 7 }, "{name}");
        assert_eq!((segment.sequence, segment.acknowledgment), (7, 9), "{name}");
        assert_eq!(segment.maximum_segment, Some(1460), "{name}");
        assert_eq!(packet.source.socket_addr().port(), 40_000, "{name}");
        assert_eq!(packet.destination.socket_addr().port(), 443, "{name}");
        // A frame truncated anywhere gives a truncated packet or a shorter payload, and nothing else.
        for end in 0..frame.len() {
            if let Ok(packet) = super::packet(LinkType(link), &frame[..end], frame.len() as u32)
                && let Transport::Tcp(segment) = packet.transport
            {
                assert!(PAYLOAD.starts_with(segment.payload.captured), "{name} {end}");
                assert_eq!(segment.payload.bytes, 7, "{name} {end}");
            }
        }
    }
}

#[test]
fn addresses_are_written_as_they_are() {
    let frame = ipv4(6, &tcp());
    let found = packet(LinkType(101), &frame, frame.len() as u32).unwrap();
    assert_eq!(found.source.socket_addr().to_string(), "10.0.0.1:40000");
    assert_eq!(found.identification, 0x1234);
    let frame = ipv6(6, &tcp());
    let found = packet(LinkType(101), &frame, frame.len() as u32).unwrap();
    let expected = "[fefe:fefe:fefe:fefe:fefe:fefe:fefe:fefe]:443";
    assert_eq!(found.destination.socket_addr().to_string(), expected);
}

#[test]
fn fragments_are_handed_on_with_their_place() {
    let mut frame = ipv4(6, &tcp());
    frame[6..8].copy_from_slice(&[0x20, 0x02]);
    let Err(Unread::Fragment(fragment)) = packet(LinkType(101), &frame, frame.len() as u32) else {
        panic!("no fragment")
    };
    assert_eq!((fragment.offset, fragment.more, fragment.protocol), (16, true, 6));
}

#[test]
fn what_is_no_packet_is_named() {
    let named = |link, frame: &[u8]| {
        format!("{:?}", packet(LinkType(link), frame, frame.len() as u32).unwrap_err())
    };
    assert_eq!(named(1, &ethernet(&[8, 6], &[0; 28])), "NotIp");
    assert_eq!(named(101, &ipv4(1, &[0; 8])), "OtherTransport");
    assert_eq!(named(999, &[0; 60]), "UnknownLink(LinkType(999))");
    assert_eq!(named(1, &[0; 9]), "Cut");
    // Endlessly nested tunnels.
    let mut nested = ipv4(6, &tcp());
    for _ in 0..20 {
        nested = ipv4(4, &nested);
    }
    assert_eq!(named(101, &nested), "Malformed");
}
