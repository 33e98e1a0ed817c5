//! Axes: what can be varied, how each value changes a visit, and how the wire proves that it took effect.
//!
//! One file per axis. A value is a [`Setting`]: it changes how a visit is made, has a label, and checks the facts of a
//! finished connection against the request.

mod client;
mod connection;
mod edge;
mod family;
mod http;
mod kex;
mod parallel;
mod proxy;
mod resolver;
mod scheme;
mod session;
mod site;
mod tls;

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;

use firstbyte_core::run::{Shortfall, Standing};
use firstbyte_core::shown_url::shown_url;
use firstbyte_core::timeline::{Connection, Sample};

use crate::probe::Target;
use crate::probe::options::SharedOptions;

/// How one cell's visits are made; settings change it.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// The visited URL.
    pub target: Target,
    /// How it is visited.
    pub options: SharedOptions,
}

/// A value of an axis.
pub trait Setting: fmt::Debug {
    /// Its name in a table or a sentence: "TLS 1.3", "0-RTT".
    fn label(&self) -> String;

    /// Applies the setting to `visit`.
    ///
    /// # Errors
    /// Why it conflicts with the settings applied before.
    fn apply(&self, visit: &mut Visit) -> Result<(), String>;

    /// Checks that `connection` shows the setting.
    ///
    /// # Errors
    /// What the connection lacks.
    fn prove(&self, connection: &Connection) -> Result<(), Shortfall>;

    /// Checks that a whole sample shows the setting: every one of its connections must.
    ///
    /// # Errors
    /// What a connection lacks.
    fn prove_sample(&self, sample: &Sample) -> Result<(), Shortfall> {
        sample.connections().try_for_each(|connection| self.prove(connection))
    }
}

/// A way to read one value of an axis.
type ReadValue = fn(&str) -> Result<Rc<dyn Setting>, String>;

/// Every axis: its name, the form of its values, and how to read one. Settings are applied in this order: a later one
/// may depend on the choice of an earlier one.
const AXES: [(&str, &str, ReadValue); 13] = [
    ("client", "firstbyte, curl, chromium, firefox", client::read),
    ("site", "NAME:URL", site::read),
    ("scheme", "http, https (with :PORT unless it is 80 or 443)", scheme::read),
    ("edge", "NAME:ADDRESS (several addresses joined by +) or NAME:HOST", edge::read),
    ("family", "4, 6", family::read),
    ("tls", "1.2, 1.3", tls::read),
    ("http", "1.1, 2, 3", http::read),
    ("kex", "x25519, p256, p384, x25519mlkem768", kex::read),
    ("session", "full, resumed, 0rtt (or by mechanism: session-id, ticket, psk)", session::read),
    ("connection", "new, reused", connection::read),
    (
        "parallel",
        "1, 6, h2, h3 (a number of HTTP/1.1 connections; needs --requests)",
        parallel::read,
    ),
    ("resolver", "dns, system (or a name server's address)", resolver::read),
    ("proxy", "[SCHEME://][USER:PASSWORD@]HOST[:PORT], none", proxy::read),
];

/// Every axis with the form of its values.
pub fn axes() -> impl Iterator<Item = (&'static str, &'static str)> {
    AXES.iter().map(|(name, shape, _)| (*name, *shape))
}

/// Axes that have no meaning without TLS.
const OF_TLS: [&str; 3] = ["tls", "kex", "session"];

/// Name of the axis of `--variant`, whose values are several settings under one name.
pub const WAY: &str = "variant";

/// One axis and the values to compare, as given by the user: `tls=1.2,1.3`.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The axis's name.
    pub name: &'static str,
    /// The values to compare.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, Debug)]
pub struct AxisValue {
    /// The value as written by the user.
    pub written: String,
    /// The value as displayed.
    pub label: String,
    /// Its settings.
    pub parts: Vec<WayPart>,
}

/// A setting, and the position of its axis in the order of application.
#[derive(Clone, Debug)]
pub struct WayPart {
    rank: usize,
    setting: Rc<dyn Setting>,
}

impl Axis {
    /// Reads `AXIS=VALUE,VALUE…`.
    ///
    /// # Errors
    /// The problem, and the expected form.
    pub fn read(text: &str) -> Result<Self, String> {
        let (name, values) = text.split_once('=').unwrap_or((text, ""));
        let Some(rank) = AXES.iter().position(|(known, ..)| *known == name.trim()) else {
            let names: Vec<&str> = AXES.iter().map(|(name, ..)| *name).collect();
            return Err(format!("unknown axis {name:?}; known axes: {}", names.join(", ")));
        };
        let (name, shape, _) = AXES[rank];
        let mut axis = Self { name, values: Vec::new() };
        for value in values.split(',').map(str::trim).filter(|value| !value.is_empty()) {
            let setting = setting(rank, value)?;
            axis.push(AxisValue {
                written: written(name, value),
                label: setting.label(),
                parts: vec![WayPart { rank, setting }],
            })?;
        }
        if axis.values.is_empty() {
            return Err(format!("{name} has no value; values: {shape}"));
        }
        Ok(axis)
    }

    /// An axis with one edge only, named by its address.
    pub fn of_edge(address: IpAddr) -> Self {
        const NAME: &str = "edge";
        let rank = AXES.iter().position(|(name, ..)| *name == NAME).unwrap_or(AXES.len());
        let setting = edge::at_address(address);
        let (written, label) = (address.to_string(), setting.label());
        let value = AxisValue { written, label, parts: vec![WayPart { rank, setting }] };
        Self { name: NAME, values: vec![value] }
    }

    /// Reads `NAME: AXIS=VALUE AXIS=VALUE…`, one text for each way.
    ///
    /// # Errors
    /// The same as [`Self::read`].
    pub fn read_ways(texts: &[String]) -> Result<Self, String> {
        let mut axis = Self { name: WAY, values: Vec::new() };
        for text in texts {
            let (label, settings) = text.split_once(':').ok_or_else(|| {
                format!("{text:?} has no colon; write NAME: AXIS=VALUE AXIS=VALUE…")
            })?;
            let mut parts = Vec::new();
            for written in settings.split_whitespace() {
                let (name, value) = written.split_once('=').unwrap_or((written, ""));
                let rank = AXES.iter().position(|(known, ..)| *known == name);
                let rank = rank.ok_or_else(|| format!("{text:?}: unknown axis {name:?}"))?;
                parts.push(WayPart { rank, setting: setting(rank, value)? });
            }
            let label = label.trim().to_owned();
            axis.push(AxisValue { written: label.clone(), label, parts })?;
        }
        Ok(axis)
    }

    fn push(&mut self, value: AxisValue) -> Result<(), String> {
        if self.values.iter().any(|other| other.written == value.written) {
            return Err(format!("{}={} is given twice", self.name, value.written));
        }
        self.values.push(value);
        Ok(())
    }
}

/// A value as displayed: only the name before an address or URL; a proxy's URL without its user.
fn written(axis: &str, value: &str) -> String {
    match value.split_once(':') {
        Some((name, _)) if matches!(axis, "site" | "edge") => name.to_owned(),
        _ if axis == "proxy" => shown_url(value),
        _ => value.to_owned(),
    }
}

fn setting(rank: usize, value: &str) -> Result<Rc<dyn Setting>, String> {
    let (name, shape, read) = AXES[rank];
    read(value).map_err(|why| {
        let shown = shown_url(value);
        format!("{name}={shown}: {why}; values of {name}: {shape}")
    })
}

/// Applies the settings of a cell.
///
/// # Errors
/// Why the settings conflict.
pub fn apply(parts: &mut [WayPart], visit: &mut Visit) -> Result<(), String> {
    parts.sort_by_key(|part| part.rank);
    for part in parts.iter() {
        part.setting.apply(visit)?;
        let name = AXES[part.rank].0;
        if !visit.target.tls && OF_TLS.contains(&name) {
            return Err("TLS settings require https".into());
        }
    }
    visit.options.settle_requests(visit.target.tls)
}

/// How `sample` counts in a cell of these parts.
pub fn standing(parts: &[WayPart], sample: &Sample) -> Standing {
    if sample.failure().is_some() {
        return Standing::Failed;
    }
    let shortfall = parts.iter().find_map(|part| part.setting.prove_sample(sample).err());
    shortfall.map_or(Standing::Proven, Standing::Unproven)
}

/// Capitalises a place name, such as "sydney".
fn capitalised(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}
