//! A live connection takes at most 1 kB of memory, over TCP and over QUIC.
//!
//! Counts heap bytes as malloc allocates them, including everything: tables, indexes, handshake data that is kept,
//! exchanges. The result is therefore the same on every machine. This file has only one test: others in the same
//! process would be counted as well.
#![allow(clippy::unwrap_used, reason = "a test")]

// The benchmark's module; the benchmark measures more connections, and also with the system's figures.
#[path = "../../benches/wire/live.rs"]
mod live;
#[path = "../../benches/wire/quic.rs"]
mod quic;
#[path = "../../benches/wire/support.rs"]
#[allow(dead_code, reason = "the benchmark also writes files")]
mod support;
#[path = "../../benches/wire/sys.rs"]
mod sys;

use live::{Carrier, Stage, follow};

/// Slightly more than fit into tables of 4096 buckets, so that the tables are largest relative to their content.
const CONNECTIONS: u32 = 3700;
const MOST_BYTES: usize = 1024;
/// Includes hellos, flights and, over QUIC, keys, which are kept only during the handshake.
const MOST_BYTES_MID_HANDSHAKE: usize = 4096;

#[test]
fn a_live_connection_takes_a_kilobyte_at_most() {
    for carrier in [Carrier::Tcp, Carrier::Quic] {
        for (stage, most) in
            [(Stage::UnderWay, MOST_BYTES), (Stage::MidHandshake, MOST_BYTES_MID_HANDSHAKE)]
        {
            let (mut analyzer, taken) = follow(carrier, stage, CONNECTIONS);
            assert_eq!(analyzer.live(), CONNECTIONS as usize, "{carrier:?}, {stage:?}");
            let each = taken / CONNECTIONS as usize;
            println!("{carrier:?}, {stage:?}: {each} bytes");
            assert!(each <= most, "{carrier:?}, {stage:?}: {each} bytes");
            // Check that the connections are complete: all their stored data is emitted.
            let mut whole = 0;
            analyzer.finish(&mut |observed| {
                let complete = observed.tls.as_ref().is_some_and(|tls| tls.complete);
                assert_eq!(complete, stage == Stage::UnderWay, "{observed:#?}");
                whole += u32::from(complete && observed.exchanges.first.len() == 8);
            });
            assert_eq!(whole, if stage == Stage::UnderWay { CONNECTIONS } else { 0 });
        }
    }
}
