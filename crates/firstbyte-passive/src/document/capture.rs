//! What a live capture read and lost, as one line of JSON. The fields are in `docs/formats.md`.

use serde::Serialize;

use crate::{Hygiene, names};

/// Name of the format.
pub const WIRE_CAPTURE_FORMAT: &str = "firstbyte/wire-capture";
/// The version that is written.
pub const WIRE_CAPTURE_VERSION: u32 = 1;

/// A live capture at its end.
#[derive(Clone, Debug, Serialize)]
#[allow(missing_docs, reason = "docs/formats.md describes every field")]
pub struct CaptureRecord<'a> {
    pub format: &'static str,
    pub version: u32,
    pub interface: &'a str,
    pub connections: u64,
    pub frames: u64,
    pub wire_bytes: u64,
    pub dropped_frames: Option<u64>,
    pub first_unix_ns: Option<i64>,
    pub last_unix_ns: Option<i64>,
    pub tcp_packets: u64,
    pub udp_packets: u64,
    pub duplicate_packets: u64,
    pub cut_packets: u64,
    pub port_reuses: u64,
    pub evicted_connections: u64,
    pub evicted_half_open: u64,
    pub idle_connections: u64,
    pub unread_quic_connections: u64,
    pub unread_quic_versions: Vec<String>,
}

impl<'a> CaptureRecord<'a> {
    /// The stored form.
    pub fn new(interface: &'a str, connections: u64, hygiene: &Hygiene) -> Self {
        Self {
            format: WIRE_CAPTURE_FORMAT,
            version: WIRE_CAPTURE_VERSION,
            interface,
            connections,
            frames: hygiene.frames,
            wire_bytes: hygiene.wire_bytes,
            dropped_frames: hygiene.dropped,
            first_unix_ns: hygiene.span.map(|(first, _)| first.unix_ns()),
            last_unix_ns: hygiene.span.map(|(_, last)| last.unix_ns()),
            tcp_packets: hygiene.tcp_packets,
            udp_packets: hygiene.udp_packets,
            duplicate_packets: hygiene.duplicates,
            cut_packets: hygiene.cut_headers + hygiene.cut_payloads,
            port_reuses: hygiene.port_reuses,
            evicted_connections: hygiene.evicted,
            evicted_half_open: hygiene.half_open_evicted,
            idle_connections: hygiene.idle,
            unread_quic_connections: hygiene.unread_quic.connections(),
            unread_quic_versions: hygiene
                .unread_quic
                .versions()
                .map(|(version, _)| names::quic_version(version))
                .collect(),
        }
    }
}
