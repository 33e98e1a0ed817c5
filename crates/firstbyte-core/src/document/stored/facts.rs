//! The stored form of facts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::MissingFact;
use super::quic_log::StoredQuicLog;
use crate::document::interned::{Fact, FactTable, Interner, Shared};
use crate::document::{DatagramRecord, EarlyDataRecord};
use crate::timeline::{
    Certificate, ClientFacts, EarlyData, Handshake, Header, HttpFacts, PanelTime, ProxyFacts,
    ProxyKind, QuicFacts, SessionMechanism, TcpFacts, TlsFacts,
};

/// The program that made the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredClient {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_library: Option<String>,
}

impl StoredClient {
    pub(in crate::document) fn from_facts(client: &ClientFacts) -> Self {
        let ClientFacts { name, version, tls_library } = client.clone();
        Self { name, version, tls_library }
    }

    pub(in crate::document) fn facts(self) -> ClientFacts {
        let Self { name, version, tls_library } = self;
        ClientFacts { name, version, tls_library }
    }
}

/// The proxy that the connection went through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredProxy {
    pub kind: String,
    pub authority: String,
    pub tunnel: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

impl StoredProxy {
    pub(in crate::document) fn from_facts(proxy: &ProxyFacts) -> Self {
        let ProxyFacts { kind, authority, tunnel, status } = proxy.clone();
        Self { kind: kind.name().into(), authority, tunnel, status }
    }

    /// `None` for a kind of a later version.
    pub(in crate::document) fn facts(self) -> Option<ProxyFacts> {
        let Self { kind, authority, tunnel, status } = self;
        Some(ProxyFacts { kind: ProxyKind::named(&kind)?, authority, tunnel, status })
    }
}

/// Times in a browser's network panel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredPanelTime {
    pub label: String,
    pub took_ns: u64,
}

impl StoredPanelTime {
    pub(in crate::document) fn from_facts(time: &PanelTime) -> Self {
        let took_ns = u64::try_from(time.took.as_nanos()).unwrap_or(u64::MAX);
        Self { label: time.label.clone(), took_ns }
    }

    fn facts(self) -> PanelTime {
        PanelTime { label: self.label, took: Duration::from_nanos(self.took_ns) }
    }

    pub(in crate::document) fn all(stored: Vec<Self>) -> Vec<PanelTime> {
        stored.into_iter().map(Self::facts).collect()
    }
}

/// The kernel's data on the TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredTcp {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_rtt_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retransmits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_mss_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_mss_bytes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_order: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_window_limited_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_departure_uncertainty_ns: Option<u64>,
}

/// Data on the QUIC connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredQuic {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_sent: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datagrams_received: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_packets: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retry: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_before_validation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amplification_stall_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_control: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub datagrams: Vec<DatagramRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<StoredQuicLog>,
}

/// Outcome of the TLS handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredTls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cipher_suite: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_offered: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data_allowed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_data: Option<EarlyDataRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<Shared<Vec<StoredCertificate>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tickets_received: Option<u32>,
}

/// One certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredCertificate {
    pub subject: String,
    pub issuer: String,
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_after_unix_seconds: Option<i64>,
    pub der_bytes: u64,
}

/// The HTTP exchange.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "documented in docs/formats.md, field by field")]
pub struct StoredHttp {
    pub method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Shared<(String, String)>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upload_sent_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decoded_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undecoded_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_took_ns: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_be_cut_short: bool,
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl StoredTcp {
    pub(super) fn from_facts(tcp: &TcpFacts) -> Self {
        Self {
            syn_rtt_ns: tcp.syn_rtt.map(ns),
            min_rtt_ns: tcp.min_rtt.map(ns),
            retransmits: tcp.retransmits,
            send_mss_bytes: tcp.send_mss,
            receive_mss_bytes: tcp.receive_mss,
            out_of_order: tcp.out_of_order,
            receive_window_limited_ns: tcp.receive_window_limited.map(ns),
            congestion_control: tcp.congestion_control.clone(),
            syn_departure_uncertainty_ns: tcp.syn_departure_uncertainty.map(ns),
        }
    }

    pub(super) fn facts(self) -> TcpFacts {
        TcpFacts {
            syn_rtt: self.syn_rtt_ns.map(Duration::from_nanos),
            min_rtt: self.min_rtt_ns.map(Duration::from_nanos),
            retransmits: self.retransmits,
            send_mss: self.send_mss_bytes,
            receive_mss: self.receive_mss_bytes,
            out_of_order: self.out_of_order,
            receive_window_limited: self.receive_window_limited_ns.map(Duration::from_nanos),
            congestion_control: self.congestion_control,
            syn_departure_uncertainty: self.syn_departure_uncertainty_ns.map(Duration::from_nanos),
        }
    }
}

impl StoredQuic {
    pub(super) fn from_facts(quic: &QuicFacts) -> Self {
        Self {
            version: quic.version.clone(),
            min_rtt_ns: quic.min_rtt.map(ns),
            datagrams_sent: quic.datagrams_sent,
            datagrams_received: quic.datagrams_received,
            lost_packets: quic.lost_packets,
            retry: quic.retry,
            bytes_before_validation: quic.bytes_before_validation,
            amplification_stall_ns: quic.amplification_stall.map(ns),
            congestion_control: quic.congestion_control.clone(),
            datagrams: quic.datagrams.iter().map(DatagramRecord::from_datagram).collect(),
            log: quic.log.as_deref().map(StoredQuicLog::from_log),
        }
    }

    pub(super) fn facts(self) -> QuicFacts {
        QuicFacts {
            version: self.version,
            min_rtt: self.min_rtt_ns.map(Duration::from_nanos),
            datagrams_sent: self.datagrams_sent,
            datagrams_received: self.datagrams_received,
            lost_packets: self.lost_packets,
            retry: self.retry,
            bytes_before_validation: self.bytes_before_validation,
            amplification_stall: self.amplification_stall_ns.map(Duration::from_nanos),
            congestion_control: self.congestion_control,
            datagrams: self.datagrams.iter().map(DatagramRecord::datagram).collect(),
            log: self.log.map(|log| Box::new(log.log())),
        }
    }
}

impl StoredTls {
    pub(super) fn from_facts(tls: &TlsFacts, interner: &mut Interner) -> Self {
        let certificates = (!tls.certificates.is_empty()).then(|| {
            let fact = Fact::Certificates(
                tls.certificates.iter().map(StoredCertificate::from_certificate).collect(),
            );
            match (interner.number(&fact), fact) {
                (None, Fact::Certificates(list)) => Shared::Here(list),
                (number, _) => Shared::Number(number.unwrap_or_default()),
            }
        });
        Self {
            version: tls.version.clone(),
            cipher_suite: tls.cipher_suite.clone(),
            group: tls.group.clone(),
            handshake: tls.handshake.map(|h| h.name().into()),
            session_offered: tls.session_offered.map(|m| m.name().into()),
            early_data_allowed: tls.early_data_allowed,
            early_data: tls.early_data.map(|early| EarlyDataRecord {
                bytes_before_server_hello: early.bytes_before_server_hello,
                accepted: early.accepted,
            }),
            alpn: tls.alpn.clone(),
            certificates,
            verified: tls.verified,
            tickets_received: tls.tickets_received,
        }
    }

    pub(super) fn facts(self, facts: &FactTable) -> Result<TlsFacts, MissingFact> {
        let certificates = match self.certificates {
            None => Vec::new(),
            Some(Shared::Here(list)) => list,
            Some(Shared::Number(number)) => match facts.get(number) {
                Some(Fact::Certificates(list)) => list.clone(),
                _ => return Err(MissingFact(number)),
            },
        };
        Ok(TlsFacts {
            version: self.version,
            cipher_suite: self.cipher_suite,
            group: self.group,
            handshake: self.handshake.as_deref().and_then(Handshake::named),
            session_offered: self.session_offered.as_deref().and_then(SessionMechanism::named),
            early_data_allowed: self.early_data_allowed,
            early_data: self.early_data.map(|early| EarlyData {
                bytes_before_server_hello: early.bytes_before_server_hello,
                accepted: early.accepted,
            }),
            alpn: self.alpn,
            certificates: certificates.into_iter().map(StoredCertificate::certificate).collect(),
            verified: self.verified,
            tickets_received: self.tickets_received,
        })
    }
}

impl StoredTls {
    /// Like `facts`, but without the certificates' contents, except their lengths.
    pub(in crate::document) fn facts_of_columns(
        &self,
        facts: &FactTable,
    ) -> Result<TlsFacts, MissingFact> {
        let certificates = match &self.certificates {
            None => &[],
            Some(Shared::Here(list)) => list.as_slice(),
            Some(Shared::Number(number)) => match facts.get(*number) {
                Some(Fact::Certificates(list)) => list,
                _ => return Err(MissingFact(*number)),
            },
        };
        let length = |stored: &StoredCertificate| Certificate {
            der_bytes: stored.der_bytes,
            ..Certificate::default()
        };
        let certificates: Vec<Certificate> = certificates.iter().map(length).collect();
        let Self { version, cipher_suite, group, handshake, session_offered, alpn, .. } = self;
        Ok(TlsFacts {
            version: version.clone(),
            cipher_suite: cipher_suite.clone(),
            group: group.clone(),
            handshake: handshake.as_deref().and_then(Handshake::named),
            session_offered: session_offered.as_deref().and_then(SessionMechanism::named),
            early_data_allowed: self.early_data_allowed,
            early_data: self.early_data.map(|early| EarlyData {
                bytes_before_server_hello: early.bytes_before_server_hello,
                accepted: early.accepted,
            }),
            alpn: alpn.clone(),
            certificates,
            verified: self.verified,
            tickets_received: self.tickets_received,
        })
    }
}

impl StoredCertificate {
    fn from_certificate(certificate: &Certificate) -> Self {
        Self {
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            key: certificate.key.clone(),
            not_after_unix_seconds: certificate.not_after_unix,
            der_bytes: certificate.der_bytes,
        }
    }

    fn certificate(self) -> Certificate {
        Certificate {
            subject: self.subject,
            issuer: self.issuer,
            key: self.key,
            not_after_unix: self.not_after_unix_seconds,
            der_bytes: self.der_bytes,
        }
    }
}

impl StoredHttp {
    pub(super) fn from_facts(http: &HttpFacts, interner: &mut Interner) -> Self {
        let headers = http.headers.iter().map(|header| {
            let fact = Fact::Header(header.name.clone(), header.value.clone());
            match (interner.number(&fact), fact) {
                (None, Fact::Header(name, value)) => Shared::Here((name, value)),
                (number, _) => Shared::Number(number.unwrap_or_default()),
            }
        });
        Self {
            method: http.method.clone(),
            version: http.version.clone(),
            status: http.status,
            headers: headers.collect(),
            request_bytes: http.request_bytes,
            upload_bytes: http.upload_bytes,
            upload_sent_bytes: http.upload_sent_bytes,
            header_bytes: http.header_bytes,
            body_bytes: http.body_bytes,
            decoded_bytes: http.decoded_bytes,
            undecoded_bytes: http.undecoded_bytes,
            head_took_ns: http.head_took.map(ns),
            may_be_cut_short: http.may_be_cut_short,
        }
    }

    pub(super) fn facts(self, facts: &FactTable) -> Result<HttpFacts, MissingFact> {
        let headers = self.headers.into_iter().map(|header| match header {
            Shared::Here((name, value)) => Ok(Header { name, value }),
            Shared::Number(number) => match facts.get(number) {
                Some(Fact::Header(name, value)) => {
                    Ok(Header { name: name.clone(), value: value.clone() })
                }
                _ => Err(MissingFact(number)),
            },
        });
        Ok(HttpFacts {
            method: self.method,
            version: self.version,
            status: self.status,
            headers: headers.collect::<Result<_, _>>()?,
            request_bytes: self.request_bytes,
            upload_bytes: self.upload_bytes,
            upload_sent_bytes: self.upload_sent_bytes,
            header_bytes: self.header_bytes,
            body_bytes: self.body_bytes,
            decoded_bytes: self.decoded_bytes,
            undecoded_bytes: self.undecoded_bytes,
            head_took: self.head_took_ns.map(Duration::from_nanos),
            may_be_cut_short: self.may_be_cut_short,
        })
    }
}
