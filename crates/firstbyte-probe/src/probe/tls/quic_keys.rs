//! The keys of a QUIC connection, wrapped to observe the packets.
//!
//! The stack does not report the contents of packets, and they are encrypted for everyone else. So its keys are
//! wrapped: plaintext is recorded before encryption and after decryption, as far as frames say which bytes they carry
//! and what they acknowledge.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::BytesMut;
use firstbyte_core::timeline::{QuicFrame, TransportParameter};
use firstbyte_core::wire::cursor::ByteCursor;
use firstbyte_core::wire::frames::{Frame, Space, frames};
use quinn_proto::crypto::{
    self, CryptoError, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};

/// Bytes of the handshake or of a stream. The end of a stream counts as one more byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Piece {
    pub stream: Option<u64>,
    pub start: u64,
    pub end: u64,
}

/// A packet in plaintext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::probe) struct Opened {
    pub space: Space,
    pub number: u64,
    pub elicits: bool,
    pub pieces: Vec<Piece>,
    /// Acknowledged ranges, first and last number.
    pub acknowledges: Vec<(u64, u64)>,
    /// The delay as encoded in the ACK frame.
    pub delay: u64,
    /// All frames of the packet.
    pub frames: Vec<QuicFrame>,
}

impl Opened {
    /// `exponent` is that of the sender's acknowledgement delays.
    fn parse(space: Space, number: u64, payload: &[u8], exponent: u32) -> Self {
        let (elicits, delay) = (false, 0);
        let (pieces, acknowledges, all) = (Vec::new(), Vec::new(), Vec::new());
        let mut opened = Self { space, number, elicits, pieces, acknowledges, delay, frames: all };
        for frame in frames(payload) {
            opened.elicits |= frame.elicits();
            opened.frames.push(noted(&frame, exponent));
            match frame {
                Frame::Ack { ranges, delay } => {
                    opened.acknowledges.extend(ranges);
                    opened.delay = delay;
                }
                Frame::Crypto { offset, data } => {
                    let end = offset.saturating_add(data.len() as u64);
                    opened.pieces.push(Piece { stream: None, start: offset, end });
                }
                Frame::Stream { id, offset, bytes, fin } => {
                    let end = offset.saturating_add(bytes).saturating_add(u64::from(fin));
                    opened.pieces.push(Piece { stream: Some(id), start: offset, end });
                }
                _ => {}
            }
        }
        opened
    }
}

/// A frame without its data.
fn noted(frame: &Frame<'_>, exponent: u32) -> QuicFrame {
    match frame {
        Frame::Padding(bytes) => QuicFrame::Padding(*bytes),
        Frame::Ping => QuicFrame::Ping,
        Frame::Ack { ranges, delay } => QuicFrame::Ack {
            delay: Duration::from_micros(delay.saturating_mul(1 << exponent)),
            ranges: ranges.clone(),
        },
        Frame::Crypto { offset, data } => {
            QuicFrame::Crypto { offset: *offset, bytes: data.len() as u64 }
        }
        Frame::Stream { id, offset, bytes, fin } => {
            QuicFrame::Stream { id: *id, offset: *offset, bytes: *bytes, fin: *fin }
        }
        Frame::Other { kind, numbers, id } => {
            QuicFrame::Other { kind: *kind, numbers: numbers.clone(), id: hexadecimal(id) }
        }
    }
}

/// `bytes` as hexadecimal digits.
pub(in crate::probe) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Transport parameters of both sides, as far as they are numbers.
#[derive(Clone, Debug, Default)]
pub(in crate::probe) struct Parameters {
    pub client: Vec<TransportParameter>,
    pub server: Vec<TransportParameter>,
}

impl Parameters {
    /// The exponent of the server's acknowledgement delays (RFC 9000 §18.2).
    fn exponent(&self) -> u32 {
        const ACK_DELAY_EXPONENT: u64 = 0x0a;
        /// For peers that do not send one; and the maximum.
        const DEFAULT: u32 = 3;
        const LARGEST: u32 = 20;
        let said = self.server.iter().find(|parameter| parameter.id == ACK_DELAY_EXPONENT);
        let said = said.and_then(|parameter| u32::try_from(parameter.value).ok());
        said.map_or(DEFAULT, |exponent| exponent.min(LARGEST))
    }
}

/// The `parameters` that are numbers or have no value. Reserved ones (RFC 9000 §18.1) mean nothing.
fn numbers(parameters: &TransportParameters) -> Vec<TransportParameter> {
    /// Connection IDs, a token, an address.
    const TEXTS: [u64; 5] = [0x00, 0x02, 0x0d, 0x0f, 0x10];
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    let mut reader = ByteCursor::new(&bytes);
    std::iter::from_fn(|| Some((reader.quic_number()?, reader.quic_block()?)))
        .filter(|(id, _)| !TEXTS.contains(id) && id % 31 != 27)
        .filter_map(|(id, value)| {
            let value = match value {
                [] => 1,
                value => ByteCursor::new(value).quic_number()?,
            };
            Some(TransportParameter { id, value })
        })
        .collect()
}

/// Observed packets that were not processed yet, in order.
#[derive(Clone, Debug, Default)]
pub(in crate::probe) struct Passed(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    packets: Vec<Opened>,
    parameters: Parameters,
}

impl Passed {
    fn note(&self, opened: Opened) {
        /// A datagram has only a handful of packets; more than this are not kept.
        const WAITING: usize = 64;
        let mut waiting = self.waiting();
        if waiting.packets.len() < WAITING {
            waiting.packets.push(opened);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::probe) fn take(&self) -> Vec<Opened> {
        std::mem::take(&mut self.waiting().packets)
    }

    pub(in crate::probe) fn parameters(&self) -> Parameters {
        self.waiting().parameters.clone()
    }

    /// Whether the server's transport parameters have arrived.
    pub(in crate::probe) fn knows_server(&self) -> bool {
        !self.waiting().parameters.server.is_empty()
    }
}

/// A configuration whose connections' packets are observed.
pub(in crate::probe) struct Seeing {
    pub inner: Arc<dyn crypto::ClientConfig>,
    pub passed: Passed,
}

impl fmt::Debug for Seeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seeing").finish_non_exhaustive()
    }
}

impl crypto::ClientConfig for Seeing {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let inner = Arc::clone(&self.inner).start_session(version, server_name, params)?;
        let passed = self.passed.clone();
        passed.waiting().parameters.client = numbers(params);
        Ok(Box::new(SeeingSession { inner, passed, next: Space::Handshake }))
    }
}

struct SeeingSession {
    inner: Box<dyn Session>,
    passed: Passed,
    /// The packet number space of the next keys.
    next: Space,
}

impl SeeingSession {
    fn key(&self, inner: Box<dyn PacketKey>, space: Space) -> Box<dyn PacketKey> {
        Box::new(SeeingKey { inner, space, passed: self.passed.clone() })
    }

    fn pair(&self, keys: KeyPair<Box<dyn PacketKey>>, space: Space) -> KeyPair<Box<dyn PacketKey>> {
        KeyPair { local: self.key(keys.local, space), remote: self.key(keys.remote, space) }
    }
}

impl Session for SeeingSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let Keys { header, packet } = self.inner.initial_keys(dst_cid, side);
        Keys { header, packet: self.pair(packet, Space::Initial) }
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let (header, packet) = self.inner.early_crypto()?;
        Some((header, self.key(packet, Space::Application)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.inner.read_handshake(buf)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let parameters = self.inner.transport_parameters()?;
        if let Some(parameters) = &parameters {
            self.passed.waiting().parameters.server = numbers(parameters);
        }
        Ok(parameters)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let Keys { header, packet } = self.inner.write_handshake(buf)?;
        let space = std::mem::replace(&mut self.next, Space::Application);
        Some(Keys { header, packet: self.pair(packet, space) })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.inner.next_1rtt_keys()?;
        Some(self.pair(keys, Space::Application))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(orig_dst_cid, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}

/// The exponent of our own stack's acknowledgement delays.
const OWN_EXPONENT: u32 = 3;

struct SeeingKey {
    inner: Box<dyn PacketKey>,
    space: Space,
    passed: Passed,
}

impl PacketKey for SeeingKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let payload = header_len..buf.len().saturating_sub(self.inner.tag_len());
        if let Some(payload) = buf.get(payload) {
            self.passed.note(Opened::parse(self.space, packet, payload, OWN_EXPONENT));
        }
        self.inner.encrypt(packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        self.inner.decrypt(packet, header, payload)?;
        let exponent = self.passed.waiting().parameters.exponent();
        self.passed.note(Opened::parse(self.space, packet, payload, exponent));
        Ok(())
    }

    fn tag_len(&self) -> usize {
        self.inner.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.inner.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.inner.integrity_limit()
    }
}
