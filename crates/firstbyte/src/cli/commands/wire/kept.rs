//! `firstbyte wire FILE…`: files read to their end, and everything that is written of them.

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use firstbyte_core::passive::groups::Groups;
use firstbyte_core::passive::{Analyzer, Limits, Observed};

use super::{choice, live, outputs, packets};
use crate::capture;
use crate::cli::args::WireArgs;
use crate::cli::exit::{self, Problem};
use crate::cli::render;
use crate::cli::terminal;
use crate::report::wire::{self, page};

pub(super) fn run(args: &WireArgs) -> Result<u8, Problem> {
    packets::check(args)?;
    outputs::check(args)?;
    // The second reading for packets has to see what the first one saw.
    let limits = Limits { seed: super::seed(), ..Limits::default() };
    let analyzer = || Ok(Analyzer::new(limits).with_filter(live::filter(&args.filter)?));
    let mut first = analyzer()?;
    let mut rows = outputs::Rows::open(args)?;
    let mut kept = Kept::new(args);
    let mut emit = |observed: Observed| {
        if choice::is_chosen(args, &observed) {
            rows.add(&observed);
            kept.add(observed);
        }
    };
    let code = super::read(args, &mut first, &mut emit, &|| false);
    rows.finish(first.hygiene())?;
    kept.check_flows(first.connections())?;
    kept.show(&first)?;
    kept.draw(&first)?;
    if let Some(path) = &args.pcap_out {
        let written = packets::write(args, analyzer()?, &kept.written, path)?;
        let connections = kept.written.len();
        terminal::note(&format!("wrote {written} packets of {connections} connections"));
    }
    code
}

/// What is kept of connections until all have been read.
struct Kept<'a> {
    args: &'a WireArgs,
    groups: Groups,
    /// The first of them.
    shown: Vec<Observed>,
    all: usize,
    flows: Vec<Observed>,
    page: Option<page::Gathered>,
    /// Whose packets are to be written.
    written: HashSet<u64>,
}

impl<'a> Kept<'a> {
    fn new(args: &'a WireArgs) -> Self {
        Self {
            args,
            groups: Groups::default(),
            shown: Vec::new(),
            all: 0,
            flows: Vec::new(),
            page: args.html.is_some().then(page::Gathered::default),
            written: HashSet::new(),
        }
    }

    fn add(&mut self, observed: Observed) {
        self.all += 1;
        self.groups.add(&observed);
        if let Some(page) = &mut self.page {
            page.add(&observed);
        }
        if self.args.pcap_out.is_some() && choice::is_written(self.args, &observed) {
            self.written.insert(observed.number);
        }
        if self.args.flow.contains(&observed.number) {
            self.flows.push(observed.clone());
        }
        self.keep_first(observed);
    }

    /// Keeps those that began first, as many as are shown.
    fn keep_first(&mut self, observed: Observed) {
        let most = self.args.connections;
        self.shown.push(observed);
        if self.shown.len() >= 2 * most.max(64) {
            self.shown.sort_unstable_by_key(|observed| observed.number);
            self.shown.truncate(most);
        }
    }

    /// Puts what is kept in order; every connection that was named has to be there.
    fn check_flows(&mut self, connections: u64) -> Result<(), Problem> {
        self.shown.sort_unstable_by_key(|observed| observed.number);
        self.shown.truncate(self.args.connections);
        self.flows.sort_unstable_by_key(|observed| observed.number);
        let is_there = |number: &&u64| self.flows.iter().any(|flow| flow.number == **number);
        match self.args.flow.iter().find(|number| !is_there(number)) {
            None => Ok(()),
            Some(number) if *number > connections || *number == 0 => {
                let message = format!("--flow {number}: there are {connections} connections");
                Err(Problem::new(exit::USAGE, message)
                    .hint("their numbers are in the first column of: firstbyte wire FILE"))
            }
            Some(number) => {
                let message = format!("--flow {number}: is not among the connections chosen");
                Err(Problem::new(exit::USAGE, message)
                    .hint("half-open connections that were given up are not shown either"))
            }
        }
    }

    /// Writes text to standard output, where nothing else goes there.
    fn show(&self, analyzer: &Analyzer) -> Result<(), Problem> {
        let hygiene = wire::hygiene(analyzer.hygiene());
        if outputs::use_stdout(self.args) {
            terminal::note(hygiene.trim_end());
            return Ok(());
        }
        let style = terminal::style(self.args.color);
        let text = if self.args.flow.is_empty() {
            let mut text = format!("{hygiene}\n");
            text.push_str(&wire::servers(&self.groups.summaries(), &style));
            text.push_str(&wire::connections(&self.shown, &style));
            if self.all > self.shown.len() {
                let (first, all) = (self.shown.len(), self.all);
                text.push_str(&format!("first {first} of {all} connections\n"));
            }
            text
        } else {
            terminal::note(hygiene.trim_end());
            let pages: Vec<String> =
                self.flows.iter().map(|flow| wire::flow(flow, &style)).collect();
            pages.join("\n")
        };
        io::stdout().lock().write_all(text.as_bytes()).map_err(|e| Problem::output(&e))
    }

    /// Writes the picture and the page.
    fn draw(&self, analyzer: &Analyzer) -> Result<(), Problem> {
        if let Some(path) = &self.args.svg {
            render::whole(path, wire::figure(&self.flows).svg().as_bytes())?;
        }
        if let (Some(path), Some(gathered)) = (&self.args.html, &self.page) {
            // Where a file lies is nobody's business whom the page is shown.
            let name = |path: &PathBuf| capture::name(path.file_name().map_or(path, Path::new));
            let names: Vec<String> = self.args.files.iter().map(name).collect();
            let page = page::page(&page::Page {
                files: &names,
                hygiene: analyzer.hygiene(),
                servers: &self.groups.summaries(),
                gathered,
                shown: &self.shown,
                all: self.all,
                flows: &self.flows,
            });
            render::whole(path, page.as_bytes())?;
        }
        Ok(())
    }
}
