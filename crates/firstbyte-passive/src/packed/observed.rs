//! How the parts of a connection's record are packed.

use super::{Pack, Packer, Unpacker, packed};
use crate::SessionId;
use crate::observed::{
    AlertSeen, CertificateKey, CertificatesSeen, EarlyDataSeen, Exchange, Resumption, TlsSeen,
};
use firstbyte_core::timeline::{Handshake, SessionMechanism};

packed!(struct TlsSeen {
    client_hello,
    server_hello,
    version_offered,
    version,
    cipher_suite,
    group,
    sni,
    alpn_offered,
    alpn,
    ech_offered,
    client_hello_bytes,
    client_key_exchange_bytes,
    server_key_exchange_bytes,
    certificates,
    server_flight_bytes,
    client_certificate_requested,
    handshake,
    resumption,
    hello_retry_request,
    early_data,
    tickets,
    tickets_inferred,
    session_issued,
    alert,
    complete,
    unconfirmed,
});
packed!(struct Resumption { offered, offered_size, accepted, declined, id_sent, cut });
packed!(struct EarlyDataSeen { offered, bytes, accepted, inferred });
packed!(struct CertificatesSeen { count, chain_bytes, key });
packed!(struct AlertSeen { by_client, description, warning, at });
packed!(
    enum Handshake {
        Full,
        FullWithHelloRetryRequest,
        Resumed,
    }
);
packed!(
    enum SessionMechanism {
        SessionId,
        Ticket,
        Psk,
    }
);

/// Each time is a difference to the previous one: in this order, all are small. One byte tells which optional ones
/// exist.
impl Pack for Exchange {
    fn pack(&self, to: &mut Packer) {
        let record = (self.first_record_ns > 0).then_some(self.first_record_ns);
        let is_there =
            [self.response_first_packet.is_some(), record.is_some(), self.response_end.is_some()];
        (self.request_start, self.request_end).pack(to);
        let bits = is_there.iter().zip([1, 2, 4]);
        bits.map(|(is_there, bit)| u8::from(*is_there) * bit).sum::<u8>().pack(to);
        self.response_first_packet.iter().for_each(|time| time.pack(to));
        record.iter().for_each(|record| record.pack(to));
        self.response_end.iter().for_each(|time| time.pack(to));
        (self.request_bytes, self.response_bytes).pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        let (request_start, request_end) = Pack::unpack(from);
        let bits = u8::unpack(from);
        let is_there = |bit| bits & bit != 0;
        let response_first_packet = is_there(1).then(|| Pack::unpack(from));
        let first_record_ns = if is_there(2) { Pack::unpack(from) } else { 0 };
        let response_end = is_there(4).then(|| Pack::unpack(from));
        let (request_bytes, response_bytes) = Pack::unpack(from);
        Self {
            request_start,
            request_end,
            response_first_packet,
            first_record_ns,
            response_end,
            request_bytes,
            response_bytes,
        }
    }
}

impl Pack for SessionId {
    fn pack(&self, to: &mut Packer) {
        self.0.pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        Self(u64::unpack(from))
    }
}

impl Pack for CertificateKey {
    fn pack(&self, to: &mut Packer) {
        let (kind, number): (u8, u32) = match *self {
            Self::Other => (0, 0),
            Self::Rsa(bits) => (1, bits),
            Self::P256 => (2, 0),
            Self::P384 => (3, 0),
            Self::P521 => (4, 0),
            Self::Ed25519 => (5, 0),
            Self::MlDsa(set) => (6, set.into()),
        };
        (kind, number).pack(to);
    }
    fn unpack(from: &mut Unpacker<'_>) -> Self {
        match <(u8, u32)>::unpack(from) {
            (1, bits) => Self::Rsa(bits),
            (2, _) => Self::P256,
            (3, _) => Self::P384,
            (4, _) => Self::P521,
            (5, _) => Self::Ed25519,
            (6, set) => Self::MlDsa(set as u8),
            _ => Self::Other,
        }
    }
}
