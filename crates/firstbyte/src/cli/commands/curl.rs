//! `firstbyte curl …`: carries out a curl command line and shows where its time went.

mod files;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use bytes::Bytes;
use firstbyte_clock::timer_now;
use firstbyte_core::timeline::{Cause, Connection, Sample};
use firstbyte_curl::cookies::CookieJar;
use firstbyte_curl::files::LineFiles;
use firstbyte_curl::grammar::read_line;
use firstbyte_curl::head::CurlRequest;
use firstbyte_curl::journey::{Journey, NextStep};
use firstbyte_curl::problem::LineProblem;
use firstbyte_curl::settings::{
    ContinueAt, CookieText, CurlLine, FailChoice, HttpChoice, Operation, RequestKind,
};
use firstbyte_curl::transfers::{
    OutputPlace, Transfer, TryOutcome, list_transfers, wait_before_retry,
};
use firstbyte_probe::probe::options::{ExactRequest, HttpOptions, HttpVersion, Options, Output};
use firstbyte_probe::probe::{ChainStep, NetProber, Secret, Target};
use firstbyte_report::headers::{head, headers};
use firstbyte_report::units::count;
use tokio::time::timeout;

use super::probe::{LAST_WORDS, setup_problem, show_sample};
use crate::cli::exit::{self, Problem};
use crate::cli::measuring::Measuring;
use crate::cli::plan;
use crate::cli::signals::{EndSignal, asked_to_end};
use crate::cli::terminal;
use crate::plans::{ColorChoice, CurlPlan, Outputs, ProbePlan, ProbeView};
use files::SystemFiles;

pub(super) fn run(plan: &CurlPlan) -> Result<u8, Problem> {
    let words: Vec<String> = plan.words.iter().map(|word| word.reveal().clone()).collect();
    let line = read_line(&words, &SystemFiles).map_err(problem)?;
    for warning in &line.warnings {
        terminal::note(&format!("warning: {warning}"));
    }
    // Reject unsupported options before anything is sent.
    for operation in &line.operations {
        plan::curl::options(operation, true)?;
    }
    let mut errand = Errand {
        line: &line,
        measuring: Measuring::new()?,
        jar: CookieJar::default(),
        transfers: 0,
        written: None,
        has_dumped: false,
        code: exit::OK,
    };
    for operation in &line.operations {
        if errand.carry_out(operation)? == LineProgress::Over {
            break;
        }
    }
    Ok(errand.code)
}

/// A command line in progress.
struct Errand<'a> {
    line: &'a CurlLine,
    measuring: Measuring,
    jar: CookieJar,
    /// Number of transfers made.
    transfers: usize,
    /// The file that the body of the last try was written to, if any.
    written: Option<PathBuf>,
    /// Whether the file of `-D` already has headers of this operation, so that more are appended.
    has_dumped: bool,
    /// Exit code of the last transfer, as with curl.
    code: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LineProgress {
    GoesOn,
    Over,
}

impl Errand<'_> {
    fn carry_out(&mut self, operation: &Operation) -> Result<LineProgress, Problem> {
        self.read_cookies(operation);
        self.has_dumped = false;
        let transfers = list_transfers(operation, &SystemFiles).map_err(problem)?;
        let mut progress = LineProgress::GoesOn;
        let mut journey = None;
        for transfer in &transfers {
            progress = self.make(operation, transfer, &mut journey)?;
            self.transfers += 1;
            if self.line.global.fail_early && self.code != exit::OK {
                progress = LineProgress::Over;
            }
            if progress == LineProgress::Over {
                break;
            }
        }
        if let Some(name) = &operation.cookie_jar {
            write_named("--cookie-jar", name, &self.jar.to_netscape(), false)?;
        }
        Ok(progress)
    }

    fn read_cookies(&mut self, operation: &Operation) {
        let now = SystemFiles.now();
        for cookies in &operation.cookies {
            let CookieText::File(name) = cookies else { continue };
            let read = match name.as_str() {
                "" => continue,
                "-" => SystemFiles.read_stdin(),
                name => SystemFiles.read(name.strip_prefix('@').unwrap_or(name)),
            };
            match read {
                Ok(bytes) => self.jar.read(&bytes, operation.junk_session_cookies, now),
                Err(error) => terminal::note(&format!("warning: --cookie {name}: {error}")),
            }
        }
    }

    /// Makes a transfer, and repeats it if `--retry` says so.
    fn make(
        &mut self,
        operation: &Operation,
        transfer: &Transfer,
        journey: &mut Option<Journey>,
    ) -> Result<LineProgress, Problem> {
        let begun = timer_now();
        let mut tries = 0;
        loop {
            tries += 1;
            let (sample, ended_by) = self.visit(operation, transfer, journey)?;
            self.show(operation, transfer, &sample)?;
            if let Some(path) = self.written.take().filter(|_| operation.remove_on_error)
                && self.code != exit::OK
                && writes_body(operation, &sample)
            {
                // An error is ignored: if somebody else removed the file, that is just as good.
                let _ = fs::remove_file(path);
            }
            if let Some(signal) = ended_by {
                self.code = signal.exit_code();
                return Ok(LineProgress::Over);
            }
            let outcome = outcome(&sample);
            let since_first = timer_now() - begun;
            let Some(wait) = outcome.and_then(|outcome| {
                wait_before_retry(&operation.retry, tries, since_first, outcome)
            }) else {
                return Ok(LineProgress::GoesOn);
            };
            let seconds = wait.as_secs_f64();
            let left = count(u64::from(operation.retry.count + 1 - tries), "try");
            terminal::note(&format!("--retry: again in {seconds:.1} s, {left} left"));
            let signal = self.measuring.wait_for(async {
                tokio::select! {
                    biased;
                    signal = asked_to_end() => Some(signal),
                    () = tokio::time::sleep(wait) => None,
                }
            });
            if let Some(signal) = signal {
                self.code = signal.exit_code();
                return Ok(LineProgress::Over);
            }
        }
    }

    /// One try of a transfer: a sample with all its redirects and authentication rounds.
    fn visit(
        &mut self,
        operation: &Operation,
        transfer: &Transfer,
        journey: &mut Option<Journey>,
    ) -> Result<(Sample, Option<EndSignal>), Problem> {
        // Files named in options are read only once; each try starts from their contents.
        let begun = match journey.take() {
            None => Journey::new(operation.clone(), transfer, &SystemFiles),
            Some(earlier) => earlier.again_for(transfer, &SystemFiles),
        };
        let journey = journey.insert(begun.map_err(problem)?);
        for warning in journey.warnings() {
            terminal::note(&format!("warning: {warning}"));
        }
        let mut options = plan::curl::options(operation, transfer.url.is_tls())?;
        options.http.output = output(operation, transfer)?;
        self.written = match &options.http.output {
            Some(Output::File(path)) => Some(path.clone()),
            Some(Output::Append(_) | Output::Stdout) | None => None,
        };
        let requests = RequestMaker { operation, options: options.clone() };
        let first = journey.request(&self.jar, &SystemFiles).map_err(problem)?;
        let connect_head = requests.connect_head(journey, &first);
        let (target, http) = requests.make(first, connect_head)?;
        let Self { measuring, jar, .. } = self;
        let mut next = |connection: &Connection| {
            requests.follow(connection, |status, fields| {
                match journey.next(jar, status, fields, &SystemFiles)? {
                    NextStep::Again => {
                        let request = journey.request(jar, &SystemFiles)?;
                        let connect_head = requests.connect_head(journey, &request);
                        Ok(NextRequest::Request(Box::new(request), connect_head))
                    }
                    NextStep::Done => Ok(NextRequest::Nothing),
                    NextStep::TooManyRedirects => Ok(NextRequest::TooMany),
                }
            })
        };
        measuring.wait_for(async {
            let prober = NetProber::new(options, measuring.equipment()).map_err(setup_problem)?;
            let mut visit = std::pin::pin!(prober.visit_chain(target, http, &mut next));
            tokio::select! {
                biased;
                signal = asked_to_end() => {
                    firstbyte_probe::probe::Prober::interrupt(&prober);
                    let sample = timeout(LAST_WORDS, visit).await.unwrap_or_default();
                    Ok((sample, Some(signal)))
                }
                sample = &mut visit => Ok((sample, None)),
            }
        })
    }

    fn show(
        &mut self,
        operation: &Operation,
        transfer: &Transfer,
        sample: &Sample,
    ) -> Result<(), Problem> {
        if let Some(name) = &operation.dump_header {
            let heads = sample.redirects.iter().chain([&sample.connection]).filter_map(head);
            write_named("--dump-header", name, &heads.collect::<String>(), self.has_dumped)?;
            self.has_dumped = true;
        }
        if let Some(name) = &operation.etag_save {
            let http = sample.connection.facts.http.as_ref();
            let etag = http.and_then(|http| http.header("etag")).unwrap_or_default();
            write_named("--etag-save", name, &format!("{etag}\n"), false)?;
        }
        let verbose = self.line.global.verbose;
        let view = match &operation.write_out {
            Some(text) => ProbeView::WriteOut { format: plan::data::write_out(text)? },
            None => ProbeView::Terminal { sequence: false, verbose, headers: false },
        };
        let plan = ProbePlan {
            urls: vec![Secret::new(transfer.url.without_user())],
            options: Options::default(),
            samples: 1,
            warmup: 0,
            interval: None,
            view,
            outputs: Outputs::default(),
            reads: Vec::new(),
            silent: self.line.global.silent,
            colors: ColorChoice::Auto,
        };
        let body_on_stdout = transfer.output == Some(OutputPlace::Stdout);
        let (style, mut out): (_, Box<dyn Write>) = match body_on_stdout {
            true if operation.write_out.is_none() => {
                (terminal::style_beside(plan.colors), Box::new(io::stderr()))
            }
            _ => (terminal::style(plan.colors), Box::new(io::stdout())),
        };
        if operation.include || operation.kind == RequestKind::Head || verbose {
            let text = headers(sample, &style);
            out.write_all(text.as_bytes()).map_err(|error| Problem::output(&error))?;
        }
        self.code = show_sample(&plan, self.transfers, sample.clone(), style, &mut *out)?;
        Ok(())
    }
}

/// The next step after a response.
enum NextRequest {
    Nothing,
    TooMany,
    /// A request, and the CONNECT request to send to an HTTP proxy first.
    Request(Box<CurlRequest>, Vec<u8>),
}

/// Converts curl's requests to the probe's.
struct RequestMaker<'a> {
    operation: &'a Operation,
    /// Options shared by all requests.
    options: Options,
}

impl RequestMaker<'_> {
    /// The CONNECT request for `request`; empty without a proxy.
    fn connect_head(&self, journey: &Journey, request: &CurlRequest) -> Vec<u8> {
        let Ok(target) = plan::target(&request.url.without_user()) else { return Vec::new() };
        journey.connect_head(&self.options.authority_behind_proxy(&target))
    }

    fn make(
        &self,
        request: CurlRequest,
        connect_head: Vec<u8>,
    ) -> Result<(Target, HttpOptions), Problem> {
        let mut target = plan::target(&request.url.without_user())?;
        target.zone.clone_from(&request.url.zone);
        let only_http1 = matches!(self.operation.http, HttpChoice::V10 | HttpChoice::V11);
        let may_be_http2 = self.options.http.version != HttpVersion::Http1 && !only_http1;
        if let Some(name) = request.bad_http2_field.filter(|_| may_be_http2 && target.tls) {
            let message = format!("--header: HTTP/2 has no field {name:?}");
            return Err(Problem::new(exit::USAGE, message).hint("add --http1.1"));
        }
        let field = |(name, value): &(String, Vec<u8>)| {
            let name = http::HeaderName::from_bytes(name.as_bytes()).ok()?;
            Some((name, Secret::new(http::HeaderValue::from_bytes(value).ok()?)))
        };
        let exact = ExactRequest {
            head: Secret::new(Bytes::from(request.head)),
            fields: request.fields.iter().filter_map(field).collect(),
            authority: request.authority,
            path: request.path,
            is_chunked: request.chunked,
            is_head: request.is_head,
            dropped_status: self.may_answer_challenges().then_some(401),
            keeps_failed_body: self.operation.fail == FailChoice::WithBody,
            connect_head: (!connect_head.is_empty()).then(|| Secret::new(connect_head.into())),
        };
        let http = HttpOptions {
            method: http::Method::from_bytes(request.method.as_bytes()).unwrap_or_default(),
            body: request.body.map(|body| Secret::new(Bytes::from(body))),
            exact: Some(Box::new(exact)),
            // A 401 may be answered with credentials, so whether it fails is decided later.
            fail: self.options.http.fail && !self.may_answer_challenges(),
            ..self.options.http.clone()
        };
        Ok((target, http))
    }

    fn may_answer_challenges(&self) -> bool {
        self.operation.auth.digest || self.operation.auth.any
    }

    fn follow(
        &self,
        connection: &Connection,
        next: impl FnOnce(u16, &[(String, String)]) -> Result<NextRequest, LineProblem>,
    ) -> ChainStep {
        let http = connection.facts.http.as_ref().filter(|_| connection.failure.is_none());
        let Some((http, status)) = http.and_then(|http| Some((http, http.status?))) else {
            return ChainStep::Done;
        };
        let fields = http.headers.iter().map(|field| (field.name.clone(), field.value.clone()));
        let fields: Vec<(String, String)> = fields.collect();
        let refused = |message: String| ChainStep::Fail(Cause::BadRedirect { location: message });
        match next(status, &fields) {
            Ok(NextRequest::Request(request, connect_head)) => {
                match self.make(*request, connect_head) {
                    Ok(following) => ChainStep::Next(Box::new(following)),
                    Err(problem) => refused(problem.message().to_owned()),
                }
            }
            Ok(NextRequest::TooMany) => {
                let limit = self.operation.max_redirs.unwrap_or(u32::MAX);
                ChainStep::Fail(Cause::TooManyRedirects { limit, circle: None })
            }
            Ok(NextRequest::Nothing) if self.options.http.fail && status >= 400 => {
                ChainStep::Fail(Cause::HttpStatus { status })
            }
            Ok(NextRequest::Nothing) => ChainStep::Done,
            Err(problem) => refused(problem.message),
        }
    }
}

/// Outcome of a try, if another try may follow.
fn outcome(sample: &Sample) -> Option<TryOutcome> {
    let http = sample.connection.facts.http.as_ref();
    let failure = sample.failure().map(|failure| &failure.cause);
    if let (Some(status), None | Some(Cause::HttpStatus { .. })) =
        (http.and_then(|http| http.status), failure)
    {
        let retry_after = http.and_then(|http| http.header("retry-after"));
        return Some(TryOutcome::Status {
            status,
            retry_after: retry_after.and_then(|text| text.trim().parse().ok()),
            failed: failure.is_some(),
        });
    }
    Some(match failure? {
        Cause::TimedOut { .. }
        | Cause::ConnectTimedOut { .. }
        | Cause::QuicConnectTimedOut { .. }
        | Cause::ResolverTimedOut { .. } => TryOutcome::TimedOut,
        Cause::Refused { .. } => TryOutcome::ConnectionRefused,
        Cause::NameNotFound { .. } | Cause::ResolverFailed { .. } => TryOutcome::NameNotFound,
        _ => TryOutcome::OtherFailure,
    })
}

/// Whether the body's file was created: there was a response, and `-f` did not drop its body.
fn writes_body(operation: &Operation, sample: &Sample) -> bool {
    let status = sample.connection.facts.http.as_ref().and_then(|http| http.status);
    status.is_some_and(|status| status < 400 || operation.fail != FailChoice::WithoutBody)
}

/// Destination of a transfer's body.
fn output(operation: &Operation, transfer: &Transfer) -> Result<Option<Output>, Problem> {
    let name = match &transfer.output {
        None => return Ok(None),
        Some(OutputPlace::Stdout) => return Ok(Some(Output::Stdout)),
        Some(OutputPlace::File(name)) => name,
    };
    let mut path = PathBuf::from(name);
    let not_made = |error: io::Error| {
        Problem::new(exit::WRITE, format!("--create-dirs {}: {error}", path.display()))
    };
    if let Some(directory) = path.parent().filter(|_| operation.create_dirs) {
        fs::create_dir_all(directory).map_err(not_made)?;
    }
    if matches!(operation.continue_at, Some(ContinueAt::Offset(1..) | ContinueAt::EndOfOutput)) {
        return Ok(Some(Output::Append(path)));
    }
    if operation.no_clobber && path.exists() {
        let free = (1..=100).map(|number| PathBuf::from(format!("{name}.{number}")));
        path = free.into_iter().find(|path| !path.exists()).ok_or_else(|| {
            Problem::new(exit::WRITE, format!("--no-clobber: {name} and {name}.1 to .100 exist"))
        })?;
    }
    Ok(Some(Output::File(path)))
}

/// Writes the file of an option, readable by its owner only because it may contain cookies.
///
/// `-` is standard output.
fn write_named(option: &str, name: &str, text: &str, appends: bool) -> Result<(), Problem> {
    let written = match name {
        "-" => io::stdout().write_all(text.as_bytes()),
        name => {
            let mut file = fs::OpenOptions::new();
            file.create(true).write(true).append(appends).truncate(!appends).mode(0o600);
            file.open(name).and_then(|mut file| file.write_all(text.as_bytes()))
        }
    };
    written.map_err(|error| Problem::new(exit::WRITE, format!("{option} {name}: {error}")))
}

fn problem(problem: LineProblem) -> Problem {
    let told = Problem::new(problem.code, problem.message);
    match problem.hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
}
