//! What is measured, and what is shown of what was.

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

/// Connections to URLs, as samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProbePlan {
    /// What is visited, in this order; `https://` unless they say otherwise.
    pub urls: Vec<Secret<String>>,
    /// How visits are made.
    pub options: Options,
    /// Visits to each that count.
    pub samples: u32,
    /// Visits to each before those.
    pub warmup: u32,
    /// From the start of a sample to the start of the next; at once when absent.
    #[serde(rename = "interval_ns", with = "nanoseconds_if_any")]
    pub interval: Option<Duration>,
    /// How people are shown what was measured, where no rows take standard output.
    pub view: ProbeView,
    /// Rows of samples, JSON and CSV.
    pub outputs: Outputs,
    /// Files that visits need.
    pub reads: Vec<PathBuf>,
    /// No progress is shown.
    pub silent: bool,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// A command line of curl. The command reads it, because words may name files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CurlPlan {
    /// The words after `curl`.
    pub words: Vec<Secret<String>>,
}

/// How samples are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeView {
    /// Waterfall or table.
    Terminal {
        /// A sequence diagram instead.
        sequence: bool,
        /// Every flight besides.
        verbose: bool,
        /// The response headers before it.
        #[serde(default)]
        headers: bool,
    },
    /// curl's format language.
    WriteOut {
        /// The format itself, wherever it was read from.
        format: String,
    },
}

/// A page load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PagePlan {
    /// The page; `https://` unless it says otherwise.
    pub url: Secret<String>,
    /// How it is loaded, and by which browser.
    pub options: Options,
    /// Whether to predict what would save time.
    pub savings: bool,
    /// JSON, HAR, HTML, pictures.
    pub outputs: Outputs,
    /// Files that the visit needs.
    pub reads: Vec<PathBuf>,
    /// The command, for people, without secrets.
    pub command: Vec<String>,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// A comparison.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComparisonPlan {
    /// What is measured.
    pub what: ComparisonSource,
    /// The command, for people, as the run file keeps it.
    pub command: Vec<String>,
    /// Files that visits need.
    pub reads: Vec<PathBuf>,
    /// It is only said what would be measured.
    pub dry_run: bool,
    /// How it is shown.
    pub render: RenderPlan,
    /// No progress is shown.
    pub silent: bool,
}

/// A comparison that is begun, or gone on with.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonSource {
    /// One that is begun.
    New {
        /// It.
        experiment: Box<ExperimentPlan>,
        /// The run file; under a name of its own when absent.
        run: Option<PathBuf>,
    },
    /// One that was begun in a run file.
    Continued {
        /// The run file.
        run: PathBuf,
        /// Rounds, where it has a number of them; as many as it has when absent.
        rounds: Option<u32>,
        /// Rounds after which one that goes on until it is narrow enough gives up; as it says when absent.
        max_rounds: Option<u32>,
    },
}

/// An explanation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExplainPlan {
    /// What is explained.
    pub what: ExplanationSource,
    /// What the server's own log says the request took.
    #[serde(rename = "server_log_ns", with = "nanoseconds_if_any")]
    pub server_log: Option<Duration>,
    /// A capture of these connections.
    pub capture: Option<PathBuf>,
    /// The server's access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_log: Option<PathBuf>,
    /// What is written.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
}

/// What an explanation rests on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplanationSource {
    /// Measurements that are made for it.
    New {
        /// What is measured.
        plan: Box<ExplanationPlan>,
        /// The run file, if one is kept.
        run: Option<PathBuf>,
        /// The command, for people, as the run file keeps it.
        command: Vec<String>,
        /// Files that visits need.
        reads: Vec<PathBuf>,
        /// No progress is shown.
        silent: bool,
    },
    /// Those in a run file.
    Run(PathBuf),
}

/// Conditions, held against a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckPlan {
    /// What is held against them.
    pub what: CheckSource,
    /// The run that growth is counted from.
    pub baseline: Option<PathBuf>,
    /// Conditions, any of which fails it: `ttfb.p95 > 300ms`.
    pub fail_if: Vec<String>,
    /// Where the summary goes, in Markdown; to standard output when absent.
    pub summary: Option<Destination>,
}

/// What is held against conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckSource {
    /// A plan's file is measured.
    Plan {
        /// The file.
        plan: PathBuf,
        /// Rounds that count; the plan's when absent.
        samples: Option<u32>,
        /// The run file; under a name of its own when absent.
        run: Option<PathBuf>,
        /// No progress is shown.
        silent: bool,
    },
    /// What a run file has.
    Run(PathBuf),
}

/// The demonstration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemoPlan {
    /// Rounds that count.
    pub samples: u32,
    /// Where its files go.
    pub output_dir: PathBuf,
    /// Seed of the order and of the links' jitter.
    pub seed: u64,
    /// Which server's software.
    pub server: ServerChoice,
}

/// What was measured before, shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportPlan {
    /// Run files, or tables of curl's timers, which are compared with each other; archives, a network log, field data,
    /// servers' logs, or a monitor's store.
    /// None where there are averages.
    pub files: Vec<PathBuf>,
    /// An analytics export of daily averages, in place of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averages: Option<PathBuf>,
    /// Hosts of a network log to show, those whose requests waited longest.
    pub hosts: usize,
    /// Requests of a network log to show, those that waited longest.
    pub requests: usize,
    /// Paths of servers' logs to show, the slowest.
    pub paths: usize,
    /// Of a monitor's store: from when on; thirty days before the end when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// Of a monitor's store: until when; now when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
    /// Of a monitor's store: these targets; all where there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<String>,
    /// How it is shown.
    pub render: RenderPlan,
}

/// How a comparison is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenderPlan {
    /// The axis that leads; the first one by an order of ours when absent.
    pub by: Option<String>,
    /// Times get verdicts even where the answers differ.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compare_unlike: bool,
    /// What is written.
    pub outputs: Outputs,
    /// Colours on the terminal.
    pub colors: ColorChoice,
    /// A capture of the same connections, which what clients say of them is held against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PathBuf>,
}
