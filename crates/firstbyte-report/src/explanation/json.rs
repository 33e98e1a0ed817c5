//! An explanation as JSON. Fields: `docs/formats.md`, "Explanation".

use firstbyte_core::split::server_model::ServerModel;
use firstbyte_core::stats::{Estimate, Interval};
use firstbyte_explain::reconcile::{Reconciled, Verdict, Witness};
use firstbyte_explain::{Agreement, ServerLogWitness};
use firstbyte_explain::{Equation, Finding, Term, TimeSaved};
use serde_json::{Value, json};

use super::super::ndjson::shown_connection;
use super::{Explanation, beside};
use crate::advice;

/// Value of the field `format`.
const FORMAT: &str = "firstbyte/explanation";
/// Value of the field `version`.
const VERSION: u32 = 2;

/// `explanation` as one JSON object and a newline.
pub fn json(explanation: &Explanation) -> String {
    let ways: Vec<Value> = explanation
        .ways
        .iter()
        .map(|way| {
            json!({
                "variant": way.kind.name(),
                "samples": way.asked,
                "verified": way.proven,
                "equation": equation(&way.equation),
                "connection": shown_connection(&way.middle),
            })
        })
        .collect();
    let left_out: Vec<Value> = explanation
        .left_out
        .iter()
        .map(|(kind, why)| json!({ "variant": kind.name(), "why": why }))
        .collect();
    let redirects: Vec<Value> =
        explanation.redirects.iter().map(|c| json!(shown_connection(c))).collect();
    let value = json!({
        "format": FORMAT,
        "version": VERSION,
        "url": explanation.url,
        "command": explanation.command,
        "equation": equation(&explanation.equation),
        "failed": explanation.failed,
        "findings": explanation.findings.all.iter().map(finding).collect::<Vec<_>>(),
        "server_models": explanation.server.rivals().iter().map(server_model).collect::<Vec<_>>(),
        "without_all_findings": explanation.findings.together.as_ref().map(saved),
        "server": explanation.reconciled.iter().map(reconciled).collect::<Vec<_>>(),
        "redirects": redirects,
        "other_client": explanation.beside.as_ref().map(beside::json),
        "variants": ways,
        "left_out": left_out,
        "warnings": explanation.warnings,
    });
    format!("{value}\n")
}

fn ns(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn interval(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |i| json!([i.low.round(), i.high.round()]))
}

fn equation(equation: &Equation) -> Value {
    let first = equation.first.as_ref().map(|(total, extras)| {
        let extras: Vec<Value> = extras
            .iter()
            .map(|e| {
                json!({
                    "kind": e.kind.name(),
                    "span": e.span.map(|s| s.name().to_lowercase()),
                    "round_trips": e.round_trips,
                    "ns": e.ns,
                })
            })
            .collect();
        json!({ "total_ns": ns(*total), "more": extras })
    });
    json!({
        "total_ns": ns(equation.total),
        "total_interval_ns": interval(equation.interval),
        "rtt_ns": equation.rtt.map(ns),
        "round_trips": equation.round_trips(),
        "terms": equation.terms.iter().map(term).collect::<Vec<_>>(),
        "typical": equation.typical,
        "of": equation.of,
        "first": first,
    })
}

fn term(term: &Term) -> Value {
    json!({
        "kind": term.kind.name(),
        "span": term.span.map(|s| s.name().to_lowercase()),
        "round_trips": term.round_trips,
        "ns": ns(term.time),
        "interval_ns": interval(term.interval),
        "doubt_ns": ns(term.doubt),
    })
}

fn finding(finding: &Finding) -> Value {
    let measured = finding.saving.measured.map(|Estimate { value, interval: i, .. }| {
        json!({ "ns": value.round(), "interval_ns": interval(i) })
    });
    json!({
        "kind": finding.kind.name(),
        "title": finding.title,
        "cost_ns": ns(finding.cost),
        "concerns": finding.concerns,
        "evidence": finding.evidence,
        "advice": advice::for_finding(finding),
        "saving_predicted": finding.saving.predicted.as_ref().map(saved),
        "saving_measured": measured,
    })
}

fn server_model((odds, model): &(f64, ServerModel)) -> Value {
    let ServerModel { initial_window, nagle: [http1, http2], full_buffer } = *model;
    json!({
        "odds": (odds * 1e3).round() / 1e3,
        "initial_window": initial_window,
        "nagle_http1": http1,
        "nagle_http2": http2,
        "small_send_buffer": full_buffer,
    })
}

fn saved(saved: &TimeSaved) -> Value {
    json!({ "total_ns": ns(saved.total), "first_byte_ns": saved.first_byte.map(ns) })
}

fn server_log(log: &ServerLogWitness) -> Value {
    let agreement = |it: &Agreement| json!({ "compared": it.compared, "agree": it.agree, "logged_yes": it.logged_yes });
    let [connect, header, response] = log.upstream.map(|time| time.map(ns));
    json!({
        "form": log.form.name(),
        "found": log.found,
        "of": log.of,
        "to": if log.to_first_byte { "first-byte" } else { "last-byte" },
        "step_ns": ns(log.step),
        "difference": log.difference.map(|it| {
            json!({ "ns": it.value.round(), "interval_ns": interval(it.interval) })
        }),
        "upstream_connect_ns": connect,
        "upstream_header_ns": header,
        "upstream_response_ns": response,
        "resumed": agreement(&log.resumed),
        "early_data": agreement(&log.early_data),
        "clock_ahead_ns": log.clock_ahead_ns,
    })
}

fn reconciled(reconciled: &Reconciled) -> Value {
    let (witness, metrics) = match &reconciled.witness {
        Witness::Log => ("log", None),
        Witness::ServerLog(_) => ("server-log", None),
        Witness::ServerTiming(names) => ("server-timing", Some(names)),
        Witness::Capture => ("capture", None),
    };
    let log = match &reconciled.witness {
        Witness::ServerLog(log) => Some(server_log(log)),
        _ => None,
    };
    json!({
        "witness": witness,
        "metrics": metrics,
        "log": log,
        "said_ns": ns(reconciled.said),
        "estimated_ns": ns(reconciled.estimated),
        "tolerance_ns": ns(reconciled.tolerance),
        "agrees": match reconciled.verdict() {
            Verdict::Agree => Some(true),
            Verdict::Differ => Some(false),
            Verdict::CannotTell => None,
        },
    })
}
