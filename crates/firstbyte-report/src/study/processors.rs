//! Client processor time per visit, for every way to connect.

use std::time::Duration;

use firstbyte_core::stats::median;
use firstbyte_core::timeline::ProcessorTime;

/// Processor time per visit for one way to connect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessorView {
    /// Name of the way.
    pub way: String,
    /// Number of samples that report it.
    pub samples: usize,
    /// Median of user and system time together.
    pub sum: Duration,
    /// Medians of user and of system time.
    pub parts: ProcessorTime,
}

/// Collects the processor times of samples.
#[derive(Clone, Debug, Default)]
pub struct ProcessorTimes(Vec<ProcessorTime>);

impl ProcessorTimes {
    /// Adds the processor time of one sample.
    pub fn take(&mut self, time: Option<ProcessorTime>) {
        self.0.extend(time);
    }

    /// The medians; absent if no sample reports any.
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
