//! `firstbyte [probe] URL…`: takes samples and shows them.

mod shown;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::cli::exit::{self, Problem};
use crate::cli::files::Files;
use crate::cli::measuring::Measuring;
use crate::cli::plan::target;
use crate::cli::progress::Progress;
use crate::cli::signals::{EndSignal, asked_to_end};
use crate::cli::terminal;
use crate::plans::{Destination, ProbePlan, ProbeView};
use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::Sample;
use firstbyte_probe::probe::options::{HttpVersion, Output};
use firstbyte_probe::probe::{Prober, SetupError, Target, TlsSetupError};
use firstbyte_report::Style;
use firstbyte_report::write_out::Format;
use shown::Shown;

pub(in crate::cli) fn run(plan: &ProbePlan) -> Result<u8, Problem> {
    let visits = Visits::from_plan(plan)?;
    visits.check_files()?;
    let measuring = Measuring::new()?;
    measuring.equipment().look_for_tls();
    for target in &visits.targets {
        let can = measuring.clients().check(target, &plan.options);
        can.map_err(|why| Problem::new(exit::USAGE, why))?;
    }
    let prober = measuring.prober(&plan.options)?;
    // If the body goes to standard output, nothing else may.
    let beside = matches!(plan.view, ProbeView::Terminal { .. })
        && !plan.outputs.use_stdout()
        && matches!(plan.options.http.output, Some(Output::Stdout));
    let (style, mut out): (Style, Box<dyn Write>) = if beside {
        (terminal::style_beside(plan.colors), Box::new(io::stderr()))
    } else {
        (terminal::style(plan.colors), Box::new(io::stdout()))
    };
    measuring.wait_for(take(&visits, &*prober, &style, &mut *out, asked_to_end()))
}

/// A plan that is ready to be carried out.
pub(in crate::cli) struct Visits<'a> {
    plan: &'a ProbePlan,
    targets: Vec<Target>,
    view: ReadyView,
}

/// How samples are shown if standard output does not receive rows.
enum ReadyView {
    Terminal { sequence: bool, verbose: bool, headers: bool },
    WriteOut(Format),
}

impl<'a> Visits<'a> {
    pub(in crate::cli) fn from_plan(plan: &'a ProbePlan) -> Result<Self, Problem> {
        let targets = plan.urls.iter().map(|url| target(url.reveal()));
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        let plain = targets.iter().find(|target| !target.tls);
        if let (HttpVersion::Http3, Some(target)) = (plan.options.http.version, plain) {
            let url = shown_url(target.url.as_str());
            let message = format!("{url}: HTTP/3 needs TLS");
            return Err(Problem::new(exit::USAGE, message).hint("use https://"));
        }
        if let (Some(requests), Some(target)) = (plan.options.requests, plain) {
            let over_http = plan.options.clone().settle_requests(false);
            over_http.map_err(|why| {
                let url = shown_url(target.url.as_str());
                let message = format!("{url}: --parallel {}: {why}", requests.parallel);
                Problem::new(exit::USAGE, message).hint("use https://")
            })?;
        }
        let view = match &plan.view {
            ProbeView::WriteOut { format } => ReadyView::WriteOut(Format::parse(format)),
            ProbeView::Terminal { sequence, verbose, headers } => {
                let (sequence, verbose, headers) = (*sequence, *verbose, *headers);
                ReadyView::Terminal { sequence, verbose, headers }
            }
        };
        Ok(Self { plan, targets, view })
    }

    /// Visits to each target, including warm-up.
    const fn rounds(&self) -> u32 {
        self.plan.warmup.saturating_add(self.plan.samples)
    }

    /// Checks that no output would overwrite an input.
    fn check_files(&self) -> Result<(), Problem> {
        let body = match &self.plan.options.http.output {
            Some(Output::File(path) | Output::Append(path)) => {
                Some(Destination::File(path.clone()))
            }
            Some(Output::Stdout) | None => None,
        };
        let files = Files::default()
            .reads(&self.plan.reads)
            .writes(&body)
            .exports_of_responses(&self.plan.outputs);
        match &self.view {
            ReadyView::WriteOut(format) => files.formats(format).check(),
            ReadyView::Terminal { .. } => files.check(),
        }
    }
}

pub(in crate::cli) fn setup_problem(error: SetupError) -> Problem {
    match error {
        SetupError::Resolver(text) => Problem::new(exit::USAGE, text).hint("try --resolver system"),
        SetupError::Tls(error) => {
            let code = match error {
                TlsSetupError::CaFile(_) => exit::CA_FILE,
                TlsSetupError::ClientCertificate(_) => exit::CLIENT_CERTIFICATE,
                TlsSetupError::Group(_) | TlsSetupError::Other(_) => exit::USAGE,
            };
            Problem::new(code, error.to_string())
        }
        SetupError::Client(text) => Problem::new(exit::USAGE, text),
    }
}

/// How long an interrupted visit may take to report what it has seen.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(1);

/// Takes the plan's samples with `prober` until done or `interrupted`, and writes them to `out`.
///
/// Returns the exit code of the last sample that failed.
pub(in crate::cli) async fn take(
    visits: &Visits<'_>,
    prober: &dyn Prober,
    style: &Style,
    out: &mut dyn Write,
    interrupted: impl Future<Output = EndSignal>,
) -> Result<u8, Problem> {
    let (plan, rounds) = (visits.plan, visits.rounds());
    let progress = Progress::new(u64::from(rounds) * visits.targets.len() as u64, plan.silent);
    let mut shown = Shown::new(visits, *style, out)?;
    let mut schedule = Schedule { interval: plan.interval, next: None };
    let mut interrupted = std::pin::pin!(interrupted);
    let mut ended_by = None;
    'rounds: for sequence in 0..rounds {
        for (index, target) in visits.targets.iter().enumerate() {
            // A signal may interrupt the wait as well as the sample.
            let mut visit = std::pin::pin!(async {
                schedule.wait().await;
                prober.probe(target).await
            });
            let mut sample = tokio::select! {
                biased;
                signal = &mut interrupted => {
                    ended_by = Some(signal);
                    // An unfinished sample among many is discarded; a single sample is the only result, so report it.
                    if rounds > 1 {
                        break 'rounds;
                    }
                    prober.interrupt();
                    match timeout(LAST_WORDS, visit).await {
                        Ok(sample) => sample,
                        Err(_) => break 'rounds,
                    }
                }
                sample = &mut visit => sample,
            };
            sample.sequence = sequence;
            sample.warmup = sequence < plan.warmup;
            progress.took(&sample);
            shown.take(index, sample)?;
            if ended_by.is_some() {
                break 'rounds;
            }
        }
    }
    progress.finish();
    let code = shown.end().map_err(|e| Problem::output(&e))?;
    if let Some(signal) = ended_by {
        terminal::note("interrupted: only complete samples are shown");
        return Ok(signal.exit_code());
    }
    Ok(code)
}

/// Shows a sample that another command took, as if it came from `plan`; returns the exit code.
pub(super) fn show_sample(
    plan: &ProbePlan,
    url_number: usize,
    sample: Sample,
    style: Style,
    out: &mut dyn Write,
) -> Result<u8, Problem> {
    let visits = Visits::from_plan(plan)?;
    let mut shown = Shown::new(&visits, style, out)?;
    shown.take(url_number, sample)?;
    shown.end().map_err(|error| Problem::output(&error))
}

/// Starts visits on a fixed beat, so that a slow sample does not shift the following ones.
struct Schedule {
    interval: Option<Duration>,
    next: Option<Instant>,
}

impl Schedule {
    async fn wait(&mut self) {
        let Some(interval) = self.interval else { return };
        if let Some(due) = self.next {
            sleep_until(due).await;
        }
        let begun = self.next.unwrap_or_else(firstbyte_clock::timer_now);
        self.next = Some(begun + interval);
    }
}
