//! A connection that is under way takes 1 kB of memory at most, over TCP and over QUIC.
//!
//! Bytes of the heap are counted, as malloc hands them out, with everything: tables, indexes, what stands still
//! from the handshake, exchanges. So the figure is the same on every machine. This file has one test: others
//! beside it would be counted as well.
#![allow(clippy::unwrap_used, reason = "a test")]

// The benchmark's, which says the same of more connections and with what the system sees.
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

/// A few more than fit into tables of 4096 places: those are at their largest for what is in them.
const CONNECTIONS: u32 = 3700;
const MOST_BYTES: usize = 1024;
/// With hellos, flights and, over QUIC, keys, for as long as a handshake takes.
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
            // They are what they seem: all that is kept of them is given out.
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
