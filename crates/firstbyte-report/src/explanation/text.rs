//! An explanation for the terminal, on one page of 80 columns.

use std::time::Duration;

use firstbyte_core::sequence::Sequence;
use firstbyte_core::split::ServerFit;
use firstbyte_core::split::server_model::ServerModel;
use firstbyte_core::split::server_model::constants::USUAL_WINDOW_PACKETS;
use firstbyte_core::stats::Interval;
use firstbyte_core::timeline::Connection;
use firstbyte_explain::reconcile::{Reconciled, Verdict, Witness};
use firstbyte_explain::{
    Equation, Finding, ServerLogWitness, Span, Term, TermKind, TimeSaved, WayKind,
};

use super::{Explanation, WayView, beside, whiteboard};
use crate::advice;
use crate::equation::apportion;
use crate::sequence;
use crate::style::{Ink, Style, wrap};
use crate::units::{Scale, count};

/// `explanation` for a terminal.
pub fn text(explanation: &Explanation, style: &Style) -> String {
    let scale = Scale::for_largest(explanation.equation.total);
    let equation_and_terms = || {
        let mut lines = equation(&explanation.equation, scale, style);
        lines.push(String::new());
        lines.extend(terms(&explanation.equation, scale, style));
        lines
    };
    // Advice comes first, then the sum that supports it, then the evidence for the sum.
    let mut blocks = vec![head(explanation, style), findings(explanation, style)];
    blocks.push(equation_and_terms());
    blocks.extend(first(&explanation.equation, scale, style));
    if explanation.is_ambiguous() {
        blocks.push(rivals(&explanation.server, style));
    }
    blocks.extend(explanation.reconciled.iter().map(|it| witness(it, scale, style)));
    blocks.push(ways(explanation, scale, style));
    blocks.extend(explanation.beside.iter().map(|other| beside::text(other, style)));
    blocks.push(whiteboard::whiteboard(explanation, style));
    if let Some(way) = explanation.subject() {
        let mut lines = vec![style.paint(Ink::Faint, "the connection with the median total time")];
        let diagram = sequence::diagram(&Sequence::from_attributed(&way.middle), style);
        lines.extend(diagram.lines().map(str::to_owned));
        blocks.push(lines);
    }
    blocks.retain(|block| !block.is_empty());
    let lines = blocks.join(&String::new());
    let mut text = String::new();
    for line in lines {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn head(explanation: &Explanation, style: &Style) -> Vec<String> {
    let mut lines = vec![style.paint(Ink::Strong, &style.safe(&explanation.url))];
    let dot = style.glyph(" · ", ", ");
    let mut facts = Vec::new();
    if let Some(way) = explanation.subject() {
        facts.extend(described(&way.middle.connection));
        let connections = count(way.proven as u64, "connection");
        facts.push(match explanation.failed {
            0 => connections,
            failed => format!("{connections}, {failed} more failed"),
        });
    }
    let words: Vec<String> =
        facts
            .iter()
            .enumerate()
            .map(|(i, fact)| {
                if i + 1 < facts.len() { format!("{fact}{}", dot.trim_end()) } else { fact.clone() }
            })
            .collect();
    lines.extend(wrap("", &words, style.columns()));
    lines
}

/// Address, versions and similar facts.
pub(super) fn described(connection: &Connection) -> Vec<String> {
    let facts = &connection.facts;
    let proxy = facts.proxy.as_ref().map(|proxy| format!("through the proxy {proxy}"));
    let mut words: Vec<String> =
        facts.remote.map(|remote| remote.to_string()).into_iter().collect();
    if let Some(tls) = &facts.tls {
        words.extend(tls.version.as_deref().map(|v| v.replace("TLSv", "TLS ")));
        words.extend(tls.group.clone());
    }
    let http = facts.http.as_ref();
    words.extend(http.and_then(|h| h.version.as_ref()).map(|v| format!("HTTP/{v}")));
    words.extend(http.and_then(|h| h.status).map(|s| s.to_string()));
    words.extend(http.and_then(|h| h.body_bytes).map(super::super::units::bytes));
    words.extend(proxy);
    words
}

/// Label of a term in the equation.
fn name(term: &Term) -> String {
    match (term.kind, term.span) {
        (TermKind::Resolver, _) => "DNS".into(),
        (TermKind::RoundTrips, Some(span)) => span.name().into(),
        (TermKind::Stalls, Some(span)) => format!("{} full window", span.name()),
        (TermKind::Nagle, Some(span)) => format!("{} Nagle", span.name()),
        (TermKind::Server, Some(Span::Request)) => "server".into(),
        (TermKind::Server, Some(span @ (Span::ProxyTls | Span::Tunnel))) => {
            format!("server ({})", span.name())
        }
        (TermKind::Server, Some(span)) => format!("server ({} handshake)", span.name()),
        (TermKind::Pause, Some(span)) => format!("pause ({})", span.name()),
        (TermKind::Variation, _) => "TCP beyond a round trip".into(),
        (kind, _) => kind.name().into(),
    }
}

/// The equation's figures, as steps of the scale that add up.
fn figures(equation: &Equation, scale: Scale) -> (Vec<(u64, Option<u64>)>, u64) {
    let total = scale.steps(equation.total);
    let each = equation.rtt.map(|rtt| scale.steps(rtt));
    let fixed: u64 =
        equation.terms.iter().filter_map(|term| Some(u64::from(term.round_trips) * each?)).sum();
    let free: Vec<Duration> =
        equation.terms.iter().filter(|t| t.round_trips == 0).map(|t| t.time).collect();
    let rounded = total.checked_sub(fixed).and_then(|left| apportion(&free, left, scale));
    let mut rounded = rounded.map(Vec::into_iter);
    let figures = equation.terms.iter().map(|term| match (term.round_trips, each) {
        (n, Some(each)) if n > 0 && rounded.is_some() => (u64::from(n) * each, Some(each)),
        (0, _) => {
            let steps = rounded.as_mut().and_then(Iterator::next);
            (steps.unwrap_or_else(|| scale.steps(term.time)), None)
        }
        _ => (scale.steps(term.time), None),
    });
    (figures.collect(), total)
}

/// A scale in which the figures add up. Round trips are long, and the other terms may not be large enough to absorb
/// their rounding.
fn fitting(equation: &Equation, mut scale: Scale) -> Scale {
    loop {
        let (figures, total) = figures(equation, scale);
        if figures.iter().map(|(steps, _)| steps).sum::<u64>() == total {
            return scale;
        }
        match scale.finer() {
            Some(finer) => scale = finer,
            None => return scale,
        }
    }
}

pub(super) fn equation(equation: &Equation, scale: Scale, style: &Style) -> Vec<String> {
    let scale = fitting(equation, scale);
    let (figures, total) = figures(equation, scale);
    let times = style.glyph("×", "x");
    let mut words = Vec::new();
    for (term, (steps, each)) in equation.terms.iter().zip(figures).filter(|(_, (s, _))| *s > 0) {
        let plus = if words.is_empty() { "" } else { "+ " };
        let name = name(term);
        words.push(match each {
            Some(each) => {
                format!("{plus}{name} {} {times} {}", term.round_trips, scale.figure(each))
            }
            None => format!("{plus}{name} {}", scale.figure(steps)),
        });
        if !term.is_known() {
            words.push(format!("{} {}", style.glyph("±", "+-"), scale.time_figure(term.doubt)));
        }
    }
    let first = format!("total {} = ", scale.print(total, style));
    let lines = wrap(&first, &words, style.columns());
    lines.into_iter().map(|line| style.paint(Ink::Strong, &line)).collect()
}

const NAME: usize = 33;

/// A term as a table row.
pub(super) struct Row {
    pub label: String,
    pub steps: u64,
    pub interval: Option<Interval>,
    /// How far it may be off, if that is more than itself.
    pub doubt: Option<Duration>,
    /// Its share of the total.
    pub share: f64,
    kind: TermKind,
}

/// Every term in figures that add up, and their scale.
pub(super) fn rows(equation: &Equation, scale: Scale) -> (Vec<Row>, Scale) {
    let scale = fitting(equation, scale);
    let (figures, total) = figures(equation, scale);
    let row = |(term, (steps, _)): (&Term, (u64, Option<u64>))| {
        let span = term.span.map_or("", Span::name);
        let label = match (term.kind, term.round_trips) {
            (TermKind::Stalls, n) => format!("  {span}: full window, {}", trips(n)),
            (TermKind::Nagle, n) => format!("  {span}: Nagle's algorithm, {}", trips(n)),
            (_, 0) => name(term),
            (_, n) => format!("{}, {}", name(term), trips(n)),
        };
        let share = steps as f64 / total.max(1) as f64;
        let doubt = (!term.is_known()).then_some(term.doubt);
        Row { label, steps, interval: term.interval, doubt, share, kind: term.kind }
    };
    // Hide terms shorter than a step: readers do not look for them.
    let rows = equation.terms.iter().zip(figures).map(row).filter(|row| row.steps > 0);
    (rows.collect(), scale)
}

/// Every term with its interval and a bar.
fn terms(equation: &Equation, scale: Scale, style: &Style) -> Vec<String> {
    let (rows, scale) = rows(equation, scale);
    let width = style.columns().saturating_sub(NAME + 35).clamp(6, 60);
    let heading = format!("where the time goes, {}", scale.name(style));
    let heading = format!("{heading:<NAME$} {:>8}  {:<17}share", "", "95 % interval");
    let mut lines = vec![style.paint(Ink::Faint, &heading)];
    for Row { label, steps, interval, doubt, share, kind } in rows {
        let figure = scale.figure(steps);
        let bar = style.glyph("█", "#").repeat((share * width as f64).round() as usize);
        let bar = if bar.is_empty() { String::new() } else { style.paint(ink(kind), &bar) + " " };
        let interval = interval.map_or_else(String::new, |i| range(i, scale, style));
        let share = percent(share, style);
        lines.push(format!("{label:<NAME$} {figure:>8}  {interval:<17}{bar}{share}"));
        if let Some(doubt) = doubt {
            let (sign, off) = (style.glyph("±", "+-"), scale.time_figure(doubt));
            let text = format!("{:<NAME$} {sign} {off}: another cause fits as well", "");
            lines.push(style.paint(Ink::Faint, &text));
        }
    }
    let label = format!("total, {}", trips(equation.round_trips()));
    let total = scale.figure(scale.steps(equation.total));
    let interval = equation.interval.map_or_else(String::new, |i| range(i, scale, style));
    lines.push(style.paint(Ink::Strong, &format!("{label:<NAME$} {total:>8}  {interval}")));
    if equation.typical < equation.of {
        let text =
            format!("{} of {} connections took these round trips", equation.typical, equation.of);
        lines.push(style.paint(Ink::Faint, &text));
    }
    lines
}

fn trips(n: u32) -> String {
    count(u64::from(n), "round trip")
}

const fn ink(kind: TermKind) -> Ink {
    match kind {
        TermKind::Resolver => Ink::Resolver,
        TermKind::RoundTrips | TermKind::Stalls | TermKind::Nagle => Ink::Network,
        TermKind::Server => Ink::Server,
        TermKind::Client => Ink::Client,
        TermKind::Transfer => Ink::Transfer,
        TermKind::Fallback | TermKind::Variation | TermKind::Pause => Ink::Loss,
        TermKind::Unexplained => Ink::Faint,
    }
}

pub(super) fn range(interval: Interval, scale: Scale, style: &Style) -> String {
    let figure = |ns: f64| scale.figure(scale.steps(Duration::from_nanos(ns.max(0.0) as u64)));
    format!("{} {} {}", figure(interval.low), style.glyph("…", "to"), figure(interval.high))
}

fn percent(share: f64, style: &Style) -> String {
    let percent = share * 100.0;
    if percent < 0.1 {
        return style.paint(Ink::Faint, "<0.1 %");
    }
    style.paint(Ink::Faint, &format!("{percent:.1} %"))
}

/// The first connection, compared with the later ones.
pub(super) fn first(equation: &Equation, scale: Scale, style: &Style) -> Option<Vec<String>> {
    let (total, extras) = equation.first.as_ref()?;
    let difference = total.as_nanos() as i128 - equation.total.as_nanos() as i128;
    let figure = |ns: i128| {
        let time = Duration::from_nanos(ns.unsigned_abs() as u64);
        let sign = if ns < 0 { style.glyph("−", "-") } else { "+" };
        format!("{sign}{}", scale.time_figure(time))
    };
    let unit = scale.name(style);
    let mut words = vec![format!(
        "{} {unit}, {} {unit} than later attempts{}",
        scale.time_figure(*total),
        if difference < 0 {
            format!(
                "{} less",
                scale.time_figure(Duration::from_nanos(difference.unsigned_abs() as u64))
            )
        } else {
            format!("{} more", scale.time_figure(Duration::from_nanos(difference as u64)))
        }
        .replace(' ', &format!(" {unit} ")),
        "",
    )];
    words[0] = words[0].replacen(&format!(" {unit} than"), " than", 1);
    let told: Vec<_> = extras
        .iter()
        .filter(|e| scale.steps(Duration::from_nanos(e.ns.unsigned_abs())) > 0)
        .take(5)
        .collect();
    if !told.is_empty() {
        words[0].push(':');
    }
    for (i, extra) in told.iter().enumerate() {
        let term = Term {
            kind: extra.kind,
            span: extra.span,
            round_trips: 0,
            time: Duration::ZERO,
            interval: None,
            doubt: Duration::ZERO,
        };
        let trips = match extra.round_trips {
            0 => String::new(),
            n => format!(" ({n:+} {})", if n.abs() == 1 { "round trip" } else { "round trips" }),
        };
        let comma = if i + 1 < told.len() { "," } else { "" };
        words.push(format!("{} {}{trips}{comma}", name(&term), figure(i128::from(extra.ns))));
    }
    Some(wrap("first attempt  ", &words, style.columns()))
}

/// All ways that worked, one per line.
fn ways(explanation: &Explanation, scale: Scale, style: &Style) -> Vec<String> {
    let heads = ["total", "set-up", "request", "server", "client", "other"];
    let heads: String = heads.iter().map(|head| format!(" {head:>8}")).collect();
    let unit = format!("variants, {}", scale.name(style));
    let mut lines = vec![style.paint(Ink::Faint, &format!("{unit:<WAY$}{heads}  trips"))];
    lines.extend(explanation.ways.iter().map(|way| way_line(way, scale, style)));
    for (kind, why) in &explanation.left_out {
        let line = format!("{}: {}", kind.name(), style.safe(why));
        let wrapped = wrap("not possible: ", &[line], style.columns());
        lines.extend(wrapped.into_iter().map(|line| style.paint(Ink::Faint, &line)));
    }
    lines
}

const WAY: usize = 19;

fn way_line(way: &WayView, scale: Scale, style: &Style) -> String {
    let equation = &way.equation;
    let of = |kinds: &[TermKind], spans: &[Span]| -> Duration {
        let wanted =
            |t: &&Term| kinds.contains(&t.kind) && t.span.is_none_or(|span| spans.contains(&span));
        equation.terms.iter().filter(wanted).map(|t| t.time).sum()
    };
    let trips = [TermKind::RoundTrips, TermKind::Stalls, TermKind::Nagle];
    let handshakes = [Span::Connect, Span::ProxyTls, Span::Tunnel, Span::Tls, Span::Quic];
    let setup = of(&trips, &handshakes);
    let request = of(&trips, &[Span::Request, Span::Response]);
    let server = of(&[TermKind::Server], &Span::ALL);
    let client = of(&[TermKind::Client], &[]);
    let other = equation.total.saturating_sub(setup + request + server + client);
    let of_server = equation.terms.iter().filter(|term| term.kind == TermKind::Server);
    let doubt: Duration = of_server.filter(|term| !term.is_known()).map(|t| t.doubt).sum();
    let figures: String = [equation.total, setup, request, server, client, other]
        .iter()
        .enumerate()
        .map(|(column, time)| match (time.is_zero(), column) {
            (true, _) => format!(" {:>8}", style.glyph("·", ".")),
            (false, 3) if !doubt.is_zero() => {
                let most = scale.time_figure(*time + doubt);
                format!(" {:>8}", format!("{}{most}", style.glyph("≤", "<=")))
            }
            _ => format!(" {:>8}", scale.time_figure(*time)),
        })
        .collect();
    let name = format!("{:<WAY$}", way.kind.name());
    let subject = way.kind == WayKind::Subject;
    let name = if subject { style.paint(Ink::Strong, &name) } else { name };
    let proven = if way.proven < way.asked {
        style.paint(
            Ink::Loss,
            &format!("\n{:<WAY$}   {} of {} succeeded", "", way.proven, way.asked),
        )
    } else {
        String::new()
    };
    format!("{name}{figures}  {:>5}{proven}", equation.round_trips())
}

/// The explanations that fit the arrivals, the likeliest first.
pub(super) fn rivals(server: &ServerFit, style: &Style) -> Vec<String> {
    let odds = |odds: f64| match odds {
        1.0 => String::new(),
        odds => format!(" (odds 1 to {:.1})", 1.0 / odds),
    };
    let all = server.rivals().into_iter().take(MOST_RIVALS);
    let all: Vec<String> =
        all.map(|(likely, model)| format!("{}{}", in_words(&model), odds(likely))).collect();
    let words: Vec<String> = all.join("; or ").split(' ').map(str::to_owned).collect();
    wrap("server's TCP   ", &words, style.columns())
}

/// Maximum number of explanations named.
const MOST_RIVALS: usize = 3;

fn in_words(model: &ServerModel) -> String {
    let mut waits = Vec::new();
    if let Some(window) = model.initial_window.filter(|window| *window < USUAL_WINDOW_PACKETS) {
        waits.push(format!("an initial window of {}", count(window.into(), "segment")));
    }
    if model.nagle.contains(&true) {
        waits.push("Nagle's algorithm".to_owned());
    }
    if model.full_buffer {
        waits.push("a small send buffer".to_owned());
    }
    match waits.is_empty() {
        true => "the usual window; what came late was written late".to_owned(),
        false => waits.join(" and "),
    }
}

pub(super) fn witness(reconciled: &Reconciled, scale: Scale, style: &Style) -> Vec<String> {
    let Reconciled { witness, said, estimated, tolerance } = reconciled;
    let time = |d: Duration| scale.time(d, style);
    let sign = style.glyph("±", "+-");
    let who = match witness {
        Witness::Log => "the server's log says".to_owned(),
        Witness::ServerLog(log) => {
            let requests = count(log.of as u64, "request");
            format!("the access log ({}, {} of {requests} found) says", log.form, log.found)
        }
        Witness::ServerTiming(names) => {
            format!("Server-Timing ({}) says", style.safe(&names.join(" + ")))
        }
        Witness::Capture => "the capture says".to_owned(),
    };
    let verdict = reconciled.verdict();
    let outcome = if verdict == Verdict::Agree {
        "they agree".to_owned()
    } else if verdict == Verdict::CannotTell {
        "whether they agree cannot be told".to_owned()
    } else if let Witness::ServerLog(log) = witness {
        apart(log, *said, *estimated, &time)
    } else if estimated > said {
        format!(
            "{} more, spent outside the span that it counts (queues, proxies, TLS)",
            time(*estimated - *said)
        )
    } else {
        format!(
            "{} less: the client did not wait for part of the time that it counts",
            time(*said - *estimated)
        )
    };
    // An estimate with a larger uncertainty is only an upper bound.
    let sees = if tolerance > estimated && verdict == Verdict::CannotTell {
        format!("the client sees at most {}:", time(*estimated + *tolerance))
    } else {
        format!("the client sees {} {sign} {}:", time(*estimated), time(*tolerance))
    };
    let words = vec![format!("{who} {};", time(*said)), sees, outcome];
    let mut lines = wrap("server's time  ", &words, style.columns());
    if let Witness::ServerLog(log) = witness {
        for said in beside(log, scale, style) {
            let words: Vec<String> = said.split(' ').map(str::to_owned).collect();
            lines.extend(wrap("               ", &words, style.columns()));
        }
    }
    lines
}

/// The reason for the difference between an access log's time and ours.
fn apart(
    log: &ServerLogWitness,
    said: Duration,
    estimated: Duration,
    time: &dyn Fn(Duration) -> String,
) -> String {
    if estimated > said {
        return format!(
            "{} lie outside the span that {} counts: before it reads the request (queues, a proxy \
             in front), or after it has handed the response to its kernel",
            time(estimated - said),
            log.form
        );
    }
    let rest = time(said - estimated);
    match log.to_first_byte {
        true => format!("the client did not wait for {rest} of the time that it counts"),
        false => format!(
            "{} counts until the last byte is in its kernel: {rest} of that come after the first \
             byte, or the client did not wait for them",
            log.form
        ),
    }
}

/// Other facts from an access log about the same connections.
fn beside(log: &ServerLogWitness, scale: Scale, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(difference) = log.difference {
        let signed = |ns: f64| {
            let time = scale.time(Duration::from_nanos(ns.abs() as u64), style);
            format!("{}{time}", if ns < 0.0 { style.glyph("−", "-") } else { "" })
        };
        let interval = difference.interval.map(|i| {
            let to = style.glyph(" … ", " .. ");
            format!(" ({}{to}{})", signed(i.low), signed(i.high))
        });
        let ours = signed(difference.value);
        let step = scale.time(log.step, style);
        lines.push(format!(
            "difference per request, firstbyte minus log: {ours}{}; the log's clock has steps of \
             {step}",
            interval.unwrap_or_default()
        ));
    }
    let names = ["connected after", "header after", "response after"];
    let upstream = names
        .iter()
        .zip(log.upstream)
        .filter_map(|(name, time)| Some(format!("{name} {}", scale.time(time?, style))));
    let upstream: Vec<String> = upstream.collect();
    if !upstream.is_empty() {
        lines.push(format!("of that, the upstream: {}", upstream.join(", ")));
    }
    let agreements = [("resumed", log.resumed), ("early data", log.early_data)];
    let agreements = agreements.iter().filter(|(_, it)| it.compared > 0).map(|(name, it)| {
        format!(
            "{name}: {} of {} agree with the client, {} yes",
            it.agree, it.compared, it.logged_yes
        )
    });
    let agreements: Vec<String> = agreements.collect();
    if !agreements.is_empty() {
        lines.push(format!("all variants, logged as {}", agreements.join("; ")));
    }
    lines
}

fn findings(explanation: &Explanation, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    if explanation.findings.all.is_empty() {
        lines.push(style.paint(Ink::Strong, "No avoidable delay was found."));
    } else {
        let n = explanation.findings.all.len() as u64;
        lines
            .push(style.paint(Ink::Strong, &format!("{}, most costly first", count(n, "finding"))));
    }
    for (number, finding) in (1..).zip(&explanation.findings.all) {
        lines.push(String::new());
        lines.extend(one(number, finding, style));
    }
    if let Some(together) = &explanation.findings.together {
        lines.push(String::new());
        let text = format!("without all of them, a visit saves {}", saved(together, style));
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        lines.extend(wrap("", &words, style.columns()));
    }
    if explanation.leaves_much_unexplained() {
        let unexplained = explanation.equation.time(TermKind::Unexplained);
        let scale = Scale::for_largest(explanation.equation.total);
        lines.push(String::new());
        lines.push(format!("unexplained: {}", scale.time(unexplained, style)));
    }
    lines
}

fn one(number: usize, finding: &Finding, style: &Style) -> Vec<String> {
    let ms =
        |time: Duration| Scale::for_largest(time.max(Duration::from_millis(100))).time(time, style);
    let cost = ms(finding.cost);
    let concerns = finding.concerns.map_or_else(String::new, |who| format!(" ({who})"));
    let mut lines: Vec<String> = wrap(
        &format!("{number}. "),
        &[format!("{}: {cost}{concerns}", style.safe(&finding.title))],
        style.columns(),
    );
    for line in &mut lines {
        *line = style.paint(Ink::Strong, line);
    }
    let mut add = |name: &str, text: String| {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        lines.extend(wrap(&format!("   {name:<7} "), &words, style.columns()));
    };
    add("seen", style.safe(&finding.evidence));
    add("change", style.safe(&advice::for_finding(finding)));
    let saves = saves(finding, style);
    if !saves.is_empty() {
        add("saves", saves);
    }
    lines
}

/// The time that a change saves: measured, predicted, or both.
pub(super) fn saves(finding: &Finding, style: &Style) -> String {
    let mut saves = Vec::new();
    if let Some(measured) = finding.saving.measured {
        let interval = measured.interval.map_or_else(String::new, |i| {
            format!(" (95 % interval {:.1} to {:.1} ms)", i.low / 1e6, i.high / 1e6)
        });
        saves.push(format!("measured {:.1} ms{interval}", measured.value / 1e6));
    }
    if let Some(predicted) = finding.saving.predicted {
        saves.push(format!("predicted {}", saved(&predicted, style)));
    }
    saves.join(", ")
}

/// "45.1 ms of the total, 0.0 ms of the first byte".
pub(super) fn saved(saved: &TimeSaved, style: &Style) -> String {
    let total = milliseconds(saved.total, style);
    match saved.first_byte {
        Some(first_byte) if first_byte == saved.total => {
            format!("{total} of the total and of the first byte")
        }
        Some(first_byte) => {
            format!("{total} of the total, {} of the first byte", milliseconds(first_byte, style))
        }
        None => format!("{total} of the total"),
    }
}

/// A time in milliseconds, or in seconds if it is long.
fn milliseconds(time: Duration, style: &Style) -> String {
    Scale::for_largest(time.max(Duration::from_millis(100))).time(time, style)
}
