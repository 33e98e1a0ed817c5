//! Applies a scenario's changes while the lab runs.
//!
//! In: changes with their times. Out: changed links and servers of hosts, and a report on each change.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::ca::Ca;
use crate::clock::monotonic_ns;
use crate::error::LabError;
use crate::forwarder::LinkChange;
use crate::network::Network;
use crate::reports::ChangeReport;
use crate::scenario::{Change, Scenario};
use crate::servers::Servers;

/// The parts of a lab that can change.
pub(crate) struct Changeable {
    pub(crate) links: Sender<LinkChange>,
    pub(crate) servers: Arc<Mutex<Servers>>,
    pub(crate) network: Arc<Network>,
    pub(crate) ca: Arc<Ca>,
}

impl Changeable {
    /// Changes the lab from `before` to the state in `change`.
    fn apply(&self, before: &Scenario, change: &Change) -> Result<(), LabError> {
        for name in &change.hosts {
            let hosts = before.hosts.iter().zip(&change.scenario.hosts).enumerate();
            let host = hosts.into_iter().find(|(_, (_, host))| host.name == *name);
            let Some((port, (old, new))) = host else { continue };
            if (&old.up, &old.down) != (&new.up, &new.down) {
                let (up, down) = (new.up.clone(), new.down.clone());
                // A forwarder that has ended no longer forwards anything.
                let _ = self.links.send(LinkChange { port, up, down });
            }
            if old.server != new.server {
                let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
                servers.change(&change.scenario, name, &self.network, &self.ca)?;
            }
        }
        Ok(())
    }
}

/// The thread that waits for the time of each change; dropping this ends it.
pub(crate) struct ChangesThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    reports: Arc<Mutex<Vec<ChangeReport>>>,
}

impl ChangesThread {
    /// Starts the thread that applies the changes, if there are any.
    pub(crate) fn start(scenario: &Scenario, changeable: Changeable) -> Result<Self, LabError> {
        let reports = Arc::default();
        if scenario.changes.is_empty() {
            return Ok(Self { stop: None, thread: None, reports });
        }
        let (stop, stopped) = channel();
        let (scenario, kept) = (scenario.clone(), Arc::clone(&reports));
        let ready = monotonic_ns();
        let thread = std::thread::Builder::new().name("changes".to_owned()).spawn(move || {
            let mut before = &scenario;
            for change in &scenario.changes {
                let due = ready.saturating_add(change.after.as_nanos() as u64);
                let wait = std::time::Duration::from_nanos(due.saturating_sub(monotonic_ns()));
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                let failure = changeable.apply(before, change).err().map(|error| error.to_string());
                let report =
                    ChangeReport { after: change.after, hosts: change.hosts.clone(), failure };
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                before = &change.scenario;
            }
        });
        let thread = thread.map_err(|error| LabError::System {
            step: "start a thread for the scenario's changes".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), reports })
    }

    pub(crate) fn reports(&self) -> Vec<ChangeReport> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ChangesThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has also ended.
            let _ = thread.join();
        }
    }
}
