//! Browsers as probers: [`Prober`] for experiments, so that they stand beside our own client in one.
//!
//! Input: a browser's options. Output: samples. A browser is driven by a thread of its own, since it is waited for without
//! the runtime; the visits of one prober come one after the other. What keeps a browser from visiting is a sample with
//! a failure, as everywhere.

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
pub struct BrowserProber<R: RunningBrowser> {
    jobs: Option<mpsc::Sender<Job<R::Visit>>>,
    thread: Option<JoinHandle<()>>,
    interrupt: InterruptHandle,
}

impl<R: RunningBrowser> BrowserProber<R> {
    /// A prober that visits as `options` ask.
    ///
    /// # Errors
    /// What the browser cannot be asked for, or issuers that cannot be read.
    pub fn asked(options: &Options) -> Result<Self, SetupError> {
        let options = BrowserOptions::complete::<R>(options)?;
        Self::new(options).map_err(|error| SetupError::Client(error.to_string()))
    }

    /// A prober with a browser of its own.
    ///
    /// # Errors
    /// The system refuses a thread.
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

    /// Visits `url`, and says all that the browser says.
    ///
    /// # Errors
    /// As [`Browser::visit`], or it was interrupted.
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
            // Where the thread is gone, so is the answer's other end.
            let _ = jobs.send(Job { number, url: url.to_owned(), work });
        }
        answer.await.unwrap_or(Err(ClientError::Interrupted))
    }
}

impl<R: RunningBrowser> Drop for BrowserProber<R> {
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

/// The sample of a visit that the browser did not make.
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

/// Makes probers that are one browser.
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
