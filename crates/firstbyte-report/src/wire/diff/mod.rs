//! Changes between captures: a table with a sentence per change; rows of CSV; a page.

mod beside;
mod csv;
mod page;
mod projected;

pub use beside::text as beside;
pub use csv::write as csv;
pub use page::{Page, Read, page};

use std::fmt::Write as _;
use std::time::Duration;

use firstbyte_passive::Failed;
use firstbyte_passive::diff::{Change, Changes, Cost, Figure, Of, Pair, Total, What};
use firstbyte_passive::document::value_name;

use super::{count, fit, time};
use crate::Style;
use crate::style::wrap;

/// The result of comparing `pairs`, followed by the names of servers that are on one side only.
pub fn diff(changes: &Changes, pairs: &[Pair], only: [&[String]; 2], style: &Style) -> String {
    let mut text = String::new();
    for (servers, side) in only.into_iter().zip(["before", "after"]) {
        if !servers.is_empty() {
            let words: Vec<String> = servers
                .iter()
                .map(|server| style.safe(server))
                .collect::<Vec<_>>()
                .join(", ")
                .split(' ')
                .map(str::to_owned)
                .collect();
            push(&mut text, &wrap(&format!("only {side}: "), &words, style.columns()));
        }
    }
    if changes.changes.is_empty() {
        push(&mut text, &wrap("", &words(&nothing(changes, pairs)), style.columns()));
        return text;
    }
    text.push_str(&table(changes, style));
    for (number, change) in changes.changes.iter().enumerate() {
        let first = format!("{:>2}  ", number + 1);
        let sentence = style.safe(&sentence(change, &pairs[change.pair]));
        text.push('\n');
        push(&mut text, &wrap(&first, &words(&sentence), style.columns()));
    }
    for total in &changes.totals {
        let several = changes.totals.len() > 1;
        let sentence = style.safe(&in_all(total, several.then(|| &pairs[total.pair])));
        text.push('\n');
        push(&mut text, &wrap("", &words(&sentence), style.columns()));
    }
    text.push_str(&projected::text(changes, pairs, style));
    text
}

fn nothing(changes: &Changes, pairs: &[Pair]) -> String {
    let few = match changes.too_few {
        0 => String::new(),
        few => format!("; {} more have too few connections for a verdict", count(few as u64)),
    };
    match (pairs.len(), changes.tested) {
        (0, _) => "nothing to compare: no server is on both sides".to_owned(),
        (_, 0) => {
            "no verdict: too few connections (at least 20 on each side are needed)".to_owned()
        }
        (servers, tested) => format!(
            "no change: of {} differences tested in {}, none is both certain and large enough to \
             matter{few}",
            count(tested as u64),
            if servers == 1 {
                "one comparison".to_owned()
            } else {
                format!("{} comparisons", count(servers as u64))
            },
        ),
    }
}

fn table(changes: &Changes, style: &Style) -> String {
    let mut text = String::from(
        " #  what                      before     after   95 % interval per conn    per s\n",
    );
    for (number, change) in changes.changes.iter().enumerate() {
        let interval = change.difference.interval.map(|interval| {
            let [low, high] = [interval.low, interval.high];
            match change.what.is_share() {
                true => format!("{:+.0} to {:+.0} %", 100.0 * low, 100.0 * high),
                false => format!("{:+.1}..{:+.1} ms", 1e3 * low, 1e3 * high),
            }
        });
        let cost = change.cost.as_ref();
        let line = format!(
            "{:>2}  {:<22} {:>9} {:>9}  {:>14} {:>8} {:>8}",
            number + 1,
            fit(&what(change.what), 22),
            figure(change.what, &change.before),
            figure(change.what, &change.after),
            interval.unwrap_or_default(),
            cost.map(|cost| signed(cost.per_connection)).unwrap_or_default(),
            cost.and_then(|cost| cost.per_second).map(signed).unwrap_or_default(),
        );
        let _ = writeln!(text, "{}", style.safe(line.trim_end()));
    }
    text
}

/// "10.0.0.5:443: resumption fell from 81 % to 0 % of the handshakes of clients that came before (n 640 → 655); …"
fn sentence(change: &Change, pair: &Pair) -> String {
    let [was, is] = [&change.before, &change.after].map(|side| figure(change.what, side));
    let n = format!("n {} → {}", count(change.before.of as u64), count(change.after.of as u64));
    let fell = change.difference.value < 0.0;
    let what = match &change.replaced {
        Some((other, _)) => {
            let values = if fell { [change.what, *other] } else { [*other, change.what] };
            let [from, to] = values.map(|value| value_name(value).unwrap_or_default());
            format!(
                "{}{from} → {to}: {}",
                family(change.what),
                value_name(change.what).unwrap_or_default()
            )
        }
        None => phrase(change.what),
    };
    let of = of_which(change.of);
    let mut text = match &pair.against {
        Some(against) => {
            let name = &pair.name;
            format!("{name}, compared with {against}: {what} {is} instead of {was}{of} ({n})")
        }
        None => {
            let verb = if fell { "fell" } else { "rose" };
            format!("{}: {what} {verb} from {was} to {is}{of} ({n})", pair.name)
        }
    };
    for (of, figures) in &change.also {
        let [was, is] = figures.each_ref().map(|side| figure(change.what, side));
        let [before, after] = figures.each_ref().map(|side| count(side.of as u64));
        let _ = write!(text, ",{} {was} → {is} (n {before} → {after})", of_which(*of));
    }
    if let Some(both) = change.handshakes
        && let Some(ratio) = both.ratio()
    {
        let _ = write!(
            text,
            "; a full handshake takes {ratio:.1} times as long as a short one ({}, n {}; short: \
             {}, n {})",
            time(Duration::from_secs_f64(both.full)),
            count(both.full_count as u64),
            time(Duration::from_secs_f64(both.short)),
            count(both.short_count as u64),
        );
    }
    if let Some(server) = change.server_time.filter(|seconds| seconds.abs() >= LEAST_SHOWN) {
        let handshakes = match change.what {
            What::CertificateKey(_) => "full handshakes",
            _ => "handshakes",
        };
        let _ = write!(text, "; the server's {handshakes} {}", plus(server));
    }
    if let Some(cost) = &change.cost {
        text.push_str(&costs(cost));
    }
    text
}

/// Parts of a sum below this are not mentioned, seconds.
const LEAST_SHOWN: f64 = 10e-6;

/// "in all a connection takes 12.4 ms instead of 9.10 ms: +3.30 ms, of which +3.20 ms named above, …"
fn in_all(total: &Total, pair: Option<&Pair>) -> String {
    let name = pair.map(|pair| format!("{}: ", pair.name)).unwrap_or_default();
    let sum = &total.captured;
    let [was, is] = sum.sides.map(span);
    let mut text = format!(
        "{name}in total, a connection takes {is} instead of {was}: {}, of which the changes above \
         explain {}",
        plus(sum.difference()),
        plus(sum.named)
    );
    let others = [
        (sum.clients, "come from a different mix of clients"),
        (sum.exchanges, "from a different number of exchanges"),
        (sum.rest, "have no known cause"),
    ];
    for (seconds, what) in others.into_iter().filter(|(seconds, _)| seconds.abs() >= LEAST_SHOWN) {
        let _ = write!(text, ", {} {what}", plus(seconds));
    }
    text
}

fn plus(seconds: f64) -> String {
    let size = span(seconds.abs());
    if seconds < 0.0 { format!("−{size}") } else { format!("+{size}") }
}

/// The population of a share.
const fn of_which(of: Of) -> &'static str {
    match of {
        Of::Connections => " of all connections",
        Of::Handshakes => " of all handshakes",
        Of::Returning => " of the handshakes of returning clients",
        Of::Offered => " of the handshakes with a session offered",
        Of::Answered => " of the connections with a ServerHello",
        Of::Shown => " of the handshakes that show one",
        Of::Timed => "",
    }
}

/// Category of a value, if its name does not tell.
const fn family(what: What) -> &'static str {
    match what {
        What::CertificateKey(_) => "key ",
        What::Group(_) => "group ",
        What::CipherSuite(_) => "cipher ",
        _ => "",
    }
}

fn costs(cost: &Cost) -> String {
    let size = |seconds: f64| span(seconds.abs());
    let verb = if cost.per_connection < 0.0 { "saves" } else { "costs" };
    let each_second = cost.per_second.map(|seconds| format!(", {} per second", size(seconds)));
    format!(
        "; this {verb} {} per connection{}",
        size(cost.per_connection),
        each_second.unwrap_or_default()
    )
}

/// The name of a change as in tables, but in full words where tables abbreviate.
fn phrase(it: What) -> String {
    match it {
        What::ServerRoundTrip => "the round trip between tap and server".into(),
        What::ClientRoundTrip => "the round trip between tap and client".into(),
        What::ServerTimeFull => "the server's time in full handshakes".into(),
        What::ServerTimeShort => "the server's time in short handshakes".into(),
        What::ServerTimeExchange => "the server's time in exchanges".into(),
        What::Failed(Failed::Refused) => "connections refused".into(),
        What::Failed(Failed::Unanswered) => "connections without an answer".into(),
        What::Failed(Failed::Reset) => "connections reset before the handshake was over".into(),
        What::Failed(Failed::Closed) => "connections closed before the handshake was over".into(),
        What::Failed(Failed::Alert) => "connections ended by an alert in the handshake".into(),
        _ => what(it),
    }
}

/// A time that may be longer than a connection.
fn span(seconds: f64) -> String {
    if seconds >= 0.9995 {
        format!("{seconds:.2} s")
    } else {
        time(Duration::from_secs_f64(seconds))
    }
}

fn what(what: What) -> String {
    match what {
        What::Resumption => "resumption".into(),
        What::HelloRetryRequest => "HelloRetryRequest".into(),
        What::ServerRoundTrip => "round trip to server".into(),
        What::ClientRoundTrip => "round trip to client".into(),
        What::ServerTimeFull => "server, full handshake".into(),
        What::ServerTimeShort => "server, short hshake".into(),
        What::ServerTimeExchange => "server, exchange".into(),
        What::Failed(Failed::Refused) => "refused".into(),
        What::Failed(Failed::Unanswered) => "unanswered".into(),
        What::Failed(Failed::Alert) => "alerts".into(),
        What::Failed(Failed::Reset) => "reset in handshake".into(),
        What::Failed(Failed::Closed) => "closed in handshake".into(),
        What::CertificateKey(_) | What::Group(_) | What::CipherSuite(_) | What::Version(_) => {
            format!("{}{}", family(what), value_name(what).unwrap_or_default())
        }
    }
}

fn figure(what: What, figure: &Figure) -> String {
    match what.is_share() {
        true if what.is_error() => format!("{:.1} %", 100.0 * figure.value),
        true => format!("{:.0} %", 100.0 * figure.value),
        false => time(Duration::from_secs_f64(figure.value)),
    }
}

fn signed(seconds: f64) -> String {
    let size = span(seconds.abs());
    if seconds < 0.0 { format!("-{size}") } else { size }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn push(text: &mut String, lines: &[String]) {
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

#[cfg(test)]
pub(super) mod tests {
    use firstbyte_core::stats::{Estimate, Interval};
    use firstbyte_passive::CertificateKey;
    use firstbyte_passive::diff::{FullAndShort, Side, Sum, Within};

    use super::*;

    fn estimate(value: f64, reach: f64) -> Estimate {
        let interval = Some(Interval { low: value - reach, high: value + reach });
        Estimate { value, interval, p_value: Some(0.001) }
    }

    pub(super) fn found() -> (Changes, Vec<Pair>) {
        let resumption = Change {
            pair: 0,
            what: What::Resumption,
            of: Of::Returning,
            within: Within { version: true, ..Within::default() },
            replaced: None,
            also: vec![(Of::Offered, [share(518, 520), share(0, 655)])],
            before: Figure { value: 0.81, count: Some(518), of: 640 },
            after: Figure { value: 0.0, count: Some(0), of: 655 },
            difference: estimate(-0.81, 0.04),
            p_adjusted: 1e-9,
            cost: Some(Cost { per_connection: 0.0292, interval: None, per_second: Some(1.91) }),
            server_time: None,
            handshakes: Some(FullAndShort {
                full: 0.0412,
                full_count: 777,
                short: 0.0051,
                short_count: 518,
            }),
            round_trips: Some(0.81),
            projected: Vec::new(),
        };
        let server_time = Change {
            pair: 1,
            what: What::ServerTimeExchange,
            of: Of::Timed,
            also: Vec::new(),
            before: Figure { value: 0.003, count: None, of: 640 },
            after: Figure { value: 0.0021, count: None, of: 655 },
            difference: estimate(-0.0009, 0.0002),
            cost: Some(Cost { per_connection: -0.009, interval: None, per_second: None }),
            handshakes: None,
            ..resumption.clone()
        };
        let pair = |name: &str, against: Option<&str>| Pair {
            name: name.into(),
            against: against.map(str::to_owned),
            before: Side::default(),
            after: Side::default(),
        };
        let pairs = vec![pair("10.0.0.5:443", None), pair("b", Some("a"))];
        let total = Total {
            pair: 0,
            connections: [640, 655],
            captured: Sum {
                sides: [0.0511, 0.0804],
                named: 0.0292,
                clients: -0.0001,
                exchanges: 0.0,
                rest: 0.0002,
            },
            round_trip: Some([0.00041, 0.00043]),
            round_trips: Some([3.2, 4.01]),
            projected: Vec::new(),
        };
        let changes = vec![resumption, server_time];
        let totals = vec![total];
        (Changes { changes, totals, tested: 28, ..Changes::default() }, pairs)
    }

    /// The same, with its cost at 80 ms; at 300 ms it is unknown.
    pub(super) fn at_80_ms() -> (Changes, Vec<Pair>) {
        let (mut changes, pairs) = found();
        changes.projected_to = vec![0.08, 0.3];
        for change in &mut changes.changes {
            let cost = change.cost.unwrap();
            let far = Cost { per_connection: cost.per_connection + 0.0646, ..cost };
            change.projected = vec![Some(far), None];
        }
        let total = &mut changes.totals[0];
        let far = Sum { sides: [0.3059, 0.3998], named: 0.0938, ..total.captured };
        total.projected = vec![Some(far), None];
        (changes, pairs)
    }

    fn share(count: usize, of: usize) -> Figure {
        Figure { value: count as f64 / of as f64, count: Some(count), of }
    }

    #[test]
    fn what_replaced_what_is_named_with_what_the_server_takes_longer() {
        let (changes, pairs) = found();
        let old = What::CertificateKey(CertificateKey::P256);
        let new = What::CertificateKey(CertificateKey::Rsa(3072));
        let change = Change {
            what: old,
            of: Of::Shown,
            before: share(600, 600),
            after: share(0, 610),
            replaced: Some((new, [share(0, 600), share(610, 610)])),
            also: Vec::new(),
            server_time: Some(0.0032),
            handshakes: None,
            ..changes.changes[0].clone()
        };
        let text = sentence(&change, &pairs[0]);
        assert!(
            text.starts_with(
                "10.0.0.5:443: key ECDSA P-256 → RSA 3072: ECDSA P-256 fell from 100 % to 0 % of the \
                 handshakes that show one (n 600 → 610); the server's full handshakes +3.20 ms; this costs"
            ),
            "{text}"
        );
        let turned = Change {
            what: new,
            before: change.after,
            after: change.before,
            replaced: Some((old, [change.before, change.after])),
            difference: estimate(1.0, 0.01),
            ..change
        };
        let text = sentence(&turned, &pairs[0]);
        assert!(text.contains("key ECDSA P-256 → RSA 3072: RSA 3072 rose from 0 %"), "{text}");
    }

    #[test]
    fn a_change_is_a_line_and_a_sentence() {
        let (changes, pairs) = found();
        let only = ["old.test (10.0.0.9:443)".to_owned()];
        let text = diff(&changes, &pairs, [&only, &[]], &Style::default());
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("81 %       0 %") && text.contains("8.1 times"), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn without_a_change_it_says_what_was_tested() {
        let (_, pairs) = found();
        let none = Changes { tested: 28, too_few: 3, ..Changes::default() };
        let text = diff(&none, &pairs, [&[], &[]], &Style::default());
        assert!(text.starts_with("no change: of 28 differences tested"), "{text}");
        assert!(text.contains("3 more have too few"), "{text}");
        let few = Changes { tested: 0, ..none };
        assert!(diff(&few, &pairs, [&[], &[]], &Style::default()).starts_with("no verdict"));
        assert!(diff(&few, &[], [&[], &[]], &Style::default()).starts_with("nothing to compare"));
    }
}
