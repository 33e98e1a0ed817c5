//! Warnings: caveats about a result or a request, with advice.
//!
//! Each has a stable code, a sentence and, if possible, advice. On a terminal a warning takes two lines on standard
//! error; in JSON it is an object (`docs/formats.md`, "Warnings"). An error that prevented a command from running
//! is not a warning but a problem. A failure of a measurement is a cause in its sample.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::units::print_time;
use firstbyte_lab::LabWarning;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// A warning.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// A line of a file could not be read and is skipped.
    UnreadLine {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        detail: String,
    },
    /// A file does not end with a line end.
    UnfinishedLine {
        /// The file.
        file: PathBuf,
        /// Number of bytes after the last complete line.
        bytes: u64,
    },
    /// A network log is truncated or damaged; the complete part before that is shown.
    LogBrokenOff {
        /// The file.
        file: PathBuf,
        /// Why reading stopped.
        detail: String,
    },
    /// The compared files were measured one after the other, not alternately.
    NotInTurn,
    /// The environment names a proxy, and the command connects directly.
    ProxyIgnored {
        /// The variable.
        variable: String,
    },
    /// `--write-out` names an unknown variable.
    UnknownWriteOut {
        /// The name.
        name: String,
    },
    /// A condition needs more samples than there will be.
    TooFewRounds {
        /// The condition, as written by the user.
        condition: String,
        /// Number of samples it needs.
        needed: usize,
        /// Number of samples in the plan.
        rounds: usize,
    },
    /// Times are pooled or compared although the answers differ.
    UnlikeAnswers {
        /// The answers of each variant or URL, with its name.
        answers: Vec<String>,
        /// Whether variants are compared; they got no verdict.
        compared: bool,
    },
    /// There are too few rounds for intervals.
    NoIntervals {
        /// Number of rounds.
        rounds: usize,
        /// Number of rounds needed.
        needed: usize,
    },
    /// Part of the prediction lies outside the validated range.
    BeyondChecked {
        /// The largest validated loss, as a share.
        loss: f64,
    },
    /// Some exchanges of a study's traffic failed.
    ExchangesFailed {
        /// Number of failed exchanges.
        failed: u32,
    },
    /// A variant's samples need a session or an open connection, but making it failed.
    Unprepared {
        /// The variant.
        cell: String,
        /// "a session" or "an open connection".
        need: &'static str,
        /// The reason.
        cause: String,
    },
    /// The command was interrupted; only complete samples are shown.
    Interrupted,
    /// The machine was too slow for the lab's frames.
    MachineTooBusy {
        /// Number of lost frames.
        lost: u64,
        /// Number of all frames.
        of: u64,
    },
    /// Frames are missing from a capture.
    CaptureLacksFrames {
        /// The capture file.
        file: PathBuf,
        /// Number of missing frames.
        frames: u64,
    },
    /// A capture ended prematurely.
    CaptureIncomplete {
        /// The capture file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A server of the lab ended before the lab.
    LabServerEnded {
        /// The server and its host.
        server: String,
        /// How it ended, and its output.
        reason: String,
    },
    /// The servers' logs could not be copied.
    LogsNotSaved {
        /// The reason.
        reason: String,
    },
    /// A change in the lab's scenario was not applied.
    LabDidNotChange {
        /// When it was due.
        after: Duration,
        /// Hosts whose links or servers were to change.
        hosts: String,
        /// The reason.
        reason: String,
    },
    /// The lab deviates from its configuration.
    Lab(LabWarning),
}

impl Warning {
    /// Stable code for programs; it never changes.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnreadLine { .. } => "unread-line",
            Self::UnfinishedLine { .. } => "unfinished-line",
            Self::LogBrokenOff { .. } => "log-broken-off",
            Self::NotInTurn => "not-in-turn",
            Self::ProxyIgnored { .. } => "proxy-ignored",
            Self::UnknownWriteOut { .. } => "unknown-write-out",
            Self::TooFewRounds { .. } => "too-few-rounds",
            Self::UnlikeAnswers { .. } => "unlike-answers",
            Self::NoIntervals { .. } => "no-intervals",
            Self::BeyondChecked { .. } => "beyond-checked",
            Self::ExchangesFailed { .. } => "exchanges-failed",
            Self::Unprepared { .. } => "unprepared",
            Self::Interrupted => "interrupted",
            Self::MachineTooBusy { .. } => "machine-too-busy",
            Self::CaptureLacksFrames { .. } => "capture-lacks-frames",
            Self::CaptureIncomplete { .. } => "capture-incomplete",
            Self::LabServerEnded { .. } => "lab-server-ended",
            Self::LogsNotSaved { .. } => "logs-not-saved",
            Self::LabDidNotChange { .. } => "lab-did-not-change",
            Self::Lab(warning) => warning.code(),
        }
    }

    /// Advice on what to do about it.
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NotInTurn => "measure them in turns: firstbyte compare --vary".to_owned(),
            Self::TooFewRounds { needed, .. } => {
                format!("use -n {needed}, or samples = {needed} in the plan")
            }
            Self::UnlikeAnswers { compared: true, .. } => {
                "--compare-unlike gives verdicts on their times anyway".to_owned()
            }
            Self::NoIntervals { needed, .. } => format!("use -n {needed}"),
            Self::BeyondChecked { .. } => {
                "docs/prediction.md lists the measured errors of predictions".to_owned()
            }
            Self::ExchangesFailed { .. } => {
                "see the servers' logs: firstbyte lab study --logs DIR".to_owned()
            }
            Self::MachineTooBusy { .. } | Self::CaptureLacksFrames { .. } => {
                "the times of this lab are unreliable: rerun it on an idle machine".to_owned()
            }
            Self::Lab(warning) => warning.advice()?.to_owned(),
            Self::UnreadLine { .. }
            | Self::UnfinishedLine { .. }
            | Self::LogBrokenOff { .. }
            | Self::ProxyIgnored { .. }
            | Self::UnknownWriteOut { .. }
            | Self::UnlikeAnswers { compared: false, .. }
            | Self::Unprepared { .. }
            | Self::Interrupted
            | Self::CaptureIncomplete { .. }
            | Self::LabServerEnded { .. }
            | Self::LogsNotSaved { .. }
            | Self::LabDidNotChange { .. } => return None,
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnreadLine { file, line, detail } => {
                write!(f, "{}, line {line}: {detail}", file.display())
            }
            Self::UnfinishedLine { file, bytes } => write!(
                f,
                "{}: the last {bytes} bytes are not a whole line: they are being written, or damaged",
                file.display()
            ),
            Self::LogBrokenOff { file, detail } => {
                write!(f, "{}: the file is damaged ({detail}); only the intact part is shown", file.display())
            }
            Self::NotInTurn => f.write_str(
                "the files were not measured in turns: changes over time count as differences between them",
            ),
            Self::ProxyIgnored { variable } => {
                write!(f, "{variable} is set, but this command connects without a proxy")
            }
            Self::UnknownWriteOut { name } => {
                write!(f, "unknown --write-out variable: '{name}'")
            }
            Self::TooFewRounds { condition, needed, rounds } => write!(
                f,
                "'{condition}' needs {needed} samples, but only {rounds} are planned: it will stay undecided"
            ),
            Self::UnlikeAnswers { answers, .. } => {
                const NAMED: usize = 4;
                let named = answers.iter().take(NAMED).map(String::as_str);
                write!(f, "the answers differ: {}", named.collect::<Vec<_>>().join("; "))?;
                match answers.len().saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
                }
            }
            Self::NoIntervals { rounds, needed } => {
                write!(f, "{rounds} rounds are too few: confidence intervals need {needed}")
            }
            Self::BeyondChecked { loss } => write!(
                f,
                "some visitors lose more than {} % of packets: QUIC predictions were only checked up to that",
                loss * 100.0
            ),
            Self::ExchangesFailed { failed } => write!(f, "{failed} exchanges failed"),
            Self::Unprepared { cell, need, cause } => {
                write!(f, "{cell} needs {need} first: {cause}")
            }
            Self::Interrupted => f.write_str("interrupted: only complete samples are shown"),
            Self::MachineTooBusy { lost, of } => {
                write!(f, "this machine was too busy for the lab: {lost} of {of} frames lost")
            }
            Self::CaptureLacksFrames { file, frames } => {
                write!(f, "{} lacks {frames} frames", file.display())
            }
            Self::CaptureIncomplete { file, reason } => {
                write!(f, "{} is incomplete: {reason}", file.display())
            }
            Self::LabServerEnded { server, reason } => write!(f, "the server {server} ended before the lab did: {reason}"),
            Self::LogsNotSaved { reason } => f.write_str(reason),
            Self::LabDidNotChange { after, hosts, reason } => {
                let after = print_time(*after);
                write!(f, "{hosts} did not change after {after}: {reason}")
            }
            Self::Lab(warning) => warning.fmt(f),
        }
    }
}

impl Serialize for Warning {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut fields = to.serialize_struct("Warning", 3)?;
        fields.serialize_field("code", self.code())?;
        fields.serialize_field("text", &self.to_string())?;
        fields.serialize_field("advice", &self.advice())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_of_each() -> Vec<Warning> {
        let (file, reason) = (PathBuf::from("a.pcapng"), "the disk is full".to_owned());
        let mut all = vec![
            Warning::UnreadLine { file: "a.run".into(), line: 3, detail: "cut off".into() },
            Warning::UnfinishedLine { file: "a.run".into(), bytes: 812 },
            Warning::LogBrokenOff { file: "a.json".into(), detail: "it ends".into() },
            Warning::NotInTurn,
            Warning::ProxyIgnored { variable: "HTTPS_PROXY".into() },
            Warning::UnknownWriteOut { name: "tim".into() },
            Warning::TooFewRounds { condition: "ttfb.p99 > 1s".into(), needed: 1000, rounds: 30 },
            Warning::UnlikeAnswers { answers: vec!["a: 7 with status 200".into()], compared: true },
            Warning::NoIntervals { rounds: 7, needed: 20 },
            Warning::BeyondChecked { loss: 0.06 },
            Warning::ExchangesFailed { failed: 2 },
            Warning::Unprepared {
                cell: "resumed".into(),
                need: "a session",
                cause: "no ticket".into(),
            },
            Warning::Interrupted,
            Warning::MachineTooBusy { lost: 3, of: 4_000 },
            Warning::CaptureLacksFrames { file: file.clone(), frames: 3 },
            Warning::CaptureIncomplete { file, reason: reason.clone() },
            Warning::LabServerEnded { server: "nginx on web".into(), reason: reason.clone() },
            Warning::LogsNotSaved { reason: reason.clone() },
            Warning::LabDidNotChange {
                after: Duration::from_secs(30),
                hosts: "sydney".into(),
                reason,
            },
        ];
        all.extend(LabWarning::ALL.map(Warning::Lab));
        all
    }

    #[test]
    fn every_code_is_one_warnings_and_documented() {
        let documents = include_str!("../../../docs/formats.md");
        let all = one_of_each();
        let mut codes: Vec<&str> = all.iter().map(Warning::code).collect();
        for code in &codes {
            assert!(
                documents.contains(&format!("\n| `{code}` | ")),
                "{code} is not in docs/formats.md"
            );
        }
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), all.len());
    }

    #[test]
    fn in_json_they_have_code_text_and_advice() {
        let json = serde_json::to_value(Warning::NoIntervals { rounds: 7, needed: 20 }).unwrap();
        let text = "7 rounds are too few: confidence intervals need 20";
        let expected =
            serde_json::json!({ "code": "no-intervals", "text": text, "advice": "use -n 20" });
        assert_eq!(json, expected);
        let answers: Vec<String> = (1..=6).map(|n| format!("{n}: 5 bytes")).collect();
        let unlike = |compared| Warning::UnlikeAnswers { answers: answers.clone(), compared };
        assert_eq!(
            unlike(true).to_string(),
            "the answers differ: 1: 5 bytes; 2: 5 bytes; 3: 5 bytes; 4: 5 bytes; and 2 more"
        );
        assert!(unlike(true).advice().is_some() && unlike(false).advice().is_none());
        assert!(serde_json::to_value(Warning::Interrupted).unwrap()["advice"].is_null());
    }
}
