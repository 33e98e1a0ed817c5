//! The filter in Rust and its BPF program agree.

use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;

use super::{Begin, Filter, Instruction, MOST_HOSTS, MOST_PORTS};
use firstbyte_core::pcap::LinkType;

const ETHERNET: LinkType = LinkType(1);

/// Runs a program as a kernel does. Returns how many bytes of `packet` it accepts: 0 if it reads beyond the end.
fn run(program: &[Instruction], packet: &[u8], protocol: u32) -> u32 {
    let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, 0_u32, 0_usize);
    let load = |place: u32, bytes: usize| -> Option<u32> {
        let place = place as usize;
        let part = packet.get(place..place.checked_add(bytes)?)?;
        Some(part.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    };
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
        let loaded = match code {
            0x40 => load(x.wrapping_add(k), 4),
            0x48 => load(x.wrapping_add(k), 2),
            0x50 => load(x.wrapping_add(k), 1),
            0x28 if k == 0xffff_f000 => Some(protocol),
            0x60 => Some(memory),
            0x04 => Some(a.wrapping_add(k)),
            0x0c => Some(a.wrapping_add(x)),
            0x54 => Some(a & k),
            0x64 => Some(a << k),
            0x87 => Some(x),
            0x06 => return k,
            0x01 => {
                x = k;
                continue;
            }
            0x07 => {
                x = a;
                continue;
            }
            0x02 => {
                assert_eq!(k, 0);
                memory = a;
                continue;
            }
            0x05 => {
                at += k as usize;
                continue;
            }
            0x15 => {
                branch(a == k);
                continue;
            }
            0x45 => {
                branch(a & k != 0);
                continue;
            }
            other => panic!("instruction {other:#x}"),
        };
        match loaded {
            Some(value) => a = value,
            None => return 0,
        }
    }
}

/// A packet between a few hosts and ports, with optional headers in between.
#[derive(Clone, Debug)]
struct Made {
    tags: usize,
    v6: bool,
    protocol: u8,
    hosts: [u8; 2],
    ports: [u8; 2],
    /// Types of extension headers.
    extensions: Vec<u8>,
    /// Fragment offset in units of eight bytes, and whether more fragments follow.
    fragment: (u16, bool),
    options: usize,
}

fn made() -> impl Strategy<Value = Made> {
    (
        0..6_usize,
        any::<bool>(),
        prop::sample::select(vec![6, 6, 6, 17, 17, 1, 50]),
        [0..4_u8, 0..4_u8],
        [0..4_u8, 0..4_u8],
        prop::collection::vec(prop::sample::select(vec![0, 43, 60, 51, 135, 44]), 0..8),
        prop::sample::select(vec![(0, false), (0, false), (0, true), (7, true), (7, false)]),
        0..4_usize,
    )
        .prop_map(|(tags, v6, protocol, hosts, ports, extensions, fragment, options)| Made {
            tags,
            v6,
            protocol,
            hosts,
            ports,
            extensions,
            fragment,
            options,
        })
}

fn v4(number: u8) -> [u8; 4] {
    [10, 0, 0, number]
}

fn v6(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(number))
}

fn port(number: u8) -> u16 {
    440 + u16::from(number)
}

impl Made {
    fn frame(&self) -> Vec<u8> {
        let mut frame = vec![2; 12];
        (0..self.tags).for_each(|tag| frame.extend([[0x81, 0, 0, 5], [0x88, 0xa8, 0, 6]][tag % 2]));
        let mut transport = Vec::new();
        self.ports.iter().for_each(|number| transport.extend(port(*number).to_be_bytes()));
        transport.extend([0x50; 24]);
        if self.v6 {
            self.ipv6(&mut frame)
        } else {
            self.ipv4(&mut frame)
        };
        frame.extend(transport);
        frame
    }

    fn ipv4(&self, frame: &mut Vec<u8>) {
        let header = 20 + 4 * self.options as u16;
        frame.extend([8, 0, 0x40 | (header / 4) as u8, 0]);
        frame.extend((header + 28).to_be_bytes());
        let (place, more) = self.fragment;
        frame.extend([0, 1]);
        frame.extend((place | u16::from(more) << 13).to_be_bytes());
        frame.extend([64, self.protocol, 0, 0]);
        self.hosts.iter().for_each(|host| frame.extend(v4(*host)));
        frame.extend(vec![1; 4 * self.options]);
    }

    fn ipv6(&self, frame: &mut Vec<u8>) {
        let mut chain = Vec::new();
        let kinds = [self.extensions.as_slice(), &[self.protocol]].concat();
        for pair in kinds.windows(2) {
            chain.extend(match pair[0] {
                44 => {
                    let place = self.fragment.0 << 3 | u16::from(self.fragment.1);
                    let [high, low] = place.to_be_bytes();
                    [pair[1], 0, high, low, 0, 0, 0, 1]
                }
                _ => [pair[1], 0, 1, 2, 0, 0, 0, 0],
            });
        }
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((chain.len() as u16 + 28).to_be_bytes());
        frame.extend([kinds[0], 64]);
        self.hosts.iter().for_each(|host| frame.extend(v6(*host).octets()));
        frame.extend(chain);
    }

    /// The program walks all these headers, and fragments begin with the ports.
    fn is_plain(&self) -> bool {
        let whole = self.fragment == (0, false) || !self.extensions.contains(&44);
        self.tags <= 4 && (!self.v6 || self.extensions.len() <= 5 && whole)
    }
}

fn filter() -> impl Strategy<Value = Filter> {
    let hosts = prop::collection::vec((any::<bool>(), 0..4_u8), 0..3);
    (hosts, prop::collection::vec(0..4_u8, 0..3)).prop_map(|(hosts, ports)| {
        let hosts: Vec<IpAddr> = hosts
            .into_iter()
            .map(|(is_v6, n)| if is_v6 { v6(n).into() } else { v4(n).into() })
            .collect();
        let ports: Vec<u16> = ports.into_iter().map(port).collect();
        Filter::new(&hosts, &ports).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_program_lets_the_same_pass(made in made(), filter in filter()) {
        let frame = made.frame();
        let passes = filter.passes(ETHERNET, &frame, frame.len() as u32);
        let taken = run(&filter.program(Begin::Ethernet, 9_000), &frame, 0);
        prop_assert!(taken == 0 || taken == 9_000);
        if made.is_plain() {
            prop_assert_eq!(passes, taken != 0);
        } else {
            prop_assert!(!passes || taken != 0);
        }
    }

    #[test]
    fn without_a_link_header_too(made in made(), filter in filter()) {
        let frame = made.frame();
        let protocol = u32::from(u16::from_be_bytes([frame[12], frame[13]]));
        let whole = run(&filter.program(Begin::Ethernet, 1), &frame, 0);
        let cooked = run(&filter.program(Begin::Cooked, 1), &frame[14..], protocol);
        prop_assert!(whole == cooked || made.tags > 0 && cooked != 0);
    }

    #[test]
    fn cut_frames_pass_the_program_where_they_pass(made in made(), filter in filter(), cut in 0..120_usize) {
        let frame = made.frame();
        let captured = &frame[..cut.min(frame.len())];
        if filter.passes(ETHERNET, captured, frame.len() as u32) {
            prop_assert_ne!(run(&filter.program(Begin::Ethernet, 1), &frame, 0), 0);
        }
    }
}

#[test]
fn hosts_and_ports_are_both_asked_for_of_either_end() {
    let packet = Made {
        tags: 1,
        v6: false,
        protocol: 6,
        hosts: [1, 2],
        ports: [1, 3],
        extensions: Vec::new(),
        fragment: (0, false),
        options: 0,
    };
    let frame = packet.frame();
    let passes = |hosts: &[u8], ports: &[u8]| {
        let hosts: Vec<IpAddr> = hosts.iter().map(|host| v4(*host).into()).collect();
        let ports: Vec<u16> = ports.iter().map(|number| port(*number)).collect();
        Filter::new(&hosts, &ports).unwrap().passes(ETHERNET, &frame, frame.len() as u32)
    };
    assert!(passes(&[], &[]));
    assert!(passes(&[1], &[]) && passes(&[2], &[]) && passes(&[3, 2], &[]));
    assert!(passes(&[], &[1]) && passes(&[], &[3]) && passes(&[2], &[1]));
    assert!(!passes(&[3], &[]) && !passes(&[], &[2]) && !passes(&[3], &[1]) && !passes(&[1], &[2]));
    let mapped: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
    assert!(Filter::new(&[mapped], &[]).unwrap().passes(ETHERNET, &frame, frame.len() as u32));
}

#[test]
fn the_longest_program_is_within_what_kernels_take() {
    let hosts: Vec<IpAddr> = (0..MOST_HOSTS).map(|n| v6(n as u8).into()).collect();
    let ports: Vec<u16> = (0..MOST_PORTS as u16).collect();
    let program = Filter::new(&hosts, &ports).unwrap().program(Begin::Cooked, 1);
    assert!(program.len() <= 4_096, "{}", program.len());
    for (at, instruction) in program.iter().enumerate() {
        let far = match instruction.code {
            0x05 => instruction.k as usize,
            _ => usize::from(instruction.jt.max(instruction.jf)),
        };
        let ends = instruction.code == 0x06;
        assert!(ends || at + 1 + far < program.len());
    }
    assert!(Filter::new(&[hosts.as_slice(), &hosts[..1]].concat(), &[]).is_none());
}
