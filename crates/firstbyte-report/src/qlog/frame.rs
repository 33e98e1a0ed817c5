//! Frames in qlog's format.

use firstbyte_core::timeline::QuicFrame;
use serde_json::{Value, json};

use super::rounded;

pub(super) fn value(frame: &QuicFrame) -> Value {
    let raw = |bytes: &u64| json!({ "payload_length": bytes });
    match frame {
        QuicFrame::Padding(bytes) => json!({ "frame_type": "padding", "raw": raw(bytes) }),
        QuicFrame::Ping => json!({ "frame_type": "ping" }),
        QuicFrame::Ack { delay, ranges } => {
            let ranges: Vec<_> =
                ranges.iter().rev().map(|(low, high)| range(*low, *high)).collect();
            json!({ "frame_type": "ack", "ack_delay": rounded(*delay), "acked_ranges": ranges })
        }
        QuicFrame::Crypto { offset, bytes } => {
            json!({ "frame_type": "crypto", "offset": offset, "raw": raw(bytes) })
        }
        QuicFrame::Stream { id, offset, bytes, fin } => {
            let mut frame = json!({ "frame_type": "stream", "stream_id": id, "offset": offset });
            if *fin {
                frame["fin"] = true.into();
            }
            frame["raw"] = raw(bytes);
            frame
        }
        QuicFrame::Other { kind, numbers, id } => {
            other(*kind, numbers, id).unwrap_or_else(|| unknown(*kind))
        }
    }
}

/// A range of packet numbers; a single number is a range of one element.
fn range(low: u64, high: u64) -> Value {
    if low == high { json!([low]) } else { json!([low, high]) }
}

fn unknown(kind: u64) -> Value {
    json!({ "frame_type": "unknown", "frame_type_bytes": kind })
}

/// A frame of a type that qlog names, if none of its numbers is missing (RFC 9000 §19, RFC 9221 §4).
fn other(kind: u64, numbers: &[u64], id: &str) -> Option<Value> {
    let number = |place: usize| numbers.get(place).copied();
    let streams = |kind: u64| if kind & 1 == 0 { "bidirectional" } else { "unidirectional" };
    Some(match kind {
        0x04 => json!({
            "frame_type": "reset_stream",
            "stream_id": number(0)?,
            "error": "unknown",
            "error_code": number(1)?,
            "final_size": number(2)?,
        }),
        0x05 => json!({
            "frame_type": "stop_sending",
            "stream_id": number(0)?,
            "error": "unknown",
            "error_code": number(1)?,
        }),
        // Omit the token itself, because its holder can connect without a Retry.
        0x07 => json!({
            "frame_type": "new_token",
            "token": { "raw": { "length": number(0)? } },
        }),
        0x10 => json!({ "frame_type": "max_data", "maximum": number(0)? }),
        0x11 => json!({
            "frame_type": "max_stream_data",
            "stream_id": number(0)?,
            "maximum": number(1)?,
        }),
        0x12 | 0x13 => json!({
            "frame_type": "max_streams",
            "stream_type": streams(kind),
            "maximum": number(0)?,
        }),
        0x14 => json!({ "frame_type": "data_blocked", "limit": number(0)? }),
        0x15 => json!({
            "frame_type": "stream_data_blocked",
            "stream_id": number(0)?,
            "limit": number(1)?,
        }),
        0x16 | 0x17 => json!({
            "frame_type": "streams_blocked",
            "stream_type": streams(kind),
            "limit": number(0)?,
        }),
        0x18 => json!({
            "frame_type": "new_connection_id",
            "sequence_number": number(0)?,
            "retire_prior_to": number(1)?,
            "connection_id_length": id.len() / 2,
            "connection_id": id,
        }),
        0x19 => json!({ "frame_type": "retire_connection_id", "sequence_number": number(0)? }),
        0x1a => json!({ "frame_type": "path_challenge" }),
        0x1b => json!({ "frame_type": "path_response" }),
        0x1c => json!({
            "frame_type": "connection_close",
            "error_space": "transport",
            "error_code": number(0)?,
            "trigger_frame_type": number(1)?,
        }),
        0x1d => json!({
            "frame_type": "connection_close",
            "error_space": "application",
            "error_code": number(0)?,
        }),
        0x1e => json!({ "frame_type": "handshake_done" }),
        0x31 => json!({ "frame_type": "datagram", "raw": { "payload_length": number(0)? } }),
        _ => return None,
    })
}
