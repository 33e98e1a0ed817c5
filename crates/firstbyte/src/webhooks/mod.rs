//! Sends events to webhooks, with a queue and a sender for each one on a separate thread.
//!
//! In: events from the change detection thread, which never waits. Out: requests in order, retried with growing pauses
//! for a bounded time. Waiting events are kept in files and sent after a restart. Events that are dropped or given up
//! are counted and reported.

mod mailbox;
mod sender;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::path::Path;
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

use mailbox::{Mailbox, delete_outdated, mailbox_file, make_mailbox_directory};
use sender::Sender;

use crate::posting::{Tls, Work, system_tls, work_on_thread};

/// Maximum number of events waiting for one webhook.
const MOST_WAITING: usize = 1_000;

/// Reports a message to the user.
pub(crate) type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// A webhook, and the key that signs its requests.
pub(crate) struct Webhook {
    pub(crate) settings: WebhookSettings,
    pub(crate) secret: Option<Secret<String>>,
}

/// Timeouts and limits of delivery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Time limit for a response.
    attempt: Duration,
    /// Pause between the first and the second attempt; it doubles after each attempt.
    first_pause: Duration,
    /// Maximum pause between attempts.
    longest_pause: Duration,
    /// How long to retry, counted from when the event was found.
    give_up: Duration,
    /// Time for a request in progress when the monitor ends.
    end: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            give_up: Duration::from_secs(86_400),
            end: Duration::from_secs(5),
        }
    }
}

/// Events that one webhook did not receive.
#[derive(Default)]
struct Counts {
    /// Offered, but neither delivered nor given up.
    pending: AtomicU64,
    given_up: AtomicU64,
    dropped: AtomicU64,
}

/// An event for one webhook.
#[derive(Clone)]
struct Notice {
    id: String,
    body: Bytes,
    found: Monotonic,
}

/// Accepts events for all webhooks.
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
    /// Remembers events found before the start, so that they are not sent again.
    pub(crate) fn know(&mut self, events: &[Event]) {
        for outlet in &mut self.outlets {
            events.iter().for_each(|event| outlet.choice.know(event));
        }
    }

    /// Hands `event`, stored as `json`, to the webhooks that want it. Never waits.
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
        let notice = Notice { id: event.id().to_owned(), body, found: Monotonic::now() };
        // Only this thread adds to the count.
        let waiting = self.counts.pending.load(Ordering::Relaxed);
        if waiting < MOST_WAITING as u64 {
            self.counts.pending.fetch_add(1, Ordering::Relaxed);
            match self.queue.try_send(notice) {
                Ok(()) => {
                    self.is_full = false;
                    return;
                }
                Err(TrySendError::Full(_) | TrySendError::Closed(_)) => {
                    self.counts.pending.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.is_full, true) {
            (self.tell)(&format!(
                "webhook {}: {MOST_WAITING} events are waiting; further events are dropped",
                self.name
            ));
        }
    }
}

/// Webhooks that accept events but do not send yet: another process may own the store's directory.
pub(crate) struct PreparedWebhooks {
    couriers: Vec<PreparedCourier>,
    pace: Pace,
    tell: Tell,
}

struct PreparedCourier {
    settings: WebhookSettings,
    sender: Sender,
    incoming: mpsc::Receiver<Notice>,
    counts: Arc<Counts>,
}

impl PreparedWebhooks {
    /// Creates the senders for `webhooks`.
    ///
    /// # Errors
    /// If the system fails to load the TLS configuration.
    pub(crate) fn new(
        webhooks: Vec<Webhook>,
        pace: Pace,
        tell: Tell,
    ) -> io::Result<(Self, Notices)> {
        let uses_tls = webhooks.iter().any(|webhook| webhook.settings.url.reveal().tls);
        let tls = if uses_tls { Some(system_tls()?) } else { None };
        Self::with_tls(webhooks, tls.as_ref(), pace, tell)
    }

    fn with_tls(
        webhooks: Vec<Webhook>,
        tls: Option<&Tls>,
        pace: Pace,
        tell: Tell,
    ) -> io::Result<(Self, Notices)> {
        let (mut outlets, mut couriers) = (Vec::new(), Vec::new());
        for Webhook { settings, secret } in webhooks {
            let (queue, incoming) = mpsc::channel(MOST_WAITING);
            let counts = Arc::new(Counts::default());
            outlets.push(Outlet {
                name: settings.name.clone(),
                choice: Choice::new(settings.states.clone()),
                template: settings.template.clone(),
                queue,
                counts: Arc::clone(&counts),
                is_full: false,
                tell: Arc::clone(&tell),
            });
            let sender = Sender::new(&settings, secret.as_ref(), tls)?;
            couriers.push(PreparedCourier { settings, sender, incoming, counts });
        }
        Ok((Self { couriers, pace, tell }, Notices { outlets }))
    }

    /// Starts sending, including events that an earlier process left in the directory `store`.
    ///
    /// No other process may be writing to `store`. Without webhooks, no thread is started.
    ///
    /// # Errors
    /// If the system fails to start it.
    pub(crate) fn begin(self, store: &Path) -> io::Result<Webhooks> {
        let Self { couriers, pace, tell } = self;
        let (end, ending) = watch::channel(false);
        let (mut work, mut counted) = (Vec::new(), Vec::new());
        let mut used = HashSet::new();
        if !couriers.is_empty() {
            let directory = make_mailbox_directory(store)?;
            for PreparedCourier { settings, sender, incoming, counts } in couriers {
                let name = settings.name.clone();
                counted.push((name.clone(), Arc::clone(&counts)));
                let mut file = mailbox_file(&directory, &settings);
                // Webhooks with the same URL get separate files.
                while !used.insert(file.clone()) {
                    file.as_mut_os_string().push("-2");
                }
                let (counts_of_mailbox, tell_of_mailbox) = (Arc::clone(&counts), Arc::clone(&tell));
                let mailbox = Mailbox::open(
                    &name,
                    file,
                    incoming,
                    pace.give_up,
                    counts_of_mailbox,
                    tell_of_mailbox,
                );
                let courier = Courier {
                    name,
                    sender,
                    ending: ending.clone(),
                    counts,
                    pace,
                    fails: false,
                    tell: Arc::clone(&tell),
                };
                work.push(Box::pin(courier.work(mailbox)) as Work);
            }
            delete_outdated(&directory, &used, pace.give_up);
        }
        let thread = match work.is_empty() {
            true => None,
            false => Some(work_on_thread("webhooks", work, ending, pace.end)?),
        };
        Ok(Webhooks { end, thread, counted, tell })
    }
}

/// Handle of the thread.
pub(crate) struct Webhooks {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    counted: Vec<(String, Arc<Counts>)>,
    tell: Tell,
}

impl Webhooks {
    /// Ends the thread after the last event. Waiting events are tried once more, within a bounded time, and kept for
    /// the next start.
    pub(crate) fn finish(self) {
        // The thread may have ended by itself.
        let _ = self.end.send(true);
        if let Some(Err(panicked)) = self.thread.map(JoinHandle::join) {
            std::panic::resume_unwind(panicked);
        }
        for (name, counts) in &self.counted {
            let [pending, given_up, dropped] = [&counts.pending, &counts.given_up, &counts.dropped]
                .map(|n| n.load(Ordering::Relaxed));
            if pending > 0 {
                let events = count(pending, "event");
                (self.tell)(&format!(
                    "webhook {name}: {events} not delivered yet: kept for the next start"
                ));
            }
            if given_up + dropped > 0 {
                let events = count(given_up + dropped, "event");
                (self.tell)(&format!(
                    "webhook {name}: {events} not delivered ({dropped} dropped): monitor events lists them"
                ));
            }
        }
    }
}

/// Result of a delivery.
enum Delivery {
    Delivered,
    GivenUp,
    /// The monitor ends; the event waits for the next start.
    Interrupted,
}

/// Task that delivers the events of one webhook, one after another.
struct Courier {
    name: String,
    sender: Sender,
    ending: watch::Receiver<bool>,
    counts: Arc<Counts>,
    pace: Pace,
    /// Whether a failure was reported.
    fails: bool,
    tell: Tell,
}

impl Courier {
    async fn work(mut self, mut mailbox: Mailbox) {
        while let Some(notice) = mailbox.oldest().await {
            match mailbox.take_in_during(self.deliver(&notice)).await {
                Delivery::Delivered => {}
                Delivery::GivenUp => _ = self.counts.given_up.fetch_add(1, Ordering::Relaxed),
                // Later events must not overtake it.
                Delivery::Interrupted => return mailbox.take_in_all(),
            }
            mailbox.finish_oldest();
        }
    }

    async fn deliver(&mut self, notice: &Notice) -> Delivery {
        let mut pause = self.pace.first_pause;
        loop {
            // Read before the attempt: if the monitor starts to end during it, one more attempt follows.
            let is_last = self.is_ending();
            let sent = tokio::time::timeout(self.pace.attempt, self.sender.send(notice)).await;
            let timed_out = |_| Err(format!("no answer within {}", print_time(self.pace.attempt)));
            let Err(why) = sent.unwrap_or_else(timed_out) else {
                if std::mem::take(&mut self.fails) {
                    (self.tell)(&format!("webhook {}: delivering again", self.name));
                }
                return Delivery::Delivered;
            };
            self.tell_failure(&why);
            if is_last {
                return Delivery::Interrupted;
            }
            let age = Monotonic::now().since(notice.found);
            if age + pause > self.pace.give_up {
                return Delivery::GivenUp;
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
