//! An access network before the client's own link.

use firstbyte_core::access::{AccessProfile, loss_of_both, lowest_rate};

use super::{LinkSettings, PathSettings, Rate, Role, Scenario};

impl Scenario {
    /// Adds an access network before the client's link, for both families. Delays and jitter are added, the
    /// lower rate applies, and losses combine.
    #[must_use]
    pub fn with_access(mut self, access: &AccessProfile) -> Self {
        let client = self.hosts.iter_mut().find(|host| host.role == Role::Client);
        if let Some(client) = client {
            let AccessProfile { up_jitter, down_jitter, .. } = *access;
            add(&mut client.up, access, up_jitter, access.up_bits_per_second);
            add(&mut client.down, access, down_jitter, access.down_bits_per_second);
        }
        for change in &mut self.changes {
            change.scenario = change.scenario.clone().with_access(access);
        }
        self
    }
}

fn add(
    link: &mut LinkSettings,
    access: &AccessProfile,
    jitter: std::time::Duration,
    bits_per_second: u64,
) {
    let lower = |rate: Option<Rate>| {
        let own = rate.map(Rate::bits_per_second);
        Rate::from_bits_per_second(lowest_rate(own, Some(bits_per_second))?)
    };
    link.rate = lower(link.rate);
    let add = |path: &mut PathSettings| {
        path.delay += access.delay_each_way();
        path.jitter += jitter;
        path.loss = loss_of_both(path.loss, access.loss);
        // A family without its own rate shares the link's.
        path.rate = path.rate.and_then(|rate| lower(Some(rate)));
    };
    add(&mut link.ipv4);
    add(&mut link.ipv6);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::Family;

    #[test]
    fn an_access_network_comes_before_the_link() {
        let source = r#"
description = "for a test"
[[host]]
name = "client"
role = "client"
ipv4 = "192.0.2.10"
up = { delay = "3ms", rate = "1mbit", loss = "1%" }
down = { delay = "3ms" }
[[host]]
name = "server"
role = "server"
ipv4 = "198.51.100.1"
names = ["server.test"]
up = { delay = "10ms" }
"#;
        let plain = Scenario::parse("test", "test.toml", source).unwrap();
        let access = AccessProfile::named("4g").unwrap();
        let with = plain.clone().with_access(access);
        let rtt = |scenario: &Scenario| {
            let (client, server) = (scenario.client(), scenario.host("server").unwrap());
            scenario.round_trip(client, server, Family::V4)
        };
        // Without jitter: the average includes half of the maximum jitter.
        let least = access.round_trip - (access.up_jitter + access.down_jitter) / 2;
        assert_eq!(rtt(&with) - rtt(&plain), least);
        let client = with.client();
        assert_eq!(client.up.rate.map(Rate::bits_per_second), Some(1_000_000));
        assert_eq!(client.down.rate.map(Rate::bits_per_second), Some(14_700_000));
        assert!((client.up.ipv4.loss - (1.0 - 0.99 * 0.998)).abs() < 1e-12);
        assert_eq!(client.down.ipv4.jitter, Duration::from_millis(5));
        assert_eq!(with.host("server"), plain.host("server"));
    }
}
