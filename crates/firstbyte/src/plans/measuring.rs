//! Plans of the commands that measure or show measurements.

use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::document::nanoseconds_if_any;
use firstbyte_lab::ServerChoice;
use serde::{Deserialize, Serialize};

use super::monitor::Moment;
use super::outputs::{ColorChoice, Destination, Outputs};
use firstbyte_probe::experiment::{ExperimentPlan, ExplanationPlan};
use firstbyte_probe::probe::Secret;
use firstbyte_probe::probe::options::Options;

/// Plan of `probe`: visits to URLs, recorded as samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbePlan {
    /// URLs to visit, in this order; `https://` if they have no scheme.
    pub urls: Vec<Secret<String>>,
    /// How to make the visits.
    pub options: Options,
    /// Visits to each URL that count as samples.
    pub samples: u32,
    /// Warm-up visits to each URL, made before the samples.
    pub warmup: u32,
    /// Time from the start of one sample to the start of the next; back to back if absent.
    #[serde(rename = "interval_ns", with = "nanoseconds_if_any")]
    pub interval: Option<Duration>,
    /// Output for people, if no rows go to standard output.
    pub view: ProbeView,
    /// JSON and CSV outputs.
    pub outputs: Outputs,
    /// Files that the visits read.
    pub reads: Vec<PathBuf>,
    /// Shows no progress.
    pub silent: bool,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Plan of `curl`. The command itself parses the words, because they may name files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurlPlan {
    /// The words after `curl`.
    pub words: Vec<Secret<String>>,
}

/// How samples are shown to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeView {
    /// A waterfall or a table.
    Terminal {
        /// Draws a sequence diagram instead.
        sequence: bool,
        /// Also shows every flight.
        verbose: bool,
        /// Shows the response headers first.
        #[serde(default)]
        headers: bool,
    },
    /// Output in curl's `--write-out` format.
    WriteOut {
        /// The format string, from the command line or a file.
        format: String,
    },
}

/// Plan of `page`: one page load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PagePlan {
    /// URL of the page; `https://` if it has no scheme.
    pub url: Secret<String>,
    /// How to load the page, and in which browser.
    pub options: Options,
    /// Predicts which changes would save time.
    pub savings: bool,
    /// JSON, HAR, HTML and picture outputs.
    pub outputs: Outputs,
    /// Files that the visit reads.
    pub reads: Vec<PathBuf>,
    /// The command line to show, without secrets.
    pub command: Vec<String>,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Plan of `compare`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonPlan {
    /// New comparison, or one to continue.
    pub what: ComparisonSource,
    /// The command line to show, as stored in the run file.
    pub command: Vec<String>,
    /// Files that the visits read.
    pub reads: Vec<PathBuf>,
    /// Only prints what would be measured.
    pub dry_run: bool,
    /// How to show the comparison.
    pub render: RenderPlan,
    /// Shows no progress.
    pub silent: bool,
}

/// A comparison to start or to continue.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonSource {
    /// Starts a comparison.
    New {
        /// The experiment to measure.
        experiment: Box<ExperimentPlan>,
        /// The run file; a generated name if absent.
        run: Option<PathBuf>,
    },
    /// Continues the comparison in a run file.
    Continued {
        /// The run file.
        run: PathBuf,
        /// New number of rounds of a comparison with a fixed number; unchanged if absent.
        rounds: Option<u32>,
        /// New round limit of a comparison that runs until its intervals are narrow enough; unchanged if absent.
        max_rounds: Option<u32>,
    },
}

/// Plan of `explain`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplainPlan {
    /// Measurements to explain.
    pub what: ExplanationSource,
    /// Time that the server's own log gives for the request.
    #[serde(rename = "server_log_ns", with = "nanoseconds_if_any")]
    pub server_log: Option<Duration>,
    /// A packet capture of these connections.
    pub capture: Option<PathBuf>,
    /// The server's access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<PathBuf>,
    /// Outputs to write.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// Source of the measurements to explain.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplanationSource {
    /// Measures first.
    New {
        /// What to measure.
        plan: Box<ExplanationPlan>,
        /// The run file to keep, if any.
        run: Option<PathBuf>,
        /// The command line to show, as stored in the run file.
        command: Vec<String>,
        /// Files that the visits read.
        reads: Vec<PathBuf>,
        /// Shows no progress.
        silent: bool,
    },
    /// Explains the measurements in a run file.
    Run(PathBuf),
}

/// Plan of `check`: tests a run against conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckPlan {
    /// The run to check.
    pub what: CheckSource,
    /// Baseline run for conditions on growth.
    pub baseline: Option<PathBuf>,
    /// Conditions; the check fails if any of them holds. Example: `ttfb.p95 > 300ms`.
    pub fail_if: Vec<String>,
    /// Destination of the Markdown summary; standard output if absent.
    pub summary: Option<Destination>,
}

/// Source of the run to check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSource {
    /// Measures a plan file first.
    Plan {
        /// The plan file.
        plan: PathBuf,
        /// Rounds that count; the plan's number if absent.
        samples: Option<u32>,
        /// The run file; a generated name if absent.
        run: Option<PathBuf>,
        /// Shows no progress.
        silent: bool,
    },
    /// Checks an existing run file.
    Run(PathBuf),
}

/// Plan of `demo`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoPlan {
    /// Rounds that count.
    pub samples: u32,
    /// Directory for its files.
    pub output_dir: PathBuf,
    /// Seed of the order of visits and of the links' jitter.
    pub seed: u64,
    /// Server software to use.
    pub server: ServerChoice,
}

/// Plan of `report`: shows earlier measurements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportPlan {
    /// Input files; empty if `averages` is set.
    ///
    /// Run files or tables of curl's timers (several are compared with each other), archives, a network log, field
    /// data, server logs, or a monitor's store.
    pub files: Vec<PathBuf>,
    /// An analytics export of daily averages, instead of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averages: Option<PathBuf>,
    /// Hosts of a network log to show, those with the longest waits first.
    pub hosts: usize,
    /// Requests of a network log to show, those with the longest waits first.
    pub requests: usize,
    /// Paths of server logs to show, slowest first.
    pub paths: usize,
    /// Start of the period in a monitor's store; thirty days before its end if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// End of the period in a monitor's store; now if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// Targets in a monitor's store; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// How to show the report.
    pub render: RenderPlan,
}

/// How to show a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderPlan {
    /// Axis to compare by; if absent, the first axis in a built-in order.
    pub by: Option<String>,
    /// Gives verdicts on times even if the responses differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compare_unlike: bool,
    /// Outputs to write.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
    /// A packet capture of the same connections, to check the clients' measurements against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PathBuf>,
}
