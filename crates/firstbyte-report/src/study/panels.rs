//! Times from browsers' network panels, for every way to connect.

use std::time::Duration;

use firstbyte_core::stats::median;
use firstbyte_core::timeline::PanelTime;

/// The panel's times for one way to connect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PanelView {
    /// Name of the way.
    pub way: String,
    /// Number of samples whose panel shows anything.
    pub samples: usize,
    /// Medians of the samples that show a time, in the panel's order.
    pub medians: Vec<PanelTime>,
}

/// Collects the panel times of samples.
#[derive(Clone, Debug, Default)]
pub struct PanelTimes {
    samples: usize,
    times: Vec<(String, Vec<f64>)>,
}

impl PanelTimes {
    /// Adds the panel times of one sample.
    pub fn take(&mut self, panel: &[PanelTime]) {
        self.samples += usize::from(!panel.is_empty());
        for PanelTime { label, took } in panel {
            let known = self.times.iter().position(|(known, _)| known == label);
            let index = known.unwrap_or_else(|| {
                self.times.push((label.clone(), Vec::new()));
                self.times.len() - 1
            });
            self.times[index].1.push(took.as_secs_f64());
        }
    }

    /// The medians; absent if no sample has any.
    pub fn view(&self, way: String) -> Option<PanelView> {
        let medians = self.times.iter().filter_map(|(label, times)| {
            let took = Duration::from_secs_f64(median(times)?);
            Some(PanelTime { label: label.clone(), took })
        });
        let medians = medians.collect();
        (self.samples > 0).then_some(PanelView { way, samples: self.samples, medians })
    }
}

/// "SSL 0.454 ms"
pub(crate) fn panel_time(label: &str, took: Duration) -> String {
    format!("{label} {:.3} ms", took.as_secs_f64() * 1e3)
}
