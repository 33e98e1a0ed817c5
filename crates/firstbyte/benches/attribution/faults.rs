//! The faults of a case, named after the shipped scenarios that contain them.

use crate::case::{Case, Names, Writes};

/// The faults, each with the shipped scenario that contains it, or `none`.
pub(crate) const FAULTS: [(&str, &str); 16] = [
    ("large chain", "big-chain"),
    ("small window", "curl-length"),
    ("slow handshake", "curl-length"),
    ("slow link", "curl-length"),
    ("dead IPv6", "broken-ipv6"),
    ("late names", "slow-dns"),
    ("late AAAA", "slow-aaaa"),
    ("SYN lost", "syn-loss"),
    ("other group", "hrr"),
    ("Nagle", "nagle"),
    ("no sessions", "no-tickets"),
    ("Retry", "quic-retry"),
    ("slow server", "slow-server"),
    ("losses", "pq"),
    ("pauses", ""),
    ("early data late", ""),
];

/// The faults of `case`, in the order of the table.
pub(crate) fn faults_in(case: &Case) -> Vec<String> {
    let ways = [case.up, case.down];
    let has = [
        case.chain >= 6_000,
        case.window <= 4,
        case.handshake_us > 0,
        ways.iter().any(|way| way.kbit.is_some()),
        case.names == Names::DeadIpv6,
        case.names == Names::Late,
        case.names == Names::LateIpv6,
        case.first_syn_lost,
        case.other_group,
        case.nagle,
        case.no_sessions,
        case.retry,
        case.think_us >= 2_000,
        ways.iter().any(|way| way.loss_permille > 0),
        matches!(case.writes, Writes::FlushThenThink { .. } | Writes::Paused { .. }),
        case.answers_after_finished(),
    ];
    FAULTS
        .iter()
        .zip(has)
        .filter(|(_, has)| *has)
        .map(|((name, _), _)| (*name).to_owned())
        .collect()
}
