//! Browsers as probers: implements [`Prober`], so that experiments can compare them with our own client.
//!
//! Input: a browser's options. Output: samples. Each browser is driven by its own thread, because it is waited for
//! outside the runtime; visits of one prober are sequential. If a browser cannot visit, the result is a sample with a
//! failure, as everywhere.

use std::marker::PhantomData;
use std::sync::mpsc;
use std::thread::JoinHandle;

use firstbyte_core::timeline::{Cause, Connection, Failure, FailureType, Fault, PhaseName, Sample};
use firstbyte_probe::probe::options::Options;
use firstbyte_probe::probe::{Prober, ProberMaker, SetupError, Target, Visiting};
use tokio::sync::oneshot;

use super::asked::are_issuers_told;
use super::{Browser, BrowserOptions, RunningBrowser};
use crate::interruption::InterruptHandle;
use crate::process::{ClientError, installed, system};

struct Job<Visit> {
    /// Assigned by the requester, so that an interruption before the start is not lost.
    number: u64,
    url: String,
    work: Work<Visit>,
}

/// Kind of work, and where to send the answer.
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
        // If the requester stopped waiting meanwhile, it needs no answer.
        let _ = done.send(if interrupted { Err(ClientError::Interrupted) } else { work() });
    }
}

/// A browser as a prober. It starts with the first preparation, and ends when this is dropped.
pub struct BrowserProber<R: RunningBrowser> {
    jobs: Option<mpsc::Sender<Job<R::Visit>>>,
    thread: Option<JoinHandle<()>>,
    interrupt: InterruptHandle,
}

impl<R: RunningBrowser> BrowserProber<R> {
    /// A prober that visits as `options` request.
    ///
    /// # Errors
    /// If the browser does not support an option, or if issuers cannot be read.
    pub fn asked(options: &Options) -> Result<Self, SetupError> {
        let options = BrowserOptions::complete::<R>(options)?;
        Self::new(options).map_err(|error| SetupError::Client(error.to_string()))
    }

    /// A prober with its own browser.
    ///
    /// # Errors
    /// If the system cannot create a thread.
    pub fn new(options: BrowserOptions) -> Result<Self, ClientError> {
        let mut browser = Browser::<R>::new(options);
        let interrupt = browser.interrupt_handle();
        let (jobs, to_do) = mpsc::channel::<Job<R::Visit>>();
        let of_thread = interrupt.clone();
        let work = move || {
            for Job { number, url, work } in to_do {
                let interruption = of_thread.interruption();
                interruption.begin(number);
                let interrupted = interruption.is_set();
                match work {
                    Work::Start(done) => {
                        answer(done, interrupted, || browser.start_begun(&url).map(drop))
                    }
                    Work::Visit(done) => answer(done, interrupted, || browser.visit_begun(&url)),
                }
            }
        };
        let thread = std::thread::Builder::new().name(R::CLIENT.name().to_owned()).spawn(work);
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Self { jobs: Some(jobs), thread, interrupt })
    }

    /// Visits `url` and returns everything that the browser reports.
    ///
    /// # Errors
    /// As [`Browser::visit`], or if it was interrupted.
    pub async fn visit(&self, url: &str) -> Result<R::Visit, ClientError> {
        let (done, answer) = oneshot::channel();
        self.ask(url, Work::Visit(done), answer).await
    }

    async fn ask<T>(
        &self,
        url: &str,
        work: Work<R::Visit>,
        answer: oneshot::Receiver<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        if let Some(jobs) = &self.jobs {
            let number = self.interrupt.interruption().ask();
            // If the thread is gone, so is the answer's sender.
            let _ = jobs.send(Job { number, url: url.to_owned(), work });
        }
        answer.await.unwrap_or(Err(ClientError::Interrupted))
    }
}

impl<R: RunningBrowser> Drop for BrowserProber<R> {
    fn drop(&mut self) {
        // The current visit ends, and queued ones are not started.
        self.interrupt.interruption().close();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // If its thread panicked, the browser has ended too.
            let _ = thread.join();
        }
    }
}

impl<R: RunningBrowser> Prober for BrowserProber<R> {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async move {
            let url = target.url.as_str();
            match self.visit(url).await {
                Ok(visit) => R::page(visit).main,
                Err(error) => not_visited(url, failure::<R>(&error)),
            }
        })
    }

    fn prepare<'a>(&'a self, target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            let started = self.ask(target.url.as_str(), Work::Start(done), answer).await;
            started.map_err(|error| failure::<R>(&error))
        })
    }

    fn interrupt(&self) {
        self.interrupt.interrupt();
    }
}

/// The sample of a visit that did not take place.
fn not_visited(url: &str, failure: Failure) -> Sample {
    let mut connection = Connection { url: url.to_owned(), ..Connection::default() };
    connection.failure = Some(failure);
    Sample { requested_url: url.to_owned(), connection, ..Sample::default() }
}

fn failure<R: RunningBrowser>(error: &ClientError) -> Failure {
    let cause = match error {
        ClientError::Interrupted => Cause::Interrupted,
        other => Cause::Recorded {
            name: R::CLIENT.name().to_lowercase(),
            failure_type: FailureType::ClientFailed,
            fault: Fault::Local,
            message: format!("visit with {}: {other}", R::CLIENT.name()),
            advice: None,
        },
    };
    Failure { phase: PhaseName::Resolve, cause, at: None }
}

/// Makes probers that use one browser.
#[derive(Debug)]
pub struct BrowserMaker<R>(PhantomData<R>);

impl<R> Default for BrowserMaker<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R: RunningBrowser> ProberMaker for BrowserMaker<R> {
    fn check(&self, target: &Target, options: &Options) -> Result<(), String> {
        BrowserOptions::check::<R>(target, options)?;
        let asked = BrowserOptions::asked::<R>(options)?;
        let program = asked.program.as_deref().unwrap_or(R::installed_program());
        installed(program, R::PACKAGE).map_err(|error| error.to_string())?;
        match are_issuers_told(options) {
            true => installed("certutil", "libnss3-tools").map_err(|error| error.to_string()),
            false => Ok(()),
        }
    }

    fn make(&self, options: &Options) -> Result<Box<dyn Prober>, SetupError> {
        Ok(Box::new(BrowserProber::<R>::asked(options)?))
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
