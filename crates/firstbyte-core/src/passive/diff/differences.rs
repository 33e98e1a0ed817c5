//! Everything that is tested of one pair: shares and medians, before and after.

use std::collections::HashSet;

use super::seen::{Seen, Side};
use super::{Change, Figure, What};
use crate::stats::{Estimate, median, median_difference, share_difference};

/// Clients hardly ever come twice when fewer than one handshake in so many is of one that does.
const HARDLY_ANY: usize = 5;

/// All differences between `before` and `after`, whether they mean something or not.
pub(super) fn of(pair: usize, before: &Side, after: &Side) -> Vec<Change> {
    let sides = [before.in_order(), after.in_order()];
    let mut tests = Tests { pair, sides, found: Vec::new() };
    tests.resumption();
    tests.values(What::Version, |seen| seen.version);
    tests.values(What::CertificateKey, |seen| seen.key);
    tests.values(What::Group, |seen| seen.group);
    tests.share(What::HelloRetryRequest, |seen| seen.hello_retry_request);
    tests.share(What::Refused, |seen| Some(seen.refused));
    tests.share(What::Unanswered, |seen| Some(seen.unanswered));
    tests.share(What::Reset, |seen| Some(seen.reset));
    tests.share(What::Alert, |seen| Some(seen.alert));
    tests.time(What::ServerRoundTrip, |seen| seen.server_rtt);
    tests.time(What::ClientRoundTrip, |seen| seen.client_rtt);
    tests.time(What::ServerTimeFull, |seen| seen.timed(false).map(|(_, server)| server));
    tests.time(What::ServerTimeShort, |seen| seen.timed(true).map(|(_, server)| server));
    tests.time(What::ServerTimeExchange, |seen| seen.exchange_server);
    tests.found
}

struct Tests<'a> {
    pair: usize,
    sides: [Vec<&'a Seen>; 2],
    found: Vec<Change>,
}

impl Tests<'_> {
    fn known<T>(&self, of: impl Fn(&Seen) -> Option<T>) -> [Vec<T>; 2] {
        self.sides.each_ref().map(|side| side.iter().filter_map(|seen| of(seen)).collect())
    }

    fn share(&mut self, what: What, is: impl Fn(&Seen) -> Option<bool>) {
        let known = self.known(is);
        self.share_of(what, &known[0], &known[1]);
    }

    fn share_of(&mut self, what: What, before: &[bool], after: &[bool]) {
        // What never was on either side cannot have changed: not a test.
        let mut all = before.iter().chain(after);
        if all.clone().any(|it| *it) && !all.all(|it| *it) {
            self.push(what, [share(before), share(after)], share_difference(before, after));
        }
    }

    /// A client that comes for the first time has nothing to resume, and a capture begins with many of
    /// these: of each client, server and version the first handshake is not counted, on both sides. Where hardly any
    /// client comes twice, all are.
    fn resumption(&mut self) {
        let returning = self.sides.each_ref().map(|side| returning(side));
        let handshakes = self.known(|seen| seen.resumed);
        let hardly_any = returning
            .iter()
            .zip(&handshakes)
            .all(|(some, all)| some.len() < all.len() / HARDLY_ANY);
        let [before, after] = if hardly_any { handshakes } else { returning };
        self.share_of(What::Resumption, &before, &after);
    }

    fn values<T: Copy + Eq>(&mut self, what: impl Fn(T) -> What, of: impl Fn(&Seen) -> Option<T>) {
        let mut values: Vec<T> = Vec::new();
        for value in self.known(&of).into_iter().flatten() {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        // With two values one says what the other does.
        let tested = if values.len() <= 2 { 1 } else { values.len() };
        for value in values.into_iter().take(tested) {
            self.share(what(value), |seen| of(seen).map(|it| it == value));
        }
    }

    fn time(&mut self, what: What, of: impl Fn(&Seen) -> Option<f64>) {
        let [before, after] = &self.known(of);
        let figure =
            |side: &[f64]| median(side).map(|value| Figure { value, count: None, of: side.len() });
        self.push(what, [figure(before), figure(after)], median_difference(before, after));
    }

    fn push(&mut self, what: What, figures: [Option<Figure>; 2], difference: Option<Estimate>) {
        if let ([Some(before), Some(after)], Some(difference)) = (figures, difference) {
            self.found.push(Change {
                pair: self.pair,
                what,
                before,
                after,
                difference,
                p_adjusted: 1.0,
                cost: None,
                handshakes: None,
            });
        }
    }
}

/// Whether handshakes were short, without the first of each client, server and version.
fn returning(side: &[&Seen]) -> Vec<bool> {
    let mut met = HashSet::new();
    side.iter()
        .filter_map(|seen| Some((seen, seen.resumed?)))
        .filter_map(|(seen, resumed)| {
            (!met.insert((seen.between, seen.version))).then_some(resumed)
        })
        .collect()
}

fn share(values: &[bool]) -> Option<Figure> {
    let count = values.iter().filter(|value| **value).count();
    let of = values.len();
    (of > 0).then(|| Figure { value: count as f64 / of as f64, count: Some(count), of })
}
