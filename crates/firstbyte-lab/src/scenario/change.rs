//! Changes of a running lab: links and servers of a host, at a given time.
//!
//! In: the file, and its `[[change]]` tables. Out: the whole scenario after each change, checked like the
//! one before. Properties that cannot change in a running lab (hosts, addresses, names, devices, routes) are refused.

use std::time::Duration;

use firstbyte_core::toml_errors::describe_toml_message;
use firstbyte_core::units::{BareTime, parse_time};
use toml::{Table, Value};

use super::document::{ChangeDocument, HostDocument};
use super::error::ScenarioError;
use super::place::{Place, quoted};
use super::{Host, LinkSettings, Scenario, check};

const LATEST: Duration = Duration::from_secs(24 * 3_600);
const MOST: usize = 100;

/// A change, and the scenario that applies from then on.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Time since the lab was ready.
    pub after: Duration,
    /// Hosts whose links or servers change.
    pub hosts: Vec<String>,
    /// The whole scenario from then on, without changes of its own.
    pub scenario: Scenario,
}

/// All changes of `base`, in order of time. Each builds on the previous one.
pub(super) fn changes(
    place: &Place<'_>,
    base: &Scenario,
    written: Vec<ChangeDocument>,
) -> Result<Vec<Change>, ScenarioError> {
    if written.is_empty() {
        return Ok(Vec::new());
    }
    if written.len() > MOST {
        let value = format!("{} changes", written.len());
        return Err(place.at("change").bad(value, format!("at most {MOST}")));
    }
    let file: Table = toml::from_str(&base.source).map_err(|error| syntax(place, &error))?;
    let mut hosts: Vec<Value> = match file.get("host") {
        Some(Value::Array(hosts)) => hosts.clone(),
        _ => Vec::new(),
    };
    let mut all: Vec<Change> = Vec::new();
    for (index, change) in written.into_iter().enumerate() {
        let place = place.at(&format!("change[{index}]"));
        let before = all.last().map_or(base, |last| &last.scenario);
        let earliest = all.last().map_or(Duration::ZERO, |last| last.after);
        let after = moment(&place.at("after"), &change.after, earliest)?;
        let Some(position) = before.hosts.iter().position(|host| host.name == change.host) else {
            let names: Vec<&str> = before.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(place.at("host").bad(quoted(&change.host), names.join(", ")));
        };
        let host = hosts.get_mut(position).and_then(Value::as_table_mut);
        let Some(host) = host else {
            return Err(place.at("host").bad(quoted(&change.host), "a [[host]] of this file"));
        };
        for (key, table) in [("server", change.server), ("up", change.up), ("down", change.down)] {
            if let Some(table) = table {
                overlay(host.entry(key).or_insert_with(|| Value::Table(Table::new())), table);
            }
        }
        let written: HostDocument =
            Value::Table(host.clone()).try_into().map_err(|error| syntax(&place, &error))?;
        let changed = check::host(&place, written)?;
        may_change(&place, &before.hosts[position], &changed)?;
        let mut scenario = Scenario { changes: Vec::new(), ..before.clone() };
        scenario.hosts[position] = changed;
        all.push(Change { after, hosts: vec![change.host], scenario });
    }
    Ok(all)
}

fn moment(place: &Place<'_>, text: &str, earliest: Duration) -> Result<Duration, ScenarioError> {
    let time = parse_time(text, BareTime::Refused).ok().filter(|time| *time <= LATEST);
    let Some(time) = time else {
        return Err(place.bad(quoted(text), r#"a time up to "24h", such as "30s""#));
    };
    match time < earliest {
        true => Err(place.bad(quoted(text), "not earlier than the change before it")),
        false => Ok(time),
    }
}

/// Overlays `over` on `value`: tables are merged, anything else is replaced.
fn overlay(value: &mut Value, over: Table) {
    let Value::Table(table) = value else {
        *value = Value::Table(over);
        return;
    };
    for (key, new) in over {
        match (table.get_mut(&key), new) {
            (Some(old @ Value::Table(_)), Value::Table(new)) => overlay(old, new),
            (_, new) => {
                table.insert(key, new);
            }
        }
    }
}

/// Refuses changes that a running lab cannot apply.
fn may_change(place: &Place<'_>, before: &Host, after: &Host) -> Result<(), ScenarioError> {
    for (key, before, after) in [("up", &before.up, &after.up), ("down", &before.down, &after.down)]
    {
        if fixed(before) != fixed(after) {
            let allowed =
                "changes of delay, jitter, loss, reorder, rate, queue, drop_syn and drop_data";
            return Err(place.at(key).bad("mtu or initial_window", allowed));
        }
    }
    Ok(())
}

/// Settings of a link that belong to devices and routes.
fn fixed(link: &LinkSettings) -> (usize, [(usize, Option<u32>); 2]) {
    (link.mtu, [&link.ipv4, &link.ipv6].map(|path| (path.mtu, path.initial_window)))
}

fn syntax(place: &Place<'_>, error: &toml::de::Error) -> ScenarioError {
    // Without a span, the last line of the message names the key.
    let whole = error.to_string();
    let key = whole.trim_end().rsplit_once("\nin `").map(|(_, key)| key.trim_end_matches('`'));
    ScenarioError::Syntax {
        file: place.file.to_owned(),
        reason: format!("{}: {}", place.key, describe_toml_message(error.message(), key)),
    }
}
