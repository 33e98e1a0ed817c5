//! What visits take of the client's processor, of every way to connect.

use std::time::Duration;

use firstbyte_core::stats::median;
use firstbyte_core::timeline::ProcessorTime;

/// What visits of one way to connect take of the processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorView {
    /// The way's name.
    pub way: String,
    /// Samples that say it.
    pub samples: usize,
    /// The median of both together.
    pub sum: Duration,
    /// Medians of each.
    pub parts: ProcessorTime,
}

/// Gathers them.
#[derive(Clone, Debug, Default)]
pub struct ProcessorTimes(Vec<ProcessorTime>);

impl ProcessorTimes {
    /// Takes what one sample says.
    pub fn take(&mut self, time: Option<ProcessorTime>) {
        self.0.extend(time);
    }

    /// The medians; nothing where no sample says anything.
    pub fn view(&self, way: String) -> Option<ProcessorView> {
        let middle = |part: fn(&ProcessorTime) -> Duration| {
            let seconds: Vec<f64> = self.0.iter().map(|time| part(time).as_secs_f64()).collect();
            median(&seconds).map(Duration::from_secs_f64)
        };
        let parts = ProcessorTime { user: middle(|t| t.user)?, system: middle(|t| t.system)? };
        Some(ProcessorView { way, samples: self.0.len(), sum: middle(|t| t.sum())?, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_samples_that_say_it() {
        let mut times = ProcessorTimes::default();
        assert_eq!(times.view("it".into()), None);
        times.take(None);
        for ms in [1, 2, 9] {
            let time = Duration::from_millis(ms);
            times.take(Some(ProcessorTime { user: time, system: time * 2 }));
        }
        let view = times.view("it".into()).unwrap();
        assert_eq!((view.samples, view.sum), (3, Duration::from_millis(6)));
        assert_eq!(view.parts.system, Duration::from_millis(4));
    }
}
