//! Captures on an interface: when they end, and what is reported and written meanwhile.
//!
//! In: the user's options. Out: connections as they end, and the outputs made from them. A signal ends a capture, so
//! that results are shown (`cli::signals`). Handling signals must not delay the reading of packets.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstbyte_core::pcap::Frame;
use firstbyte_passive::filter::{Filter, MOST_HOSTS, MOST_PORTS};
use firstbyte_passive::{Analyzer, Observed};

use super::kept::Kept;
use super::metrics::Endpoint;
use super::packets::LivePackets;
use super::{choice, outputs};
use crate::cli::exit::{self, Problem};
use crate::cli::files::Opened;
use crate::cli::progress::Watching;
use crate::cli::signals::{self, Attention};
use crate::cli::terminal::{self, note};
use crate::plans::{ConnectionChoice, LiveCapture, LivePlan, PacketFilter, WirePlan};
use firstbyte_capture::live::{Follower, Live, LiveError, Options};
use firstbyte_clock::Monotonic;
use firstbyte_report::wire::{self, metrics::Metrics};

/// How often the line on the terminal is updated.
const SHOW_EVERY: Duration = Duration::from_millis(500);

/// The filter for the requested packets.
pub(super) fn filter(filter: &PacketFilter) -> Result<Filter, Problem> {
    Filter::new(&filter.hosts, &filter.ports).ok_or_else(|| {
        let most = format!("give at most {MOST_HOSTS} --host and {MOST_PORTS} --port");
        Problem::new(exit::USAGE, most)
    })
}

/// Capture options for the requested interface and packets.
pub(super) fn options(capture: &LiveCapture, filter: &PacketFilter) -> Result<Options, Problem> {
    Ok(Options {
        interface: capture.interface.clone(),
        filter: self::filter(filter)?,
        snaplen: capture.snaplen_bytes,
        buffer_bytes: capture.buffer_bytes as usize,
        promiscuous: capture.promiscuous,
    })
}

/// Opens a capture and announces it.
pub(super) fn open(options: &Options) -> Result<Live, Problem> {
    let live = Live::open(options).map_err(|error| problem(&error, exit::USAGE))?;
    note(&format!("capturing on {}; stop with Ctrl-C", live.describe()));
    Ok(live)
}

pub(super) fn problem(error: &LiveError, code: u8) -> Problem {
    let problem = Problem::new(code, error.to_string());
    match error.hint() {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// Whether the user has asked to stop. Metrics are served from a separate thread.
pub(super) struct Control(Attention);

impl Control {
    pub(super) fn start(metrics: Option<Endpoint>) -> Result<Self, Problem> {
        if let Some(metrics) = metrics {
            let runtime = terminal::runtime()?;
            let run = move || runtime.block_on(metrics.serve());
            let thread = std::thread::Builder::new().name("metrics".into()).spawn(run);
            thread.map_err(|error| {
                Problem::new(exit::USAGE, format!("could not start a thread: {error}"))
            })?;
        }
        Ok(Self(Attention::begin()))
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.asked().is_some()
    }
}

/// Captures until the time of `captured` is over, an output fails, or the user stops it; then writes all outputs.
pub(super) fn run(plan: &WirePlan, captured: &LivePlan, opened: Opened) -> Result<u8, Problem> {
    let options = options(&captured.capture, &plan.filter)?;
    let metrics = captured.metrics.map(Endpoint::bind).transpose()?;
    if let Some(metrics) = &metrics {
        note(&format!("metrics at http://{}/metrics", metrics.address()));
    }
    let shared = metrics.as_ref().map(Endpoint::metrics);
    let control = Control::start(metrics)?;
    let mut analyzer = super::analyzer(&plan.filter)?;
    let mut live = open(&options)?;
    // Opening truncates the files, so do it only once the capture has begun.
    let mut taken = Taken {
        choice: &plan.choice,
        rows: outputs::Rows::open(&plan.outputs, &analyzer.begin())?,
        kept: Kept::new(plan),
        packets: LivePackets::open(plan, captured.spool_bytes)?,
        metrics: shared,
    };
    let window = Window { length: captured.length, control: &control };
    let code = follow(&mut live, &mut analyzer, &window, &mut taken);
    // From here on, a signal ends the process at once.
    drop(control);
    // Write everything that can be written, even if something fails.
    let Taken { rows, mut kept, packets, .. } = taken;
    kept.sort();
    let interface = &captured.capture.interface;
    let packets = packets.map(LivePackets::finish).transpose();
    let ends = [
        packets.map(|told| told.iter().for_each(|told| note(told))),
        rows.finish(analyzer.hygiene(), Some(interface), kept.capacities()),
        kept.show(&analyzer),
        kept.draw(&analyzer, std::slice::from_ref(interface)),
        kept.check_flows(analyzer.connections()),
    ];
    opened.keep();
    ends.into_iter().fold(code, |code, end| code.and_then(|code| end.map(|()| code)))
}

/// Receives the contents of a capture.
pub(super) trait Taker {
    /// Called when a connection is over.
    fn connection(&mut self, observed: &Observed);
    /// Called for each frame, with its connection if known.
    fn frame(&mut self, _: &Frame<'_>, _: Option<u64>) {}
    /// Called several times a second; returning false ends the capture.
    fn goes_on(&mut self, _: &Analyzer) -> bool {
        true
    }
}

/// All outputs of a capture.
struct Taken<'a> {
    choice: &'a ConnectionChoice,
    rows: outputs::Rows<'a>,
    kept: Kept<'a>,
    packets: Option<LivePackets<'a>>,
    metrics: Option<Arc<Mutex<Metrics>>>,
}

impl Taker for Taken<'_> {
    fn connection(&mut self, observed: &Observed) {
        if let Some(packets) = &mut self.packets {
            packets.over(observed);
        }
        if choice::is_chosen(self.choice, observed) {
            if let Some(metrics) = &self.metrics {
                metrics.lock().unwrap_or_else(PoisonError::into_inner).add(observed);
            }
            if choice::is_written(self.choice, observed) {
                self.rows.add(observed);
            }
            self.kept.add(observed);
        }
    }

    fn frame(&mut self, frame: &Frame<'_>, owner: Option<u64>) {
        if let Some(packets) = &mut self.packets {
            packets.frame(frame, owner);
        }
    }

    fn goes_on(&mut self, analyzer: &Analyzer) -> bool {
        if let Some(metrics) = &self.metrics {
            let mut metrics = metrics.lock().unwrap_or_else(PoisonError::into_inner);
            metrics.update(*analyzer.hygiene(), analyzer.live());
        }
        // A reader following along wants each connection as soon as it is over.
        let rows = self.rows.flush();
        let packets = self.packets.as_mut().is_none_or(LivePackets::flush);
        rows && packets
    }
}

/// How long a capture runs.
pub(super) struct Window<'a> {
    /// Without a length, until the user stops it.
    pub(super) length: Option<Duration>,
    pub(super) control: &'a Control,
}

/// Follows `live` to the end of `window`, then also passes on connections still in progress.
///
/// The exit code is the signal's if the user stopped the capture before its time.
pub(super) fn follow(
    live: &mut Live,
    analyzer: &mut Analyzer,
    window: &Window<'_>,
    taker: &mut dyn Taker,
) -> Result<u8, Problem> {
    let begun = Monotonic::now();
    let mut watcher = Watcher {
        taker,
        window,
        begun,
        shown: begun,
        watching: Watching::new(),
        connections: 0,
        handshakes: 0,
        handshakes_shown: 0,
    };
    let result = live.follow(analyzer, &mut watcher);
    watcher.watching.finish();
    analyzer.finish(&mut |observed| watcher.taker.connection(observed));
    // Checked only now, so that what was captured before the failure is still shown.
    result.map_err(|error| problem(&error, exit::READ))?;
    let interrupted = window.length.is_some() && window.control.is_asked();
    Ok(if interrupted { signals::exit_code() } else { exit::OK })
}

/// Follows a capture on behalf of a command.
struct Watcher<'a> {
    taker: &'a mut dyn Taker,
    window: &'a Window<'a>,
    begun: Monotonic,
    shown: Monotonic,
    watching: Watching,
    connections: u64,
    handshakes: u64,
    handshakes_shown: u64,
}

impl Follower for Watcher<'_> {
    fn connection(&mut self, observed: &Observed) {
        self.connections += 1;
        let handshake = observed.tls.as_ref().and_then(|tls| tls.handshake);
        self.handshakes += u64::from(handshake.is_some());
        self.taker.connection(observed);
    }

    fn frame(&mut self, frame: &Frame<'_>, owner: Option<u64>) {
        self.taker.frame(frame, owner);
    }

    fn goes_on(&mut self, analyzer: &Analyzer) -> bool {
        let now = Monotonic::now();
        let since = now.since(self.shown);
        if since >= SHOW_EVERY {
            self.shown = now;
            let handshakes = self.handshakes - self.handshakes_shown;
            self.handshakes_shown = self.handshakes;
            let rate = handshakes as f64 / since.as_secs_f64();
            self.watching.show(wire::live_line(
                analyzer.hygiene(),
                self.connections + analyzer.live() as u64,
                rate,
            ));
        }
        let is_over = self.window.length.is_some_and(|length| now.since(self.begun) >= length);
        !is_over && !self.window.control.is_asked() && self.taker.goes_on(analyzer)
    }
}
