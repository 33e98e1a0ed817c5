//! Rereads the monitor's configuration while measuring.
//!
//! That happens on SIGHUP, on request to the server, when the file or a file that it names has changed, and when a
//! name that is measured at every edge resolves to other addresses. A configuration with mistakes is reported and
//! changes nothing. Changes to the store, the server, webhooks and pushes take effect at the next start.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_clock::Monotonic;
use firstbyte_monitor::configuration::{Configuration, ServerSettings};
use firstbyte_monitor::edges::Edges;
use firstbyte_monitor::push::PushSettings;
use firstbyte_monitor::watch::WatchControl;
use firstbyte_monitor::webhook::WebhookSettings;
use tokio::sync::{mpsc, watch};

use super::keeper::Teller;
use super::source::{Files, read};
use super::{MakeVisitor, all_series, overview, setup_problem, watchlist};
use crate::cli::exit::Problem;
use crate::cli::measuring::Measuring;
use crate::monitor_server::ReloadRequest;
use crate::plans::{MonitorPlan, MonitorSource};

/// Interval between checks of the files. A change is applied once two successive checks find the same state.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between lookups of names that are measured at every edge.
const LOOK_UP_EVERY: Duration = Duration::from_secs(60);

pub(super) struct Follower<'a> {
    source: &'a MonitorSource,
    files: Files,
    /// Names that are measured at each of their addresses.
    hosts: BTreeSet<String>,
    edges: Edges,
    /// Settings that are not followed, as they were at the start.
    store: Option<PathBuf>,
    server: ServerSettings,
    webhooks: Vec<WebhookSettings>,
    pushes: Vec<PushSettings>,
    teller: Teller,
    visitor: MakeVisitor<'a>,
    hang_ups: Option<watch::Receiver<u64>>,
    reloads: Option<mpsc::Receiver<ReloadRequest>>,
}

/// Why the configuration is checked.
enum Occasion {
    HungUp,
    Asked(ReloadRequest),
    TimeIsUp,
}

impl<'a> Follower<'a> {
    /// Follows `configuration`, which was read from `files` and is measured at `edges`.
    pub(super) fn new(
        plan: &'a MonitorPlan,
        configuration: &Configuration,
        files: Files,
        edges: Edges,
        teller: Teller,
        visitor: MakeVisitor<'a>,
    ) -> Self {
        let Configuration { store, server, webhooks, pushes, .. } = configuration;
        Self {
            source: &plan.source,
            files,
            hosts: configuration.edge_hosts(),
            edges,
            store: store.clone(),
            server: server.clone(),
            webhooks: webhooks.clone(),
            pushes: pushes.clone(),
            teller,
            visitor,
            hang_ups: None,
            reloads: None,
        }
    }

    /// Rereads the file on each of these SIGHUPs and requests, including those that have already arrived.
    pub(super) fn heed(
        &mut self,
        hang_ups: Option<watch::Receiver<u64>>,
        reloads: mpsc::Receiver<ReloadRequest>,
    ) {
        self.hang_ups = hang_ups;
        self.reloads = Some(reloads);
    }

    /// Applies changes in the file to the measurement that `control` belongs to.
    pub(super) async fn follow(
        &mut self,
        measuring: &Measuring,
        control: &WatchControl,
    ) -> Infallible {
        let MonitorSource::File(file) = self.source else { return std::future::pending().await };
        let name = file.display();
        let (Some(mut hang_ups), Some(mut reloads)) = (self.hang_ups.take(), self.reloads.take())
        else {
            return std::future::pending().await;
        };
        let mut looked_up = Monotonic::now();
        loop {
            let occasion = tokio::select! {
                Ok(()) = hang_ups.changed() => Occasion::HungUp,
                Some(request) = reloads.recv() => Occasion::Asked(request),
                () = tokio::time::sleep(LOOK_EVERY) => Occasion::TimeIsUp,
            };
            let mut why = "was reloaded";
            if matches!(occasion, Occasion::TimeIsUp) && !self.files.have_changed() {
                if self.hosts.is_empty() || Monotonic::now().since(looked_up) < LOOK_UP_EVERY {
                    continue;
                }
                looked_up = Monotonic::now();
                if !look_up(&mut self.edges, &self.hosts).await {
                    continue;
                }
                why = "has names with new addresses";
            }
            let outcome = match self.read_again(measuring, control).await {
                Ok(what) => {
                    self.teller.tell(&format!("{name} {why}: {what}"));
                    Ok(what)
                }
                Err(problem) => {
                    let kept = format!("{name} has errors; the old configuration stays in use");
                    problem.message().lines().for_each(|line| self.teller.tell(line));
                    self.teller.tell(&kept);
                    Err(format!("{}\n{kept}", problem.message()))
                }
            };
            if let Occasion::Asked(request) = occasion {
                request.answer(outcome);
            }
        }
    }

    async fn read_again(
        &mut self,
        measuring: &Measuring,
        control: &WatchControl,
    ) -> Result<String, Problem> {
        let mut files = Files::default();
        let configuration = read(self.source, &mut files);
        self.files = files;
        let configuration = configuration?;
        let hosts = configuration.edge_hosts();
        if hosts != self.hosts {
            self.hosts = hosts;
            look_up(&mut self.edges, &self.hosts).await;
        }
        let all = all_series(&configuration, &self.edges, measuring)?;
        let mut what = overview(&configuration, &all);
        let Configuration { store, server, webhooks, pushes, .. } = &configuration;
        let before = (&self.store, &self.server, &self.webhooks, &self.pushes);
        if (store, server, webhooks, pushes) != before {
            what.push_str(
                "; changes of store, listen, token_file, modules, webhooks and pushes take effect \
                 at the next start",
            );
        }
        let list = watchlist(configuration, all, measuring, self.visitor).map_err(setup_problem)?;
        control.follow(list);
        Ok(what)
    }
}

/// Resolves `hosts` through the system's resolver. Returns whether any address was added or removed.
pub(super) async fn look_up(edges: &mut Edges, hosts: &BTreeSet<String>) -> bool {
    let lookup = |host: String| async move {
        // In a URL, an IPv6 address is in brackets.
        let name = host.trim_matches(['[', ']']);
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    };
    edges.look_up(hosts, Monotonic::now(), lookup).await
}
