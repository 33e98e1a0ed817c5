//! Browsers as probers: [`Prober`] for experiments, so that they stand beside our own client in one.
//!
//! Input: a browser's options. Output: samples. A browser is driven by a thread of its own, since it is waited for without
//! the runtime; the visits of one prober come one after the other. What keeps a browser from visiting is a sample with
//! a failure, as everywhere.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use firstbyte_core::timeline::{
    Cause, Connection, Failure, FailureType, Fault, Navigation, PhaseName, Sample,
};
use firstbyte_probe::probe::options::{HttpVersion, Options};
use firstbyte_probe::probe::{Prober, ProberMaker, SetupError, Target, Visiting};
use tokio::sync::oneshot;

use crate::chromium::{Chromium, ChromiumOptions, ChromiumVisit};
use crate::firefox::{Firefox, FirefoxOptions, FirefoxVisit};
use crate::interruption::InterruptHandle;
use crate::process::{ClientError, installed, system};

/// A browser, as its thread drives it. What is asked of it was begun by its [`InterruptHandle`] before.
pub trait DrivenBrowser: Send + 'static {
    /// What a visit says.
    type Visit: Send + 'static;
    /// What its thread is called.
    const NAME: &'static str;
    /// What fails where it does not visit.
    const OPERATION: &'static str;

    /// What ends its visits.
    fn interrupt_handle(&self) -> InterruptHandle;

    /// Starts it for `url`, if it is not running.
    ///
    /// # Errors
    /// It is missing, or does not come up.
    fn start_begun(&mut self, url: &str) -> Result<(), ClientError>;

    /// Visits `url` once.
    ///
    /// # Errors
    /// It is missing, ended, hung, or does not do as it is told.
    fn visit_begun(&mut self, url: &str) -> Result<Self::Visit, ClientError>;

    /// The page that was visited.
    fn page(visit: Self::Visit) -> Navigation;
}

/// Implements [`DrivenBrowser`] by methods of the same names.
macro_rules! driven {
    ($browser:ty, $visit:ty, $name:literal) => {
        impl DrivenBrowser for $browser {
            type Visit = $visit;
            const NAME: &'static str = $name;
            const OPERATION: &'static str = concat!("visit with ", $name);

            fn interrupt_handle(&self) -> InterruptHandle {
                self.interrupt_handle()
            }

            fn start_begun(&mut self, url: &str) -> Result<(), ClientError> {
                self.start_begun(url)
            }

            fn visit_begun(&mut self, url: &str) -> Result<$visit, ClientError> {
                self.visit_begun(url)
            }

            fn page(visit: $visit) -> Navigation {
                visit.page
            }
        }
    };
}

driven!(Chromium, ChromiumVisit, "Chromium");
driven!(Firefox, FirefoxVisit, "Firefox");

/// What the thread is to do.
struct Job<Visit> {
    /// Given by who asks, so that an interruption before it is begun is not lost.
    number: u64,
    url: String,
    work: Work<Visit>,
}

/// What it is, and where the answer goes.
enum Work<Visit> {
    Start(oneshot::Sender<Result<(), ClientError>>),
    Visit(oneshot::Sender<Result<Visit, ClientError>>),
}

/// Does `work`, unless it was interrupted already, or nobody waits for it any more.
fn answer<T>(
    done: oneshot::Sender<Result<T, ClientError>>,
    interrupted: bool,
    work: impl FnOnce() -> Result<T, ClientError>,
) {
    if !done.is_closed() {
        // Who ceases to wait meanwhile needs no answer.
        let _ = done.send(if interrupted { Err(ClientError::Interrupted) } else { work() });
    }
}

/// A browser, as a prober. It is started with the first preparation, and ends with this.
pub struct BrowserProber<B: DrivenBrowser> {
    jobs: Option<mpsc::Sender<Job<B::Visit>>>,
    thread: Option<JoinHandle<()>>,
    interrupt: InterruptHandle,
}

/// Chromium, as a prober.
pub type ChromiumProber = BrowserProber<Chromium>;
/// Firefox, as a prober.
pub type FirefoxProber = BrowserProber<Firefox>;

impl<B: DrivenBrowser> BrowserProber<B> {
    /// A prober with a browser of its own.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn driving(mut browser: B) -> Result<Self, ClientError> {
        let interrupt = browser.interrupt_handle();
        let (jobs, to_do) = mpsc::channel::<Job<B::Visit>>();
        let of_thread = interrupt.clone();
        let work = move || {
            for Job { number, url, work } in to_do {
                let interruption = of_thread.interruption();
                interruption.begin(number);
                let interrupted = interruption.is_set();
                match work {
                    Work::Start(done) => answer(done, interrupted, || browser.start_begun(&url)),
                    Work::Visit(done) => answer(done, interrupted, || browser.visit_begun(&url)),
                }
            }
        };
        let thread = std::thread::Builder::new().name(B::NAME.to_owned()).spawn(work);
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Self { jobs: Some(jobs), thread, interrupt })
    }

    /// Visits `url`, and says all that the browser says.
    ///
    /// # Errors
    /// As [`DrivenBrowser::visit_begun`], or it was interrupted.
    pub async fn visit(&self, url: &str) -> Result<B::Visit, ClientError> {
        let (done, answer) = oneshot::channel();
        self.ask(url, Work::Visit(done), answer).await
    }

    async fn ask<T>(
        &self,
        url: &str,
        work: Work<B::Visit>,
        answer: oneshot::Receiver<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        if let Some(jobs) = &self.jobs {
            let number = self.interrupt.interruption().ask();
            // Where the thread is gone, so is the answer's other end.
            let _ = jobs.send(Job { number, url: url.to_owned(), work });
        }
        answer.await.unwrap_or(Err(ClientError::Interrupted))
    }
}

impl<B: DrivenBrowser> Drop for BrowserProber<B> {
    fn drop(&mut self) {
        // What is under way ends, and what is queued is not begun.
        self.interrupt.interruption().close();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A browser that panicked its thread has ended too.
            let _ = thread.join();
        }
    }
}

impl<B: DrivenBrowser> Prober for BrowserProber<B> {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async move {
            let url = target.url.as_str();
            match self.visit(url).await {
                Ok(visit) => B::page(visit).main,
                Err(error) => not_visited(url, failure::<B>(&error)),
            }
        })
    }

    fn prepare<'a>(&'a self, target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            let started = self.ask(target.url.as_str(), Work::Start(done), answer).await;
            started.map_err(|error| failure::<B>(&error))
        })
    }

    fn interrupt(&self) {
        self.interrupt.interrupt();
    }
}

/// The sample of a visit that the browser did not make.
fn not_visited(url: &str, failure: Failure) -> Sample {
    let mut connection = Connection { url: url.to_owned(), ..Connection::default() };
    connection.failure = Some(failure);
    Sample { requested_url: url.to_owned(), connection, ..Sample::default() }
}

fn failure<B: DrivenBrowser>(error: &ClientError) -> Failure {
    let cause = match error {
        ClientError::Interrupted => Cause::Interrupted,
        other => Cause::Recorded {
            name: B::NAME.to_lowercase(),
            failure_type: FailureType::ClientFailed,
            fault: Fault::Local,
            message: format!("{}: {other}", B::OPERATION),
            advice: None,
        },
    };
    Failure { phase: PhaseName::Resolve, cause, at: None }
}

/// The issuers to be trusted, where a file has them.
fn issuers(file: Option<&Path>) -> Result<Vec<String>, SetupError> {
    let read = |path: &Path| {
        fs::read_to_string(path)
            .map_err(|error| SetupError::Client(format!("cannot read {}: {error}", path.display())))
    };
    Ok(file.map(read).transpose()?.into_iter().collect())
}

/// Whether a browser, and what it is told of issuers by, are there.
fn is_there(program: &str, package: &'static str, options: &Options) -> Result<(), String> {
    installed(program, package).map_err(|error| error.to_string())?;
    match options.tls.ca_file {
        Some(_) => installed("certutil", "libnss3-tools").map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

impl ChromiumProber {
    /// One with these options.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(options: ChromiumOptions) -> Result<Self, ClientError> {
        Self::driving(Chromium::new(options))
    }

    /// One that visits as `options` ask.
    ///
    /// # Errors
    /// What Chromium cannot be asked for, or issuers that cannot be read.
    pub fn asked(options: &Options) -> Result<Self, SetupError> {
        let mut asked = ChromiumOptions::asked(options).map_err(SetupError::Client)?;
        asked.trusted_pem = issuers(options.tls.ca_file.as_deref())?;
        Self::new(asked).map_err(|error| SetupError::Client(error.to_string()))
    }
}

impl FirefoxProber {
    /// One with these options.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(options: FirefoxOptions) -> Result<Self, ClientError> {
        Self::driving(Firefox::new(options))
    }

    /// One that visits as `options` ask.
    ///
    /// # Errors
    /// What Firefox cannot be asked for, or issuers that cannot be read.
    pub fn asked(options: &Options) -> Result<Self, SetupError> {
        let mut asked = FirefoxOptions::asked(options).map_err(SetupError::Client)?;
        asked.trusted_pem = issuers(options.tls.ca_file.as_deref())?;
        Self::new(asked).map_err(|error| SetupError::Client(error.to_string()))
    }
}

/// Makes probers that are Chromium.
#[derive(Debug, Default)]
pub struct ChromiumMaker;

impl ProberMaker for ChromiumMaker {
    fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        if !target.tls && options.http.version == HttpVersion::Http2 {
            return Err("Chromium speaks HTTP/2 over https only".to_owned());
        }
        let asked = ChromiumOptions::asked(options)?;
        is_there(&asked.program, "chromium", options)
    }

    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError> {
        Ok(Box::new(ChromiumProber::asked(options)?))
    }
}

/// Makes probers that are Firefox.
#[derive(Debug, Default)]
pub struct FirefoxMaker;

impl ProberMaker for FirefoxMaker {
    fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        if !target.tls && options.http.version == HttpVersion::Http2 {
            return Err("Firefox speaks HTTP/2 over https only".to_owned());
        }
        FirefoxOptions::check(options, target)?;
        let asked = FirefoxOptions::asked(options)?;
        is_there(&asked.program, "firefox-esr", options)
    }

    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError> {
        Ok(Box::new(FirefoxProber::asked(options)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_was_interrupted_is_not_begun() {
        let (done, mut answered) = oneshot::channel();
        answer::<()>(done, true, || unreachable!("it was interrupted"));
        assert!(matches!(answered.try_recv(), Ok(Err(ClientError::Interrupted))));
        let (done, answered) = oneshot::channel();
        drop(answered);
        answer::<()>(done, false, || unreachable!("nobody waits for it"));
        let (done, mut answered) = oneshot::channel();
        answer(done, false, || Ok(7));
        assert!(matches!(answered.try_recv(), Ok(Ok(7))));
    }
}
