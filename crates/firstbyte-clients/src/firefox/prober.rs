//! Firefox as a prober: [`Prober`] for experiments, so that it stands beside other clients in one.
//!
//! Input: [`FirefoxOptions`]. Output: samples. The browser is driven by a thread of its own, since it is waited for without
//! the runtime; the visits of one prober come one after the other. What keeps the browser from visiting is a sample with
//! a failure, as everywhere.

use std::sync::mpsc;
use std::thread::JoinHandle;

use firstbyte_core::timeline::{
    Cause, Connection, Failure, LastSeen, PhaseName, Sample, TimeLimit,
};
use firstbyte_probe::probe::{Prober, Target, Visiting};
use tokio::sync::oneshot;

use super::{Firefox, FirefoxInterrupt, FirefoxOptions, FirefoxVisit};
use crate::process::{ClientError, system};

/// What the thread is to do.
struct Job {
    /// Given by who asks, so that an interruption before it is begun is not lost.
    number: u64,
    url: String,
    work: Work,
}

/// What it is, and where the answer goes.
enum Work {
    Start(oneshot::Sender<Result<(), ClientError>>),
    Visit(oneshot::Sender<Result<FirefoxVisit, ClientError>>),
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

/// Firefox, as a prober. Its browser is started with the first preparation, and ends with this.
pub struct FirefoxProber {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    interrupt: FirefoxInterrupt,
}

impl FirefoxProber {
    /// A prober with a browser of its own.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn new(options: FirefoxOptions) -> Result<Self, ClientError> {
        let mut browser = Firefox::new(options);
        let interrupt = browser.interrupt_handle();
        let (jobs, to_do) = mpsc::channel::<Job>();
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
        let thread = std::thread::Builder::new().name("Firefox".to_owned()).spawn(work);
        let thread = Some(thread.map_err(system("start a thread"))?);
        Ok(Self { jobs: Some(jobs), thread, interrupt })
    }

    /// Visits `url`, and says all that the browser says.
    ///
    /// # Errors
    /// As [`Firefox::visit`].
    pub async fn visit(&self, url: &str) -> Result<FirefoxVisit, ClientError> {
        let (done, answer) = oneshot::channel();
        self.ask(url, Work::Visit(done), answer).await
    }

    async fn ask<T>(
        &self,
        url: &str,
        work: Work,
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

impl Drop for FirefoxProber {
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

impl Prober for FirefoxProber {
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
            let started = self.ask(target.url.as_str(), Work::Start(done), answer).await;
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
        other => Cause::Io { operation: "visit with Firefox", detail: other.to_string() },
    };
    Failure { phase: PhaseName::Resolve, cause, at: None }
}
