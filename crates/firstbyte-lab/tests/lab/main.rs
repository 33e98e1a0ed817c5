//! Labs on the real kernel.
//!
//! A test harness of its own, because a lab is made by forking a process that has one thread. Arguments are parts of
//! names of tests to run. Root makes labs by other calls than everybody else: `scripts/test` runs these as both.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test")]

mod acks;
mod captures;
mod http3;
mod life;
mod links;
mod servers;
mod stories;
mod support;
mod windows;
mod zoo;

use std::process::ExitCode;

type Test = (&'static str, fn());

const TESTS: [Test; 48] = [
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

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(role) = arguments.first().and_then(|argument| argument.strip_prefix("--role=")) {
        return life::play(role);
    }
    let wanted: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let user = if support::is_root() { "root" } else { "an ordinary user" };
    let mut failed = Vec::new();
    for (name, test) in selected(&wanted) {
        let passed = std::panic::catch_unwind(test).is_ok();
        println!("test {name} (as {user}) ... {}", if passed { "ok" } else { "FAILED" });
        if !passed {
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed as {user}: {}", failed.join(", "));
    ExitCode::FAILURE
}

/// The tests whose names have one of these parts; all where there is none.
fn selected<'a>(wanted: &'a [&str]) -> impl Iterator<Item = &'static Test> + 'a {
    TESTS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|part| name.contains(part)))
}
