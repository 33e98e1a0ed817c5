//! Sends metrics by remote-write or OTLP, with two tasks per receiver on a separate thread.
//!
//! In: a recorder's metrics, at regular intervals. Out: requests in order. If the receiver may accept a request later,
//! it is retried with growing pauses. Points that are dropped, refused or not delivered are counted and reported.
//! Measurements never wait for any of this.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use firstbyte_clock::{Monotonic, Realtime, timer_now};
use firstbyte_core::units::print_time;
use firstbyte_monitor::push::{PushForm, PushSettings};
use firstbyte_probe::probe::Secret;
use firstbyte_report::Style;
use firstbyte_report::units::count;
use http::StatusCode;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use crate::exposition::{self, Batch, Exposed, WriteOptions, rejected};
use crate::posting::{Destination, PostAnswer, Tls, Work, system_tls, work_on_thread};
use crate::recording::{Figures, Observer};
use crate::webhooks::Tell;
use queue::{Parcel, Queue};

/// Maximum number of bytes read of a response body.
const MOST_OF_ANSWER: usize = 4_096;
/// Characters of a receiver's reason for a refusal that are shown.
const MOST_OF_REASON: usize = 200;

/// A receiver of metrics, and the token sent with requests.
pub(crate) struct Push {
    pub(crate) settings: PushSettings,
    pub(crate) token: Option<Secret<String>>,
    /// Name of the vantage point.
    pub(crate) place: Option<String>,
}

/// Timeouts and limits of delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PushPace {
    /// Time limit for a response.
    attempt: Duration,
    /// Pause between the first and the second attempt; it doubles after each attempt.
    first_pause: Duration,
    /// Maximum pause between attempts, even if the receiver asks for more.
    longest_pause: Duration,
    /// How long to retry, counted from when the metrics were collected.
    give_up: Duration,
    /// Time for requests still waiting when the monitor ends.
    end: Duration,
    /// Maximum size of waiting request bodies, in bytes.
    most_waiting: usize,
}

impl Default for PushPace {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(30),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(60),
            give_up: Duration::from_secs(3_600),
            end: Duration::from_secs(5),
            most_waiting: 16_000_000,
        }
    }
}

/// Series or data points that one receiver does not have.
#[derive(Default)]
struct Counts {
    /// Collected but neither delivered nor lost.
    pending: AtomicU64,
    /// Displaced by newer ones, or too old.
    dropped: AtomicU64,
    refused: AtomicU64,
}

/// Handle of the thread.
pub(crate) struct Pushes {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    counted: Vec<(String, Arc<Counts>)>,
    tell: Tell,
}

impl Pushes {
    /// Starts sending. Without receivers, no thread is started.
    ///
    /// # Errors
    /// If the system fails to start it.
    pub(crate) fn start(
        pushes: Vec<Push>,
        observer: &Observer,
        pace: PushPace,
        tell: Tell,
    ) -> io::Result<Self> {
        let uses_tls = pushes.iter().any(|push| push.settings.url.reveal().tls);
        let tls = if uses_tls { Some(system_tls()?) } else { None };
        let (end, ending) = watch::channel(false);
        let (mut tasks, mut counted) = (Vec::new(), Vec::new());
        for push in pushes {
            let counts = Arc::new(Counts::default());
            let queue = Arc::new(Queue::new(pace.most_waiting));
            counted.push((push.settings.name.clone(), Arc::clone(&counts)));
            let courier = Courier {
                name: push.settings.name.clone(),
                form: push.settings.form,
                destination: destination(&push, tls.as_ref())?,
                secrets: secrets(&push),
                queue: Arc::clone(&queue),
                ending: ending.clone(),
                counts: Arc::clone(&counts),
                pace,
                fails: false,
                tell: Arc::clone(&tell),
            };
            let collector = Collector {
                labels: own_labels(&push),
                settings: push.settings,
                observer: observer.clone(),
                queue,
                counts,
                last: None,
                is_full: false,
                most_waiting: pace.most_waiting,
                tell: Arc::clone(&tell),
            };
            tasks.push(Box::pin(collector.work(ending.clone())) as Work);
            tasks.push(Box::pin(courier.work()));
        }
        let thread = match tasks.is_empty() {
            true => None,
            false => Some(work_on_thread("pushes", tasks, ending, pace.end)?),
        };
        Ok(Self { end, thread, counted, tell })
    }

    /// Ends the thread after the last measurement. It sends the last metrics, within a bounded time.
    pub(crate) fn finish(self) {
        // The thread may have ended by itself.
        let _ = self.end.send(true);
        if let Some(Err(panicked)) = self.thread.map(JoinHandle::join) {
            std::panic::resume_unwind(panicked);
        }
        for (name, counts) in &self.counted {
            let [pending, dropped, refused] = [&counts.pending, &counts.dropped, &counts.refused]
                .map(|n| n.load(Ordering::Relaxed));
            let lost = pending + dropped + refused;
            if lost > 0 {
                let points = count(lost, "point");
                (self.tell)(&format!(
                    "push {name}: {points} not delivered ({dropped} dropped, {refused} refused)"
                ));
            }
        }
    }
}

/// Labels of all series (remote-write), or attributes of the resource (OTLP).
fn own_labels(push: &Push) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    let place = push.place.as_deref();
    match push.settings.form {
        PushForm::RemoteWrite { .. } => {
            labels.insert("job".to_owned(), "firstbyte".to_owned());
            labels.extend(place.map(|place| ("instance".to_owned(), place.to_owned())));
        }
        PushForm::Otlp => {
            labels.insert("service.name".to_owned(), "firstbyte".to_owned());
            labels.insert("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
            labels.extend(place.map(|place| ("service.instance.id".to_owned(), place.to_owned())));
        }
    }
    labels.extend(push.settings.labels.clone());
    labels
}

fn destination(push: &Push, tls: Option<&Tls>) -> io::Result<Destination> {
    let mut headers = push.settings.headers.clone();
    if let Some(token) = &push.token {
        let bearer = Secret::new(format!("Bearer {}", token.reveal()));
        headers.push(("Authorization".to_owned(), bearer));
    }
    Destination::new(push.settings.url.reveal(), "application/x-protobuf", &headers, tls)
}

/// Secret texts that must not appear in messages, even if the receiver repeats them.
fn secrets(push: &Push) -> Vec<Secret<String>> {
    let of_headers = push.settings.headers.iter().map(|(_, value)| value.clone());
    of_headers.chain(push.token.clone()).collect()
}

/// Task that makes the requests for one receiver.
struct Collector {
    settings: PushSettings,
    labels: BTreeMap<String, String>,
    observer: Observer,
    queue: Arc<Queue>,
    counts: Arc<Counts>,
    /// Metrics of the last request.
    last: Option<(Arc<Exposed>, Figures)>,
    is_full: bool,
    most_waiting: usize,
    tell: Tell,
}

impl Collector {
    async fn work(mut self, mut ending: watch::Receiver<bool>) {
        let every = self.settings.every;
        let mut ticks = tokio::time::interval_at(timer_now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.collect();
        loop {
            let is_last = tokio::select! {
                _ = ending.changed() => true,
                _ = ticks.tick() => false,
            };
            self.collect();
            if is_last {
                return self.queue.close();
            }
        }
    }

    fn collect(&mut self) {
        let made = Monotonic::now();
        for Batch { body, points } in self.batches() {
            self.counts.pending.fetch_add(points, Ordering::Relaxed);
            let dropped = self.queue.push(Parcel { body: Bytes::from(body), points, made });
            self.counts.pending.fetch_sub(dropped, Ordering::Relaxed);
            self.counts.dropped.fetch_add(dropped, Ordering::Relaxed);
            match dropped {
                0 => self.is_full = false,
                _ if std::mem::replace(&mut self.is_full, true) => {}
                _ => {
                    let (name, most) = (&self.settings.name, self.most_waiting / 1_000_000);
                    (self.tell)(&format!(
                        "push {name}: {most} MB are waiting; the oldest points \
                                          are dropped"
                    ));
                }
            }
        }
    }

    /// Batches to send now.
    fn batches(&mut self) -> Vec<Batch> {
        let figures = self.observer.figures();
        let at = Realtime::now().unix_nanos();
        let exposed = match &self.last {
            Some((exposed, _)) => exposed.of_now(&figures),
            None => Arc::new(Exposed::from_labels(Arc::clone(&figures.labels))),
        };
        let batches = match self.settings.form {
            PushForm::Otlp => exposition::otlp(&exposed, &figures, &self.labels, at),
            PushForm::RemoteWrite { native } => {
                let before = self.last.as_ref().filter(|(before, _)| !before.is_of(&figures));
                let gone = before.map(|(before, figures)| (before.gone_in(&exposed), figures));
                let gone = gone.as_ref().map(|(gone, figures)| (gone, *figures));
                let at_ms = i64::try_from(at / 1_000_000).unwrap_or(i64::MAX);
                let options = WriteOptions { native, labels: &self.labels, at_ms };
                exposition::remote_write(&exposed, &figures, gone, options)
            }
        };
        self.last = Some((exposed, figures));
        batches
    }
}

/// Result of one attempt.
enum Outcome {
    Taken,
    /// The receiver will never accept the whole request, or this many points of it.
    Refused(Option<u64>, String),
    /// The receiver may accept it later, not before the requested pause.
    Later(Option<Duration>, String),
}

/// Task that delivers the requests to one receiver, one after another.
struct Courier {
    name: String,
    form: PushForm,
    destination: Destination,
    secrets: Vec<Secret<String>>,
    queue: Arc<Queue>,
    ending: watch::Receiver<bool>,
    counts: Arc<Counts>,
    pace: PushPace,
    /// Whether a failure was reported.
    fails: bool,
    tell: Tell,
}

impl Courier {
    async fn work(mut self) {
        while let Some(parcel) = self.queue.next().await {
            self.deliver(&parcel).await;
        }
    }

    async fn deliver(&mut self, parcel: &Parcel) {
        let mut pause = self.pace.first_pause;
        loop {
            // Read before the attempt: if the monitor starts to end during it, one more attempt follows.
            let is_last = self.is_ending();
            let attempt = tokio::time::timeout(self.pace.attempt, self.attempt(parcel)).await;
            let outcome = attempt.unwrap_or_else(|_| {
                Outcome::Later(None, format!("no answer within {}", print_time(self.pace.attempt)))
            });
            let (asked, why) = match outcome {
                Outcome::Taken => {
                    self.counts.pending.fetch_sub(parcel.points, Ordering::Relaxed);
                    if std::mem::take(&mut self.fails) {
                        (self.tell)(&format!("push {}: delivering again", self.name));
                    }
                    return;
                }
                Outcome::Refused(part, why) => {
                    let refused = part.unwrap_or(parcel.points).min(parcel.points);
                    self.counts.pending.fetch_sub(parcel.points, Ordering::Relaxed);
                    self.counts.refused.fetch_add(refused, Ordering::Relaxed);
                    return self.tell_failure(&why);
                }
                Outcome::Later(asked, why) => (asked, why),
            };
            let time = print_time(self.pace.give_up);
            self.tell_failure(&format!("{why}; retrying for up to {time}"));
            if is_last {
                return;
            }
            let wait = asked.unwrap_or(pause).clamp(pause, self.pace.longest_pause.max(pause));
            if Monotonic::now().since(parcel.made) + wait > self.pace.give_up {
                self.counts.pending.fetch_sub(parcel.points, Ordering::Relaxed);
                self.counts.dropped.fetch_add(parcel.points, Ordering::Relaxed);
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = self.ending.changed() => {}
            }
            pause = (pause * 2).min(self.pace.longest_pause);
        }
    }

    async fn attempt(&self, parcel: &Parcel) -> Outcome {
        let further: &[_] = match self.form {
            PushForm::RemoteWrite { .. } => {
                &[("content-encoding", "snappy"), ("x-prometheus-remote-write-version", "0.1.0")]
            }
            PushForm::Otlp => &[("content-encoding", "gzip")],
        };
        let answer = self.destination.post(further, parcel.body.clone(), MOST_OF_ANSWER).await;
        match answer {
            Err(why) => Outcome::Later(None, why),
            Ok(answer) if answer.status.is_success() => match (self.form, rejected(&answer.body)) {
                (PushForm::Otlp, Some((number, why))) => {
                    let points = count(number, "point");
                    let why = self.reason(why.as_bytes());
                    Outcome::Refused(Some(number), format!("the receiver rejected {points}{why}"))
                }
                _ => Outcome::Taken,
            },
            Ok(PostAnswer { status, retry_after, body }) => {
                let why =
                    format!("the receiver answered {}{}", status.as_u16(), self.reason(&body));
                match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
                    true => Outcome::Later(retry_after, why),
                    false => Outcome::Refused(None, format!("{why}; not retried")),
                }
            }
        }
    }

    /// `": "` and the first line of a receiver's response, if it is text without a secret.
    fn reason(&self, said: &[u8]) -> String {
        let said = String::from_utf8_lossy(said);
        let line = said.lines().next().unwrap_or_default().trim();
        let is_secret = self.secrets.iter().any(|secret| line.contains(secret.reveal().as_str()));
        let is_text = !line.is_empty() && !line.contains(char::REPLACEMENT_CHARACTER);
        match is_text && !is_secret {
            true => {
                let line: String = line.chars().take(MOST_OF_REASON).collect();
                format!(": {}", Style::default().safe(&line))
            }
            false => String::new(),
        }
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow() || self.ending.has_changed().is_err()
    }

    fn tell_failure(&mut self, why: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            (self.tell)(&format!("push {}: {why}", self.name));
        }
    }
}
