//! Delays accurate to a tenth of a millisecond: measurements are compared with the server's configured
//! delays, and tokio's timer rounds up to whole milliseconds.

use std::time::Duration;

use crate::clock;

/// Last part of a pause, left to the system's timer: twice the possible lateness of tokio's timer.
const FINE: Duration = Duration::from_millis(3);

/// Waits for `duration` without blocking other connections.
pub(super) async fn pause(duration: Duration) {
    if duration.is_zero() {
        return;
    }
    let due = clock::now() + duration;
    let coarse = duration.saturating_sub(FINE);
    if !coarse.is_zero() {
        tokio::time::sleep(coarse).await;
    }
    let rest = move || std::thread::sleep(due.saturating_duration_since(clock::now()));
    // Fails only when the server ends.
    let _ = tokio::task::spawn_blocking(rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_it_should_be_and_not_a_millisecond_longer() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for duration in [0, 300, 2_500, 8_000, 12_300].map(Duration::from_micros) {
            let late = (0..15).map(|_| {
                let begun = clock::now();
                runtime.block_on(pause(duration));
                clock::now().duration_since(begun).checked_sub(duration).unwrap()
            });
            // On a busy machine the process also waits for a processor, but not every time.
            let least = late.min().unwrap();
            assert!(least < Duration::from_micros(600), "{duration:?}: {least:?}");
        }
    }
}
