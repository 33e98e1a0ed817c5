//! The scenarios that come with the crate: name and file.

/// Published measurements, then faults, then rulers for clients, pages and instruments.
pub(super) const SHIPPED: [(&str, &str); 23] = [
    ("govuk", include_str!("../../scenarios/govuk.toml")),
    ("codavel", include_str!("../../scenarios/codavel.toml")),
    ("pq", include_str!("../../scenarios/pq.toml")),
    ("curl-length", include_str!("../../scenarios/curl-length.toml")),
    ("nam", include_str!("../../scenarios/nam.toml")),
    ("nagle", include_str!("../../scenarios/nagle.toml")),
    ("syn-loss", include_str!("../../scenarios/syn-loss.toml")),
    ("big-chain", include_str!("../../scenarios/big-chain.toml")),
    ("hrr", include_str!("../../scenarios/hrr.toml")),
    ("slow-dns", include_str!("../../scenarios/slow-dns.toml")),
    ("slow-aaaa", include_str!("../../scenarios/slow-aaaa.toml")),
    ("broken-ipv6", include_str!("../../scenarios/broken-ipv6.toml")),
    ("no-tickets", include_str!("../../scenarios/no-tickets.toml")),
    ("slow-server", include_str!("../../scenarios/slow-server.toml")),
    ("redirect-chain", include_str!("../../scenarios/redirect-chain.toml")),
    ("quic-retry", include_str!("../../scenarios/quic-retry.toml")),
    ("clean", include_str!("../../scenarios/clean.toml")),
    ("monitor", include_str!("../../scenarios/monitor.toml")),
    ("clients", include_str!("../../scenarios/clients.toml")),
    ("page", include_str!("../../scenarios/page.toml")),
    ("accuracy", include_str!("../../scenarios/accuracy.toml")),
    ("capacity", include_str!("../../scenarios/capacity.toml")),
    ("quiet", include_str!("../../scenarios/quiet.toml")),
];
