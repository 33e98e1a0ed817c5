//! Plans: what a command does, as data.
//!
//! In: parsed arguments from `cli::plan`, or JSON from callers without a command line. Out: plans that `cli` carries
//! out. A plan is complete: nothing is looked up in flags later. It does not include the contents of its files.
//! Credentials keep their type, [`Secret`](firstbyte_probe::probe::Secret), which is stored but does not print.

mod exporter;
mod generated;
mod har;
mod lab;
mod measuring;
mod monitor;
mod outputs;
mod prediction;
mod rum;
mod serve;
mod wire;

use firstbyte_sources::server_log::ServerKind;
use serde::{Deserialize, Serialize};

pub use exporter::{ExporterLogFormat, ExporterLogLevel, ExporterMetrics, ExporterPlan};
pub use generated::{GeneratedFile, GeneratedPlan};
pub use har::HarCleanPlan;
pub use lab::{CommandWords, LabExportPlan, LabPlan, LabStudyPlan, NewLabPlan};
pub use measuring::{
    CheckPlan, CheckSource, ComparisonPlan, ComparisonSource, CurlPlan, DemoPlan, ExplainPlan,
    ExplanationSource, PagePlan, ProbePlan, ProbeView, RenderPlan, ReportPlan,
};
pub use monitor::{
    EventsForm, Moment, MonitorAnnotatePlan, MonitorEventsPlan, MonitorExportPlan, MonitorPlan,
    MonitorSource, MonitorStatusPlan, RollupForm, RollupStep,
};
pub use outputs::{ColorChoice, Destination, Outputs};
pub use prediction::{
    AudiencePlan, ExchangePlan, PathPlan, PredictedRequestsPlan, PredictedServerPlan,
    PredictionPlan,
};
pub use rum::{RumServePlan, RumSnippetPlan};
pub use serve::{CertificatePlan, ServePlan};
pub use wire::{
    ComparedCaptures, ConnectionChoice, DiffCapture, LiveCapture, LivePlan, PacketFilter,
    PacketSource, ServerGroup, WireDiffPlan, WirePlan, WireSession,
};

/// Plan of any command.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", content = "plan", rename_all = "snake_case")]
pub enum CommandPlan {
    /// `probe`.
    Probe(Box<ProbePlan>),
    /// `curl`.
    Curl(CurlPlan),
    /// `compare`.
    Compare(Box<ComparisonPlan>),
    /// `explain`.
    Explain(Box<ExplainPlan>),
    /// `page`.
    Page(Box<PagePlan>),
    /// `check`.
    Check(CheckPlan),
    /// `monitor`.
    Monitor(Box<MonitorPlan>),
    /// `monitor events`.
    MonitorEvents(MonitorEventsPlan),
    /// `monitor export`.
    MonitorExport(MonitorExportPlan),
    /// `monitor status`.
    MonitorStatus(MonitorStatusPlan),
    /// `monitor annotate`.
    MonitorAnnotate(MonitorAnnotatePlan),
    /// `exporter`.
    Exporter(ExporterPlan),
    /// `predict`.
    Predict(Box<PredictionPlan>),
    /// `report`.
    Report(Box<ReportPlan>),
    /// `har clean`.
    HarClean(HarCleanPlan),
    /// `completions` and `man`.
    Generated(GeneratedPlan),
    /// `log-format`.
    LogFormat(ServerKind),
    /// `demo`.
    Demo(DemoPlan),
    /// `lab`.
    Lab(LabPlan),
    /// `serve`.
    Serve(Box<ServePlan>),
    /// `rum snippet`.
    RumSnippet(RumSnippetPlan),
    /// `rum serve`.
    RumServe(RumServePlan),
    /// `wire`.
    Wire(Box<WirePlan>),
    /// `wire diff`.
    WireDiff(Box<WireDiffPlan>),
}
