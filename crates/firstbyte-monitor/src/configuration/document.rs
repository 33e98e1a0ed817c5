//! The configuration file as written: checks every key, and collects every mistake with its place.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;
use std::time::Duration;

use firstbyte_core::units::{
    BareShare, BareSize, BareTime, parse_share, parse_size, parse_time, print_time,
};
use firstbyte_probe::experiment::{Axis, Matrix, Variant};
use firstbyte_probe::probe::Target;
use firstbyte_probe::probe::options::Options;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::expand::expand;
use super::layer::Layer;
use super::mistake::{Mistake, Mistakes, closest};
use super::request::REQUEST_KEYS;
use super::{Configuration, Keep, Limits, MOST_TARGETS, ServerSettings, TargetSettings, name_of};
use crate::budget::{CERTIFICATE_DAYS, Promise};

const TOP: &[&str] = &[
    "place",
    "tags",
    "store",
    "listen",
    "token_file",
    "modules",
    "keep",
    "limits",
    "defaults",
    "template",
    "target",
    "webhook",
    "push",
];
/// Keys allowed in all layers, besides [`REQUEST_KEYS`].
const SHARED: &[&str] =
    &["every", "jitter", "timeout", "vary", "variant", "edges", "cacert", "budget", "tags"];
const TARGET: &[&str] = &["name", "use", "url", "urls", "urls_file"];

const SHORTEST_EVERY: Duration = Duration::from_secs(1);
const LONGEST_EVERY: Duration = Duration::from_secs(7 * 86_400);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(600);

type Value<'t> = Spanned<DeValue<'t>>;

pub(super) struct Document<'t> {
    root: DeTable<'t>,
    pub(super) mistakes: Mistakes<'t>,
}

/// A target's URL, and its place in the file.
struct Written {
    url: String,
    at: Range<usize>,
}

impl<'t> Document<'t> {
    pub(super) fn parse(text: &'t str) -> Self {
        let (root, errors) = DeTable::parse_recoverable(text);
        let mut mistakes = Mistakes::within(text);
        for error in errors {
            mistakes.add(error.span().unwrap_or_default(), error.message(), None);
        }
        Self { root: root.into_inner(), mistakes }
    }

    /// # Errors
    /// All mistakes, if there are any.
    pub(super) fn finish(self) -> Result<(), Vec<Mistake>> {
        let mistakes = self.mistakes.into_sorted();
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }

    /// The configuration, as far as the file can be read.
    pub(super) fn configuration(
        &mut self,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Configuration {
        let root = std::mem::take(&mut self.root);
        self.known(&root, TOP, "the file");
        let place = self.text(&root, "place").map(|(text, _)| text.to_owned());
        let store = self.text(&root, "store").map(|(text, _)| PathBuf::from(text));
        let own_tags = self.tags(&root);
        let (keep, limits, server) = (self.keep(&root), self.limits(&root), self.server(&root));
        let mut defaults = self.table(&root, "defaults").map_or_else(Layer::default, |table| {
            self.known(table, &[SHARED, REQUEST_KEYS].concat(), "[defaults]");
            self.layer(table)
        });
        for (name, value) in own_tags {
            defaults.tags.entry(name).or_insert(value);
        }
        let templates = self.templates(&root);
        let webhooks = self.webhooks(&root, read_file);
        let pushes = self.pushes(&root);
        let mut targets = Targets::default();
        for value in self.list(&root, "target") {
            let Some(table) = self.table_of(value, "[[target]]") else { continue };
            self.target(table, value.span(), &defaults, &templates, read_file, &mut targets);
        }
        if targets.all.is_empty() && !root.contains_key("target") {
            let hint = "write [[target]] and url = \"https://…\"".to_owned();
            self.mistakes.add(0..0, "the file has no target", Some(hint));
        }
        Configuration { place, store, keep, limits, server, webhooks, pushes, targets: targets.all }
    }

    fn templates(&mut self, root: &DeTable<'t>) -> HashMap<String, Layer> {
        let mut templates = HashMap::new();
        let Some(all) = self.table(root, "template") else { return templates };
        for (name, value) in all {
            let place = format!("[template.{}]", name.get_ref());
            if let Some(table) = self.table_of(value, &place) {
                self.known(table, &[SHARED, REQUEST_KEYS].concat(), &place);
                templates.insert(name.get_ref().to_string(), self.layer(table));
            }
        }
        templates
    }

    fn target(
        &mut self,
        table: &DeTable<'t>,
        at: Range<usize>,
        defaults: &Layer,
        templates: &HashMap<String, Layer>,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
        targets: &mut Targets,
    ) {
        self.known(table, &[TARGET, SHARED, REQUEST_KEYS].concat(), "[[target]]");
        let mut below = defaults.clone();
        if let Some((name, at)) = self.text(table, "use") {
            match templates.get(name) {
                Some(template) => below = template.clone().over(defaults),
                None => {
                    let known = templates.keys().map(String::as_str);
                    let hint = closest(name, known).map(did_you_mean);
                    let hint = hint.or_else(|| Some(format!("add a table [template.{name}]")));
                    self.mistakes.add(at, format!("unknown template {name:?}"), hint);
                }
            }
        }
        let layer = self.layer(table).over(&below);
        let name = self.text(table, "name");
        let written = self.urls(table, at, read_file);
        if let (Some((_, at)), true) = (&name, written.len() > 1) {
            let what = format!("{} URLs cannot share one name", written.len());
            let hint = "remove it; each target is then named by its URL".to_owned();
            self.mistakes.add(at.clone(), what, Some(hint));
        }
        let mut first = true;
        for Written { url, at } in written {
            if targets.all.len() >= MOST_TARGETS {
                self.mistakes.add(at, format!("more than {MOST_TARGETS} targets"), None);
                return;
            }
            let target = match Target::parse(&url) {
                Ok(target) => target,
                Err(error) => {
                    self.mistakes.add(at, error.to_string(), None);
                    continue;
                }
            };
            let name =
                name.as_ref().map_or_else(|| name_of(&target), |(name, _)| (*name).to_owned());
            let settings = layer.clone().settle(name, target);
            if std::mem::take(&mut first) {
                self.check_ways(&settings, at.clone());
            }
            if let Err(name) = targets.add(settings) {
                let hint = "give one of them another name".to_owned();
                self.mistakes.add(
                    at,
                    format!("another target is already called {name:?}"),
                    Some(hint),
                );
            }
        }
    }

    /// Checks that the axes of a target can be combined.
    fn check_ways(&mut self, settings: &TargetSettings, at: Range<usize>) {
        let matrix = Matrix::new(&settings.axes, &settings.visit());
        if let (true, Some((variant, why))) = (matrix.variants.is_empty(), matrix.left_out.first())
        {
            let variant = variant.name();
            self.mistakes.add(
                at,
                format!("none of its variants is possible: {variant}: {why}"),
                None,
            );
            return;
        }
        let names_edge = |variant: &&Variant| {
            let Options { resolve, connect_to, .. } = &*variant.visit.options;
            !resolve.is_empty() || !connect_to.is_empty()
        };
        if let (true, Some(variant)) = (settings.all_edges, matrix.variants.iter().find(names_edge))
        {
            let what = format!(
                "edges \"all\" and a given edge exclude each other: {}",
                variant.cell.name()
            );
            let hint = "write edges = \"any\", or remove the edge".to_owned();
            self.mistakes.add(at, what, Some(hint));
        }
    }

    /// The URLs of a target, in whichever form they are given.
    fn urls(
        &mut self,
        table: &DeTable<'t>,
        at: Range<usize>,
        read_file: &mut dyn FnMut(&str) -> io::Result<String>,
    ) -> Vec<Written> {
        let mut patterns: Vec<Written> = Vec::new();
        if let Some((url, at)) = self.text(table, "url") {
            patterns.push(Written { url: url.to_owned(), at });
        }
        for value in self.list(table, "urls") {
            if let Some(url) = self.text_of(value, "urls") {
                patterns.push(Written { url: url.to_owned(), at: value.span() });
            }
        }
        if let Some((file, at)) = self.text(table, "urls_file") {
            match read_file(file) {
                Ok(text) => {
                    let lines = text.lines().map(str::trim);
                    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                    patterns
                        .extend(lines.map(|line| Written { url: line.to_owned(), at: at.clone() }));
                }
                Err(error) => self.mistakes.add(at, format!("cannot read {file:?}: {error}"), None),
            }
        }
        let given = ["url", "urls", "urls_file"];
        if given.iter().all(|key| !table.contains_key(*key)) {
            let hint = "write url = \"https://…\"".to_owned();
            self.mistakes.add(at, "a target needs a URL", Some(hint));
        }
        let mut all = Vec::new();
        for Written { url, at } in patterns {
            match expand(&url, MOST_TARGETS) {
                Ok(urls) => all.extend(urls.into_iter().map(|url| Written { url, at: at.clone() })),
                Err(why) => self.mistakes.add(at, why, None),
            }
        }
        all
    }

    fn layer(&mut self, table: &DeTable<'t>) -> Layer {
        let every = self.time(table, "every", SHORTEST_EVERY..=LONGEST_EVERY);
        let timeout = self.time(table, "timeout", Duration::from_millis(1)..=LONGEST_TIMEOUT);
        let jitter = self.text(table, "jitter").and_then(|(text, at)| {
            let share = parse_share(text, BareShare::Refused).map_err(|error| error.to_string());
            let within = |share: &f64| (0.0..=0.5).contains(share);
            let share = share.and_then(|share| {
                Some(share).filter(within).ok_or_else(|| "not a share from 0% to 50%".into())
            });
            share.map_err(|why| self.mistakes.add(at, format!("jitter {text:?}: {why}"), None)).ok()
        });
        let all_edges = self.text(table, "edges").and_then(|(text, at)| match text {
            "all" => Some(true),
            "any" => Some(false),
            _ => {
                let what = format!("edges {text:?}: expected \"all\" or \"any\"");
                let hint = "\"all\" measures each address of a name separately".to_owned();
                self.mistakes.add(at, what, Some(hint));
                None
            }
        });
        let cacert = self.text(table, "cacert").map(|(file, _)| PathBuf::from(file));
        let request = self.request_layer(table);
        let (axes, tags) = (self.axes(table), self.tags(table));
        let mut budget = BTreeMap::new();
        if let Some(promises) = self.table(table, "budget") {
            self.promises(promises, "", &mut budget);
        }
        Layer { every, jitter, timeout, axes, all_edges, cacert, request, budget, tags }
    }

    /// Reads `"ttfb.p95" = "300ms"`. Without the quotes the key is a table in a table.
    fn promises(
        &mut self,
        table: &DeTable<'t>,
        before: &str,
        budget: &mut BTreeMap<String, Promise>,
    ) {
        for (key, value) in table {
            let name = format!("{before}{}", key.get_ref());
            if let Some(inner) = value.get_ref().as_table() {
                self.promises(inner, &format!("{name}."), budget);
                continue;
            }
            // A number of days is an integer; times and shares are texts with units.
            let number = match name.as_str() {
                CERTIFICATE_DAYS => value.get_ref().as_integer(),
                _ => None,
            };
            let limit = match number {
                Some(number) => Some(number.as_str()),
                None => self.text_of(value, &name),
            };
            let Some(limit) = limit else { continue };
            match Promise::read(&name, limit) {
                Ok(promise) => _ = budget.insert(name, promise),
                Err((what, hint)) => self.mistakes.add(key.span(), what, Some(hint)),
            }
        }
    }

    fn axes(&mut self, table: &DeTable<'t>) -> Option<Vec<Axis>> {
        if !table.contains_key("vary") && !table.contains_key("variant") {
            return None;
        }
        let mut axes: Vec<Axis> = Vec::new();
        let mut ways = Vec::new();
        for value in self.list(table, "variant") {
            if let Some(variant) = self.text_of(value, "variant") {
                ways.push(variant.to_owned());
            }
        }
        if let (false, Some(value)) = (ways.is_empty(), table.get("variant")) {
            match Axis::read_ways(&ways) {
                Ok(axis) => axes.push(axis),
                Err(why) => self.mistakes.add(value.span(), format!("variant: {why}"), None),
            }
        }
        for value in self.list(table, "vary") {
            let Some(text) = self.text_of(value, "vary") else { continue };
            match Axis::read(text) {
                Ok(axis) if axes.iter().any(|other| other.name == axis.name) => {
                    self.mistakes.add(
                        value.span(),
                        format!("vary: {} is given twice", axis.name),
                        None,
                    );
                }
                Ok(axis) => axes.push(axis),
                Err(why) => self.mistakes.add(value.span(), format!("vary: {why}"), None),
            }
        }
        Some(axes)
    }

    fn tags(&mut self, table: &DeTable<'t>) -> BTreeMap<String, String> {
        self.names_and_texts(table, "tags", "tag")
    }

    /// Reads the table in `key`. Messages call an entry `kind`; each entry becomes a label of metrics.
    pub(super) fn names_and_texts(
        &mut self,
        table: &DeTable<'t>,
        key: &str,
        kind: &str,
    ) -> BTreeMap<String, String> {
        let mut tags = BTreeMap::new();
        let Some(all) = self.table(table, key) else { return tags };
        for (name, value) in all {
            let (written, at) = (name.get_ref(), name.span());
            let mut letters = written.chars();
            let is_label = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !written.starts_with("__");
            if !is_label {
                let hint =
                    format!("use letters, digits and _, because {key} become labels of metrics");
                let what = format!("{written:?} is not a valid {kind} name");
                self.mistakes.add(at, what, Some(hint));
                continue;
            }
            let Some(text) = self.text_of(value, written) else { continue };
            if text.chars().count() > 200 || text.chars().any(char::is_control) {
                let what = format!("{kind} {written}: expected one line of at most 200 characters");
                self.mistakes.add(value.span(), what, None);
                continue;
            }
            tags.insert(written.to_string(), text.to_owned());
        }
        tags
    }

    fn keep(&mut self, root: &DeTable<'t>) -> Keep {
        let mut keep = Keep::default();
        let Some(table) = self.table(root, "keep") else { return keep };
        self.known(table, &["raw", "raw_size", "minutes", "hours", "days"], "[keep]");
        let (day, longest) = (Duration::from_secs(86_400), Duration::from_secs(36_500 * 86_400));
        for (key, kept) in [("raw", &mut keep.raw), ("minutes", &mut keep.minutes)] {
            if let Some(time) = self.time(table, key, day..=longest) {
                *kept = time;
            }
        }
        for (key, kept) in [("hours", &mut keep.hours), ("days", &mut keep.days)] {
            if let Some(time) = self.time(table, key, day..=longest) {
                *kept = Some(time);
            }
        }
        if let Some((text, at)) = self.text(table, "raw_size") {
            match parse_size(text, BareSize::Bytes) {
                Ok(size) => keep.raw_size = size,
                Err(error) => {
                    let hint = Some(error.advice().to_owned());
                    self.mistakes.add(at, format!("raw_size {text:?} is {error}"), hint);
                }
            }
        }
        keep
    }

    fn server(&mut self, root: &DeTable<'t>) -> ServerSettings {
        let mut file = |key| self.text(root, key).map(|(text, _)| PathBuf::from(text));
        let (token_file, modules) = (file("token_file"), file("modules"));
        let mut server = ServerSettings { listen: None, token_file, modules };
        let Some((text, at)) = self.text(root, "listen") else { return server };
        let Ok(address) = text.parse() else {
            let what = format!("listen {text:?} is not an address with a port");
            let hint = "write for example listen = \"127.0.0.1:9115\" or \"[::1]:9115\"".to_owned();
            self.mistakes.add(at, what, Some(hint));
            return server;
        };
        if let Err((what, hint)) = server.may_listen(address) {
            self.mistakes.add(at, what, Some(hint));
        }
        server.listen = Some(address);
        server
    }

    fn limits(&mut self, root: &DeTable<'t>) -> Limits {
        let mut limits = Limits::default();
        let Some(table) = self.table(root, "limits") else { return limits };
        self.known(table, &["in_flight", "per_host"], "[limits]");
        for (key, most, limit) in
            [("in_flight", 10_000, &mut limits.in_flight), ("per_host", 100, &mut limits.per_host)]
        {
            let Some(value) = table.get(key) else { continue };
            let number = value.get_ref().as_integer();
            let number = number.and_then(|number| {
                usize::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            });
            match number.filter(|number| (1..=most).contains(number)) {
                Some(number) => *limit = number,
                None => {
                    self.mistakes.add(
                        value.span(),
                        format!("{key}: expected a whole number from 1 to {most}"),
                        None,
                    );
                }
            }
        }
        limits
    }

    pub(super) fn time(
        &mut self,
        table: &DeTable<'t>,
        key: &str,
        allowed: RangeInclusive<Duration>,
    ) -> Option<Duration> {
        let (text, at) = self.text(table, key)?;
        let wrong = match parse_time(text, BareTime::Refused) {
            Ok(time) if allowed.contains(&time) => return Some(time),
            Ok(_) => {
                let [from, to] = [allowed.start(), allowed.end()].map(|time| print_time(*time));
                (format!("{key} {text:?} is not from {from} to {to}"), None)
            }
            Err(error) => (format!("{key} {text:?} is {error}"), Some(error.advice().to_owned())),
        };
        self.mistakes.add(at, wrong.0, wrong.1);
        None
    }

    /// Records a mistake for each key of `table` that is not in `known`.
    pub(super) fn known(&mut self, table: &DeTable<'t>, known: &[&str], place: &str) {
        for key in table.keys() {
            let written = key.get_ref();
            if known.contains(&written.as_ref()) {
                continue;
            }
            let hint = match closest(written, known.iter().copied()) {
                Some(name) => did_you_mean(name),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.mistakes.add(
                key.span(),
                format!("unknown key {written:?} in {place}"),
                Some(hint),
            );
        }
    }

    pub(super) fn text<'d>(
        &mut self,
        table: &'d DeTable<'t>,
        key: &str,
    ) -> Option<(&'d str, Range<usize>)> {
        let value = table.get(key)?;
        Some((self.text_of(value, key)?, value.span()))
    }

    pub(super) fn text_of<'d>(&mut self, value: &'d Value<'t>, key: &str) -> Option<&'d str> {
        let text = value.get_ref().as_str();
        if text.is_none() {
            let hint = Some("write it in quotes".to_owned());
            self.mistakes.add(
                value.span(),
                format!("{key}: expected text, found {}", kind(value)),
                hint,
            );
        }
        text
    }

    pub(super) fn table<'d>(
        &mut self,
        table: &'d DeTable<'t>,
        key: &str,
    ) -> Option<&'d DeTable<'t>> {
        let value = table.get(key)?;
        self.table_of(value, key)
    }

    pub(super) fn table_of<'d>(
        &mut self,
        value: &'d Value<'t>,
        place: &str,
    ) -> Option<&'d DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let what = format!("{place}: expected a table, found {}", kind(value));
            self.mistakes.add(value.span(), what, None);
        }
        table
    }

    /// The items of a list; empty if the key is absent.
    pub(super) fn list<'d>(&mut self, table: &'d DeTable<'t>, key: &str) -> &'d [Value<'t>] {
        let Some(value) = table.get(key) else { return &[] };
        match value.get_ref().as_array() {
            Some(list) => list,
            None => {
                let hint = match key {
                    "target" | "webhook" | "push" => format!("write [[{key}]], with two brackets"),
                    _ => "write it in [ ]".to_owned(),
                };
                let what = format!("{key}: expected a list, found {}", kind(value));
                self.mistakes.add(value.span(), what, Some(hint));
                &[]
            }
        }
    }
}

fn kind(value: &Value<'_>) -> String {
    let name = value.get_ref().type_str();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn did_you_mean(name: &str) -> String {
    format!("did you mean {name:?}?")
}

/// Targets with unique names.
#[derive(Default)]
struct Targets {
    all: Vec<TargetSettings>,
    names: std::collections::HashSet<String>,
}

impl Targets {
    /// Fails with the name if another target already has it.
    fn add(&mut self, settings: TargetSettings) -> Result<(), String> {
        if !self.names.insert(settings.name.clone()) {
            return Err(settings.name);
        }
        self.all.push(settings);
        Ok(())
    }
}
