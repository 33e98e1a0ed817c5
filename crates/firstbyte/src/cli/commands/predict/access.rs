//! `--access`: every way over every access network, in one table.

use std::time::Duration;

use firstbyte_core::access::{AccessProfile, loss_of_both, lowest_rate};
use firstbyte_core::run::{Cell, Factor};
use firstbyte_predict::{Setup, Way};

use super::{Exported, exports, left_out, of_way, sample, seed, setup, taken, ways};
use crate::cli::exit::{self, Problem};
use crate::cli::exports::print;
use crate::cli::signals::{Attention, EndSignal};
use crate::cli::terminal;
use crate::plans::PredictionPlan;
use crate::prediction::ways::Ways;
use firstbyte_report::prediction::{AccessRow, access_table};

pub(super) fn run(plan: &PredictionPlan) -> Result<u8, Problem> {
    let (setup, requests) = setup::setup_for(plan)?;
    let profiles = plan.access.iter().map(|name| {
        let unknown = || Problem::new(exit::USAGE, format!("unknown access network {name:?}"));
        AccessProfile::named(name).ok_or_else(unknown)
    });
    let profiles = profiles.collect::<Result<Vec<_>, _>>()?;
    let ways = possible(ways(&plan.vary, requests.as_ref())?, plan, &setup)?;
    let code = export(plan, &setup, &profiles, &ways)?;
    if code != exit::OK || plan.outputs.use_stdout() {
        return Ok(code);
    }
    let mut rows = Vec::new();
    for profile in profiles {
        let behind = behind(&setup, profile);
        let predicted: Result<Vec<_>, Problem> =
            ways.ways.iter().map(|(_, way)| of_way(plan, &behind, way)).collect();
        let round_trip = behind.path.rtt();
        rows.push(AccessRow { title: profile.title, round_trip, predicted: predicted? });
    }
    print(&access_table(&rows, &terminal::style(plan.colors)))?;
    Ok(exit::OK)
}

/// The ways that are possible. Reports the impossible ones.
fn possible(ways: Ways, plan: &PredictionPlan, setup: &Setup) -> Result<Ways, Problem> {
    let mut calm = setup.clone();
    calm.path.lose(0.0);
    let mut refused = None;
    let mut kept = Vec::new();
    for (cell, way) in ways.ways {
        match sample(&calm, &way, 0) {
            Ok(_) => kept.push((cell, way)),
            Err(why) => {
                left_out(&way, &why);
                refused = Some(why);
            }
        }
    }
    match refused {
        Some(why) if kept.is_empty() => Err(why),
        _ => {
            debug_assert!(!plan.access.is_empty());
            Ok(Ways { ways: kept, ..ways })
        }
    }
}

/// The setup with an access network in front of its path.
///
/// The network's jitter counts with its average, because links here have none.
fn behind(setup: &Setup, profile: &AccessProfile) -> Setup {
    let mut behind = setup.clone();
    let half = profile.round_trip / 2;
    let down = (&mut behind.path.down, profile.down_bits_per_second);
    let up = (&mut behind.path.up, profile.up_bits_per_second);
    for (link, rate) in [down, up] {
        link.delay += half;
        link.rate = lowest_rate(link.rate, Some(rate));
        link.loss = loss_of_both(link.loss, profile.loss);
    }
    // The DNS query crosses the access network too, unless the name is already known.
    let asked = behind.client.resolver_time;
    behind.client.resolver_time = asked.map(|time: Duration| time + profile.round_trip);
    behind
}

/// Exports every connection as a sample, as without access networks; `access` is an additional axis, the first.
fn export(
    plan: &PredictionPlan,
    setup: &Setup,
    profiles: &[&AccessProfile],
    ways: &Ways,
) -> Result<u8, Problem> {
    let axes = [vec!["access".to_owned()], ways.axes.clone()].concat();
    let mut rows = exports(plan, &Ways { axes, ..ways.clone() })?;
    if rows.is_empty() {
        return Ok(exit::OK);
    }
    let attention = Attention::begin();
    let mut index = 0;
    'all: for profile in profiles {
        let mut setup = behind(setup, profile);
        for (cell, way) in &ways.ways {
            let cell = of_profile(cell, profile, &setup);
            for sequence in 0..plan.samples {
                if attention.asked().is_some() {
                    break 'all;
                }
                setup.path.seed = seed(plan, way, sequence);
                rows.export(&exported(&cell, index, &setup, way, sequence)?)?;
            }
            index += 1;
        }
    }
    rows.finish(&())?;
    Ok(attention.asked().map_or(exit::OK, EndSignal::exit_code))
}

fn of_profile(cell: &Cell, profile: &AccessProfile, setup: &Setup) -> Cell {
    let factor =
        Factor { axis: "access".into(), value: profile.name.into(), label: profile.title.into() };
    let factors = [vec![factor], cell.factors.clone()].concat();
    Cell { factors, url: setup.exchange.url.clone(), ..cell.clone() }
}

fn exported(
    cell: &Cell,
    index: u16,
    setup: &Setup,
    way: &Way,
    sequence: u32,
) -> Result<Exported, Problem> {
    let taken = taken(index, sample(setup, way, sequence)?);
    Ok(Exported { cell: cell.clone(), taken })
}
