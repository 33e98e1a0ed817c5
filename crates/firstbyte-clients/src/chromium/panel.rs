//! The times that DevTools' network panel shows, kept in addition to the marks because people read them there.
//!
//! Input: the `timing` of a response (`Network.ResourceTiming`), and when the response was complete. Output: the
//! panel's phases. They tell how long a request was blocked on a step, not when the step happened
//! (`net/base/load_timing_info.h`): a connection that was started in advance, or is shared, has a shorter set-up here
//! than on the wire.

use std::time::Duration;

use firstbyte_core::timeline::PanelTime;
use serde_json::Value;

/// The phases of the panel's "Timing" tab; absent if it does not show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PanelTiming {
    /// "Stalled": before any network activity.
    pub stalled: Option<Duration>,
    /// "DNS Lookup".
    pub dns_lookup: Option<Duration>,
    /// "Initial connection": TLS is part of it.
    pub initial_connection: Option<Duration>,
    /// "SSL".
    pub ssl: Option<Duration>,
    /// "Request sent".
    pub request_sent: Option<Duration>,
    /// "Waiting for server response".
    pub waiting: Option<Duration>,
    /// "Content Download".
    pub content_download: Option<Duration>,
    /// From the first of these to the end of the last.
    pub total: Option<Duration>,
}

impl PanelTiming {
    /// Reads the phases; `finished_s` is the `timestamp` of `Network.loadingFinished`.
    pub(super) fn read(timing: &Value, finished_s: Option<f64>) -> Option<Self> {
        let request_s = timing.get("requestTime")?.as_f64()?;
        // -1 means "does not apply".
        let at = |name: &str| timing.get(name)?.as_f64().filter(|ms| *ms >= 0.0);
        let between = |from: Option<f64>, to: Option<f64>| {
            from.zip(to).and_then(|(from, to)| milliseconds(to - from))
        };
        let headers = at("receiveHeadersStart").or_else(|| at("receiveHeadersEnd"));
        let finished = finished_s.map(|finished| (finished - request_s) * 1000.0);
        let first = ["dnsStart", "connectStart", "sendStart"].into_iter().find_map(at);
        Some(Self {
            stalled: between(Some(0.0), first),
            dns_lookup: between(at("dnsStart"), at("dnsEnd")),
            initial_connection: between(at("connectStart"), at("connectEnd")),
            ssl: between(at("sslStart"), at("sslEnd")),
            request_sent: between(at("sendStart"), at("sendEnd")),
            waiting: between(at("sendEnd"), headers),
            content_download: between(headers, finished),
            total: between(Some(0.0), finished),
        })
    }
}

impl PanelTiming {
    /// The phases that are shown, by their names in the "Timing" tab.
    pub fn shown(&self) -> Vec<PanelTime> {
        let shown = [
            ("Stalled", self.stalled),
            ("DNS Lookup", self.dns_lookup),
            ("Initial connection", self.initial_connection),
            ("SSL", self.ssl),
            ("Request sent", self.request_sent),
            ("Waiting for server response", self.waiting),
            ("Content Download", self.content_download),
            ("Total", self.total),
        ];
        let shown = shown.into_iter();
        shown
            .filter_map(|(label, took)| Some(PanelTime { label: label.to_owned(), took: took? }))
            .collect()
    }
}

/// A duration in milliseconds; `None` if it is negative, as it can be for QUIC if a request was sent as early data.
fn milliseconds(ms: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_apply_is_absent() {
        let timing = json!({
            "requestTime": 37403.9322, "dnsStart": -1, "dnsEnd": -1, "connectStart": 0, "connectEnd": 33.167,
            "sslStart": 0.808, "sslEnd": 33.14, "sendStart": 34.923, "sendEnd": 35.417,
            "receiveHeadersStart": 36.335, "receiveHeadersEnd": 36.512,
        });
        let panel = PanelTiming::read(&timing, Some(37403.9722)).unwrap();
        assert_eq!(panel.dns_lookup, None);
        assert_eq!(panel.initial_connection, Some(Duration::from_nanos(33_167_000)));
        assert_eq!(panel.waiting.map(|w| w.as_micros()), Some(918));
        assert_eq!(panel.total.map(|t| t.as_millis()), Some(40));
        let reused = json!({ "requestTime": 1.0, "sendStart": 0.5, "sendEnd": 0.6 });
        let panel = PanelTiming::read(&reused, None).unwrap();
        assert_eq!((panel.ssl, panel.initial_connection, panel.total), (None, None, None));
    }
}
