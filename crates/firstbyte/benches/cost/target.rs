//! The cost of one more target: its prober, without what all probers share.

use std::fs;

use firstbyte::cli::options_for;
use firstbyte_probe::probe::{Equipment, NetProber, Prober};
use nix::sys::resource::UsageWho;

use crate::usage;

const TARGETS: u32 = 10_000;

/// Prints the time and the memory of the first prober and of one of many.
pub(crate) fn show(runtime: &tokio::runtime::Runtime) -> Result<(), String> {
    let options = options_for(&["https://target.test/"])?;
    runtime.block_on(async {
        let equipment = Equipment::default();
        let made = || NetProber::new(options.clone(), &equipment).map(Box::new);
        let problem = "the prober cannot be made".to_owned();
        let begun = processor_us();
        let first = made().map_err(|_| problem.clone())?;
        let first_us = processor_us() - begun;
        let (before, begun) = (resident_bytes()?, processor_us());
        let others: Result<Vec<Box<NetProber>>, _> = (0..TARGETS).map(|_| made()).collect();
        let others = others.map_err(|_| problem)?;
        let each = f64::from(TARGETS);
        let each_us = (processor_us() - begun) / each;
        let each_bytes = (resident_bytes()? - before) / each;
        others.iter().chain([&first]).for_each(|prober| prober.close());
        println!(
            "one more target: {each_us:.1} µs and {each_bytes:.0} bytes, of {TARGETS} more \
             (the first, which loads what they share: {first_us:.0} µs)"
        );
        Ok(())
    })
}

fn processor_us() -> f64 {
    let (user, system) = usage(UsageWho::RUSAGE_SELF);
    (user + system).as_secs_f64() * 1e6
}

fn resident_bytes() -> Result<f64, String> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").map_err(|e| e.to_string())?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| "the kernel does not report resident memory".into())
}
