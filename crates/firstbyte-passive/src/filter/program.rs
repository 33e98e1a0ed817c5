//! A filter as a classic BPF program (McCanne and Jacobson 1993; Linux, `networking/filter.rst`).
//!
//! The program walks headers as far as is possible without loops: a few VLAN tags, a few IPv6 extension headers.
//! Packets with more of these pass, and the reader of the frame decides.

use super::Filter;

/// One instruction, `struct sock_filter`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Operation code.
    pub code: u16,
    /// Number of instructions to skip if a comparison is true.
    pub jt: u8,
    /// Number of instructions to skip if it is false.
    pub jf: u8,
    /// Constant operand.
    pub k: u32,
}

/// Start of the packets that a socket passes to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Frames from their Ethernet header on; a VLAN tag may have been removed.
    Ethernet,
    /// Packets without a link header: the kernel supplies the protocol.
    Cooked,
}

/// Most VLAN tags walked.
const TAGS: usize = 4;
/// Most IPv6 extension headers walked.
const EXTENSIONS: usize = 6;

const LOAD_WORD: u16 = 0x40;
const LOAD_HALF: u16 = 0x48;
const LOAD_BYTE: u16 = 0x50;
const LOAD_HALF_AT: u16 = 0x28;
const LOAD_MEMORY: u16 = 0x60;
const LOAD_X: u16 = 0x01;
const STORE: u16 = 0x02;
const ADD: u16 = 0x04;
const ADD_X: u16 = 0x0c;
const AND: u16 = 0x54;
const SHIFT_LEFT: u16 = 0x64;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;
const TO_X: u16 = 0x07;
const FROM_X: u16 = 0x87;
/// Offset at which the kernel supplies the protocol (`SKF_AD_OFF + SKF_AD_PROTOCOL` in `linux/filter.h`).
const PROTOCOL: u32 = 0xffff_f000;

const VLAN_TYPES: [u32; 5] = [0x8100, 0x88a8, 0x9100, 0x9200, 0x9300];
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const TCP_AND_UDP: [u32; 2] = [6, 17];

/// A jump target, always ahead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Accept,
    Drop,
    V4,
    V4Header,
    V4Host,
    V6,
    V6Header,
    V6Host,
    V6Next { direction: usize, host: usize },
    Level(usize),
    Extension(usize),
    Authentication(usize),
    Fragment(usize),
    Ports,
}

#[derive(Default)]
struct Assembler {
    instructions: Vec<Instruction>,
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn put(&mut self, code: u16, k: u32) {
        self.instructions.push(Instruction { code, jt: 0, jf: 0, k });
    }

    fn here(&mut self, label: Label) {
        self.labels.push((label, self.instructions.len()));
    }

    fn jump(&mut self, to: Label) {
        self.jumps.push((self.instructions.len(), to));
        self.put(JUMP, 0);
    }

    /// Comparisons reach only 255 instructions but jumps any number, so each comparison skips a jump.
    fn jump_if(&mut self, code: u16, k: u32, to: Label) {
        self.instructions.push(Instruction { code, jt: 0, jf: 1, k });
        self.jump(to);
    }

    fn jump_unless_equal(&mut self, k: u32, to: Label) {
        self.instructions.push(Instruction { code: IF_EQUAL, jt: 1, jf: 0, k });
        self.jump(to);
    }

    fn move_x(&mut self, by: u32) {
        self.put(FROM_X, 0);
        self.put(ADD, by);
        self.put(TO_X, 0);
    }

    fn finish(mut self) -> Vec<Instruction> {
        for (at, label) in &self.jumps {
            let target = self.labels.iter().find(|(known, _)| known == label);
            if let Some((_, target)) = target {
                self.instructions[*at].k = (target - at - 1) as u32;
            }
        }
        self.instructions
    }
}

impl Filter {
    /// A program that passes at least the packets of this filter, cut to `snaplen` bytes.
    pub fn program(&self, begin: Begin, snaplen: u32) -> Vec<Instruction> {
        let mut asm = Assembler::default();
        if !self.is_empty() {
            self.link(begin, &mut asm);
            self.ipv4(&mut asm);
            self.ipv6(&mut asm);
            self.transport(&mut asm);
        }
        asm.here(Label::Accept);
        asm.put(RETURN, snaplen);
        asm.here(Label::Drop);
        asm.put(RETURN, 0);
        asm.finish()
    }

    /// Walks to the IP header; leaves X at the type.
    fn link(&self, begin: Begin, asm: &mut Assembler) {
        if begin == Begin::Cooked {
            asm.put(LOAD_X, 0);
            asm.put(LOAD_HALF_AT, PROTOCOL);
            asm.jump_if(IF_EQUAL, IPV4, Label::V4Header);
            asm.jump_if(IF_EQUAL, IPV6, Label::V6Header);
            // Kernels differ in whether such a packet starts at the tag or after it.
            VLAN_TYPES.iter().for_each(|kind| asm.jump_if(IF_EQUAL, *kind, Label::Accept));
            return asm.jump(Label::Drop);
        }
        asm.put(LOAD_X, 12);
        for tag in 0..=TAGS {
            asm.put(LOAD_HALF, 0);
            asm.jump_if(IF_EQUAL, IPV4, Label::V4);
            asm.jump_if(IF_EQUAL, IPV6, Label::V6);
            if tag == TAGS {
                VLAN_TYPES.iter().for_each(|kind| asm.jump_if(IF_EQUAL, *kind, Label::Accept));
                asm.jump(Label::Drop);
            } else {
                // The type is checked before X moves, because that needs the accumulator.
                let found = asm.instructions.len() + 2 * VLAN_TYPES.len() + 1;
                for kind in VLAN_TYPES {
                    let at = asm.instructions.len();
                    asm.instructions.push(Instruction { code: IF_EQUAL, jt: 0, jf: 1, k: kind });
                    asm.put(JUMP, (found - at - 2) as u32);
                }
                asm.jump(Label::Drop);
                asm.move_x(4);
            }
        }
    }

    /// Expects X at the type or, at `V4Header`, at the header itself.
    fn ipv4(&self, asm: &mut Assembler) {
        asm.here(Label::V4);
        asm.move_x(2);
        asm.here(Label::V4Header);
        if self.has_hosts() {
            for address in [12, 16] {
                asm.put(LOAD_WORD, address);
                for host in &self.v4 {
                    asm.jump_if(IF_EQUAL, host.to_bits(), Label::V4Host);
                }
            }
            asm.jump(Label::Drop);
        }
        asm.here(Label::V4Host);
        if self.ports.is_empty() {
            return asm.jump(Label::Accept);
        }
        asm.put(LOAD_HALF, 6);
        asm.jump_if(IF_ANY_BIT, 0x1fff, Label::Accept);
        asm.put(LOAD_BYTE, 9);
        asm.put(STORE, 0);
        asm.put(LOAD_BYTE, 0);
        asm.put(AND, 0x0f);
        asm.put(SHIFT_LEFT, 2);
        asm.put(ADD_X, 0);
        asm.put(TO_X, 0);
        asm.put(LOAD_MEMORY, 0);
        TCP_AND_UDP.iter().for_each(|kind| asm.jump_if(IF_EQUAL, *kind, Label::Ports));
        asm.jump(Label::Drop);
    }

    fn ipv6(&self, asm: &mut Assembler) {
        asm.here(Label::V6);
        asm.move_x(2);
        asm.here(Label::V6Header);
        if self.has_hosts() {
            for (direction, address) in [8, 24].into_iter().enumerate() {
                for (number, host) in self.v6.iter().enumerate() {
                    let next = Label::V6Next { direction, host: number };
                    for part in 0..4 {
                        asm.put(LOAD_WORD, address + 4 * part);
                        let word = (host.to_bits() >> (96 - 32 * part)) as u32;
                        asm.jump_unless_equal(word, next);
                    }
                    asm.jump(Label::V6Host);
                    asm.here(next);
                }
            }
            asm.jump(Label::Drop);
        }
        asm.here(Label::V6Host);
        if self.ports.is_empty() {
            return asm.jump(Label::Accept);
        }
        asm.put(LOAD_BYTE, 6);
        asm.put(STORE, 0);
        asm.move_x(40);
        (0..EXTENSIONS).for_each(|level| extension(level, asm));
        asm.here(Label::Level(EXTENSIONS));
        asm.put(LOAD_MEMORY, 0);
        TCP_AND_UDP.iter().for_each(|kind| asm.jump_if(IF_EQUAL, *kind, Label::Ports));
        asm.jump(Label::Accept);
    }

    /// Expects X at the ports.
    fn transport(&self, asm: &mut Assembler) {
        if self.ports.is_empty() {
            return;
        }
        asm.here(Label::Ports);
        for at in [0, 2] {
            asm.put(LOAD_HALF, at);
            for port in &self.ports {
                asm.jump_if(IF_EQUAL, u32::from(*port), Label::Accept);
            }
        }
        asm.jump(Label::Drop);
    }
}

/// Walks one header after IPv6's. Expects its type in memory and X at its start.
fn extension(level: usize, asm: &mut Assembler) {
    asm.here(Label::Level(level));
    asm.put(LOAD_MEMORY, 0);
    TCP_AND_UDP.iter().for_each(|kind| asm.jump_if(IF_EQUAL, *kind, Label::Ports));
    for kind in [0, 43, 60, 135, 139, 140] {
        asm.jump_if(IF_EQUAL, kind, Label::Extension(level));
    }
    asm.jump_if(IF_EQUAL, 51, Label::Authentication(level));
    asm.jump_if(IF_EQUAL, 44, Label::Fragment(level));
    asm.jump(Label::Drop);
    for (label, add, shift) in
        [(Label::Extension(level), 1, 3), (Label::Authentication(level), 2, 2)]
    {
        asm.here(label);
        asm.put(LOAD_BYTE, 0);
        asm.put(STORE, 0);
        asm.put(LOAD_BYTE, 1);
        asm.put(ADD, add);
        asm.put(SHIFT_LEFT, shift);
        asm.put(ADD_X, 0);
        asm.put(TO_X, 0);
        asm.jump(Label::Level(level + 1));
    }
    asm.here(Label::Fragment(level));
    asm.put(LOAD_BYTE, 0);
    asm.put(STORE, 0);
    asm.put(LOAD_HALF, 2);
    asm.jump_if(IF_ANY_BIT, 0xfff8, Label::Accept);
    asm.move_x(8);
    asm.jump(Label::Level(level + 1));
}
