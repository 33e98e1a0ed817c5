//! Browsers as probers: [`Prober`] for experiments, so that they stand beside our own client in one.
//!
//! Input: [`ChromiumOptions`]. Output: samples. A browser is driven by a thread of its own, since it is waited for without
//! the runtime; the visits of one prober come one after the other. What keeps a browser from visiting is a sample with
//! a failure, as everywhere.

use std::sync::mpsc;
use std::thread::JoinHandle;

use firstbyte_core::timeline::{
    Cause, Connection, Failure, LastSeen, PhaseName, Sample, TimeLimit,
};
use firstbyte_probe::probe::{Prober, Target, Visiting};
use tokio::sync::oneshot;

use crate::chromium::{Chromium, ChromiumOptions, ChromiumVisit, InterruptHandle};
use crate::process::{ClientError, system};

/// What the thread is to do, and where the answer goes.
enum Job {
    Start { url: String, done: oneshot::Sender<Result<(), ClientError>> },
    Visit { url: String, done: oneshot::Sender<Result<ChromiumVisit, ClientError>> },
}

/// Chromium, as a prober. Its browser is started with the first preparation, and ends with this.
pub struct ChromiumProber {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    interrupt: InterruptHandle,
}

impl ChromiumProber {
    /// A prober with a browser of its own.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(options: ChromiumOptions) -> Result<Self, ClientError> {
        let mut browser = Chromium::new(options);
        let interrupt = browser.interrupt_handle();
        let (jobs, to_do) = mpsc::channel();
        let work = move || {
            for job in to_do {
                // Who does not wait any more needs no answer.
                match job {
                    Job::Start { url, done } => drop(done.send(browser.start(&url))),
                    Job::Visit { url, done } => drop(done.send(browser.visit(&url))),
                }
            }
        };
        let thread = std::thread::Builder::new().name("Chromium".to_owned()).spawn(work);
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Self { jobs: Some(jobs), thread, interrupt })
    }

    /// Visits `url`, and says all that the browser says.
    ///
    /// # Errors
    /// As [`Chromium::visit`].
    pub async fn visit(&self, url: &str) -> Result<ChromiumVisit, ClientError> {
        let (done, answer) = oneshot::channel();
        self.ask(Job::Visit { url: url.to_owned(), done }, answer).await
    }

    async fn ask<T>(
        &self,
        job: Job,
        answer: oneshot::Receiver<Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        if let Some(jobs) = &self.jobs {
            // Where the thread is gone, so is the answer's other end.
            let _ = jobs.send(job);
        }
        answer.await.unwrap_or(Err(ClientError::Interrupted))
    }
}

impl Drop for ChromiumProber {
    fn drop(&mut self) {
        self.interrupt.interrupt();
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A browser that panicked its thread has ended too.
            let _ = thread.join();
        }
    }
}

impl Prober for ChromiumProber {
    fn probe<'a>(&'a self, target: &'a Target) -> Visiting<'a, Sample> {
        Box::pin(async move {
            let url = target.url.as_str();
            match self.visit(url).await {
                Ok(visit) => visit.page.main,
                Err(error) => not_visited(url, &error),
            }
        })
    }

    fn prepare<'a>(&'a self, target: &'a Target) -> Visiting<'a, Result<(), Failure>> {
        Box::pin(async move {
            let (done, answer) = oneshot::channel();
            let url = target.url.to_string();
            let started = self.ask(Job::Start { url, done }, answer).await;
            started.map_err(|error| failure(&error))
        })
    }

    fn interrupt(&self) {
        self.interrupt.interrupt();
    }
}

/// The sample of a visit that the browser did not make.
fn not_visited(url: &str, error: &ClientError) -> Sample {
    let mut connection = Connection { url: url.to_owned(), ..Connection::default() };
    connection.failure = Some(failure(error));
    Sample { requested_url: url.to_owned(), connection, ..Sample::default() }
}

fn failure(error: &ClientError) -> Failure {
    let cause = match error {
        ClientError::Interrupted => Cause::Interrupted,
        ClientError::TimedOut { limit, .. } => {
            Cause::TimedOut { after: *limit, limit: TimeLimit::Visit, peer: LastSeen::Nothing }
        }
        other => Cause::Io { operation: "visit with Chromium", detail: other.to_string() },
    };
    Failure { phase: PhaseName::Resolve, cause, at: None }
}
