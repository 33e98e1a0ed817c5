//! Cost of simulating an audience: seconds per million connections.

use std::time::Duration;

use firstbyte::prediction::player;
use firstbyte::prediction::setup::chain;
use firstbyte_predict::audience::Audience;
use firstbyte_predict::{Http, Session, Setup, Tls, Way};

/// Number of visitors; each is simulated twice.
const VISITORS: u32 = 500_000;

pub(crate) fn cost() -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("seconds per million connections, {threads} threads; 20 kB, chain of 3 kB\n");
    println!("| ways | no loss | 1 % lost |\n|---|---:|---:|");
    let way = |tls, http| Way { tls, http, session: Session::Full, ..Way::default() };
    let pairs = [
        [way(Tls::V1_2, Http::V2), way(Tls::V1_3, Http::V2)],
        [way(Tls::V1_3, Http::V2), way(Tls::V1_3, Http::V3)],
    ];
    for ways in pairs {
        let mut line = format!("| {} → {} |", ways[0].label(), ways[1].label());
        for loss in [0.0, 0.01] {
            line += &format!(" {:.2} |", seconds(&ways, loss, threads)?);
        }
        println!("{line}");
    }
    Ok(())
}

/// Includes all preparation: handshakes, tables.
fn seconds(ways: &[Way; 2], loss: f64, threads: usize) -> Result<f64, String> {
    // 5 to 500 ms.
    let mut table = "rtt_ms,weight\n".to_owned();
    for step in 0..500 {
        table += &format!("{:.2},1\n", 5.0 * 100f64.powf(f64::from(step) / 499.0));
    }
    let audience = Audience::read(table.as_bytes(), loss)?;
    let setup = Setup::new(Duration::from_millis(80), chain(3_000)?);
    let begun = firstbyte_clock::timer_now();
    let player = |way| player(&setup, way, &audience.range()).map_err(|e| e.to_string());
    let (one, other) = (player(&ways[0])?, player(&ways[1])?);
    let played = audience.play([&one, &other], VISITORS, 1, threads, &|| true);
    let took = begun.elapsed().as_secs_f64();
    assert_eq!(played.visitors, u64::from(VISITORS));
    Ok(took)
}
