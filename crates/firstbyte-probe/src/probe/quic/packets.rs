//! The packets of a connection in order, for logs.
//!
//! Input: datagrams as they leave and arrive, with the plaintext of their packets (`tls::quic_keys`), and the stack's
//! estimates of the path. Output: a [`QuicLog`]. Packets that could not be decrypted are included without their
//! contents.

use std::time::Duration;

use firstbyte_core::timeline::{Direction, OpenedPacket, QuicLog, QuicPacket, QuicRecovery};
use firstbyte_core::wire::frames::Space;
use firstbyte_core::wire::quic::{PacketKind, destination, packets};

use crate::net::{Place, Recorder};
use crate::probe::tls::{Opened, Parameters, hexadecimal};

/// Maximum number of packets recorded for an exchange.
const PACKETS: usize = 512;

#[derive(Debug, Default)]
pub(super) struct PacketLog {
    original: Option<String>,
    /// Datagrams sent, and received.
    datagrams: [u32; 2],
    noted: Vec<Noted>,
    left_out: u64,
    server_parameters: Option<Place>,
    recovery: Vec<(Place, Duration, u64)>,
}

#[derive(Debug)]
struct Noted {
    direction: Direction,
    place: Place,
    datagram: u32,
    kind: PacketKind,
    bytes: u32,
    opened: Option<OpenedPacket>,
}

impl PacketLog {
    /// Starts over for another exchange on the open connection.
    pub(super) fn restart(&mut self) {
        *self = Self { original: self.original.take(), ..Self::default() };
    }

    /// Records a datagram; `opened` are those of its packets that could be decrypted.
    pub(super) fn note(
        &mut self,
        direction: Direction,
        place: Place,
        datagram: &[u8],
        opened: &[Opened],
    ) {
        if self.original.is_none() && direction == Direction::Sent {
            self.original = destination(datagram).map(hexadecimal);
        }
        let counted = &mut self.datagrams[usize::from(direction == Direction::Received)];
        let number = *counted;
        *counted += 1;
        let mut opened = opened.iter().peekable();
        for packet in packets(datagram) {
            if self.noted.len() == PACKETS {
                self.left_out += 1;
                continue;
            }
            let space = Space::for_packet(packet.kind);
            let inside = opened.next_if(|opened| Some(opened.space) == space);
            self.noted.push(Noted {
                direction,
                place,
                datagram: number,
                kind: packet.kind,
                bytes: u32::try_from(packet.bytes).unwrap_or(u32::MAX),
                opened: inside.map(|inside| OpenedPacket {
                    number: inside.number,
                    frames: inside.frames.clone(),
                }),
            });
        }
    }

    /// Records that the server's transport parameters arrived by this datagram.
    pub(super) fn knows_server_since(&mut self, place: Place) {
        self.server_parameters.get_or_insert(place);
    }

    /// Records the stack's estimates of the path since this datagram.
    pub(super) fn recovered(&mut self, place: Place, smoothed: Duration, window: u64) {
        let last = self.recovery.last().map(|(_, smoothed, window)| (*smoothed, *window));
        if last != Some((smoothed, window)) && self.recovery.len() < PACKETS {
            self.recovery.push((place, smoothed, window));
        }
    }

    /// The log of all recorded packets.
    pub(super) fn log(&self, recorder: &Recorder, parameters: Parameters) -> QuicLog {
        let packet = |noted: &Noted| {
            Some(QuicPacket {
                direction: noted.direction,
                stamp: recorder.stamp_of(noted.place)?,
                datagram: noted.datagram,
                kind: noted.kind,
                bytes: noted.bytes,
                opened: noted.opened.clone(),
            })
        };
        let recovery = |(place, smoothed_rtt, congestion_window): &(Place, Duration, u64)| {
            Some(QuicRecovery {
                at: recorder.stamp_of(*place)?.at,
                smoothed_rtt: *smoothed_rtt,
                congestion_window: *congestion_window,
            })
        };
        let server = self.server_parameters.and_then(|place| recorder.stamp_of(place));
        QuicLog {
            original_connection_id: self.original.clone(),
            client_parameters: parameters.client,
            server_parameters: parameters.server,
            server_parameters_at: server.map(|stamp| stamp.at),
            packets: self.noted.iter().filter_map(packet).collect(),
            left_out: self.left_out,
            recovery: self.recovery.iter().filter_map(recovery).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstbyte_clock::{Monotonic, Timebase};
    use firstbyte_core::timeline::QuicFrame;

    #[test]
    fn a_packet_that_was_not_opened_is_there_without_what_was_in_it() {
        // A Handshake packet without known keys, followed by a short header.
        let mut datagram = vec![0xe0, 0, 0, 0, 1, 2, 0xab, 0xcd, 0, 4, 1, 2, 3, 4];
        datagram.extend([0x40, 1, 2, 3]);
        let mut recorder = Recorder::new(Timebase::start());
        recorder.sent(datagram.len(), Monotonic::now());
        let place = recorder.last_place(Direction::Sent).unwrap();
        let opened = Opened {
            space: Space::Application,
            number: 7,
            elicits: true,
            pieces: Vec::new(),
            acknowledges: Vec::new(),
            delay: 0,
            frames: vec![QuicFrame::Ping],
        };
        let mut log = PacketLog::default();
        log.note(Direction::Sent, place, &datagram, &[opened]);
        let log = log.log(&recorder, Parameters::default());
        assert_eq!(log.original_connection_id.as_deref(), Some("abcd"));
        let [handshake, short] = &log.packets[..] else { panic!("{log:?}") };
        assert_eq!((handshake.kind, handshake.bytes), (PacketKind::Handshake, 14));
        assert_eq!(handshake.opened, None);
        assert_eq!((short.kind, short.bytes, short.datagram), (PacketKind::OneRtt, 4, 0));
        let expected = OpenedPacket { number: 7, frames: vec![QuicFrame::Ping] };
        assert_eq!(short.opened, Some(expected));
    }

    #[test]
    fn a_long_download_stays_bounded() {
        let mut recorder = Recorder::new(Timebase::start());
        recorder.received(2, Monotonic::now(), None);
        let place = recorder.last_place(Direction::Received).unwrap();
        let mut log = PacketLog::default();
        for _ in 0..PACKETS + 5 {
            log.note(Direction::Received, place, &[0x40, 1], &[]);
        }
        let log = log.log(&recorder, Parameters::default());
        assert_eq!((log.packets.len(), log.left_out), (PACKETS, 5));
    }
}
