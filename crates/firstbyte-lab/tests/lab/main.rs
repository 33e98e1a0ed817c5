//! Labs on the real kernel.
//!
//! A custom test harness, because a lab is made by forking a process that has one thread. Each test is a
//! process, and as many run side by side as there are permits. Arguments select tests by parts of their
//! names. Root makes labs with other system calls than everybody else, so `scripts/test` runs these tests as both.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod acks;
mod captures;
mod changes;
mod http3;
mod life;
mod links;
#[allow(dead_code, reason = "shared with the other suites")]
mod permits;
mod servers;
mod stories;
mod support;
mod windows;
mod zoo;

use std::process::{Command, ExitCode, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use permits::Permits;

type Test = (&'static str, fn());

const TESTS: [Test; 52] = [
    ("links::round_trip_is_as_configured_over_both_families", links::round_trip),
    ("links::loss_is_as_configured_and_counted", links::loss),
    ("links::a_packet_above_the_mtu_is_answered", links::mtu),
    ("links::rate_bounds_a_transfer", links::rate),
    ("links::the_first_data_is_lost_where_the_scenario_says_so", links::opening_loss),
    ("links::families_differ_where_the_scenario_says_so", links::families),
    ("windows::the_first_is_the_senders", windows::of_the_sender),
    ("windows::the_first_is_the_receivers_where_that_is_smaller", windows::of_the_receiver),
    ("windows::the_first_has_ten_segments", windows::default),
    ("windows::congestion_control_is_the_labs_or_the_hosts", windows::congestion_control),
    ("acks::are_delayed_or_quick", acks::delayed_or_quick),
    ("acks::the_shortest_retransmission_timeout_is_the_senders", acks::retransmission_timeout),
    ("changes::links_change_while_it_runs", changes::links),
    ("changes::servers_change_while_it_runs", changes::servers),
    ("changes::servers_fail_and_recover_while_it_runs", changes::outages),
    ("changes::a_name_may_have_several_edges", changes::edges),
    ("servers::nginx_answers_over_both_families", servers::nginx),
    ("servers::builtin_answers_over_both_families", servers::builtin),
    ("servers::builtin_takes_its_time", servers::delays),
    ("servers::a_directive_that_nginx_refuses_is_shown", servers::bad_directive),
    ("servers::dns_answers_the_c_library", servers::dns),
    ("servers::dns_may_be_late", servers::late_dns),
    ("servers::logs_are_copied_out", servers::logs),
    ("servers::caddy_answers_over_both_families", servers::caddy),
    ("servers::nginx_does_what_the_scenario_says_of_sessions", servers::nginx_sessions),
    ("zoo::answers_and_resumes", zoo::answers),
    ("zoo::negotiates_and_delays", zoo::handshakes),
    ("zoo::traces_what_is_written", zoo::traces),
    ("zoo::takes_early_data", zoo::early_data),
    ("zoo::writes_as_it_is_told", zoo::patterns),
    ("http3::the_built_in_server_in_as_many_round_trips_as_there_are", http3::builtin),
    ("http3::early_data_may_be_answered_late", http3::late_early_data),
    ("http3::initial_window_is_as_configured", http3::initial_window),
    ("http3::writes_as_it_is_told", http3::patterns),
    ("http3::beside_nginx_with_its_certificate", http3::beside_nginx),
    ("http3::caddy", http3::caddy),
    ("http3::a_retry_costs_a_round_trip", http3::retry),
    ("http3::a_long_chain_costs_a_round_trip", http3::amplification_limit),
    ("http3::uploads_lose_nothing_to_segmentation_or_mtu", http3::uploads),
    ("stories::codavel_nginx_saves_a_round_trip_by_early_data", stories::codavel_nginx),
    ("stories::codavel_built_in_saves_a_round_trip_by_early_data", stories::codavel_builtin),
    ("stories::pq_has_the_published_medians", stories::pq),
    ("captures::hold_both_directions_at_three_places", captures::three_places),
    ("captures::are_readable_by_others", captures::readable_by_others),
    ("captures::that_cannot_be_written_are_an_error", captures::not_writable),
    ("life::a_command_has_the_environment_and_its_exit_code_is_kept", life::command),
    ("life::killing_the_caller_leaves_nothing", life::kill_caller),
    ("life::killing_the_lab_leaves_nothing", life::kill_lab),
    ("life::a_signal_reaches_the_command", life::signal),
    ("life::up_run_down", life::up_run_down),
    ("life::a_process_with_threads_is_refused", life::threads),
    ("life::refused_namespaces_are_explained", life::refused),
];

/// Tests that need an idle machine: they measure microseconds, or count processes and devices left by a lab.
const ON_IDLE_MACHINE: [&str; 5] = [
    "links::round_trip_is_as_configured_over_both_families",
    "life::killing_the_caller_leaves_nothing",
    "life::killing_the_lab_leaves_nothing",
    "life::a_signal_reaches_the_command",
    "life::up_run_down",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut first = arguments.iter().map(String::as_str);
    match (first.next(), first.next()) {
        (Some(role), _) if role.starts_with("--role=") => return life::play(&role[7..]),
        (Some("--alone"), Some(name)) => return run_in_this_process(name),
        _ => {}
    }
    // No test is ignored.
    if arguments.iter().any(|argument| argument == "--ignored") {
        return ExitCode::SUCCESS;
    }
    let wanted: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let (idle, busy): (Vec<_>, Vec<_>) =
        selected(&wanted).partition(|name| ON_IDLE_MACHINE.contains(name));
    let failed = Mutex::new(Vec::new());
    for name in idle {
        let _permits = Permits::all();
        run_in_process_of_its_own(name, &failed);
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..permits::COUNT {
            scope.spawn(|| {
                while let Some(name) = busy.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let _permit = Permits::one();
                    run_in_process_of_its_own(name, &failed);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed as {}: {}", user(), failed.join(", "));
    ExitCode::FAILURE
}

fn user() -> &'static str {
    if support::is_root() { "root" } else { "an ordinary user" }
}

fn run_in_this_process(name: &str) -> ExitCode {
    let (_, test) = TESTS.iter().find(|(known, _)| *known == name).expect("a test of this name");
    test();
    ExitCode::SUCCESS
}

/// Prints what the test printed only if it failed, as `cargo test` does.
fn run_in_process_of_its_own(name: &'static str, failed: &Mutex<Vec<&'static str>>) {
    let own = std::env::current_exe().unwrap();
    let mut command = Command::new(own);
    command.args(["--alone", name]).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
    let outcome = if status.success() { "ok" } else { "FAILED" };
    println!("test {name} (as {}) ... {outcome}", user());
    if !status.success() {
        println!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        failed.push(name);
    }
}

/// The tests whose names contain one of `wanted`; all tests if `wanted` is empty.
fn selected<'a>(wanted: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
    TESTS
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| wanted.is_empty() || wanted.iter().any(|part| name.contains(part)))
}
