//! What changed, on its way to who wants to know: a queue and a sender for each webhook, on one thread of their own.
//!
//! In: events, as the thread that looks for changes finds them; it never waits. Out: requests, in order, tried again with growing
//! pauses for a bounded time. What is dropped or not delivered is counted, and told.

mod sender;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use firstbyte_clock::Monotonic;
use firstbyte_core::units::print_time;
use firstbyte_monitor::detect::Event;
use firstbyte_monitor::webhook::{Choice, Template, WebhookSettings};
use firstbyte_probe::probe::Secret;
use firstbyte_report::units::count;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};

use sender::Sender;

use crate::posting::{Tls, Work, system_tls, work_on_thread};

/// Events that wait for one webhook, at most.
const MOST_WAITING: usize = 1_000;

/// Who is told in words.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// A webhook, and the key that its requests are signed with.
pub(crate) struct Webhook {
    pub(crate) settings: WebhookSettings,
    pub(crate) secret: Option<Secret<String>>,
}

/// How patiently events are delivered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// For an answer.
    attempt: Duration,
    /// From the first attempt to the second; twice as long each further time,
    first_pause: Duration,
    /// and at most so long.
    longest_pause: Duration,
    /// From when an event was found.
    give_up: Duration,
    /// For what is under way when the monitor ends.
    end: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            give_up: Duration::from_secs(3_600),
            end: Duration::from_secs(5),
        }
    }
}

/// What was not delivered, of one webhook.
#[derive(Default)]
struct Counts {
    /// Offered, and neither delivered nor given up.
    pending: AtomicU64,
    given_up: AtomicU64,
    dropped: AtomicU64,
}

/// An event for one webhook.
struct Notice {
    id: String,
    body: Bytes,
    found: Monotonic,
}

/// Where events are offered.
#[derive(Default)]
pub(crate) struct Notices {
    outlets: Vec<Outlet>,
}

struct Outlet {
    name: String,
    choice: Choice,
    template: Option<Template>,
    queue: mpsc::Sender<Notice>,
    counts: Arc<Counts>,
    is_full: bool,
    tell: Tell,
}

impl Notices {
    /// Notes events that were found before this began: they are not sent again.
    pub(crate) fn know(&mut self, events: &[Event]) {
        for outlet in &mut self.outlets {
            events.iter().for_each(|event| outlet.choice.know(event));
        }
    }

    /// Hands `event`, which `json` is the stored form of, to the webhooks that want it. Never waits.
    pub(crate) fn offer(&mut self, event: &Event, json: &str) {
        for outlet in &mut self.outlets {
            if outlet.choice.takes(event) {
                outlet.offer(event, json);
            }
        }
    }
}

impl Outlet {
    fn offer(&mut self, event: &Event, json: &str) {
        let body = self.template.as_ref().map(|template| template.render(event, json));
        let body = Bytes::from(body.unwrap_or_else(|| json.to_owned()));
        let notice = Notice { id: event.id.clone(), body, found: Monotonic::now() };
        self.counts.pending.fetch_add(1, Ordering::Relaxed);
        match self.queue.try_send(notice) {
            Ok(()) => self.is_full = false,
            Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                self.counts.pending.fetch_sub(1, Ordering::Relaxed);
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                if !std::mem::replace(&mut self.is_full, true) {
                    (self.tell)(&format!(
                        "webhook {}: {MOST_WAITING} events are waiting; further events are dropped",
                        self.name
                    ));
                }
            }
        }
    }
}

/// A handle on the thread.
pub(crate) struct Webhooks {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    counted: Vec<(String, Arc<Counts>)>,
    tell: Tell,
}

impl Webhooks {
    /// Begins to send; without webhooks there is no thread.
    ///
    /// # Errors
    /// When the system does not let it.
    pub(crate) fn start(
        webhooks: Vec<Webhook>,
        pace: Pace,
        tell: Tell,
    ) -> io::Result<(Self, Notices)> {
        let uses_tls = webhooks.iter().any(|webhook| webhook.settings.url.reveal().tls);
        let tls = if uses_tls { Some(system_tls()?) } else { None };
        Self::start_with(webhooks, tls.as_ref(), pace, tell)
    }

    fn start_with(
        webhooks: Vec<Webhook>,
        tls: Option<&Tls>,
        pace: Pace,
        tell: Tell,
    ) -> io::Result<(Self, Notices)> {
        let (end, ending) = watch::channel(false);
        let (mut outlets, mut couriers, mut counted) = (Vec::new(), Vec::new(), Vec::new());
        for Webhook { settings, secret } in webhooks {
            let (queue, waiting) = mpsc::channel(MOST_WAITING);
            let counts = Arc::new(Counts::default());
            let name = settings.name.clone();
            counted.push((name.clone(), Arc::clone(&counts)));
            couriers.push(Courier {
                name: name.clone(),
                sender: Sender::new(&settings, secret.as_ref(), tls)?,
                waiting,
                ending: ending.clone(),
                counts: Arc::clone(&counts),
                pace,
                fails: false,
                tell: Arc::clone(&tell),
            });
            let choice = Choice::new(settings.states);
            let (template, tell) = (settings.template, Arc::clone(&tell));
            outlets.push(Outlet { name, choice, template, queue, counts, is_full: false, tell });
        }
        let thread = match couriers.is_empty() {
            true => None,
            false => {
                let work = couriers.into_iter().map(|courier| Box::pin(courier.work()) as Work);
                Some(work_on_thread("webhooks", work.collect(), ending, pace.end)?)
            }
        };
        Ok((Self { end, thread, counted, tell }, Notices { outlets }))
    }

    /// Ends it, once nobody offers any more: what waits is tried once more, within a bounded time.
    pub(crate) fn finish(self) {
        // It may have ended by itself.
        let _ = self.end.send(true);
        if let Some(Err(panicked)) = self.thread.map(JoinHandle::join) {
            std::panic::resume_unwind(panicked);
        }
        for (name, counts) in &self.counted {
            let [pending, given_up, dropped] = [&counts.pending, &counts.given_up, &counts.dropped]
                .map(|n| n.load(Ordering::Relaxed));
            let lost = pending + given_up + dropped;
            if lost > 0 {
                let events = count(lost, "event");
                (self.tell)(&format!(
                    "webhook {name}: {events} not delivered ({dropped} dropped): monitor events lists them"
                ));
            }
        }
    }
}

/// Who delivers the events of one webhook, one after the other.
struct Courier {
    name: String,
    sender: Sender,
    waiting: mpsc::Receiver<Notice>,
    ending: watch::Receiver<bool>,
    counts: Arc<Counts>,
    pace: Pace,
    /// It was told that it does not work.
    fails: bool,
    tell: Tell,
}

impl Courier {
    async fn work(mut self) {
        while let Some(notice) = self.waiting.recv().await {
            self.deliver(&notice).await;
        }
    }

    async fn deliver(&mut self, notice: &Notice) {
        let mut pause = self.pace.first_pause;
        loop {
            // What comes to its end while this is tried is tried no more.
            let is_last = self.is_ending();
            let sent = tokio::time::timeout(self.pace.attempt, self.sender.send(notice)).await;
            let timed_out = |_| Err(format!("no answer within {}", print_time(self.pace.attempt)));
            let Err(why) = sent.unwrap_or_else(timed_out) else {
                self.counts.pending.fetch_sub(1, Ordering::Relaxed);
                if std::mem::take(&mut self.fails) {
                    (self.tell)(&format!("webhook {}: delivering again", self.name));
                }
                return;
            };
            self.tell_failure(&why);
            let age = Monotonic::now().since(notice.found);
            if is_last {
                return;
            }
            if age + pause > self.pace.give_up {
                self.counts.pending.fetch_sub(1, Ordering::Relaxed);
                self.counts.given_up.fetch_add(1, Ordering::Relaxed);
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.ending.changed() => {}
            }
            pause = (pause * 2).min(self.pace.longest_pause);
        }
    }

    fn is_ending(&self) -> bool {
        *self.ending.borrow() || self.ending.has_changed().is_err()
    }

    fn tell_failure(&mut self, why: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            let time = print_time(self.pace.give_up);
            (self.tell)(&format!("webhook {}: {why}; retrying for up to {time}", self.name));
        }
    }
}
