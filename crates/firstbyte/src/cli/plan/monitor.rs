//! Turns the arguments of `monitor` into a plan.

use std::time::Duration;

use firstbyte_probe::experiment::Axis;
use firstbyte_probe::probe::Secret;

use super::proxy::warn_of_ignored;
use super::{quantities, target, usage};
use crate::cli::args::{MonitorArgs, MonitorDemoArgs};
use crate::cli::exit::Problem;
use crate::plans::{MonitorPlan, MonitorSource};

const SHORTEST_EVERY: Duration = Duration::from_secs(1);

pub(super) fn monitor(args: &MonitorArgs) -> Result<MonitorPlan, Problem> {
    let source = match &args.config {
        Some(file) => MonitorSource::File(file.clone()),
        None => urls(args)?,
    };
    if !args.check_config {
        warn_of_ignored();
    }
    Ok(MonitorPlan {
        source,
        check_only: args.check_config,
        store: args.store.clone(),
        listen: args.listen,
        length: quantities::limit("--for", args.length.as_deref())?,
        silent: args.silent,
        json: args.json,
    })
}

pub(super) fn demo(args: &MonitorDemoArgs) -> Result<MonitorPlan, Problem> {
    Ok(MonitorPlan {
        source: MonitorSource::Demo,
        check_only: false,
        store: args.store.clone(),
        listen: args.listen,
        length: quantities::limit("--for", args.length.as_deref())?,
        silent: args.silent,
        json: false,
    })
}

fn urls(args: &MonitorArgs) -> Result<MonitorSource, Problem> {
    for url in &args.urls {
        target(&url.0)?;
    }
    let every = quantities::limit("--every", args.every.as_deref())?;
    if let (Some(text), true) = (&args.every, every.is_none_or(|every| every < SHORTEST_EVERY)) {
        return Err(usage(format!("--every {text:?}: less than a second")).hint(
            "for samples in quick succession use: firstbyte -n 100 URL, or firstbyte \
                   compare",
        ));
    }
    let max_time = quantities::limit("-m", args.max_time.as_deref())?;
    if args.max_time.is_some() && max_time.is_none() {
        // As in curl, 0 would mean no limit, and a server that sends slowly would block its series forever.
        return Err(usage("-m 0: a monitor's samples need a time limit").hint("write -m 60s"));
    }
    for axis in &args.vary {
        Axis::read(&axis.0).map_err(|why| usage(format!("--vary: {why}")))?;
    }
    Ok(MonitorSource::Urls {
        urls: args.urls.iter().map(|url| Secret::new(url.0.clone())).collect(),
        every,
        max_time,
        vary: args.vary.iter().map(|axis| Secret::new(axis.0.clone())).collect(),
    })
}
