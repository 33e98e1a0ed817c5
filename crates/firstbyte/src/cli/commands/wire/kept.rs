//! Connection data kept until everything has been read, for tables, diagrams and the page.
//!
//! Memory is bounded, however many connections there are: servers and times have their own limits, connections those
//! of `--connections` and `--flow`.

use std::collections::HashSet;

use firstbyte_passive::capacity::{Capacities, ServerCapacity};
use firstbyte_passive::groups::Groups;
use firstbyte_passive::{Analyzer, Observed};

use super::choice::is_written;
use crate::cli::exit::{self, Problem};
use crate::cli::exports::{print, whole};
use crate::cli::render;
use crate::cli::terminal;
use crate::plans::{PacketSource, WirePlan};
use firstbyte_report::Style;
use firstbyte_report::style::wrap;
use firstbyte_report::units::count;
use firstbyte_report::wire::{self, page};

/// Data kept until all connections have been read.
pub(super) struct Kept<'a> {
    plan: &'a WirePlan,
    groups: Groups,
    loads: Option<Capacities>,
    /// The estimates from `loads`, once all connections have been added.
    capacities: Vec<ServerCapacity>,
    /// The first connections.
    shown: Vec<Observed>,
    /// Connections with this number or a later one are not shown.
    behind: Option<u64>,
    all: usize,
    flows: Vec<Observed>,
    page: Option<wire::Gathered>,
    /// Connections whose packets will be read again and written.
    pub(super) written: HashSet<u64>,
}

impl<'a> Kept<'a> {
    pub(super) fn new(plan: &'a WirePlan) -> Self {
        Self {
            plan,
            groups: Groups::default(),
            loads: plan.capacity.then(Capacities::default),
            capacities: Vec::new(),
            shown: Vec::new(),
            behind: None,
            all: 0,
            flows: Vec::new(),
            page: plan.outputs.html.is_some().then(wire::Gathered::default),
            written: HashSet::new(),
        }
    }

    pub(super) fn add(&mut self, observed: &Observed) {
        self.all += 1;
        self.groups.add(observed);
        if let Some(loads) = &mut self.loads {
            loads.add(observed);
        }
        if let Some(page) = &mut self.page {
            page.add(observed);
        }
        let WirePlan { source, choice, outputs, .. } = self.plan;
        let is_read_again =
            outputs.packets.is_some() && matches!(source, PacketSource::Files { .. });
        if is_read_again && is_written(choice, observed) {
            self.written.insert(observed.number);
        }
        if choice.flows.contains(&observed.number) {
            self.flows.push(observed.clone());
        }
        self.keep_first(observed);
    }

    /// Keeps the connections that began first, as many as are shown.
    fn keep_first(&mut self, observed: &Observed) {
        if self.behind.is_some_and(|behind| observed.number >= behind) {
            return;
        }
        let most = self.plan.shown_connections;
        self.shown.push(observed.clone());
        if self.shown.len() >= 2 * most.max(64) {
            self.shown.sort_unstable_by_key(|observed| observed.number);
            self.behind = self.shown.get(most).map(|observed| observed.number);
            self.shown.truncate(most);
        }
    }

    /// Sorts what is kept. Must be called once all connections have been added.
    pub(super) fn sort(&mut self) {
        self.shown.sort_unstable_by_key(|observed| observed.number);
        self.shown.truncate(self.plan.shown_connections);
        self.flows.sort_unstable_by_key(|observed| observed.number);
        self.capacities = self.loads.as_ref().map(Capacities::summaries).unwrap_or_default();
    }

    /// Estimates of the servers' capacity, if requested.
    pub(super) fn capacities(&self) -> Vec<ServerCapacity> {
        self.capacities.clone()
    }

    /// The capacity estimates as text.
    fn capacity(&self, style: &Style) -> String {
        let Some(loads) = &self.loads else { return String::new() };
        wire::capacities(&self.capacities, self.plan.shown_servers, loads.left_out(), style)
    }

    /// Checks that every named connection exists; `connections` is their total number.
    pub(super) fn check_flows(&self, connections: u64) -> Result<(), Problem> {
        let is_there = |number: &&u64| self.flows.iter().any(|flow| flow.number == **number);
        match self.plan.choice.flows.iter().find(|number| !is_there(number)) {
            None => Ok(()),
            Some(number) if *number > connections || *number == 0 => {
                let all = count(connections, "connection");
                let message = format!("--flow {number}: the capture has only {all}");
                Err(Problem::new(exit::USAGE, message)
                    .hint("firstbyte wire without --flow shows their numbers in the first column"))
            }
            Some(number) => {
                let message = format!("--flow {number}: not among the selected connections");
                Err(Problem::new(exit::USAGE, message)
                    .hint("half-open connections that were dropped are not shown either"))
            }
        }
    }

    /// Writes text to standard output, unless something else is written there.
    pub(super) fn show(&self, analyzer: &Analyzer) -> Result<(), Problem> {
        let hygiene = wire::hygiene(analyzer.hygiene());
        if self.plan.outputs.use_stdout() {
            terminal::note(hygiene.trim_end());
            return Ok(());
        }
        let style = terminal::style(self.plan.colors);
        let text = if self.plan.choice.flows.is_empty() {
            let mut text = format!("{hygiene}\n");
            let servers = self.groups.summaries();
            // A selection by session says nothing about how a server handles sessions in general.
            let judged = self.plan.choice.sessions.is_empty();
            if judged {
                text.push_str(&wire::findings(&servers, &style));
            }
            text.push_str(&wire::servers(&servers, self.plan.shown_servers, judged, &style));
            text.push_str(&self.capacity(&style));
            for sentence in wire::left_out(self.groups.left_out()) {
                let words: Vec<String> = sentence.split(' ').map(str::to_owned).collect();
                let lines = wrap("", &words, style.columns());
                lines.iter().for_each(|line| text.push_str(&format!("{line}\n")));
            }
            if self.all == 0 {
                text.push_str(&self.nothing(analyzer));
            } else {
                text.push_str(&wire::connections(&self.shown, &style));
            }
            if self.all > self.shown.len() {
                let (first, all) = (self.shown.len(), self.all);
                text.push_str(&format!("first {first} of {all} connections\n"));
            }
            text
        } else {
            terminal::note(hygiene.trim_end());
            let pages: Vec<String> =
                self.flows.iter().map(|flow| wire::flow(flow, &style)).collect();
            pages.join("\n") + &self.capacity(&style)
        };
        let text = style.plain(&text);
        print(&text)
    }

    /// Why there are no connections.
    fn nothing(&self, analyzer: &Analyzer) -> String {
        let choice = &self.plan.choice;
        let chosen = !choice.servers.is_empty() || !choice.sessions.is_empty();
        match analyzer.connections() {
            0 => "no TCP or QUIC connections\n".to_owned(),
            seen if chosen => format!(
                "no connection matches --server or --session; the capture has {}\n",
                count(seen, "connection")
            ),
            _ => "no connections\n".to_owned(),
        }
    }

    /// Writes the picture into its directory, and the page about the captures in `names`.
    pub(super) fn draw(&self, analyzer: &Analyzer, names: &[String]) -> Result<(), Problem> {
        let outputs = &self.plan.outputs;
        if outputs.draw() {
            render::pictures(&[wire::figure(&self.flows)], outputs)?;
        }
        if let (Some(to), Some(gathered)) = (&outputs.html, &self.page) {
            let page = page::page(&page::Page {
                files: names,
                hygiene: analyzer.hygiene(),
                judged: self.plan.choice.sessions.is_empty(),
                servers: &self.groups.summaries(),
                left_out: self.groups.left_out(),
                capacities: self.loads.is_some().then_some(&self.capacities),
                gathered,
                shown: &self.shown,
                all: self.all,
                flows: &self.flows,
            });
            whole(to, page.as_bytes())?;
        }
        Ok(())
    }
}
