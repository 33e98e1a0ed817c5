//! Shared by commands that measure: the runtime for measurements, the probers' common parts, and how an interrupted
//! campaign ends.

use std::future::Future;
use std::rc::Rc;

use super::commands::probe::setup_problem;
use super::exit::Problem;
use super::signals::asked_to_end;
use super::terminal;
use firstbyte_probe::experiment::{Before, Campaign, Control, Ended, SampleSink, Visitor};
use firstbyte_probe::probe::options::Options;
use firstbyte_probe::probe::{Clients, Equipment, Prober};

/// The environment that a command measures in.
pub(super) struct Measuring {
    runtime: tokio::runtime::Runtime,
    local: tokio::task::LocalSet,
    equipment: Equipment,
    clients: Clients,
}

impl Measuring {
    pub(super) fn new() -> Result<Self, Problem> {
        let clients = firstbyte_clients::clients();
        let (local, equipment) =
            (tokio::task::LocalSet::new(), Equipment::with_clients(clients.clone()));
        Ok(Self { runtime: terminal::runtime()?, local, equipment, clients })
    }

    /// The available clients.
    pub(super) const fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Resources shared by all visits.
    pub(super) const fn equipment(&self) -> &Equipment {
        &self.equipment
    }

    pub(super) fn prober(&self, options: &Options) -> Result<Box<dyn Prober>, Problem> {
        let made = async { self.equipment.prober(&options.clone().into()) };
        self.runtime.block_on(made).map_err(setup_problem)
    }

    pub(super) fn visitors(&self, campaign: &Campaign<'_>) -> Result<Vec<Rc<Visitor>>, Problem> {
        let made = async { campaign.visitors(&self.equipment) };
        self.runtime.block_on(made).map_err(setup_problem)
    }

    /// Runs `campaign` until it is complete or a signal asks it to end.
    pub(super) fn conduct<S: SampleSink<Error = Problem>>(
        &self,
        campaign: &Campaign<'_>,
        visitors: &[Rc<Visitor>],
        before: Before<'_>,
        control: &Control,
        sink: &mut S,
    ) -> Result<Ended, Problem> {
        self.wait_for(async {
            let mut campaign = std::pin::pin!(campaign.run(visitors, before, control, sink));
            tokio::select! {
                biased;
                ended = &mut campaign => return ended,
                _ = asked_to_end() => control.stop(),
            }
            campaign.await
        })
    }

    pub(super) fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, work)
    }
}
