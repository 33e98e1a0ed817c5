//! `firstbyte monitor annotate`: writes a note about an event into a monitor's store.
//!
//! A monitor may be writing the store at the same time: SQLite lets each wait a few seconds for the other.

use firstbyte_monitor::store::{Annotation, Store, StoreError};

use super::reading::{check_exists, minute, problem, seconds_of, unix_seconds};
use super::{safe, store};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::plans::MonitorAnnotatePlan;

pub(in crate::cli) fn run(plan: &MonitorAnnotatePlan) -> Result<u8, Problem> {
    let path = store(plan.store.as_deref())?.join("store.sqlite");
    // Opening a missing store would create it.
    check_exists(&path)?;
    let now = unix_seconds();
    let at = plan.at.map_or(now, |moment| seconds_of(moment, now));
    let annotation = Annotation { at, text: plan.text.clone(), tags: plan.tags.clone() };
    let failed = |error: StoreError| {
        let problem = Problem::new(exit::WRITE, problem(&path, &error).message());
        match error.is_locked() {
            true => problem.hint("the monitor is writing; try again"),
            false => problem,
        }
    };
    let store = Store::open(&path).map_err(failed)?;
    store.put_annotation(&annotation).map_err(failed)?;
    print(&format!("noted at {}: {}\n", minute(at), safe(&plan.text))).map(|()| exit::OK)
}
