//! An outage: when it began and ended, what failed, for which share of the time, and where.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstbyte_core::timeline::FailureType;
use serde::{Deserialize, Serialize};

use super::Scope;
use crate::detect::time_text;

/// Stage in the life of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutageState {
    /// The target is down.
    Began,
    /// The target was down again soon after its end, and may be so again.
    Flapping,
    /// The target is up.
    Ended,
}

impl OutageState {
    /// The name used in stored forms.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Flapping => "flapping",
            Self::Ended => "ended",
        }
    }
}

/// An outage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutageEvent {
    /// The constant [`FORMAT`](super::FORMAT).
    pub format: String,
    /// Always 1.
    pub version: u32,
    /// Identity of the event, which never changes.
    pub id: String,
    /// State of the outage.
    pub state: OutageState,
    /// Start of the first failed sample.
    #[serde(with = "time_text")]
    pub began: i64,
    /// When the first sample after it began that did not fail; absent while the outage lasts.
    #[serde(with = "time_text::maybe", default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i64>,
    /// No series of the outage is measured any more, so whether the target is up is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_longer_measured: bool,
    /// Time from the start to the end, or to the last sample.
    pub lasted_ns: i64,
    /// How often the outage began.
    pub interruptions: u32,
    /// Share of that time in which samples failed.
    pub failed_share: f64,
    /// Most frequent type of failure.
    pub failure: FailureName,
    /// Number of failed samples, by type.
    pub failures: BTreeMap<FailureName, u64>,
    /// Most frequent status among the unexpected ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Targets and series that failed.
    pub scope: Scope,
    /// Number of samples that failed.
    pub samples: u64,
    /// Numbers in the store of the series that failed.
    pub series: Vec<u64>,
    /// Annotations from about the time when it began.
    #[serde(default)]
    pub annotations: Vec<String>,
}

/// Type of failure, stored by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FailureName(pub FailureType);

impl Serialize for FailureName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Ok(Self(FailureType::parse(&name).unwrap_or(FailureType::Unknown)))
    }
}

impl OutageEvent {
    pub(super) const fn heading(&self) -> &'static str {
        match self.state {
            OutageState::Began => "down",
            OutageState::Flapping => "flapping",
            OutageState::Ended if self.no_longer_measured => "ended",
            OutageState::Ended => "up again",
        }
    }

    /// For example "shop: down from 13:28:04 to 13:36:10 (8 min 6 s), connection refused (tcp.refused), both families".
    pub fn sentence(&self) -> String {
        let mut text = self.scope.targets_phrase();
        text.push_str(&self.scope.tags_phrase());
        let began = time_text::clock_phrase(self.began);
        let share = self.failed_share * 100.0;
        match (self.state, self.ended) {
            (OutageState::Ended, Some(ended)) => {
                // The difference of the two printed times, in whole seconds.
                let lasted = ended.div_euclid(1_000) - self.began.div_euclid(1_000);
                let lasted = lasted_phrase(lasted * 1_000);
                let same_day = time_text::is_same_day(self.began, ended);
                let end = match same_day {
                    true => time_text::time_of_day(ended),
                    false => time_text::clock_phrase(ended),
                };
                let times = match self.interruptions {
                    0 | 1 => String::new(),
                    times => format!(" {times} times"),
                };
                let _ = write!(text, ": down{times} from {began} to {end} ({lasted}");
                if self.failed_share < 0.95 {
                    let _ = write!(text, ", {share:.0} % of the time");
                }
                text.push(')');
            }
            (OutageState::Flapping, _) => {
                let times = self.interruptions;
                let _ =
                    write!(text, ": down {times} times since {began}, {share:.0} % of the time");
            }
            _ => {
                let _ = write!(text, ": down since {began}");
            }
        }
        let _ = write!(text, ", {} ({})", self.failure_phrase(), self.failure.0);
        for part in self.scope.quorum_phrases() {
            let _ = write!(text, ", {part}");
        }
        if self.no_longer_measured {
            text.push_str("; no longer measured");
        }
        text.push('.');
        if !self.annotations.is_empty() {
            let _ = write!(text, " Annotations at that time: {}.", self.annotations.join("; "));
        }
        text
    }

    fn failure_phrase(&self) -> String {
        let phrase = match (self.failure.0, self.status) {
            (FailureType::HttpError, Some(status)) => return format!("status {status}"),
            (FailureType::DnsNameNotResolved, _) => "name not found",
            (FailureType::DnsUnreachable, _) => "name server does not answer",
            (FailureType::DnsFailed, _) => "name lookup failed",
            (FailureType::TcpRefused | FailureType::QuicRefused, _) => "connection refused",
            (FailureType::TcpTimedOut | FailureType::QuicTimedOut, _) => "no answer",
            (FailureType::TcpReset | FailureType::QuicReset, _) => "connection reset",
            (FailureType::TcpClosed | FailureType::QuicClosed, _) => "connection closed",
            (FailureType::TcpAddressUnreachable | FailureType::QuicAddressUnreachable, _) => {
                "no route"
            }
            (FailureType::TlsCertDateInvalid, _) => "certificate expired or not yet valid",
            (FailureType::TlsCertNameInvalid, _) => "certificate of another name",
            (FailureType::TlsCertAuthorityInvalid, _) => "certificate of an unknown issuer",
            (FailureType::TlsCertInvalid | FailureType::TlsCertRevoked, _) => "bad certificate",
            (FailureType::TlsVersionOrCipherMismatch, _) => "no TLS version or cipher in common",
            (FailureType::TlsTimedOut, _) => "TLS handshake timed out",
            (FailureType::HttpTimedOut, _) => "response timed out",
            (FailureType::HttpResponseInvalid, _) => "response cut short",
            (failure, _) if failure.as_str().starts_with("tls.") => "TLS handshake failed",
            (failure, _) if failure.as_str().starts_with("quic.") => "QUIC failed",
            (failure, _) if failure.as_str().starts_with("proxy.") => "the proxy failed",
            _ => "failed",
        };
        phrase.to_owned()
    }
}

/// Formats as "8 min 6 s", "3 h 2 min" or "2 d 4 h".
fn lasted_phrase(milliseconds: i64) -> String {
    let seconds = (milliseconds.max(0) + 500) / 1_000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3_600 => format!("{minutes} min {} s", seconds % 60),
        3_600..86_400 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Quorum;
    use super::*;

    fn outage() -> OutageEvent {
        let began = 1_795_786_084_000;
        let scope = Scope {
            targets: vec!["shop".into()],
            of: 3,
            tags: BTreeMap::new(),
            quorum: BTreeMap::from([("family".into(), Quorum { seen: 2, of: 2 })]),
        };
        OutageEvent {
            format: super::super::FORMAT.into(),
            version: 1,
            id: "x".into(),
            state: OutageState::Began,
            began,
            ended: None,
            no_longer_measured: false,
            lasted_ns: 0,
            interruptions: 1,
            failed_share: 1.0,
            failure: FailureName(FailureType::TcpRefused),
            failures: BTreeMap::from([(FailureName(FailureType::TcpRefused), 9)]),
            status: None,
            scope,
            samples: 9,
            series: vec![7],
            annotations: Vec::new(),
        }
    }

    #[test]
    fn sentences_say_when_what_and_where() {
        let mut event = outage();
        assert_eq!(
            event.sentence(),
            "shop: down since 27 November, 13:28:04 UTC, connection refused (tcp.refused), both \
             families."
        );
        event.state = OutageState::Flapping;
        (event.interruptions, event.failed_share) = (2, 0.5);
        assert!(
            event.sentence().starts_with(
                "shop: down 2 times since 27 November, 13:28:04 UTC, 50 % of the time"
            )
        );
        event = outage();
        event.state = OutageState::Ended;
        event.ended = Some(event.began + 486_000);
        event.failure = FailureName(FailureType::HttpError);
        event.status = Some(503);
        assert_eq!(
            event.sentence(),
            "shop: down from 27 November, 13:28:04 UTC to 13:36:10 UTC (8 min 6 s), status 503 \
             (http.error), both families."
        );
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let event = super::super::Event::Outage(outage());
        let text = serde_json::to_string(&event).unwrap();
        assert!(text.starts_with(r#"{"kind":"outage","format":"firstbyte/event","version":1"#));
        assert!(text.contains(r#""began":"2026-11-27T13:28:04Z","lasted_ns":0"#), "{text}");
        assert_eq!(serde_json::from_str::<super::super::Event>(&text).unwrap(), event);
    }
}
