//! curl as a prober: a sample is one process, or one for each hop if there are redirects.
//!
//! A thread waits for processes, so that the runtime is not blocked. A visit ends with its future, with an
//! interruption, or with the prober; in each case its curl has ended before the next one starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use firstbyte_core::timeline::{
    Cause, Connection, Failure, Mark, PhaseName, RedirectCircle, Sample,
};
use firstbyte_probe::probe::options::{HttpOptions, Options};
use firstbyte_probe::probe::{Prober, ProberMaker, SetupError, Target, Visiting};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::assembly::{self, client};
use super::config::{Asked, BODY_FILE, left, taken};
use super::failure;
use super::options::CurlOptions;
use super::run::{Leash, Run};
use super::{CurlCapabilities, CurlError};
use crate::process::{ClientError, find, private_directory, system};

/// Time beyond its own limits that curl may take to start and to end.
const GRACE: Duration = Duration::from_secs(5);

/// The default program: the first on `PATH`.
const PROGRAM: &str = "curl";

type Job = Box<dyn FnOnce() + Send>;

/// Makes probers that use curl.
#[derive(Debug, Default)]
pub struct CurlMaker;

impl CurlMaker {
    fn options(options: &Options) -> Result<CurlOptions, String> {
        let able = CurlCapabilities::ask(PROGRAM).map_err(|error| error.to_string())?;
        CurlOptions::new(PROGRAM, options, able)
    }
}

impl ProberMaker for CurlMaker {
    fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        Self::options(options)?.check(target)
    }

    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError> {
        let options = Self::options(options).map_err(SetupError::Client)?;
        let prober = CurlProber::new(options);
        Ok(Box::new(prober.map_err(|error| SetupError::Client(error.to_string()))?))
    }
}

/// curl as a prober.
pub struct CurlProber {
    visitor: Arc<Visitor>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    /// Ends the work that was requested last.
    leash: Mutex<Leash>,
}

impl CurlProber {
    /// A prober with these options. Does not start a process.
    ///
    /// # Errors
    /// If curl no longer exists, or if the system cannot create a thread or a temporary folder.
    pub fn new(options: CurlOptions) -> Result<Self, CurlError> {
        let program = find(&options.program).ok_or_else(|| CurlError::missing(&options.program))?;
        let sessions = if options.resumes() {
            let folder = private_directory("firstbyte-sessions-");
            Some(folder.map_err(system("make a temporary folder"))?)
        } else {
            None
        };
        let visitor = Arc::new(Visitor { program, options, sessions, files: Mutex::default() });
        let (jobs, to_do) = mpsc::channel::<Job>();
        let work = move || to_do.into_iter().for_each(|job| job());
        let thread = std::thread::Builder::new().name("curl".to_owned()).spawn(work);
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Self { visitor, jobs: Some(jobs), thread, leash: Mutex::default() })
    }

    /// Runs `work` on the thread; `None` if the thread is gone. Dropping the future ends the work.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Visitor, &Leash) -> T + Send + 'static,
    ) -> Option<T> {
        let leash = Leash::default();
        *self.leash.lock().unwrap_or_else(PoisonError::into_inner) = leash.clone();
        let _ends = ClosesLeash(leash.clone());
        let (done, answer) = oneshot::channel();
        let visitor = Arc::clone(&self.visitor);
        let job = move || {
            // If the requester stopped waiting meanwhile, it needs no answer.
            let _ = done.send(work(&visitor, &leash));
        };
        self.jobs.as_ref()?.send(Box::new(job)).ok()?;
        answer.await.ok()
    }
}

struct ClosesLeash(Leash);

impl Drop for ClosesLeash {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for CurlProber {
    fn drop(&mut self) {
        self.interrupt();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Prober for CurlProber {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async move {
            let visited = target.clone();
            let sample = self.ask(move |visitor, leash| visitor.sample(&visited, leash)).await;
            sample.unwrap_or_else(|| {
                let url = target.url_with_zone();
                let connection = self.visitor.not_made(target, &ClientError::Interrupted);
                Sample { requested_url: url, connection, ..Sample::default() }
            })
        })
    }

    fn prepare<'a>(&'a self, target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        if self.visitor.has_session(target) {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(async move {
            let visited = target.clone();
            let made =
                self.ask(move |visitor, leash| visitor.obtain_session(&visited, leash)).await;
            made.unwrap_or_else(|| Err(failure::not_made(&ClientError::Interrupted)))
        })
    }

    fn interrupt(&self) {
        self.leash.lock().unwrap_or_else(PoisonError::into_inner).close();
    }
}

/// State shared by visits.
struct Visitor {
    program: PathBuf,
    options: CurlOptions,
    /// Folder for sessions, accessible only to its owner; removed with the prober.
    sessions: Option<TempDir>,
    /// File of each host's sessions.
    files: Mutex<BTreeMap<String, PathBuf>>,
}

impl Visitor {
    /// Path of the sessions for the target.
    fn session_file(&self, target: &Target) -> Option<PathBuf> {
        let folder = self.sessions.as_ref()?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let next = folder.path().join(files.len().to_string());
        Some(files.entry(target.authority()).or_insert(next).clone())
    }

    /// Whether a session is available, if samples need one.
    fn has_session(&self, target: &Target) -> bool {
        let Some(file) = self.session_file(target).filter(|_| target.tls) else { return true };
        // Each line that is not a comment is a session.
        let kept = std::fs::read(file).unwrap_or_default();
        kept.split(|byte| *byte == b'\n').any(|line| !line.is_empty() && !line.starts_with(b"#"))
    }

    fn obtain_session(&self, target: &Target, leash: &Leash) -> Result<(), Failure> {
        let (http, limit) = (&self.options.options.http, self.options.options.max_time);
        self.visit(target, http, limit, leash).failure.map_or(Ok(()), Err)
    }

    /// Makes a visit, following its redirects.
    fn sample(&self, target: &Target, leash: &Leash) -> Sample {
        let requested_url = target.url_with_zone();
        let options = &self.options.options;
        let mut http = options.http.clone();
        let mut current = target.clone();
        let mut spent = Duration::ZERO;
        let mut sample = Sample { requested_url, ..Sample::default() };
        let mut connection = self.visit(&current, &http, options.max_time, leash);
        while let Some(limit) = options.max_redirects
            && let Some(location) = redirect(&connection)
        {
            let next = current.follow_location(&location);
            if sample.redirects.len() as u64 >= u64::from(limit) {
                let been = sample.redirects.iter().chain([&connection]);
                let circle =
                    next.as_ref().and_then(|next| RedirectCircle::find(been, next.url.as_str()));
                fail(&mut connection, Cause::TooManyRedirects { limit, circle });
                break;
            }
            let Some(next) = next else {
                let location = firstbyte_core::shown_url::shown_url(&location);
                fail(&mut connection, Cause::BadRedirect { location });
                break;
            };
            http.redirected(connection.facts.http.as_ref(), &current.url, &next.url);
            current = next;
            spent += taken(connection.marks.at(Mark::ResponseEnd));
            sample.redirects.push(connection);
            connection = self.visit(&current, &http, left(options.max_time, spent), leash);
        }
        sample.connection = connection;
        sample
    }

    fn visit(
        &self,
        target: &Target,
        http: &HttpOptions,
        max_time: Option<Duration>,
        leash: &Leash,
    ) -> Connection {
        let sessions = self.session_file(target);
        let asked = Asked {
            options: &self.options,
            http,
            target,
            max_time,
            sessions: sessions.as_deref().filter(|_| target.tls),
            kept: self.options.options.reuse,
        };
        let body = http.body.as_ref().map(|body| &body.reveal()[..]);
        let exchanges = if asked.kept { 2 } else { 1 };
        let run = Run {
            program: &self.program,
            // `-q` comes first, so that curl does not read the user's config file.
            arguments: &["-q", "-K", "-"],
            input: &|home, marker| asked.config(home, marker),
            files: body.map(|body| (BODY_FILE, body)).into_iter().collect(),
            limit: max_time.map(|limit| limit * exchanges + GRACE),
        };
        match run.to_end(leash) {
            Ok(said) => assembly::connection(&asked, &said),
            Err(error) => self.not_made(target, &error),
        }
    }

    /// The connection of a visit that did not take place.
    fn not_made(&self, target: &Target, error: &ClientError) -> Connection {
        let url = target.url_with_zone();
        let failure = Some(failure::not_made(error));
        let mut connection = Connection { url, failure, ..Connection::default() };
        connection.facts.client = Some(client(&self.options.able));
        connection
    }
}

/// The target of a redirect (RFC 9110 §15.4), if the response is one.
fn redirect(connection: &Connection) -> Option<String> {
    let http = connection.facts.http.as_ref()?;
    let redirects = matches!(http.status?, 301 | 302 | 303 | 307 | 308);
    let location =
        http.header("location").map(str::trim).filter(|location| !location.is_empty())?;
    (redirects && connection.failure.is_none()).then(|| location.to_owned())
}

fn fail(connection: &mut Connection, cause: Cause) {
    let at = connection.marks.at(Mark::ResponseEnd);
    connection.failure = Some(Failure { phase: PhaseName::Receive, cause, at });
}
