//! Turns the arguments of `predict` into a plan.

use firstbyte_core::access::ACCESS_PROFILES;
use firstbyte_predict::{CongestionControl, KexGroup};

use super::quantities::{bytes, rate, share, time};
use super::{requests, usage};
use crate::cli::args::PredictArgs;
use crate::cli::exit::Problem;
use crate::plans::{
    AudiencePlan, ExchangePlan, Outputs, PathPlan, PredictedRequestsPlan, PredictedServerPlan,
    PredictionPlan,
};

const MOST_CHAIN: u64 = 60_000;
/// Limited because several copies are kept in memory.
const MOST_BODY: u64 = 100_000_000;
const MOST_MSS: u64 = 65_000;
/// The smallest value that Linux accepts.
const LEAST_MSS: u32 = 88;

pub(super) fn prediction(args: &PredictArgs) -> Result<PredictionPlan, Problem> {
    Ok(PredictionPlan {
        from: args.from.clone(),
        path: path(args)?,
        server: server(args)?,
        exchange: exchange(args)?,
        requests: requests(&args.several)?.map(|asked| PredictedRequestsPlan {
            count: asked.count,
            parallel: args.several.parallel.as_ref().map(|_| asked.parallel),
        }),
        vary: args.vary.clone(),
        access: access(&args.access)?,
        audience: args.population.clone().map(|population| AudiencePlan {
            population,
            change: args.change.clone(),
            visitors: args.connections,
        }),
        samples: args.samples,
        seed: args.seed,
        verbose: args.verbose,
        outputs: Outputs {
            json: args.rows.json(),
            csv: args.rows.csv.clone(),
            html: args.html.clone(),
            svg: args.svg.clone(),
            png: args.png.clone(),
            ..Outputs::default()
        },
        colors: args.color,
    })
}

/// Parses `text`, the value of `flag`, if given.
fn given<T>(
    flag: &str,
    text: &Option<String>,
    read: impl Fn(&str, &str) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    text.as_deref().map(|text| read(flag, text)).transpose()
}

/// The named access networks without duplicates; `all` means all of them.
fn access(names: &[String]) -> Result<Vec<String>, Problem> {
    let all = ACCESS_PROFILES.iter().map(|profile| profile.name);
    let mut found: Vec<String> = Vec::new();
    for name in names.iter().flat_map(|names| names.split(',')) {
        let named: Vec<&str> = match name {
            "all" => all.clone().collect(),
            name => all.clone().filter(|known| *known == name).collect(),
        };
        if named.is_empty() {
            let known: Vec<&str> = all.collect();
            return Err(usage(format!("--access {name:?}: unknown access network"))
                .hint(format!("write one of {}, or all", known.join(", "))));
        }
        for name in named {
            if !found.iter().any(|other| other == name) {
                found.push(name.to_owned());
            }
        }
    }
    Ok(found)
}

fn path(args: &PredictArgs) -> Result<PathPlan, Problem> {
    let mss = given("--mss", &args.mss, |flag, text| {
        let mss = u32::try_from(bytes(flag, text, MOST_MSS)?).ok();
        let mss = mss.filter(|mss| *mss >= LEAST_MSS);
        mss.ok_or_else(|| usage(format!("--mss: expected at least {LEAST_MSS} bytes")))
    })?;
    Ok(PathPlan {
        rtt: given("--rtt", &args.rtt, time)?,
        loss: given("--loss", &args.loss, share)?.unwrap_or(0.0),
        down_bits_per_second: given("--rate", &args.rate, rate)?,
        up_bits_per_second: given("--up-rate", &args.up_rate, rate)?,
        mss_bytes: mss,
    })
}

fn server(args: &PredictArgs) -> Result<PredictedServerPlan, Problem> {
    let control = &args.congestion_control;
    let unknown = || {
        usage(format!("--congestion-control {control:?}: unknown algorithm"))
            .hint("write one of cubic, reno, bbr")
    };
    Ok(PredictedServerPlan {
        chain_bytes: given("--chain", &args.chain, |flag, text| bytes(flag, text, MOST_CHAIN))?,
        think_time: given("--think", &args.think, time)?,
        initial_window: args.initial_window,
        congestion_control: CongestionControl::named(control).ok_or_else(unknown)?,
        retry: args.retry,
    })
}

fn exchange(args: &PredictArgs) -> Result<ExchangePlan, Problem> {
    let body = |flag: &str, text: &str| bytes(flag, text, MOST_BODY);
    let groups = args.curves.as_ref().map(|names| names.split(':').map(group).collect());
    Ok(ExchangePlan {
        response_bytes: given("--response", &args.response, body)?,
        upload_bytes: given("--upload", &args.upload, body)?,
        resolver_time: given("--dns", &args.dns, time)?,
        groups: groups.transpose()?,
    })
}

fn group(name: &str) -> Result<KexGroup, Problem> {
    KexGroup::named(name).ok_or_else(|| {
        usage(format!("unknown group {name:?} in --curves"))
            .hint("choose from X25519, P-256, P-384, X25519MLKEM768")
    })
}
